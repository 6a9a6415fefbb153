//! `quorlock node release` and `quorlock node adopt`: a directory is moved without a restart delay.
//!
//! They call `quorlock_server` and put into words what came of it. Nothing is decided here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use quorlock_server::Receipt;
use serde_json::json;

use crate::exit_code::Failure;
use crate::output::{Format, shell_word};

/// Arguments of `quorlock node adopt`.
#[derive(Debug, clap::Args)]
pub(super) struct AdoptArguments {
    /// The directory where it is now, with all its files; no node may run on it
    directory: PathBuf,
    /// What quorlock node release printed: the next start serves as after a clean stop
    #[arg(long, value_name = "RECEIPT", required_unless_present = "wait")]
    receipt: Option<Receipt>,
    /// Adopt without the receipt: the next start waits for restart-delay-max
    ///
    /// For a receipt that is lost, and for a node that has run elsewhere since its release.
    #[arg(long, conflicts_with = "receipt")]
    wait: bool,
}

/// Releases a directory.
pub(super) fn release(directory: &Path, format: Format) -> Result<ExitCode, Failure> {
    let released = quorlock_server::release(directory).map_err(Failure::failed)?;
    let (id, receipt) = (released.id, released.receipt);
    let shown = directory.display();
    let text = format!(
        "{shown} holds node {id}, released: it starts neither from there nor from a copy before it is adopted.\n\
         Move the directory with all its files, and then, where it is: quorlock node adopt DIR --receipt {receipt}\n\
         Use the receipt once. Two copies that are both adopted with it can grant the same lock, and nothing in the files shows it"
    );
    let value = json!({ "id": id.to_string(), "dir": directory, "receipt": receipt.to_string() });
    format.result(text, &value);
    Ok(ExitCode::SUCCESS)
}

/// Adopts a directory.
pub(super) fn adopt(arguments: &AdoptArguments, format: Format) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    let receipt = arguments.receipt.as_ref();
    let id = quorlock_server::adopt(directory, receipt).map_err(Failure::failed)?;
    let shown = directory.display();
    let what = match receipt {
        Some(_) => {
            "its next start is one after a clean stop; a restart delay that was not over goes on"
        }
        None => "its next start serves no locks until restart-delay-max has passed",
    };
    let word = shell_word(&shown);
    let text = format!(
        "{shown} is at home: it holds node {id}, and {what}. Remove every other copy, and start it with: quorlock server --dir {word}"
    );
    let value = json!({ "id": id.to_string(), "dir": directory, "waits": receipt.is_none() });
    format.result(text, &value);
    Ok(ExitCode::SUCCESS)
}

/// Shown below the help of `release`.
pub(super) const RELEASE_EXAMPLES: &str = "\
Examples:
  quorlock node release /var/lib/quorlock      on the old machine, once the node has stopped
  rsync -a /var/lib/quorlock/ new:/var/lib/quorlock/
  quorlock node adopt /var/lib/quorlock --receipt RECEIPT      on the new machine

A directory that was moved otherwise makes the next start wait for restart-delay-max: it could be a
copy from before the last grants. The release is the last record of the log, and no node starts after
it. So a directory that ends with it holds all that was granted.

Exit codes:
  0   released; the receipt was printed
  1   it was not released: it is no node's directory, a node runs on it, its last stop was not clean,
      or it was released before
  64  wrong usage";

/// Shown below the help of `adopt`.
pub(super) const ADOPT_EXAMPLES: &str = "\
Examples:
  quorlock node adopt /var/lib/quorlock --receipt 5b1e0c9a7d3f48268f6e2d4c1a0b9e73
  quorlock node adopt /var/lib/quorlock --wait      the receipt is lost, or the node ran elsewhere since

Adopt one copy, once. To go back to the old machine after the node has run on the new one, use
--wait, or release it on the new one first and move it back.

Exit codes:
  0   adopted
  1   it was not adopted: it is not released, or the receipt is that of another release
  64  wrong usage";
