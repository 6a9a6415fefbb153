//! The requests of one iteration of an event loop, executed by the model as the node has executed them.

use quorlock_engine::Stored;

use super::check::Violation;
use super::model::{Message, Moment, State};
use super::oracle::{Oracle, Told};
use super::request::{Reads, Request};
use super::session::{Learnt, Part};
use super::waiting::Serving;
use super::workload::Mode;

/// A request that the node has executed.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    /// Whose it is.
    pub(crate) session: u64,
    pub(crate) request: Request,
    pub(crate) database: u8,
    pub(crate) now: Moment,
    /// Empty where the client is blocked.
    pub(crate) reply: Vec<u8>,
    pub(crate) part: Part,
    /// A client that waited was served behind it.
    pub(crate) has_served: bool,
}

/// What a request may have done.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) after: State,
    /// A client that waited was served behind it, which has left this.
    pub(crate) served: Option<Serving>,
}

/// What a request has done, and what clients learn by it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// What its reply tells.
    pub(crate) tells_of: Vec<Told>,
    /// The version that it has made, and the keys that it has changed.
    pub(crate) own: Option<Told>,
    pub(crate) changed: Vec<Vec<u8>>,
    /// What those who listen are told of it.
    pub(crate) messages: Vec<Message>,
    /// Keys whose deadlines had come before.
    pub(crate) expired: Vec<Vec<u8>>,
    pub(crate) served: Option<Served>,
}

/// What a client that waited has got.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) session: u64,
    pub(crate) reply: Vec<u8>,
    pub(crate) told: Told,
    pub(crate) changed: Vec<Vec<u8>>,
    pub(crate) messages: Vec<Message>,
}

impl Effects {
    /// What the request itself tells everybody.
    pub(crate) fn learnt(&self, mode: Mode) -> Learnt {
        Learnt {
            tells_of: self.own.iter().cloned().collect(),
            mode,
        }
    }
}

/// Executes them in order. The node's replies have to agree with the model, and so have the keys that it has behind
/// the last of them. Calls `note` after each, with what it has done.
pub(crate) fn play(
    oracle: &mut Oracle,
    batch: &[Played],
    stored: &[Stored],
    mut note: impl FnMut(&Played, Effects),
) -> Result<(), Violation> {
    for (number, played) in batch.iter().enumerate() {
        if let Some(cap_ns) = played.request.sets_cap().filter(|_| played.is_accepted()) {
            oracle.rules.cap_ns = cap_ns;
        }
        let mut effects = Effects::default();
        if played.request.is_on_keys() && played.part != Part::Queued {
            effects.expired = oracle.expired(played.now);
            let candidates = oracle.candidates(played)?;
            let outcome = choose(oracle, played, candidates, &batch[number + 1..], stored);
            oracle.apply(played, outcome, &mut effects);
            effects.tells_of.extend(effects.own.clone());
            if effects.own.is_none() && !played.is_refused() {
                effects.tells_of = oracle.seen(played.database, &played.request.reads);
            }
        }
        note(played, effects);
    }
    match batch.last() {
        Some(last) if !oracle.agrees(stored, last.now) => {
            let texts: Vec<String> = batch.iter().map(|one| one.request.text()).collect();
            let detail = format!("{}: the node has {stored:?}", texts.join("; "));
            Err(Violation::new("requests do not do what they say", detail))
        }
        _ => Ok(()),
    }
}

/// Which of several outcomes a request has had: the one with which those behind it lead to what the node has.
fn choose(
    oracle: &Oracle,
    played: &Played,
    mut candidates: Vec<Outcome>,
    rest: &[Played],
    stored: &[Stored],
) -> Outcome {
    let last = candidates.pop().expect("a request has an outcome");
    let fits = |outcome: &Outcome| {
        let mut oracle = oracle.clone();
        oracle.apply(played, outcome.clone(), &mut Effects::default());
        play(&mut oracle, rest, stored, |_, _| {}).is_ok()
            && (!rest.is_empty() || oracle.agrees(stored, played.now))
    };
    candidates.into_iter().find(fits).unwrap_or(last)
}

impl Played {
    /// A client is served behind no request of anybody, as if behind one that changes nothing.
    pub(crate) fn late_serving(now: Moment) -> Played {
        Played {
            session: 0,
            request: Request::new(&["DBSIZE"], Reads::Nothing),
            database: 0,
            now,
            // No fewer keys than there are.
            reply: b":1000000\r\n".to_vec(),
            part: Part::None,
            has_served: true,
        }
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.reply.first() == Some(&b'-')
    }

    fn is_accepted(&self) -> bool {
        self.reply == b"+OK\r\n"
    }

    /// Whether the reply says that nothing was there to be changed. A refused script may have changed something.
    pub(crate) fn does_nothing(&self) -> bool {
        let replies: [&[u8]; 5] = [b"", b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b":0\r\n"];
        let is_whole = !self.request.is_script() && !self.request.is_exec();
        is_whole && (self.is_refused() || replies.contains(&self.reply.as_slice()))
    }

    /// The words of the request, or of all requests of the transaction.
    pub(crate) fn words(&self) -> impl Iterator<Item = &Vec<u8>> {
        let queued = match &self.part {
            Part::Exec(queued) => queued.requests.as_slice(),
            Part::None | Part::Queued => &[],
        };
        self.request.words.iter().chain(queued.iter().flatten())
    }
}
