//! The node's end of a connection that speaks TLS, with a client of rustls and with bytes of nobody.
//!
//! Before a handshake no byte comes out and little is kept. Behind it the bytes of both sides come out as they were sent, in
//! whatever pieces their records arrive; of records that were changed on the way nothing does.

#![no_main]

use std::cell::OnceCell;
use std::io::{Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use quorlock_fuzz::{Choices, Numbers, pieces};
use quorlock_node::config::Config;
use quorlock_node::event_loop::pipe::Pipe;
use quorlock_node::event_loop::stream::{Stream, StreamError};
use quorlock_server::fuzzing::Acceptor;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices::new(input);
    let kind = choices.byte();
    let seed = u64::from(choices.short());
    WORLD.with(|world| {
        let world = world.get_or_init(World::new);
        match kind % 4 {
            0 => world.take_bytes(choices.rest(), seed),
            1 => world.change_hello(choices, seed),
            2 => world.exchange(choices, seed, false),
            _ => world.exchange(choices, seed, true),
        }
    });
});

thread_local! {
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

/// A node's certificates, and a client that trusts them.
struct World {
    acceptor: Acceptor,
    client: Arc<ClientConfig>,
}

/// The two ends of a connection.
struct Connection<S> {
    pipe: Pipe,
    node: S,
    client: ClientConnection,
    /// What has come out at the node, and at the client.
    received: Vec<u8>,
    taken: Vec<u8>,
    /// How the node's end has ended, if it has.
    end: Option<StreamError>,
}

impl World {
    fn new() -> Self {
        let at = |name: &str| {
            format!(
                "{}/../../testkit/certificates/{name}",
                env!("CARGO_MANIFEST_DIR")
            )
        };
        let mut config = Config::default();
        for (name, value) in [
            ("tls-port", "6380"),
            ("tls-cert-file", &at("node.pem")[..]),
            ("tls-key-file", &at("node.key")[..]),
            ("tls-auth-clients", "no"),
        ] {
            config.set(name, &[value]).expect("it is a directive");
        }
        let acceptor = Acceptor::new(&config).expect("the certificates of the tests can be used");
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(at("authority.pem"));
        roots
            .add(authority.expect("it is a certificate"))
            .expect("it is one of an authority");
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            acceptor: acceptor.expect("TLS is spoken"),
            client: Arc::new(client),
        }
    }

    fn connect(&self) -> Connection<impl Stream + use<>> {
        let pipe = Pipe::new(usize::MAX, None);
        let name = "localhost".try_into().expect("it is a name");
        let client = ClientConnection::new(Arc::clone(&self.client), name);
        Connection {
            node: self.acceptor.accept(pipe.stream()),
            pipe,
            client: client.expect("it can be used"),
            received: Vec::new(),
            taken: Vec::new(),
            end: None,
        }
    }

    /// Bytes of nobody: no plain byte may come of them.
    fn take_bytes(&self, bytes: &[u8], seed: u64) {
        let mut connection = self.connect();
        for piece in pieces(bytes, seed) {
            connection.node_takes(piece);
            assert!(connection.node.is_handshaking());
            assert!(connection.node.memory() <= HANDSHAKE_MEMORY_MAX);
        }
        connection.pipe.end();
        connection.node_reads();
        assert!(connection.received.is_empty());
    }

    /// The hello of a client with some bytes changed, and then what comes of it.
    fn change_hello(&self, mut choices: Choices<'_>, seed: u64) {
        let mut connection = self.connect();
        let mut hello = connection.records();
        while !choices.is_empty() {
            let at = choices.below(hello.len().min(1 << 16));
            let kind = choices.byte();
            let count = choices.below(32);
            match kind % 4 {
                0 => hello[at] ^= choices.byte(),
                1 => hello[at] = choices.byte(),
                2 => drop(hello.splice(at..at, choices.bytes(count).iter().copied())),
                _ => {
                    let end = hello.len().min(at + count).max(1);
                    drop(hello.splice(at.min(end)..end, choices.bytes(1).iter().copied()));
                }
            }
            if hello.is_empty() || hello.len() > 1 << 14 {
                return;
            }
        }
        for piece in pieces(&hello, seed) {
            connection.node_takes(piece);
        }
        connection.shake_hands(seed);
        assert!(connection.received.is_empty() && connection.taken.is_empty());
    }

    /// What each side says comes out at the other one. Where records are changed, nothing else does.
    fn exchange(&self, mut choices: Choices<'_>, seed: u64, is_changed: bool) {
        let mut connection = self.connect();
        connection.shake_hands(seed);
        assert!(!connection.client.is_handshaking() && !connection.node.is_handshaking());
        let mut numbers = Numbers::of(seed);
        let (mut said, mut replied) = (Vec::new(), Vec::new());
        while !choices.is_empty() && connection.end.is_none() {
            let repeated = 1 << choices.below(10);
            let count = choices.below(64);
            let text = choices.bytes(count).repeat(repeated);
            if choices.below(2) == 1 {
                // Each in a record of its own.
                let mut records = Vec::new();
                for part in pieces(&text, numbers.draw()) {
                    let written = connection.client.writer().write_all(part);
                    written.expect("memory takes it");
                    records.append(&mut connection.records());
                }
                said.extend_from_slice(&text);
                if is_changed && choices.below(4) == 1 && !records.is_empty() {
                    let at = numbers.below(records.len());
                    records[at] ^= choices.byte();
                }
                for piece in pieces(&records, numbers.draw()) {
                    connection.node_takes(piece);
                }
            } else {
                connection.pipe.set_room(1 + numbers.below(40_000));
                connection.node_says(&text);
                replied.extend_from_slice(&text);
            }
            assert!(said.starts_with(&connection.received));
            assert!(replied.starts_with(&connection.taken));
        }
        if !is_changed {
            assert_eq!(connection.end, None);
            assert!(connection.received == said, "less than was said");
            assert!(connection.taken == replied, "less than was replied");
        }
    }
}

impl<S: Stream> Connection<S> {
    /// Moves records between both until neither has more to say, or one has ended.
    fn shake_hands(&mut self, seed: u64) {
        for turn in 0..TURNS_MAX {
            let records = self.records();
            for piece in pieces(&records, seed.wrapping_add(turn)) {
                self.node_takes(piece);
            }
            if !self.client_reads() || self.end.is_some() {
                return;
            }
        }
    }

    /// The records that the client wants to send.
    fn records(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        while self.client.wants_write() {
            self.client
                .write_tls(&mut records)
                .expect("memory takes them");
        }
        records
    }

    /// Hands the bytes to the node, which reads all of them unless it has ended.
    fn node_takes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut context = Context::from_waker(Waker::noop());
        while !rest.is_empty() && self.end.is_none() {
            if let Poll::Ready(count) = self.pipe.poll_send(&mut context, rest) {
                rest = &rest[count.expect("nobody has closed it")..];
            }
            self.node_reads();
        }
    }

    fn node_reads(&mut self) {
        let mut buffer = [0; 1000];
        while self.end.is_none() {
            match self.node.receive(&mut buffer) {
                Ok(0) => self.end = Some(StreamError::Broken),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(StreamError::WouldBlock) => return,
                Err(StreamError::Broken) => self.end = Some(StreamError::Broken),
            }
        }
    }

    /// Sends all of it; the client reads where there is no room.
    fn node_says(&mut self, text: &[u8]) {
        let mut rest = text;
        while !rest.is_empty() {
            match self.node.send(rest) {
                Ok(count) => rest = &rest[count..],
                Err(StreamError::WouldBlock) => {
                    assert!(self.pipe.has_received(), "neither can go on");
                    self.client_reads();
                }
                Err(StreamError::Broken) => return self.end = Some(StreamError::Broken),
            }
        }
        self.client_reads();
    }

    /// The client reads what has come; false where it is no TLS, or nothing has come.
    fn client_reads(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let mut context = Context::from_waker(Waker::noop());
        let mut has_read = false;
        while self.pipe.has_received() {
            let Poll::Ready(count) = self.pipe.poll_receive(&mut context, &mut buffer) else {
                break;
            };
            has_read = true;
            let mut records = &buffer[..count];
            while !records.is_empty() {
                self.client.read_tls(&mut records).expect("memory has them");
                let state = self.client.process_new_packets();
                let Ok(state) = state else {
                    return false;
                };
                let count = state.plaintext_bytes_to_read();
                let begin = self.taken.len();
                self.taken.resize(begin + count, 0);
                let plain = &mut self.taken[begin..];
                self.client
                    .reader()
                    .read_exact(plain)
                    .expect("it says that they are there");
            }
        }
        has_read
    }
}

/// Both are done after three.
const TURNS_MAX: u64 = 8;
/// The messages of a handshake, and what rustls keeps for one.
const HANDSHAKE_MEMORY_MAX: usize = 128 << 10;
