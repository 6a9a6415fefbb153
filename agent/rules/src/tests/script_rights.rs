//! Scripts of users who may not call all commands.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::outcome::Reading;
use quorlock_client_rules::token::Token;
use quorlock_engine::{CommandGuard, ErrorReply, Purpose, Reply};

use super::{actions, agent, now, request};
use crate::{Action, Commands, Event, RequestId};

type Called = Arc<Mutex<Vec<String>>>;

/// A script of a user who may not call DEL, and what it has called.
fn script(words: &[&str]) -> (Event, Called) {
    let called = Called::default();
    let noted = Arc::clone(&called);
    let script_guard = CommandGuard::new(move |arguments, purpose| {
        let name = String::from_utf8_lossy(arguments[0]).into_owned();
        let refusal = (name == "del").then_some(ErrorReply::fixed("ERR not this user"));
        if purpose == Purpose::Call {
            noted.lock().unwrap().push(name);
        }
        refusal
    });
    let Event::Request(id, caller, commands) = request(words) else {
        panic!("it is a request")
    };
    let commands = Commands {
        script_guard: Some(script_guard),
        ..commands
    };
    (Event::Request(id, caller, commands), called)
}

#[test]
fn a_script_is_refused_what_its_user_may_not_call_and_only_once() {
    let release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    let (event, called) = script(&["EVAL", release, "1", "a", "me"]);
    let mut agent = agent();
    let asked = actions(&mut agent, now(), event);
    assert!(matches!(&asked[..], [Action::Ask(_, Call::Read { .. })]));
    assert!(called.lock().unwrap().is_empty(), "it was only tried");
    let held = Reading::Held {
        token: Token::from("me"),
        left: Some(Duration::from_secs(30)),
        longest: None,
    };
    let told = Event::Outcome(RequestId(1), Outcome::Read(Ok(held)));
    match &actions(&mut agent, now(), told)[..] {
        [Action::Reply(_, Reply::Error(error))] => {
            assert!(
                error.as_bytes().starts_with(b"ERR not this user"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(*called.lock().unwrap(), ["get", "del"]);
    // What the next request calls is nothing to the guard.
    let next = actions(
        &mut agent,
        now(),
        request(&["EVAL", release, "1", "a", "me"]),
    );
    assert!(matches!(&next[..], [Action::Ask(..)]), "{next:?}");
    assert_eq!(called.lock().unwrap().len(), 2);
}
