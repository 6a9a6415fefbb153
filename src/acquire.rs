//! `quorlock acquire`: takes a lock for a script and prints its token.
//!
//! Nobody renews the lock afterwards: it ends by its ttl, by `release`, or lives on by `extend`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use quorlock_client::{Lease, Redlock};
use serde_json::json;

use crate::duration::whole_ms;
use crate::exit_code::Failure;
use crate::holder_options::HolderOptions;
use crate::lock_options::{NodeOptions, SpeechOptions, TtlOptions, VoteOptions, WaitOptions};
use crate::lock_variables;
use crate::output::Format;
use crate::runtime;
use crate::signals::CaughtSignals;
use crate::waiting::{self, Wanted};

/// Arguments of `quorlock acquire`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the lock
    name: OsString,
    #[command(flatten)]
    ttl: TtlOptions,
    /// Have a fence taken with the lock, and print it behind the token
    ///
    /// A number that grows with each acquisition of the name: a resource that refuses what comes
    /// with a smaller one than the largest it has seen is safe from a holder that was paused
    /// beyond its lease. All nodes must be Quorlock nodes.
    #[arg(long)]
    fence: bool,
    #[command(flatten)]
    wait: WaitOptions,
    #[command(flatten)]
    nodes: NodeOptions,
    #[command(flatten)]
    votes: VoteOptions,
    #[command(flatten)]
    speech: SpeechOptions,
    #[command(flatten)]
    holder: HolderOptions,
    /// Print export commands for a shell: QUORLOCK_NAME, QUORLOCK_TOKEN, QUORLOCK_DEADLINE, QUORLOCK_PREFIX, and
    /// QUORLOCK_FENCE with --fence
    #[arg(long)]
    export: bool,
}

/// Takes the lock.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    if arguments.export && format == Format::Json {
        return Err(Failure::usage(
            "--export is for shells and --json for programs; use one of them",
        ));
    }
    let clusters = arguments.nodes.clusters()?;
    let list = clusters.taking([arguments.name.as_bytes()])?;
    let ttl = arguments.ttl.of(&list);
    let prefix = list.prefix.clone();
    let redlock = (arguments.nodes).lock_client(list, &arguments.votes, arguments.speech.quiet)?;
    runtime::block_on(async {
        let mut signals = CaughtSignals::before_the_lock()?;
        let mut lock = redlock
            .lock(arguments.name.as_bytes())
            .ttl(ttl)
            .wait(arguments.wait.wait());
        if let Some(text) = arguments.holder.text(None) {
            lock = lock.owner_text(text);
        }
        if arguments.fence {
            lock = lock.fenced();
        }
        let acquire = |tell| lock.on_wait(tell).acquire_lease();
        let (name, speech) = (&arguments.name, &arguments.speech);
        let wanted = Wanted {
            shown: name,
            names: std::slice::from_ref(name),
            nodes: &arguments.nodes,
            is_quiet: speech.quiet,
        };
        let lease = waiting::acquire(&wanted, &redlock, &mut signals, acquire).await?;
        print(arguments, &redlock, &lease, (ttl, &prefix), format).await?;
        speech.remark_on_lock(name, lease.remaining(), redlock.nodes().len());
        if lease.remaining().is_zero() {
            let shown = quorlock_server::show_duration(ttl);
            crate::output::remark(format_args!(
                "a ttl of {shown} was over before it was printed"
            ));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints the token. A lock whose token nobody gets cannot be released by anybody, so it is
/// released here if that fails.
async fn print(
    arguments: &Arguments,
    redlock: &Redlock,
    lease: &Lease,
    (ttl, prefix): (Duration, &str),
    format: Format,
) -> Result<(), Failure> {
    let nodes: Vec<&str> = redlock.nodes().iter().map(AsRef::as_ref).collect();
    let mut value = json!({
        "name": arguments.name.to_string_lossy(),
        "token": lease.token().to_string(),
        "validity_ms": whole_ms(lease.remaining()),
        "nodes": nodes,
    });
    if let Some(fence) = lease.fence() {
        value["fence"] = fence.into();
    }
    let text = if arguments.export {
        let variables = lock_variables::of(&arguments.name, lease, prefix);
        lock_variables::as_exports(&variables)
    } else {
        let mut text = lease.token().as_bytes().to_vec();
        if let Some(fence) = lease.fence() {
            text.extend_from_slice(format!(" {fence}").as_bytes());
        }
        text
    };
    let Err(error) = format.deliver(&text, &value) else {
        return Ok(());
    };
    let release = redlock
        .release(arguments.name.as_bytes(), lease.token())
        .await;
    let shown = arguments.name.display();
    let became = if release.is_free() {
        "the lock was released again".to_owned()
    } else {
        format!(
            "the lock could not be released on a majority of the nodes and ends within {}",
            quorlock_server::show_duration(ttl)
        )
    };
    Err(Failure::failed(format!(
        "the token of '{shown}' could not be printed: {error}; {became}"
    ))
    .remedy("make room where standard output goes, or read it to its end"))
}

const EXAMPLES: &str = "\
Examples:
  token=$(quorlock acquire nightly --ttl 10m --no-wait) || exit 0   # somebody else does it
  ./nightly.sh
  quorlock release nightly \"$token\"

  exports=$(quorlock acquire nightly --export) || exit 1; eval \"$exports\"

  read -r token fence <<< \"$(quorlock acquire nightly --fence)\"

  quorlock acquire nightly --json    {\"name\":\"nightly\",\"nodes\":[...],\"token\":\"...\",\"validity_ms\":29690}

Better where it fits: quorlock run nightly -- ./nightly.sh
renews the lock while the script runs and stops the script if the lock is lost.";
