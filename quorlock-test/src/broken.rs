//! How a test broke under a schedule of faults.

use std::fmt;
use std::time::Duration;

use crate::schedule::Scheduled;

/// A test that broke, and the smallest schedule found that breaks it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The seed of the run.
    pub seed: u64,
    /// The faults. None of them can be left out, as far as was tried; with none the test breaks by itself.
    pub schedule: Vec<Scheduled>,
    /// How it broke.
    pub how: HowBroken,
    /// What happened in the cluster in that run.
    pub history: String,
    /// How often the test ran until this was known.
    pub runs: u32,
}

/// How a test broke.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HowBroken {
    /// It panicked, with this message.
    Panicked(String),
    /// It waited, and had no end within this time of the machine.
    TimedOut(Duration),
    /// It blocked its thread beyond this time of the machine, its limit. The thread cannot be ended, and is left behind.
    Blocked(Duration),
}

/// How one run broke.
pub(crate) struct FailedRun {
    pub(crate) how: HowBroken,
    pub(crate) history: String,
}

impl FailedRun {
    /// Of a run whose history is out of reach.
    pub(crate) fn before_end(how: HowBroken) -> Self {
        let history = String::new();
        Self { how, history }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.how)?;
        writeln!(
            formatter,
            "with seed {} and {} faults:",
            self.seed,
            self.schedule.len()
        )?;
        for scheduled in &self.schedule {
            writeln!(formatter, "  {scheduled}")?;
        }
        write!(
            formatter,
            "after {} runs. What happened:\n{}",
            self.runs, self.history
        )
    }
}

impl std::error::Error for Broken {}

impl fmt::Display for HowBroken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(formatter, "the test panicked: {message}"),
            Self::TimedOut(limit) => write!(
                formatter,
                "the test hangs: it had no end within {limit:?} of the machine's time, and waits for something that does not happen"
            ),
            Self::Blocked(limit) => write!(
                formatter,
                "the test blocks its thread: it did not let the cluster go on, also long after {limit:?} of the machine's time. The thread is left \
                 behind"
            ),
        }
    }
}
