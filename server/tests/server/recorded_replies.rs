//! Scripts and what redis-server has answered to them, byte by byte, for machines without it.
//!
//! tests/interop/differential/library_calls.py compares the same scripts with a running redis-server, and
//! records its replies here.

use quorlock_testkit::{Wire, request};

use crate::machine::{wire, with_node};

#[test]
fn scripts_get_the_replies_that_redis_gives() {
    with_node(&[], |node, _| {
        let (mut resp2, mut resp3) = (wire(node), wire(node));
        resp3.send(b"HELLO 3\r\n");
        resp3.reply();
        let mut prelude = Vec::new();
        let (mut count, mut differences) = (0, Vec::new());
        for line in RECORDED.lines().filter(|line| !line.starts_with("# ")) {
            let mut parts = line.split('\t').map(bytes_of);
            let mut next = || parts.next().unwrap();
            let script = next();
            if script == b"@" {
                prelude = next();
                continue;
            }
            let script = match script.strip_prefix(b"@") {
                Some(rest) => [&*prelude, rest].concat(),
                None => script,
            };
            let expected = [next(), next()];
            let arguments: Vec<Vec<u8>> = parts.collect();
            for (connection, expected) in [&mut resp2, &mut resp3].into_iter().zip(expected) {
                let reply = ask(connection, &script, &arguments);
                count += 1;
                if reply != expected {
                    differences.push(format!(
                        "{}\n  redis {}\n  node  {}",
                        line.split('\t').next().unwrap(),
                        expected.escape_ascii(),
                        reply.escape_ascii()
                    ));
                }
            }
        }
        assert!(count > 1800, "{count} replies recorded");
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    });
}

/// The bytes of the reply, which ends where the reply to the next command begins.
fn ask(connection: &mut Wire, script: &[u8], arguments: &[Vec<u8>]) -> Vec<u8> {
    let words: [&[u8]; 3] = [b"EVAL", script, b"0"];
    let words: Vec<&[u8]> = words
        .into_iter()
        .chain(arguments.iter().map(Vec::as_slice))
        .collect();
    let end = request(&["ECHO", "end-of-reply"]);
    connection.send(&[request(&words), end].concat());
    connection.bytes_until(b"$12\r\nend-of-reply\r\n")
}

/// A field of the record, in which `\xNN` stands for a byte.
fn bytes_of(field: &str) -> Vec<u8> {
    let mut parts = field.split("\\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

const RECORDED: &str = include_str!("../fixtures/library_calls.txt");
