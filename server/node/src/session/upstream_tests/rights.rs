//! Clients that wait with an upstream, and lose the right to what they wait for.

use quorlock_engine::{Purpose, Reply};

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
fn what_a_script_may_call_is_asked_when_it_is_executed() {
    let mut tested = Tested::new();
    let admin = tested.connect();
    tested.ask(admin, "ACL SETUSER bob on >x +eval +get ~a*");
    tested.ask(admin, "ACL SETUSER ann on >x +@all ~*");
    let (bob, ann) = (logged_in(&mut tested, "bob"), logged_in(&mut tested, "ann"));
    let refused = tested.ask(bob, "EVAL script 1 b");
    assert!(refused.starts_with("-NOPERM "), "{refused}");
    tested.send(bob, &["EVAL script 1 a1"]);
    let request = tested.take_one();
    let guard = request.script_guard.clone().unwrap();
    let refusal = |words: &[&[u8]], purpose| {
        let refusal = guard.refuses(words, purpose);
        refusal.map_or_else(String::new, |error| error.to_string())
    };
    assert_eq!(refusal(&[b"get", b"a1"], Purpose::Call), "");
    let of_key = refusal(&[b"get", b"b1"], Purpose::Call);
    assert!(
        of_key.contains("can't access at least one of the keys"),
        "{of_key}"
    );
    let tried = refusal(&[b"del", b"a1"], Purpose::Question);
    assert!(tried.contains("can't run this command"), "{tried}");
    tested.ask(admin, "ACL SETUSER bob -get");
    let since = refusal(&[b"get", b"a1"], Purpose::Call);
    assert!(since.contains("can't run this command"), "{since}");
    request.answer.send(Reply::Integer(1));
    assert_eq!(tested.received(bob), ":1\r\n");
    // What was only tried was refused to nobody.
    let log = tested.ask(admin, "ACL LOG");
    assert_eq!(log.matches("\r\nlua\r\n").count(), 2, "{log}");
    assert!(!log.contains("\r\ndel\r\n"), "{log}");

    tested.send(ann, &["EVAL script 1 b"]);
    let guard = tested.take_one().script_guard.unwrap();
    let may_delete = || guard.refuses(&[b"del", b"b"], Purpose::Call).is_none();
    assert!(may_delete());
    tested.ask(admin, "ACL SETUSER ann -del");
    assert!(!may_delete());
    tested.received(ann);
    tested.send(ann, &["GET b"]);
    assert!(tested.take_one().script_guard.is_none(), "it is no script");
}

/// Its client knows by these words that it is no node, whichever rights it has.
#[test]
fn a_command_that_a_user_may_not_send_is_refused_in_the_name_of_an_agent() {
    let mut tested = Tested::new();
    let admin = tested.connect();
    tested.ask(admin, "ACL SETUSER bob on >x +@all -info ~*");
    let bob = logged_in(&mut tested, "bob");
    assert_eq!(
        tested.ask(bob, "INFO server"),
        "-NOPERM this user has no permissions to run the 'info' command on this agent\r\n"
    );
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
