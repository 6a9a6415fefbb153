//! The node that is flooded, and the clients that must not suffer.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quorlock_testkit::{Certificates, Connection, Process, Reply, free_port, pause};
use tempfile::TempDir;

/// Where a node listens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Redis,
    Tls,
    Metrics,
    MetricsOverTls,
    /// That of an agent in front of the node.
    Agent,
}

/// A node as a process, or an agent.
pub(crate) struct FloodedNode {
    process: Process,
    /// The node behind an agent.
    _behind: Option<Process>,
    /// Where it is flooded.
    address: SocketAddr,
    /// Where other clients ask.
    clients_address: SocketAddr,
    has_password: bool,
    _folder: TempDir,
}

/// What the clients saw that did not attack.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) pings: u64,
    pub(crate) worst_ping: Duration,
    pub(crate) worst_set: Duration,
    /// Clients that connected during the flood, gave the password and got an answer.
    pub(crate) arrivals: u64,
    pub(crate) worst_arrival: Duration,
    pub(crate) refused: u64,
    /// The client that was there before was cut off.
    pub(crate) is_broken: bool,
}

/// The clients that do not attack.
pub(crate) struct Witness {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl FloodedNode {
    pub(crate) fn start(
        program: &Path,
        has_password: bool,
        port: Port,
        address_space_mib: Option<u64>,
    ) -> io::Result<Self> {
        let folder = TempDir::new()?;
        let mut command = match address_space_mib {
            Some(mib) => {
                let mut command = Command::new("prlimit");
                command
                    .arg(format!("--as={}", mib * 1024 * 1024))
                    .arg(program);
                command
            }
            None => Command::new(program),
        };
        let data = folder.path().join("data");
        std::fs::create_dir(&data)?;
        let (plain, other) = (free_port(), free_port());
        command.args([
            "server",
            "--bind",
            "127.0.0.1",
            "--port",
            &plain.to_string(),
        ]);
        command.args(["--first-start", "serve", "--dir"]).arg(data);
        if has_password {
            command.args(["--requirepass", PASSWORD]);
        }
        command.args(listening(port, other, folder.path()));
        let mut process = Process::start(&mut command, &folder.path().join("output"))?;
        // The first that it says may be that of its TLS port.
        let mut address = (process.address_within(START_MAX))
            .ok_or_else(|| io::Error::other(process.output()))?;
        address.set_port(plain);
        if port == Port::Agent {
            return Self::behind_agent(program, process, (address, other), folder);
        }
        let clients_address = address;
        if port != Port::Redis {
            address.set_port(other);
        }
        let node = Self {
            process,
            _behind: None,
            address,
            clients_address,
            has_password,
            _folder: folder,
        };
        let mut client = arrive(clients_address, has_password)?;
        let value = "v".repeat(1_000_000);
        ask(&mut client, &["SET", "large", &value, "PX", "900000"], "OK")?;
        Ok(node)
    }

    /// An agent in front of this node, on this port. All clients ask the agent.
    fn behind_agent(
        program: &Path,
        node: Process,
        (mut address, port): (SocketAddr, u16),
        folder: TempDir,
    ) -> io::Result<Self> {
        let nodes = format!("redis://{address}");
        let mut command = Command::new(program);
        command.args(["agent", "--port", &port.to_string(), "--nodes", &nodes]);
        let mut agent = Process::start(&mut command, &folder.path().join("agent"))?;
        agent.await_line("find the agent under");
        address.set_port(port);
        Ok(Self {
            process: agent,
            _behind: Some(node),
            address,
            clients_address: address,
            has_password: false,
            _folder: folder,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A line of the kernel's status of the process; `None` once it has ended.
    pub(crate) fn memory_kib(&self, name: &str) -> Option<u64> {
        let path = format!("/proc/{}/status", self.process.id());
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// What the node wrote.
    pub(crate) fn output(&self) -> String {
        self.process.output()
    }
}

/// What a node needs to listen there.
fn listening(port: Port, number: u16, folder: &Path) -> Vec<String> {
    let mut words = Vec::new();
    let mut put = |name: &str, value: &str| words.extend([format!("--{name}"), value.to_owned()]);
    match port {
        Port::Redis | Port::Agent => {}
        Port::Tls => put("tls-port", &number.to_string()),
        Port::Metrics | Port::MetricsOverTls => put("metrics-port", &number.to_string()),
    }
    if matches!(port, Port::Tls | Port::MetricsOverTls) {
        let certificates = Certificates::write_to(folder);
        put("tls-cert-file", &certificates.path("node.pem"));
        put("tls-key-file", &certificates.path("node.key"));
        put("tls-auth-clients", "no");
    }
    if port == Port::MetricsOverTls {
        put("metrics-tls", "yes");
    }
    words
}

impl Witness {
    /// Begins to ask.
    pub(crate) fn start(node: &FloodedNode) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (told, address) = (Arc::clone(&is_over), node.clients_address);
        let has_password = node.has_password;
        let thread = std::thread::spawn(move || watch(&told, address, has_password));
        Self { is_over, thread }
    }

    pub(crate) fn end(self) -> Seen {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(is_over: &AtomicBool, address: SocketAddr, has_password: bool) -> Seen {
    let mut seen = Seen::default();
    let Ok(mut client) = arrive(address, has_password) else {
        seen.is_broken = true;
        return seen;
    };
    let mut next_arrival = Instant::now();
    while !is_over.load(Ordering::Acquire) {
        let set = ["SET", "witness", "token", "PX", "60000"];
        match (
            timed(|| ask(&mut client, &["PING"], "PONG")),
            timed(|| ask(&mut client, &set, "OK")),
        ) {
            (Ok(((), ping)), Ok(((), set))) => {
                seen.pings += 1;
                seen.worst_ping = seen.worst_ping.max(ping);
                seen.worst_set = seen.worst_set.max(set);
            }
            _ => {
                seen.is_broken = true;
                return seen;
            }
        }
        if Instant::now() >= next_arrival {
            next_arrival = Instant::now() + ARRIVAL_EVERY;
            match timed(|| arrive(address, has_password)) {
                Ok((_, took)) => {
                    seen.arrivals += 1;
                    seen.worst_arrival = seen.worst_arrival.max(took);
                }
                Err(_) => seen.refused += 1,
            }
        }
        pause(Duration::from_millis(5));
    }
    seen
}

fn timed<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Duration)> {
    let began = Instant::now();
    let done = work()?;
    Ok((done, began.elapsed()))
}

/// Connects as a driver does: the password first.
fn arrive(address: SocketAddr, has_password: bool) -> io::Result<Connection> {
    let mut client = Connection::open_within(address, REPLY_MAX)?;
    if has_password {
        ask(&mut client, &["AUTH", PASSWORD], "OK")?;
    }
    ask(&mut client, &["PING"], "PONG")?;
    Ok(client)
}

fn ask(client: &mut Connection, words: &[&str], expected: &str) -> io::Result<()> {
    let reply = client.ask(words)?;
    if reply != Reply::Status(expected.to_owned()) {
        return Err(io::Error::other(format!("the node answered {reply}")));
    }
    Ok(())
}

const PASSWORD: &str = "secret";
const START_MAX: Duration = Duration::from_secs(20);
const REPLY_MAX: Duration = Duration::from_secs(20);
const ARRIVAL_EVERY: Duration = Duration::from_millis(500);
