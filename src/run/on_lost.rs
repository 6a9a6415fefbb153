//! What happens to the command when its lock is lost, and how long it may hold the lock at all.

use std::time::Duration;

use quorlock_server::show_duration;
use rustix::process::Signal;

use crate::duration;
use crate::exit_code::Failure;

/// What happens to the command when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnLost {
    /// It gets this signal, and SIGKILL when its grace is over.
    Signal(Signal),
    /// It gets SIGKILL at once.
    Kill,
    /// It goes on.
    Ignore,
}

/// The flags about the end of the lock.
#[derive(Debug, clap::Args)]
pub(crate) struct LossOptions {
    /// What the command gets when the lock is lost: term, kill, signal:NAME or ignore
    ///
    /// term and signal:NAME are followed by SIGKILL when the grace is over, and in any case before
    /// the lease is. kill comes at once. With ignore the command goes on without the lock.
    #[arg(long, value_name = "WHAT", default_value = "term", value_parser = parse)]
    on_lost: OnLost,
    /// How long the command has to clean up, from SIGTERM to SIGKILL; at most a third of the ttl
    /// (default: 5s, or a sixth of the ttl if that is shorter)
    ///
    /// While no majority of the nodes renews the lock, SIGTERM comes this long and a tenth of the
    /// ttl (500 ms at most) before the lease is over, and SIGKILL that tenth before.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse)]
    grace: Option<Duration>,
    /// End the command, as if the lock was lost, before it has held the lock for this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse_ttl)]
    pub(super) max_hold: Option<Duration>,
    /// Let processes that the command leaves behind go on, without the lock
    #[arg(long)]
    pub(super) leave_orphans: bool,
}

/// When the command is told to end, and when it is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StopRules {
    pub(super) on_lost: OnLost,
    /// From the first signal to SIGKILL.
    pub(super) grace: Duration,
    /// SIGKILL comes this long before the end of the lease.
    pub(super) margin: Duration,
    /// Whether processes that the command leaves behind go on.
    pub(super) leaves_orphans: bool,
}

impl LossOptions {
    /// What the flags mean for leases of this length.
    pub(super) fn rules(&self, ttl: Duration) -> Result<StopRules, Failure> {
        let (lease, flag) = match self.max_hold {
            Some(max_hold) if max_hold < ttl => (max_hold, "--max-hold"),
            _ => (ttl, "--ttl"),
        };
        let longest = lease / GRACE_MAX_PART;
        let grace = self.grace.unwrap_or(GRACE.min(lease / GRACE_PART));
        if grace > longest {
            return Err(Failure::usage(format!(
                "--grace {} is more than a third of {flag} {}: the lock could not be renewed in \
                 time, and the command would be ended before a renewal can be repeated",
                show_duration(grace),
                show_duration(lease)
            ))
            .remedy(format!(
                "use at most --grace {}ms, or a longer {flag}",
                longest.as_millis()
            )));
        }
        Ok(StopRules {
            on_lost: self.on_lost,
            grace: if self.on_lost == OnLost::Kill {
                Duration::ZERO
            } else {
                grace
            },
            margin: MARGIN_MAX.min(lease / MARGIN_PART),
            leaves_orphans: self.leave_orphans,
        })
    }
}

impl StopRules {
    /// What must be left of the lease when the command is asked to end.
    pub(super) fn time_needed(&self) -> Duration {
        match self.on_lost {
            OnLost::Ignore => Duration::ZERO,
            OnLost::Signal(_) | OnLost::Kill => self.grace.saturating_add(self.margin),
        }
    }

    /// What asks a process to end.
    pub(super) fn request(&self) -> Option<Signal> {
        match self.on_lost {
            OnLost::Signal(signal) => Some(signal),
            OnLost::Ignore => Some(Signal::TERM),
            OnLost::Kill => None,
        }
    }
}

fn parse(text: &str) -> Result<OnLost, String> {
    match text {
        "term" => Ok(OnLost::Signal(Signal::TERM)),
        "kill" => Ok(OnLost::Kill),
        "ignore" => Ok(OnLost::Ignore),
        _ => match text.strip_prefix("signal:").map(named) {
            Some(Some(Signal::KILL)) => Ok(OnLost::Kill),
            Some(Some(signal)) => Ok(OnLost::Signal(signal)),
            Some(None) => Err(format!(
                "'{text}' names no signal that a command can be asked to end with; write \
                 signal:INT, signal:HUP, signal:QUIT, signal:USR1 or the like"
            )),
            None => Err(format!(
                "'{text}' is not known; write term, kill, ignore or signal:NAME, as in signal:INT"
            )),
        },
    }
}

/// A signal by its name, with or without SIG, or by its number.
fn named(name: &str) -> Option<Signal> {
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    SIGNALS
        .iter()
        .find(|(known, signal)| *known == short || signal.as_raw().to_string() == name)
        .map(|(_, signal)| *signal)
}

const SIGNALS: [(&str, Signal); 9] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
];

const GRACE: Duration = Duration::from_secs(5);
/// The lock is renewed when two thirds of the lease are left. What is between that and the grace
/// is for repeated renewals.
const GRACE_PART: u32 = 6;
const GRACE_MAX_PART: u32 = 3;
/// Long enough to find and kill every descendant, and for the kernel to take down a large one, on a
/// busy machine.
const MARGIN_MAX: Duration = Duration::from_millis(500);
const MARGIN_PART: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn options(grace_ms: Option<u64>, max_hold_ms: Option<u64>) -> LossOptions {
        LossOptions {
            on_lost: OnLost::Signal(Signal::TERM),
            grace: grace_ms.map(Duration::from_millis),
            max_hold: max_hold_ms.map(Duration::from_millis),
            leave_orphans: false,
        }
    }

    #[test]
    fn the_grace_leaves_time_for_renewals() {
        let grace = |grace, max_hold, ttl| {
            let rules = options(grace, max_hold).rules(Duration::from_millis(ttl));
            rules
                .map(|rules| rules.grace.as_millis())
                .map_err(|failure| failure.code)
        };
        assert_eq!(grace(None, None, 30_000), Ok(5_000));
        assert_eq!(grace(None, None, 3_600_000), Ok(5_000));
        assert_eq!(grace(None, None, 600), Ok(100));
        assert_eq!(grace(None, Some(60), 30_000), Ok(10));
        assert_eq!(grace(Some(10_000), None, 30_000), Ok(10_000));
        assert_eq!(
            grace(Some(10_001), None, 30_000),
            Err(crate::exit_code::USAGE)
        );
        assert_eq!(
            grace(Some(21), Some(60), 30_000),
            Err(crate::exit_code::USAGE)
        );
        assert_eq!(grace(Some(0), None, 30_000), Ok(0));
    }

    #[test]
    fn what_is_sent_on_loss_is_named() {
        for text in ["signal:INT", "signal:SIGINT", "signal:int", "signal:2"] {
            assert_eq!(parse(text), Ok(OnLost::Signal(Signal::INT)), "{text}");
        }
        for text in ["kill", "signal:KILL", "signal:9"] {
            assert_eq!(parse(text), Ok(OnLost::Kill), "{text}");
        }
        assert_eq!(parse("term"), Ok(OnLost::Signal(Signal::TERM)));
        assert_eq!(parse("ignore"), Ok(OnLost::Ignore));
        for text in [
            "",
            "TERM",
            "signal:",
            "signal:STOP",
            "signal:0",
            "signal:65",
            "no",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
