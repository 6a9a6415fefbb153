//! `quorlock release`: gives back a lock taken with `acquire`.
//!
//! Only the token's own lock is freed, never that of the present holder of the name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use quorlock_client::{Release, Token};
use serde_json::json;

use crate::exit_code::{Failure, LOST, NO_QUORUM};
use crate::lock_options::{NodeOptions, settle_released};
use crate::output::Format;
use crate::runtime;

/// Arguments of `quorlock release`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock
    name: OsString,
    /// The token that acquire printed
    token: OsString,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Releases the lock.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    if arguments.name.is_empty() || arguments.token.is_empty() {
        return Err(
            Failure::usage("the name and the token of the lock must not be empty")
                .remedy("the token is what quorlock acquire printed"),
        );
    }
    let redlock = arguments.nodes.client()?;
    runtime::block_on(async {
        let token = Token::from_bytes(arguments.token.as_bytes().to_vec());
        let release = redlock.release(arguments.name.as_bytes(), &token).await;
        settle_released(&redlock, &release).await;
        let shown = arguments.name.display();
        if let Some(failure) = failure(&release, &shown.to_string()) {
            return Err(failure);
        }
        let (freed, count) = (release.freed(), release.nodes.len());
        let value = json!({
            "name": arguments.name.to_string_lossy(),
            "freed": freed,
            "nodes": count,
        });
        format.result(format_args!("'{shown}' is free"), &value);
        Ok(ExitCode::SUCCESS)
    })
}

/// Why a release is not a success: the lock was gone before, or too few nodes answered.
fn failure(release: &Release, name: &str) -> Option<Failure> {
    if release.was_lost() {
        let held = match release.freed() {
            0 => "nothing was released".to_owned(),
            freed => format!(
                "only {freed} of {} nodes still held it",
                release.nodes.len()
            ),
        };
        return Some(
            Failure::new(
                LOST,
                format!("'{name}' was not held under this token any more; {held}"),
            )
            .remedy(
                "if the work it protected had not ended before the lock was lost, \
                 somebody else may have worked at the same time",
            ),
        );
    }
    if !release.is_free() {
        return Some(
            Failure::new(
                NO_QUORUM,
                format!("too few nodes answered to release '{name}': {release}"),
            )
            .remedy("it ends by its ttl at the latest; release it again when the nodes answer"),
        );
    }
    None
}

const EXAMPLES: &str = "\
Example:
  quorlock release nightly \"$token\"

Ends with 70 if the lock was not held under this token any more.";
