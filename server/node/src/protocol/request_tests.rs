//! Properties of the request parser: the same requests however the bytes are cut, agreement with
//! redis-protocol on everything valid, Redis's error texts on everything else, work in O(bytes).

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use proptest::prelude::*;
use redis_protocol::resp2::types::OwnedFrame;

use super::for_tests::{Outcome, check_reply, read, written};
use super::{Limits, ProtocolError, Request, RequestParser};

type Requests = Vec<Vec<Vec<u8>>>;

const LIMITS: Limits = Limits::authenticated(4 * 1024 * 1024, 64 * 1024 * 1024);

/// Feeds `pieces` one after the other, as a connection would; gives all requests and the error.
fn feed<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limits: Limits,
) -> (Requests, Option<ProtocolError>) {
    let mut requests = Vec::new();
    for outcome in read(pieces, limits) {
        match outcome {
            Outcome::Request(words) | Outcome::Oversized(words, _) => requests.push(words),
            Outcome::Broken(error) => return (requests, Some(error)),
        }
    }
    (requests, None)
}

fn whole(bytes: &[u8]) -> (Requests, Option<ProtocolError>) {
    feed([bytes], LIMITS)
}

fn bytewise(bytes: &[u8], limits: Limits) -> (Requests, Option<ProtocolError>) {
    feed(bytes.chunks(1), limits)
}

fn oracle(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let (frame, length) = redis_protocol::resp2::decode::decode(bytes).unwrap()?;
    let OwnedFrame::Array(frames) = frame else {
        panic!("not an array")
    };
    let arguments = frames.into_iter().map(|frame| match frame {
        OwnedFrame::BulkString(bytes) => bytes,
        other => panic!("not a bulk string: {other:?}"),
    });
    Some((arguments.collect(), length))
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn error_text(bytes: &[u8], limits: Limits) -> String {
    let (_, error) = feed([bytes], limits);
    assert_eq!(bytewise(bytes, limits).1, error, "{}", bytes.escape_ascii());
    let mut reply = Vec::new();
    error.expect("an error").write_reply(&mut reply);
    String::from_utf8(reply).unwrap()
}

fn arguments_strategy() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..24), 1..14)
}

proptest! {
    #[test]
    fn every_split_point_gives_what_the_oracle_decodes(arguments in arguments_strategy()) {
        let bytes = written(&arguments);
        let (decoded, length) = oracle(&bytes).expect("complete");
        prop_assert_eq!((&decoded, length), (&arguments, bytes.len()));
        for split in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(split);
            let (requests, error) = feed([head, tail], LIMITS);
            prop_assert_eq!(error, None);
            prop_assert_eq!(&requests, &vec![decoded.clone()]);
            if split < bytes.len() {
                prop_assert!(oracle(head).is_none());
                prop_assert_eq!(whole(head), (vec![], None));
            }
        }
    }

    #[test]
    fn pipelines_read_the_same_in_any_pieces(
        pipeline in prop::collection::vec(arguments_strategy(), 0..6),
        size in 1_usize..40,
    ) {
        let bytes: Vec<u8> = pipeline.iter().flat_map(|arguments| written(arguments)).collect();
        prop_assert_eq!(whole(&bytes), (pipeline.clone(), None));
        prop_assert_eq!(feed(bytes.chunks(size), LIMITS), (pipeline, None));
    }

    #[test]
    fn hostile_bytes_read_the_same_in_any_pieces(
        bytes in prop::collection::vec(
            prop_oneof![4 => prop::sample::select(&b"*$0123456789-\r\n\"' +axPOST:\x00\xff"[..]), 1 => any::<u8>()],
            0..200,
        ),
        size in 1_usize..20,
        is_authenticated in any::<bool>(),
    ) {
        let limits = if is_authenticated { LIMITS } else { Limits::UNAUTHENTICATED };
        let expected = feed([&bytes[..]], limits);
        prop_assert_eq!(&feed(bytes.chunks(size), limits), &expected);
        prop_assert_eq!(&bytewise(&bytes, limits), &expected);
    }

    #[test]
    fn every_error_is_one_line(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Some(error) = whole(&bytes).1 {
            check_reply(error);
        }
    }
}

#[test]
fn inline_requests_are_words_of_a_line() {
    let bytes = b"PING\r\nset k \"a b\\x00\\n\" 'c'\n\r\n\n   \r\nGET  k \r\n";
    let expected = vec![
        words(&["PING"]),
        words(&["set", "k", "a b\0\n", "c"]),
        words(&["GET", "k"]),
    ];
    assert_eq!(whole(bytes), (expected.clone(), None));
    assert_eq!(bytewise(bytes, LIMITS), (expected, None));
}

#[test]
fn empty_lines_and_empty_counts_are_skipped() {
    let bytes = b"\r\n\n*0\r\n*-1\r\n*-5\r\n*1\r\n$4\r\nPING\r\n\r\nPING\r\n*0\r\n";
    let ping = words(&["PING"]);
    assert_eq!(whole(bytes), (vec![ping.clone(), ping.clone()], None));
    assert_eq!(bytewise(bytes, LIMITS), (vec![ping.clone(), ping], None));
}

#[test]
fn skipped_bytes_are_given_back_to_the_buffer() {
    let mut parser = RequestParser::new(LIMITS);
    let mut buffer = b"\r\n*0\r\n*1\r\n$4\r\nPI".to_vec();
    assert_eq!(parser.next_request(&mut buffer), Ok(None));
    assert_eq!(parser.take_consumed(), 6);
    buffer.drain(..6);
    assert!(parser.is_partial(&buffer));
    buffer.extend_from_slice(b"NG\r\n");
    let request = parser.next_request(&mut buffer).unwrap().unwrap();
    assert_eq!(request.arguments(&buffer)[..], [b"PING"]);
    assert_eq!(parser.take_consumed(), buffer.len());
    assert!(!parser.is_partial(&[]));
}

#[test]
fn requests_collected_before_the_buffer_moves_stay_valid() {
    let mut parser = RequestParser::new(LIMITS);
    let mut buffer = b"GET 'a a'\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\nGET c\r\nGE".to_vec();
    let mut requests = Vec::new();
    while let Some(request) = parser.next_request(&mut buffer).unwrap() {
        requests.push(request);
    }
    let keys: Vec<&[u8]> = requests
        .iter()
        .map(|request| request.arguments(&buffer)[1])
        .collect();
    assert_eq!(keys, [&b"a a"[..], b"b", b"c"]);
    assert_eq!(parser.take_consumed(), buffer.len() - 2);
}

#[test]
fn malformed_requests_get_redis_s_words() {
    let long = |start: &str, bytes: usize| format!("{start}{}", "1".repeat(bytes)).into_bytes();
    let cases: &[(&[u8], &str)] = &[
        (b"*1\r\nx\r\n", "expected '$', got 'x'"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        (b"*1\r\n\r\n", "expected '$', got '\\x0d'"),
        (b"*1\r\n\xff\r\n", "expected '$', got '\\xff'"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$-2\r\n", "invalid bulk length"),
        (b"*1\r\n$4194305\r\n", "invalid bulk length"),
        (b"*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        (b"*1\r\n$1 \r\n", "invalid bulk length"),
        (&long("*", 70_000), "too big mbulk count string"),
        (&long("*1\r\n$", 70_000), "too big bulk count string"),
        (&long("", 70_000), "too big inline request"),
        (b"SET k \"v\r\n", "unbalanced quotes in request"),
        (b"SET k 'v'w\r\n", "unbalanced quotes in request"),
    ];
    for (bytes, text) in cases {
        assert_eq!(
            error_text(bytes, LIMITS),
            format!("-ERR Protocol error: {text}\r\n")
        );
    }
}

#[test]
fn unauthenticated_clients_get_tight_limits() {
    let many_words = "a ".repeat(11) + "\r\n";
    let cases: &[(&[u8], &str)] = &[
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"*2147483648\r\n", "unauthenticated multibulk length"),
        (b"*1\r\n$4097\r\n", "unauthenticated bulk length"),
        (&[b'a'; 16_386], "too big inline request"),
        (many_words.as_bytes(), "unauthenticated multibulk length"),
    ];
    for (bytes, text) in cases {
        let reply = error_text(bytes, Limits::UNAUTHENTICATED);
        assert_eq!(reply, format!("-ERR Protocol error: {text}\r\n"));
    }
    let allowed = written(&vec![vec![b'a'; 512]; 10]);
    assert_eq!(feed([&allowed[..]], Limits::UNAUTHENTICATED).0.len(), 1);
}

#[test]
fn limits_can_be_lifted_between_two_requests() {
    let mut parser = RequestParser::new(Limits::UNAUTHENTICATED);
    let mut buffer = b"AUTH secret\r\n*11\r\n$4\r\n".to_vec();
    assert!(parser.next_request(&mut buffer).unwrap().is_some());
    parser.set_limits(LIMITS);
    assert_eq!(parser.next_request(&mut buffer), Ok(None));
}

#[test]
fn a_request_is_bounded_as_a_whole() {
    let limits = Limits {
        request_bytes_max: 100,
        ..LIMITS
    };
    let fitting = written(&words(&["SET", "k", &"v".repeat(60)]));
    assert_eq!(feed([&fitting[..], &fitting[..]], limits).0.len(), 2);
    let before = Limits {
        is_authenticated: false,
        ..limits
    };
    let larger = written(&words(&["SET", "k", &"v".repeat(60), &"w".repeat(60)]));
    assert_eq!(
        error_text(&larger, before),
        "-ERR Protocol error: too big request, see client-query-buffer-limit\r\n"
    );
}

const SMALL: Limits = Limits {
    bulk_bytes_max: 5000,
    argument_bytes_max: 100,
    request_bytes_max: 300,
    ..LIMITS
};

/// What is read of a request that is too large, however its bytes are cut: its first words, and what follows it.
#[test]
fn a_request_that_is_too_large_is_read_to_its_end_and_not_kept() {
    let (long, wide) = ("v".repeat(5000), "w".repeat(90));
    let too_long = "an argument of 5000 bytes is longer than any value: a node keeps 100 bytes of an argument at most";
    let too_many =
        "its arguments together have more than the 300 bytes that client-query-buffer-limit allows";
    for (request, left, why) in [
        (vec!["SET", "k", &long], vec!["SET", "k"], too_long),
        (vec!["SET", "k", &long, &long], vec!["SET", "k"], too_long),
        (vec!["SET", &long, "v"], vec!["SET"], too_long),
        (vec![&long, "k"], vec![], too_long),
        (vec!["A", "B", "x", &long], vec!["A", "B"], too_long),
        (
            vec!["DEL", &wide, &wide, &wide, &wide, "z"],
            vec!["DEL", &wide],
            too_many,
        ),
    ] {
        let all = [vec!["PING"], request, vec!["GET", "k"]];
        let bytes = all.map(|request| written(&words(&request))).concat();
        for step in [bytes.len(), 1, 7, 64] {
            let (found, kept) = read_in_steps(&bytes, step, why);
            let expected = [words(&["PING"]), words(&left), words(&["GET", "k"])];
            assert_eq!(found, expected, "in steps of {step}");
            assert!(step == bytes.len() || kept <= 300 + step, "{kept} bytes");
        }
    }
}

/// What is found in these bytes, and how many of them were here at once after a step.
fn read_in_steps(bytes: &[u8], step: usize, why: &str) -> (Requests, usize) {
    let mut parser = RequestParser::new(SMALL);
    let (mut buffer, mut found, mut kept) = (Vec::new(), Vec::new(), 0);
    for piece in bytes.chunks(step) {
        buffer.extend_from_slice(piece);
        while let Some(request) = parser.next_request(&mut buffer).unwrap() {
            found.push(match request.is_oversized() {
                true => {
                    let oversized = parser.take_oversized();
                    assert_eq!(oversized.to_string(), why);
                    let words = oversized.words().into_iter();
                    words.map(<[u8]>::to_vec).collect()
                }
                false => to_vec(&request, &buffer),
            });
        }
        buffer.drain(..parser.take_consumed());
        kept = kept.max(buffer.len());
    }
    assert!(buffer.is_empty() && !parser.is_discarding());
    (found, kept)
}

/// Also behind an argument that is discarded.
#[test]
fn a_longer_argument_than_any_ends_the_connection_all_the_same() {
    let (long, longer) = ("v".repeat(5000), "v".repeat(5001));
    for request in [vec!["SET", "k", &longer], vec!["SET", "k", &long, &longer]] {
        assert_eq!(
            error_text(&written(&words(&request)), SMALL),
            "-ERR Protocol error: invalid bulk length\r\n"
        );
    }
    let posted = written(&words(&["post", &long]));
    assert_eq!(error_text(&posted, SMALL), "", "a browser");
}

fn to_vec(request: &Request, buffer: &[u8]) -> Vec<Vec<u8>> {
    let arguments = request.arguments(buffer);
    arguments.iter().map(|argument| argument.to_vec()).collect()
}

#[test]
fn browsers_are_refused_without_a_reply() {
    for line in [
        "POST / HTTP/1.1\r\n",
        "post /\n",
        "Host: localhost:6379\r\n",
        "'host:' x\r\n",
    ] {
        assert_eq!(
            whole(line.as_bytes()),
            (vec![], Some(ProtocolError::CrossProtocol))
        );
        assert_eq!(error_text(line.as_bytes(), LIMITS), "");
    }
    assert_eq!(
        whole(&written(&words(&["Post", "/"]))).1,
        Some(ProtocolError::CrossProtocol)
    );
    let posts = written(&words(&["SET", "post", "host:"]));
    assert_eq!(whole(&posts).1, None);
}

#[test]
fn a_claimed_size_reserves_nothing() {
    let mut parser = RequestParser::new(LIMITS);
    let mut buffer = b"*1048576\r\n$4194304\r\nabc".to_vec();
    assert_eq!(parser.next_request(&mut buffer), Ok(None));
    assert!(size_of::<RequestParser>() < 256);
    assert!(!parser.spans_spilled());
}

#[test]
fn a_large_request_read_byte_by_byte_costs_linear_work() {
    // Quadratic work would be 10^12 steps here and never end.
    let bytes = written(&[b"SET".to_vec(), b"k".to_vec(), vec![b'v'; 1_000_000]]);
    assert_eq!(bytewise_in_place(&bytes), 1);
    let line = [vec![b'a'; 60_000], b"\r\n".to_vec()].concat();
    assert_eq!(bytewise_in_place(&line), 1);
}

/// Like `bytewise`, but it only ever shows the parser a longer prefix of one buffer.
fn bytewise_in_place(bytes: &[u8]) -> usize {
    let mut buffer = bytes.to_vec();
    let mut parser = RequestParser::new(LIMITS);
    (0..=buffer.len())
        .filter(|end| parser.next_request(&mut buffer[..*end]).unwrap().is_some())
        .count()
}
