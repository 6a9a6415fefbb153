//! What an agent answers that needs no nodes, or hears from them what no cluster says at will.

mod lock_commands;
mod releases;
mod script_rights;

use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::{Call, Extended, Outcome};
use quorlock_client_rules::outcome::Reading;
use quorlock_client_rules::settings::Drift;
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;
use quorlock_engine::{Caller, Reply};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::{Action, Agent, Commands, Event, RequestId};

fn agent() -> Agent {
    Agent::new(Drift::default(), Box::new(StdRng::seed_from_u64(1)))
}

fn request(words: &[&str]) -> Event {
    let bytes = |word: &&str| Bytes::copy_from_slice(word.as_bytes());
    let commands = Commands {
        all: vec![words.iter().map(bytes).collect()],
        is_transaction: false,
        ..Commands::default()
    };
    Event::Request(RequestId(1), Caller::default(), commands)
}

fn now() -> ClientInstant {
    ClientInstant::from_nanos(7_000_000_000, 3_000_000_000)
}

/// What an agent does at once.
fn actions(agent: &mut Agent, at: ClientInstant, event: Event) -> Vec<Action> {
    let mut actions = Vec::new();
    agent.handle(at, 0, event, &mut actions);
    actions
}

fn answer(words: &[&str]) -> Reply {
    match actions(&mut agent(), now(), request(words)).pop() {
        Some(Action::Reply(_, reply)) => reply,
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn what_is_no_lock_is_refused_by_name_before_any_node_is_asked() {
    for words in [
        &["FLUSHALL"][..],
        &["FLUSHDB"],
        &["DBSIZE"],
        &["KEYS", "*"],
        &["SCAN", "0"],
        &["EVAL", "return redis.call('get', 'a')", "0"],
        &["BLPOP", "a", "5"],
        &["LLEN", "a"],
        &["HGETALL", "a"],
        &["SMEMBERS", "a"],
        &["ZCARD", "a"],
        &["SET", "", "t", "NX", "PX", "1000"],
    ] {
        let reply = answer(words);
        let Reply::Error(error) = &reply else {
            panic!("{words:?}: {reply:?}")
        };
        let text = String::from_utf8_lossy(error.as_bytes());
        assert!(text.starts_with("NOTALOCK "), "{words:?}: {text}");
        assert!(text.ends_with(". Nothing was changed"), "{text}");
    }
}

#[test]
fn scripts_without_keys_need_no_node_and_end() {
    assert_eq!(answer(&["EVAL", "return 7", "0"]), Reply::Integer(7));
    let Reply::Error(error) = answer(&["EVAL", "while true do end", "0"]) else {
        panic!("it never ends")
    };
    assert!(error.as_bytes().starts_with(b"ERR "), "{error:?}");
}

#[test]
fn scripts_are_loaded_and_found_without_nodes() {
    let mut agent = agent();
    let load = request(&["SCRIPT", "LOAD", "return 1"]);
    let Some(Action::Reply(_, Reply::Bulk(hash))) = actions(&mut agent, now(), load).pop() else {
        panic!("it is a hash")
    };
    let hash = String::from_utf8(hash).unwrap();
    let exists = request(&["SCRIPT", "EXISTS", &hash]);
    let found = actions(&mut agent, now(), exists).pop();
    let one = Reply::Array(vec![Reply::Integer(1)]);
    assert!(matches!(found, Some(Action::Reply(_, reply)) if reply == one));
    // A script that is not known is told as a node tells it, so that libraries send its text.
    let unknown = request(&["EVALSHA", &"f".repeat(40), "1", "a"]);
    match &actions(&mut agent, now(), unknown)[..] {
        [Action::Reply(_, Reply::Error(error))] => {
            assert!(error.as_bytes().starts_with(b"NOSCRIPT "));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn votes_that_stay_split_are_an_error_after_a_few_rounds_with_pauses_between() {
    let mut agent = agent();
    let mut at = now();
    let mut todo = actions(&mut agent, at, request(&["GET", "a"]));
    for reads in 1.. {
        assert!(reads <= 10, "it asks without end");
        match &todo[..] {
            [Action::Ask(id, Call::Read { .. })] => {
                let split = Reading::Split {
                    token: Token::from("you"),
                    left: None,
                };
                let told = Event::Outcome(*id, Outcome::Read(Ok(split)));
                todo = actions(&mut agent, at, told);
            }
            other => panic!("{other:?}"),
        }
        if let [Action::Reply(_, Reply::Error(error))] = &todo[..] {
            assert!(error.as_bytes().starts_with(b"TRYAGAIN "));
            assert!(reads > 2 && at != now(), "it gives up at once");
            assert_eq!((agent.under_way(), agent.next_time()), (0, None));
            return;
        }
        assert!(todo.is_empty(), "{todo:?}");
        at = at.after(at.until(agent.next_time().expect("it goes on by itself")));
        todo = actions(&mut agent, at, Event::Timer);
    }
}

#[test]
fn a_token_that_leaves_no_room_for_its_attempt_is_refused() {
    let long = "x".repeat(1_000);
    let reply = answer(&["SET", "a", &long, "NX", "PX", "1000"]);
    let Reply::Error(error) = reply else {
        panic!("it is too long")
    };
    let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
    assert!(
        text.starts_with("NOTALOCK the lock's value has 1000 bytes"),
        "{text}"
    );
}

const TTL: Duration = Duration::from_secs(1);

#[test]
fn an_ok_leaves_while_the_lock_is_valid_for_its_ttl_and_not_a_millisecond_later() {
    for (late, is_ok) in [(Duration::ZERO, true), (Duration::from_millis(1), false)] {
        let mut agent = agent();
        let take = request(&["SET", "a", "me", "NX", "PX", "1000"]);
        let asked = actions(&mut agent, now(), take);
        assert!(matches!(&asked[..], [Action::Ask(_, Call::Acquire(_))]));
        let acquired = Outcome::Acquired {
            token: Token::from("me~attempt-0123456789abcdef"),
            valid_until: now().after(TTL),
            fence: None,
            permit: None,
        };
        // The process was stopped between the votes and the reply.
        let told = Event::Outcome(RequestId(1), acquired);
        let done = actions(&mut agent, now().after(late), told);
        match (&done[..], is_ok) {
            (
                [
                    Action::HandOver(_),
                    Action::ReplyBefore(_, Reply::Ok, expiring),
                ],
                true,
            ) => {
                // Nor does it leave later than that.
                assert_eq!(expiring.until, now());
                assert!(matches!(expiring.undo, Some(Call::Release { .. })));
            }
            (
                [
                    Action::HandOver(_),
                    Action::Undo(Call::Release { token, .. }),
                    Action::Reply(_, Reply::Error(error)),
                ],
                false,
            ) => {
                assert_eq!(token.without_attempt(), b"me");
                assert!(error.as_bytes().starts_with(b"NOQUORUM "));
            }
            _ => panic!("{late:?}: {done:?}"),
        }
    }
}

#[test]
fn an_extension_is_confirmed_while_it_is_valid_for_its_ttl() {
    for (late, is_ok) in [(Duration::ZERO, true), (Duration::from_millis(1), false)] {
        let mut agent = agent();
        actions(&mut agent, now(), request(&["PEXPIRE", "a", "1000"]));
        let held = Reading::Held {
            token: Token::from("me~attempt-0123456789abcdef"),
            left: Some(TTL / 2),
            longest: Some(TTL / 2),
        };
        let read = Event::Outcome(RequestId(1), Outcome::Read(Ok(held)));
        let asked = actions(&mut agent, now(), read);
        assert!(matches!(&asked[..], [Action::Ask(_, Call::SetEnd { ttl, .. })] if *ttl > TTL));
        let extended = Outcome::Extended(Ok(Extended {
            valid_until: now().after(TTL),
            kept_until: None,
        }));
        let told = Event::Outcome(RequestId(1), extended);
        let done = actions(&mut agent, now().after(late), told);
        match (&done[..], is_ok) {
            ([Action::ReplyBefore(_, Reply::Integer(1), expiring)], true) => {
                assert_eq!(expiring.until, now());
            }
            ([Action::Reply(_, Reply::Error(error))], false) => {
                assert!(error.as_bytes().starts_with(b"NOQUORUM "));
            }
            _ => panic!("{late:?}: {done:?}"),
        }
    }
}

#[test]
fn scripts_draw_random_numbers_and_say_what_is_wrong_with_their_keys() {
    let mut agent = agent();
    let mut drawn = std::collections::BTreeSet::new();
    for _ in 0..8 {
        let draw = request(&["EVAL", "return math.random(1, 2^31)", "1", "a"]);
        actions(&mut agent, now(), draw);
        let free = Event::Outcome(RequestId(1), Outcome::Read(Ok(Reading::Free)));
        match actions(&mut agent, now(), free).pop() {
            Some(Action::Reply(_, Reply::Integer(number))) => drawn.insert(number),
            other => panic!("{other:?}"),
        };
    }
    assert!(drawn.len() > 6, "{drawn:?}");
    for count in ["abc", "-1", "5"] {
        let Reply::Error(error) = answer(&["EVAL", "return 1", count, "k"]) else {
            panic!("{count} is no number of keys")
        };
        assert!(error.as_bytes().starts_with(b"ERR "), "{error:?}");
    }
}

#[test]
fn an_extension_that_adds_to_the_time_left_adds_to_the_longest_that_a_node_keeps() {
    let mut agent = agent();
    let add = "return redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[1])";
    actions(&mut agent, now(), request(&["EVAL", add, "1", "a", "1000"]));
    // One node was away when the lock was extended before.
    let held = Reading::Held {
        token: Token::from("me~attempt-0123456789abcdef"),
        left: Some(TTL),
        longest: Some(TTL * 8),
    };
    let read = Event::Outcome(RequestId(1), Outcome::Read(Ok(held)));
    match &actions(&mut agent, now(), read)[..] {
        [Action::Ask(_, Call::SetEnd { ttl, .. })] => assert!(*ttl > TTL * 8, "{ttl:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_extension_renames_the_attempt_of_another_agent_and_no_token_that_its_holder_knows_in_full() {
    for (stored, is_renamed) in [("me~attempt-0123456789abcdef", true), ("me", false)] {
        let mut agent = agent();
        actions(&mut agent, now(), request(&["PEXPIRE", "a", "1000"]));
        let held = Reading::Held {
            token: Token::from(stored),
            left: Some(TTL),
            longest: Some(TTL),
        };
        let read = Event::Outcome(RequestId(1), Outcome::Read(Ok(held)));
        match &actions(&mut agent, now(), read)[..] {
            [Action::Ask(_, Call::SetEnd { new_token, .. })] => {
                let own = new_token.as_ref().map(Token::without_attempt);
                assert_eq!(own, is_renamed.then_some(&b"me"[..]), "{stored}");
                assert_ne!(*new_token, Some(Token::from(stored)));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_release_is_owed_for_the_time_that_an_extension_in_vain_may_have_given() {
    let mut agent = agent();
    let take = request(&["SET", "a", "me", "NX", "PX", "1000"]);
    actions(&mut agent, now(), take);
    let token = Token::from("me~attempt-0123456789abcdef");
    let acquired = Outcome::Acquired {
        token: token.clone(),
        valid_until: now().after(TTL),
        fence: None,
        permit: None,
    };
    actions(&mut agent, now(), Event::Outcome(RequestId(1), acquired));
    actions(&mut agent, now(), request(&["PEXPIRE", "a", "8000"]));
    let held = Reading::Held {
        token,
        left: Some(TTL),
        longest: Some(TTL),
    };
    let read = Event::Outcome(RequestId(1), Outcome::Read(Ok(held)));
    let asked = actions(&mut agent, now(), read);
    assert!(matches!(&asked[..], [Action::Ask(_, Call::SetEnd { .. })]));
    // A majority has confirmed it, and too late for its caller.
    let extended = Outcome::Extended(Ok(Extended {
        valid_until: now().after(TTL * 7),
        kept_until: None,
    }));
    let done = actions(&mut agent, now(), Event::Outcome(RequestId(1), extended));
    assert!(matches!(
        &done[..],
        [Action::Reply(_, Reply::Error(error))] if error.code() == b"NOQUORUM"
    ));
    match &actions(&mut agent, now(), request(&["DEL", "a"]))[..] {
        [Action::Ask(_, Call::Release { lasts, .. })] => {
            assert!(*lasts > Some(TTL * 7), "{lasts:?}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_release_is_owed_for_the_time_that_lock_extend_has_given() {
    let mut agent = agent();
    let take = request(&["SET", "a", "me", "NX", "PX", "1000"]);
    actions(&mut agent, now(), take);
    let acquired = Outcome::Acquired {
        token: Token::from("me~attempt-0123456789abcdef"),
        valid_until: now().after(TTL),
        fence: None,
        permit: None,
    };
    actions(&mut agent, now(), Event::Outcome(RequestId(1), acquired));
    let extend = request(&["LOCK.EXTEND", "a", "me", "8000"]);
    let asked = actions(&mut agent, now(), extend);
    assert!(matches!(&asked[..], [Action::Ask(_, Call::Extend { .. })]));
    let extended = Outcome::Extended(Ok(Extended {
        valid_until: now().after(TTL * 8),
        kept_until: None,
    }));
    actions(&mut agent, now(), Event::Outcome(RequestId(1), extended));
    match &actions(&mut agent, now(), request(&["DEL", "a"]))[..] {
        [Action::Ask(_, Call::Release { lasts, .. })] => {
            assert!(*lasts > Some(TTL * 7), "{lasts:?}")
        }
        other => panic!("{other:?}"),
    }
}
