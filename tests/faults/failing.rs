//! System calls that fail, or do less than asked: while a node serves, and while it starts.

use std::io;

use crate::check::{Bench, Check, Need, Record};
use crate::examine::{Rule, examine, examine_running};
use crate::phase::{LOG_THREAD, NODE, PHASE_MAX, Phase, Stage, make_segment_ahead};
use crate::strace::Injection;
use crate::subject::{Ended, Mode};

const SERVING: &str = "a call fails while the node serves";
const STARTING: &str = "a call fails while the node starts";

/// What a node must do when a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Acknowledge nothing more, and end with an exit code.
    Stops,
    /// Go on as if nothing had been.
    GoesOn,
}

/// Phase, thread, call, effect, outcome, and at which calls. Who writes and syncs depends on how long syncs take: the
/// worker, or the log thread; so no thread is named there.
type Row = (
    Phase,
    Option<&'static str>,
    &'static str,
    &'static str,
    Outcome,
    &'static [u64],
);

#[rustfmt::skip]
const EVERY_MODE: &[Row] = &[
    (Phase::Serve, None, "pwrite64", "error=EIO", STOPS, &[1, 2, 5]),
    (Phase::Serve, None, "pwrite64", "error=ENOSPC", STOPS, &[1, 4]),
    (Phase::Serve, None, "pwrite64", "error=EDQUOT", STOPS, &[3]),
    (Phase::Serve, None, "pwrite64", "error=EAGAIN", STOPS, &[2]),
    // A file system that has taken direct writes and takes them no more.
    (Phase::Serve, None, "pwrite64", "error=EINVAL", STOPS, &[1, 3]),
    (Phase::Serve, None, "pwrite64", "retval=0", STOPS, &[1, 3]),
    (Phase::Serve, None, "pwrite64", "error=EINTR", GOES_ON, &[1, 2, 3]),
    (Phase::Serve, None, "fdatasync", "error=EIO", STOPS, &[1, 2]),
    (Phase::Serve, None, "fdatasync", "error=ENOSPC", STOPS, &[1]),
    (Phase::Serve, None, "fdatasync", "error=EDQUOT", STOPS, &[1]),
    (Phase::Rotate, Some(LOG_THREAD), "pwrite64", "error=EIO", STOPS, &[1, 40]),
    (Phase::Rotate, Some(LOG_THREAD), "pwrite64", "error=ENOSPC", GOES_ON, &[1, 40]),
    (Phase::Rotate, Some(LOG_THREAD), "pwrite64", "error=EINTR", GOES_ON, &[2]),
    (Phase::Rotate, Some(LOG_THREAD), "openat", "error=EACCES", STOPS, &[1]),
    (Phase::Rotate, Some(LOG_THREAD), "openat", "error=EMFILE", GOES_ON, &[1]),
    (Phase::Rotate, Some(LOG_THREAD), "renameat", "error=EIO", STOPS, &[1]),
    (Phase::Rotate, Some(LOG_THREAD), "fsync", "error=EIO", STOPS, &[1]),
    (Phase::Compact, Some(LOG_THREAD), "unlinkat", "error=EIO", STOPS, &[1]),
    (Phase::Rewrite, Some(LOG_THREAD), "unlinkat", "error=EIO", STOPS, &[1]),
    (Phase::Rewrite, None, "pwrite64", "error=EIO", STOPS, &[1, 2]),
    (Phase::Compact, None, "fdatasync", "error=EIO", STOPS, &[1]),
    (Phase::Stop, Some(NODE), "fdatasync", "error=EIO", STOPS, &[1]),
    (Phase::Stop, Some(NODE), "pwrite64", "error=EIO", STOPS, &[1]),
];

const STOPS: Outcome = Outcome::Stops;
const GOES_ON: Outcome = Outcome::GoesOn;

/// Calls of a start, and the error each may give.
const START: &[(&str, &str)] = &[
    ("openat", "EACCES"),
    ("openat", "EIO"),
    ("openat", "EINTR"),
    ("openat", "EMFILE"),
    ("flock", "EIO"),
    ("flock", "ENOLCK"),
    ("getdents64", "EIO"),
    ("pread64", "EIO"),
    ("fdatasync", "EIO"),
    ("fsync", "EIO"),
    ("renameat", "EIO"),
    ("unlinkat", "EIO"),
    ("ftruncate", "EIO"),
    ("pwrite64", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("pwrite64", "EINTR"),
];

pub(crate) fn checks(is_thorough: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    for mode in Mode::ALL {
        for row in EVERY_MODE {
            checks.push(while_serving(mode, *row));
        }
        let sync_fails = (
            Phase::Serve,
            Some(LOG_THREAD),
            "fdatasync",
            "error=EIO",
            STOPS,
            &[1][..],
        );
        if mode == Mode::Everysec {
            checks.push(while_serving(mode, sync_fails));
        }
        // A start hardly depends on the mode.
        if mode != Mode::Everysec && !is_thorough {
            continue;
        }
        for (call, error) in START {
            for phase in [Phase::FirstStart, Phase::Restart] {
                checks.push(while_starting(mode, phase, call, error));
            }
        }
    }
    checks
}

fn while_serving(mode: Mode, row: Row) -> Check {
    let (phase, thread, call, effect, outcome, numbers) = row;
    let who = match thread {
        None => "any",
        Some(NODE) => "node",
        Some(_) => "log",
    };
    let what = effect.replace('=', "-");
    let name = format!("fail/{}/{}/{who}/{call}/{what}", mode.name(), phase.name());
    Check::new(SERVING, name, Need::Attach, move |bench, record| {
        let stage = Stage::set(bench, phase, mode, 11)?;
        let mut has_met = false;
        let wanted = record.only.map_or(numbers.to_vec(), |only| vec![only]);
        for nth in wanted {
            let injection = Injection::new(call, effect, nth);
            has_met |= fail_once(&stage, thread, &injection, outcome, nth, record)?;
        }
        if !has_met {
            let text = format!("{call} was never met");
            record.failures.push((record.only, text));
        }
        Ok(())
    })
}

/// Whether the fault was met.
fn fail_once(
    stage: &Stage,
    thread: Option<&str>,
    injection: &Injection,
    outcome: Outcome,
    nth: u64,
    record: &mut Record,
) -> io::Result<bool> {
    let played = stage.play(thread, injection)?;
    if !stage.was_injected() {
        return Ok(false);
    }
    // A stop whose last sync failed has its SHUTDOWN in the page cache, where the next start of the
    // same boot reads it back, checked and complete. So that may be called clean.
    let rule = stage.rule(&played);
    let mut finding = examine(&stage.launch, &stage.directory, &played.streams, rule);
    match (outcome, played.ended) {
        (Outcome::Stops, Some(Ended::Exited(1))) => {}
        (Outcome::Stops, ended) => {
            finding.flaw(format!("the log failed, and the node came to {ended:?}"));
        }
        (Outcome::GoesOn, ended) => {
            let is_stopping = stage.phase == Phase::Stop;
            if ended.is_some() && !is_stopping || played.came.has_failed() {
                finding.flaw(format!("did not go on: {ended:?}, {:?}", played.came));
            }
        }
    }
    finding.join(played.finding);
    record.add(Some(nth), &finding);
    Ok(true)
}

fn while_starting(mode: Mode, phase: Phase, call: &'static str, error: &'static str) -> Check {
    let name = format!("fail/{}/{}/{call}/{error}", mode.name(), phase.name());
    Check::new(STARTING, name, Need::Start, move |bench, record| {
        let stage = Stage::set(bench, phase, mode, 13)?;
        let mut nth = record.only.unwrap_or(1);
        loop {
            let injection = Injection::new(call, &format!("error={error}"), nth);
            let is_met = start_once(&stage, &injection, nth, record)?;
            if !is_met || record.only.is_some() {
                return Ok(());
            }
            nth = following(nth, bench);
        }
    })
}

/// A start under a fault either comes to an end that says why, or to a node that says the truth.
fn start_once(
    stage: &Stage,
    injection: &Injection,
    nth: u64,
    record: &mut Record,
) -> io::Result<bool> {
    let streams = stage.reset()?;
    let rule = Rule {
        may_seem_moved: true,
        ..stage.rule_for(&streams)
    };
    let launch = stage.launch.clone().injecting(injection.clone());
    let mut node = launch.start(&stage.directory)?;
    let mut finding = crate::examine::Finding::default();
    match node.listening() {
        Ok(address) => {
            let looked = examine_running(address, &streams, rule, &mut finding);
            // It may be this that meets the fault.
            let _made_or_not = make_segment_ahead(address);
            // The log thread may have failed by now.
            let has_stopped = looked.is_err() && node.end(PHASE_MAX) == Some(Ended::Exited(1));
            if let Err(error) = looked
                && !has_stopped
            {
                finding.flaw(format!("went away: {error}"));
            }
        }
        Err(Ended::Exited(code)) if code > 0 && !node.said().is_empty() => {}
        Err(ended) => finding.flaw(format!("{ended:?}:\n    {}", node.last_words())),
    }
    node.kill();
    finding.heard(&node);
    if !stage.was_injected() {
        return Ok(false);
    }
    let rule = Rule {
        may_give_time_back: node.said().contains("counts as one after a reboot"),
        ..rule
    };
    let mut after = examine(&stage.launch, &stage.directory, &streams, rule);
    after.join(finding);
    record.add(Some(nth), &after);
    Ok(true)
}

fn following(nth: u64, bench: &Bench) -> u64 {
    match nth {
        _ if bench.is_thorough => nth + 1,
        1..=3 => nth + 1,
        _ => nth * 2,
    }
}
