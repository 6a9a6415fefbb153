//! A node that does as it is told: answers, hangs, refuses, lies, or talks nonsense.
//!
//! Its keys never expire by themselves, so that a test decides when time passes. It understands
//! only what the client says, and knows the two scripts by what they call.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How the node treats the requests for locks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mood {
    /// It does what is asked.
    Serves,
    /// It reads and answers nothing until its mood changes; then it does what was asked.
    Hangs,
    /// It does what is asked after this time.
    Delays(Duration),
    /// It answers every request with this error.
    Refuses(&'static str),
    /// It carries requests out and closes instead of answering.
    Drops,
    /// It answers with these bytes.
    Babbles(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) keys: HashMap<String, (String, u64)>,
    pub(crate) mood: Mood,
    pub(crate) log: Vec<String>,
    pub(crate) info: String,
    pub(crate) knows_get: bool,
    pub(crate) has_scripts: bool,
    pub(crate) password: Option<&'static str>,
    /// It repeats in its errors what it was sent, as servers do that do not know AUTH.
    pub(crate) repeats_login: bool,
    pub(crate) connections: usize,
}

type Hook = Box<dyn Fn() + Send + Sync>;

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stopped: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
    on_set: Mutex<Option<Hook>>,
}

/// A node listening on a port of its own.
pub(crate) struct FakeNode {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl FakeNode {
    pub(crate) fn start(id: &str) -> Self {
        let state = State {
            keys: HashMap::new(),
            mood: Mood::Serves,
            log: Vec::new(),
            info: format!("# Server\r\nrun_id:{id}\r\n"),
            knows_get: true,
            has_scripts: true,
            password: None,
            repeats_login: false,
            connections: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            streams: Mutex::new(Vec::new()),
            on_set: Mutex::new(None),
        });
        Self::listen(shared)
    }

    /// The same node under another address.
    pub(crate) fn alias(&self) -> Self {
        Self::listen(Arc::clone(&self.shared))
    }

    /// The same node on a Unix socket too.
    pub(crate) fn listen_at(&self, path: &Path) {
        let listener = UnixListener::bind(path).unwrap();
        let shared = Arc::clone(&self.shared);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, stream) = (Arc::clone(&shared), stream.unwrap());
                shared.lock().connections += 1;
                std::thread::spawn(move || converse(&shared, stream));
            }
        });
    }

    fn listen(shared: Arc<Shared>) -> Self {
        // An address of its own for every node: clients of other tests that still look for a
        // stopped node must not find this one on the same port.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let [high, low] = NEXT.fetch_add(1, Ordering::SeqCst).to_be_bytes();
        let listener = TcpListener::bind((Ipv4Addr::new(127, 77, high, low), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                accepting
                    .streams
                    .lock()
                    .unwrap()
                    .push(stream.try_clone().unwrap());
                accepting.lock().connections += 1;
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || {
                    converse(&shared, &stream);
                    // It may be closed already.
                    let _closed = stream.shutdown(Shutdown::Both);
                });
            }
        });
        Self { shared, address }
    }

    pub(crate) fn five() -> Vec<Self> {
        (1..=5)
            .map(|number| Self::start(&format!("node{number}")))
            .collect()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        self.shared.lock().mood = mood;
        self.shared.changed.notify_all();
    }

    /// Called for every request to take a lock, before it is answered.
    pub(crate) fn on_set(&self, hook: impl Fn() + Send + Sync + 'static) {
        *self.shared.on_set.lock().unwrap() = Some(Box::new(hook));
    }

    /// Has the lock held by somebody for so many milliseconds.
    pub(crate) fn hold(&self, name: &str, holder: &str, left_ms: u64) {
        let held = (holder.to_owned(), left_ms);
        self.state().keys.insert(name.to_owned(), held);
    }

    pub(crate) fn holder(&self, name: &str) -> Option<String> {
        self.state().keys.get(name).map(|(token, _)| token.clone())
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.state()
            .log
            .iter()
            .filter(|line| line.contains(part))
            .count()
    }

    /// Closes all connections, as a node that is restarted does.
    pub(crate) fn cut(&self) {
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            // It may be closed already.
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.set_mood(Mood::Drops);
        self.cut();
        // Wakes the thread that accepts.
        let _woken = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// Answers what comes until the connection ends, which it does when this returns.
fn converse(shared: &Shared, mut stream: impl Read + Write) {
    let mut buffer = Vec::new();
    loop {
        let mut out = Vec::new();
        while let Some((arguments, used)) = request(&buffer) {
            buffer.drain(..used);
            match answer(shared, &arguments) {
                Some(reply) => out.extend(reply),
                None => return,
            }
        }
        if stream.write_all(&out).is_err() {
            return;
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => buffer.extend_from_slice(&chunk[..bytes]),
        }
    }
}

/// The reply to a request, or nothing if the connection is to be closed.
fn answer(shared: &Shared, arguments: &[String]) -> Option<Vec<u8>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut state = shared.lock();
    state.log.push(arguments.join(" "));
    let login = match words[..] {
        ["AUTH", ref login @ ..] if state.repeats_login => {
            let login = login.join("' '");
            let text = format!("-ERR unknown command 'AUTH', with args beginning with: '{login}'");
            Some(text + "\r\n")
        }
        ["AUTH", password] => Some(match state.password {
            Some(right) if right == password => "+OK\r\n".to_owned(),
            _ => "-WRONGPASS invalid username-password pair\r\n".to_owned(),
        }),
        ["SELECT", "0" | "3"] | ["CLIENT", "SETNAME", _] => Some("+OK\r\n".to_owned()),
        ["SELECT", _] => Some("-ERR DB index is out of range\r\n".to_owned()),
        ["CLIENT", ..] => Some("-ERR unknown subcommand\r\n".to_owned()),
        ["INFO", ..] if state.info.starts_with('-') => Some(state.info.clone()),
        ["INFO", ..] => Some(format!("${}\r\n{}\r\n", state.info.len(), state.info)),
        ["EVAL", _, "0"] => Some(":1\r\n".to_owned()),
        ["SCRIPT", "LOAD", body] => {
            let digit = if body.contains("DEL") { "d" } else { "e" };
            Some(format!("$40\r\n{}\r\n", digit.repeat(40)))
        }
        _ => None,
    };
    if let Some(reply) = login {
        return Some(reply.into_bytes());
    }
    if words[0] == "SET" {
        drop(state);
        if let Some(hook) = &*shared.on_set.lock().unwrap() {
            hook();
        }
        state = shared.lock();
    }
    while state.mood == Mood::Hangs {
        state = shared.changed.wait(state).unwrap();
    }
    if let Mood::Delays(time) = state.mood {
        drop(state);
        std::thread::park_timeout(time);
        state = shared.lock();
    }
    match state.mood.clone() {
        Mood::Refuses(error) => return Some(format!("-{error}\r\n").into_bytes()),
        Mood::Babbles(bytes) => return Some(bytes),
        _ => {}
    }
    let reply = act(&mut state, &words);
    (state.mood != Mood::Drops).then(|| reply.into_bytes())
}

fn act(state: &mut State, words: &[&str]) -> String {
    let keys = &mut state.keys;
    match words {
        ["SET", _, _, "NX", "PX", _, "GET"] if !state.knows_get => "-ERR syntax error\r\n".into(),
        ["SET", name, token, "NX", "PX", ttl, get @ ..] => match keys.get(*name) {
            Some((holder, _)) if !get.is_empty() => format!("${}\r\n{holder}\r\n", holder.len()),
            Some(_) => "$-1\r\n".into(),
            None => {
                keys.insert((*name).into(), ((*token).into(), ttl.parse().unwrap()));
                if get.is_empty() { "+OK\r\n" } else { "$-1\r\n" }.into()
            }
        },
        ["EVALSHA", ..] if !state.has_scripts => "-NOSCRIPT No matching script.\r\n".into(),
        ["EVALSHA" | "EVAL", script, "1", name, token, ttl @ ..] => {
            let is_ours = keys.get(*name).map(|(holder, _)| holder == token);
            let releases = script.starts_with("dd") || script.contains("'DEL'");
            match (releases, is_ours) {
                (true, Some(true)) => {
                    keys.remove(*name);
                    ":1\r\n".into()
                }
                (true, _) | (false, None) => ":0\r\n".into(),
                (false, Some(false)) => ":-1\r\n".into(),
                (false, Some(true)) => {
                    let asked: u64 = ttl[0].parse().unwrap();
                    let (_, left) = keys.get_mut(*name).unwrap();
                    *left = asked.max(*left);
                    ":1\r\n".into()
                }
            }
        }
        ["PTTL", name] => keys
            .get(*name)
            .map_or(":-2\r\n".into(), |(_, left)| format!(":{left}\r\n")),
        _ => format!("-ERR unknown command '{}'\r\n", words[0]),
    }
}

/// The first complete request in the buffer and its length.
fn request(buffer: &[u8]) -> Option<(Vec<String>, usize)> {
    let line = |at: usize| {
        let end = at
            + buffer
                .get(at..)?
                .windows(2)
                .position(|pair| pair == b"\r\n")?;
        let number: usize = std::str::from_utf8(&buffer[at + 1..end])
            .unwrap()
            .parse()
            .unwrap();
        Some((number, end + 2))
    };
    let (count, mut at) = line(0)?;
    let mut arguments = Vec::new();
    for _ in 0..count {
        let (bytes, begin) = line(at)?;
        let text = buffer.get(begin..begin + bytes)?;
        buffer.get(begin + bytes + 1)?;
        arguments.push(String::from_utf8_lossy(text).into_owned());
        at = begin + bytes + 2;
    }
    Some((arguments, at))
}
