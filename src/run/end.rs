//! What becomes of the lock when its work has ended: it is released, or the nodes keep it.
//!
//! Invariant: what the nodes are to keep is asked for once, and this process then ends. It never waits for the time to pass.

use std::time::Duration;

use quorlock_client::{
    ClientInstant, Clock, Drift, ExtendError, Guard, Loss, Redlock, Release, SystemClock,
};
use quorlock_server::show_duration;

use super::Arguments;
use crate::duration;
use crate::exit_code::{Failure, LOST};
use crate::output::remark;
use crate::release::{left_behind, lines, unanswered};

/// The flags about how long others wait.
#[derive(Debug, clap::Args)]
pub(super) struct EndOptions {
    /// After an end of the lock that was not a release, others wait this long (default: 0)
    ///
    /// For resources that may still get what the command has sent before it was ended or cut off.
    #[arg(long, value_name = "TIME", default_value = "0", hide_default_value = true, allow_hyphen_values = true, value_parser = duration::parse)]
    pub(super) lock_delay: Duration,
    /// Leave the lock on the nodes until this much time has passed since it was acquired, if the
    /// command ends before
    ///
    /// For jobs that are shorter than the clocks of the machines differ. This process ends with
    /// the command. The lock may be kept for a ttl more.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse_ttl)]
    pub(super) hold_at_least: Option<Duration>,
}

/// The end of a lock that has just been acquired.
pub(super) struct LockEnd<'a> {
    arguments: &'a Arguments,
    redlock: &'a Redlock,
    ttl: Duration,
    prefix: String,
    acquired: ClientInstant,
}

impl<'a> LockEnd<'a> {
    pub(super) fn of(
        arguments: &'a Arguments,
        redlock: &'a Redlock,
        ttl: Duration,
        prefix: String,
    ) -> Self {
        let acquired = SystemClock.now();
        Self {
            arguments,
            redlock,
            ttl,
            prefix,
            acquired,
        }
    }

    /// What the lock's name begins with on the nodes.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The work has ended while the lock was held, as far as is known.
    pub(super) async fn done(&self, guard: Guard) -> Result<(), Failure> {
        match self.left(&guard) {
            Some(left) => self.keep(guard, left).await,
            None => self.judge_release(&guard.release_everywhere().await),
        }
    }

    /// The lock is lost, or was about to be and the work was ended.
    pub(super) async fn lost(&self, guard: Guard) {
        if let Some(left) = self.left(&guard) {
            if self.keep(guard, left).await.is_err() {
                self.tell_not_kept("it was lost");
            }
        } else if self.left_of_hold().is_some() {
            self.tell_not_kept("it was lost");
            drop(guard.into_lease());
        } else if self.arguments.end.lock_delay.is_zero() {
            let _nothing_follows = guard.release_everywhere().await;
        } else {
            // It ends by its ttl and the delay.
            drop(guard.into_lease());
        }
    }

    /// How much longer the nodes are to keep the lock. What is lost cannot be kept.
    fn left(&self, guard: &Guard) -> Option<Duration> {
        self.left_of_hold().filter(|_| guard.is_valid())
    }

    fn left_of_hold(&self) -> Option<Duration> {
        let hold = self.arguments.end.hold_at_least?;
        left_of(hold, SystemClock.now().since(self.acquired))
    }

    async fn keep(&self, guard: Guard, left: Duration) -> Result<(), Failure> {
        let lease = guard.into_lease();
        let mut kept = Ok(());
        for name in lease.names() {
            let extended = self.redlock.extend(name, lease.token(), left).await;
            kept = kept.and(extended.map(drop));
        }
        match kept {
            Ok(()) if self.arguments.speech.verbose => remark(format_args!(
                "'{}' stays on the nodes for another {}, as --hold-at-least says",
                self.arguments.shown().display(),
                show_duration(left)
            )),
            Ok(()) => {}
            Err(ExtendError::Lost(Loss::BelowMajority)) => {
                return Err(self.lost_unnoticed("fewer than a majority of the nodes hold it"));
            }
            Err(error) => self.tell_not_kept(error),
        }
        Ok(())
    }

    fn tell_not_kept(&self, why: impl std::fmt::Display) {
        remark(format_args!(
            "'{}' may be free before --hold-at-least is over: {why}",
            self.arguments.shown().display()
        ));
    }

    /// Whether the release shows that the lock was held until the command had ended.
    fn judge_release(&self, release: &Release) -> Result<(), Failure> {
        if release.was_lost() {
            return Err(self.lost_unnoticed(release));
        }
        let shown = self.arguments.shown();
        let shown = shown.display();
        let kept = self.ttl.saturating_add(self.arguments.end.lock_delay);
        let ends = format!("within {}", show_duration(kept));
        if !release.is_free() {
            remark(format_args!(
                "'{shown}' is not free yet; where it was not released it ends {ends}:{}",
                lines(&unanswered(release))
            ));
        } else if self.arguments.speech.verbose
            && let Some(left) = left_behind(release, &shown.to_string(), &ends)
        {
            remark(left);
        }
        Ok(())
    }

    fn lost_unnoticed(&self, what: impl std::fmt::Display) -> Failure {
        let shown = self.arguments.shown();
        let shown = shown.display();
        Failure::new(
            LOST,
            format!(
                "the lock '{shown}' was lost before its work had ended, which was noticed only at \
                 its end: {what}"
            ),
        )
        .remedy("somebody else may have worked at the same time: check what the command did")
    }
}

/// The ttl with which nodes keep a lock until it has been held for `hold`, whichever of their clocks is too fast.
fn left_of(hold: Duration, held: Duration) -> Option<Duration> {
    let left = hold.checked_sub(held).filter(|left| !left.is_zero())?;
    let with_drift = left.saturating_add(Drift::default().of(left));
    Some(with_drift.clamp(LEFT_LEAST, LEFT_MOST))
}

/// A lease that clients accept.
const LEFT_LEAST: Duration = Duration::from_millis(10);
const LEFT_MOST: Duration = Duration::from_secs(365 * 24 * 3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_kept_for_what_is_left_of_its_hold_and_what_clocks_may_differ() {
        let (seconds, ms) = (Duration::from_secs, Duration::from_millis);
        for (hold, held, left) in [
            (seconds(300), seconds(0), Some(ms(303_002))),
            (seconds(300), seconds(200), Some(ms(101_002))),
            (seconds(300), ms(299_999), Some(LEFT_LEAST)),
            (seconds(300), seconds(300), None),
            (seconds(300), seconds(301), None),
            (LEFT_MOST, seconds(1), Some(LEFT_MOST)),
            (Duration::MAX, Duration::ZERO, Some(LEFT_MOST)),
        ] {
            assert_eq!(left_of(hold, held), left, "{hold:?} {held:?}");
        }
    }
}
