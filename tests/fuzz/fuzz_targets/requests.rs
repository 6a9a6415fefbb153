//! A client's bytes in the parser of requests.
//!
//! The same requests and the same error come out however the bytes are cut. What is kept of a request that is not complete is
//! bounded. A request that is written out again is read as the same one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quorlock_fuzz::{Choices, pieces};
use quorlock_node::protocol::Limits;
use quorlock_node::protocol::for_tests::{Outcome, check_reply, read, written};

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices::new(input);
    let limits = match choices.byte() % 4 {
        0 => WIDE,
        1 => Limits::UNAUTHENTICATED,
        2 => NARROW,
        _ => Limits {
            is_authenticated: false,
            ..NARROW
        },
    };
    let seed = u64::from(choices.short());
    let bytes = choices.rest();
    let whole = read([bytes], limits);
    assert_eq!(read(pieces(bytes, seed), limits), whole, "cut by {seed}");
    assert_eq!(read(bytes.chunks(1), limits), whole, "byte by byte");
    for outcome in whole {
        match outcome {
            Outcome::Request(arguments) => {
                let bytes = written(&arguments);
                let again = read([&bytes[..]], WIDE);
                assert_eq!(again, [Outcome::Request(arguments)]);
            }
            Outcome::Oversized(words, why) => {
                assert!(words.len() <= 2 && !why.contains('\n'));
            }
            Outcome::Broken(error) => check_reply(error),
        }
    }
});

const WIDE: Limits = Limits::authenticated(4 << 20, 64 << 20);
/// So that a short input reaches every limit.
const NARROW: Limits = Limits {
    arguments_max: 12,
    bulk_bytes_max: 96,
    argument_bytes_max: 48,
    inline_bytes_max: 64,
    request_bytes_max: 160,
    is_authenticated: true,
};
