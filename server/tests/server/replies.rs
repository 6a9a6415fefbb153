//! Replies that would be too large are errors, on every way to one; replies that are merely long
//! arrive whole, also where the client reads slowly.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use quorlock_server::Node;
use quorlock_testkit::{Wire, request};

use crate::machine::hooked_clock::HookedClock;
use crate::machine::{configured, serve};

const TOO_LARGE: &str = "67108864 bytes that proto-max-reply-len allows";

/// A value of this length that no other number has.
fn value(number: u8, length: usize) -> Vec<u8> {
    (0..length)
        .map(|place| number ^ u8::try_from(place * 31 % 251).unwrap())
        .collect()
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn set(client: &mut Wire, key: &[u8], value: &[u8]) {
    assert_eq!(client.ask_words(&[b"SET".as_slice(), key, value]), "+OK");
}

/// 18 KB of request once made 1 GB of reply, and 160 KB the end of the node.
#[test]
fn mget_of_one_long_value_many_times_is_an_error() {
    serve(Node::builder(), |node| {
        let mut client = Wire::connect(node.address());
        let mut other = Wire::connect(node.address());
        set(&mut client, b"long", &value(1, 4 << 20));
        for count in [16, 250, 2000] {
            let mut words: Vec<&[u8]> = vec![b"MGET"];
            words.resize(count + 1, b"long");
            client.send(&request(&words));
            assert_eq!(other.ask("PING"), "+PONG");
            let reply = client.reply();
            assert!(
                reply.starts_with("-ERR the reply would take more"),
                "{reply}"
            );
            assert!(reply.contains(TOO_LARGE), "{reply}");
        }
        assert_eq!(client.ask("STRLEN long"), format!(":{}", 4 << 20));
    });
}

#[test]
fn a_long_reply_arrives_whole_at_a_slow_reader() {
    serve(Node::builder(), |node| {
        let mut client = Wire::connect(node.address());
        // Around the length from which a value is shared in memory, and on its way out.
        let lengths = [1023, 1024, 4095, 4096, 4097, 1, 0, 3 << 20];
        let keys: Vec<Vec<u8>> = (0..26).map(|key| vec![b'a' + key]).collect();
        let mut expected = b"*26\r\n".to_vec();
        for (number, key) in (0..).zip(&keys) {
            let length = lengths.get(usize::from(number)).unwrap_or(&(3 << 20));
            set(&mut client, key, &value(number, *length));
            expected.extend_from_slice(&bulk(&value(number, *length)));
        }
        assert!(expected.len() > 57 << 20, "{}", expected.len());
        let words: Vec<&[u8]> = std::iter::once(b"MGET".as_slice())
            .chain(keys.iter().map(|key| &**key))
            .collect();
        let mut slow = TcpStream::connect(node.address()).unwrap();
        socket2::SockRef::from(&slow)
            .set_recv_buffer_size(16 << 10)
            .unwrap();
        slow.write_all(&request(&words)).unwrap();
        slow.write_all(b"PING\r\n").unwrap();
        expected.extend_from_slice(b"+PONG\r\n");
        let mut place = 0;
        let mut buffer = vec![0; 40_000];
        let mut length = 0;
        while place < expected.len() {
            // Pieces of all lengths, so that the node stops sending anywhere.
            length = (length * 5 + 7) % buffer.len() + 1;
            let count = slow.read(&mut buffer[..length]).unwrap();
            assert!(count > 0, "the node closed");
            assert!(
                buffer[..count] == expected[place..place + count],
                "other bytes behind {place}"
            );
            place += count;
            if place < buffer.len() {
                // What is on its way stays what it was, whatever happens to the keys.
                client.ask("FLUSHALL");
            }
        }
    });
}

/// What has been asked for is executed only once the replies before it have left.
#[test]
fn a_pipeline_of_long_values_is_executed_as_it_is_read() {
    serve(Node::builder(), |node| {
        let mut other = Wire::connect(node.address());
        let (old, new) = (value(1, 1 << 20), value(2, 1 << 20));
        set(&mut other, b"k", &old);
        let mut stream = TcpStream::connect(node.address()).unwrap();
        socket2::SockRef::from(&stream)
            .set_recv_buffer_size(64 << 10)
            .unwrap();
        stream.write_all(&b"GET k\r\n".repeat(64)).unwrap();
        let (mut first, mut last) = (vec![0; bulk(&old).len()], Vec::new());
        stream.read_exact(&mut first).unwrap();
        assert!(first == bulk(&old));
        set(&mut other, b"k", &new);
        for _ in 1..64 {
            last = vec![0; bulk(&new).len()];
            stream.read_exact(&mut last).unwrap();
        }
        assert!(last == bulk(&new), "64 MiB were taken at once");
    });
}

#[test]
fn the_engine_is_released_before_a_long_reply_is_rendered() {
    // It moves with each reading, which shows whether a batch has read it again.
    let (clock, step_ns) = HookedClock::stepping();
    step_ns.store(1_000_000, Ordering::Relaxed);
    serve(configured(&[]).clock(clock), |node| {
        let mut client = Wire::connect(node.address());
        set(&mut client, b"short", &value(1, 60_000));
        set(&mut client, b"long", &value(1, 70_000));
        client.send(b"SET lock token PX 1000000\r\nGET short\r\nPTTL lock\r\n");
        client.send(b"SET lock token PX 1000000\r\nGET long\r\nPTTL lock\r\n");
        client.reply();
        client.reply();
        assert_eq!(
            client.reply(),
            ":1000000",
            "one lock, one reading of the clock"
        );
        client.reply();
        client.reply();
        assert_ne!(
            client.reply(),
            ":1000000",
            "a lock of its own after a long reply"
        );
    });
}

#[test]
fn lists_of_names_cannot_multiply() {
    serve(Node::builder(), |node| {
        let mut client = Wire::connect(node.address());
        let mut ask = |words: &[&[u8]]| {
            client.send(&request(words));
            client.reply()
        };
        let many = |front: &[&'static [u8]], word: &'static [u8]| -> Vec<&'static [u8]> {
            let mut words = front.to_vec();
            words.resize(200_000, word);
            words
        };
        let reply = ask(&many(&[b"COMMAND", b"INFO"], b"set"));
        assert!(
            reply.contains(TOO_LARGE),
            "{}",
            &reply[..100.min(reply.len())]
        );
        let unknown = ask(&many(&[b"COMMAND", b"INFO"], b"nosuch"));
        assert_eq!(unknown.matches("nil").count(), 199_998);
        let one = ask(&[b"COMMAND", b"DOCS", b"set"]);
        assert_eq!(ask(&many(&[b"COMMAND", b"DOCS"], b"SET")), one);
        assert_eq!(
            ask(&[b"COMMAND", b"DOCS", b"Ping", b"nosuch"])
                .matches("summary")
                .count(),
            1
        );
        let part = ask(&[
            b"COMMAND",
            b"DOCS",
            b"client|KILL",
            b"get|x",
            b"client|nosuch",
        ]);
        assert_eq!(part.matches("summary").count(), 1);
        assert!(part.contains("client|kill") && part.contains("new-format"));
        let list = ask(&many(&[b"CLIENT", b"LIST", b"ID"], b"1"));
        assert_eq!(list.lines().count(), 1, "each client once");
        let list = ask(&[b"CLIENT", b"LIST", b"ID", b"2", b"1", b"99", b"1"]);
        assert_eq!(list.lines().count(), 1);
        let flags = ask(&many(&[b"SCRIPT", b"EXISTS"], b"x"));
        assert_eq!(flags.matches(":0").count(), 199_998);
        let mut patterns = many(&[b"CONFIG", b"GET"], b"port");
        assert!(ask(&patterns).starts_with("-ERR CONFIG GET takes at most 256 patterns"));
        patterns.truncate(258);
        assert_eq!(ask(&patterns).matches("port").count(), 1);
    });
}

#[test]
fn the_limit_is_a_directive_that_can_be_changed_live() {
    serve(Node::builder(), |node| {
        let mut client = Wire::connect(node.address());
        set(&mut client, b"k", &value(1, 600_000));
        for text in ["0", "1", "1048575", "-1", "1025mb", "18446744073709551616"] {
            let reply = client.ask(&format!("CONFIG SET proto-max-reply-len {text}"));
            assert!(
                reply.starts_with("-ERR CONFIG SET failed"),
                "{text}: {reply}"
            );
        }
        assert!(
            client
                .ask("CONFIG GET proto-max-reply-len")
                .contains("67108864")
        );
        assert!(client.ask("MGET k k").starts_with('['));
        assert_eq!(client.ask("CONFIG SET proto-max-reply-len 1mb"), "+OK");
        assert!(client.ask("MGET k k").contains("the 1048576 bytes"));
        assert!(!client.ask("GET k").starts_with('-'));
        let mut words: Vec<&[u8]> = vec![b"COMMAND", b"INFO"];
        words.resize(3000, b"set");
        client.send(&request(&words));
        assert!(client.reply().contains("the 1048576 bytes"));
        assert_eq!(client.ask("CONFIG SET proto-max-reply-len 1gb"), "+OK");
        assert!(client.ask("MGET k k").starts_with('['));
    });
}

#[test]
fn a_script_that_wrote_before_it_returned_too_much_says_so() {
    serve(Node::builder(), |node| {
        for dialect in ["2", "3"] {
            let mut client = Wire::connect(node.address());
            client.ask(&format!("HELLO {dialect}"));
            let body = "redis.call('set',KEYS[1],'token','px',30000) \
                        local s = ('x'):rep(1e6) local t = {} for i=1,100 do t[i] = s end return t";
            let key = format!("lock{dialect}");
            let reply = client.ask_words(&["EVAL", body, "1", &key]);
            assert!(
                reply.starts_with("-ERR the result of this script"),
                "{reply}"
            );
            assert!(
                reply.contains("The script's writes have taken effect"),
                "{reply}"
            );
            assert_eq!(client.ask(&format!("GET {key}")), "token");
        }
    });
}
