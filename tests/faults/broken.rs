//! The checker checked: setups that are broken on purpose, each of which it must report.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use quorlock_testkit::Connection;

use crate::aged::{Aged, Last};
use crate::check::{Bench, Check, Need, Record};
use crate::examine::{Finding, Rule, examine};
use crate::op::Op;
use crate::phase::listening;
use crate::subject::Mode;

const KIND: &str = "self-test: a broken setup is reported";

/// Breaks something, and says what the verdict must complain of.
type Break = fn(&Bench) -> io::Result<(Finding, &'static str)>;

pub(crate) fn checks() -> Vec<Check> {
    let broken: [(&str, Break); 7] = [
        ("truncated-after-the-crash", truncated),
        ("no-restart-delay", no_delay),
        ("clean-stop-that-was-a-kill", not_clean),
        ("write-that-never-happened", imagined),
        ("ttl-cut-short", shortened),
        ("key-nobody-wrote", other_user),
        ("delay-too-short", delay_too_short),
    ];
    let checks = broken.map(|(name, action)| {
        Check::new(KIND, format!("broken/{name}"), Need::Nothing, {
            move |bench, record: &mut Record| {
                let (finding, complaint) = action(bench)?;
                let all = [finding.losses, finding.flaws].concat().join("; ");
                let mut verdict = Finding::default();
                if !all.contains(complaint) {
                    verdict.flaw(format!("must complain of {complaint:?}, but said {all:?}"));
                }
                record.add(None, &verdict);
                Ok(())
            }
        })
    });
    checks.into()
}

const KILLED: Rule = Rule {
    needs_delay: true,
    may_be_clean: false,
    is_damaged: false,
    has_compacted: false,
    may_seem_moved: false,
    may_give_time_back: false,
};

fn verdict(aged: &Aged, rule: Rule) -> Finding {
    examine(&aged.launch, &aged.directory, &aged.streams, rule)
}

/// Somebody zeroes the end of the log between crash and restart.
fn truncated(bench: &Bench) -> io::Result<(Finding, &'static str)> {
    let aged = Aged::make(bench, Mode::Everysec, Last::Killed)?;
    let file = File::options().write(true).open(&aged.newest)?;
    let from = aged.end - 1_500;
    file.write_all_at(&[0; 1_500], from)?;
    Ok((verdict(&aged, KILLED), "writes acknowledged"))
}

/// The node is told not to wait.
fn no_delay(bench: &Bench) -> io::Result<(Finding, &'static str)> {
    let mut aged = Aged::make(bench, Mode::Everysec, Last::Killed)?;
    aged.launch = aged.launch.with(&["--restart-delay", "off"]);
    Ok((verdict(&aged, KILLED), "serves at once"))
}

/// It waits, but for a millisecond.
fn delay_too_short(bench: &Bench) -> io::Result<(Finding, &'static str)> {
    let mut aged = Aged::make(bench, Mode::Everysec, Last::Killed)?;
    aged.launch = aged.launch.with(&["--restart-delay", "5000ms"]);
    Ok((verdict(&aged, KILLED), "before a lock it granted"))
}

/// The harness believes in a kill, and the node was stopped.
fn not_clean(bench: &Bench) -> io::Result<(Finding, &'static str)> {
    let aged = Aged::make(bench, Mode::Everysec, Last::Stopped)?;
    Ok((verdict(&aged, KILLED), "calls the stop clean"))
}

/// The oracle is told of a write that never happened.
fn imagined(bench: &Bench) -> io::Result<(Finding, &'static str)> {
    let mut aged = Aged::make(bench, Mode::Everysec, Last::Killed)?;
    aged.streams[1].imagine(Op::Set {
        key: "b:imagined".to_owned(),
        value: b"v".as_slice().into(),
        ttl: None,
        only_absent: false,
    });
    Ok((verdict(&aged, KILLED), "b:imagined is missing"))
}

/// The oracle is told of a longer TTL than the key has.
fn shortened(bench: &Bench) -> io::Result<(Finding, &'static str)> {
    let mut aged = Aged::make(bench, Mode::Everysec, Last::Stopped)?;
    aged.streams[0].imagine(Op::Expire {
        key: "a:long".to_owned(),
        ttl: Duration::from_secs(40_000),
    });
    let rule = Rule {
        may_be_clean: true,
        ..Rule::default()
    };
    Ok((verdict(&aged, rule), "too early"))
}

/// Somebody writes a key that no stream knows of.
fn other_user(bench: &Bench) -> io::Result<(Finding, &'static str)> {
    let aged = Aged::make(bench, Mode::Everysec, Last::Stopped)?;
    let mut node = aged.launch.start(&aged.directory)?;
    Connection::open(listening(&mut node, &aged.directory)?)?.ask(&["SET", "x:other_user", "1"])?;
    node.kill();
    Ok((verdict(&aged, KILLED), "nobody wrote it"))
}
