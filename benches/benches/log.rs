//! How long logging takes: a thousand groups appended, sealed and written, on a disk in memory, so
//! that it is our work that is measured and not the disk's.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use quorlock_persistence::{
    Disk, FrameBatch, FrameKind, Log, LogIdentity, LogOptions, MemoryDisk, Position, Recovery,
};

const GROUPS: u64 = 1_000;
/// About what `SET lock:... NX PX` logs.
const PAYLOAD: [u8; 64] = [7; 64];

fn open(disk: Arc<dyn Disk>) -> Log {
    let identity = LogIdentity {
        node_id: [1; 20],
        boot_id: [2; 16],
        incarnation: 1,
    };
    let recovery = Recovery::read(disk, &LogOptions::default()).expect("an empty disk is a log");
    recovery
        .into_log(identity)
        .expect("a disk in memory can be written")
}

fn append(log: &mut Log, batch: FrameBatch) -> FrameBatch {
    for number in 0..GROUPS {
        log.appender
            .append(FrameKind::new(1), number, black_box(&PAYLOAD));
    }
    log.appender.take(batch)
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("log");
    group.throughput(Throughput::Elements(GROUPS));
    let fresh = || (open(Arc::new(MemoryDisk::new())), FrameBatch::default());
    group.bench_function("append", |bencher| {
        bencher.iter_batched(
            fresh,
            |(mut log, batch)| {
                let batch = append(&mut log, batch);
                (log, batch)
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("append, seal and write", |bencher| {
        bencher.iter_batched(
            fresh,
            |(mut log, batch)| {
                let mut batch = append(&mut log, batch);
                let written = log.writer.write(&mut batch).expect("there is room");
                assert!(written > Position::ZERO);
                (log, batch)
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
