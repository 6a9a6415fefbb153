//! A client that speaks TLS, or something else, with the stream of a node: each byte is moved by the test.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use quorlock_node::event_loop::pipe::{Pipe, PipeStream};
use quorlock_node::event_loop::stream::{Stream, StreamError};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;
use crate::clock::SettableClock;

/// A client and the node's end of its connection.
struct Pair {
    pipe: Pipe,
    node: TlsStream<PipeStream>,
    client: ClientConnection,
    /// What the node has received.
    received: Vec<u8>,
}

fn configured(folder: &Path, more: &[(&str, &str)]) -> Config {
    for (name, text) in FILES {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let mut config = Config::default();
    let mut set = |name: &str, value: &str| config.set(name, &[value]).unwrap();
    set("tls-port", "6380");
    set("tls-cert-file", &at("node.pem"));
    set("tls-key-file", &at("node.key"));
    set("tls-auth-clients", "no");
    more.iter().for_each(|(name, value)| set(name, value));
    config
}

/// The certificates of the tests of all packages.
const FILES: [(&str, &str); 4] = [
    (
        "authority.pem",
        include_str!("../../../testkit/certificates/authority.pem"),
    ),
    (
        "node.pem",
        include_str!("../../../testkit/certificates/node.pem"),
    ),
    (
        "node.key",
        include_str!("../../../testkit/certificates/node.key"),
    ),
    (
        "second-node.key",
        include_str!("../../../testkit/certificates/second-node.key"),
    ),
];

fn certificate(name: &str) -> &'static str {
    FILES.iter().find(|(known, _)| *known == name).unwrap().1
}

fn accept(pipe: &Pipe) -> TlsStream<PipeStream> {
    let folder = tempfile::tempdir().unwrap();
    let config = configured(folder.path(), &[]);
    let clock = Arc::new(SettableClock::new());
    let acceptor = Acceptor::new(&config, clock).unwrap().unwrap();
    acceptor.accept(pipe.stream(), Address::InProcess).unwrap()
}

impl Pair {
    fn new() -> Self {
        let mut roots = RootCertStore::empty();
        let authority = certificate("authority.pem").as_bytes();
        roots
            .add(CertificateDer::from_pem_slice(authority).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let pipe = Pipe::new(usize::MAX, None);
        Self {
            node: accept(&pipe),
            pipe,
            client: ClientConnection::new(Arc::new(config), name).unwrap(),
            received: Vec::new(),
        }
    }

    /// A pair whose handshake is complete.
    fn speaking() -> Self {
        let mut pair = Self::new();
        while pair.client.is_handshaking() || pair.node.is_handshaking() {
            pair.client_sends();
            assert_ne!(pair.node_receives(), Err(StreamError::Broken));
            pair.client_takes();
        }
        pair
    }

    /// The records that the client wants to send.
    fn records(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut records).unwrap();
        }
        records
    }

    fn client_sends(&mut self) {
        let records = self.records();
        send(&self.pipe, &records);
    }

    /// Lets the node read until nothing is left.
    fn node_receives(&mut self) -> Result<usize, StreamError> {
        let mut buffer = [0; 1000];
        loop {
            match self.node.receive(&mut buffer) {
                Ok(count @ 1..) => self.received.extend_from_slice(&buffer[..count]),
                end => return end,
            }
        }
    }

    /// Takes what has come from the node; returns what it decrypts to.
    fn client_takes(&mut self) -> Vec<u8> {
        let mut buffer = [0; 16 * 1024];
        let mut context = Context::from_waker(Waker::noop());
        while self.pipe.has_received() {
            let Poll::Ready(count) = self.pipe.poll_receive(&mut context, &mut buffer) else {
                break;
            };
            let mut records = &buffer[..count];
            while !records.is_empty() {
                self.client.read_tls(&mut records).unwrap();
                self.client.process_new_packets().unwrap();
            }
        }
        let mut text = Vec::new();
        let _ = self.client.reader().read_to_end(&mut text);
        text
    }
}

fn send(pipe: &Pipe, bytes: &[u8]) {
    let mut rest = bytes;
    let mut context = Context::from_waker(Waker::noop());
    while !rest.is_empty() {
        let Poll::Ready(Some(count)) = pipe.poll_send(&mut context, rest) else {
            panic!("the node has not read what was sent before")
        };
        rest = &rest[count..];
    }
}

#[test]
fn a_hello_that_comes_byte_by_byte_is_understood_and_counted() {
    let mut pair = Pair::new();
    let before = pair.node.memory();
    let hello = pair.records();
    for byte in &hello {
        assert!(pair.node.is_handshaking());
        assert!(!pair.pipe.has_received(), "half a hello has no answer");
        send(&pair.pipe, &[*byte]);
        assert_eq!(pair.node_receives(), Err(StreamError::WouldBlock));
    }
    assert!(pair.pipe.has_received());
    assert_eq!(pair.node.memory(), before + hello.len());
    pair.client_takes();
    assert!(!pair.client.is_handshaking());
    pair.client.writer().write_all(b"PING\r\n").unwrap();
    for byte in pair.records() {
        send(&pair.pipe, &[byte]);
        assert_eq!(pair.node_receives(), Err(StreamError::WouldBlock));
    }
    assert!(!pair.node.is_handshaking());
    assert_eq!(pair.received, b"PING\r\n");
}

#[test]
fn plain_bytes_end_the_connection_at_once() {
    for plain in [
        &b"*1\r\n$4\r\nPING\r\n"[..],
        b"PING\r\n",
        b"GET / HTTP/1.1\r\n",
        &[0; 64],
    ] {
        let pipe = Pipe::new(usize::MAX, None);
        let mut node = accept(&pipe);
        send(&pipe, plain);
        assert_eq!(
            node.receive(&mut [0; 100]),
            Err(StreamError::Broken),
            "{plain:?}"
        );
    }
}

#[test]
fn a_handshake_without_end_is_ended_by_its_bytes() {
    let pipe = Pipe::new(usize::MAX, None);
    let mut node = accept(&pipe);
    // A hello of 16 MB is announced, in records of 16 KiB.
    let mut record = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    record.resize(5 + 16 * 1024, 0);
    for _ in 0..16 {
        send(&pipe, &record);
        if let Err(StreamError::Broken) = node.receive(&mut [0; 100]) {
            return;
        }
        assert!(
            node.memory() < 128 * 1024,
            "it keeps {} bytes",
            node.memory()
        );
    }
    panic!("it takes whatever is sent");
}

#[test]
fn requests_and_replies_of_any_length_pass_and_a_full_read_says_that_more_is_there() {
    let mut pair = Pair::speaking();
    let request: Vec<u8> = (0..150_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    for part in request.chunks(10_000) {
        pair.client.writer().write_all(part).unwrap();
        pair.client_sends();
        assert_eq!(pair.node_receives(), Err(StreamError::WouldBlock));
    }
    assert!(pair.received == request);
    let (mut rest, mut replies) = (&request[..], Vec::new());
    while !rest.is_empty() {
        let count = pair.node.send(rest).unwrap();
        assert!((1..=16 * 1024).contains(&count));
        rest = &rest[count..];
        replies.extend(pair.client_takes());
    }
    assert!(replies == request);
}

#[test]
fn replies_count_as_sent_when_their_records_have_left_whole() {
    let mut pair = Pair::speaking();
    let reply = vec![b'x'; 100_000];
    // Room for a record and a half.
    pair.pipe.set_room(24 * 1024);
    assert_eq!(pair.node.send(&reply), Ok(16 * 1024));
    let rest = &reply[16 * 1024..];
    for _ in 0..3 {
        assert_eq!(pair.node.send(rest), Err(StreamError::WouldBlock));
        assert!(pair.node.has_more(), "the rest of a record is to be sent");
    }
    let mut taken = pair.client_takes();
    assert_eq!(taken.len(), 16 * 1024);
    // The record that was in flight is not made again.
    assert_eq!(pair.node.send(rest), Ok(16 * 1024));
    taken.extend(pair.client_takes());
    assert_eq!(taken.len(), 32 * 1024);
}

#[test]
fn a_client_that_sends_no_more_gets_its_replies() {
    for says_so in [true, false] {
        let mut pair = Pair::speaking();
        pair.client.writer().write_all(b"PING\r\n").unwrap();
        if says_so {
            pair.client.send_close_notify();
        }
        pair.client_sends();
        if !says_so {
            pair.pipe.end();
        }
        let mut buffer = [0; 100];
        assert_eq!(pair.node.receive(&mut buffer), Ok(6));
        assert!(pair.node.has_more(), "no event tells of the end behind it");
        assert_eq!(pair.node.receive(&mut buffer), Ok(0));
        assert_eq!(pair.node.send(b"+PONG\r\n"), Ok(7));
        pair.node = accept(&Pipe::new(usize::MAX, None));
        assert_eq!(pair.client_takes(), b"+PONG\r\n");
        let ended = pair.client.reader().read(&mut buffer);
        assert_eq!(ended.unwrap(), 0, "the node has said that nothing follows");
    }
}

#[test]
fn a_client_that_never_reads_keeps_one_record_here() {
    let mut pair = Pair::speaking();
    pair.pipe.set_room(0);
    for _ in 0..100 {
        assert_eq!(
            pair.node.send(&[b'x'; 100_000]),
            Err(StreamError::WouldBlock)
        );
        pair.client.writer().write_all(b"PING\r\n").unwrap();
        assert_eq!(pair.node_receives(), Err(StreamError::WouldBlock));
    }
    assert_eq!(pair.node.in_flight(), 16 * 1024);
    assert!(pair.received.is_empty(), "nor is it read further");
}

#[test]
fn files_that_cannot_be_used_are_named_with_their_directive() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let whole = certificate("node.pem");
    let read = |more: &[(&str, &str)]| {
        let config = configured(folder.path(), more);
        std::fs::write(at("half.pem"), &whole[..whole.len() / 2]).unwrap();
        std::fs::write(at("half.key"), &certificate("node.key")[..99]).unwrap();
        std::fs::write(at("empty.pem"), "").unwrap();
        let encrypted =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        std::fs::write(at("secret.key"), encrypted).unwrap();
        material::read(&config).map(drop)
    };
    assert_eq!(read(&[]), Ok(()));
    let authority = at("authority.pem");
    assert_eq!(
        read(&[
            ("tls-auth-clients", "yes"),
            ("tls-ca-cert-file", &authority)
        ]),
        Ok(())
    );
    for (directive, file, part) in [
        ("tls-cert-file", "half.pem", "cut off or damaged"),
        ("tls-key-file", "half.key", "cut off or damaged"),
        ("tls-cert-file", "empty.pem", "no certificate in it"),
        ("tls-cert-file", "missing.pem", "No such file"),
        ("tls-cert-file", "", "no file"),
        ("tls-key-file", "node.pem", "no private key in it"),
        (
            "tls-key-file",
            "second-node.key",
            "not that of the certificate",
        ),
        ("tls-key-file", "secret.key", "is encrypted"),
    ] {
        let refused = read(&[(directive, &at(file))]).unwrap_err();
        assert!(
            refused.contains(directive) && refused.contains(part),
            "{refused}"
        );
        assert!(refused.contains(file), "{refused}");
        assert!(!refused.contains('['), "no list of bytes: {refused}");
    }
    let refused = read(&[("tls-auth-clients", "yes")]).unwrap_err();
    assert!(refused.contains("tls-ca-cert-file"), "{refused}");
    let refused = read(&[("tls-cert-file", "/dev/zero")]).unwrap_err();
    assert!(refused.contains("no file"), "{refused}");
}
