//! Shared locks on a whole node: whose turn it is, what a restart leaves of readers, and where the commands are refused.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::time::Duration;

use super::lock_bench_tests::{Bench, push};

const GRANTED: &str = "*2 :1 _ ";
const KEPT_OUT: &str = "*2 :0 _ ";

#[test]
fn readers_in_line_are_woken_together_behind_the_writer_that_stood_before_them() {
    let mut bench = Bench::new(&[]);
    let [holder, writer, one, two, late] = [(); 5].map(|()| bench.client());
    assert_eq!(
        bench.run(holder, "LOCK.ACQUIRE job held 30000 SHARED"),
        GRANTED
    );
    assert_eq!(bench.run(writer, "LOCK.WAIT job w"), ":1 ");
    assert_eq!(bench.run(one, "LOCK.WAIT job r1 SHARED"), ":2 ");
    assert_eq!(bench.run(two, "LOCK.WAIT job r2 SHARED"), ":3 ");
    assert_eq!(
        bench.run(late, "LOCK.ACQUIRE job r3 30000 SHARED"),
        KEPT_OUT
    );
    assert_eq!(bench.run(holder, "LOCK.RELEASE job held"), ":1 ");
    let told = [writer, one, two].map(|client| bench.received(client));
    assert_eq!(told, [push("job", "w"), String::new(), String::new()]);
    assert_eq!(bench.run(writer, "SET job w NX PX 30000"), "+OK ");
    assert_eq!(bench.run(writer, "LOCK.RELEASE job w"), ":1 ");
    let told = [writer, one, two].map(|client| bench.received(client));
    assert_eq!(told, [String::new(), push("job", "r1"), push("job", "r2")]);
    assert_eq!(bench.run(two, "LOCK.ACQUIRE job r2 30000 SHARED"), GRANTED);
    assert_eq!(bench.run(one, "LOCK.ACQUIRE job r1 30000 SHARED"), GRANTED);
    assert_eq!(
        bench.run(late, "LOCK.WAIT job r3 SHARED"),
        ":0 ",
        "nobody is before it"
    );
    assert_eq!(bench.run(late, "LOCK.ACQUIRE job r3 30000 SHARED"), GRANTED);
}

#[test]
fn readers_whose_turn_lapses_and_readers_kept_out_by_an_intent_are_woken_in_time() {
    let mut bench = Bench::new(&[]);
    let [holder, writer, reader] = [(); 3].map(|()| bench.client());
    bench.run(holder, "LOCK.ACQUIRE job held 30000 SHARED");
    assert_eq!(bench.run(writer, "SET job w NX PX 30000"), "_ ");
    assert_eq!(bench.run(reader, "LOCK.WAIT job r SHARED"), ":1 ");
    bench.advance(Duration::from_millis(499));
    assert_eq!(bench.received(reader), "");
    bench.advance(Duration::from_millis(2));
    assert_eq!(
        bench.received(reader),
        push("job", "r"),
        "the writer has vanished"
    );
    assert_eq!(
        bench.run(reader, "LOCK.ACQUIRE job r 30000 SHARED"),
        GRANTED
    );
}

/// Its process is stopped, say: its connection does not end.
#[test]
fn a_writer_that_answers_no_more_lets_readers_in_after_two_messages() {
    let mut bench = Bench::new(&[]);
    let [holder, writer, reader] = [(); 3].map(|()| bench.client());
    bench.run(holder, "LOCK.ACQUIRE job held 30000 SHARED");
    assert_eq!(bench.run(writer, "LOCK.WAIT job w"), ":1 ");
    for is_there in [true, false] {
        bench.advance(Duration::from_secs(5));
        let tried = bench.run(reader, "LOCK.ACQUIRE job r 30000 SHARED");
        assert_eq!(tried, KEPT_OUT);
        assert_eq!(
            bench.received(writer),
            ">3 $11 lock-wanted $3 job $1 w ",
            "at once"
        );
        if is_there {
            assert_eq!(bench.run(writer, "LOCK.WAIT job w"), ":1 ");
            bench.advance(Duration::from_secs(2));
            assert_eq!(bench.received(writer), "", "it has answered");
        }
    }
    bench.advance(Duration::from_millis(501));
    assert_eq!(bench.received(writer), push("job", "w"));
    let tried = bench.run(reader, "LOCK.ACQUIRE job r 30000 SHARED");
    assert_eq!(tried, KEPT_OUT);
    bench.advance(Duration::from_millis(501));
    let tried = bench.run(reader, "LOCK.ACQUIRE job r 30000 SHARED");
    assert_eq!(tried, GRANTED);
}

/// What was synced is there again, with the end of each; what was not is waited for.
#[test]
fn a_power_loss_keeps_every_reader_whose_grant_was_synced_until_its_own_end() {
    let mut bench = Bench::new(&[("appendfsync", "always"), ("trust-fsync", "yes")]);
    let client = bench.client();
    for line in [
        "LOCK.ACQUIRE job short 20000 SHARED",
        "LOCK.ACQUIRE job long 30000 SHARED",
        "LOCK.ACQUIRE job extended 10000 SHARED",
        "LOCK.ACQUIRE job released 50000 SHARED",
    ] {
        assert_eq!(bench.run(client, line), GRANTED, "{line}");
    }
    assert_eq!(bench.run(client, "LOCK.EXTEND job extended 25000"), ":1 ");
    assert_eq!(bench.run(client, "LOCK.RELEASE job released"), ":1 ");
    let mut bench = bench.lose_power();
    let client = bench.client();
    assert_eq!(bench.run(client, "SET job w NX PX 100"), "_ ");
    assert_eq!(bench.run(client, "LOCK.RELEASE job released"), ":0 ");
    let left = bench.run(client, "PTTL job");
    let left: u64 = left.trim().trim_start_matches(':').parse().unwrap();
    assert!((29_000..=30_000).contains(&left), "{left}");
    bench.advance(Duration::from_millis(20_001));
    assert_eq!(bench.run(client, "LOCK.EXTEND job short 1000"), ":0 ");
    assert_eq!(bench.run(client, "LOCK.EXTEND job extended 1000"), ":1 ");
    assert_eq!(bench.run(client, "LOCK.RELEASE job long"), ":1 ");
    assert_eq!(bench.run(client, "SET job w NX PX 100"), "_ ");
    bench.advance(Duration::from_secs(5));
    assert_eq!(bench.run(client, "SET job w NX PX 100"), "+OK ");
}

#[test]
fn a_node_in_its_restart_delay_grants_no_reader_anything() {
    let mut bench = Bench::new(&[("appendfsync", "no")]);
    let client = bench.client();
    assert_eq!(
        bench.run(client, "LOCK.ACQUIRE job one 20000 SHARED"),
        GRANTED
    );
    let mut bench = bench.lose_power();
    let client = bench.client();
    for line in [
        "LOCK.ACQUIRE job two 1000 SHARED",
        "LOCK.EXTEND job one 1000",
        "LOCK.RELEASE job one",
        "LOCK.WAIT job two SHARED",
    ] {
        let reply = bench.run(client, line);
        assert!(reply.starts_with("-RESTARTDELAY"), "{line}: {reply}");
    }
}

#[test]
fn transactions_and_scripts_may_extend_and_release_and_not_acquire() {
    let mut bench = Bench::new(&[]);
    let client = bench.client();
    bench.run(client, "LOCK.ACQUIRE job one 20000 SHARED");
    assert_eq!(bench.run(client, "MULTI"), "+OK ");
    let refused = bench.run(client, "LOCK.ACQUIRE job two 20000 SHARED");
    assert!(refused.starts_with("-ERR"), "{refused}");
    assert!(bench.run(client, "EXEC").starts_with("-EXECABORT"));
    for (line, reply) in [
        ("MULTI", "+OK "),
        ("LOCK.EXTEND job one 30000", "+QUEUED "),
        ("SET job writer NX PX 1000", "+QUEUED "),
        ("LOCK.RELEASE job two", "+QUEUED "),
        ("LOCK.RELEASE job one", "+QUEUED "),
        ("EXEC", "*4 :1 _ :0 :1 "),
        ("LOCK.WAIT job token again", "-ERR syntax error "),
    ] {
        assert_eq!(bench.run(client, line), reply, "{line}");
    }
}
