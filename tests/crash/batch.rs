//! The requests of one iteration of an event loop, executed by the model as the node has executed them.

use quorlock_engine::Stored;

use super::check::Violation;
use super::model::{Keys, Moment};
use super::oracle::{Oracle, Told};
use super::request::Request;
use super::session::Part;

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
}

/// Executes them in order. The node's replies have to agree with the model, and so have the keys that it has behind
/// the last of them. Calls `note` after each, with what its reply tells.
pub(crate) fn play(
    oracle: &mut Oracle,
    batch: &[Played],
    stored: &[Stored],
    mut note: impl FnMut(&Played, Vec<Told>),
) -> Result<(), Violation> {
    for (number, played) in batch.iter().enumerate() {
        let mut tells_of = Vec::new();
        if let Some(cap_ns) = played.request.sets_cap().filter(|_| played.is_accepted()) {
            oracle.rules.cap_ns = cap_ns;
        }
        if played.request.is_on_keys() && played.part != Part::Queued {
            let candidates = oracle.candidates(played)?;
            let after = choose(oracle, played, candidates, &batch[number + 1..], stored);
            let change = oracle.note(played, after);
            tells_of.extend(change.map(|number| oracle.own(number)));
            if tells_of.is_empty() && !played.is_refused() {
                tells_of = oracle.seen(played.database, &played.request.reads);
            }
        }
        note(played, tells_of);
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

/// Which of several states a request has left: the one with which those behind it lead to what the node has.
fn choose(
    oracle: &Oracle,
    played: &Played,
    mut candidates: Vec<Keys>,
    rest: &[Played],
    stored: &[Stored],
) -> Keys {
    let last = candidates.pop().unwrap_or_default();
    let fits = |keys: &Keys| {
        let mut oracle = oracle.clone();
        oracle.note(played, keys.clone());
        play(&mut oracle, rest, stored, |_, _| {}).is_ok()
            && (!rest.is_empty() || oracle.agrees(stored, played.now))
    };
    candidates.into_iter().find(fits).unwrap_or(last)
}

impl Played {
    pub(crate) fn is_refused(&self) -> bool {
        self.reply.first() == Some(&b'-')
    }

    fn is_accepted(&self) -> bool {
        self.reply == b"+OK\r\n"
    }
}
