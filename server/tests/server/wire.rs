//! A connection for tests: words out, replies in as text that reads well in assertions.
//!
//! It parses replies on its own, so that the node's writer is not checked against itself.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

/// One blocking connection.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
}

impl Wire {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Sends no more, and still reads.
    pub(crate) fn end(&self) {
        self.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// Goes, and lets the node know: a connection that is only closed looks to it like one that sends no more.
    pub(crate) fn reset(self) {
        let socket = SockRef::from(self.stream.get_ref());
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Sends a command given as words separated by spaces, and returns the reply.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        self.ask_words(&words)
    }

    pub(crate) fn ask_words(&mut self, words: &[&str]) -> String {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.send(bytes.as_bytes());
        self.reply()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends what the node may not want whole: it may close the connection while it arrives.
    pub(crate) fn send_until_closed(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.get_mut().write_all(bytes) {
            let closed = [
                std::io::ErrorKind::ConnectionReset,
                std::io::ErrorKind::BrokenPipe,
            ];
            assert!(closed.contains(&error.kind()), "{error}");
        }
    }

    /// Whether no byte of a reply is here. Says nothing of what is still on its way.
    pub(crate) fn is_silent(&mut self) -> bool {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true).unwrap();
        let peeked = stream.peek(&mut [0; 1]);
        stream.set_nonblocking(false).unwrap();
        let is_empty = peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        is_empty && self.stream.buffer().is_empty()
    }

    /// Whether something comes within this time, which is real time.
    pub(crate) fn answers_within(&mut self, time: Duration) -> bool {
        let stream = self.stream.get_ref();
        let before = stream.read_timeout().unwrap();
        stream.set_read_timeout(Some(time)).unwrap();
        let peeked = stream.peek(&mut [0; 1]);
        stream.set_read_timeout(before).unwrap();
        peeked.is_ok() || !self.stream.buffer().is_empty()
    }

    /// The next reply; `<closed>` when the node closed the connection.
    pub(crate) fn reply(&mut self) -> String {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => return "<closed>".to_owned(),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                return "<closed>".to_owned();
            }
            Err(error) => panic!("no reply: {error}"),
        }
        let line = line.trim_end_matches("\r\n");
        let (kind, rest) = line.split_at(1);
        match kind {
            "+" | "-" | ":" | "," | "#" | "_" => line.to_owned(),
            "$" | "=" if rest == "-1" => "nil".to_owned(),
            "$" | "=" => self.bulk(rest.parse().unwrap()),
            "*" | "~" | ">" if rest == "-1" => "nil array".to_owned(),
            "*" | "~" | ">" => self.sequence(rest.parse().unwrap()),
            "%" => self.sequence(rest.parse::<usize>().unwrap() * 2),
            other => panic!("unknown reply kind {other:?}"),
        }
    }

    /// What arrives up to these bytes, which come last, as it is.
    pub(crate) fn bytes_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(end) {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            bytes.extend_from_slice(&byte);
        }
        bytes.truncate(bytes.len() - end.len());
        bytes
    }

    fn bulk(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes.truncate(length);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn sequence(&mut self, length: usize) -> String {
        let items: Vec<String> = (0..length).map(|_| self.reply()).collect();
        format!("[{}]", items.join(", "))
    }

    /// One field of INFO.
    pub(crate) fn info(&mut self, field: &str) -> String {
        let text = self.ask("INFO everything");
        let prefix = format!("{field}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("INFO has no field {field}"))
            .to_owned()
    }
}
