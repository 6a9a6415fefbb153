//! How long writing a reply takes.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use quorlock_engine::{Protocol, Reply};
use quorlock_node::protocol::{Output, reply};

fn bench(criterion: &mut Criterion) {
    let replies = [
        ("ok", Reply::Ok),
        ("nil", Reply::Nil),
        ("integer", Reply::Integer(29_987)),
        ("bulk", Reply::Bulk(b"0123456789abcdef0123".to_vec())),
        (
            "array",
            Reply::Array(vec![Reply::Integer(1), Reply::Nil, Reply::Ok]),
        ),
    ];
    let mut group = criterion.benchmark_group("reply");
    let mut out = Output::default();
    for (name, reply) in &replies {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| {
                out.clear(1024);
                reply::write(&mut out, black_box(reply), Protocol::Resp2);
                black_box(out.len())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
