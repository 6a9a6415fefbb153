//! Killed at the n-th call, for every n, in every phase of a node's life.

use std::io;

use crate::check::{Bench, Check, Need, Record};
use crate::examine::examine;
use crate::phase::{LOG_THREAD, NODE, Phase, Stage, WORKER};
use crate::strace::Injection;
use crate::subject::{Ended, Mode};

const KIND: &str = "killed at a system call";

/// A call, after how often at least it must be met, or the check has checked nothing.
type Met = (u64, &'static str);

/// Calls at which a node is killed, by phase and thread.
const PLAN: &[(Phase, Option<&str>, &[Met])] = &[
    (Phase::FirstStart, None, START),
    (Phase::Restart, None, START),
    // Who writes and syncs depends on how long syncs take: the worker, or the log thread. So one of them must.
    (Phase::Serve, None, &[(5, "pwrite64"), (1, "fdatasync")]),
    (
        Phase::Serve,
        Some(WORKER),
        &[(0, "fdatasync"), (5, "sendto")],
    ),
    (Phase::Serve, Some(LOG_THREAD), &[(0, "fdatasync")]),
    (Phase::Rotate, None, &[(5, "pwrite64"), (1, "fdatasync")]),
    (Phase::Rotate, Some(WORKER), &[(0, "fdatasync")]),
    (Phase::Rotate, Some(LOG_THREAD), MAKING_A_SEGMENT),
    (Phase::Compact, None, &[(6, "pwrite64"), (1, "fdatasync")]),
    (Phase::Compact, Some(WORKER), &[(0, "fdatasync")]),
    (Phase::Compact, Some(LOG_THREAD), COMPACTING),
    (Phase::Rewrite, None, &[(4, "pwrite64"), (1, "fdatasync")]),
    (Phase::Rewrite, Some(WORKER), &[(0, "fdatasync")]),
    (Phase::Rewrite, Some(LOG_THREAD), REMOVING),
    (Phase::Switch, None, &[(3, "pwrite64"), (1, "fdatasync")]),
    (
        Phase::Switch,
        Some(WORKER),
        &[(0, "fdatasync"), (3, "sendto")],
    ),
    (
        Phase::Stop,
        Some(NODE),
        &[(1, "pwrite64"), (1, "fdatasync")],
    ),
    (Phase::Stop, Some(WORKER), &[(1, "close")]),
    (Phase::Stop, None, &[(1, "exit_group")]),
];

const START: &[Met] = &[
    (5, "pwrite64"),
    (2, "fdatasync"),
    (1, "fsync"),
    (1, "renameat"),
    (1, "unlinkat"),
    (1, "ftruncate"),
    (4, "openat"),
    (1, "flock"),
    (1, "getdents64"),
];

const MAKING_A_SEGMENT: &[Met] = &[
    (1, "openat"),
    (5, "pwrite64"),
    (1, "fdatasync"),
    (1, "renameat"),
    (1, "fsync"),
];

const COMPACTING: &[Met] = &[
    (1, "openat"),
    (5, "pwrite64"),
    (1, "fdatasync"),
    (1, "renameat"),
    (1, "fsync"),
    (1, "unlinkat"),
];

const REMOVING: &[Met] = &[(1, "unlinkat"), (1, "fsync")];

/// One check per phase, mode, thread and call.
pub(crate) fn checks(is_thorough: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    for mode in Mode::ALL {
        for (phase, thread, calls) in PLAN {
            // Nothing is acknowledged in a first start: the mode hardly matters.
            let is_alike = *phase == Phase::FirstStart;
            if is_alike && mode != Mode::Everysec && !is_thorough {
                continue;
            }
            for (least, call) in *calls {
                checks.push(check(mode, *phase, *thread, *least, call));
            }
        }
    }
    checks
}

fn check(
    mode: Mode,
    phase: Phase,
    thread: Option<&'static str>,
    least: u64,
    call: &'static str,
) -> Check {
    let who = match thread {
        Some(WORKER) => "worker",
        Some(NODE) => "node",
        Some(_) => "log",
        None => "all",
    };
    let name = format!("kill/{}/{}/{who}/{call}", mode.name(), phase.name());
    let need = if phase.is_start() {
        Need::Start
    } else {
        Need::Attach
    };
    Check::new(KIND, name, need, move |bench, record| {
        kill_at_each(bench, record, (mode, phase), thread, call)?;
        let is_whole = record.only.is_none();
        if is_whole && record.faults < least {
            let met = record.faults;
            record.failures.push((
                None,
                format!("{call} was met {met} times, at least {least} were expected"),
            ));
        }
        Ok(())
    })
}

fn kill_at_each(
    bench: &Bench,
    record: &mut Record,
    (mode, phase): (Mode, Phase),
    thread: Option<&str>,
    call: &str,
) -> io::Result<()> {
    let stage = Stage::set(bench, phase, mode, 7)?;
    let mut nth = record.only.unwrap_or(1);
    loop {
        let played = stage.play(thread, &Injection::kill(call, nth))?;
        if played.ended != Some(Ended::KILLED) {
            if !played.finding.is_fine() {
                record.add(Some(nth), &played.finding);
            }
            return Ok(());
        }
        let rule = stage.rule(&played);
        let mut finding = examine(&stage.launch, &stage.directory, &played.streams, rule);
        finding.join(played.finding);
        record.add(Some(nth), &finding);
        if record.only.is_some() {
            return Ok(());
        }
        nth = following(nth, bench.is_thorough);
    }
}

/// The next call at which to kill: every one, or fewer and fewer.
fn following(nth: u64, is_thorough: bool) -> u64 {
    if is_thorough || nth < 4 {
        nth + 1
    } else {
        nth * 2
    }
}
