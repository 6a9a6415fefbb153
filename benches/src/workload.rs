//! The workloads, as `performance targets` name them: what is sent, how, and what is aimed at.
//!
//! A lock's TTL stays under a minute wherever the log is synced: beyond the cap of the restart delay
//! a node syncs every write, and another thing would be measured.

use std::time::Duration;

/// What one client sends again and again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// `SET lock:<random> <token> NX PX 30000`, nearly always granted.
    Acquire,
    /// The same on ten keys, nearly always refused.
    Refused,
    /// The compare-and-delete script by EVALSHA, on a key that does not exist.
    ReleaseMiss,
    /// SET NX PX and then the compare-and-delete that finds it: one cycle is one operation.
    Cycle,
    /// Redisson's script that takes a reentrant lock, by EVALSHA.
    Reentrant,
    /// That script and the one that gives the lock back, with its message to nobody: one cycle is one operation.
    ReentrantCycle,
    /// MULTI, five commands on one key, EXEC.
    Transaction,
    /// LPUSH of an element for which another connection waits with BLPOP.
    HandOver,
    /// PUBLISH of a token to so many who listen.
    Publish { listeners: u32 },
    /// ZADD of one of a thousand members.
    ScoredAdd,
    /// ZREMRANGEBYSCORE that finds nothing among a thousand members, as semaphores do.
    ScoredRemoveNone,
    /// GET of keys that exist, while other connections take locks under other keys.
    ReadBesideAcquire { writers: u32 },
    /// Locks that stay; measured is the memory they take.
    Fill,
    /// Locks of which four fifths are deleted; measured is the next start.
    Replay,
    /// A PING every millisecond, or the least that one could have to wait.
    Probe(Probed),
    /// Keys that end one after the other, beside so many connections that take locks; measured is when a listener is told.
    ExpiredEvents { writers: u32 },
    /// Nothing; measured is the start.
    Start,
    /// Nothing, for a while.
    Idle,
    /// Connections that say nothing; measured is the memory they take.
    IdleConnections,
    /// A Redlock client acquires and releases on five of the peer's servers.
    Redlock { broken: Broken },
    /// Callers of one Redlock client wait for one lock and give up together; measured is the client's thread.
    Crowd,
}

/// Beside what something is timed every millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    /// A PING, while keys expire at one moment.
    ExpiringKeys,
    /// A PING, while as many keys live on.
    LivingKeys,
    /// A thread that sleeps and asks no server: what the machine itself lets it wait.
    Nobody,
}

impl Traffic {
    /// Whether no key is there once all is done.
    pub(crate) fn leaves_no_key(self) -> bool {
        matches!(
            self,
            Traffic::Cycle
                | Traffic::ReleaseMiss
                | Traffic::ReentrantCycle
                | Traffic::Transaction
                | Traffic::HandOver
                | Traffic::Publish { .. }
        )
    }
}

/// What is wrong with two of five nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    Nothing,
    /// Their processes are killed.
    Dead,
    /// Their processes are stopped: connections stand, and nothing is answered.
    Hung,
}

/// How the servers write their logs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    None,
    EverySecond,
    Always,
}

/// Whom ours is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opponent {
    Peer,
    /// Ours itself, with another way of writing its log.
    Ours(Log),
    /// Another Redlock library.
    Rslock,
    /// Our own Redlock client while all nodes are well.
    AllWell,
    /// Our own Redlock client with a hundredth of the callers.
    Fewer,
}

/// Which figure the target is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    Throughput,
    MedianLatency,
    HighLatency,
    BytesPerLock,
    BytesPerConnection,
    StartTime,
    /// Ours alone, in milliseconds.
    EmptyStart,
    /// Ours alone: the longest that a request waited, in milliseconds.
    Stall,
    /// Ours alone, in microseconds of CPU a second.
    IdleCpu,
}

/// One row of the report.
#[derive(Clone)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) traffic: Traffic,
    pub(crate) log: Log,
    pub(crate) opponent: Opponent,
    /// Ours runs scripts in its interpreter that need none.
    pub(crate) is_interpreted: bool,
    /// How much longer every sync of either server takes than the disk needs.
    pub(crate) sync_delay: Option<Duration>,
    pub(crate) connections: u32,
    pub(crate) depth: u32,
    pub(crate) operations: u64,
    pub(crate) figure: Figure,
    /// Ours divided by the peer's: at least this for throughput, at most for all else; a figure of ours alone is at most
    /// this.
    pub(crate) target: Option<f64>,
    /// Server CPU per operation, ours divided by the peer's: at most this.
    pub(crate) cpu_target: Option<f64>,
    /// Takes minutes a round, and is measured only if asked for.
    pub(crate) is_long: bool,
}

impl Workload {
    const fn new(name: &'static str, traffic: Traffic, log: Log, shape: (u32, u32)) -> Self {
        let (connections, depth) = shape;
        Self {
            name,
            traffic,
            log,
            opponent: Opponent::Peer,
            is_interpreted: false,
            sync_delay: None,
            connections,
            depth,
            operations: 1,
            figure: Figure::Throughput,
            target: None,
            cpu_target: None,
            is_long: false,
        }
    }

    const fn operations(mut self, operations: u64) -> Self {
        self.operations = operations;
        self
    }

    const fn target(mut self, throughput: f64) -> Self {
        self.target = Some(throughput);
        self
    }

    const fn cpu_target(mut self, cpu: f64) -> Self {
        self.cpu_target = Some(cpu);
        self
    }

    /// The target is about another figure than throughput.
    const fn showing(mut self, figure: Figure) -> Self {
        self.figure = figure;
        self
    }

    const fn target_of(mut self, figure: Figure, most: f64) -> Self {
        self.figure = figure;
        self.target = Some(most);
        self
    }

    const fn interpreted(mut self) -> Self {
        self.is_interpreted = true;
        self
    }

    const fn sync_delay_ms(mut self, delay_ms: u64) -> Self {
        self.sync_delay = Some(Duration::from_millis(delay_ms));
        self
    }

    const fn against_ours(mut self, log: Log) -> Self {
        self.opponent = Opponent::Ours(log);
        self
    }

    const fn long(mut self) -> Self {
        self.is_long = true;
        self
    }

    /// A share of the operations, rounded up to whole batches.
    pub(crate) fn scaled(&self, divisor: u64) -> u64 {
        let batch = u64::from(self.connections) * u64::from(self.depth);
        (self.operations / divisor)
            .max(batch)
            .next_multiple_of(batch)
    }

    /// Whether this row is meant by a wish: `P6` means all of P6 and nothing of P6b, `P6 50` also
    /// `P6 50 deep`.
    pub(crate) fn is_named(&self, wish: &str) -> bool {
        let mut words = self.name.split(' ');
        wish.split(' ').all(|word| words.next() == Some(word))
    }
}

/// Every workload, in the order of the report.
pub(crate) fn all() -> Vec<Workload> {
    [
        memory_only(),
        synced(),
        slowly_synced(),
        latency_and_reads(),
        resources(),
        redlock(),
        collections(),
    ]
    .concat()
}

fn memory_only() -> Vec<Workload> {
    use Log::{EverySecond, None};
    use Traffic::{Acquire, Cycle, Reentrant, Refused, ReleaseMiss};
    let row = Workload::new;
    vec![
        row("P1", Acquire, None, (50, 1))
            .operations(500_000)
            .target(1.0)
            .cpu_target(0.8),
        row("P1 everysec", Acquire, EverySecond, (50, 1)).operations(400_000),
        row("P2", Acquire, None, (50, 16))
            .operations(2_000_000)
            .target(2.5)
            .cpu_target(0.4),
        row("P2 everysec", Acquire, EverySecond, (50, 16)).operations(1_500_000),
        row("P3", Refused, None, (50, 1))
            .operations(500_000)
            .target(1.0)
            .cpu_target(0.8),
        row("P4", ReleaseMiss, None, (50, 1))
            .operations(400_000)
            .target(1.05)
            .cpu_target(0.9),
        row("P4 deep", ReleaseMiss, None, (50, 16))
            .operations(1_000_000)
            .target(1.5)
            .cpu_target(0.65),
        row("P4 interpreted", ReleaseMiss, None, (50, 1))
            .operations(400_000)
            .interpreted(),
        row("P4 interpreted deep", ReleaseMiss, None, (50, 16))
            .operations(1_000_000)
            .interpreted(),
        row("P4 cycle", Cycle, None, (50, 1)).operations(200_000),
        row("P4 cycle deep", Cycle, None, (50, 16)).operations(500_000),
        row("P5", Reentrant, None, (50, 1))
            .operations(400_000)
            .target(1.05)
            .cpu_target(0.9),
        row("P5 deep", Reentrant, None, (50, 16))
            .operations(1_000_000)
            .target(1.3)
            .cpu_target(0.75),
    ]
}

fn synced() -> Vec<Workload> {
    let row = |name, shape| Workload::new(name, Traffic::Acquire, Log::Always, shape);
    vec![
        row("P6 8", (8, 1)).operations(60_000).target(1.3),
        row("P6 50", (50, 1)).operations(200_000).target(1.5),
        row("P6 200", (200, 1)).operations(300_000).target(1.3),
        row("P6 50 deep", (50, 16))
            .operations(1_000_000)
            .target(2.0),
    ]
}

/// With delayed syncs: as many operations as take a few seconds.
fn slowly_synced() -> Vec<Workload> {
    let row = |name, delay_ms, connections| {
        Workload::new(name, Traffic::Acquire, Log::Always, (connections, 1))
            .sync_delay_ms(delay_ms)
            .target(1.5)
    };
    vec![
        row("P6b 1ms 8", 1, 8).operations(20_000),
        row("P6b 1ms 50", 1, 50).operations(100_000),
        row("P6b 1ms 200", 1, 200).operations(250_000),
        row("P6b 5ms 8", 5, 8).operations(5_000),
        row("P6b 5ms 50", 5, 50).operations(30_000),
        row("P6b 5ms 200", 5, 200).operations(100_000),
    ]
}

fn latency_and_reads() -> Vec<Workload> {
    use Log::{Always, EverySecond};
    use Traffic::{Acquire, ReadBesideAcquire};
    let row = Workload::new;
    vec![
        row("P7", Acquire, Always, (1, 1))
            .operations(15_000)
            .target_of(Figure::MedianLatency, 0.85),
        row("P8", ReadBesideAcquire { writers: 8 }, Always, (50, 1))
            .sync_delay_ms(5)
            .operations(100_000)
            .target(10.0),
        row("P9", Acquire, Always, (200, 16))
            .operations(1_500_000)
            .against_ours(EverySecond)
            .target(0.85),
    ]
}

fn resources() -> Vec<Workload> {
    use Figure::{BytesPerConnection, BytesPerLock, EmptyStart, IdleCpu, Stall, StartTime};
    use Log::{EverySecond, None};
    use Probed::{ExpiringKeys, LivingKeys, Nobody};
    use Traffic::{ExpiredEvents, Fill, Idle, IdleConnections, Probe, Replay, Start};
    let row = Workload::new;
    vec![
        row("P10", Fill, None, (50, 64))
            .operations(1_000_000)
            .target_of(BytesPerLock, 0.45),
        row("P11", Replay, EverySecond, (1, 1800))
            .operations(1_000_000)
            .target_of(StartTime, 0.2),
        row("P11 10M", Replay, EverySecond, (1, 1800))
            .operations(10_000_000)
            .target_of(StartTime, 0.2)
            .long(),
        row("P12", Probe(ExpiringKeys), None, (1, 1000))
            .operations(1_000_000)
            .target_of(Stall, 2.0),
        row("P12 nothing expires", Probe(LivingKeys), None, (1, 1000))
            .operations(1_000_000)
            .showing(Stall),
        row("P12 machine alone", Probe(Nobody), None, (1, 1000))
            // As many milliseconds as the row above is probed.
            .operations(6_500)
            .showing(Stall),
        row("P12 events", ExpiredEvents { writers: 0 }, None, (1, 1))
            .operations(100)
            .target_of(Stall, 20.0),
        row(
            "P12 events busy",
            ExpiredEvents { writers: 50 },
            None,
            (1, 1),
        )
        .operations(100)
        .target_of(Stall, 100.0),
        row("P13 start", Start, None, (1, 1)).target_of(EmptyStart, 10.0),
        row("P13 idle", Idle, None, (1, 1))
            .operations(60)
            .target_of(IdleCpu, 100.0),
        row("P13 connections", IdleConnections, None, (1, 1))
            // Both serve 10,000 clients, those who ask beside included.
            .operations(9_990)
            .target_of(BytesPerConnection, 1.0),
    ]
}

/// The client: as many connections as callers, each with a name of its own.
fn redlock() -> Vec<Workload> {
    use Broken::{Dead, Hung, Nothing};
    let row = |name, broken, callers| {
        Workload::new(name, Traffic::Redlock { broken }, Log::None, (callers, 1))
    };
    let broken = |name, broken, callers| {
        let mut row = row(name, broken, callers).target_of(Figure::HighLatency, 1.2);
        row.opponent = Opponent::AllWell;
        row
    };
    let mut rows = vec![
        row("P14", Nothing, 1)
            .operations(20_000)
            .target_of(Figure::MedianLatency, 0.8),
        row("P15", Nothing, 64).operations(100_000).target(2.0),
    ];
    rows.iter_mut()
        .for_each(|row| row.opponent = Opponent::Rslock);
    rows.extend([
        broken("P16 dead", Dead, 1).operations(20_000),
        broken("P16 hung", Hung, 1).operations(20_000),
        broken("P16 dead 64", Dead, 64).operations(100_000),
        broken("P16 hung 64", Hung, 64).operations(100_000),
    ]);
    let mut crowd = Workload::new("P16 crowd", Traffic::Crowd, Log::None, (100_000, 1));
    crowd.opponent = Opponent::Fewer;
    // A lease of 3 s is renewed after one.
    rows.push(crowd.target_of(Figure::Stall, 1_000.0).cpu_target(1.5));
    rows
}

/// What lock libraries and queues use beside strings and hashes.
fn collections() -> Vec<Workload> {
    use Traffic::{HandOver, Publish, ReentrantCycle, ScoredAdd, ScoredRemoveNone, Transaction};
    let row = |name, traffic, shape| {
        Workload::new(name, traffic, Log::None, shape)
            .target(1.0)
            .cpu_target(1.0)
    };
    vec![
        row("P18", ReentrantCycle, (50, 1)).operations(200_000),
        row("P18 deep", ReentrantCycle, (50, 16)).operations(400_000),
        row("P19 1", Publish { listeners: 1 }, (50, 1)).operations(300_000),
        row("P19 100", Publish { listeners: 100 }, (50, 1)).operations(100_000),
        row("P20", HandOver, (50, 1)).operations(200_000),
        row("P21", Transaction, (50, 1)).operations(200_000),
        row("P22 add", ScoredAdd, (50, 16)).operations(1_000_000),
        row("P22 remove", ScoredRemoveNone, (50, 16)).operations(1_000_000),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_workload_is_made_of_whole_batches() {
        for workload in all() {
            for divisor in [1, 20, 1_000_000] {
                let batch = u64::from(workload.connections * workload.depth);
                let operations = workload.scaled(divisor);
                assert!(
                    operations >= batch && operations % batch == 0,
                    "{}",
                    workload.name
                );
            }
        }
    }

    #[test]
    fn a_wish_names_whole_words() {
        let named = |wish: &str| {
            let rows = all().into_iter().filter(|row| row.is_named(wish));
            rows.map(|row| row.name).collect::<Vec<_>>()
        };
        assert_eq!(named("P1"), ["P1", "P1 everysec"]);
        assert_eq!(named("P6 50"), ["P6 50", "P6 50 deep"]);
        assert_eq!(named("P6b 5ms").len(), 3);
        assert_eq!(named("P11"), ["P11", "P11 10M"]);
        assert!(named("P6 5").is_empty() && named("P").is_empty());
    }
}
