//! How long commands take in the engine alone: no socket, no log, no clock.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, criterion_group, criterion_main};
use quorlock_engine::{
    Caller, Command, Effects, Engine, EngineOptions, KeyHash, LogPosition, Moment, NodeTime, Reply,
    key_to_prefetch,
};

const NAMES: u64 = 100_000;

/// An engine, the effects it fills, and a time that goes on by a microsecond each command.
struct Bench {
    engine: Engine,
    effects: Effects,
    commands: u64,
}

impl Bench {
    fn new() -> Self {
        let engine = Engine::new(EngineOptions::default());
        Self {
            engine,
            effects: Effects::default(),
            commands: 0,
        }
    }

    fn run(&mut self, arguments: &[&[u8]]) -> Reply {
        self.commands += 1;
        let node = NodeTime::from_nanos(1_000_000_000 + self.commands * 1_000);
        let now = Moment {
            node,
            wall_us: 1_700_000_000_000_000 + self.commands,
        };
        self.effects.begin(LogPosition::from_raw(self.commands));
        let command = match Command::parse(arguments) {
            Ok(command) => command,
            Err(error) => return Reply::Error(error),
        };
        self.engine
            .execute(now, &Caller::default(), &command, &mut self.effects)
    }
}

fn acquire(bench: &mut Bench, name: &str) -> Reply {
    let token = b"0123456789abcdef0123";
    bench.run(&[b"SET", name.as_bytes(), token, b"NX", b"PX", b"30000"])
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine");
    let names: Vec<String> = (0..NAMES)
        .map(|number| format!("lock:{number:012}"))
        .collect();
    let mut turn = names.iter().cycle();

    let mut granted = Bench::new();
    group.bench_function("SET NX PX granted, then DEL", |bencher| {
        bencher.iter(|| {
            let name = turn.next().map_or("", String::as_str);
            let reply = acquire(&mut granted, black_box(name));
            assert_eq!(reply, Reply::Ok);
            granted.run(&[b"DEL", name.as_bytes()])
        });
    });

    let mut refused = Bench::new();
    acquire(&mut refused, "lock:hot");
    group.bench_function("SET NX PX refused", |bencher| {
        bencher.iter(|| acquire(&mut refused, black_box("lock:hot")));
    });

    let mut read = Bench::new();
    acquire(&mut read, "lock:hot");
    group.bench_function("GET", |bencher| {
        bencher.iter(|| read.run(&[b"GET", black_box(b"lock:hot")]));
    });

    let mut extended = Bench::new();
    acquire(&mut extended, "lock:hot");
    group.bench_function("PEXPIRE", |bencher| {
        bencher.iter(|| extended.run(&[b"PEXPIRE", black_box(b"lock:hot"), b"30000"]));
    });
    prefetched(&mut group);
    group.finish();
}

/// A batch of requests on keys that are in memory and in no cache: with and without prefetching. And
/// what prefetching does twice: it looks the command up and hashes the key, as execution does again.
fn prefetched(group: &mut BenchmarkGroup<'_, WallTime>) {
    let mut stored = Bench::new();
    let name = |number: u64| format!("lock:{:012}", number % STORED);
    for number in 0..STORED {
        acquire(&mut stored, &name(number));
    }
    let mut next: u64 = 0;
    let mut batch = || -> Vec<String> {
        // Steps over far more keys than the caches hold.
        next += 1;
        (0..BATCH)
            .map(|number| name((next * BATCH + number) * 7_919))
            .collect()
    };
    for is_prefetched in [false, true] {
        let title = format!("64 GET of a million keys, prefetched: {is_prefetched}");
        group.bench_function(title, |bencher| {
            bencher.iter_batched_ref(
                &mut batch,
                |names| {
                    if is_prefetched {
                        let hash = |name: &String| {
                            let words = [b"GET".as_slice(), name.as_bytes()];
                            let key = key_to_prefetch(|at| words.get(at).copied())?;
                            Some(stored.engine.key_hash(0, key))
                        };
                        let keys: Vec<KeyHash> = names.iter().filter_map(hash).collect();
                        stored.engine.prefetch(&keys);
                    }
                    for name in names {
                        black_box(stored.run(&[b"GET", name.as_bytes()]));
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    let words = [b"GET".as_slice(), b"lock:000000000001"];
    group.bench_function("hash of the first key", |bencher| {
        bencher.iter(|| {
            let argument = |at: usize| words.get(at).copied();
            key_to_prefetch(black_box(argument)).map(|key| stored.engine.key_hash(0, key))
        });
    });
}

/// Keys of the benches of prefetching: some hundred megabytes, more than any cache.
const STORED: u64 = 1_000_000;

/// Requests that a worker finds at once on a busy node.
const BATCH: u64 = 64;

criterion_group!(benches, bench);
criterion_main!(benches);
