//! What several models are made of: tokens, nodes that answer, terms, a client's time, and requests to the production engine.

use std::fmt;
use std::time::Duration;

use quorlock_client_rules::acquisition::Terms;
use quorlock_client_rules::clock::ClientInstant;
use quorlock_client_rules::settings::Drift;
use quorlock_client_rules::votes::Identity;
use quorlock_engine::{Caller, Command, Effects, Engine, LogPosition, Moment, NodeTime, Reply};

/// Who holds the lock: a client, and which of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) client: u8,
    pub(crate) attempt: u8,
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.client, self.attempt)
    }
}

/// Who answers: this node, which has started so often.
pub(crate) fn identity(node: u8, starts: u8) -> Identity {
    Identity::new(NODE_NAMES[usize::from(node)].into(), u64::from(starts))
}

/// What an attempt asks of so many nodes where all clocks go alike.
pub(crate) fn terms(nodes: u8, ttl: Duration) -> Terms {
    Terms {
        nodes: usize::from(nodes),
        spare_votes: 0,
        ttl,
        lock_delay: Duration::ZERO,
        drift: Drift {
            rate_ppm: 0,
            constant: Duration::ZERO,
        },
        min_validity: Duration::ZERO,
        reserve: None,
    }
}

/// A client's time once so much has passed.
pub(crate) fn client_time(passed: Duration) -> ClientInstant {
    ClientInstant::from_nanos(1_000_000_000, 1_000_000_000).after(passed)
}

/// Has the engine execute a request at this time: the reply, and what it logs.
pub(crate) fn ask(
    engine: &mut Engine,
    now: NodeTime,
    words: &[impl AsRef<[u8]>],
) -> (Reply, Vec<u8>) {
    let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    let command = Command::parse(&words).expect("the models' requests are well formed");
    let mut effects = Effects::default();
    effects.begin(LogPosition::from_raw(1));
    let now = Moment {
        node: now,
        wall_us: 0,
    };
    let reply = engine.execute(now, &Caller::default(), &command, &mut effects);
    (reply, effects.journal)
}

/// Each mutant, with the scope of this name.
pub(crate) fn catching<M, S: Clone, const N: usize>(
    mutants: [(M, &str); N],
    scopes: &[S],
    name_of: impl Fn(&S) -> &'static str,
) -> Vec<(M, S)> {
    let scope = |name| scopes.iter().find(|scope| name_of(scope) == name).cloned();
    let found = mutants.map(|(mutant, name)| (mutant, scope(name).expect("a scope of this name")));
    found.into()
}

const NODE_NAMES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
