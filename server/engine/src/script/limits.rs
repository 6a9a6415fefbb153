//! What a script may use up, and whether it has used up too much.
//!
//! Once a limit has been reached the budget stays ended until the next script begins: every later
//! step fails again, so that no `pcall` in a loop can catch the end. Reads no clock itself: the
//! node passes one in, and only scripts that take more than a few steps read it. Single steps are slow where a script
//! holds long texts: such a script reads it at each step, and so does one that was slow once.

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

/// Which limit ended a script, as the error that unwinds the interpreter. The reply is made from the [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the script has reached a limit")]
pub(crate) enum ScriptLimit {
    Time,
    Memory,
    Steps,
    Journal,
    Room,
}

/// What the running script has used.
pub(crate) struct Budget {
    limits: Cell<ScriptLimits>,
    clock: RefCell<ScriptClock>,
    steps: Cell<u64>,
    started: Cell<Option<RawTime>>,
    ended: Cell<Option<ScriptLimit>>,
    /// When the clock was last read.
    last_reading: Cell<RawTime>,
    /// Each step is to look at the clock, or fails.
    is_wary: Cell<bool>,
    /// The least memory that the interpreter used while the script ran.
    memory_low: Cell<usize>,
    /// It has grown from there by so much that long texts may be among it.
    holds_long_texts: Cell<bool>,
    /// Scripts of one transaction are counted together.
    is_shared: Cell<bool>,
    /// What the interpreter and all that works for the script may use of memory.
    memory_end: Cell<usize>,
}

impl Budget {
    pub(crate) fn new(limits: ScriptLimits, clock: ScriptClock) -> Budget {
        Budget {
            limits: Cell::new(limits),
            clock: RefCell::new(clock),
            steps: Cell::new(0),
            started: Cell::new(None),
            ended: Cell::new(None),
            last_reading: Cell::new(RawTime::ZERO),
            is_wary: Cell::new(false),
            memory_low: Cell::new(usize::MAX),
            holds_long_texts: Cell::new(false),
            is_shared: Cell::new(false),
            memory_end: Cell::new(usize::MAX),
        }
    }

    pub(crate) fn limits(&self) -> ScriptLimits {
        self.limits.get()
    }

    /// For the scripts that begin from now on.
    pub(crate) fn set_limits(&self, limits: ScriptLimits) {
        self.limits.set(limits);
    }

    pub(crate) fn set_clock(&self, clock: ScriptClock) {
        *self.clock.borrow_mut() = clock;
    }

    pub(crate) fn memory_end(&self) -> usize {
        self.memory_end.get()
    }

    /// What the interpreter uses before the script gets its arguments, and what it may use.
    pub(crate) fn set_memory(&self, used: usize, end: usize) {
        self.memory_low.set(used);
        self.memory_end.set(end);
    }

    /// Notes what the interpreter uses. True once, where the script may hold long texts from now on.
    #[inline]
    pub(crate) fn note_memory(&self, used: usize) -> bool {
        let low = self.memory_low.get();
        if used < low {
            // Less is garbage of earlier scripts than it was.
            self.memory_low.set(used);
            return false;
        }
        let grown = used.saturating_sub(low);
        grown > LONG_TEXT_BYTES && self.note_long_texts(grown)
    }

    #[cold]
    fn note_long_texts(&self, grown: usize) -> bool {
        if self.holds_long_texts.replace(true) {
            return false;
        }
        self.is_wary.set(true);
        if self.started.get().is_none() {
            // What the few operators have taken that may have come before this, and no clock has measured.
            let now = (self.clock.borrow_mut())();
            let taken = (grown as u64).saturating_mul(NANOS_PER_BYTE);
            let started = now.as_nanos().saturating_sub(taken);
            self.started.set(Some(RawTime::from_nanos(started)));
            self.last_reading.set(now);
        }
        true
    }

    pub(crate) fn holds_long_texts(&self) -> bool {
        self.holds_long_texts.get()
    }

    /// A new script: nothing has been used but by earlier scripts of the same transaction.
    pub(crate) fn begin(&self) {
        self.ended.set(None);
        self.is_wary.set(false);
        self.memory_low.set(usize::MAX);
        self.holds_long_texts.set(false);
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
    pub(crate) fn step(&self) -> Result<(), ScriptLimit> {
        let steps = self.steps.get().saturating_add(1);
        self.steps.set(steps);
        if !self.is_wary.get() && !steps.is_multiple_of(STEPS_PER_CLOCK_READING) {
            return Ok(());
        }
        self.check()
    }

    /// The script has come to its end: what came since the last look at the clock counts as well.
    pub(crate) fn finish(&self) {
        if self.started.get().is_some() {
            // The reason is noted.
            let _ = self.check();
        }
    }

    /// Looks at the clock now; for the few operations that take long in one step.
    #[cold]
    pub(crate) fn check(&self) -> Result<(), ScriptLimit> {
        if let Some(end) = self.ended.get() {
            return Err(end);
        }
        if self.steps.get() > self.limits.get().steps {
            return Err(self.end(ScriptLimit::Steps));
        }
        let now = (self.clock.borrow_mut())();
        let before = self.last_reading.replace(now);
        let Some(started) = self.started.get() else {
            // The first reading starts the count: short scripts never pay for it, and the few
            // steps before it are far below the resolution of the limit.
            self.started.set(Some(now));
            return Ok(());
        };
        if now.saturating_since(started) >= self.limits.get().time {
            return Err(self.end(ScriptLimit::Time));
        }
        if now.saturating_since(before) > SLOW_STEPS {
            self.is_wary.set(true);
        }
        Ok(())
    }

    /// Begins the count of time now, whatever comes.
    pub(crate) fn start_time(&self) {
        let now = (self.clock.borrow_mut())();
        self.last_reading.set(now);
        self.started.set(Some(now));
    }

    /// Begins the count of time before a command that may take long, unless it has begun.
    pub(crate) fn start_time_once(&self) {
        if self.started.get().is_none() {
            self.start_time();
        }
    }

    /// How long the script took that has just ended, where its time was counted. Not for scripts of a transaction, whose
    /// time is that of all.
    pub(crate) fn take_measured(&self) -> Option<Duration> {
        let started = self.started.take()?;
        Some(self.last_reading.get().saturating_since(started))
    }

    /// Whether the time since the count began is used up. Ends nothing.
    pub(crate) fn is_time_up(&self) -> bool {
        let now = (self.clock.borrow_mut())();
        let since = |started| now.saturating_since(started);
        self.started.get().map_or(Duration::ZERO, since) >= self.limits.get().time
    }

    /// Ends the script; the first reason counts.
    pub(crate) fn end(&self, end: ScriptLimit) -> ScriptLimit {
        let first = self.ended.get().unwrap_or(end);
        self.ended.set(Some(first));
        self.is_wary.set(true);
        first
    }

    pub(crate) fn ended(&self) -> Option<ScriptLimit> {
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

const TIME_DEFAULT: Duration = Duration::from_millis(500);
const MEMORY_BYTES_DEFAULT: usize = 64 << 20;
const STEPS_DEFAULT: u64 = 20_000_000;
const JOURNAL_BYTES_DEFAULT: usize = 4 << 20;
/// The largest known lock script has five thousand bytes.
const BODY_BYTES_DEFAULT: usize = 64 << 10;
const LOADED_BYTES_DEFAULT: usize = 16 << 20;

/// A reading of the clock costs about as much as two steps. Steps over short texts take microseconds at most.
const STEPS_PER_CLOCK_READING: u64 = 8;

/// A script that has grown by so much may hold texts over which a single step takes long: tens of milliseconds where
/// they take all of its memory.
const LONG_TEXT_BYTES: usize = 256 << 10;

/// What the operators between two steps take at most, for each byte that was made before them.
const NANOS_PER_BYTE: u64 = 4;

/// Where the steps between two readings of the clock have taken so long, the next ones may.
const SLOW_STEPS: Duration = Duration::from_millis(10);

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
            2 * 8 + 4 - 1,
            "the first reading starts the count; the steps before the second were slow, and each is looked at from then on"
        );
        assert_eq!(budget.step(), Err(ScriptLimit::Time));
        assert_eq!(
            budget.end(ScriptLimit::Memory),
            ScriptLimit::Time,
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
        assert_eq!(budget.ended(), Some(ScriptLimit::Steps));
    }
}
