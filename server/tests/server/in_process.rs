//! Clients in the node's own process: calls without a socket, and connections in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock_server::clock::SettableClock;
use quorlock_server::{CallError, Node, NodeStream, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::machine::gate::GatedNode;
use crate::machine::hooked_clock::HookedClock;
use crate::machine::{Lists, configured, run, wire};

/// A test that waits, with a node of its own and a clock that the test moves.
fn within(directives: Lists<'_>, test: impl AsyncFnOnce(&Node, &SettableClock)) {
    run(async {
        let clock = Arc::new(SettableClock::new());
        let builder = configured(directives).clock(clock.clone());
        let node = builder.ephemeral().start().await.unwrap();
        test(&node, &clock).await;
        node.stop().await.unwrap();
    });
}

/// Asks over a socket until the answer contains this: another thread may be about to do what was asked for before.
async fn until(node: &Node, request: &str, expected: &str) {
    let mut other = wire(node);
    while !other.ask(request).contains(expected) {
        tokio::task::yield_now().await;
    }
}

/// Sends, and reads until this has come.
async fn ask(stream: &mut NodeStream, request: &[u8], until: &[u8]) -> Vec<u8> {
    stream.write_all(request).await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(until) {
        assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0);
    }
    received
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.into())
}

#[test]
fn a_call_is_answered_as_a_client_is() {
    within(&[], async |node, _| {
        let lock = ["SET", "job", "token", "NX", "PX", "30000"];
        assert!(node.call(lock).await.unwrap().is_ok());
        assert_eq!(node.call(lock).await.unwrap(), Value::Null);
        assert_eq!(node.call(["get", "job"]).await.unwrap(), bytes("token"));
        assert_eq!(wire(node).ask("GET job"), "token");
        assert_eq!(wire(node).ask("DEL job"), ":1");
        assert_eq!(node.call(["GET", "job"]).await.unwrap(), Value::Null);
        node.call(["HSET", "h", "a", "1"]).await.unwrap();
        let all = node.call(["HGETALL", "h"]).await.unwrap();
        assert_eq!(all, Value::Map(vec![(bytes("a"), bytes("1"))]));
        node.call(["ZADD", "z", "1.5", "m"]).await.unwrap();
        let score = node.call(["ZSCORE", "z", "m"]).await.unwrap();
        assert_eq!(score, Value::Double(1.5));
        let script = "return {1, redis.error_reply('MINE no'), false}";
        let several = node.call(["EVAL", script, "0"]).await.unwrap();
        let error = Value::Error("MINE no".to_owned());
        assert_eq!(
            several,
            Value::Array(vec![Value::Integer(1), error, Value::Null])
        );
        let refused = node.call(["INCR", "h"]).await.unwrap_err();
        assert!(matches!(&refused, CallError::Refused(text) if text.starts_with("WRONGTYPE ")));
        let unknown = node.call(["NOSUCH"]).await.unwrap_err();
        assert!(unknown.to_string().starts_with("ERR unknown command"));
        assert_eq!(node.call([""; 0]).await.unwrap_err(), CallError::Empty);
    });
}

/// Pairs came the other way round, and a call with an array as a key never ended.
#[test]
fn a_map_stays_in_order_and_may_have_any_key() {
    within(&[], async |node, _| {
        let set = ["HSET", "h", "b", "1", "a", "2", "c", "3"];
        node.call(set).await.unwrap();
        let pairs = [("b", "1"), ("a", "2"), ("c", "3")];
        let pairs = pairs.map(|(name, value)| (bytes(name), bytes(value)));
        let all = node.call(["HGETALL", "h"]).await.unwrap();
        assert_eq!(all, Value::Map(pairs.to_vec()));
        let script = "redis.setresp(3) return {map={[{1,2}]=3}}";
        let call = node.call(["EVAL", script, "0"]);
        let value = tokio::time::timeout(Duration::from_secs(10), call).await;
        let key = Value::Array(vec![Value::Integer(1), Value::Integer(2)]);
        let map = Value::Map(vec![(key, Value::Integer(3))]);
        assert_eq!(value.unwrap().unwrap(), map);
    });
}

#[test]
fn a_call_has_no_connection_that_it_could_change() {
    within(&[], async |node, _| {
        for command in [
            "multi",
            "SELECT 1",
            "SUBSCRIBE a",
            "HELLO 2",
            "CLIENT REPLY OFF",
            "QUIT",
        ] {
            let refused = node.call(command.split(' ')).await.unwrap_err();
            assert!(
                matches!(refused, CallError::NeedsConnection(_)),
                "{command}"
            );
            assert!(refused.to_string().contains("Node::connect"), "{refused}");
        }
        node.call(["CLIENT", "SETNAME", "gone"]).await.unwrap();
        assert_eq!(node.call(["CLIENT", "GETNAME"]).await.unwrap(), Value::Null);
    });
}

#[test]
fn a_connection_speaks_the_protocol_and_is_shown_as_what_it_is() {
    within(&[], async |node, _| {
        let mut stream = node.connect().unwrap();
        let list = ask(&mut stream, b"CLIENT LIST\r\n", b"\r\n").await;
        let list = String::from_utf8(list).unwrap();
        assert!(list.contains(" addr=in-process:0 "), "{list}");
        let executed = ask(
            &mut stream,
            b"MULTI\r\nSET a 1\r\nEXEC\r\n",
            b"*1\r\n+OK\r\n",
        )
        .await;
        assert!(executed.starts_with(b"+OK\r\n+QUEUED\r\n"));
        ask(&mut stream, b"SUBSCRIBE news\r\n", b":1\r\n").await;
        assert_eq!(wire(node).ask("PUBLISH news item"), ":1");
        let mut message = vec![0; b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$4\r\nitem\r\n".len()];
        stream.read_exact(&mut message).await.unwrap();
        assert!(message.ends_with(b"item\r\n"));
        assert_eq!(
            node.call(["PUBLISH", "news", "other"]).await.unwrap(),
            Value::Integer(1)
        );
        stream.read_exact(&mut [0; 1]).await.unwrap();
        drop(stream);
        until(node, "PUBSUB NUMSUB news", ":0").await;
    });
}

/// Each is larger than what a connection holds at once.
#[test]
fn requests_and_replies_may_be_long() {
    within(&[], async |node, _| {
        let long = vec![b'x'; 3_000_000];
        node.call([&b"SET"[..], b"k", &long]).await.unwrap();
        let value = node.call(["GET", "k"]).await.unwrap();
        assert!(value == Value::Bytes(long.clone()));
        for _ in 0..3 {
            node.call([&b"RPUSH"[..], b"l", &long[..500_000], b"end"])
                .await
                .unwrap();
        }
        let Value::Array(parts) = node.call(["LRANGE", "l", "0", "-1"]).await.unwrap() else {
            panic!("no list");
        };
        assert_eq!(parts.len(), 6);
    });
}

#[test]
fn what_a_call_waits_for_comes_from_others_or_ends_with_it() {
    within(&[], async |node, clock| {
        let pushed = async {
            until(node, "INFO clients", "blocked_clients:1").await;
            assert_eq!(wire(node).ask("RPUSH l a"), ":1");
        };
        let (popped, ()) = tokio::join!(node.call(["BLPOP", "l", "0"]), pushed);
        assert_eq!(popped.unwrap(), Value::Array(vec![bytes("l"), bytes("a")]));
        // A call that is dropped takes nothing.
        let dropped =
            tokio::time::timeout(Duration::from_millis(20), node.call(["BLPOP", "l", "0"]));
        assert!(dropped.await.is_err());
        until(node, "INFO clients", "blocked_clients:0").await;
        assert_eq!(wire(node).ask("RPUSH l b"), ":1");
        assert_eq!(wire(node).ask("LLEN l"), ":1");
        node.call(["DEL", "l"]).await.unwrap();
        // One whose time is up is answered by nobody but the clock.
        let moved = async {
            until(node, "INFO clients", "blocked_clients:1").await;
            clock.advance(Duration::from_secs(5));
        };
        let (popped, ()) = tokio::join!(node.call(["BLPOP", "l", "5"]), moved);
        assert_eq!(popped.unwrap(), Value::Null);
    });
}

#[test]
fn a_call_waits_for_the_sync_that_its_reply_needs() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "always")]).await;
        gated.gate.set_closed(true);
        let node = &gated.node;
        let mut call = Box::pin(node.call(["SET", "a", "1", "PX", "30000"]));
        let early = tokio::time::timeout(Duration::from_millis(50), &mut call).await;
        assert!(early.is_err(), "the sync has not ended");
        gated.gate.set_closed(false);
        assert!(call.await.unwrap().is_ok());
    });
}

/// Its thread waits for something to do; planted: it looks again at once.
#[test]
fn a_worker_without_work_does_nothing() {
    run(async {
        let readings = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&readings);
        let clock = HookedClock::new(move |_| {
            if std::thread::current().name() == Some("quorlock-local") {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let builder = configured(&[]).clock(Arc::new(clock));
        let node = builder.ephemeral().start().await.unwrap();
        let _stream = node.connect().unwrap();
        for _ in 0..100 {
            node.call(["SET", "a", "1", "PX", "30000"]).await.unwrap();
        }
        let before = readings.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let more = readings.load(Ordering::SeqCst) - before;
        assert!(
            more < 20,
            "{more} readings of the clock in a tenth of a second"
        );
        node.stop().await.unwrap();
    });
}

#[test]
fn many_calls_at_once_are_all_answered() {
    for mode in ["everysec", "always", "no"] {
        run(async {
            let builder =
                configured(&[("appendfsync", &[mode]), ("first-start", &["serve"])]).ephemeral();
            let node = Arc::new(builder.start().await.unwrap());
            let tasks: Vec<_> = (0..64)
                .map(|_| {
                    let node = node.clone();
                    tokio::spawn(async move {
                        for _ in 0..200 {
                            node.call(["INCR", "count"]).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(
                node.call(["GET", "count"]).await.unwrap(),
                bytes("12800"),
                "{mode}"
            );
        });
    }
}

#[test]
fn a_call_needs_no_password_and_is_ended_like_any_client() {
    within(&[("requirepass", &["secret"])], async |node, _| {
        assert_eq!(node.call(["DBSIZE"]).await.unwrap(), Value::Integer(0));
        let mut other = wire(node);
        assert_eq!(other.ask("AUTH secret"), "+OK");
        let killed = async {
            while !other.ask("INFO clients").contains("blocked_clients:1") {
                tokio::task::yield_now().await;
            }
            // The one that waits; those that wait for the next call go as well.
            let count = other.ask("CLIENT KILL ADDR in-process:0 SKIPME yes");
            assert_ne!(count, ":0");
        };
        let (ended, ()) = tokio::join!(node.call(["BLPOP", "l", "0"]), killed);
        assert_eq!(ended.unwrap_err(), CallError::Closed);
        assert_eq!(node.call(["DBSIZE"]).await.unwrap(), Value::Integer(0));
    });
}

#[test]
fn a_node_that_has_stopped_ends_what_waits_and_answers_no_more() {
    run(async {
        let node = Node::builder().ephemeral().start().await.unwrap();
        let mut stream = node.connect().unwrap();
        let stopped = async {
            until(&node, "INFO clients", "blocked_clients:1").await;
            node.request_stop();
            node.stopped().await.unwrap();
        };
        let (ended, ()) = tokio::join!(node.call(["BLPOP", "l", "0"]), stopped);
        assert!(ended.is_err(), "{ended:?}");
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
        assert!(stream.write_all(b"PING\r\n").await.is_err());
        let refused = node.call(["PING"]).await.unwrap_err();
        assert!(refused.to_string().contains("stopped"), "{refused}");
        assert!(node.connect().is_err());
    });
}
