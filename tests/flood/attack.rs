//! The attacks: what each connection sends, and the loop that keeps all of them at it.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use quorlock_testkit::pause;

use crate::node::FloodedNode;

/// One way to use connections.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) has_password: bool,
    /// Sent again and again, as far as the node takes it.
    request: fn() -> Vec<u8>,
    /// Whether it is sent once only.
    is_once: bool,
    /// The node may never have more resident memory; else what the command line says.
    pub(crate) memory_mib: Option<u64>,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) closed: u64,
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
];

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
        request,
        is_once,
        memory_mib: None,
    }
}

impl Attack {
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
                let is_open = self.go_on(attacker, &request);
                tally.closed += u64::from(!is_open);
                is_open
            });
            pause(ROUND);
        }
        tally
    }

    /// Sends what the socket takes; says whether the node still serves this connection.
    fn go_on(&self, attacker: &mut Attacker, request: &[u8]) -> bool {
        if self.is_once && attacker.sent == request.len() {
            // What the node says stays where it is; behind nothing there is its end.
            return match attacker.stream.peek(&mut [0; 1]) {
                Ok(0) => false,
                Ok(_) => true,
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
