//! A node of an experiment: `quorlock server` on a machine that the experiment makes.
//!
//! It is for the harness alone: the process that started it must say so, and changes the machine by lines on the node's
//! standard input. Nobody's configuration can ask for a disk that forgets.

use std::ffi::OsString;
use std::io::BufRead as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use quorlock_experiment::machine::MachineControls;
use quorlock_server::NodeBuilder;
use rustix::process::getppid;

use crate::exit_code::{FAILED, Failure};
use crate::output::remark;
use crate::server;

/// The hidden first argument that makes this executable such a node.
pub(crate) const MARK: &str = "__experiment-node";

/// Runs the node. `words` are the id of the harness's process, the number of the boot, and the node's directives.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let number = |index: usize| words.get(index)?.to_str()?.parse::<u64>().ok();
    let parent = getppid().and_then(|pid| u64::try_from(pid.as_raw_nonzero().get()).ok());
    let (Some(harness), Some(boot)) = (number(0), number(1)) else {
        return refuse();
    };
    if parent != Some(harness) {
        return refuse();
    }
    let machine = Arc::new(MachineControls::default());
    server::run_prepared(words.get(2..).unwrap_or_default(), |builder, directory| {
        prepare(builder, directory, &machine, boot)
    })
}

fn refuse() -> ExitCode {
    remark(
        "this argument is for experiments, which start nodes on a disk that forgets what was not synced; \
         start a node with: quorlock server",
    );
    ExitCode::from(FAILED)
}

fn prepare(
    builder: NodeBuilder,
    directory: &Path,
    machine: &Arc<MachineControls>,
    boot: u64,
) -> Result<NodeBuilder, Failure> {
    tracing::warn!(
        "This is a node of an experiment: its disk forgets what was not synced when the process is killed"
    );
    let disk = machine.disk(directory).map_err(Failure::failed)?;
    let orders = Arc::clone(machine);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match orders.obey(&line) {
                Ok(()) => tracing::warn!("The experiment says: {line}"),
                Err(error) => tracing::error!("{error}"),
            }
        }
    });
    Ok(builder.disk(disk).clock(machine.clock(boot)))
}
