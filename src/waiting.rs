//! Waiting for a lock in a way that people can follow and interrupt.
//!
//! One call to the client waits the whole time, so it keeps its place; what it waits for is said on
//! standard error: at once that there is no quorum, who holds the lock once the wait is long enough
//! to be noticed, and both again now and then. The wait goes on meanwhile, because holders release
//! and nodes come back. A wait that cannot come to anything ends: too many nodes refuse this client
//! by their settings, the local cluster is down, or the lease is too short for the nodes' distance,
//! several times over. A signal drops the call; the client then releases what it took on single nodes.

use std::ffi::{OsStr, OsString};
use std::future::{Future, pending};
use std::mem::discriminant;
use std::time::Duration;

use quorlock_client::{AcquireError, Redlock, TooShort, Waiting};
use quorlock_server::show_duration;
use tokio::sync::watch;

use crate::clock;
use crate::exit_code::{BUSY, FAILED, Failure, NO_QUORUM, SIGNAL_BASE, USAGE};
use crate::inspect::who;
use crate::lock_options::{NodeOptions, settle};
use crate::no_quorum::{causes, incurable, without_vote};
use crate::outer_runs;
use crate::output::remark;
use crate::signals::CaughtSignals;

/// What is called while a lock is waited for.
pub(crate) type Tell = Box<dyn Fn(&Waiting) + Send + Sync>;

/// What is waited for.
pub(crate) struct Wanted<'a> {
    /// The locks, for people.
    pub(crate) shown: &'a OsStr,
    /// The names of the locks.
    pub(crate) names: &'a [OsString],
    /// Where they are.
    pub(crate) nodes: &'a NodeOptions,
    /// Nothing is said meanwhile, but that the wait was in vain.
    pub(crate) is_quiet: bool,
}

impl Wanted<'_> {
    /// Says who holds the lock, as far as the nodes can tell.
    async fn holder(&self) -> Option<String> {
        match self.is_quiet || self.names.is_empty() {
            true => None,
            false => who::holder_of(self.nodes, self.names).await,
        }
    }
}

/// Acquires a lock by this call, unless somebody interrupts the wait. After a failure the client has had a moment to release
/// what it took on single nodes.
pub(crate) async fn acquire<T, A: Future<Output = Result<T, AcquireError>>>(
    wanted: &Wanted<'_>,
    redlock: &Redlock,
    signals: &mut CaughtSignals,
    acquire: impl FnOnce(Tell) -> A,
) -> Result<T, Failure> {
    let (tell, told) = watch::channel(None);
    let name = wanted.shown;
    let tell = Box::new(move |waiting: &Waiting| drop(tell.send_replace(Some(waiting.clone()))));
    let acquired = tokio::select! {
        biased;
        acquired = acquire(tell) => acquired.map_err(|error| failure(name, error)),
        failure = follow(name, wanted, told) => Err(failure),
        signal = signals.next() => {
            let number = u8::try_from(signal.as_raw()).expect("signals end at 64");
            let shown = name.display();
            Err(Failure::new(
                number.saturating_add(SIGNAL_BASE),
                format!("interrupted while waiting for '{shown}'; it is not held"),
            ))
        }
    };
    if let Err(failure) = &acquired {
        settle(redlock).await;
        if failure.code == BUSY
            && let Some(holder) = wanted.holder().await
        {
            remark(format_args!(
                "the holder of '{}' is {holder}",
                name.display()
            ));
        }
    }
    acquired
}

/// Says what the call waits for. Ends only when the wait cannot come to anything.
async fn follow(
    name: &OsStr,
    wanted: &Wanted<'_>,
    mut told: watch::Receiver<Option<Waiting>>,
) -> Failure {
    let began = clock::now();
    let mut words = Words { last: None };
    let mut times_too_short = 0;
    while told.changed().await.is_ok() {
        let Some(waiting) = told.borrow_and_update().clone() else {
            continue;
        };
        if let Waiting::NoQuorum { needed, nodes, .. } = &waiting
            && let Some(failure) = incurable(&name.display().to_string(), *needed, nodes)
        {
            return failure;
        }
        times_too_short = match &waiting {
            Waiting::TimedOut {
                too_short: Some(short),
                ..
            } if times_too_short + 1 == TOO_SHORT_MAX => return too_short(name, *short),
            Waiting::TimedOut {
                too_short: Some(_), ..
            } => times_too_short + 1,
            _ => 0,
        };
        let waited = clock::now().saturating_sub(began);
        let is_busy = matches!(waiting, Waiting::Busy { .. });
        if !wanted.is_quiet && words.are_due(discriminant(&waiting), is_busy, waited) {
            let holder = if is_busy { wanted.holder().await } else { None };
            let holder = holder.map(|holder| format!("; it is {holder}"));
            let situation = situation(name, &waiting, waited);
            let own = match &waiting {
                Waiting::Busy {
                    holder: Some(token),
                    ..
                } if outer_runs::have(token) => format!("; {OUTER}"),
                _ => String::new(),
            };
            remark(format_args!(
                "{situation}{}{own}",
                holder.unwrap_or_default()
            ));
        }
    }
    // The call has ended, and its outcome is looked at next.
    pending().await
}

/// What was said last, and after what time of waiting.
#[derive(Debug)]
struct Words<Kind> {
    last: Option<(Kind, Duration)>,
}

impl<Kind: PartialEq> Words<Kind> {
    /// Whether it is time to say this; then it counts as said.
    fn are_due(&mut self, kind: Kind, is_busy: bool, waited: Duration) -> bool {
        // What nodes do is worth a line when it begins; then it is repeated seldom.
        let is_often = is_busy && waited < OFTEN_UNTIL;
        let every = if is_often { OFTEN } else { SELDOM };
        let is_news = self
            .last
            .as_ref()
            .is_none_or(|(said, at)| *said != kind || waited.saturating_sub(*at) >= every);
        let is_too_early = is_busy && waited < NOTICE_AFTER;
        let are_due = is_news && !is_too_early;
        if are_due {
            self.last = Some((kind, waited));
        }
        are_due
    }
}

fn situation(name: &OsStr, waiting: &Waiting, waited: Duration) -> String {
    let shown = name.display();
    let since = if waited < NOTICE_AFTER {
        String::new()
    } else {
        let whole = Duration::from_secs(waited.as_secs());
        format!(" (for {} so far)", show_duration(whole))
    };
    match waiting {
        Waiting::NoQuorum { needed, nodes, .. } => {
            let missing = without_vote(nodes).count();
            format!(
                "waiting for '{shown}'{since}: no quorum, {missing} of {} nodes cannot vote and \
                 {needed} must{}",
                nodes.len(),
                causes(nodes)
            )
        }
        other => format!("waiting for '{shown}'{since}: {other}"),
    }
}

/// Another failure that no wait cures: the nodes are too far away for the lease.
fn too_short(name: &OsStr, short: TooShort) -> Failure {
    let shown = name.display();
    Failure::new(NO_QUORUM, format!("'{shown}' is not acquired: {short}")).remedy(format!(
        "use --ttl {}ms or more, or nodes that are nearer",
        short.ttl_needed.as_millis()
    ))
}

/// What a failed acquisition means for the exit code.
fn failure(name: &OsStr, error: AcquireError) -> Failure {
    if let AcquireError::NoQuorum { needed, nodes, .. } = &error
        && let Some(failure) = incurable(&name.display().to_string(), *needed, nodes)
    {
        return failure;
    }
    if let AcquireError::TimedOut {
        too_short: Some(short),
        ..
    } = &error
    {
        return too_short(name, *short);
    }
    let code = match error {
        AcquireError::Busy { .. } => BUSY,
        AcquireError::NoQuorum { .. } | AcquireError::TimedOut { .. } => NO_QUORUM,
        AcquireError::Invalid { .. } => USAGE,
        _ => FAILED,
    };
    let is_outer =
        matches!(&error, AcquireError::Busy { holder: Some(token), .. } if outer_runs::have(token));
    let failure = Failure::new(code, error);
    match is_outer {
        true => failure.remedy(OUTER),
        false => failure,
    }
}

/// Where the lock is free only once this command has ended.
const OUTER: &str = "that is the run around this command, which would wait for itself: quorlock run --reentrant runs under its lock";

/// One attempt, or two, may have met a network that was slow for a moment.
const TOO_SHORT_MAX: u32 = 3;
const NOTICE_AFTER: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_secs(5);
const OFTEN_UNTIL: Duration = Duration::from_secs(60);
const SELDOM: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_named_after_a_second_and_then_every_few() {
        let mut words = Words { last: None };
        let said: Vec<u64> = (0..130)
            .filter(|second| words.are_due("busy", true, Duration::from_secs(*second)))
            .collect();
        let often = (0..12).map(|count| 1 + 5 * count);
        assert_eq!(said, often.chain([86, 116]).collect::<Vec<_>>());
    }

    #[test]
    fn a_missing_quorum_is_told_at_once_and_then_seldom() {
        let mut words = Words { last: None };
        let mut said = Vec::new();
        for second in 0..70 {
            if words.are_due("no quorum", false, Duration::from_secs(second)) {
                said.push(second);
            }
        }
        assert_eq!(said, [0, 30, 60]);
        // What has changed is told at once.
        assert!(words.are_due("busy", true, Duration::from_secs(70)));
        assert!(words.are_due("no quorum", false, Duration::from_secs(70)));
    }
}
