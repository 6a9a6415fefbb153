//! The ways in which a node's last incarnation can have ended.
//!
//! Names, numbers on record and descriptions for people. What each means for the next start is decided
//! in `restart`, not here.

/// How the last incarnation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// Complete `SHUTDOWN`: nothing is forgotten.
    Clean,
    /// Stopped before it served.
    NeverServed,
    /// Created and never started.
    NeverRan,
    /// Died, but every reply had been synced and the machine stayed up.
    Complete,
    /// Every reply had been synced, but the machine went down with it.
    PowerLoss,
    /// Died with replies that may not be in the log.
    Unclean,
    /// The directory was copied, restored, or came from another machine.
    Moved,
    /// An identity, or the marker of a run, without its log: that was deleted, lost, or put back to
    /// before the first run.
    Emptied,
    /// An empty directory: what an earlier node here may have granted is not known.
    Unknown,
    /// Durable data was lost, and an operator had the log repaired.
    Lost,
}

impl Stop {
    /// Its number in a record, its name for machines, and what people read.
    const fn row(self) -> (u8, &'static str, &'static str) {
        match self {
            Self::Unclean => (1, "unclean", "unclean stop"),
            Self::Clean => (2, "clean", "clean stop"),
            Self::Complete => (3, "complete", "unclean stop, log complete"),
            Self::PowerLoss => (
                4,
                "power-loss",
                "machine went down, log complete if the disk kept what it acknowledged",
            ),
            Self::Moved => (5, "moved", "data directory was copied, restored or moved"),
            Self::Emptied => (
                6,
                "emptied",
                "node has an identity, or the trace of a run, but no log of it",
            ),
            Self::Unknown => (7, "unknown", "empty data directory, unknown past"),
            Self::NeverServed => (8, "never-served", "stopped before it served"),
            Self::NeverRan => (9, "never-ran", "new node"),
            Self::Lost => (10, "lost", "the log was repaired: durable data was lost"),
        }
    }

    /// Why a node that stopped so may have to wait, for people.
    pub const fn reason(self) -> &'static str {
        self.row().2
    }

    /// Its name for machines: in INFO, metrics and log lines. Never changed once released.
    pub const fn word(self) -> &'static str {
        self.row().1
    }

    /// Why a delay that this stop caused has to be waited out, for people.
    pub const fn delay_reason(self) -> &'static str {
        match self {
            Self::Clean => "clean stop, but keys are not logged",
            other => other.reason(),
        }
    }

    /// Its number in a record. Part of the on-disk format and never reused; 0 means none.
    pub(crate) const fn code(self) -> u8 {
        self.row().0
    }

    /// The stop with this number.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        [
            Self::Unclean,
            Self::Clean,
            Self::Complete,
            Self::PowerLoss,
            Self::Moved,
            Self::Emptied,
            Self::Unknown,
            Self::NeverServed,
            Self::NeverRan,
            Self::Lost,
        ]
        .into_iter()
        .find(|stop| stop.code() == code)
    }
}
