//! Waiting for locks on a whole node: who is sent what, and when.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::time::Duration;

use quorlock_engine::control::Durability;
use quorlock_engine::{Caller, Command, Moment, NodeTime, Protocol};
use quorlock_persistence::Position;

use super::lock_bench_tests::{Bench, push};
use crate::clock::Clock;
use crate::core::executor::Executor;
use crate::core::executor_tests::executor;
use crate::core::wait::DurabilityWait;
use crate::simulation::Client;

#[test]
fn fifty_clients_have_a_lock_one_after_the_other_in_the_order_in_which_they_came() {
    let (mut bench, holder, clients) = Bench::with_waiting(50);
    bench.run(holder, "DEL job");
    for number in 0..50 {
        assert_eq!(bench.told(&clients), [number]);
        let client = clients[number];
        let token = format!("t{number}");
        let taken = bench.run(client, &format!("SET job {token} NX PX 1000"));
        assert_eq!(taken, "+OK ");
        assert_eq!(bench.told(&clients), [0; 0]);
        let freed = match number % 2 {
            0 => format!("LOCK.RELEASE job {token}"),
            _ => format!(
                "EVAL return(redis.call('get',KEYS[1])==ARGV[1])and(redis.call('del',KEYS[1])) 1 job {token}"
            ),
        };
        assert_eq!(bench.run(client, &freed), ":1 ");
    }
    assert_eq!(bench.run(holder, "LOCK.WAIT job again"), ":0 ");
}

#[test]
fn a_lock_that_ends_wakes_the_first_at_that_moment() {
    let (mut bench, holder, clients) = Bench::with_waiting(2);
    bench.run(holder, "PEXPIRE job 700");
    bench.advance(Duration::from_micros(699_999));
    assert_eq!(bench.told(&clients), [0; 0]);
    bench.advance(Duration::from_micros(1));
    assert_eq!(bench.told(&clients), [0]);
    // It does nothing.
    bench.advance(Duration::from_micros(49_999));
    assert_eq!(bench.told(&clients), [0; 0]);
    bench.advance(Duration::from_micros(1));
    assert_eq!(bench.told(&clients), [1]);
    assert_eq!(bench.run(clients[0], "LOCK.WAIT job t0"), ":2 ");
}

#[test]
fn a_turn_that_was_not_used_ends_when_the_client_said() {
    let (mut bench, holder, clients) = Bench::with_waiting(2);
    assert_eq!(bench.run(clients[0], "LOCK.WAIT job t0 turn 800"), ":2 ");
    bench.run(holder, "DEL job");
    assert_eq!(bench.told(&clients), [0]);
    bench.advance(Duration::from_micros(799_999));
    assert_eq!(bench.told(&clients), [0; 0]);
    bench.advance(Duration::from_micros(1));
    assert_eq!(bench.told(&clients), [1]);
    for turn in ["20", "2000"] {
        let line = format!("LOCK.WAIT other t0 TURN {turn} SHARED");
        assert_eq!(bench.run(clients[0], &line), ":0 ");
    }
}

/// The maintenance sleeps for a second or more, and nobody else is there.
#[test]
fn the_maintenance_is_asked_for_no_later_than_the_lock_ends() {
    let (mut bench, holder, clients) = Bench::with_waiting(1);
    for ms in [3, 400] {
        bench.run(holder, &format!("SET job held PX {ms}"));
        assert!(bench.go_on() <= Duration::from_millis(ms));
    }
    bench.clock.advance(Duration::from_millis(400));
    bench.go_on();
    assert_eq!(bench.told(&clients), [0]);
}

#[test]
fn whatever_frees_a_lock_wakes_the_first() {
    let frees = [
        "DEL job",
        "UNLINK job",
        "GETDEL job",
        "PEXPIRE job 0",
        "RENAME job elsewhere",
        "FLUSHALL",
        "FLUSHDB ASYNC",
        "SWAPDB 0 3",
        "MOVE job 4",
        "SINTERSTORE job none",
        "SUNIONSTORE job set",
        "LOCK.RELEASE job held",
        "EVAL return(redis.call('del',KEYS[1])) 1 job",
    ];
    for free in frees {
        let (mut bench, holder, clients) = Bench::with_waiting(2);
        bench.run(holder, "SADD set member");
        bench.run(holder, free);
        assert_eq!(bench.told(&clients), [0], "{free}");
    }
    let keeps = [
        "SET job other",
        "PERSIST job",
        "APPEND job more",
        "RENAME set other",
        "EVAL redis.call('del',KEYS[1]);return(redis.call('set',KEYS[1],'b')) 1 job",
    ];
    for keep in keeps {
        let (mut bench, holder, clients) = Bench::with_waiting(2);
        bench.run(holder, "SADD set member");
        bench.run(holder, keep);
        bench.advance(Duration::from_millis(100));
        assert_eq!(bench.told(&clients), [0; 0], "{keep}");
    }
}

#[test]
fn a_client_that_never_waited_may_take_the_lock_and_the_first_stays_first() {
    let (mut bench, holder, clients) = Bench::with_waiting(2);
    bench.send(holder, "DEL job");
    assert_eq!(bench.run(holder, "SET job held NX"), ":1 +OK ");
    assert_eq!(bench.told(&clients), [0]);
    let lost = bench.run(clients[0], "SET job t0 NX PX 1000");
    assert_eq!(lost, "_ ");
    bench.advance(Duration::from_millis(100));
    assert_eq!(bench.run(clients[0], "LOCK.WAIT job t0"), ":2 ");
    bench.run(holder, "DEL job");
    assert_eq!(bench.told(&clients), [0]);
}

#[test]
fn the_end_of_a_connection_passes_its_turn_on() {
    type End = fn(&mut Bench, Client, Client);
    let ends: [End; 5] = [
        |bench, first, _| bench.node.reset(first),
        |bench, first, _| assert_eq!(bench.run(first, "QUIT"), "+OK "),
        |bench, first, _| assert_eq!(bench.run(first, "RESET"), "+RESET "),
        |bench, first, _| assert!(bench.run(first, "HELLO 2").starts_with("*14 ")),
        |bench, _, other| {
            bench.run(other, "CLIENT KILL ID 2");
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let (mut bench, holder, clients) = Bench::with_waiting(3);
        bench.run(holder, "DEL job");
        assert_eq!(bench.told(&clients), [0]);
        end(&mut bench, clients[0], holder);
        bench.go_on();
        let (next, last) = (bench.received(clients[1]), bench.received(clients[2]));
        assert_eq!((next, last), (push("job", "t1"), String::new()), "{number}");
    }
}

#[test]
fn who_leaves_the_line_has_no_message_behind_the_reply() {
    let (mut bench, holder, clients) = Bench::with_waiting(3);
    assert_eq!(bench.run(clients[0], "LOCK.UNWAIT job other job"), ":1 ");
    bench.send(holder, "DEL job");
    bench.send(clients[1], "LOCK.UNWAIT job");
    bench.go_on();
    let (text, expected) = (bench.received(clients[1]), push("job", "t1"));
    assert!(text == ":1 " || text == format!("{expected}:1 "), "{text}");
    bench.received(clients[0]);
    assert_eq!(bench.received(clients[2]), push("job", "t2"));
}

#[test]
fn one_connection_waits_for_many_names_and_goes_on_working() {
    let mut bench = Bench::new(&[]);
    let (holder, client) = (bench.client(), bench.client());
    for number in 0..100 {
        bench.run(holder, &format!("SET n{number} held PX 1000"));
        let wait = format!("LOCK.WAIT n{number} t{number}");
        assert_eq!(bench.run(client, &wait), ":1 ");
    }
    for number in (0..100).rev() {
        bench.run(holder, &format!("DEL n{number}"));
        let (key, token) = (format!("n{number}"), format!("t{number}"));
        assert_eq!(bench.received(client), push(&key, &token));
        let taken = bench.run(client, &format!("SET {key} {token} NX PX 1000"));
        assert_eq!(taken, "+OK ");
    }
    bench.advance(Duration::from_secs(2));
    assert_eq!(bench.received(client), "");
}

#[test]
fn each_database_has_its_own_locks() {
    let (mut bench, holder, clients) = Bench::with_waiting(1);
    bench.run(holder, "SELECT 1");
    bench.run(holder, "SET job held");
    bench.run(holder, "DEL job");
    assert_eq!(bench.told(&clients), [0; 0]);
    bench.run(holder, "SET job held");
    bench.run(holder, "SWAPDB 0 1");
    assert_eq!(bench.told(&clients), [0; 0], "there is a lock as well");
    bench.run(holder, "DEL job");
    assert_eq!(bench.told(&clients), [0; 0], "this was the first one");
    bench.run(holder, "SELECT 0");
    bench.run(holder, "DEL job");
    assert_eq!(bench.told(&clients), [0]);
}

#[test]
fn what_may_not_wait_is_refused() {
    let mut bench = Bench::new(&[("requirepass", "secret")]);
    let client = bench.node.connect(usize::MAX, None);
    assert!(bench.run(client, "LOCK.WAIT job t0").starts_with("-NOAUTH"));
    bench.run(client, "AUTH secret");
    let refused = |bench: &mut Bench, line: &str, error: &str| {
        let reply = bench.run(client, line);
        assert!(reply.contains(error), "{line}: {reply}");
    };
    refused(
        &mut bench,
        "LOCK.WAIT job t0",
        "-ERR LOCK.WAIT sends a message",
    );
    bench.run(client, "HELLO 3");
    bench.run(client, "LPUSH list element");
    refused(&mut bench, "LOCK.WAIT list t0", "-WRONGTYPE");
    refused(&mut bench, "LOCK.WAIT job", "-ERR wrong number");
    let long = format!("LOCK.WAIT job {}", "t".repeat(1025));
    refused(&mut bench, &long, "-ERR the token of a lock");
    for turn in ["19", "2001", "-20", "9223372036854775807"] {
        let line = format!("LOCK.WAIT job t0 TURN {turn}");
        refused(&mut bench, &line, "-ERR the TURN of LOCK.WAIT lasts from");
    }
    refused(
        &mut bench,
        "LOCK.WAIT job t0 TURN long",
        "-ERR value is not an integer",
    );
    for options in ["TURN", "TURN 20 TURN 20", "SHARED SHARED", "TURN 20 soon"] {
        let line = format!("LOCK.WAIT job t0 {options}");
        refused(&mut bench, &line, "-ERR syntax error");
    }
    refused(&mut bench, "LOCK.SESSION ON", "-ERR a node keeps each lock");
}

#[test]
fn a_flood_of_names_is_refused_at_its_bound_and_is_gone_with_its_connection() {
    let mut bench = Bench::new(&[]);
    let (holder, flooder, other) = (bench.client(), bench.client(), bench.client());
    bench.run(holder, "SET job held");
    let mut replies = String::new();
    let numbers: Vec<usize> = (0..=16_384).collect();
    for numbers in numbers.chunks(1_000) {
        let held: String = numbers.iter().map(|one| format!(" n{one} held")).collect();
        assert_eq!(bench.run(holder, &format!("MSET{held}")), "+OK ");
        for number in numbers {
            bench.send(flooder, &format!("LOCK.WAIT n{number} t"));
        }
        bench.go_on();
        replies.push_str(&bench.received(flooder));
    }
    assert_eq!(replies.matches(":1 ").count(), 16_384);
    let (_, refusal) = replies.split_once('-').expect("one name is too many");
    assert!(refusal.starts_with("ERR a connection may wait for 16384 locks"));
    assert_eq!(bench.node.lock_report().unwrap().waiters, 16_384);
    // Others wait as ever, also while the flood is taken out.
    assert_eq!(bench.run(other, "LOCK.WAIT job t1"), ":1 ");
    bench.node.reset(flooder);
    bench.run(holder, "DEL job");
    assert_eq!(bench.received(other), push("job", "t1"));
    bench.advance(Duration::from_secs(1));
    assert_eq!(bench.node.lock_report().unwrap().waiters, 0);
}

/// It gets a message for each time that others have had the lock.
#[test]
fn a_client_that_does_not_read_is_closed_at_the_limit_of_those_who_listen() {
    let limit = ("client-output-buffer-limit", "pubsub 20000 20000 1");
    let mut bench = Bench::new(&[limit]);
    let (holder, client) = (bench.client(), bench.client());
    bench.run(holder, "SET job held");
    assert_eq!(bench.run(client, "LOCK.WAIT job t0"), ":1 ");
    bench.node.set_room(client, 100);
    let mut rounds = 0;
    while !bench.node.is_closed(client) {
        bench.run(holder, "DEL job");
        bench.run(holder, "SET job held");
        rounds += 1;
        assert!(rounds < 1000, "it keeps all of them");
    }
    assert!(rounds > 50, "{rounds}");
    assert_eq!(bench.run(holder, "LOCK.WAIT job t1"), ":1 ", "it has left");
}

/// Who is told tells others: nobody is to know of it what a power loss takes back.
#[test]
fn a_message_waits_until_what_it_tells_is_on_record() {
    let (mut executor, clock) = executor(Durability::Always);
    let mut now = Moment {
        node: NodeTime::from_nanos(clock.raw().as_nanos()),
        wall_us: 0,
    };
    let run = |executor: &mut Executor, now: Moment, line: &str| {
        let caller = Caller {
            client_id: 2,
            protocol: Protocol::Resp3,
            ..Caller::default()
        };
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let command = Command::parse(&words).unwrap();
        let mut wait = DurabilityWait::default();
        executor.execute(now, &caller, &command, &mut wait).unwrap();
        wait
    };
    for line in ["SET job held PX 100", "LOCK.WAIT job t0"] {
        run(&mut executor, now, line);
    }
    let wait = run(&mut executor, now, "DEL job");
    let told: Vec<DurabilityWait> = executor.take_published().iter().map(|it| it.1).collect();
    assert!(wait.synced > Position::ZERO);
    assert_eq!(told, [wait]);
    let wait = run(&mut executor, now, "SET job held PX 100");
    now.node = now.node.saturating_add(Duration::from_millis(100));
    executor.hand_over_due(now.node);
    let told: Vec<DurabilityWait> = executor.take_published().iter().map(|it| it.1).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].synced >= wait.synced, "it tells of that lock");
}

#[test]
fn a_node_counts_who_waits_and_how_long_by_the_pattern_of_the_name() {
    let mut bench = Bench::new(&[("metrics-lock-patterns", "report:* j*")]);
    let (holder, next) = (bench.client(), bench.client());
    assert_eq!(bench.run(holder, "SET job t0 NX PX 60000"), "+OK ");
    bench.run(next, "LOCK.WAIT job t1");
    // To ask again is to wait on.
    bench.advance(Duration::from_secs(1));
    bench.run(next, "LOCK.WAIT job t2");
    assert_eq!(bench.node.lock_report().unwrap().waiters, 1);
    bench.advance(Duration::from_secs(2));
    bench.run(holder, "DEL job");
    bench.run(next, "SET job t2 NX PX 60000");
    let report = bench.node.lock_report().unwrap();
    assert_eq!((report.waiters, report.held.with_ttl), (0, 1));
    let of: Vec<_> = report.counts.classes().collect();
    let waited: Vec<_> = of
        .iter()
        .map(|(of, it)| (*of, it.waits.sum.as_secs()))
        .collect();
    assert_eq!(waited, [("", 0), ("report:*", 0), ("j*", 3)]);
    assert_eq!(of[2].1.holds.sum.as_secs(), 3, "the first holder's");
}
