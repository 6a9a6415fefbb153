//! `quorlock extend`: gives a lock taken with `acquire` more time.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use quorlock_client::{ExtendError, Lease, Loss};
use quorlock_server::show_duration;
use serde_json::json;

use crate::duration::whole_ms;
use crate::exit_code::{Failure, LOST, NO_QUORUM, USAGE};
use crate::lock_options::{self, NodeOptions, TtlOptions, VoteOptions, settle};
use crate::no_quorum::{with_start, without_vote};
use crate::output::Format;
use crate::runtime;

/// Arguments of `quorlock extend`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock
    name: OsString,
    /// The token that acquire printed; - reads it from standard input
    token: OsString,
    #[command(flatten)]
    ttl: TtlOptions,
    #[command(flatten)]
    nodes: NodeOptions,
    #[command(flatten)]
    votes: VoteOptions,
}

/// Extends the lock.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let token = lock_options::token(&arguments.token)?;
    let list = arguments
        .nodes
        .clusters()?
        .having(arguments.name.as_bytes());
    let ttl = arguments.ttl.of(&list);
    let redlock = (arguments.nodes).client_of(list, arguments.votes.spare_votes)?;
    runtime::block_on(async {
        let name = arguments.name.as_bytes();
        match redlock.extend(name, &token, ttl).await {
            Ok(lease) => {
                format.result(said(arguments, ttl, &lease), &value(arguments, &lease));
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                settle(&redlock).await;
                Err(failure(&error, &arguments.name.display().to_string()))
            }
        }
    })
}

fn value(arguments: &Arguments, lease: &Lease) -> serde_json::Value {
    json!({
        "name": arguments.name.to_string_lossy(),
        "validity_ms": whole_ms(lease.remaining()),
        "kept_ms": lease.kept().map(whole_ms),
    })
}

fn said(arguments: &Arguments, ttl: Duration, lease: &Lease) -> String {
    let name = arguments.name.display();
    match lease.kept().filter(|kept| *kept > ttl) {
        Some(kept) => format!(
            "'{name}' is not shortened: the nodes keep it for another {}, longer than the {} asked \
             for",
            show_duration(kept),
            show_duration(ttl)
        ),
        None => format!(
            "'{name}' is held for at least another {}",
            show_duration(lease.remaining())
        ),
    }
}

fn failure(error: &ExtendError, name: &str) -> Failure {
    if *error == ExtendError::Lost(Loss::BelowMajority) {
        return Failure::new(
            LOST,
            format!(
                "'{name}' is not held under this token by a majority of the nodes: it was lost or \
                 released, or never taken with it; not extended"
            ),
        )
        .remedy("stop the work it protects")
        .called("not-held");
    }
    let code = match error {
        ExtendError::NoQuorum { .. } => NO_QUORUM,
        ExtendError::Invalid { .. } => USAGE,
        _ => LOST,
    };
    let failure = Failure::new(code, error);
    match error {
        ExtendError::NoQuorum { nodes, .. } => {
            let away = without_vote(nodes);
            with_start(failure, away.map(|(report, cause)| (&*report.node, cause)))
        }
        _ => failure,
    }
}

const EXAMPLES: &str = "\
Example:
  quorlock extend nightly \"$token\" --ttl 10m || exit 1

Ends with 70 if the lock is not held under this token: stop the work it protects.";
