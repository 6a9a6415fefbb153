//! Gathering of messages: whether those for many receivers wait for others to the same receivers.
//!
//! A message costs a call of the system for each connection it is for, and wakes each of those clients; several messages
//! that leave together cost no more. Publishers have their replies at once, so that each sleep of the worker may bring
//! their next messages: the sooner a worker executes, the fewer it finds together without one.
//!
//! Messages to few do not wait, nor those of which enough are together, and ever more rarely those where sleeps bring
//! nothing. Chosen by measurement: ADR 11.

use crate::core::back_off::BackOff;

/// What one worker has gathered, and what came of it.
#[derive(Debug, Default)]
pub struct Gathering {
    /// While messages wait.
    current: Option<Current>,
    /// From sleeps that bring no message.
    back_off: BackOff,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    messages: usize,
    sleeps_left: usize,
    has_gained: bool,
}

impl Gathering {
    /// Whether so many messages, all that are there for the next receivers and for so many of them, wait for the end of a
    /// sleep.
    pub(crate) fn waits(&mut self, messages: usize, receivers: usize) -> bool {
        let is_worthwhile = receivers >= RECEIVERS_MIN && messages < MESSAGES_MAX;
        let next = match self.current {
            None if !is_worthwhile || self.back_off.passes_over() => None,
            None => Some(Current {
                messages,
                sleeps_left: (receivers / RECEIVERS_PER_SLEEP).min(SLEEPS_MAX),
                has_gained: false,
            }),
            Some(current) => self.after_sleep(current, messages, is_worthwhile),
        };
        self.current = next;
        self.is_waiting()
    }

    fn after_sleep(
        &mut self,
        current: Current,
        messages: usize,
        is_worthwhile: bool,
    ) -> Option<Current> {
        let has_gained = messages > current.messages;
        let next = Current {
            messages,
            sleeps_left: current.sleeps_left - 1,
            has_gained: current.has_gained || has_gained,
        };
        if has_gained && is_worthwhile && next.sleeps_left > 0 {
            return Some(next);
        }
        match next.has_gained {
            true => self.back_off.note_success(),
            false => self.back_off.note_failure(),
        }
        None
    }

    /// Whether messages wait for the end of a sleep.
    pub fn is_waiting(&self) -> bool {
        self.current.is_some()
    }
}

/// Sending to fewer takes hardly longer than a sleep.
const RECEIVERS_MIN: usize = 16;

/// So many messages share a call of the system well enough.
const MESSAGES_MAX: usize = 64;

/// A message waits no longer than about as long as sending it takes.
const RECEIVERS_PER_SLEEP: usize = 12;
const SLEEPS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// How often messages wait that come one by one, `each` of them after every sleep, until there are so many.
    fn sleeps(gathering: &mut Gathering, receivers: usize, each: usize, most: usize) -> usize {
        let mut messages = 1;
        for sleeps in 0.. {
            if !gathering.waits(messages, receivers) {
                return sleeps;
            }
            messages = most.min(messages + each);
        }
        unreachable!("there are always more")
    }

    #[test]
    fn messages_to_many_wait_while_others_come_and_no_longer_than_they_take() {
        for (receivers, expected) in [(15, 0), (16, 1), (48, 4), (100, 8), (10_000, 16)] {
            let mut gathering = Gathering::default();
            let most = usize::MAX;
            assert_eq!(sleeps(&mut gathering, receivers, 1, most), expected);
            assert!(!gathering.is_waiting());
        }
    }

    #[test]
    fn they_leave_once_nothing_more_has_come_or_enough_has() {
        let mut gathering = Gathering::default();
        assert_eq!(sleeps(&mut gathering, 100, 3, 7), 3, "1, 4, 7, and no more");
        assert_eq!(sleeps(&mut gathering, 100, 63, 1_000), 1, "64 at once");
        assert!(!gathering.waits(MESSAGES_MAX, 100), "enough from the first");
    }

    #[test]
    fn what_comes_alone_waits_ever_more_rarely() {
        let mut gathering = Gathering::default();
        let waited: Vec<usize> = (0..1_000)
            .filter(|_| sleeps(&mut gathering, 100, 0, 1) > 0)
            .collect();
        let between: Vec<usize> = waited.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(between[..7], [1, 2, 4, 8, 16, 32, 64]);
        assert!(between[7..].iter().all(|count| *count == 64));
    }

    #[test]
    fn sleeps_that_bring_messages_make_up_for_those_that_do_not() {
        let mut gathering = Gathering::default();
        for _ in 0..200 {
            sleeps(&mut gathering, 100, 0, 1);
        }
        let mut waited = 0;
        for turn in 0..10_000 {
            let each = usize::from(turn % 50 != 0);
            waited += usize::from(sleeps(&mut gathering, 100, each, 4) > 0);
        }
        assert!(waited > 9_000, "{waited}");
    }
}
