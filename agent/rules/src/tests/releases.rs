//! Releases while nodes are away, or do not have the lock: what their callers are told.

use std::sync::Arc;

use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::outcome::{Cause, NodeRelease, ReadError, Reading, Release};
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;
use quorlock_engine::Reply;

use super::{TTL, actions, agent, now, request};
use crate::counts::Step;
use crate::{Action, Agent, Event, RequestId};

const WHOLE: &str = "me~attempt-0123456789abcdef";
const AGAIN: &str = "me~attempt-fedcba9876543210";
const OTHER: &str = "you~attempt-0123456789abcdef";
const COMPARE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// What nodes did with a release: freed the lock (f), did not have it (n), had it under another token (o), or did not answer (-).
fn release(nodes: &str) -> Outcome {
    let node = |letter: char| match letter {
        'f' => NodeRelease::Freed,
        'n' | 'o' => NodeRelease::NotHeld,
        _ => NodeRelease::Not(Cause::Silent),
    };
    let nodes = nodes.chars().map(|letter| ("node".into(), node(letter)));
    Outcome::Released(Release::of(nodes.collect()))
}

/// What the same nodes say of the lock afterwards.
fn reading(nodes: &str) -> Outcome {
    let count = |letters: &str| nodes.chars().filter(|it| letters.contains(*it)).count();
    let needed = nodes.len() / 2 + 1;
    Outcome::Read(if count("fn") >= needed {
        Ok(Reading::Free)
    } else if count("o") >= needed {
        Ok(held(OTHER))
    } else if count("fno") >= needed {
        Ok(split(OTHER))
    } else {
        let node = |letter: char| (Arc::from("node"), (letter == '-').then_some(Cause::Silent));
        Err(ReadError {
            needed,
            nodes: nodes.chars().map(node).collect(),
        })
    })
}

fn held(token: &str) -> Reading {
    Reading::Held {
        token: Token::from(token),
        left: Some(TTL),
        longest: Some(TTL),
    }
}

fn split(token: &str) -> Reading {
    Reading::Split {
        token: Token::from(token),
        left: Some(TTL),
    }
}

/// An agent that has taken the lock for its caller.
fn holder() -> Agent {
    let mut agent = agent();
    let take = request(&["SET", "a", "me", "NX", "PX", "1000"]);
    actions(&mut agent, now(), take);
    let acquired = Outcome::Acquired {
        token: Token::from(WHOLE),
        valid_until: now().after(TTL),
        fence: None,
        permit: None,
    };
    actions(&mut agent, now(), Event::Outcome(RequestId(1), acquired));
    agent
}

/// What the caller is told where nodes answer so to each call, and which tokens were released.
fn told(
    agent: &mut Agent,
    words: &[&str],
    mut answer: impl FnMut(&Call) -> Outcome,
) -> (Reply, Vec<Token>) {
    let (mut at, mut tokens) = (now(), Vec::new());
    let mut todo = actions(agent, at, request(words));
    for _ in 0..50 {
        match todo.pop() {
            Some(Action::Reply(_, reply)) => return (reply, tokens),
            Some(Action::Ask(id, call)) => {
                if let Call::Release { token, .. } = &call {
                    tokens.push(token.clone());
                }
                todo = actions(agent, at, Event::Outcome(id, answer(&call)));
            }
            None => {
                at = at.after(at.until(agent.next_time().expect("it goes on by itself")));
                todo = actions(agent, at, Event::Timer);
            }
            // Nothing waits for it.
            Some(_) => {}
        }
    }
    panic!("{words:?} is not answered")
}

fn is_error(reply: &Reply, code: &[u8]) -> bool {
    matches!(reply, Reply::Error(error) if error.code() == code)
}

/// All that so many nodes can answer, whichever of them does.
fn patterns(nodes: usize) -> Vec<String> {
    let letters = "fno-";
    (0..nodes).fold(vec![String::new()], |before, _| {
        let longer = before.iter().flat_map(|nodes| {
            let last = nodes.chars().last();
            let from = last.and_then(|last| letters.find(last)).unwrap_or(0);
            letters[from..]
                .chars()
                .map(move |letter| format!("{nodes}{letter}"))
        });
        longer.collect()
    })
}

#[test]
fn a_release_is_answered_by_what_a_majority_may_have_held_whatever_nodes_answer() {
    let reader = "me~sharing-0123456789abcdef";
    for nodes in [patterns(3), patterns(5)].concat() {
        let count = |letters: &str| nodes.chars().filter(|it| letters.contains(*it)).count();
        let majority = nodes.len() / 2 + 1;
        let is_split = matches!(reading(&nodes), Outcome::Read(Ok(Reading::Split { .. })));
        let may_have_been_held = count("f-") >= majority;
        for words in [
            &["EVAL", COMPARE, "1", "a", "me"][..],
            &["DEL", "a"],
            &["LOCK.RELEASE", "a", "me"],
            &["LOCK.RELEASE", "a", WHOLE],
            &["LOCK.FORCE-RELEASE", "a", reader],
        ] {
            if words[0] == "DEL" && !may_have_been_held {
                // It is one of whatever lock there is.
                continue;
            }
            let (reply, tokens) = told(&mut holder(), words, |call| match call {
                Call::Release { .. } => release(&nodes),
                Call::Read { .. } => reading(&nodes),
                other => panic!("{other:?}"),
            });
            let token = if words.contains(&reader) {
                reader
            } else {
                WHOLE
            };
            assert_eq!(tokens, [Token::from(token)], "{words:?} {nodes}");
            if count("fno") < majority {
                assert!(
                    is_error(&reply, b"NOQUORUM"),
                    "{words:?} {nodes}: {reply:?}"
                );
            } else if may_have_been_held {
                assert_eq!(reply, Reply::Integer(1), "{words:?} {nodes}");
            } else if is_split && words[2] != token {
                // It was lost before, and whether another attempt of the caller's has it is not known while others try.
                assert!(
                    is_error(&reply, b"TRYAGAIN"),
                    "{words:?} {nodes}: {reply:?}"
                );
            } else {
                assert_eq!(reply, Reply::Integer(0), "{words:?} {nodes}");
            }
        }
    }
}

#[test]
fn behind_a_release_that_no_majority_has_freed_the_callers_other_attempt_is_released_and_no_others_lock()
 {
    for (words, holder_then, freed) in [
        (
            &["EVAL", COMPARE, "1", "a", "me"][..],
            AGAIN,
            &[WHOLE, AGAIN][..],
        ),
        (&["DEL", "a"], AGAIN, &[WHOLE, AGAIN]),
        (&["LOCK.RELEASE", "a", "me"], AGAIN, &[WHOLE, AGAIN]),
        (&["EVAL", COMPARE, "1", "a", "me"], OTHER, &[WHOLE]),
        (&["DEL", "a"], OTHER, &[WHOLE]),
        (&["LOCK.RELEASE", "a", "me"], OTHER, &[WHOLE]),
        // That is one attempt, whatever holds the lock now.
        (&["LOCK.RELEASE", "a", WHOLE], AGAIN, &[WHOLE]),
    ] {
        for then in [held(holder_then), split(holder_then)] {
            let mut first = true;
            let (reply, tokens) = told(&mut holder(), words, |call| match call {
                Call::Release { .. } if std::mem::take(&mut first) => release("fnn--"),
                Call::Release { .. } => release("fffn-"),
                _ => Outcome::Read(Ok(then.clone())),
            });
            assert_eq!(reply, Reply::Integer(1), "{words:?} {then:?}");
            let freed: Vec<Token> = freed.iter().map(|token| Token::from(*token)).collect();
            assert_eq!(tokens, freed, "{words:?} {then:?}");
        }
    }
    // Too few nodes say whether there is another attempt.
    for words in [&["DEL", "a"][..], &["LOCK.RELEASE", "a", "me"]] {
        let (reply, _) = told(&mut holder(), words, |call| match call {
            Call::Release { .. } => release("fnn--"),
            _ => reading("nn---"),
        });
        assert!(is_error(&reply, b"NOQUORUM"), "{reply:?}");
    }
}

#[test]
fn what_some_nodes_hold_is_released_where_two_of_five_are_away() {
    for words in [
        &["EVAL", COMPARE, "1", "a", "me"][..],
        &["DEL", "a"],
        &["LOCK.RELEASE", "a", "me"],
    ] {
        for nodes in ["ffn--", "fnn--"] {
            let mut is_free = false;
            let (reply, tokens) = told(&mut agent(), words, |call| match call {
                Call::Release { .. } => {
                    is_free = true;
                    release(nodes)
                }
                _ if is_free => reading(nodes),
                _ => Outcome::Read(Ok(split(WHOLE))),
            });
            assert_eq!(reply, Reply::Integer(1), "{words:?} {nodes}");
            assert_eq!(tokens, [Token::from(WHOLE)]);
        }
    }
}

#[test]
fn several_locks_are_released_together_where_a_node_lacks_them_and_two_are_away() {
    let all = "local count = 0 for i, key in ipairs(KEYS) do if redis.call('get', key) == ARGV[1] then \
               redis.call('del', key) count = count + 1 end end return count";
    let mut is_free = false;
    let words = ["EVAL", all, "2", "a", "b", "me"];
    let (reply, tokens) = told(&mut agent(), &words, |call| match call {
        Call::Release { .. } => {
            is_free = true;
            release("ffn--")
        }
        _ if is_free => reading("ffn--"),
        _ => Outcome::Read(Ok(held(WHOLE))),
    });
    assert_eq!(
        (reply, tokens),
        (Reply::Integer(2), vec![Token::from(WHOLE)])
    );
}

#[test]
fn a_release_that_meets_the_end_of_its_lock_says_that_it_is_held_no_more_once_a_majority_does() {
    let before = now().after(TTL - TTL / 1_000);
    let end = now().after(TTL);
    let then = |words: &[&str], nodes: &str, at: ClientInstant| {
        let mut agent = holder();
        let asked = actions(&mut agent, before, request(words));
        assert!(matches!(&asked[..], [Action::Ask(_, Call::Release { .. })]));
        let mut done = actions(&mut agent, at, Event::Outcome(RequestId(1), release(nodes)));
        if let Some(Action::Ask(id, Call::Read { .. })) = done.last() {
            let free = Event::Outcome(*id, Outcome::Read(Ok(Reading::Free)));
            done = actions(&mut agent, at, free);
        }
        match done.pop() {
            Some(Action::Reply(_, reply)) => reply,
            other => panic!("{words:?} {nodes}: {other:?}"),
        }
    };
    for words in [
        &["DEL", "a"][..],
        &["EVAL", COMPARE, "1", "a", "me"],
        &["LOCK.RELEASE", "a", "me"],
        &["LOCK.RELEASE", "a", WHOLE],
    ] {
        assert_eq!(then(words, "ffnn-", end), Reply::Integer(0));
        assert_eq!(then(words, "fnn--", end), Reply::Integer(0));
        // It may have been held until now, by the node that is away as well.
        assert_eq!(then(words, "ffnn-", before), Reply::Integer(1));
        // A majority may have it still.
        assert!(is_error(&then(words, "ff---", end), b"NOQUORUM"));
    }
}

#[test]
fn a_release_that_may_have_ended_a_majority_counts_as_one() {
    for (nodes, step) in [
        ("fff--", Some(Step::Released)),
        ("ffn--", Some(Step::Released)),
        ("fnnn-", None),
        ("ff---", None),
    ] {
        assert_eq!(Step::of(&release(nodes)), step, "{nodes}");
    }
}
