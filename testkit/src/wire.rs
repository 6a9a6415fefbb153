//! A connection for tests in which every error is a failure: words out, replies in as text that reads well in assertions.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::{Shutdown, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use crate::connection::{Connection, REPLY_MAX};
use crate::reply::Reply;
use crate::waiting::{PATIENCE, becomes_so};

/// One blocking connection. Every method panics where the connection fails: that fails the test.
#[derive(Debug)]
pub struct Wire(Connection);

impl Wire {
    /// Connects.
    pub fn connect(address: impl ToSocketAddrs) -> Self {
        Self(Connection::open(address).expect("something listens"))
    }

    /// Connects to a Unix socket.
    pub fn connect_unix(path: &Path) -> Self {
        Self(Connection::open_unix(path).expect("something listens"))
    }

    /// Sends no more, and still reads.
    pub fn end(&self) {
        let ended = self.0.socket().shutdown(Shutdown::Write);
        ended.expect("the connection is open");
    }

    /// Goes, and lets the node know: a connection that is only closed looks to it like one that sends no more.
    pub fn reset(self) {
        let lingers = self.0.socket().set_linger(Some(Duration::ZERO));
        lingers.expect("a socket can be set to reset");
    }

    /// Sends a command given as words separated by spaces, and returns the reply.
    pub fn ask(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        self.ask_words(&words)
    }

    /// Sends a command of these words, and returns the reply.
    pub fn ask_words(&mut self, words: &[impl AsRef<[u8]>]) -> String {
        self.send_words(words);
        self.reply()
    }

    /// Sends a command of these words.
    pub fn send_words(&mut self, words: &[impl AsRef<[u8]>]) {
        self.send(&crate::request(words));
    }

    /// Sends bytes, whatever they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.send(bytes).expect("the node takes what is sent");
    }

    /// Sends what the node may not want whole: it may close the connection while it arrives.
    pub fn send_until_closed(&mut self, bytes: &[u8]) {
        if let Err(error) = self.0.send(bytes) {
            let closed = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(closed.contains(&error.kind()), "{error}");
        }
    }

    /// The [text](Reply) of the next reply; `<closed>` when the node closed the connection.
    pub fn reply(&mut self) -> String {
        let reply = self.0.reply_unless_closed();
        let reply = reply.unwrap_or_else(|error| panic!("no reply: {error}"));
        reply.map_or_else(|| "<closed>".to_owned(), |reply: Reply| reply.to_string())
    }

    /// What arrives up to these bytes, which come last, as it is.
    pub fn bytes_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(end) {
            bytes.extend(self.0.bytes(1).expect("more comes"));
        }
        bytes.truncate(bytes.len() - end.len());
        bytes
    }

    /// All that arrives until the node closes the connection, as it is.
    pub fn rest(&mut self) -> Vec<u8> {
        self.0.rest().expect("the node closes")
    }

    /// Whether no byte of a reply is here. Says nothing of what is still on its way.
    pub fn is_silent(&mut self) -> bool {
        let set = |is_nonblocking| {
            let done = self.0.socket().set_nonblocking(is_nonblocking);
            done.expect("a socket can be asked without waiting");
        };
        set(true);
        let peeked = self.peek();
        set(false);
        let is_empty = peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        is_empty && self.0.buffered().is_empty()
    }

    /// Whether something comes within this time, which is real time.
    pub fn answers_within(&mut self, time: Duration) -> bool {
        let set = |time| {
            let done = self.0.socket().set_read_timeout(Some(time));
            done.expect("a socket takes a time limit");
        };
        set(time);
        let peeked = self.peek();
        set(REPLY_MAX);
        peeked.is_ok() || !self.0.buffered().is_empty()
    }

    /// One field of INFO.
    pub fn info(&mut self, field: &str) -> String {
        let text = self.ask("INFO everything");
        let prefix = format!("{field}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("INFO has no field {field}"))
            .to_owned()
    }

    /// Waits until a field of INFO has this value.
    pub fn await_info(&mut self, field: &str, value: &str) {
        if !becomes_so(PATIENCE, || self.info(field) == value) {
            let (now, clients) = (self.info(field), self.ask("CLIENT LIST"));
            panic!("{field} is {now} and not {value}:\n{clients}");
        }
    }

    fn peek(&self) -> io::Result<usize> {
        self.0.socket().peek(&mut [MaybeUninit::uninit(); 1])
    }
}
