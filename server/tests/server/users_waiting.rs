//! Clients that wait, and lose the right to what they wait for.

use quorlock_testkit::Wire;

use crate::machine::{wire, with_node};
use crate::queued::transact;

const NO_KEY: &str =
    "-NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_BLPOP: &str = "-NOPERM this user has no permissions to run the 'blpop' command";

fn logged_in(node: &quorlock_server::Node) -> Wire {
    let mut client = wire(node);
    client.ask("HELLO 3 AUTH bob x");
    client
}

/// Waits until so many clients are blocked.
fn await_blocked(admin: &mut Wire, count: usize) {
    let shown = format!("\r\nblocked_clients:{count}\r\n");
    while !admin.ask("INFO clients").contains(&shown) {
        std::thread::yield_now();
    }
}

/// As in Redis 7.2 its command is checked as if it came then. Nothing is taken out of the list.
#[test]
fn one_that_waits_for_an_element_is_checked_again_when_there_is_one() {
    with_node(&[("workers", &["2"])], |node, _| {
        let mut admin = wire(node);
        for (loss, refusal) in [
            ("resetkeys ~other", NO_KEY),
            ("-blpop", NO_BLPOP),
            ("off -@all", NO_BLPOP),
        ] {
            admin.ask("ACL SETUSER bob reset on >x +@all ~*");
            let (mut bob, mut next) = (logged_in(node), wire(node));
            bob.send(b"BLPOP l 0\r\n");
            await_blocked(&mut admin, 1);
            next.send(b"BLPOP l 0\r\n");
            await_blocked(&mut admin, 2);
            assert_eq!(admin.ask(&format!("ACL SETUSER bob {loss}")), "+OK");
            admin.ask("ACL LOG RESET");
            assert!(bob.is_silent(), "it may get the right back");
            assert_eq!(admin.ask("RPUSH l e"), ":1");
            assert_eq!(bob.reply(), refusal);
            assert_eq!(next.reply(), "[l, e]", "the element is the next one's");
            let log = admin.ask("ACL LOG");
            assert!(
                log.contains("username, bob") && log.contains("toplevel"),
                "{log}"
            );
        }
        admin.ask("ACL SETUSER bob reset on >x +@all ~*");
        let mut bob = logged_in(node);
        bob.send(b"BLPOP l 0\r\n");
        await_blocked(&mut admin, 1);
        admin.ask("ACL SETUSER bob -blpop");
        admin.ask("ACL SETUSER bob +blpop");
        admin.ask("RPUSH l e");
        assert_eq!(bob.reply(), "[l, e]");
    });
}

#[test]
fn one_whose_user_is_deleted_is_disconnected_and_gets_nothing() {
    with_node(&[], |node, _| {
        let mut admin = wire(node);
        admin.ask("ACL SETUSER bob on >x +@all ~*");
        let mut bob = logged_in(node);
        bob.send(b"BLPOP l 0\r\n");
        await_blocked(&mut admin, 1);
        assert_eq!(admin.ask("ACL DELUSER bob"), ":1");
        assert_eq!(bob.reply(), "<closed>");
        assert_eq!(admin.ask("RPUSH l e"), ":1");
        assert_eq!(admin.ask("LLEN l"), ":1");
        // And where the element comes in the transaction that deletes it, before it is disconnected.
        admin.ask("ACL SETUSER bob on >x +@all ~*");
        let mut bob = logged_in(node);
        bob.send(b"BLPOP other 0\r\n");
        await_blocked(&mut admin, 1);
        let done = transact(&mut admin, &["ACL DELUSER bob", "RPUSH other e"]);
        assert_eq!(done, "[:1, :1]");
        assert_eq!(admin.ask("LLEN other"), ":1");
    });
}

/// Its worker may close the connection before or behind the end of the transaction: one round shows either.
#[test]
fn one_that_may_not_listen_any_more_gets_no_message_of_the_transaction_that_says_so() {
    with_node(&[("workers", &["2"])], |node, _| {
        let mut admin = wire(node);
        let mut other = wire(node);
        assert_eq!(other.ask("SUBSCRIBE news"), "[subscribe, news, :1]");
        for round in 0..50 {
            admin.ask("ACL SETUSER bob reset on >x +@all &news");
            let mut bob = wire(node);
            assert_eq!(bob.ask("AUTH bob x"), "+OK");
            assert_eq!(bob.ask("SUBSCRIBE news"), "[subscribe, news, :1]");
            let requests = ["ACL SETUSER bob resetchannels", "PUBLISH news secret"];
            let done = transact(&mut admin, &requests);
            assert!(done.ends_with(":2]"), "both listened: {done}");
            assert_eq!(bob.reply(), "<closed>", "round {round}");
            assert_eq!(other.reply(), "[message, news, secret]");
        }
    });
}

/// Nobody is granted a lock who does not ask for it when its turn has come, and then it is checked. One that may not would waste
/// its turn, and those behind it would wait for nothing.
#[test]
fn one_that_waits_for_a_lock_leaves_the_line_with_its_right() {
    with_node(&[("workers", &["2"])], |node, _| {
        let mut admin = wire(node);
        for loss in ["resetkeys ~other*", "-lock.wait", "-@all"] {
            admin.ask("ACL SETUSER bob reset on >x +@all ~*");
            let (mut bob, mut next) = (logged_in(node), wire(node));
            next.ask("HELLO 3");
            assert_eq!(admin.ask("SET job holder PX 60000"), "+OK");
            assert_eq!(bob.ask("LOCK.WAIT job b"), ":1");
            let other = format!("other{}", loss.len());
            admin.ask(&format!("SET {other} holder PX 60000"));
            assert_eq!(bob.ask(&format!("LOCK.WAIT {other} b")), ":1");
            assert_eq!(next.ask("LOCK.WAIT job n TURN 2000"), ":2");
            assert_eq!(admin.ask(&format!("ACL SETUSER bob {loss}")), "+OK");
            assert_eq!(admin.ask("DEL job"), ":1");
            assert_eq!(next.reply(), "[lock-free, job, n]", "at once");
            assert!(bob.is_silent());
            if loss.starts_with("resetkeys") {
                assert_eq!(bob.ask("SET job b NX PX 60000"), NO_KEY);
                let behind = next.ask(&format!("LOCK.WAIT {other} n"));
                assert_eq!(behind, ":2", "it kept that place");
            }
            next.ask("LOCK.UNWAIT job");
        }
    });
}

/// The turn that it has goes to the next.
#[test]
fn one_whose_turn_it_is_gives_it_up_with_its_right() {
    with_node(&[], |node, _| {
        let mut admin = wire(node);
        admin.ask("ACL SETUSER bob on >x +@all ~*");
        let (mut bob, mut next) = (logged_in(node), wire(node));
        next.ask("HELLO 3");
        assert_eq!(admin.ask("SET job holder PX 60000"), "+OK");
        assert_eq!(bob.ask("LOCK.WAIT job b TURN 2000"), ":1");
        assert_eq!(next.ask("LOCK.WAIT job n TURN 2000"), ":2");
        assert_eq!(admin.ask("DEL job"), ":1");
        assert_eq!(bob.reply(), "[lock-free, job, b]");
        assert_eq!(admin.ask("ACL SETUSER bob resetkeys"), "+OK");
        next.send(b"LOCK.WAIT job n\r\n");
        assert_eq!(next.reply(), "[lock-free, job, n]", "before it asks");
        assert_eq!(next.reply(), ":0");
    });
}

/// At one moment the lock is free and the right is gone, in whichever order the transaction does that.
#[test]
fn one_that_loses_the_right_in_the_transaction_that_frees_the_lock_gets_no_message_of_it() {
    with_node(&[], |node, _| {
        let mut admin = wire(node);
        for (round, frees_first) in [(1, false), (2, true)] {
            let (lost, kept) = (format!("lost-{round}"), format!("kept-{round}"));
            admin.ask("ACL SETUSER bob reset on >x +@all ~*");
            let (mut bob, mut next) = (logged_in(node), wire(node));
            next.ask("HELLO 3");
            admin.ask(&format!("MSET {lost} holder {kept} holder"));
            assert_eq!(bob.ask(&format!("LOCK.WAIT {lost} b")), ":1");
            assert_eq!(bob.ask(&format!("LOCK.WAIT {kept} b")), ":1");
            assert_eq!(next.ask(&format!("LOCK.WAIT {lost} n TURN 2000")), ":2");
            let loss = "ACL SETUSER bob resetkeys ~kept-*";
            let free = format!("DEL {lost} {kept}");
            let mut requests = [loss, free.as_str()];
            if frees_first {
                requests.reverse();
            }
            transact(&mut admin, &requests);
            assert_eq!(next.reply(), format!("[lock-free, {lost}, n]"), "at once");
            assert_eq!(bob.reply(), format!("[lock-free, {kept}, b]"));
            assert_eq!(bob.ask("PING"), "+PONG", "nothing of the other lock");
        }
    });
}
