//! Clients that wait with an upstream, and lose the right to what they wait for.

use quorlock_engine::Reply;

use super::{Client, Tested};

fn logged_in(tested: &mut Tested, user: &str) -> Client {
    let client = tested.connect();
    assert_eq!(tested.ask(client, &format!("AUTH {user} x")), "+OK\r\n");
    client
}

/// What it waits for may be a lock: the upstream gives back what it takes for a client that has left.
#[test]
fn one_that_may_no_more_have_what_it_waits_for_is_disconnected() {
    for loss in ["-blpop", "resetkeys", "off -@all"] {
        let mut tested = Tested::new();
        let admin = tested.connect();
        for user in ["bob", "ann"] {
            let rules = "on >x +@all ~a* ~b &news";
            tested.ask(admin, &format!("ACL SETUSER {user} {rules}"));
        }
        let (bob, ann) = (logged_in(&mut tested, "bob"), logged_in(&mut tested, "ann"));
        tested.send(bob, &["BLPOP a1 0"]);
        tested.send(ann, &["BLPOP a2 0"]);
        // Dropped, they would be answered.
        let requests = tested.take();
        assert_eq!(requests.len(), 2);
        let change = |rules: &str| format!("ACL SETUSER bob {rules}");
        assert_eq!(tested.ask(admin, &change("-get resetchannels")), "+OK\r\n");
        assert!(!tested.node.is_closed(bob), "it may still wait for a1");
        assert_eq!(tested.ask(admin, &change(loss)), "+OK\r\n");
        assert!(tested.node.is_closed(bob), "{loss}");
        assert_eq!(tested.left(), [2]);
        assert!(!tested.node.is_closed(ann));
        drop(requests);
    }
}

#[test]
fn one_that_waits_no_more_stays() {
    let mut tested = Tested::new();
    let admin = tested.connect();
    tested.ask(admin, "ACL SETUSER bob on >x +@all ~* &*");
    let bob = logged_in(&mut tested, "bob");
    tested.send(bob, &["BLPOP a 0"]);
    tested.take_one().answer.send(Reply::Nil);
    assert_eq!(tested.received(bob), "$-1\r\n");
    tested.send(bob, &["GET a"]);
    tested.ask(admin, "ACL SETUSER bob -blpop -get");
    tested.take_one().answer.send(Reply::Nil);
    assert_eq!(tested.received(bob), "$-1\r\n", "it was executed before");
}

#[test]
fn one_that_is_about_to_listen_to_what_it_may_not_hear_any_more_is_disconnected() {
    let mut tested = Tested::new();
    let admin = tested.connect();
    tested.ask(admin, "ACL SETUSER bob on >x +@all ~* &news &n*");
    for request in ["SUBSCRIBE news", "PSUBSCRIBE n*"] {
        let bob = logged_in(&mut tested, "bob");
        tested.send(bob, &[request]);
        let subscription = tested.take_subscription();
        tested.ask(admin, "ACL SETUSER bob resetchannels &other");
        assert!(tested.node.is_closed(bob), "{request}");
        drop(subscription);
        tested.ask(admin, "ACL SETUSER bob &news &n*");
    }
}
