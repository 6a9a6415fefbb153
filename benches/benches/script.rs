//! How long the scripts of lock libraries take in the engine alone.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use quorlock_engine::{
    Caller, Command, Effects, Engine, EngineOptions, LogPosition, Moment, NodeTime, Reply,
};

const RELEASE: &[u8] = b"if redis.call('get',KEYS[1]) == ARGV[1] then \
                         return redis.call('del',KEYS[1]) else return 0 end";
const EXTEND: &[u8] = b"if redis.call('get',KEYS[1]) == ARGV[1] then \
                        return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";
const REENTRANT: &[u8] = b"if (redis.call('exists', KEYS[1]) == 0) then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); \
    return nil; end; \
    if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); \
    return nil; end; return redis.call('pttl', KEYS[1]);";

/// A name, the script, the words after its digest, and what it must answer.
type Call = (&'static str, &'static [u8], &'static [&'static [u8]], Reply);

fn run(engine: &mut Engine, effects: &mut Effects, arguments: &[&[u8]]) -> Reply {
    let node = NodeTime::from_nanos(1_000_000_000);
    let now = Moment {
        node,
        wall_us: 1_700_000_000_000_000,
    };
    effects.begin(LogPosition::from_raw(effects.position.get() + 1));
    match Command::parse(arguments) {
        Ok(command) => engine.execute(now, &Caller::default(), &command, effects),
        Err(error) => Reply::Error(error),
    }
}

fn bench(criterion: &mut Criterion) {
    let mut engine = Engine::new(EngineOptions::default());
    let mut effects = Effects::default();
    let set: [&[u8]; 5] = [b"SET", b"lock:held", b"token", b"PX", b"30000"];
    assert_eq!(run(&mut engine, &mut effects, &set), Reply::Ok);
    let calls: [Call; 4] = [
        (
            "compare-and-delete, miss",
            RELEASE,
            &[b"1", b"lock:none", b"token"],
            Reply::Integer(0),
        ),
        (
            "compare-and-delete, other",
            RELEASE,
            &[b"1", b"lock:held", b"x"],
            Reply::Integer(0),
        ),
        (
            "compare-and-pexpire",
            EXTEND,
            &[b"1", b"lock:held", b"token", b"30000"],
            Reply::Integer(1),
        ),
        (
            "reentrant lock",
            REENTRANT,
            &[b"1", b"lock:deep", b"30000", b"one:1"],
            Reply::Nil,
        ),
    ];
    let mut group = criterion.benchmark_group("script");
    for (name, script, words, expected) in calls {
        let Reply::Bulk(digest) = run(&mut engine, &mut effects, &[b"SCRIPT", b"LOAD", script])
        else {
            panic!("{name} is compiled");
        };
        let mut arguments: Vec<&[u8]> = vec![b"EVALSHA", &digest];
        arguments.extend(words);
        assert_eq!(
            run(&mut engine, &mut effects, &arguments),
            expected,
            "{name}"
        );
        group.bench_function(name, |bencher| {
            bencher.iter(|| run(&mut engine, &mut effects, black_box(&arguments)));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
