//! `quorlock extend`: gives a lock taken with `acquire` more time.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use quorlock_client::{ExtendError, Token};
use serde_json::json;

use crate::duration::{self, whole_ms};
use crate::exit_code::{Failure, LOST, NO_QUORUM, USAGE};
use crate::lock_options::{NodeOptions, settle};
use crate::output::Format;
use crate::runtime;

/// Arguments of `quorlock extend`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock
    name: OsString,
    /// The token that acquire printed
    token: OsString,
    /// How long the lock lasts from now on; never shortens it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "30s", value_parser = duration::parse_ttl)]
    ttl: Duration,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Extends the lock.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let redlock = arguments.nodes.client()?;
    runtime::block_on(async {
        let token = Token::from_bytes(arguments.token.as_bytes().to_vec());
        let name = arguments.name.as_bytes();
        match redlock.extend(name, &token, arguments.ttl).await {
            Ok(lease) => {
                let left = lease.remaining();
                let shown = arguments.name.display();
                let value = json!({
                    "name": arguments.name.to_string_lossy(),
                    "validity_ms": whole_ms(left),
                });
                format.result(
                    format_args!(
                        "'{shown}' is held for another {}",
                        quorlock_server::show_duration(left)
                    ),
                    &value,
                );
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                settle(&redlock).await;
                Err(failure(&error))
            }
        }
    })
}

fn failure(error: &ExtendError) -> Failure {
    let code = match error {
        ExtendError::NoQuorum { .. } => NO_QUORUM,
        ExtendError::Invalid { .. } => USAGE,
        _ => LOST,
    };
    Failure::new(code, error)
}

const EXAMPLES: &str = "\
Example:
  quorlock extend nightly \"$token\" --ttl 10m || exit 1

Ends with 70 if the lock is not held under this token any more: stop the work it protects.";
