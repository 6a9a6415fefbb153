//! What becomes of a session whose user is changed or deleted behind its back.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fmt;
use std::sync::{Arc, Mutex};

use quorlock_engine::control::Boot;
use quorlock_engine::{BootTime, RawTime};
use quorlock_persistence::MemoryDisk;

use crate::clock::{ClientInstant, Clock, SettableClock};
use crate::config::Config;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::protocol::Output;
use crate::session::{Batch, Next, Session};
use crate::start::for_tests;

fn node() -> Arc<NodeState> {
    let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
    let config = Config::default();
    let (node, mut preparer, _) = for_tests::started(config, Arc::new(disk), Arc::new(clock));
    // Nobody else makes the segment ahead, which scripts want.
    preparer.prepare().unwrap();
    node
}

fn set(node: &NodeState, rules: &str) {
    let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    let changed = node.access.change(|users| users.set(b"bob", &rules));
    changed.unwrap();
}

fn delete(node: &NodeState) {
    let changed = node.access.change(|users| match users.remove(b"bob") {
        true => Ok(()),
        false => Err(()),
    });
    changed.unwrap();
}

/// Executes a request, and returns its reply.
fn ask(node: &Arc<NodeState>, session: &mut Session, request: &[&str]) -> (String, Next) {
    ask_in(&mut Batch::new(node, node.clock.raw()), session, request)
}

fn ask_in(batch: &mut Batch<'_>, session: &mut Session, request: &[&str]) -> (String, Next) {
    let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
    let words: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
    let next = batch.execute(session, &words, &mut wait, &mut replies);
    let reply = replies.single_run().map(<[u8]>::to_vec).unwrap_or_default();
    (String::from_utf8(reply).unwrap(), next)
}

fn logged_in(node: &Arc<NodeState>, rules: &str) -> Session {
    set(node, rules);
    let mut session = for_tests::session(node);
    let (reply, _) = ask(node, &mut session, &["AUTH", "bob", "any"]);
    assert_eq!(reply, "+OK\r\n");
    session
}

/// Connections are closed on DELUSER. One that its worker has not closed yet executes nothing either.
#[test]
fn the_session_of_a_deleted_user_executes_nothing_more() {
    for rules in ["on nopass +@all ~* &*", "on nopass +get ~a"] {
        let node = node();
        let mut session = logged_in(&node, rules);
        assert_eq!(ask(&node, &mut session, &["GET", "a"]).0, "$-1\r\n");
        delete(&node);
        assert_eq!(
            ask(&node, &mut session, &["GET", "a"]),
            (String::new(), Next::Close)
        );
        // Another user of that name is not the one that has logged in.
        set(&node, rules);
        assert_eq!(
            ask(&node, &mut session, &["GET", "a"]),
            (String::new(), Next::Close)
        );
    }
}

#[test]
fn a_transaction_of_a_deleted_user_is_not_executed() {
    let node = node();
    let mut session = logged_in(&node, "on nopass +@all ~* &*");
    ask(&node, &mut session, &["MULTI"]);
    ask(&node, &mut session, &["SET", "a", "1"]);
    delete(&node);
    assert_eq!(
        ask(&node, &mut session, &["EXEC"]),
        (String::new(), Next::Close)
    );
    assert_eq!(
        ask(&node, &mut for_tests::session(&node), &["GET", "a"]).0,
        "$-1\r\n"
    );
}

/// The first script runs natively, the second in the interpreter.
#[test]
fn a_script_is_checked_for_the_user_that_it_has_now() {
    let node = node();
    let mut session = logged_in(&node, "on nopass +eval +get +set ~a");
    let mut admin = for_tests::session(&node);
    for script in [
        "return redis.call('set','a','1')",
        "local t = {} t.a = 1 return redis.call('set','a','1')",
    ] {
        set(&node, "+set");
        assert_eq!(
            ask(&node, &mut session, &["EVAL", script, "0"]).0,
            "+OK\r\n"
        );
        set(&node, "-set");
        let (reply, _) = ask(&node, &mut session, &["EVAL", script, "0"]);
        assert!(reply.contains("can't run this command"), "{reply}");
        // Nor is another user bound by what was refused.
        assert_eq!(ask(&node, &mut admin, &["EVAL", script, "0"]).0, "+OK\r\n");
        let (log, _) = ask(&node, &mut admin, &["ACL", "LOG", "1"]);
        assert!(log.contains("lua") && log.contains("set"), "{log}");
        ask(&node, &mut admin, &["ACL", "LOG", "RESET"]);
    }
}

#[test]
fn a_script_may_ask_what_its_user_may_do() {
    let node = node();
    let mut session = logged_in(&node, "on nopass +eval +get +publish ~a &a");
    for (call, expected) in [
        ("'get','a'", ":1\r\n"),
        ("'get','b'", "$-1\r\n"),
        ("'set','a','1'", "$-1\r\n"),
        ("'publish','b','1'", "$-1\r\n"),
        ("'publish'", ":1\r\n"),
        ("'get'", ":1\r\n"),
        ("'config','get'", "$-1\r\n"),
    ] {
        let script = format!("return redis.acl_check_cmd({call})");
        let (reply, _) = ask(&node, &mut session, &["EVAL", &script, "0"]);
        assert_eq!(reply, expected, "{call}");
    }
    let mut admin = for_tests::session(&node);
    assert_eq!(
        ask(&node, &mut admin, &["ACL", "LOG"]).0,
        "*0\r\n",
        "nothing was refused"
    );
}

#[test]
fn a_request_that_is_wrong_is_refused_for_that_and_not_executed() {
    let node = node();
    let mut session = logged_in(&node, "on nopass +get +config|get ~a");
    for (request, expected) in [
        (
            &["GET"][..],
            "-ERR wrong number of arguments for 'get' command\r\n",
        ),
        (
            &["CONFIG", "NOSUCH"],
            "-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.\r\n",
        ),
        (
            &["CONFIG", "GET"],
            "-ERR wrong number of arguments for 'config|get' command\r\n",
        ),
        (
            &["CONFIG", "RESETSTAT"],
            "-NOPERM this user has no permissions to run the 'config|resetstat' command\r\n",
        ),
    ] {
        assert_eq!(ask(&node, &mut session, request).0, expected);
    }
}

#[test]
fn what_exec_refuses_is_in_the_log_as_of_a_transaction_and_counted() {
    let node = node();
    let mut session = logged_in(&node, "on nopass +@all ~a");
    for request in [&["MULTI"][..], &["GET", "a"]] {
        ask(&node, &mut session, request);
    }
    set(&node, "resetkeys ~b");
    ask(&node, &mut session, &["EXEC"]);
    ask(&node, &mut session, &["GET", "a"]);
    let contexts: Vec<&str> = {
        let denials = node.access.denials();
        let entries = denials.newest(9);
        entries.map(|entry| entry.denied.context.name()).collect()
    };
    assert_eq!(contexts, ["toplevel", "multi"]);
    let counts: Vec<(&str, u64)> = node.access.denied_counts().into_iter().collect();
    assert_eq!(
        counts,
        [("auth", 0), ("cmd", 0), ("key", 2), ("channel", 0)]
    );
    let mut config = node.settings.config().clone();
    config.set("acllog-max-len", &["1"]).unwrap();
    node.settings.replace(config);
    ask(&node, &mut session, &["GET", "c"]);
    assert_eq!(node.access.denials().newest(9).count(), 1);
}

/// A clock at whose next reading something else happens once: a batch reads it when it has locked the engine.
#[derive(Default)]
struct InterruptedClock {
    settable: SettableClock,
    interruption: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for InterruptedClock {
    fn now(&self) -> ClientInstant {
        self.settable.now()
    }
    fn raw(&self) -> RawTime {
        let interruption = self.interruption.lock().unwrap().take();
        if let Some(interrupt) = interruption {
            interrupt();
        }
        self.settable.raw()
    }
    fn boottime(&self) -> BootTime {
        self.settable.boottime()
    }
    fn wall_us(&self) -> u64 {
        self.settable.wall_us()
    }
    fn boot(&self) -> Boot {
        self.settable.boot()
    }
}

impl fmt::Debug for InterruptedClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("InterruptedClock")
    }
}

/// Planted: it was checked before it had the engine. What a change of users has to end was not there yet, and then stayed.
#[test]
fn what_is_sent_later_on_is_checked_with_the_engine_locked() {
    let clock = Arc::new(InterruptedClock::default());
    let disk = Arc::new(MemoryDisk::new());
    let (node, _preparer, _events) = for_tests::started(
        Config::default(),
        disk,
        Arc::clone(&clock) as Arc<dyn Clock>,
    );
    for rules in ["on nopass +@all ~a &a", "on nopass +@all ~* &*"] {
        for request in [
            &["LOCK.WAIT", "a", "t"][..],
            &["SUBSCRIBE", "a"],
            &["PSUBSCRIBE", "a"],
        ] {
            set(&node, "reset");
            let mut session = logged_in(&node, rules);
            ask(&node, &mut session, &["HELLO", "3"]);
            let mut batch = Batch::new(&node, node.clock.raw());
            let changed = Arc::clone(&node);
            let change = move || set(&changed, "resetkeys resetchannels");
            *clock.interruption.lock().unwrap() = Some(Box::new(change));
            let (reply, _) = ask_in(&mut batch, &mut session, request);
            assert!(reply.starts_with("-NOPERM"), "{request:?}: {reply}");
        }
    }
}

/// They got it by a request that is refused, as often as they liked.
#[test]
fn a_stranger_does_not_get_the_engine_for_what_is_sent_later_on() {
    let node = node();
    let changed = node.access.change(|users| {
        users.set_default_password(Some(b"secret"));
        Ok::<(), ()>(())
    });
    changed.unwrap();
    let mut session = for_tests::session(&node);
    for request in [
        &["LOCK.WAIT", "a", "t"][..],
        &["SUBSCRIBE", "a"],
        &["SSUBSCRIBE"],
    ] {
        let mut batch = Batch::new(&node, node.clock.raw());
        let (reply, next) = ask_in(&mut batch, &mut session, request);
        assert_eq!(reply, "-NOAUTH Authentication required.\r\n");
        assert_eq!(next, Next::Read);
        assert!(!batch.holds_engine(), "{request:?}");
    }
}
