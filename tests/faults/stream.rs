//! The writes of one connection, and what of them was acknowledged: the oracle.
//!
//! Invariant: a stream's keys belong to it alone, and a node executes a connection's commands in
//! order. So after a crash the keys must look as after *some* number of the issued writes, and
//! not fewer than were acknowledged.

use std::sync::Arc;
use std::time::Duration;

use quorlock_testkit::{Reply, observed_now};

use crate::op::Op;
use crate::state::{Item, Sight, State, Value};

/// What kinds of writes a stream asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Length of the large values; 0 for none.
    pub(crate) large_bytes: usize,
    /// Only locks with a TTL that the restart delay covers: nothing that waits for a sync.
    pub(crate) only_covered: bool,
}

/// Every kind of write, all small.
pub(crate) const SMALL: Shape = Shape {
    large_bytes: 0,
    only_covered: false,
};

/// The writes of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    prefix: String,
    shape: Shape,
    random: Random,
    serial: u64,
    issued: Vec<Issued>,
    /// How many of `issued` have been answered; later ones may or may not have taken effect.
    answered: usize,
    /// How many of `issued` belong to earlier runs of the node.
    earlier: usize,
    /// The state after what was answered.
    settled: State,
    /// A reply said that the outcome is not known: nothing after it may be acknowledged.
    is_doubtful: bool,
}

#[derive(Clone, Debug)]
struct Issued {
    op: Op,
    sent: Duration,
    done: Option<Duration>,
    is_refused: bool,
    /// The reply said that the write changed something: a lock that was busy got no TTL.
    has_effect: bool,
}

/// What a reply meant for the oracle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Acknowledged,
    /// The write has certainly not taken effect.
    Refused(String),
    /// The node says that it does not know.
    Doubtful(String),
    /// A reply that a correct node does not give.
    Wrong(String),
}

impl Stream {
    pub(crate) fn new(name: &str, seed: u64, shape: Shape) -> Self {
        Self {
            prefix: format!("{name}:"),
            shape,
            random: Random(seed),
            serial: 0,
            issued: Vec::new(),
            answered: 0,
            earlier: 0,
            settled: State::new(),
            is_doubtful: false,
        }
    }

    /// What the names of its keys begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn set_shape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    /// Notes the next write as sent and returns it.
    pub(crate) fn issue(&mut self) -> Op {
        let op = self.choose();
        self.note(op.clone());
        op
    }

    /// Notes a write as sent.
    pub(crate) fn note(&mut self, op: Op) {
        self.issued.push(Issued {
            op,
            sent: observed_now(),
            done: None,
            is_refused: false,
            has_effect: false,
        });
    }

    /// Takes the reply to the oldest write that has none.
    pub(crate) fn answer(&mut self, reply: &Reply) -> Answer {
        let now = observed_now();
        let Some(issued) = self.issued.get_mut(self.answered) else {
            return Answer::Wrong(format!("{reply:?} answers nothing"));
        };
        if let Reply::Error(text) = reply {
            if !REFUSALS.iter().any(|refusal| text.contains(refusal)) {
                self.is_doubtful = true;
                return Answer::Doubtful(text.clone());
            }
            issued.is_refused = true;
            self.answered += 1;
            return Answer::Refused(text.clone());
        }
        if self.is_doubtful {
            let op = &issued.op;
            return Answer::Wrong(format!("{op:?} acknowledged after the log had failed"));
        }
        issued.done = Some(now);
        issued.has_effect = !matches!(reply, Reply::Integer(0) | Reply::Bulk(None));
        self.answered += 1;
        let expected = issued.op.apply(&mut self.settled, issued.sent, now);
        if *reply == expected {
            Answer::Acknowledged
        } else {
            let op = &issued.op;
            Answer::Wrong(format!("{op:?} answered {reply:?}, not {expected:?}"))
        }
    }

    /// The node was started anew: what was written so far belongs to earlier runs.
    pub(crate) fn begin_run(&mut self) {
        self.earlier = self.issued.len();
    }

    /// The number of acknowledged writes.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.issued.iter().filter(|one| one.done.is_some()).count() as u64
    }

    /// The number acknowledged in this run of the node.
    pub(crate) fn acknowledged_now(&self) -> u64 {
        let now = self.issued.iter().skip(self.earlier);
        now.filter(|one| one.done.is_some()).count() as u64
    }

    /// Until when the locks of this run that a restart delay has to cover may last: for as long
    /// the node must not serve, if it may have forgotten them.
    pub(crate) fn covered_until(&self, cap: Duration) -> Option<Duration> {
        let now = self.issued.iter().skip(self.earlier);
        now.filter(|one| one.has_effect)
            .filter_map(|one| Some(one.sent + one.op.ttl().filter(|ttl| *ttl <= cap)?))
            .max()
    }

    /// What of the acknowledged writes is not there, or what is there that nobody wrote; `None`
    /// if the keys are as after some number of writes that includes all acknowledged ones.
    pub(crate) fn loss(&self, sight: &Sight) -> Option<String> {
        let mut state = self.settled.clone();
        let first = sight.differs(&self.prefix, &state)?;
        for issued in &self.issued[self.answered..] {
            issued.op.apply(&mut state, issued.sent, observed_now());
            sight.differs(&self.prefix, &state)?;
        }
        let open = self.issued.len() - self.answered;
        Some(format!(
            "{first} ({} writes acknowledged, {open} more without an answer)",
            self.acknowledged()
        ))
    }

    /// Whether the keys are as after some number of writes, however few.
    pub(crate) fn is_prefix(&self, sight: &Sight) -> bool {
        let mut state = State::new();
        let mut is_seen = sight.differs(&self.prefix, &state).is_none();
        for issued in self.issued.iter().filter(|one| !one.is_refused) {
            let done = issued.done.unwrap_or_else(observed_now);
            issued.op.apply(&mut state, issued.sent, done);
            is_seen = is_seen || sight.differs(&self.prefix, &state).is_none();
        }
        is_seen
    }

    /// Believes in a write that never happened. For the self-test only.
    pub(crate) fn imagine(&mut self, op: Op) -> Answer {
        let expected = op.apply(&mut self.settled.clone(), observed_now(), observed_now());
        self.note(op);
        self.answer(&expected)
    }

    fn choose(&mut self) -> Op {
        self.serial += 1;
        let lock = format!("{}lock{}", self.prefix, self.random.below(4));
        if self.shape.large_bytes > 0 && self.random.below(2) == 0 {
            let key = format!("{}large{}", self.prefix, self.random.below(3));
            let value = self.large_value();
            return set(key, value, Some(self.covered()), false);
        }
        let kinds = if self.shape.only_covered { 6 } else { 14 };
        match self.random.below(kinds) {
            0 | 1 => set(lock, self.token(), Some(self.covered()), true),
            2 => Op::Release {
                token: self.held(&lock),
                key: lock,
            },
            3 => Op::Extend {
                token: self.held(&lock),
                key: lock,
                ttl: self.covered(),
            },
            4 => Op::Expire {
                key: lock,
                ttl: self.covered(),
            },
            5 => Op::Delete { key: lock },
            6 => Op::HashSet {
                key: format!("{}hash", self.prefix),
                field: format!("f{}", self.random.below(3)),
                value: format!("v{}", self.serial),
            },
            7 => Op::HashDelete {
                key: format!("{}hash", self.prefix),
                field: format!("f{}", self.random.below(3)),
            },
            8 => Op::Expire {
                key: format!("{}hash", self.prefix),
                ttl: self.covered(),
            },
            9 => set(format!("{}plain", self.prefix), self.token(), None, false),
            10 => set(
                format!("{}long", self.prefix),
                self.token(),
                Some(BEYOND),
                false,
            ),
            11 => Op::Increment {
                key: format!("{}number", self.prefix),
            },
            12 => Op::Persist { key: lock },
            _ => {
                let key = format!("{}short{}", self.prefix, self.serial);
                set(key, self.token(), Some(SHORT), false)
            }
        }
    }

    fn token(&self) -> Arc<[u8]> {
        format!("{}token{}", self.prefix, self.serial)
            .into_bytes()
            .into()
    }

    /// The value that the lock holds as far as is known; now and then somebody else's.
    fn held(&mut self, key: &str) -> Arc<[u8]> {
        let is_stranger = self.random.below(4) == 0;
        match self.settled.get(key) {
            Some(Item {
                value: Value::Text(token),
                ..
            }) if !is_stranger => Arc::clone(token),
            _ => self.token(),
        }
    }

    fn large_value(&mut self) -> Arc<[u8]> {
        let mut value = self.token().to_vec();
        let mut random = Random(self.random.next());
        value.resize_with(self.shape.large_bytes.max(value.len()), || {
            u8::try_from(random.below(256)).unwrap_or(0)
        });
        value.into()
    }

    /// A TTL within `restart-delay-max`, and far longer than any run.
    fn covered(&mut self) -> Duration {
        Duration::from_millis(600_000 + self.random.below(3_000_000))
    }
}

fn set(key: String, value: Arc<[u8]>, ttl: Option<Duration>, only_absent: bool) -> Op {
    Op::Set {
        key,
        value,
        ttl,
        only_absent,
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same writes in every run with the same seed.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What the node's refusals say that are given before a command is executed.
const REFUSALS: [&str; 3] = [
    "the log has no room",
    "in its restart delay",
    "grants no more",
];

/// Longer than the `restart-delay-max` of all nodes here.
const BEYOND: Duration = Duration::from_secs(3 * 3_600);
/// Over before most restarts.
const SHORT: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_checked_against_the_model() {
        let mut stream = Stream::new("a", 1, SMALL);
        let token: Arc<[u8]> = b"t".as_slice().into();
        let acquire = set("a:l".to_owned(), token, Some(BEYOND), true);
        stream.note(acquire.clone());
        let granted = Reply::Status("OK".to_owned());
        assert_eq!(stream.answer(&granted), Answer::Acknowledged);
        stream.note(acquire);
        assert!(matches!(stream.answer(&granted), Answer::Wrong(_)));
        assert_eq!(stream.acknowledged(), 2);
    }

    #[test]
    fn nothing_is_acknowledged_after_a_failure() {
        let mut stream = Stream::new("a", 1, SMALL);
        stream.issue();
        stream.issue();
        let failed = Reply::Error("MISCONF the log failed".to_owned());
        assert!(matches!(stream.answer(&failed), Answer::Doubtful(_)));
        let late = Reply::Integer(1);
        assert!(matches!(stream.answer(&late), Answer::Wrong(_)));
        assert_eq!(stream.acknowledged(), 0);
    }

    #[test]
    fn an_acknowledged_write_that_is_missing_is_a_loss_and_one_without_answer_is_not() {
        let mut stream = Stream::new("a", 1, SMALL);
        let op = |number: u8| set(format!("a:k{number}"), [number].into(), None, false);
        stream.note(op(1));
        assert_eq!(stream.loss(&Sight::default()), None);
        stream.answer(&Reply::Status("OK".to_owned()));
        assert!(stream.loss(&Sight::default()).is_some());
        assert!(stream.is_prefix(&Sight::default()));
    }
}
