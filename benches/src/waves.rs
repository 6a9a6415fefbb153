//! Loads that `redis-benchmark` cannot send: every connection writes, and then all replies are read and compared.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::clock;
use crate::failure::{Doing, Failure};
use crate::load::{REENTRANT, RELEASE, Seen};
use crate::server::Server;
use crate::workload::{Traffic, Workload};

/// The script Redisson gives its reentrant lock back with.
const REENTRANT_RELEASE: &str = "if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; \
                                 local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); \
                                 if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; \
                                 else redis.call('del', KEYS[1]); \
                                 redis.call(ARGV[4], KEYS[2], ARGV[1]); return 1; end; return nil;";

/// What is sent of one operation, and what must come back, one after the other.
type Turns = Vec<(Vec<u8>, Vec<u8>)>;

/// Sends whole operations on every connection, in waves: each turn of a wave writes to all connections and
/// then reads from all.
pub(crate) fn run(server: &Server, workload: &Workload, operations: u64) -> Result<Seen, Failure> {
    let scripts = [RELEASE, REENTRANT, REENTRANT_RELEASE];
    let mut digests = Vec::new();
    for script in scripts {
        digests.push(server.ask(&["SCRIPT", "LOAD", script])?);
    }
    let turns = |name: &str| turns_of(workload.traffic, &digests, name);
    let mut connections = connections(server, workload.connections)?;
    let per_wave = u64::from(workload.connections) * u64::from(workload.depth);
    let waves = operations / per_wave;
    let start = clock::now();
    for wave in 0..waves {
        let requests: Vec<Turns> = (0..workload.connections)
            .map(|connection| {
                let names = (0..workload.depth)
                    .map(|place| format!("lock:{wave:08}:{connection:03}:{place:02}"));
                joined(names.map(|name| turns(&name)))
            })
            .collect();
        for turn in 0..requests[0].len() {
            for (connection, request) in connections.iter_mut().zip(&requests) {
                connection
                    .write_all(&request[turn].0)
                    .doing("sending a wave")?;
            }
            for (connection, request) in connections.iter_mut().zip(&requests) {
                read_expected(connection, &request[turn].1)?;
            }
        }
    }
    Ok(seen(start, waves * per_wave))
}

/// Half of the connections wait for what the other half pushes.
pub(crate) fn hand_over(
    server: &Server,
    workload: &Workload,
    operations: u64,
) -> Result<Seen, Failure> {
    let pairs = workload.connections / 2;
    let mut waiters = connections(server, pairs)?;
    let mut pushers = connections(server, pairs)?;
    let waves = operations / u64::from(pairs);
    let queues: Vec<String> = (0..pairs).map(|pair| format!("queue:{pair:03}")).collect();
    let start = clock::now();
    for _ in 0..waves {
        for (waiter, queue) in waiters.iter_mut().zip(&queues) {
            let request = quorlock_testkit::request(&["BLPOP", queue, "0"]);
            waiter.write_all(&request).doing("sending a wave")?;
        }
        for (pusher, queue) in pushers.iter_mut().zip(&queues) {
            let request = quorlock_testkit::request(&["LPUSH", queue, "element"]);
            pusher.write_all(&request).doing("sending a wave")?;
        }
        for pusher in &mut pushers {
            read_expected(pusher, b":1\r\n")?;
        }
        for (waiter, queue) in waiters.iter_mut().zip(&queues) {
            read_expected(
                waiter,
                &quorlock_testkit::request(&[queue.as_str(), "element"]),
            )?;
        }
    }
    Ok(seen(start, waves * u64::from(pairs)))
}

fn turns_of(traffic: Traffic, digests: &[String], name: &str) -> Turns {
    let token = "0123456789abcdef0123";
    let turn =
        |request: &[&str], reply: &[u8]| (quorlock_testkit::request(request), reply.to_vec());
    match traffic {
        Traffic::ReentrantCycle => {
            let (take, give_back) = (&digests[1], &digests[2]);
            let channel = "redisson_lock__channel";
            let taken = ["EVALSHA", take, "1", name, "30000", "client:1"];
            let given = [
                "EVALSHA", give_back, "2", name, channel, "0", "30000", "client:1", "PUBLISH",
            ];
            vec![turn(&taken, b"$-1\r\n"), turn(&given, b":1\r\n")]
        }
        Traffic::Transaction => {
            let commands: [&[&str]; 7] = [
                &["MULTI"],
                &["SET", name, token, "PX", "30000"],
                &["GET", name],
                &["PEXPIRE", name, "30000"],
                &["EXISTS", name],
                &["DEL", name],
                &["EXEC"],
            ];
            let request = commands.map(quorlock_testkit::request).concat();
            let queued = b"+QUEUED\r\n".repeat(5);
            let value = format!("${}\r\n{token}\r\n", token.len());
            let replies = [b"*5\r\n+OK\r\n", value.as_bytes(), b":1\r\n:1\r\n:1\r\n"].concat();
            vec![(request, [b"+OK\r\n".to_vec(), queued, replies].concat())]
        }
        _ => vec![
            turn(&["SET", name, token, "NX", "PX", "30000"], b"+OK\r\n"),
            turn(&["EVALSHA", &digests[0], "1", name, token], b":1\r\n"),
        ],
    }
}

/// The turns of several operations that one connection sends together.
fn joined(all: impl Iterator<Item = Turns>) -> Turns {
    let mut joined = Turns::new();
    for turns in all {
        joined.resize_with(turns.len(), Default::default);
        for (sum, turn) in joined.iter_mut().zip(turns) {
            sum.0.extend(turn.0);
            sum.1.extend(turn.1);
        }
    }
    joined
}

fn connections(server: &Server, count: u32) -> Result<Vec<TcpStream>, Failure> {
    (0..count).map(|_| server.connect()).collect()
}

fn seen(start: std::time::Duration, done: u64) -> Seen {
    let elapsed = clock::now().saturating_sub(start);
    Seen {
        operations_per_second: done as f64 / elapsed.as_secs_f64(),
        median_latency_us: None,
        p99_latency_us: None,
    }
}

fn read_expected(connection: &mut TcpStream, expected: &[u8]) -> Result<(), Failure> {
    let mut reply = vec![0; expected.len()];
    connection
        .read_exact(&mut reply)
        .doing("reading a wave's replies")?;
    if reply != expected {
        let text = String::from_utf8_lossy(&reply);
        return Err(Failure::new(format!("a wave was answered {text:?}")));
    }
    Ok(())
}
