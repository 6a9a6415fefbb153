//! What a script may use up, and whether it has used up too much.
//!
//! Once a limit has been reached the budget stays ended until the next script begins: every later
//! step fails again, so that no `pcall` in a loop can catch the end. Reads no clock itself: the
//! node passes one in, and only scripts that take more than a few steps read it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Duration;

use crate::time::RawTime;

/// The clock that measures how long a script has been running.
pub(crate) type ScriptClock = Box<dyn FnMut() -> RawTime + Send>;

/// What one script may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptLimits {
    /// How long it may run.
    pub time: Duration,
    /// How much memory it may take beyond what the interpreter itself needs.
    pub memory_bytes: usize,
    /// How many steps it may take: calls, returns, iterations of loops, steps of pattern matching.
    pub steps: u64,
    /// How long its part of the log may become.
    pub journal_bytes: usize,
    /// How long its text may be. Compiling cannot be interrupted.
    pub body_bytes: usize,
    /// What all scripts that SCRIPT LOAD keeps may take.
    pub loaded_bytes: usize,
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            time: TIME_DEFAULT,
            memory_bytes: MEMORY_BYTES_DEFAULT,
            steps: STEPS_DEFAULT,
            journal_bytes: JOURNAL_BYTES_DEFAULT,
            body_bytes: BODY_BYTES_DEFAULT,
            loaded_bytes: LOADED_BYTES_DEFAULT,
        }
    }
}

/// Which limit ended a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Time,
    Memory,
    Steps,
    Journal,
    Room,
}

/// What the running script has used.
pub(crate) struct Budget {
    limits: ScriptLimits,
    clock: RefCell<ScriptClock>,
    steps: Cell<u64>,
    started: Cell<Option<RawTime>>,
    ended: Cell<Option<End>>,
    /// Scripts of one transaction are counted together.
    is_shared: Cell<bool>,
    /// What the interpreter and all that works for the script may use of memory.
    memory_end: Cell<usize>,
}

impl Budget {
    pub(crate) fn new(limits: ScriptLimits, clock: ScriptClock) -> Budget {
        Budget {
            limits,
            clock: RefCell::new(clock),
            steps: Cell::new(0),
            started: Cell::new(None),
            ended: Cell::new(None),
            is_shared: Cell::new(false),
            memory_end: Cell::new(usize::MAX),
        }
    }

    pub(crate) fn limits(&self) -> ScriptLimits {
        self.limits
    }

    pub(crate) fn set_clock(&self, clock: ScriptClock) {
        *self.clock.borrow_mut() = clock;
    }

    pub(crate) fn memory_end(&self) -> usize {
        self.memory_end.get()
    }

    pub(crate) fn set_memory_end(&self, bytes: usize) {
        self.memory_end.set(bytes);
    }

    /// A new script: nothing has been used but by earlier scripts of the same transaction.
    pub(crate) fn begin(&self) {
        self.ended.set(None);
        if !self.is_shared.get() {
            self.steps.set(0);
            self.started.set(None);
        }
    }

    /// Whether the scripts from here on are counted together.
    pub(crate) fn share(&self, is_shared: bool) {
        self.is_shared.set(is_shared);
    }

    /// Counts a step. An error once a limit has been reached, and from then on every time.
    #[inline]
    pub(crate) fn step(&self) -> Result<(), End> {
        let steps = self.steps.get().saturating_add(1);
        self.steps.set(steps);
        if self.ended.get().is_none() && !steps.is_multiple_of(STEPS_PER_CLOCK_READING) {
            return Ok(());
        }
        self.check()
    }

    /// Looks at the clock now; for the few operations that take long in one step.
    #[cold]
    pub(crate) fn check(&self) -> Result<(), End> {
        if let Some(end) = self.ended.get() {
            return Err(end);
        }
        if self.steps.get() > self.limits.steps {
            return Err(self.end(End::Steps));
        }
        let now = (self.clock.borrow_mut())();
        let Some(started) = self.started.get() else {
            // The first reading starts the count: short scripts never pay for it, and the few
            // steps before it are far below the resolution of the limit.
            self.started.set(Some(now));
            return Ok(());
        };
        if now.saturating_since(started) >= self.limits.time {
            return Err(self.end(End::Time));
        }
        Ok(())
    }

    /// Begins the count of time now, whatever comes.
    pub(crate) fn start_time(&self) {
        let now = (self.clock.borrow_mut())();
        self.started.set(Some(now));
    }

    /// Whether the time since the count began is used up. Ends nothing.
    pub(crate) fn is_time_up(&self) -> bool {
        let now = (self.clock.borrow_mut())();
        let since = |started| now.saturating_since(started);
        self.started.get().map_or(Duration::ZERO, since) >= self.limits.time
    }

    /// Ends the script; the first reason counts.
    pub(crate) fn end(&self, end: End) -> End {
        let first = self.ended.get().unwrap_or(end);
        self.ended.set(Some(first));
        first
    }

    pub(crate) fn ended(&self) -> Option<End> {
        self.ended.get()
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Budget")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// As the error that unwinds the interpreter. The reply is made from the [`Budget`].
impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the script has reached a limit")
    }
}

impl std::error::Error for End {}

const TIME_DEFAULT: Duration = Duration::from_millis(500);
const MEMORY_BYTES_DEFAULT: usize = 64 << 20;
const STEPS_DEFAULT: u64 = 20_000_000;
const JOURNAL_BYTES_DEFAULT: usize = 4 << 20;
/// The largest known lock script has five thousand bytes.
const BODY_BYTES_DEFAULT: usize = 64 << 10;
const LOADED_BYTES_DEFAULT: usize = 16 << 20;

/// A reading of the clock costs about as much as two steps. The slowest single steps (string
/// operations over all the memory a script may have) take some tens of milliseconds.
const STEPS_PER_CLOCK_READING: u64 = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;
    use crate::time::saturated_nanos;

    fn ticking(step: Duration) -> ScriptClock {
        let mut now = RawTime::ZERO;
        Box::new(move || {
            now = now.plus_nanos(saturated_nanos(step));
            now
        })
    }

    #[test]
    fn a_short_script_reads_no_clock() {
        let budget = Budget::new(ScriptLimits::default(), Box::new(|| panic!("no reading")));
        budget.begin();
        for _ in 1..STEPS_PER_CLOCK_READING {
            budget.step().unwrap();
        }
    }

    #[test]
    fn the_end_is_remembered_until_the_next_script() {
        let budget = Budget::new(ScriptLimits::default(), ticking(Duration::from_millis(100)));
        budget.begin();
        let steps = std::iter::repeat_with(|| budget.step())
            .take_while(Result::is_ok)
            .count();
        assert_eq!(
            steps,
            6 * 8 - 1,
            "the first reading starts the count, five more use it up"
        );
        assert_eq!(budget.step(), Err(End::Time));
        assert_eq!(
            budget.end(End::Memory),
            End::Time,
            "the first reason counts"
        );
        budget.begin();
        assert_eq!(budget.step(), Ok(()));
        assert_eq!(budget.ended(), None);
    }

    #[test]
    fn steps_are_counted() {
        let limits = ScriptLimits {
            steps: 100,
            ..ScriptLimits::default()
        };
        let budget = Budget::new(limits, Box::new(|| RawTime::ZERO));
        budget.begin();
        let steps = std::iter::repeat_with(|| budget.step())
            .take_while(Result::is_ok)
            .count();
        assert_eq!(steps, 103, "noticed at the next reading of the clock");
        assert_eq!(budget.ended(), Some(End::Steps));
    }
}
