//! The latency of one connection that takes lock after lock, each timed by itself.
//!
//! `redis-benchmark` sorts latencies into steps of 8 us, which is a large part of one commit.

use std::io::{Read, Write};

use crate::clock;
use crate::failure::{Doing, Failure};
use crate::load::Seen;
use crate::server::Server;

/// Takes so many locks, one after the other, and returns when the last is granted.
pub(crate) fn run(server: &Server, operations: u64) -> Result<Seen, Failure> {
    let doing = "taking a lock";
    let mut connection = server.connect()?;
    let mut reply = [0; b"+OK\r\n".len()];
    let mut latencies = Vec::new();
    let start = clock::now();
    // The names of a run before this one, which warmed the server, are below.
    let first = start.as_nanos() % 100_000_000_000;
    for index in 0..operations {
        let name = format!("lock:{:012}", first + u128::from(index));
        let request =
            quorlock_testkit::request(&["SET", &name, "0123456789abcdef0123", "NX", "PX", "30000"]);
        let sent = clock::now();
        connection.write_all(&request).doing(doing)?;
        connection.read_exact(&mut reply).doing(doing)?;
        latencies.push(clock::now().saturating_sub(sent));
        if reply != *b"+OK\r\n" {
            return Err(Failure::new(format!("{doing}: it was refused")));
        }
    }
    let elapsed = clock::now().saturating_sub(start);
    latencies.sort();
    let at = |percent: usize| {
        let latency = latencies.get(latencies.len() * percent / 100);
        latency.map(|latency| latency.as_secs_f64() * 1e6)
    };
    Ok(Seen {
        operations_per_second: operations as f64 / elapsed.as_secs_f64(),
        median_latency_us: at(50),
        p99_latency_us: at(99),
    })
}
