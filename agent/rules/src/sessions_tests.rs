//! Locks that end with their connections.

use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::settings::Drift;
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;
use quorlock_engine::Caller;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::{Action, Agent, Commands, Event, RequestId};

struct Trial {
    agent: Agent,
    requests: u64,
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
        }
    }

    fn happens(&mut self, event: Event) -> Vec<Action> {
        let now = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let mut actions = Vec::new();
        self.agent.handle(now, 0, event, &mut actions);
        actions
    }

    fn send(&mut self, client: u64, words: &[&str]) -> Vec<Action> {
        self.requests += 1;
        let bytes = |word: &&str| Bytes::copy_from_slice(word.as_bytes());
        let commands = Commands {
            all: vec![words.iter().map(bytes).collect()],
            is_transaction: false,
        };
        let caller = Caller {
            client_id: client,
            ..Caller::default()
        };
        self.happens(Event::Request(RequestId(self.requests), caller, commands))
    }

    /// A client takes a lock.
    fn take(&mut self, client: u64, name: &str) {
        self.send(client, &["SET", name, "me", "NX", "PX", "1000"]);
        self.granted();
    }

    /// The nodes have granted what was asked for last.
    fn granted(&mut self) -> Vec<Action> {
        let now = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
        let acquired = Outcome::Acquired {
            token: Token::from("me~attempt-0123456789abcdef"),
            valid_until: now.after(Duration::from_secs(2)),
            fence: None,
            permit: None,
        };
        self.happens(Event::Outcome(RequestId(self.requests), acquired))
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
