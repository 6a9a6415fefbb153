//! The attacks: what each connection sends, and the loop that keeps all of them at it.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use quorlock_testkit::pause;

use crate::node::{FloodedNode, Port};

/// One way to use connections.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) has_password: bool,
    pub(crate) port: Port,
    /// Sent again and again, as far as the node takes it.
    request: fn() -> Vec<u8>,
    /// Whether it is sent once only.
    is_once: bool,
    /// What an answer begins with, where the attack is to be answered.
    pub(crate) answer: Option<u8>,
    /// The node may never have more resident memory; else what the command line says.
    pub(crate) memory_mib: Option<u64>,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) closed: u64,
    /// Whether one of them was answered as it should be.
    pub(crate) is_answered: bool,
}

struct Attacker {
    stream: TcpStream,
    sent: usize,
}

/// All attacks.
pub(crate) const ALL: &[Attack] = &[
    attack("one-byte", false, true, || b"*".to_vec()),
    attack("huge-count", false, true, || b"*2147483648\r\n".to_vec()),
    attack("half-a-header", false, true, || {
        b"*3\r\n$3\r\nSET\r\n$1000000\r\nk".to_vec()
    }),
    attack("long-arguments", false, true, || {
        let mut request = b"*2\r\n$3\r\nGET\r\n$4000000\r\n".to_vec();
        request.resize(200_000, b'k');
        request
    }),
    attack("never-read", false, false, || b"GET large\r\n".repeat(64)),
    attack("one-byte-auth", true, true, || b"*".to_vec()),
    attack("half-authenticated", true, true, || {
        let mut request = b"*3\r\n$4\r\nAUTH\r\n$4000\r\n".to_vec();
        request.resize(4_000, b'u');
        request
    }),
    attack("noauth-never-read", true, false, || {
        b"*1\r\n$4\r\nPING\r\n".repeat(256)
    }),
    // Long replies end what a worker executes in one go; what it has read of all the others waits, and a
    // list of 1,170 keys takes many times its bytes once it is parsed. Uncounted, that was 1254 MiB with 9,900
    // clients and 256 MiB with 2,000.
    Attack {
        memory_mib: Some(150),
        ..attack("pipelines-never-read", false, true, || {
            let mut request = mget(15, b"large");
            while request.len() < 57_000 {
                request.extend_from_slice(&mget(1_170, b"k"));
            }
            request
        })
    },
    attack("metrics-half-request", false, true, || b"GET /met".to_vec()).at(Port::Metrics),
    attack("metrics-never-read", false, true, || {
        b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n".to_vec()
    })
    .at(Port::Metrics)
    .answered_with(b'H'),
    attack("metrics-tls-hello", false, true, client_hello)
        .at(Port::MetricsOverTls)
        .answered_with(HANDSHAKE),
    attack("tls-one-byte", false, true, || vec![HANDSHAKE]).at(Port::Tls),
    attack("tls-half-hello", false, true, || {
        client_hello()[..60].to_vec()
    })
    .at(Port::Tls),
    // Each of them costs the node a signature.
    attack("tls-hello", false, true, client_hello)
        .at(Port::Tls)
        .answered_with(HANDSHAKE),
    attack("tls-plain", false, true, || {
        b"*1\r\n$4\r\nPING\r\n".to_vec()
    })
    .at(Port::Tls),
    // They are connected, and that is all.
    Attack {
        memory_mib: Some(256),
        ..attack("agent-idle", false, true, Vec::new).at(Port::Agent)
    },
    // One of them has the lock.
    attack("agent-polls-never-read", false, false, || {
        b"SET polled other NX PX 600000\r\n".repeat(16)
    })
    .at(Port::Agent),
];

/// The type of a record of TLS.
const HANDSHAKE: u8 = 0x16;

/// What a client of TLS 1.3 begins with. Its share is the base point of X25519, so whoever sends it has computed nothing.
fn client_hello() -> Vec<u8> {
    let mut share = vec![9];
    share.resize(32, 0);
    let shares = [&[0, 36, 0, 0x1d, 0, 32][..], &share].concat();
    let extensions = [
        // Version 1.3, X25519, and ECDSA with P-256 and SHA-256.
        with_length(&[0x00, 0x2b], &[2, 3, 4]),
        with_length(&[0x00, 0x0a], &[0, 2, 0, 0x1d]),
        with_length(&[0x00, 0x0d], &[0, 2, 4, 3]),
        with_length(&[0x00, 0x33], &shares),
    ];
    let random = [7; 32];
    // No session, one cipher suite, no compression.
    let before = [&[3, 3][..], &random, &[0, 0, 2, 0x13, 0x01, 1, 0]].concat();
    let hello = with_length(&before, &extensions.concat());
    let message = with_length(&[1, 0], &hello);
    with_length(&[HANDSHAKE, 3, 1], &message)
}

/// These bytes, the length of what follows in two bytes, and that.
fn with_length(before: &[u8], content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a hello is short");
    [before, &length.to_be_bytes(), content].concat()
}

/// One key, so many times.
fn mget(count: usize, key: &[u8]) -> Vec<u8> {
    let mut request = format!("*{}\r\n$4\r\nMGET\r\n", count + 1).into_bytes();
    let word = [format!("${}\r\n", key.len()).as_bytes(), key, b"\r\n"].concat();
    request.extend_from_slice(&word.repeat(count));
    request
}

const fn attack(
    name: &'static str,
    has_password: bool,
    is_once: bool,
    request: fn() -> Vec<u8>,
) -> Attack {
    Attack {
        name,
        has_password,
        port: Port::Redis,
        request,
        is_once,
        answer: None,
        memory_mib: None,
    }
}

impl Attack {
    const fn at(self, port: Port) -> Self {
        Self { port, ..self }
    }

    const fn answered_with(self, first: u8) -> Self {
        let answer = Some(first);
        Self { answer, ..self }
    }

    /// Keeps `clients` connections at it for so long.
    pub(crate) fn run(&self, node: &FloodedNode, clients: usize, time: Duration) -> Tally {
        let request = (self.request)();
        let (mut tally, mut attackers) = (Tally::default(), Vec::new());
        let end = Instant::now() + time;
        while Instant::now() < end {
            // Some at a time, so that nobody waits for the kernel's queue alone.
            for _ in 0..OPENED_PER_ROUND.min(clients - attackers.len()) {
                let Some(stream) = open(node.address()) else {
                    break;
                };
                attackers.push(Attacker { stream, sent: 0 });
            }
            attackers.retain_mut(|attacker| {
                let is_open = self.go_on(attacker, &request, &mut tally.is_answered);
                tally.closed += u64::from(!is_open);
                is_open
            });
            pause(ROUND);
        }
        tally
    }

    /// Sends what the socket takes; says whether the node still serves this connection.
    fn go_on(&self, attacker: &mut Attacker, request: &[u8], is_answered: &mut bool) -> bool {
        if self.is_once && attacker.sent == request.len() {
            // What the node says stays where it is; behind nothing there is its end.
            let mut first = [0; 1];
            return match attacker.stream.peek(&mut first) {
                Ok(0) => false,
                Ok(_) => {
                    *is_answered |= self.answer == Some(first[0]);
                    true
                }
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
        }
        let from = attacker.sent % request.len();
        match attacker.stream.write(&request[from..]) {
            Ok(count) => {
                attacker.sent += count;
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

fn open(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

const OPENED_PER_ROUND: usize = 200;
const ROUND: Duration = Duration::from_millis(5);
