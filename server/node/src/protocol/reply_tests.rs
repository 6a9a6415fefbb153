//! Properties of the reply writer: redis-protocol reads back what was meant, lines stay lines, depth
//! costs no stack.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use proptest::prelude::*;
use quorlock_engine::{ErrorReply, Protocol, Reply};
use redis_protocol::resp2::types::OwnedFrame as Resp2;
use redis_protocol::resp3::types::{OwnedFrame as Resp3, VerbatimStringFormat};

use super::{Output, reply};

fn written(value: &Reply, protocol: Protocol) -> Vec<u8> {
    let mut out = Output::default();
    reply::write(&mut out, value, protocol);
    out.runs().flatten().copied().collect()
}

fn text(value: &Reply, protocol: Protocol) -> String {
    String::from_utf8(written(value, protocol)).unwrap()
}

fn one_line(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .map(|byte| {
            if matches!(byte, b'\r' | b'\n') {
                b' '
            } else {
                *byte
            }
        })
        .collect()
}

fn error_text(error: &ErrorReply) -> String {
    String::from_utf8(one_line(error.as_bytes())).unwrap()
}

fn as_resp2(value: &Reply) -> Resp2 {
    let array = |items: &[Reply]| Resp2::Array(items.iter().map(as_resp2).collect());
    match value {
        Reply::Ok => Resp2::SimpleString(b"OK".to_vec()),
        Reply::Status(text) => Resp2::SimpleString(one_line(text)),
        Reply::Nil | Reply::NilArray => Resp2::Null,
        Reply::Integer(value) => Resp2::Integer(*value),
        Reply::Bulk(bytes) | Reply::BigNumber(bytes) | Reply::Verbatim(_, bytes) => {
            Resp2::BulkString(bytes.clone())
        }
        Reply::Shared(bytes) => Resp2::BulkString(bytes.to_vec()),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => array(items),
        Reply::Map(pairs) => Resp2::Array(
            pairs
                .iter()
                .flat_map(|(key, value)| [as_resp2(key), as_resp2(value)])
                .collect(),
        ),
        Reply::Double(value) => {
            Resp2::BulkString(quorlock_engine::double_text(*value).into_bytes())
        }
        Reply::Boolean(value) => Resp2::Integer(i64::from(*value)),
        Reply::Error(error) => Resp2::Error(error_text(error)),
    }
}

fn as_resp3(value: &Reply) -> Resp3 {
    let attributes = None;
    let list = |items: &[Reply]| items.iter().map(as_resp3).collect();
    match value {
        Reply::Ok => Resp3::SimpleString {
            data: b"OK".to_vec(),
            attributes,
        },
        Reply::Status(text) => Resp3::SimpleString {
            data: one_line(text),
            attributes,
        },
        Reply::Nil | Reply::NilArray => Resp3::Null,
        Reply::Integer(value) => Resp3::Number {
            data: *value,
            attributes,
        },
        Reply::Bulk(bytes) => Resp3::BlobString {
            data: bytes.clone(),
            attributes,
        },
        Reply::Shared(bytes) => Resp3::BlobString {
            data: bytes.to_vec(),
            attributes,
        },
        Reply::BigNumber(digits) => Resp3::BigNumber {
            data: digits.clone(),
            attributes,
        },
        Reply::Verbatim(_, bytes) => Resp3::VerbatimString {
            data: bytes.clone(),
            format: VerbatimStringFormat::Text,
            attributes,
        },
        Reply::Array(items) => Resp3::Array {
            data: list(items),
            attributes,
        },
        Reply::Push(items) => Resp3::Push {
            data: list(items),
            attributes,
        },
        Reply::Set(items) => Resp3::Set {
            data: items.iter().map(as_resp3).collect(),
            attributes,
        },
        Reply::Map(pairs) => Resp3::Map {
            data: pairs
                .iter()
                .map(|(key, value)| (as_resp3(key), as_resp3(value)))
                .collect(),
            attributes,
        },
        Reply::Double(value) => Resp3::Double {
            data: *value,
            attributes,
        },
        Reply::Boolean(value) => Resp3::Boolean {
            data: *value,
            attributes,
        },
        Reply::Error(error) => Resp3::SimpleError {
            data: error_text(error),
            attributes,
        },
    }
}

fn scalar() -> impl Strategy<Value = Reply> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        Just(Reply::Ok),
        Just(Reply::Nil),
        Just(Reply::NilArray),
        any::<i64>().prop_map(Reply::Integer),
        prop_oneof![Just(-1_i64), 0..11_i64, Just(i64::MIN), Just(i64::MAX)]
            .prop_map(Reply::Integer),
        bytes().prop_map(Reply::Bulk),
        (
            any::<u8>(),
            prop_oneof![Just(4095), Just(4096), 0..9000_usize]
        )
            .prop_map(|(byte, length)| Reply::Shared(vec![byte; length].into())),
        "-?[1-9][0-9]{0,30}".prop_map(|digits| Reply::BigNumber(digits.into_bytes())),
        bytes().prop_map(|bytes| Reply::Verbatim(*b"txt", bytes)),
        "[a-zA-Z\r\n ]{0,20}".prop_map(|text| Reply::Status(text.into_bytes().into())),
        "ERR [a-zA-Z\r\n ']{0,20}".prop_map(|text| ErrorReply::new(text).into()),
        any::<bool>().prop_map(Reply::Boolean),
        any::<f64>()
            .prop_filter("NaN equals nothing", |value| !value.is_nan())
            .prop_map(Reply::Double),
    ]
}

fn value() -> impl Strategy<Value = Reply> {
    scalar().prop_recursive(5, 60, 6, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..6);
        // The oracle can only hash scalars, so only those are keys and members here.
        let keys = prop::collection::btree_set(any::<i64>(), 0..5);
        prop_oneof![
            list().prop_map(Reply::Array),
            keys.clone()
                .prop_map(|keys| Reply::Set(keys.into_iter().map(Reply::Integer).collect())),
            (keys, list()).prop_map(|(keys, values)| {
                Reply::Map(keys.into_iter().map(Reply::Integer).zip(values).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn resp2_reads_back(value in value()) {
        let bytes = written(&value, Protocol::Resp2);
        let (frame, length) = redis_protocol::resp2::decode::decode(&bytes).unwrap().unwrap();
        prop_assert_eq!(length, bytes.len());
        prop_assert_eq!(frame, as_resp2(&value));
    }

    #[test]
    fn resp3_reads_back(value in value(), is_push in any::<bool>()) {
        let value = if is_push { Reply::Push(vec![Reply::bulk("message"), value]) } else { value };
        let bytes = written(&value, Protocol::Resp3);
        let (frame, length) =
            redis_protocol::resp3::decode::complete::decode(&bytes).unwrap().unwrap();
        prop_assert_eq!(length, bytes.len());
        prop_assert_eq!(frame, as_resp3(&value));
    }

    #[test]
    fn an_error_is_one_line_whatever_it_says(text in prop::collection::vec(any::<u8>(), 0..60)) {
        for value in [Reply::from(ErrorReply::new(text.clone())), Reply::Status(text.into())] {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let bytes = written(&value, protocol);
                prop_assert!(bytes.ends_with(b"\r\n"));
                prop_assert_eq!(bytes.iter().filter(|b| matches!(b, b'\r' | b'\n')).count(), 2);
            }
        }
    }
}

#[test]
fn each_kind_has_its_spelling_in_both_dialects() {
    let pair = (Reply::bulk("k"), Reply::Integer(7));
    for (value, resp2, resp3) in [
        (Reply::Ok, "+OK\r\n", "+OK\r\n"),
        (Reply::Nil, "$-1\r\n", "_\r\n"),
        (Reply::NilArray, "*-1\r\n", "_\r\n"),
        (Reply::Integer(-2), ":-2\r\n", ":-2\r\n"),
        (Reply::bulk(""), "$0\r\n\r\n", "$0\r\n\r\n"),
        (Reply::Array(vec![]), "*0\r\n", "*0\r\n"),
        (
            Reply::Map(vec![pair]),
            "*2\r\n$1\r\nk\r\n:7\r\n",
            "%1\r\n$1\r\nk\r\n:7\r\n",
        ),
        (
            Reply::Set(vec![Reply::Ok]),
            "*1\r\n+OK\r\n",
            "~1\r\n+OK\r\n",
        ),
        (
            Reply::Push(vec![Reply::Ok]),
            "*1\r\n+OK\r\n",
            ">1\r\n+OK\r\n",
        ),
        (Reply::Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
        (
            Reply::BigNumber(b"-12345678901234567890".to_vec()),
            "$21\r\n-12345678901234567890\r\n",
            "(-12345678901234567890\r\n",
        ),
        (Reply::Double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n"),
        (Reply::Boolean(true), ":1\r\n", "#t\r\n"),
        (Reply::Boolean(false), ":0\r\n", "#f\r\n"),
        (
            Reply::Verbatim(*b"txt", b"a\nb".to_vec()),
            "$3\r\na\nb\r\n",
            "=7\r\ntxt:a\nb\r\n",
        ),
    ] {
        assert_eq!(text(&value, Protocol::Resp2), resp2);
        assert_eq!(text(&value, Protocol::Resp3), resp3);
    }
}

#[test]
fn parts_can_be_written_one_by_one() {
    let mut out = Vec::new();
    reply::write_bulk(&mut out, b"a\r\nb");
    reply::write_error(&mut out, b"ERR no\r\n+OK");
    assert_eq!(out, b"$4\r\na\r\nb\r\n-ERR no  +OK\r\n");
    out.clear();
    reply::write_request(&mut out, &[b"SET", b"k", b""]);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
}

#[test]
fn depth_costs_no_call_stack() {
    const DEPTH: usize = 200_000;
    let mut value = Reply::Integer(5);
    for _ in 0..DEPTH {
        value = Reply::Array(vec![value]);
    }
    let bytes = written(&value, Protocol::Resp3);
    assert_eq!(bytes.len(), DEPTH * 4 + 4);
    // Taken apart by hand: dropping it whole would recurse.
    while let Reply::Array(mut items) = value {
        value = items.pop().unwrap();
    }
}
