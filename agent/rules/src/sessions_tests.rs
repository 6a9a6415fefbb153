//! Locks that end with their connections.

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

use crate::sessions::LOCKS_MAX;
use crate::{Action, Agent, Commands, Event, RequestId};

struct Trial {
    agent: Agent,
    requests: u64,
    now: ClientInstant,
}

impl Trial {
    fn new(has_sessions: bool) -> Self {
        let random = Box::new(StdRng::seed_from_u64(1));
        let agent = Agent::new(Drift::default(), random);
        Self {
            agent: match has_sessions {
                true => agent.with_sessions(),
                false => agent,
            },
            requests: 0,
            now: ClientInstant::from_nanos(7_000_000_000, 3_000_000_000),
        }
    }

    fn happens(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.agent.handle(self.now, 0, event, &mut actions);
        actions
    }

    fn send(&mut self, client: u64, words: &[&str]) -> Vec<Action> {
        self.requests += 1;
        let bytes = |word: &&str| Bytes::copy_from_slice(word.as_bytes());
        let commands = Commands {
            all: vec![words.iter().map(bytes).collect()],
            is_transaction: false,
            ..Commands::default()
        };
        let caller = Caller {
            client_id: client,
            ..Caller::default()
        };
        self.happens(Event::Request(RequestId(self.requests), caller, commands))
    }

    /// What a client is told at once.
    fn told(&mut self, client: u64, words: &[&str]) -> Reply {
        match self.send(client, words).pop() {
            Some(Action::Reply(_, reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// A client takes a lock.
    fn take(&mut self, client: u64, name: &str) {
        self.send(client, &["SET", name, "me", "NX", "PX", "1000"]);
        self.granted();
    }

    /// A client takes a lock beside others who read.
    fn read(&mut self, client: u64, name: &str) {
        self.send(client, &["LOCK.ACQUIRE", name, "me", "1000", "SHARED"]);
        self.granted_as("sharing");
    }

    /// The nodes have granted what was asked for last.
    fn granted(&mut self) -> Vec<Action> {
        self.granted_as("attempt")
    }

    fn granted_as(&mut self, mark: &str) -> Vec<Action> {
        let acquired = Outcome::Acquired {
            token: Token::from(format!("me~{mark}-{:016x}", self.requests)),
            valid_until: self.now.after(Duration::from_secs(2)),
            fence: None,
            permit: None,
        };
        self.outcome(acquired)
    }

    /// What was asked of the nodes last has come to this.
    fn outcome(&mut self, outcome: Outcome) -> Vec<Action> {
        self.happens(Event::Outcome(RequestId(self.requests), outcome))
    }

    /// Client 7 extends a lock that the nodes hold under this token. Returns the token of the new attempt.
    fn extends(&mut self, name: &str, token: &str) -> Token {
        // The agent does not count on what it knows of the lock any more.
        self.now = self.now.after(Duration::from_secs(3));
        self.send(7, &["PEXPIRE", name, "1000"]);
        let held = Reading::Held {
            token: Token::from(token),
            left: Some(Duration::from_secs(1)),
            longest: None,
        };
        let asked = self.outcome(Outcome::Read(Ok(held)));
        let [Action::Ask(_, Call::SetEnd { new_token, .. })] = &asked[..] else {
            panic!("{asked:?}");
        };
        new_token.clone().expect("another attempt extends it")
    }

    fn released(&mut self, client: u64) -> Vec<String> {
        let actions = self.happens(Event::Left(client)).into_iter();
        let mut released: Vec<_> = actions
            .map(|action| match action {
                Action::Undo(Call::Release { name, token, .. }) => {
                    assert_eq!(token.without_attempt(), b"me");
                    String::from_utf8_lossy(name.single().unwrap()).into_owned()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        released.sort();
        released
    }
}

#[test]
fn the_locks_of_a_connection_end_with_it_and_no_others() {
    let mut trial = Trial::new(true);
    for (client, name) in [(7, "a"), (7, "b"), (8, "c")] {
        trial.take(client, name);
    }
    assert_eq!(trial.released(7), ["a", "b"]);
    assert_eq!(trial.released(7), [""; 0]);
    assert_eq!(trial.released(8), ["c"]);
}

#[test]
fn a_lock_that_is_granted_when_its_connection_has_ended_is_not_kept() {
    let mut trial = Trial::new(true);
    trial.send(7, &["SET", "a", "me", "NX", "PX", "1000"]);
    // The client of the nodes releases what its call has taken or takes.
    let done = trial.happens(Event::Left(7));
    assert!(matches!(&done[..], [Action::Cancel(_)]), "{done:?}");
    assert!(trial.granted().is_empty());
}

#[test]
fn locks_outlive_their_connections_where_nobody_has_asked_for_sessions() {
    let mut trial = Trial::new(false);
    trial.take(7, "a");
    assert_eq!(trial.released(7), [""; 0]);
    trial.send(7, &["SET", "b", "me", "NX", "PX", "1000"]);
    assert!(trial.happens(Event::Left(7)).is_empty());
    assert_eq!(trial.granted().len(), 2);
}

#[test]
fn a_connection_chooses_that_its_locks_end_with_it_and_others_keep_theirs() {
    let mut trial = Trial::new(false);
    trial.take(7, "before");
    assert_eq!(trial.told(7, &["LOCK.SESSION", "ON"]), Reply::Ok);
    for (client, name) in [(7, "a"), (7, "b"), (8, "c")] {
        trial.take(client, name);
    }
    assert_eq!(trial.released(7), ["a", "b"]);
    assert_eq!(trial.released(8), [""; 0]);
}

#[test]
fn what_was_taken_in_a_session_that_the_connection_has_left_is_kept() {
    for is_default in [false, true] {
        let mut trial = Trial::new(is_default);
        assert_eq!(trial.told(7, &["lock.session", "on"]), Reply::Ok);
        trial.take(7, "a");
        assert_eq!(trial.told(7, &["lock.session", "off"]), Reply::Ok);
        trial.take(7, "b");
        assert_eq!(trial.released(7), [""; 0]);
    }
}

#[test]
fn the_locks_of_a_named_session_end_with_the_last_of_its_connections() {
    let mut trial = Trial::new(false);
    for client in [7, 8, 8] {
        assert_eq!(
            trial.told(client, &["LOCK.SESSION", "ON", "jobs"]),
            Reply::Ok
        );
    }
    assert_eq!(trial.told(9, &["LOCK.SESSION", "ON", "others"]), Reply::Ok);
    for (client, name) in [(7, "a"), (8, "b"), (9, "c")] {
        trial.take(client, name);
    }
    assert_eq!(trial.released(7), [""; 0]);
    // One that joins again finds the locks of those before it.
    assert_eq!(trial.told(10, &["LOCK.SESSION", "ON", "jobs"]), Reply::Ok);
    assert_eq!(trial.released(8), [""; 0]);
    assert_eq!(trial.released(10), ["a", "b"]);
    assert_eq!(trial.told(11, &["LOCK.SESSION", "ON", "jobs"]), Reply::Ok);
    assert_eq!(trial.released(11), [""; 0]);
    assert_eq!(trial.released(9), ["c"]);
}

#[test]
fn a_named_session_is_left_before_another_is_joined_and_leaving_releases_nothing() {
    let mut trial = Trial::new(false);
    assert_eq!(trial.told(7, &["LOCK.SESSION", "ON", "jobs"]), Reply::Ok);
    trial.take(7, "a");
    for other in [&["LOCK.SESSION", "ON", "x"][..], &["LOCK.SESSION", "ON"]] {
        assert!(trial.told(7, other).is_error());
    }
    assert_eq!(trial.told(7, &["LOCK.SESSION", "OFF"]), Reply::Ok);
    assert_eq!(trial.released(7), [""; 0]);
}

#[test]
fn a_choice_that_is_none_is_refused() {
    let mut trial = Trial::new(false);
    let long = "x".repeat(257);
    for words in [
        &["LOCK.SESSION", "maybe"][..],
        &["LOCK.SESSION", "OFF", "jobs"],
        &["LOCK.SESSION", "ON", "jobs", "more"],
        &["LOCK.SESSION", "ON", ""],
        &["LOCK.SESSION", "ON", &long],
    ] {
        assert!(trial.told(7, words).is_error(), "{words:?}");
    }
    trial.take(7, "a");
    assert_eq!(trial.released(7), [""; 0]);
}

#[test]
fn all_readers_of_one_name_end_with_their_session() {
    let mut trial = Trial::new(true);
    for _ in 0..3 {
        trial.read(7, "a");
    }
    trial.read(8, "a");
    trial.take(7, "b");
    assert_eq!(trial.released(7), ["a", "a", "a", "b"]);
    assert_eq!(trial.released(8), ["a"]);
}

#[test]
fn a_lock_more_than_a_session_can_know_is_given_back() {
    let mut trial = Trial::new(true);
    for number in 0..LOCKS_MAX {
        trial.take(7, &number.to_string());
    }
    trial.send(7, &["SET", "more", "me", "NX", "PX", "1000"]);
    let done = trial.granted();
    let refused = |action: &Action| matches!(action, Action::Reply(_, Reply::Error(_)));
    let given_back = |action: &Action| matches!(action, Action::Undo(Call::Release { name, .. }) if name.single().unwrap() == "more");
    assert!(
        done.iter().any(refused) && done.iter().any(given_back),
        "{done:?}"
    );
    assert_eq!(trial.released(7).len(), LOCKS_MAX);
}

#[test]
fn the_attempt_that_a_session_has_extended_last_is_released() {
    let mut trial = Trial::new(true);
    trial.take(7, "a");
    let new_token = trial.extends("a", ATTEMPT);
    let valid_until = trial.now.after(Duration::from_secs(2));
    trial.outcome(Outcome::Extended(Ok(Extended {
        valid_until,
        kept_until: None,
    })));
    let gone = trial.happens(Event::Left(7));
    let [Action::Undo(Call::Release { token, .. })] = &gone[..] else {
        panic!("{gone:?}");
    };
    assert_eq!(*token, new_token);
}

#[test]
fn a_lock_that_is_being_extended_when_its_session_ends_is_released_under_both_attempts() {
    let mut trial = Trial::new(true);
    trial.take(7, "a");
    let new_token = trial.extends("a", FIRST);
    let gone = trial.happens(Event::Left(7));
    let [Action::Cancel(_), releases @ ..] = &gone[..] else {
        panic!("{gone:?}");
    };
    let mut both = [Token::from(FIRST), new_token];
    both.sort();
    assert_eq!(tokens(releases), both);
}

#[test]
fn a_session_whose_extension_failed_does_not_release_what_another_one_has_taken_since() {
    for words in [
        &["LOCK.EXTEND", "a", "me", "1000"][..],
        &["PEXPIRE", "a", "1000"],
    ] {
        let mut trial = Trial::new(true);
        trial.take(7, "a");
        // It ends, and another connection with the same own token has it.
        trial.now = trial.now.after(Duration::from_secs(3));
        trial.take(8, "a");
        let theirs = Token::from("me~attempt-0000000000000002");
        let mut asked = trial.send(7, words);
        if let [Action::Ask(_, Call::Read { .. })] = &asked[..] {
            let held = Reading::Held {
                token: theirs.clone(),
                left: Some(Duration::from_secs(1)),
                longest: None,
            };
            asked = trial.outcome(Outcome::Read(Ok(held)));
        }
        let [Action::Ask(_, Call::Extend { token, .. } | Call::SetEnd { token, .. })] = &asked[..]
        else {
            panic!("{asked:?}");
        };
        assert_eq!(*token, theirs);
        // A majority has answered too late.
        let late = Extended {
            valid_until: trial.now,
            kept_until: None,
        };
        let refused = trial.outcome(Outcome::Extended(Ok(late)));
        assert!(
            matches!(&refused[..], [Action::Reply(_, Reply::Error(_))]),
            "{refused:?}"
        );
        let gone = trial.happens(Event::Left(7));
        assert_eq!(tokens(&gone), [Token::from(FIRST)], "{words:?}");
        let gone = trial.happens(Event::Left(8));
        assert_eq!(tokens(&gone), [theirs], "{words:?}");
    }
}

/// Under which tokens these release locks.
fn tokens(releases: &[Action]) -> Vec<Token> {
    let token = |action: &Action| match action {
        Action::Undo(Call::Release { token, .. }) => token.clone(),
        other => panic!("{other:?}"),
    };
    let mut tokens: Vec<_> = releases.iter().map(token).collect();
    tokens.sort();
    tokens
}

#[test]
fn a_session_that_has_extended_the_lock_of_another_caller_does_not_release_it() {
    let mut trial = Trial::new(true);
    // It ends, and another caller has it.
    trial.take(7, "a");
    trial.extends("a", "you~attempt-0123456789abcdef");
    let valid_until = trial.now.after(Duration::from_secs(2));
    trial.outcome(Outcome::Extended(Ok(Extended {
        valid_until,
        kept_until: None,
    })));
    assert_eq!(trial.released(7), ["a"]);
}

/// The token of what a trial has granted first.
const FIRST: &str = "me~attempt-0000000000000001";
/// A token of an attempt, as nodes hold it.
const ATTEMPT: &str = "me~attempt-0123456789abcdef";
