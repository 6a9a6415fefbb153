//! `quorlock log export`: makes Redis's append-only files of a stopped node's log.

use std::path::PathBuf;
use std::process::ExitCode;

use quorlock_server::append_only::{self, ExportError, ExportOptions, ExportReport};
use quorlock_server::show_duration;
use serde_json::json;

use crate::exit_code::{FAILED, Failure, NO_INPUT};
use crate::output::{Format, shell_word};

/// Arguments of `quorlock log export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A stopped node's data directory
    directory: PathBuf,
    /// The directory for a redis-server; it must be empty or not exist
    target: PathBuf,
    /// Leave out what Redis has no form for: locks that are held shared, and fences
    #[arg(long)]
    skip_unsupported: bool,
}

/// Makes the files, or says why not.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let options = ExportOptions {
        skips_unsupported: arguments.skip_unsupported,
    };
    let exported = append_only::export(&arguments.directory, &arguments.target, options);
    let report = exported.map_err(failure)?;
    format.result(text(&report, arguments), &value(&report, arguments));
    Ok(ExitCode::SUCCESS)
}

fn text(report: &ExportReport, arguments: &Arguments) -> String {
    let shown = arguments.target.display();
    let keys = report.keys;
    let mut lines = vec![format!("{shown}/appendonlydir holds {keys} keys")];
    if report.ended > 0 {
        let ended = report.ended;
        lines.push(format!(
            "  {ended} keys were left out, because they had ended"
        ));
    }
    if report.shared_locks > 0 {
        let locks = report.shared_locks;
        lines.push(format!(
            "  {locks} locks that are held shared were left out"
        ));
    }
    if report.ceiling > 0 {
        let ceiling = report.ceiling;
        lines.push(format!(
            "  fences were left out: the node may have taken some up to {ceiling}"
        ));
    }
    if !report.is_same_boot {
        lines.push(
            "  the machine was started since the node stopped: how long that was ago is not known, so times to live go on \
             from where they were then"
                .to_owned(),
        );
    }
    if let Some((left, reason)) = report.delay {
        let left = show_duration(left);
        lines.push(format!(
            "  the node itself would serve no locks for {left} ({reason}), and Redis does not wait: start it after that time, \
             or a lock that was granted may be granted again"
        ));
    }
    let word = shell_word(&shown);
    lines.push(format!(
        "load it with: redis-server --appendonly yes --dir {word}"
    ));
    lines.join("\n")
}

fn value(report: &ExportReport, arguments: &Arguments) -> serde_json::Value {
    let delay = report.delay;
    json!({
        "id": report.node,
        "dir": arguments.target,
        "keys": report.keys,
        "ended": report.ended,
        "shared_locks": report.shared_locks,
        "ceiling": report.ceiling,
        "same_boot": report.is_same_boot,
        "delay_ms": delay.map(|(left, _)| left.as_millis()),
        "delay_reason": delay.map(|(_, reason)| reason),
    })
}

fn failure(error: ExportError) -> Failure {
    let (code, remedy) = match &error {
        ExportError::Unreadable(_) => (NO_INPUT, ""),
        ExportError::Refused(_) => (REFUSED, "quorlock log check says more"),
        ExportError::SharedLock { .. } | ExportError::Fences { .. } => (REFUSED, SKIPPED),
        ExportError::Running { .. } => (FAILED, "Stop it first"),
        ExportError::NotEmpty { .. } => (FAILED, "Name a new directory, or empty this one"),
        _ => (FAILED, ""),
    };
    Failure::new(code, error).remedy(remedy)
}

/// A start refuses the log, or it holds what Redis has no form for; nothing was made.
const REFUSED: u8 = 2;

const SKIPPED: &str = "--skip-unsupported leaves it out";

/// Shown below the help.
pub(crate) const HELP: &str = "\
Writes what a start of the node would serve at this moment as an append-only directory: strings,
hashes, lists, sets and sorted sets with their times to live. The data directory is left as it is;
start either the node or redis-server, not both.

Exit codes:
  0   exported
  1   a node runs, or the directory cannot be made or is not empty
  2   a start refuses the log, or it holds what Redis has no form for
  66  the data directory cannot be read, or holds no log
  64  wrong usage

Example:
  quorlock log export /var/lib/quorlock /var/lib/redis-new";
