//! How long finding the requests in a buffer takes: one at a time, and pipelined.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quorlock_node::protocol::{Limits, RequestParser};

const ACQUIRE: &[u8] =
    b"*6\r\n$3\r\nSET\r\n$17\r\nlock:000000012345\r\n$20\r\n0123456789abcdef0123\r\n\
                         $2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n";
const INLINE: &[u8] = b"SET lock:000000012345 0123456789abcdef0123 NX PX 30000\r\n";

fn limits() -> Limits {
    Limits::authenticated(4 << 20, 64 << 20)
}

/// Finds every request and touches its arguments, as a node does.
fn parse(parser: &mut RequestParser, buffer: &mut [u8]) -> usize {
    let mut words = 0;
    while let Ok(Some(request)) = parser.next_request(buffer) {
        words += black_box(request.arguments(buffer)).len();
    }
    parser.take_consumed();
    words
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parser");
    for (name, request, depth) in [
        ("multibulk", ACQUIRE, 1),
        ("multibulk, depth 16", ACQUIRE, 16),
        ("inline", INLINE, 1),
    ] {
        let mut buffer = request.repeat(depth);
        let mut parser = RequestParser::new(limits());
        assert_eq!(
            parse(&mut parser, &mut buffer),
            6 * depth,
            "{name} is understood"
        );
        group.throughput(Throughput::Elements(depth as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| parse(&mut parser, black_box(&mut buffer)));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
