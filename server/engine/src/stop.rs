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
    /// Why a node that stopped so may have to wait, for people.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Clean => "clean stop",
            Self::NeverServed => "stopped before it served",
            Self::NeverRan => "new node",
            Self::Complete => "unclean stop, log complete",
            Self::PowerLoss => {
                "machine went down, log complete if the disk kept what it acknowledged"
            }
            Self::Unclean => "unclean stop",
            Self::Moved => "data directory was copied, restored or moved",
            Self::Emptied => "node has an identity, or the trace of a run, but no log of it",
            Self::Unknown => "empty data directory, unknown past",
            Self::Lost => "the log was repaired: durable data was lost",
        }
    }

    /// Its name for machines: in INFO, metrics and log lines. Never changed once released.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::NeverServed => "never-served",
            Self::NeverRan => "never-ran",
            Self::Complete => "complete",
            Self::PowerLoss => "power-loss",
            Self::Unclean => "unclean",
            Self::Moved => "moved",
            Self::Emptied => "emptied",
            Self::Unknown => "unknown",
            Self::Lost => "lost",
        }
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
        match self {
            Self::Unclean => 1,
            Self::Clean => 2,
            Self::Complete => 3,
            Self::PowerLoss => 4,
            Self::Moved => 5,
            Self::Emptied => 6,
            Self::Unknown => 7,
            Self::NeverServed => 8,
            Self::NeverRan => 9,
            Self::Lost => 10,
        }
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
