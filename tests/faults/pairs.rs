//! Two processes where there may be one: on one directory, and on one port.

use std::fs;
use std::io;

use crate::check::{Bench, Check, Need, Record};
use crate::check_directory::CheckDirectory;
use crate::examine::{Finding, Rule, examine};
use crate::phase::listening;
use crate::stream::SMALL;
use crate::subject::{Ended, Launch, Mode};
use crate::traffic::{Traffic, streams};

const KIND: &str = "two processes";

pub(crate) fn checks() -> Vec<Check> {
    vec![
        Check::new(KIND, "pair/directory", Need::Nothing, one_directory),
        Check::new(KIND, "pair/port", Need::Nothing, one_port),
    ]
}

/// The second process refuses; the first does not notice, and loses nothing.
fn one_directory(bench: &Bench, record: &mut Record) -> io::Result<()> {
    let directory = CheckDirectory::new(&bench.scratch)?;
    let launch = Launch::new(bench, Mode::Everysec);
    let mut finding = Finding::default();
    let mut first = launch.start(&directory)?;
    let address = listening(&mut first, &directory)?;
    let mut streams = streams(5, SMALL);
    let mut traffic = Traffic::open(address, &streams)?;
    let mut came = traffic.run(&mut streams, 5, 3);
    for _ in 0..5 {
        let mut second = launch.start(&directory)?;
        let outcome = second.listening();
        if outcome != Err(Ended::Exited(1)) {
            finding.flaw(format!(
                "a second node on the directory came to {outcome:?}"
            ));
        }
        if !second.said().contains(&first.id().to_string()) {
            finding.flaw("the refusal does not name the process that has the directory");
        }
        finding.heard(&second);
        if came.is_fine() {
            came = traffic.run(&mut streams, 5, 3);
        }
    }
    if !came.is_fine() {
        finding.flaw(format!("the first node was disturbed: {came:?}"));
    }
    first.kill();
    finding.heard(&first);
    let rule = Rule {
        needs_delay: true,
        ..Rule::default()
    };
    let mut after = examine(&launch, &directory, &streams, rule);
    after.join(finding);
    record.add(None, &after);
    Ok(())
}

/// The port is bound before anything is written: the second process leaves no trace.
fn one_port(bench: &Bench, record: &mut Record) -> io::Result<()> {
    let (directory, other) = (
        CheckDirectory::new(&bench.scratch)?,
        CheckDirectory::new(&bench.scratch)?,
    );
    let launch = Launch::new(bench, Mode::Everysec);
    let mut finding = Finding::default();
    let mut first = launch.start(&directory)?;
    let port = listening(&mut first, &directory)?.port().to_string();
    let mut second = launch.clone().with(&["--port", &port]).start(&other)?;
    let outcome = second.listening();
    if outcome != Err(Ended::Exited(1)) {
        finding.flaw(format!("a second node on the port came to {outcome:?}"));
    }
    finding.heard(&second);
    let left: Vec<String> = fs::read_dir(other.data())?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name != "quorlock.lock")
        .collect();
    if !left.is_empty() {
        finding.flaw(format!("the refused node left {left:?}"));
    }
    first.kill();
    finding.heard(&first);
    record.add(None, &finding);
    Ok(())
}
