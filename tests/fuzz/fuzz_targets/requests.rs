//! A client's bytes in the parser of requests.
//!
//! The same requests and the same error come out however the bytes are cut. What is kept of a request that is not complete is
//! bounded. A request that is written out again is read as the same one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quorlock_fuzz::{Choices, pieces};
use quorlock_node::protocol::{Limits, ProtocolError, RequestParser};

/// What came out of the parser.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Request(Vec<Vec<u8>>),
    Oversized(Vec<Vec<u8>>, String),
    Broken(ProtocolError),
}

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

/// Hands in the pieces one after the other, as a connection does.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Vec<Outcome> {
    let mut parser = RequestParser::new(limits);
    let mut buffer = Vec::new();
    let mut outcomes = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next_request(&mut buffer) {
                Ok(None) => break,
                Ok(Some(request)) if request.is_oversized() => {
                    let oversized = parser.take_oversized();
                    let words = oversized.words().into_iter().map(<[u8]>::to_vec);
                    outcomes.push(Outcome::Oversized(words.collect(), oversized.to_string()));
                }
                Ok(Some(request)) => {
                    let arguments = request.arguments(&buffer).into_iter();
                    outcomes.push(Outcome::Request(arguments.map(<[u8]>::to_vec).collect()));
                }
                Err(error) => {
                    outcomes.push(Outcome::Broken(error));
                    return outcomes;
                }
            }
        }
        buffer.drain(..parser.take_consumed());
        let kept = buffer.len() + parser.memory();
        assert!(kept <= kept_max(&limits), "{kept} bytes are kept");
    }
    outcomes
}

/// The longest request, the longest line behind it, and where its arguments are.
fn kept_max(limits: &Limits) -> usize {
    let request = limits.request_bytes_max as usize;
    request + limits.inline_bytes_max + 16 * limits.arguments_max + 1024
}

fn written(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// An error is one line, or nothing.
fn check_reply(error: ProtocolError) {
    let mut reply = Vec::new();
    error.write_reply(&mut reply);
    if error == ProtocolError::CrossProtocol {
        assert!(reply.is_empty());
        return;
    }
    let text = reply.strip_suffix(b"\r\n").expect("a line ends");
    assert!(text.starts_with(b"-ERR Protocol error: ") && text.is_ascii());
    assert!(!text.contains(&b'\r') && !text.contains(&b'\n'));
}

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
