//! `quorlock log import`: makes a node of Redis's append-only files.

use std::path::PathBuf;
use std::process::ExitCode;

use quorlock_server::append_only::{self, ImportError, ImportOptions, ImportReport};
use serde_json::json;

use crate::exit_code::{FAILED, Failure, NO_INPUT};
use crate::membership::membership;
use crate::output::{Format, shell_word};
use crate::server::in_flags;

/// Arguments of `quorlock log import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Append-only files: the directory of a redis-server, its appendonlydir, or a single file
    source: PathBuf,
    /// The data directory of the new node; it must be empty or not exist
    directory: PathBuf,
    /// Leave out the commands that a node does not have, such as those of streams and modules
    #[arg(long)]
    skip_unsupported: bool,
    /// Name of the cluster the node belongs to, as of `quorlock node init`
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// How many nodes that cluster has
    #[arg(long, value_name = "N")]
    cluster_size: Option<String>,
}

/// Makes the node, or says why not.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let config = membership(
        arguments.cluster.as_deref(),
        arguments.cluster_size.as_deref(),
    )?;
    let options = ImportOptions {
        skips_unsupported: arguments.skip_unsupported,
    };
    let report = append_only::import(&arguments.source, &arguments.directory, &config, options)
        .map_err(failure)?;
    format.result(text(&report, arguments), &value(&report, arguments));
    Ok(ExitCode::SUCCESS)
}

fn text(report: &ImportReport, arguments: &Arguments) -> String {
    let shown = arguments.directory.display();
    let mut lines = vec![format!(
        "{shown} is now node {}, with {} keys",
        report.node, report.keys
    )];
    lines.push(format!(
        "  {} commands were executed, of {} files",
        report.commands, report.files
    ));
    if report.ended > 0 {
        let ended = report.ended;
        lines.push(format!(
            "  {ended} keys were left out, because they had ended"
        ));
    }
    for (name, count) in &report.skipped {
        lines.push(format!("  {count} times {name} was left out"));
    }
    if let Some(cut) = &report.cut {
        let what = match cut.is_transaction {
            true => "a transaction without its end",
            false => "an incomplete command",
        };
        lines.push(format!(
            "  {} was cut off: its last {} bytes, from offset {}, were left out. They are {what}",
            cut.file.display(),
            cut.bytes,
            cut.offset
        ));
    }
    lines.push(
        "  what the other server granted after its last command on record is not known here: the first start serves no \
         locks until restart-delay-max has passed. Stop the other server before it"
            .to_owned(),
    );
    let word = shell_word(&shown);
    lines.push(format!("start it with: quorlock server --dir {word}"));
    lines.join("\n")
}

fn value(report: &ImportReport, arguments: &Arguments) -> serde_json::Value {
    let cut = report.cut.as_ref().map(|cut| {
        json!({
            "file": cut.file,
            "offset": cut.offset,
            "bytes": cut.bytes,
            "is_transaction": cut.is_transaction,
        })
    });
    json!({
        "id": report.node.to_string(),
        "dir": arguments.directory,
        "files": report.files,
        "commands": report.commands,
        "keys": report.keys,
        "ended": report.ended,
        "skipped": report.skipped,
        "cut": cut,
    })
}

fn failure(error: ImportError) -> Failure {
    let (code, remedy) = match &error {
        ImportError::Unreadable { .. } => (NO_INPUT, ""),
        ImportError::NoSource { .. } => (NO_INPUT, NO_SOURCE),
        ImportError::Snapshot { .. } => (REFUSED, WITHOUT_SNAPSHOT),
        ImportError::Unsupported { .. } => (REFUSED, SKIPPED),
        ImportError::Refused { .. } => (REFUSED, REWRITE),
        ImportError::Damaged { .. } | ImportError::Manifest { .. } => (REFUSED, REPAIR),
        ImportError::Target(_) => (FAILED, ""),
        _ => (REFUSED, ""),
    };
    let what = in_flags(&error.to_string());
    Failure::new(code, what).remedy(remedy)
}

/// The files hold what a node cannot take; nothing was made.
const REFUSED: u8 = 2;

const NO_SOURCE: &str = "Name the directory of a redis-server with appendonly yes, its appendonlydir, or a file. A server without \
append-only files makes them after: redis-cli config set appendonly yes";

const WITHOUT_SNAPSHOT: &str = "\
Have the server write its files without one:
redis-cli config set aof-use-rdb-preamble no
redis-cli bgrewriteaof
When `redis-cli info persistence` says aof_rewrite_in_progress:0, stop the server and import its files";

const SKIPPED: &str = "Delete these keys on the server and have it rewrite its files (redis-cli bgrewriteaof), or leave such commands out \
with --skip-unsupported: then these keys are missing";

const REWRITE: &str = "Have the server rewrite its files (redis-cli bgrewriteaof), or delete the key there first. Nothing was made";

const REPAIR: &str = "Have the server rewrite its files (redis-cli bgrewriteaof), or restore them. redis-check-aof --fix cuts a file, \
and all behind the cut is lost. Nothing was made";

/// Shown below the help.
pub(crate) const HELP: &str = "\
Reads the append-only files of a Redis or Valkey server without a snapshot in them, executes their
commands as a node does, and makes a node of what comes of it. Strings, hashes, lists, sets and
sorted sets keep their values and what is left of their times to live. What is incomplete at the end
of the last file is left out, as Redis does. The node's first start serves no locks until
restart-delay-max has passed. If anything is refused, nothing is made.

Exit codes:
  0   imported
  1   the directory cannot be made, or is not empty
  2   the files hold what a node cannot take, or are damaged
  66  the files cannot be read, or there are none
  64  wrong usage

Example:
  quorlock log import /var/lib/redis /var/lib/quorlock";
