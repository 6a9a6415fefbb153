//! Waiting for a lock in a way that people can follow and interrupt.
//!
//! A signal drops the attempt; the client then releases what it took on single nodes. Who holds the
//! lock, and why there is no quorum, is said on standard error: the second at once, the first once
//! the wait is long enough to be noticed, and both again now and then. The wait goes on meanwhile,
//! because holders release and nodes come back. One that a majority refuses at its login ends,
//! because nothing will change that.
//!
//! The client tells these things when an attempt ends, so a long wait is a row of shorter ones.

use std::ffi::OsStr;
use std::future::Future;
use std::time::Duration;

use quorlock_client::{AcquireError, Cause, NodeAnswer, NodeReport, Redlock, Wait};
use quorlock_server::show_duration;

use crate::clock;
use crate::exit_code::{BUSY, FAILED, Failure, NO_QUORUM, SIGNAL_BASE, USAGE};
use crate::lock_options::settle;
use crate::output::remark;
use crate::signals::Signals;

/// Acquires a lock by repeated attempts, unless somebody interrupts the wait. After a failure the
/// client has had a moment to release what it took on single nodes.
pub(crate) async fn acquire<T, A: Future<Output = Result<T, AcquireError>>>(
    name: &OsStr,
    wait: Wait,
    redlock: &Redlock,
    signals: &mut Signals,
    attempt: impl Fn(Wait) -> A,
) -> Result<T, Failure> {
    let acquired = tokio::select! {
        acquired = attempts(name, wait, redlock, attempt) => acquired,
        signal = signals.next() => {
            let number = u8::try_from(signal.as_raw()).expect("signals end at 64");
            let shown = name.display();
            Err(Failure::new(
                number.saturating_add(SIGNAL_BASE),
                format!("interrupted while waiting for '{shown}'; it is not held"),
            ))
        }
    };
    if acquired.is_err() {
        settle(redlock).await;
    }
    acquired
}

async fn attempts<T, A: Future<Output = Result<T, AcquireError>>>(
    name: &OsStr,
    wait: Wait,
    redlock: &Redlock,
    attempt: impl Fn(Wait) -> A,
) -> Result<T, Failure> {
    let began = clock::now();
    let mut last_told = None;
    let mut next = Wait::None;
    loop {
        let error = match attempt(next).await {
            Ok(acquired) => return Ok(acquired),
            Err(error) => error,
        };
        let waited = clock::now().saturating_sub(began);
        let left = match wait {
            Wait::None => Duration::ZERO,
            Wait::For(time) => time.saturating_sub(waited),
            _ => Duration::MAX,
        };
        if let Some(failure) = refused_login(name, redlock.quorum(), &error) {
            return Err(failure);
        }
        if left.is_zero() || !may_change(&error) {
            return Err(failure(with_time(error, waited)));
        }
        let pause = tell(name, &error, waited, &mut last_told);
        next = Wait::For(pause.min(left));
    }
}

/// Whether another attempt may come to something else.
fn may_change(error: &AcquireError) -> bool {
    matches!(
        error,
        AcquireError::Busy { .. } | AcquireError::NoQuorum { .. } | AcquireError::TimedOut { .. }
    )
}

/// What a wait was last said to be about, and when.
type LastTold = Option<(std::mem::Discriminant<AcquireError>, Duration)>;

/// Says what the wait is for, if it is time to. Gives the time until it is the next time.
fn tell(name: &OsStr, error: &AcquireError, waited: Duration, last: &mut LastTold) -> Duration {
    let is_busy = matches!(error, AcquireError::Busy { .. });
    if is_busy && waited < NOTICE_AFTER {
        return NOTICE_AFTER.saturating_sub(waited).max(PAUSE_MIN);
    }
    let every = if waited < OFTEN_UNTIL { OFTEN } else { SELDOM };
    let kind = std::mem::discriminant(error);
    let is_news = last.is_none_or(|(told, at)| {
        // What nodes do is worth a line when it begins; then it is repeated seldom.
        let again = if is_busy { every } else { SELDOM };
        told != kind || waited.saturating_sub(at) + PAUSE_MIN >= again
    });
    if is_news {
        *last = Some((kind, waited));
        remark(situation(name, error, waited));
    }
    every
}

fn situation(name: &OsStr, error: &AcquireError, waited: Duration) -> String {
    let shown = name.display();
    let since = if waited < NOTICE_AFTER {
        String::new()
    } else {
        format!(" (for {} so far)", show_duration(whole_seconds(waited)))
    };
    match error {
        AcquireError::Busy {
            holder, time_left, ..
        } => {
            let holder = holder
                .as_ref()
                .map_or_else(String::new, |token| format!(" (token {})", token.hint()));
            let left = time_left.map_or_else(String::new, |left| {
                format!(" for another {} unless it is renewed", show_duration(left))
            });
            format!("waiting for '{shown}'{since}: held by another owner{holder}{left}")
        }
        AcquireError::NoQuorum { needed, nodes, .. } => {
            let missing = without_vote(nodes).count();
            format!(
                "waiting for '{shown}'{since}: no quorum, {missing} of {} nodes cannot vote and \
                 {needed} must{}",
                nodes.len(),
                causes(nodes)
            )
        }
        AcquireError::TimedOut { nodes, .. } => format!(
            "waiting for '{shown}'{since}: the votes did not come in time{}",
            causes(nodes)
        ),
        other => other.to_string(),
    }
}

fn without_vote(nodes: &[NodeReport]) -> impl Iterator<Item = (&NodeReport, &Cause)> {
    nodes.iter().filter_map(|report| match &report.answer {
        NodeAnswer::Not(Cause::NotWaitedFor) => None,
        NodeAnswer::Not(cause) => Some((report, cause)),
        _ => None,
    })
}

fn causes(nodes: &[NodeReport]) -> String {
    without_vote(nodes)
        .map(|(report, cause)| format!("\n  {}: {cause}", report.node))
        .collect()
}

/// The failure that no wait can cure: so many nodes refuse the login that the others are no
/// majority.
fn refused_login(name: &OsStr, needed: usize, error: &AcquireError) -> Option<Failure> {
    let AcquireError::NoQuorum { nodes, .. } = error else {
        return None;
    };
    let refusals = without_vote(nodes)
        // Clients come and go; passwords and protected mode stay.
        .filter(|(_, cause)| match cause {
            Cause::LoginRefused(text) => !text.contains("max number of clients"),
            _ => false,
        })
        .count();
    let (shown, count) = (name.display(), nodes.len());
    (refusals + needed > count).then(|| {
        Failure::new(
            NO_QUORUM,
            format!(
                "no quorum for '{shown}': {refusals} of {count} nodes refuse the login, and \
                 {needed} must vote; not acquired{}",
                causes(nodes)
            ),
        )
        .remedy("give user and password in the address: redis://user:password@host:port")
    })
}

/// The same error with the time of the whole wait.
fn with_time(mut error: AcquireError, time: Duration) -> AcquireError {
    if let AcquireError::Busy { waited, .. }
    | AcquireError::NoQuorum { waited, .. }
    | AcquireError::TimedOut { waited, .. } = &mut error
    {
        *waited = time;
    }
    error
}

/// What a failed acquisition means for the exit code.
fn failure(error: AcquireError) -> Failure {
    let code = match error {
        AcquireError::Busy { .. } => BUSY,
        AcquireError::NoQuorum { .. } | AcquireError::TimedOut { .. } => NO_QUORUM,
        AcquireError::Invalid { .. } => USAGE,
        _ => FAILED,
    };
    Failure::new(code, error)
}

fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

const NOTICE_AFTER: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const OFTEN: Duration = Duration::from_secs(5);
const OFTEN_UNTIL: Duration = Duration::from_secs(60);
const SELDOM: Duration = Duration::from_secs(30);
