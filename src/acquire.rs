//! `quorlock acquire`: takes a lock for a script and prints its token.
//!
//! Nobody renews the lock afterwards: it ends by its ttl, by `release`, or lives on by `extend`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use crate::duration::{self, whole_ms};
use crate::exit_code::Failure;
use crate::lock_options::{NodeOptions, WaitOptions};
use crate::output::Format;
use crate::signals::Signals;
use crate::{runtime, waiting};

/// Arguments of `quorlock acquire`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock
    name: OsString,
    /// How long the lock lasts; nobody renews it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "30s", value_parser = duration::parse_ttl)]
    ttl: Duration,
    #[command(flatten)]
    wait: WaitOptions,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// Takes the lock.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let redlock = arguments.nodes.client()?;
    runtime::block_on(async {
        let mut signals = Signals::that_interrupt()?;
        let request = redlock
            .lock(arguments.name.as_bytes())
            .ttl(arguments.ttl)
            .wait(arguments.wait.wait())
            .acquire_lease();
        let lease = waiting::acquire(&arguments.name, &redlock, &mut signals, request).await?;
        let nodes: Vec<&str> = redlock.nodes().iter().map(AsRef::as_ref).collect();
        let value = json!({
            "name": arguments.name.to_string_lossy(),
            "token": lease.token().to_string(),
            "validity_ms": whole_ms(lease.remaining()),
            "nodes": nodes,
        });
        format.result(lease.token(), &value);
        if lease.remaining().is_zero() {
            let shown = quorlock_server::show_duration(arguments.ttl);
            crate::output::remark(format_args!(
                "a ttl of {shown} was over before it was printed"
            ));
        }
        Ok(ExitCode::SUCCESS)
    })
}

const EXAMPLES: &str = "\
Examples:
  token=$(quorlock acquire nightly --ttl 10m --no-wait) || exit 0   # somebody else does it
  ./nightly.sh
  quorlock release nightly \"$token\"

  quorlock acquire nightly --json    {\"name\":\"nightly\",\"nodes\":[...],\"token\":\"...\",\"validity_ms\":29690}

Better where it fits: quorlock run nightly -- ./nightly.sh
renews the lock while the script runs and stops the script if the lock is lost.";
