//! The load of one measurement: `redis-benchmark`, or what it cannot send or time.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::failure::{Doing, Failure};
use crate::listeners::Listeners;
use crate::round_trip;
use crate::server::Server;
use crate::waves;
use crate::workload::{Traffic, Workload};

/// The script every Redlock library releases with, in one of its spellings.
pub(crate) const RELEASE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then \
                                  return redis.call('del',KEYS[1]) else return 0 end";

/// The script Redisson takes its reentrant lock with.
pub(crate) const REENTRANT: &str = "if ((redis.call('exists', KEYS[1]) == 0) or \
                         (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
                         redis.call('hincrby', KEYS[1], ARGV[2], 1); \
                         redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
                         return redis.call('pttl', KEYS[1]);";

/// What the load saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) operations_per_second: f64,
    /// In microseconds, where the generator measures it.
    pub(crate) median_latency_us: Option<f64>,
    pub(crate) p99_latency_us: Option<f64>,
}

/// Sends `operations` operations of the workload and returns when all are answered.
pub(crate) fn run(
    generator: &Path,
    server: &Server,
    workload: &Workload,
    operations: u64,
) -> Result<Seen, Failure> {
    let benchmark = |names, command: &[&str]| {
        Benchmark {
            connections: workload.connections,
            depth: workload.depth,
            operations,
            names,
        }
        .run(generator, server, command)
    };
    match workload.traffic {
        Traffic::Acquire if workload.connections == 1 => round_trip::run(server, operations),
        Traffic::Acquire => benchmark(100_000_000, &ACQUIRE),
        Traffic::Refused => {
            let command = ["SET", "lock:__rand_int__", "token", "NX", "PX", "55000"];
            benchmark(10, &command)
        }
        Traffic::ReleaseMiss => {
            let digest = server.ask(&["SCRIPT", "LOAD", RELEASE])?;
            let command = ["EVALSHA", &digest, "1", "lock:__rand_int__", "token"];
            benchmark(1_000_000, &command)
        }
        Traffic::Reentrant => {
            let digest = server.ask(&["SCRIPT", "LOAD", REENTRANT])?;
            let key = "lock:__rand_int__";
            let command = ["EVALSHA", &digest, "1", key, "30000", "client:1"];
            benchmark(1_000_000, &command)
        }
        Traffic::Cycle | Traffic::ReentrantCycle | Traffic::Transaction => {
            waves::run(server, workload, operations)
        }
        Traffic::HandOver => waves::hand_over(server, workload, operations),
        Traffic::Publish { listeners } => {
            let _listeners = Listeners::start(server, CHANNEL, listeners)?;
            benchmark(1, &["PUBLISH", CHANNEL, "0123456789abcdef0123"])
        }
        Traffic::ScoredAdd => {
            let command = ["ZADD", SCORES, "__rand_int__", "member:__rand_int__"];
            benchmark(1000, &command)
        }
        Traffic::ScoredRemoveNone => {
            let members: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
            let pairs = members.iter().flat_map(|number| [&**number, &**number]);
            let command: Vec<&str> = ["ZADD", SCORES].into_iter().chain(pairs).collect();
            server.ask(&command)?;
            benchmark(1, &["ZREMRANGEBYSCORE", SCORES, "-inf", "0"])
        }
        Traffic::ReadBesideAcquire { .. } => benchmark(READ_NAMES, &["GET", READ_KEY]),
        Traffic::Fill => {
            let token = "0123456789abcdef0123";
            let command = ["SET", "lock:__rand_int__", token, "NX", "PX", "55000"];
            benchmark(1_000_000_000, &command)
        }
        Traffic::Replay
        | Traffic::Probe(_)
        | Traffic::ExpiredEvents { .. }
        | Traffic::Start
        | Traffic::Idle
        | Traffic::IdleConnections
        | Traffic::Crowd
        | Traffic::Redlock { .. } => Err(Failure::new("this load is a program of its own")),
    }
}

const CHANNEL: &str = "released";
const SCORES: &str = "scores";

/// The keys that are read beside writes to others. 55 s, for a peer that is slow.
const READ_NAMES: u64 = 10_000;
const READ_KEY: &str = "read:__rand_int__";
const ACQUIRE: [&str; 6] = [
    "SET",
    "lock:__rand_int__",
    "0123456789abcdef0123",
    "NX",
    "PX",
    "30000",
];

/// Connects as the workload will, and leaves nothing behind.
pub(crate) fn warm_up_without_keys(
    generator: &Path,
    server: &Server,
    workload: &Workload,
) -> Result<(), Failure> {
    let load = Benchmark {
        connections: workload.connections,
        depth: workload.depth,
        operations: workload.scaled(20),
        names: READ_NAMES,
    };
    load.run(generator, server, &["GET", READ_KEY]).map(drop)
}

/// Writes the keys that are read later: each with near certainty.
pub(crate) fn write_read_keys(generator: &Path, server: &Server) -> Result<(), Failure> {
    let command = ["SET", READ_KEY, "0123456789abcdef0123", "PX", "55000"];
    let load = Benchmark {
        connections: 50,
        depth: 16,
        operations: 10 * READ_NAMES,
        names: READ_NAMES,
    };
    load.run(generator, server, &command).map(drop)
}

/// Connections that take locks until this is dropped.
pub(crate) struct Writers(Child);

impl Writers {
    pub(crate) fn start(generator: &Path, server: &Server, writers: u32) -> Result<Self, Failure> {
        let load = Benchmark {
            connections: writers,
            depth: 1,
            operations: u64::from(u32::MAX) / 4,
            names: 100_000_000,
        };
        // Longer than the measurement, so that the number of keys says how many were taken.
        let mut command = ACQUIRE;
        command[5] = "55000";
        let mut command = load.command(generator, server, &command);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = command
            .spawn()
            .doing(format!("starting {}", generator.display()))?;
        Ok(Self(process))
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One run of `redis-benchmark`.
struct Benchmark {
    connections: u32,
    depth: u32,
    operations: u64,
    /// How many random names there are.
    names: u64,
}

impl Benchmark {
    fn command(&self, generator: &Path, server: &Server, command: &[&str]) -> Command {
        let port = server.port().to_string();
        let mut program = Command::new(generator);
        program
            .args(["-h", "127.0.0.1", "-p", &port, "--csv"])
            .args(["-n", &self.operations.to_string()])
            .args(["-r", &self.names.to_string()])
            .args(["-c", &self.connections.to_string()])
            .args(["-P", &self.depth.to_string()])
            .args(command)
            .stdin(Stdio::null());
        program
    }

    fn run(&self, generator: &Path, server: &Server, command: &[&str]) -> Result<Seen, Failure> {
        let output = self.command(generator, server, command).output();
        let output = output.doing(format!("starting {}", generator.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || errors.contains("Error") {
            return Err(Failure::new(format!("the load failed: {errors} {text}")));
        }
        parse(&text).ok_or_else(|| Failure::new(format!("the load printed {text:?}")))
    }
}

/// The last line of the load's table: name, rate, average, minimum, median latency in ms ...
fn parse(table: &str) -> Option<Seen> {
    let line = table.lines().rev().find(|line| line.starts_with('"'))?;
    // The first column is the command as it was sent, commas included; count from the right.
    let columns: Vec<&str> = line
        .rsplit(',')
        .map(|cell| cell.trim_matches('"'))
        .collect();
    let operations_per_second = columns.get(6)?.parse().ok()?;
    let median_ms: f64 = columns.get(3)?.parse().ok()?;
    let p99_ms: f64 = columns.get(1)?.parse().ok()?;
    Some(Seen {
        operations_per_second,
        median_latency_us: Some(median_ms * 1000.0),
        p99_latency_us: Some(p99_ms * 1000.0),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn the_table_of_the_load_is_read() {
        let table = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                     \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                     \"SET a,b NX\",\"125000.00\",\"0.210\",\"0.080\",\"0.207\",\"0.300\",\
                     \"0.400\",\"1.500\"\n";
        let seen = parse(table).unwrap();
        assert!((seen.operations_per_second - 125_000.0).abs() < 0.01);
        assert!((seen.median_latency_us.unwrap() - 207.0).abs() < 0.01);
        assert!((seen.p99_latency_us.unwrap() - 400.0).abs() < 0.01);
        assert!(parse("").is_none());
        assert!(parse("\"SET\",\"x\"").is_none());
    }
}
