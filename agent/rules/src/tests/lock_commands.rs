//! LOCK commands: which calls they are, and what is answered for what the nodes say.

use std::sync::Arc;
use std::time::Duration;

use quorlock_client_rules::call::{AcquireCall, Call, Extended, Outcome};
use quorlock_client_rules::outcome::{ExtendError, Looked, Loss, Reading};
use quorlock_client_rules::settings::Drift;
use quorlock_client_rules::token::Token;
use quorlock_client_rules::wait::Wait;
use quorlock_engine::{Caller, Reply};

use super::{TTL, actions, agent, answer, now, request};
use crate::terms::node_ttl;
use crate::{Action, Agent, Event, RequestId, waits_for_lock};

const WHOLE: &str = "me~attempt-0123456789abcdef";

/// What the nodes are asked for, if they are.
fn asked(agent: &mut Agent, words: &[&str]) -> Call {
    match actions(agent, now(), request(words)).pop() {
        Some(Action::Ask(_, call)) => call,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn acquired(fence: Option<u64>) -> Event {
    let outcome = Outcome::Acquired {
        token: Token::from(WHOLE),
        valid_until: now().after(TTL),
        fence,
        permit: None,
    };
    Event::Outcome(RequestId(1), outcome)
}

fn extended(result: Result<Extended, ExtendError>) -> Event {
    Event::Outcome(RequestId(1), Outcome::Extended(result))
}

fn held(token: &str) -> Event {
    let reading = Reading::Held {
        token: Token::from(token),
        left: Some(TTL),
        longest: Some(TTL),
    };
    Event::Outcome(RequestId(1), Outcome::Read(Ok(reading)))
}

#[test]
fn each_word_of_an_acquisition_says_what_is_asked_of_the_nodes() {
    let call = |words: &[&str]| match asked(&mut agent(), words) {
        Call::Acquire(call) => call,
        other => panic!("{other:?}"),
    };
    let plain = call(&["lock.acquire", "a", "me", "1000"]);
    let AcquireCall {
        wait: Wait::None,
        is_fenced: false,
        is_shared: false,
        text: None,
        renews: false,
        ..
    } = plain
    else {
        panic!("{plain:?}")
    };
    assert_eq!(plain.own_token.as_deref(), Some(&b"me"[..]));
    // The nodes keep it for longer than the caller counts, and it is granted while that is left.
    assert!(plain.ttl > TTL && plain.min_validity == TTL, "{plain:?}");
    let text = ["OWNER", "nightly job", "wait", "250"];
    let fenced = call(&[&["LOCK.ACQUIRE", "a", "me", "1000", "FENCE"][..], &text].concat());
    assert!(fenced.is_fenced && !fenced.is_shared);
    assert_eq!(fenced.text, Some(Arc::from("nightly job")));
    assert_eq!(fenced.wait, Wait::For(Duration::from_millis(250)));
    let shared = call(&["LOCK.ACQUIRE", "a", "me", "1000", "wait", "0", "Shared"]);
    assert!(shared.is_shared && !shared.is_fenced && shared.wait == Wait::None);
}

#[test]
fn words_that_cannot_work_are_refused_before_any_node_is_asked() {
    let acquire = ["LOCK.ACQUIRE", "a", "me", "1000"];
    let (long, owner) = ("x".repeat(1_000), "x".repeat(257));
    for (options, code) in [
        (&["GUESS", "4"][..], "NOTALOCK"),
        (&["guess"], "ERR"),
        (&["SHARED", "SHARED"], "ERR"),
        (&["SHARED", "FENCE"], "ERR"),
        (&["FENCE", "FENCE"], "ERR"),
        (&["WAIT"], "ERR"),
        (&["WAIT", "-1"], "ERR"),
        (&["WAIT", "soon"], "ERR"),
        (&["WAIT", "1", "WAIT", "1"], "ERR"),
        (&["WAIT", "40000000000"], "NOTALOCK"),
        (&["OWNER"], "ERR"),
        (&["OWNER", ""], "ERR"),
        (&["OWNER", "a\nb"], "ERR"),
        (&["OWNER", &owner], "ERR"),
        (&["OWNER", "a", "OWNER", "a"], "ERR"),
        (&["XX"], "ERR"),
    ] {
        let words = [&acquire[..], options].concat();
        assert_code(&words, code);
    }
    for (words, code) in [
        (&["LOCK.ACQUIRE", "a", "me", "0"][..], "ERR"),
        (&["LOCK.ACQUIRE", "a", "me", "-5"], "ERR"),
        (&["LOCK.ACQUIRE", "a", "me", "1.5"], "ERR"),
        (&["LOCK.ACQUIRE", "a", "me", "40000000000"], "NOTALOCK"),
        (&["LOCK.ACQUIRE", "a", "", "1000"], "ERR"),
        (&["LOCK.ACQUIRE", "a", &long, "1000"], "ERR"),
        // It could not be known from that of an attempt.
        (&["LOCK.ACQUIRE", "a", WHOLE, "1000"], "NOTALOCK"),
        (&["LOCK.ACQUIRE", "", "me", "1000"], "NOTALOCK"),
        (&["LOCK.EXTEND", "a", "me", "0"], "ERR"),
        (&["LOCK.EXTEND", "", "me", "1"], "NOTALOCK"),
        (&["LOCK.FENCE", "a", "me", "1"], "NOTALOCK"),
        (&["LOCK.WAIT", "a", "me"], "NOTALOCK"),
        (&["LOCK.UNWAIT", "a"], "NOTALOCK"),
        (&["LOCK.LIST", "*", "x"], "ERR"),
        (&["LOCK.LIST", "*", "0", "0"], "ERR"),
        (&["LOCK.INFO", ""], "NOTALOCK"),
        (&["LOCK.FORCE-RELEASE", "", "me"], "NOTALOCK"),
        (&["LOCK.CEILING"], "NOTALOCK"),
        (&["LOCK.ADOPT", "7"], "NOTALOCK"),
    ] {
        assert_code(words, code);
    }
}

fn assert_code(words: &[&str], code: &str) {
    let reply = answer(words);
    let Reply::Error(error) = &reply else {
        panic!("{words:?}: {reply:?}")
    };
    let text = String::from_utf8_lossy(error.as_bytes());
    assert!(text.starts_with(&format!("{code} ")), "{words:?}: {text}");
}

#[test]
fn a_lock_is_granted_while_it_is_valid_for_its_ttl_and_not_a_millisecond_later() {
    for (late, fence) in [(Duration::ZERO, Some(7)), (Duration::from_millis(1), None)] {
        let mut agent = agent();
        asked(&mut agent, &["LOCK.ACQUIRE", "a", "me", "1000"]);
        let done = actions(&mut agent, now().after(late), acquired(fence));
        match (&done[..], fence) {
            ([Action::HandOver(_), Action::ReplyBefore(_, reply, expiring)], Some(_)) => {
                let granted = [
                    Reply::Integer(1),
                    Reply::Integer(7),
                    Reply::bulk(WHOLE),
                    Reply::Integer(1_000),
                ];
                assert_eq!(*reply, Reply::Array(granted.to_vec()));
                assert_eq!(expiring.until, now());
                assert!(matches!(expiring.undo, Some(Call::Release { .. })));
            }
            (
                [
                    Action::HandOver(_),
                    Action::Undo(Call::Release { .. }),
                    Action::Reply(_, Reply::Error(error)),
                ],
                None,
            ) => assert_eq!(error.code(), b"NOQUORUM"),
            _ => panic!("{late:?}: {done:?}"),
        }
        assert_eq!(agent.under_way(), 0);
    }
}

#[test]
fn a_request_that_waits_is_known_by_its_words() {
    for (words, waits) in [
        (
            &["lock.acquire", "a", "me", "1000", "shared", "wait", "9"][..],
            true,
        ),
        (&["LOCK.ACQUIRE", "a", "me", "1000", "FENCE"], false),
        (&["LOCK.ACQUIRE", "wait", "wait", "1000"], false),
        (&["SET", "a", "me", "NX", "PX", "wait"], false),
    ] {
        match request(words) {
            Event::Request(_, _, commands) => {
                assert_eq!(waits_for_lock(&commands.all), waits, "{words:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_lock_that_its_client_waits_for_no_more_is_cancelled() {
    let from = |client, words: &[&str]| match request(words) {
        Event::Request(_, _, commands) => {
            let caller = Caller {
                client_id: client,
                ..Caller::default()
            };
            Event::Request(RequestId(client), caller, commands)
        }
        other => other,
    };
    let acquired = |client| match acquired(None) {
        Event::Outcome(_, outcome) => Event::Outcome(RequestId(client), outcome),
        other => other,
    };
    let acquire = ["LOCK.ACQUIRE", "a", "me", "1000", "WAIT", "9000"];
    let mut agent = agent();
    actions(&mut agent, now(), from(4, &acquire));
    assert!(actions(&mut agent, now(), Event::Left(5)).is_empty());
    let left = actions(&mut agent, now(), Event::Left(4));
    assert!(matches!(&left[..], [Action::Cancel(RequestId(4))]));
    assert_eq!(agent.under_way(), 0);
    // What comes of the call now is the client's of the nodes.
    assert!(actions(&mut agent, now(), acquired(4)).is_empty());
    assert!(actions(&mut agent, now(), Event::Left(4)).is_empty());

    // A lock that was granted before is not cancelled, and a release goes on.
    actions(&mut agent, now(), from(6, &acquire));
    actions(&mut agent, now(), acquired(6));
    assert!(actions(&mut agent, now(), Event::Left(6)).is_empty());
    actions(&mut agent, now(), from(7, &["LOCK.RELEASE", "a", WHOLE]));
    assert!(actions(&mut agent, now(), Event::Left(7)).is_empty());
    assert_eq!(agent.under_way(), 1);
}

#[test]
fn an_extension_is_confirmed_while_it_is_valid_for_its_ttl_and_0_says_that_the_token_is_not_the_holders()
 {
    let longer = |valid_until| {
        Ok(Extended {
            valid_until,
            kept_until: None,
        })
    };
    let in_time = longer(now().after(TTL));
    let late = longer(now().after(TTL - Duration::from_millis(1)));
    let lost = |loss| Err(ExtendError::Lost(loss));
    let not_in_time = "NOQUORUM a majority of the nodes answered too late for the new ttl. The lock lasts as long as it did \
                       before, and may last longer. Treat it as lost when that is over";
    for (result, told) in [
        (in_time, Ok(1)),
        (late, Err(not_in_time)),
        (lost(Loss::Late), Err(not_in_time)),
        (lost(Loss::BelowMajority), Ok(0)),
    ] {
        let mut agent = agent();
        match asked(&mut agent, &["LOCK.EXTEND", "a", WHOLE, "1000"]) {
            Call::Extend { token, ttl, .. } => {
                assert!(token == Token::from(WHOLE) && ttl > TTL, "{ttl:?}");
            }
            other => panic!("{other:?}"),
        }
        let done = actions(&mut agent, now(), extended(result)).pop();
        match (done, told) {
            (Some(Action::ReplyBefore(_, Reply::Integer(1), expiring)), Ok(1)) => {
                assert_eq!(expiring.until, now());
            }
            (Some(Action::Reply(_, Reply::Integer(0))), Ok(0)) => {}
            (Some(Action::Reply(_, Reply::Error(error))), Err(text)) => {
                assert_eq!(String::from_utf8_lossy(error.as_bytes()), text);
            }
            (done, told) => panic!("{done:?}, not {told:?}"),
        }
    }
}

#[test]
fn the_callers_own_token_stands_for_that_of_the_attempt_that_holds_the_lock() {
    let mut agent = agent();
    let read = asked(&mut agent, &["LOCK.RELEASE", "a", "me"]);
    assert!(matches!(read, Call::Read { .. }));
    match &actions(&mut agent, now(), held(WHOLE))[..] {
        [Action::Ask(_, Call::Release { token, .. })] => assert_eq!(*token, Token::from(WHOLE)),
        other => panic!("{other:?}"),
    }
    let mut agent = super::agent();
    for holder in ["you~attempt-0123456789abcdef", "mee", "you"] {
        asked(&mut agent, &["LOCK.EXTEND", "a", "me", "1000"]);
        let done = actions(&mut agent, now(), held(holder)).pop();
        assert!(matches!(done, Some(Action::Reply(_, Reply::Integer(0)))));
    }
}

#[test]
fn what_this_agent_knows_of_a_lock_saves_a_question_and_costs_one_where_it_is_wrong() {
    let mut agent = agent();
    asked(&mut agent, &["LOCK.ACQUIRE", "a", "me", "1000"]);
    actions(&mut agent, now(), acquired(None));
    let call = asked(&mut agent, &["LOCK.EXTEND", "a", "me", "1000"]);
    assert!(matches!(call, Call::Extend { .. }));
    let gone = extended(Err(ExtendError::Lost(Loss::BelowMajority)));
    let again = actions(&mut agent, now(), gone).pop();
    assert!(matches!(again, Some(Action::Ask(_, Call::Read { .. }))));
    let done = actions(&mut agent, now(), held("you")).pop();
    assert!(matches!(done, Some(Action::Reply(_, Reply::Integer(0)))));
}

#[test]
fn a_lock_whose_attempts_change_under_its_own_token_is_an_error_in_the_end() {
    let mut agent = agent();
    let mut at = now();
    let mut todo = actions(&mut agent, at, request(&["LOCK.EXTEND", "a", "me", "1000"]));
    for reads in 1.. {
        assert!(reads < 20, "it gives up");
        assert!(matches!(
            todo.pop(),
            Some(Action::Ask(_, Call::Read { .. }))
        ));
        actions(&mut agent, at, held(WHOLE));
        let lost = extended(Err(ExtendError::Lost(Loss::BelowMajority)));
        todo = actions(&mut agent, at, lost);
        match todo.last() {
            Some(Action::Reply(_, Reply::Error(error))) => {
                assert_eq!(error.code(), b"TRYAGAIN");
                return;
            }
            Some(_) => continue,
            None => {}
        }
        at = at.after(at.until(agent.next_time().expect("it goes on by itself")));
        todo = actions(&mut agent, at, Event::Timer);
    }
}

fn looked(reading: Reading, owner: Option<&str>, fence: Option<u64>) -> Event {
    let looked = Looked {
        reading,
        owner: owner.map(Arc::from),
        fence,
    };
    Event::Outcome(RequestId(1), Outcome::Looked(Ok(looked)))
}

#[test]
fn a_look_tells_what_is_known_and_nothing_while_votes_are_split() {
    let held = |left| Reading::Held {
        token: Token::from(WHOLE),
        left,
        longest: left,
    };
    let facts = |left, owner, fence| {
        let pairs = [
            ("type", Reply::bulk("string")),
            ("token", Reply::bulk(WHOLE)),
            ("ttl-ms", Reply::Integer(left)),
            ("owner", owner),
            ("fence", fence),
        ];
        Reply::Map(pairs.map(|(name, fact)| (Reply::bulk(name), fact)).into())
    };
    let lasts = node_ttl(TTL, Drift::default());
    let full = facts(1_000, Reply::bulk("rack 4"), Reply::Integer(7));
    for (answer, told) in [
        (looked(held(Some(lasts)), Some("rack 4"), Some(7)), full),
        (
            looked(held(None), None, None),
            facts(-1, Reply::Nil, Reply::Nil),
        ),
        (looked(Reading::Free, None, None), Reply::NilArray),
    ] {
        let mut agent = agent();
        let look = asked(&mut agent, &["LOCK.INFO", "a"]);
        assert!(matches!(look, Call::Look { .. }));
        match actions(&mut agent, now(), answer).pop() {
            Some(Action::Reply(_, reply)) => assert_eq!(reply, told),
            other => panic!("{other:?}"),
        }
    }
    let split = Reading::Split {
        token: Token::from(WHOLE),
        left: Some(TTL),
    };
    let (mut agent, mut at) = (agent(), now());
    let mut todo = actions(&mut agent, at, request(&["LOCK.INFO", "a"]));
    for _ in 0..8 {
        assert!(matches!(
            todo.pop(),
            Some(Action::Ask(_, Call::Look { .. }))
        ));
        assert!(actions(&mut agent, at, looked(split.clone(), None, None)).is_empty());
        at = at.after(at.until(agent.next_time().expect("it looks again")));
        todo = actions(&mut agent, at, Event::Timer);
    }
    match actions(&mut agent, at, looked(split, None, None)).pop() {
        Some(Action::Reply(_, Reply::Error(error))) => assert_eq!(error.code(), b"TRYAGAIN"),
        other => panic!("{other:?}"),
    }
}
