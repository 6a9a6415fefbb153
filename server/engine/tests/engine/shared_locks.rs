//! Locks that are held shared beside exclusive ones: who holds what, until when, and what is left of it after a restart.

use std::time::Duration;

use quorlock_engine::{Caller, EngineOptions, LogPosition, NodeTime, Reply, StoredValue};

use crate::harness::{Node, render, state_of};

/// The commands and their replies, one after the other.
fn assert_replies(node: &mut Node, lines: &[(&str, &str)]) {
    for (line, reply) in lines {
        assert_eq!(node.run(line), *reply, "{line}");
    }
}

/// A refused writer is not what the test is about: its intent lapses.
fn let_intents_lapse(node: &mut Node) {
    node.advance(Duration::from_millis(500));
}

#[test]
fn many_readers_hold_a_lock_and_no_writer_beside_them() {
    let mut node = Node::default();
    assert_replies(
        &mut node,
        &[
            ("LOCK.ACQUIRE job one 2000 SHARED", "[1, nil]"),
            (
                "LOCK.ACQUIRE job two 3000 shared OWNER \"rack 4\"",
                "[1, nil]",
            ),
            ("LOCK.ACQUIRE job two 9000 SHARED", "[0, \"two\"]"),
            ("PTTL job", "3000"),
            ("TYPE job", "quorlock-shared-lock"),
            ("OBJECT ENCODING job", "\"raw\""),
            ("SET job writer NX PX 1000", "nil"),
            ("SETNX job writer", "0"),
            ("LOCK.ACQUIRE job writer 1000", "[0, 0, nil]"),
            ("LOCK.RELEASE job writer", "0"),
            ("LOCK.RELEASE job one", "1"),
            ("LOCK.RELEASE job one", "0"),
            ("SET job writer NX PX 1000", "nil"),
            ("PTTL job", "3000"),
            ("LOCK.RELEASE job two", "1"),
            ("EXISTS job", "0"),
            ("LOCK.ACQUIRE job writer 1000", "[1, 0, 0]"),
            ("LOCK.ACQUIRE job one 1000 SHARED", "[0, \"writer\"]"),
            ("LOCK.RELEASE job one", "0"),
            ("LOCK.EXTEND job one 5000", "0"),
            ("LOCK.RELEASE job writer", "1"),
            ("SET job plain NX PX 1000", "OK"),
            ("LOCK.ACQUIRE job one 1000 SHARED", "[0, \"plain\"]"),
            ("DEL job", "1"),
            ("HSET job field value", "1"),
            ("LOCK.ACQUIRE job one 1000 SHARED", "[0, nil]"),
        ],
    );
    assert_eq!(node.run("GET job").split(' ').next(), Some("-WRONGTYPE"));
}

#[test]
fn each_reader_has_its_own_end_and_the_key_that_of_the_last_one() {
    let mut node = Node::default();
    assert_replies(
        &mut node,
        &[
            ("LOCK.ACQUIRE job short 1000 SHARED", "[1, nil]"),
            ("LOCK.ACQUIRE job long 5000 SHARED", "[1, nil]"),
            ("LOCK.EXTEND job short 3000", "1"),
            ("LOCK.EXTEND job short 500", "1"),
            ("PTTL job", "5000"),
            ("LOCK.RELEASE job long", "1"),
            ("PTTL job", "3000"),
            ("LOCK.ACQUIRE job long 1000 SHARED", "[1, nil]"),
        ],
    );
    node.advance(Duration::from_millis(1000));
    assert_replies(
        &mut node,
        &[
            ("LOCK.EXTEND job long 9000", "0"),
            ("LOCK.RELEASE job long", "0"),
            ("LOCK.FORCE-RELEASE job long", "0"),
            ("LOCK.ACQUIRE job long 1000 SHARED", "[1, nil]"),
            ("LOCK.RELEASE job long", "1"),
            ("PTTL job", "2000"),
        ],
    );
    node.advance(Duration::from_millis(2000));
    assert_replies(
        &mut node,
        &[
            ("LOCK.EXTEND job short 9000", "0"),
            ("SET job writer NX PX 1000", "OK"),
        ],
    );
    // The last holder that has not ended takes the key with it, whoever is still in the table.
    let mut node = Node::default();
    node.run("LOCK.ACQUIRE job short 1000 SHARED");
    node.run("LOCK.ACQUIRE job long 5000 SHARED");
    node.advance(Duration::from_millis(1000));
    assert_replies(
        &mut node,
        &[("LOCK.RELEASE job long", "1"), ("EXISTS job", "0")],
    );
}

#[test]
fn a_refused_writer_keeps_new_readers_out_until_it_has_had_time_for_its_next_try() {
    for line in [
        "SET job writer NX PX 1000",
        "SETNX job writer",
        "LOCK.ACQUIRE job writer 1000",
        "SET job writer NX PX 1000 GET",
        "EVAL \"return redis.call('set', KEYS[1], 'writer', 'NX', 'PX', 1000)\" 1 job",
    ] {
        let mut node = Node::default();
        assert_eq!(node.run("LOCK.ACQUIRE job one 60000 SHARED"), "[1, nil]");
        node.run(line);
        assert_replies(
            &mut node,
            &[
                ("LOCK.ACQUIRE job two 1000 SHARED", "[0, nil]"),
                ("LOCK.ACQUIRE job one 1000 SHARED", "[0, \"one\"]"),
                ("LOCK.EXTEND job one 60000", "1"),
                ("LOCK.ACQUIRE other two 1000 SHARED", "[1, nil]"),
            ],
        );
        node.advance(Duration::from_millis(499));
        assert_eq!(
            node.run("LOCK.ACQUIRE job two 1000 SHARED"),
            "[0, nil]",
            "{line}"
        );
        node.advance(Duration::from_millis(1));
        assert_eq!(
            node.run("LOCK.ACQUIRE job two 1000 SHARED"),
            "[1, nil]",
            "{line}"
        );
    }
}

#[test]
fn a_free_lock_is_kept_for_the_refused_writer_and_then_open_to_readers_at_once() {
    let mut node = Node::default();
    assert_replies(
        &mut node,
        &[
            ("LOCK.ACQUIRE job one 60000 SHARED", "[1, nil]"),
            ("SET job writer NX PX 1000", "nil"),
            ("LOCK.RELEASE job one", "1"),
            ("LOCK.ACQUIRE job two 1000 SHARED", "[0, nil]"),
            ("SET job writer NX PX 1000", "OK"),
            ("LOCK.RELEASE job writer", "1"),
            ("LOCK.ACQUIRE job two 1000 SHARED", "[1, nil]"),
        ],
    );
}

#[test]
fn there_are_no_fences_of_shared_locks() {
    let mut node = Node::default();
    node.run("LOCK.ACQUIRE job one 1000 SHARED");
    for line in [
        "LOCK.FENCE job one 5",
        "LOCK.ACQUIRE other one 1000 SHARED GUESS 5",
        "LOCK.ACQUIRE other one 1000 GUESS 5 SHARED",
    ] {
        let reply = node.run(line);
        assert!(reply.contains("has no fence"), "{line}: {reply}");
    }
    assert_replies(
        &mut node,
        &[
            ("LOCK.FENCE job other 5", "nil"),
            ("EXISTS other", "0"),
            (
                "LOCK.ACQUIRE other one 1000 SHARED SHARED",
                "-ERR syntax error",
            ),
            (
                "LOCK.ACQUIRE other one 1000 SHARED OWNER",
                "-ERR syntax error",
            ),
        ],
    );
}

/// Nothing makes a shared lock whose end is not that of its holders.
#[test]
fn commands_of_keys_keep_the_ends_of_holders_or_are_refused() {
    let mut node = Node::default();
    node.run("LOCK.ACQUIRE job one 1000 SHARED");
    for line in [
        "PEXPIRE job 5000",
        "PEXPIRE job -1",
        "PERSIST job",
        "EXPIREAT job 9999999999",
        "GETEX job PERSIST",
        "HSET job a b",
        "SADD job a",
        "SORT job",
        "APPEND job x",
        "IFEQ",
        "GETSET job x",
        "DUMP job",
    ] {
        let reply = node.reply(line);
        assert!(matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    let own = b"\x06\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x06\x01\x05\0\0\0\0\0\0\0\x01t";
    let checksum = sha1_smol::Sha1::from(own).digest().bytes();
    let payload = [&own[..], &checksum[..8]].concat();
    let reply = node.execute(&[b"RESTORE", b"made", b"0", &payload]);
    assert!(render(&reply).contains("held shared"), "{reply:?}");
    assert_replies(
        &mut node,
        &[
            ("PTTL job", "1000"),
            ("COPY job copy", "1"),
            ("RENAME job moved", "OK"),
            ("PTTL moved", "1000"),
            ("LOCK.RELEASE copy one", "1"),
            ("LOCK.RELEASE moved one", "1"),
            ("LOCK.ACQUIRE job one 1000 SHARED", "[1, nil]"),
            ("SET job over", "OK"),
            ("LOCK.RELEASE job one", "0"),
        ],
    );
    node.run("DEL job");
    node.run("LOCK.ACQUIRE job one 1000 SHARED");
    assert_replies(&mut node, &[("DEL job", "1"), ("SET job x NX", "OK")]);
}

#[test]
fn a_lock_is_shared_by_so_many_and_those_who_have_ended_make_room() {
    let mut node = Node::default();
    let acquire = |node: &mut Node, number: u32, ttl: &[u8]| {
        let token = number.to_string();
        node.execute(&[b"LOCK.ACQUIRE", b"job", token.as_bytes(), ttl, b"SHARED"])
    };
    for number in 0..1 << 16 {
        assert_eq!(render(&acquire(&mut node, number, b"1000")), "[1, nil]");
    }
    let refused = render(&acquire(&mut node, 1 << 16, b"1000"));
    assert!(refused.starts_with("-ERR 65536 clients"), "{refused}");
    assert_eq!(node.run("LOCK.EXTEND job 77 9000"), "1");
    node.advance(Duration::from_secs(1));
    assert_eq!(render(&acquire(&mut node, 1 << 16, b"1000")), "[1, nil]");
    let holders = |node: &Node| {
        let stored = node.engine.stored().next().expect("the lock");
        match stored.value {
            StoredValue::SharedLock(holders) => holders.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(holders(&node), (1 << 16) - 3);
    for number in 0..1 << 15 {
        acquire(&mut node, (1 << 17) + number, b"1");
        node.advance(Duration::from_millis(1));
    }
    assert!(holders(&node) < 10, "{}", holders(&node));
}

#[test]
fn what_a_restart_and_a_checkpoint_carry_is_each_token_with_its_end() {
    let mut node = Node::default();
    for number in 0..200 {
        let ttl = 1000 + 10 * number;
        node.run(&format!(
            "LOCK.ACQUIRE job t{number} {ttl} SHARED OWNER \"me {number}\""
        ));
    }
    node.run("LOCK.EXTEND job t3 9000");
    node.run("LOCK.RELEASE job t4");
    node.run("EVAL \"redis.call('lock.extend', KEYS[1], 't5', 8000) redis.call('lock.release', KEYS[1], 't6')\" 1 job");
    node.advance(Duration::from_millis(1500));
    let mut replayed = node.replayed();
    assert_eq!(sorted(&node.engine), sorted(&replayed));
    // A state is read from a checkpoint, in which no piece holds all of it.
    let state = node.state();
    assert_eq!(state.len(), 1);
    assert!(!state[0].contains("me 1"), "nothing that is not logged");
    assert_eq!(state_of(&mut replayed, node.now.node), state);
    node.engine = replayed;
    node.log.clear();
    node.log.resize(300, Vec::new());
    assert_replies(
        &mut node,
        &[
            ("LOCK.RELEASE job t4", "0"),
            ("LOCK.RELEASE job t6", "0"),
            ("LOCK.RELEASE job t0", "0"),
            ("LOCK.RELEASE job t100", "1"),
            ("LOCK.RELEASE job t3", "1"),
            ("PTTL job", "6500"),
            ("LOCK.RELEASE job t5", "1"),
            ("PTTL job", "1490"),
        ],
    );
}

fn sorted(engine: &quorlock_engine::Engine) -> Vec<quorlock_engine::Stored> {
    let mut stored: Vec<_> = engine.stored().collect();
    stored.sort();
    stored
}

/// The promise of a restart delay covers a reader's time as that of any key.
#[test]
fn a_grant_an_extension_and_a_refusal_depend_on_what_they_reveal() {
    let mut node = Node::with(EngineOptions::default());
    node.run("LOCK.ACQUIRE job one 2000 SHARED");
    let end = |ms: u64| Some(NodeTime::from_nanos(5_000_000_000 + ms * 1_000_000));
    assert_eq!(node.effects.longest_deadline, end(2000));
    node.run("LOCK.EXTEND job one 4000");
    assert_eq!(node.effects.longest_deadline, end(4000));
    node.run("LOCK.ACQUIRE job one 4000 SHARED");
    assert_eq!(
        node.effects.depends.any,
        LogPosition::from_raw(2),
        "it has the lock"
    );
    node.run("SET job writer NX PX 1000");
    assert_eq!(
        node.effects.depends.any,
        LogPosition::from_raw(0),
        "a bare refusal"
    );
    let long = node.run("LOCK.ACQUIRE other one 60001 SHARED");
    assert!(long.contains("restart-delay-max"), "{long}");
}

#[test]
fn people_see_every_reader_and_end_one_of_them() {
    let mut node = Node {
        caller: Caller {
            client_id: 7,
            ..Caller::default()
        },
        ..Node::default()
    };
    node.run("LOCK.ACQUIRE job one 2000 SHARED OWNER \"rack 4\"");
    node.advance(Duration::from_millis(500));
    node.run("LOCK.ACQUIRE job two 9000 SHARED");
    node.run("SET job x NX");
    let info = node.run("LOCK.INFO job");
    for part in [
        "\"type\", \"quorlock-shared-lock\"",
        "\"ttl-ms\", 9000",
        "\"token\", \"one\", \"ttl-ms\", 1500, \"since-known\", 1, \"held-ms\", 500, \"owner\", \"rack 4\", \"client-id\", 7",
        "\"token\", \"two\"",
        "\"writer-refused-ms\", 500",
    ] {
        assert!(info.contains(part), "{part} in {info}");
    }
    let list = node.run("LOCK.LIST");
    assert!(
        list.contains("\"name\", \"job\"") && list.contains("\"one\""),
        "{list}"
    );
    let_intents_lapse(&mut node);
    assert_replies(
        &mut node,
        &[
            ("LOCK.FORCE-RELEASE job other", "0"),
            ("LOCK.FORCE-RELEASE job one", "1"),
            ("LOCK.EXTEND job one 5000", "0"),
            ("LOCK.FORCE-RELEASE job two", "1"),
            ("LOCK.INFO job", "nil"),
        ],
    );
}

#[test]
fn a_transaction_that_is_undone_leaves_every_reader_as_it_was() {
    let mut node = Node::default();
    node.run("LOCK.ACQUIRE job one 2000 SHARED");
    node.run("LOCK.ACQUIRE job two 3000 SHARED");
    let before = node.state();
    let script = "redis.call('lock.release', KEYS[1], 'two') redis.call('lock.extend', KEYS[1], 'one', 9000) \
                  while true do end";
    let reply = node.execute(&[b"EVAL", script.as_bytes(), b"1", b"job"]);
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    assert_eq!(node.state(), before);
    let reply = node
        .run("EVAL \"return redis.call('lock.acquire', KEYS[1], 'three', 100, 'SHARED')\" 1 job");
    assert!(reply.contains("not allowed from script"), "{reply}");
}

#[test]
fn of_many_readers_people_see_some_and_how_many_they_are() {
    let mut node = Node::default();
    for number in 0..=1_000 {
        node.run(&format!(
            "LOCK.ACQUIRE job reader-{number} {} SHARED",
            1_000 + number
        ));
    }
    let info = node.run("LOCK.INFO job");
    assert_eq!(info.matches("\"token\"").count(), 1_000);
    assert!(info.contains("\"holder-count\", 1001"), "{info}");
    assert!(
        !info.contains("\"reader-999\""),
        "it is the last by its token, as on all nodes"
    );
    assert!(info.contains("\"reader-1000\""));
    let list = node.run("LOCK.LIST");
    assert_eq!(list.matches("\"token\"").count(), 16);
    assert!(list.contains("\"holder-count\", 1001"), "{list}");
    node.advance(Duration::from_millis(1_500));
    let info = node.run("LOCK.INFO job");
    assert!(info.contains("\"holder-count\", 500"), "those that hold it");
    assert_eq!(info.matches("\"token\"").count(), 500);
}
