//! What an agent has answered, in numbers.
//!
//! They are kept outside the rules: a reply counts when it leaves, and whether it was in time is known then.

use quorlock_client_rules::call::Outcome;
use quorlock_client_rules::outcome::AcquireError;
use quorlock_engine::{ErrorReply, Reply};

use crate::next::has_freed;

/// What the last call of a request has come to, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The lock was acquired.
    Acquired,
    /// Its end was moved.
    Extended,
    /// It was released.
    Released,
    /// An attempt to acquire it was refused by those who have it.
    Refused,
}

impl Step {
    /// The step that this is the end of.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Acquired { .. } => Some(Self::Acquired),
            Outcome::Extended(Ok(_)) => Some(Self::Extended),
            Outcome::Released(release) if has_freed(release) => Some(Self::Released),
            Outcome::NotAcquired(AcquireError::Busy { .. }) => Some(Self::Refused),
            _ => None,
        }
    }
}

/// Requests and replies since the start. Each reply is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that have come.
    pub requests: u64,
    /// Locks that were acquired, and told in time.
    pub acquired: u64,
    /// Locks whose end was moved.
    pub extended: u64,
    /// Locks that were released.
    pub released: u64,
    /// Replies to requests for locks that others hold.
    pub refused: u64,
    /// `-NOQUORUM`.
    pub no_quorum: u64,
    /// `-NOTALOCK`.
    pub not_a_lock: u64,
    /// `-TRYAGAIN`.
    pub try_again: u64,
    /// Other errors.
    pub errors: u64,
    /// Reads, and all else that changed nothing.
    pub others: u64,
}

impl Counts {
    /// A reply leaves: to a request that began with this command, and whose last step was this one. Gives the step that it tells of.
    pub fn reply(&mut self, command: &[u8], step: Option<Step>, reply: &Reply) -> Option<Step> {
        let wants_lock = command.eq_ignore_ascii_case(b"set");
        let step = match (reply, step) {
            (Reply::Error(_), _) => None,
            // A read has found that others hold it.
            (Reply::Nil, None) if wants_lock => Some(Step::Refused),
            (_, step) => step,
        };
        let count = match (reply, step) {
            (Reply::Error(error), _) => self.of_error(error),
            (_, Some(Step::Acquired)) => &mut self.acquired,
            (_, Some(Step::Extended)) => &mut self.extended,
            (_, Some(Step::Released)) => &mut self.released,
            (_, Some(Step::Refused)) => &mut self.refused,
            (_, None) => &mut self.others,
        };
        *count += 1;
        step
    }

    /// Each reply under the word for it.
    #[must_use]
    pub fn by_outcome(&self) -> [(&'static str, u64); 9] {
        [
            ("acquired", self.acquired),
            ("extended", self.extended),
            ("released", self.released),
            ("refused", self.refused),
            ("no_quorum", self.no_quorum),
            ("not_a_lock", self.not_a_lock),
            ("try_again", self.try_again),
            ("error", self.errors),
            ("other", self.others),
        ]
    }

    fn of_error(&mut self, error: &ErrorReply) -> &mut u64 {
        match error.code() {
            b"NOQUORUM" => &mut self.no_quorum,
            b"NOTALOCK" => &mut self.not_a_lock,
            b"TRYAGAIN" => &mut self.try_again,
            _ => &mut self.errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_is_counted_once_under_what_it_came_to() {
        let error = |text| Reply::Error(ErrorReply::fixed(text));
        for (command, step, reply, outcome) in [
            ("SET", Some(Step::Acquired), Reply::Ok, "acquired"),
            (
                "evalsha",
                Some(Step::Extended),
                Reply::Integer(1),
                "extended",
            ),
            ("eval", Some(Step::Released), Reply::Integer(1), "released"),
            ("eval", Some(Step::Refused), Reply::Integer(0), "refused"),
            ("Set", None, Reply::Nil, "refused"),
            ("get", None, Reply::Nil, "other"),
            // It was granted too late.
            (
                "set",
                Some(Step::Acquired),
                error("NOQUORUM late"),
                "no_quorum",
            ),
            ("incr", None, error("NOTALOCK it counts"), "not_a_lock"),
            ("get", None, error("TRYAGAIN split"), "try_again"),
            ("get", None, error("ERR syntax error"), "error"),
        ] {
            let mut counts = Counts::default();
            counts.reply(command.as_bytes(), step, &reply);
            let counted = counts
                .by_outcome()
                .into_iter()
                .filter(|(_, count)| *count == 1);
            assert_eq!(counted.map(|(name, _)| name).collect::<Vec<_>>(), [outcome]);
        }
    }
}
