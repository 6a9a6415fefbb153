//! `quorlock log repair`: cuts a log that a start refuses, if the operator says so.

use std::path::PathBuf;
use std::process::ExitCode;

use quorlock_server::inspection::{RepairError, RepairReport, plan_repair};
use quorlock_server::show_duration;
use serde_json::json;

use super::check::unreadable;
use crate::exit_code::{FAILED, Failure};
use crate::output::Format;

/// Arguments of `quorlock log repair`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A stopped node's data directory
    directory: PathBuf,
    /// Cut the log, and accept that locks which were granted may be gone
    #[arg(long)]
    accept_lost_locks: bool,
}

/// Cuts a log, or says what would be cut.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let planned = match plan_repair(&arguments.directory) {
        Ok(planned) => planned,
        Err(error @ RepairError::NothingToRepair { .. }) => {
            let done = json!({ "repaired": false, "reason": error.to_string() });
            format.result(&error, &done);
            return Ok(ExitCode::SUCCESS);
        }
        Err(RepairError::Unreadable(error)) => return Err(unreadable(error)),
        Err(error) => return Err(Failure::new(FAILED, error)),
    };
    let report = planned.report();
    if !arguments.accept_lost_locks {
        let text = format!(
            "{}\nNothing was changed. To do this: quorlock log repair {} --accept-lost-locks",
            plan(&report, "would be"),
            arguments.directory.display()
        );
        format.result(text, &value(&report, None));
        return Ok(ExitCode::from(NOT_REPAIRED));
    }
    let repaired = planned
        .commit()
        .map_err(|error| Failure::new(FAILED, error))?;
    let folder = &repaired.folder;
    let text = format!("{}\nwhat was cut lies in {folder}", plan(&report, "was"));
    format.result(text, &value(&report, Some(folder)));
    Ok(ExitCode::SUCCESS)
}

fn plan(report: &RepairReport, verb: &str) -> String {
    let finding = &report.finding;
    let (file, what) = (&finding.file, &finding.what);
    let kept = match &report.cut {
        Some(cut) => format!(
            "kept {verb} everything up to position {}, which ends in {} at offset {}",
            cut.position, cut.file, cut.offset
        ),
        None => "nothing of the log can be kept".to_owned(),
    };
    let aside = match report.set_aside.as_slice() {
        [] => String::new(),
        names => format!("\nset aside {verb}: {}", names.join(", ")),
    };
    let wait = show_duration(report.wait);
    format!(
        "a start refuses this log: {file}: {what}\n{kept}{aside}\n\
         the next start serves no locks for at least {wait}, until the locks that may be lost have expired. \
         Locks without TTL, or with a longer one, may be gone for good: make sure that nobody relies on one"
    )
}

fn value(report: &RepairReport, folder: Option<&str>) -> serde_json::Value {
    json!({
        "repaired": folder.is_some(),
        "folder": folder,
        "kept_position": report.cut.as_ref().map(|cut| cut.position.get()),
        "cut_file": report.cut.as_ref().map(|cut| &cut.file),
        "cut_offset": report.cut.as_ref().map(|cut| cut.offset),
        "set_aside": report.set_aside,
        "wait_ms": report.wait.as_millis(),
        "finding": { "kind": report.finding.kind.name(), "what": report.finding.what },
    })
}

/// The log is still one that a start refuses.
const NOT_REPAIRED: u8 = 2;

/// Shown below the help.
pub(crate) const HELP: &str = "\
Without the flag it says what it would cut, changes nothing and ends with 2. It cuts only what a
start refuses, and only back to where the log is provably whole. What is cut off is kept in a folder
of the data directory. The next start serves no locks for restart-delay-max, or longer.

Exit codes:
  0   repaired, or there was nothing to repair
  1   failed, or the log is refused for a reason that no cut mends
  2   it could be repaired; nothing was changed
  66  the directory cannot be read, or holds no log
  64  wrong usage

Example:
  quorlock log check /var/lib/quorlock; quorlock log repair /var/lib/quorlock";
