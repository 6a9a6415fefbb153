//! Locks that callers poll: when nodes are asked, and who goes on first.

use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::outcome::Reading;
use quorlock_client_rules::settings::Drift;
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;
use quorlock_engine::{Caller, Reply};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::{Action, Agent, Commands, Event, RequestId};

/// An agent through which "me" has taken the lock "a".
struct Trial {
    agent: Agent,
    now: ClientInstant,
    requests: u64,
    /// Who sends requests.
    client: u64,
}

impl Trial {
    fn new(hold_back: Duration) -> Self {
        let random = Box::new(StdRng::seed_from_u64(1));
        let mut trial = Self {
            agent: Agent::new(Drift::default(), random).holding_back(hold_back),
            now: ClientInstant::from_nanos(7_000_000_000, 3_000_000_000),
            requests: 1,
            client: 1,
        };
        trial.send(&["SET", "a", "me", "NX", "PX", "30000"]);
        let acquired = Outcome::Acquired {
            token: Token::from("me"),
            valid_until: trial.now.after(LEFT * 2),
            fence: None,
            permit: None,
        };
        trial.happens(Event::Outcome(RequestId(trial.requests), acquired));
        trial
    }

    fn happens(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.agent.handle(self.now, 0, event, &mut actions);
        actions
    }

    fn send(&mut self, words: &[&str]) -> Vec<Action> {
        self.requests += 1;
        let bytes = |word: &&str| Bytes::copy_from_slice(word.as_bytes());
        let commands = Commands {
            all: vec![words.iter().map(bytes).collect()],
            is_transaction: false,
            ..Commands::default()
        };
        let id = RequestId(self.requests);
        let caller = Caller {
            client_id: self.client,
            ..Caller::default()
        };
        self.happens(Event::Request(id, caller, commands))
    }

    fn take(&mut self, name: &str) -> Vec<Action> {
        self.send(&["SET", name, "you", "NX", "PX", "1000"])
    }

    /// Tries to take a lock that the nodes have to be asked about, and that "me" has.
    fn held_at_nodes(&mut self, name: &str) -> Vec<Action> {
        let asked = self.take(name);
        let id = RequestId(self.requests);
        assert!(matches!(asked[..], [Action::Ask(_, Call::Read { .. })]));
        self.reads_held(id)
    }

    /// The nodes say that "me" has the lock.
    fn reads_held(&mut self, id: RequestId) -> Vec<Action> {
        let held = Reading::Held {
            token: Token::from("me"),
            left: Some(LEFT),
            longest: Some(LEFT),
        };
        self.happens(Event::Outcome(id, Outcome::Read(Ok(held))))
    }

    /// A try that is held back asks the nodes again at the end of this time, and not before.
    fn looks_after(&mut self, id: RequestId, time: Duration) {
        let before = self.pass(time - Duration::from_millis(1));
        assert!(before.is_empty(), "{time:?} {before:?}");
        let done = self.pass(Duration::from_millis(1));
        assert!(
            matches!(&done[..], [Action::Ask(it, Call::Read { .. })] if *it == id),
            "{time:?} {done:?}"
        );
    }

    /// The same, which is refused.
    fn refused_by_nodes(&mut self, name: &str) -> Vec<Action> {
        let mut done = self.held_at_nodes(name);
        assert!(matches!(done.remove(0), Action::Reply(_, Reply::Nil)));
        done
    }

    fn watched(&mut self, name: &'static str, holder: Option<&str>) -> Vec<Action> {
        self.happens(Event::Watched(name.into(), holder.map(Token::from)))
    }

    fn pass(&mut self, time: Duration) -> Vec<Action> {
        self.now = self.now.after(time);
        self.happens(Event::Timer)
    }

    /// A lock that is watched, and that "me" has.
    fn watching(hold_back: Duration) -> Self {
        let mut trial = Self::new(Duration::ZERO);
        trial.refused_by_nodes("a");
        trial.refused_by_nodes("a");
        trial.watched("a", Some("me"));
        Self {
            agent: trial.agent.holding_back(hold_back),
            ..trial
        }
    }
}

#[test]
fn a_lock_is_watched_once_it_is_refused_twice_in_a_second() {
    let mut trial = Trial::new(Duration::ZERO);
    assert!(trial.refused_by_nodes("a").is_empty());
    trial.pass(POLLED_WITHIN);
    assert!(trial.refused_by_nodes("a").is_empty());
    trial.pass(POLLED_WITHIN - Duration::from_millis(1));
    let done = trial.refused_by_nodes("a");
    assert!(matches!(&done[..], [Action::Watch(name)] if name == "a"));
    // The nodes are asked until the watch says who has it.
    assert!(trial.refused_by_nodes("a").is_empty());
}

#[test]
fn who_tries_to_take_a_watched_lock_is_refused_at_once_until_it_may_be_free() {
    let mut trial = Trial::watching(Duration::ZERO);
    for _ in 0..100 {
        assert!(matches!(
            trial.take("a")[..],
            [Action::Reply(_, Reply::Nil)]
        ));
    }
    trial.watched("a", None);
    trial.refused_by_nodes("a");
    trial.watched("a", Some("you"));
    assert!(matches!(trial.take("a")[..], [Action::Reply(..)]));
}

#[test]
fn all_but_tries_are_asked_of_the_nodes_although_the_lock_is_watched() {
    let mut trial = Trial::watching(LEFT);
    for words in [
        &["GET", "a"][..],
        &["PTTL", "a"],
        &["SET", "a", "me", "XX", "PX", "1000"],
        &["DEL", "a"],
        // Its caller may have the lock, and extends it.
        &[
            "EVAL",
            "local v = redis.call('get', KEYS[1]) if v == 'you' then redis.call('pexpire', KEYS[1], 1000) return 1 end if not v then redis.call('set', KEYS[1], 'you', 'PX', 1000) return 1 end return 0",
            "1",
            "a",
        ],
        // It is told how long the lock lasts.
        &[
            "EVAL",
            "if redis.call('set', KEYS[1], 'you', 'NX', 'PX', 1000) then return 1 end return redis.call('pttl', KEYS[1])",
            "1",
            "a",
        ],
    ] {
        let done = trial.send(words);
        assert!(matches!(done[..], [Action::Ask(..)]), "{words:?} {done:?}");
    }
}

#[test]
fn tries_that_are_held_back_go_on_one_after_the_other_when_the_lock_may_be_free() {
    let mut trial = Trial::watching(HOLD_BACK);
    assert!(trial.take("a").is_empty());
    assert!(trial.take("a").is_empty());
    let first = RequestId(trial.requests - 1);
    trial.watched("a", None);
    // The other nodes free it a moment later than the first.
    let done = trial.pass(Duration::from_millis(1));
    assert!(
        matches!(&done[..], [Action::Ask(id, Call::Read { .. })] if *id == first),
        "{done:?}"
    );
    // The second waits until the first has released it, or its own time is over.
    trial.watched("a", Some("you"));
    let done = trial.pass(HOLD_BACK - Duration::from_millis(1));
    let second = RequestId(trial.requests);
    assert!(
        matches!(&done[..], [Action::Reply(id, Reply::Nil)] if *id == second),
        "{done:?}"
    );
}

#[test]
fn a_try_that_is_held_back_ends_with_its_client_and_is_in_nobodys_way() {
    let mut trial = Trial::watching(HOLD_BACK);
    trial.client = 7;
    assert!(trial.take("a").is_empty());
    let gone = RequestId(trial.requests);
    trial.client = 8;
    assert!(trial.take("a").is_empty());
    // It was to go on in a moment.
    trial.watched("a", None);
    let done = trial.happens(Event::Left(7));
    let next = RequestId(trial.requests);
    assert!(
        matches!(&done[..], [Action::Cancel(left), Action::Ask(id, _)] if *left == gone && *id == next),
        "{done:?}"
    );
}

#[test]
fn a_try_that_nodes_refuse_is_held_back_until_its_lock_may_be_free_or_its_time_is_over() {
    let mut trial = Trial::new(HOLD_BACK);
    let done = trial.held_at_nodes("a");
    assert!(
        matches!(&done[..], [Action::Watch(name)] if name == "a"),
        "{done:?}"
    );
    let first = RequestId(trial.requests);
    // The watch does not know yet who has it.
    trial.watched("a", None);
    assert!(trial.pass(Duration::from_millis(1)).is_empty());
    trial.watched("a", Some("me"));
    trial.watched("a", None);
    let done = trial.pass(Duration::from_millis(1));
    assert!(
        matches!(&done[..], [Action::Ask(id, Call::Read { .. })] if *id == first),
        "{done:?}"
    );
    // The next one learns of nothing, and another one's client goes away.
    assert!(trial.held_at_nodes("a").is_empty());
    let next = RequestId(trial.requests);
    trial.client = 7;
    assert!(trial.held_at_nodes("a").is_empty());
    let done = trial.happens(Event::Left(7));
    assert!(
        matches!(&done[..], [Action::Cancel(id), Action::Ask(woken, _)] if id.0 == next.0 + 1 && *woken == next),
        "{done:?}"
    );
    trial.watched("a", Some("me"));
    assert!(trial.take("a").is_empty());
    let done = trial.pass(HOLD_BACK);
    let last = RequestId(trial.requests);
    assert!(
        matches!(&done[..], [Action::Reply(id, Reply::Nil)] if *id == last),
        "{done:?}"
    );
}

#[test]
fn a_try_that_is_held_back_asks_again_while_no_watch_says_who_has_its_lock() {
    let mut trial = Trial::new(Duration::from_secs(1));
    trial.held_at_nodes("a");
    let id = RequestId(trial.requests);
    // Its holder has released it before the watch began, and another one has it.
    trial.watched("a", None);
    for ms in [10, 20, 40, 80, 100] {
        trial.looks_after(id, Duration::from_millis(ms));
        assert!(trial.reads_held(id).is_empty());
    }
    // From now on the watch says it.
    trial.watched("a", Some("me"));
    assert!(trial.pass(Duration::from_millis(749)).is_empty());
    let done = trial.pass(Duration::from_millis(1));
    assert!(
        matches!(&done[..], [Action::Reply(it, Reply::Nil)] if *it == id),
        "{done:?}"
    );
}

#[test]
fn a_try_that_is_held_back_has_a_lock_that_was_released_before_its_watch_began() {
    let mut trial = Trial::new(Duration::from_secs(1));
    trial.held_at_nodes("a");
    let id = RequestId(trial.requests);
    trial.watched("a", None);
    trial.looks_after(id, Duration::from_millis(10));
    let free = Outcome::Read(Ok(Reading::Free));
    let done = trial.happens(Event::Outcome(id, free));
    assert!(
        matches!(&done[..], [Action::Ask(it, Call::Acquire(_))] if *it == id),
        "{done:?}"
    );
}

#[test]
fn a_try_that_would_ask_again_keeps_its_place_before_those_that_came_later() {
    let mut trial = Trial::new(Duration::from_secs(1));
    trial.held_at_nodes("a");
    let first = RequestId(trial.requests);
    assert!(trial.pass(Duration::from_millis(5)).is_empty());
    trial.watched("a", Some("me"));
    assert!(trial.take("a").is_empty());
    // The watch says by now who has it.
    assert!(trial.pass(Duration::from_millis(5)).is_empty());
    trial.watched("a", None);
    let done = trial.pass(Duration::from_millis(1));
    assert!(
        matches!(&done[..], [Action::Ask(it, Call::Read { .. })] if *it == first),
        "{done:?}"
    );
}

#[test]
fn a_watch_ends_once_nobody_tries_to_take_its_lock_any_more() {
    let mut trial = Trial::watching(Duration::ZERO);
    assert!(trial.pass(WATCHED_FOR / 2).is_empty());
    trial.take("a");
    assert!(trial.pass(WATCHED_FOR / 2).is_empty());
    let done = trial.pass(WATCHED_FOR / 2);
    assert!(matches!(&done[..], [Action::Unwatch(name)] if name == "a"));
    assert_eq!(trial.agent.next_time(), None);
    trial.refused_by_nodes("a");
}

const LEFT: Duration = Duration::from_secs(30);
const HOLD_BACK: Duration = Duration::from_millis(20);
const POLLED_WITHIN: Duration = Duration::from_secs(1);
const WATCHED_FOR: Duration = Duration::from_secs(10);
