//! `quorlock release`: gives back a lock taken with `acquire`.
//!
//! Only the token's own lock is freed, never that of the present holder of the name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use quorlock_client::{Cause, NodeRelease, Release};
use serde_json::json;

use crate::exit_code::{Failure, INCOMPLETE, LOST, NO_QUORUM};
use crate::lock_options::{self, NodeOptions, SpeechOptions, settle_released};
use crate::no_quorum::with_start;
use crate::output::{Format, remark};
use crate::runtime;

/// Arguments of `quorlock release`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock
    name: OsString,
    /// The token that acquire printed; - reads it from standard input
    token: OsString,
    /// End with 74 unless every node has released it
    #[arg(long)]
    require_all: bool,
    #[command(flatten)]
    nodes: NodeOptions,
    #[command(flatten)]
    speech: SpeechOptions,
}

/// Releases the lock.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    if arguments.name.is_empty() {
        return Err(Failure::usage(
            "the name of the lock is empty; nothing was sent",
        ));
    }
    let token = lock_options::token(&arguments.token)?;
    let list = arguments
        .nodes
        .clusters()?
        .having(arguments.name.as_bytes());
    let redlock = arguments.nodes.client_of(list, Some(0))?;
    runtime::block_on(async {
        let release = redlock.release(arguments.name.as_bytes(), &token).await;
        settle_released(&redlock, &release).await;
        let shown = arguments.name.display();
        if let Some(failure) = failure(&release, &shown.to_string(), arguments.require_all) {
            return Err(failure);
        }
        if arguments.speech.verbose
            && let Some(left) = left_behind(&release, &shown.to_string(), "by its ttl")
        {
            remark(left);
        }
        let value = json!({
            "name": arguments.name.to_string_lossy(),
            "freed": release.freed(),
            "nodes": release.nodes.len(),
            "unanswered": unanswered(&release),
        });
        // For a program the value is the result.
        if !arguments.speech.quiet || format == Format::Json {
            format.result(format_args!("'{shown}' is free"), &value);
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Why a release is not a success: the lock was gone before, or fewer nodes have answered than must.
fn failure(release: &Release, name: &str, must_all: bool) -> Option<Failure> {
    let mut causes = release.nodes.iter().map(|(_, told)| told);
    if let Some(NodeRelease::Not(cause @ Cause::Invalid(_))) = causes.next() {
        return Some(Failure::usage(cause));
    }
    let count = release.nodes.len();
    if release.was_lost() {
        let held = match release.freed() {
            0 => "nothing was released".to_owned(),
            freed => format!("it was released on the {freed} of {count} nodes that still held it"),
        };
        return Some(
            Failure::new(
                LOST,
                format!(
                    "'{name}' is not held under this token: it was lost or released before, or \
                     never taken with it; {held}"
                ),
            )
            .remedy(
                "if the work it protected had not ended before the lock was lost, \
                 somebody else may have worked at the same time",
            )
            .called("not-held"),
        );
    }
    let missing = unanswered(release);
    if missing.is_empty() || (release.is_free() && !must_all) {
        return None;
    }
    let told = count - missing.len();
    let missing = lines(&missing);
    let failure = if release.is_free() {
        Failure::new(
            INCOMPLETE,
            format!(
                "'{name}' is free, {told} of {count} nodes say, which is a majority. Not released \
                 on:{missing}"
            ),
        )
        .remedy("where it is still held it ends by its ttl at the latest; nothing needs to be done")
    } else {
        Failure::new(
            NO_QUORUM,
            format!(
                "'{name}' is not free yet: only {told} of {count} nodes say that it is, fewer than \
                 a majority. Not released on:{missing}"
            ),
        )
        .remedy("it ends by its ttl at the latest; release it again when the nodes answer")
    };
    Some(with_start(failure, not_released(release)))
}

/// What a release of which a majority is confirmed has left behind, in one line: nothing that its
/// caller must act on.
pub(crate) fn left_behind(release: &Release, name: &str, ends: &str) -> Option<String> {
    let missing = unanswered(release);
    (!missing.is_empty()).then(|| {
        format!(
            "'{name}' is free; where it was not released it ends {ends}: {}",
            missing.join("; ")
        )
    })
}

/// The nodes that have not answered, and why.
pub(crate) fn unanswered(release: &Release) -> Vec<String> {
    not_released(release)
        .map(|(node, cause)| format!("{node}: {cause}"))
        .collect()
}

fn not_released(release: &Release) -> impl Iterator<Item = (&str, &Cause)> {
    let nodes = release.nodes.iter();
    nodes.filter_map(|(node, told)| match told {
        NodeRelease::Not(cause) => Some((&**node, cause)),
        _ => None,
    })
}

/// Each on a line of its own, below what introduces them.
pub(crate) fn lines(missing: &[String]) -> String {
    missing.iter().map(|node| format!("\n  {node}")).collect()
}

const EXAMPLES: &str = "\
Examples:
  quorlock release nightly \"$token\"
  printf %s \"$token\" | quorlock release nightly -     where others may not see the token

Ends with 0 if a majority of the nodes has released it: the lock is free, and ends by its ttl where it
is left, which -v says. With --require-all it ends with 74 then, and with 0 if every node has released
it. Ends with 69 if fewer have, and with 70 if the lock is not held under this token.";
