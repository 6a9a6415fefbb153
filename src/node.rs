//! `quorlock node`: gives a node its identity, once in its life, moves its directory, says that it was put back, has nodes take
//! fences again, or asks a node of this machine how it is.

mod health;
mod relocation;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use quorlock_client::{FenceState, NodeFences};
use quorlock_server::config::Config;
use serde_json::json;

use crate::exit_code::{Failure, NO_QUORUM};
use crate::lock_options::NodeOptions;
use crate::membership::membership;
use crate::output::{Format, shell_word};
use crate::runtime;
use crate::server::in_flags;

/// Arguments of `quorlock node`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: NodeSubcommand,
}

#[derive(Debug, clap::Subcommand)]
enum NodeSubcommand {
    /// Create a node in an empty directory, so that it serves from its first start on
    #[command(after_help = EXAMPLES)]
    Init {
        /// The node's data directory, as in the directive dir; made if it does not exist
        directory: PathBuf,
        /// Name of the cluster the node belongs to: it starts for no other cluster-id, and our client counts no
        /// votes of nodes of different clusters together
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
        /// How many nodes that cluster has: our client gets no vote of the node unless it lists as many
        #[arg(long, value_name = "N")]
        cluster_size: Option<String>,
    },
    /// Have nodes take fences again that may have lost theirs: tell them what the others took
    #[command(after_help = SYNC_EXAMPLES)]
    Sync {
        #[command(flatten)]
        nodes: NodeOptions,
        /// Where too few nodes are certain of their fences: go on above the largest that any of all nodes knows of
        ///
        /// For a cluster that is new as a whole, or whose machines all lost power at once. Fences may
        /// repeat if a disk has not kept what it acknowledged, or if one of the nodes was emptied.
        #[arg(long)]
        trust_disks: bool,
    },
    /// Say that an older image of a node's file system was put back, so that its next start waits for restart-delay-max
    #[command(after_help = RESTORED_EXAMPLES)]
    Restored {
        /// The node's data directory, as in the directive dir; no node may run on it
        directory: PathBuf,
    },
    /// Release the directory of a stopped node, so that it can be moved without a restart delay
    #[command(after_help = relocation::RELEASE_EXAMPLES)]
    Release {
        /// The node's data directory, as in the directive dir; the node must have stopped cleanly
        directory: PathBuf,
    },
    /// Adopt a released directory where it is now, so that the node starts there
    #[command(after_help = relocation::ADOPT_EXAMPLES)]
    Adopt(relocation::AdoptArguments),
    /// Ask the node or agent on this machine whether it is ready; ends with 1 and the reason if not
    #[command(after_help = health::EXAMPLES)]
    Health(health::Arguments),
}

/// Runs a subcommand of `quorlock node`.
pub(crate) fn run(arguments: Arguments, format: Format) -> Result<ExitCode, Failure> {
    match arguments.command {
        NodeSubcommand::Init {
            directory,
            cluster,
            cluster_size,
        } => {
            let config = membership(cluster.as_deref(), cluster_size.as_deref())?;
            init(&directory, &config, format)
        }
        NodeSubcommand::Restored { directory } => restored(&directory, format),
        NodeSubcommand::Release { directory } => relocation::release(&directory, format),
        NodeSubcommand::Adopt(arguments) => relocation::adopt(&arguments, format),
        NodeSubcommand::Health(arguments) => health::run(&arguments, format),
        NodeSubcommand::Sync { nodes, trust_disks } => sync(&nodes, trust_disks, format),
    }
}

fn init(directory: &Path, config: &Config, format: Format) -> Result<ExitCode, Failure> {
    let id = quorlock_server::init(directory, config)
        .map_err(|error| Failure::failed(in_flags(&error.to_string())))?;
    let shown = directory.display();
    let word = shell_word(&shown);
    let text = format!("{shown} is now node {id}; start it with: quorlock server --dir {word}");
    let (cluster, size) = (&config.cluster_id, config.cluster_size.nodes());
    let value =
        json!({ "id": id.to_string(), "dir": directory, "cluster": cluster, "cluster_size": size });
    format.result(text, &value);
    Ok(ExitCode::SUCCESS)
}

fn restored(directory: &Path, format: Format) -> Result<ExitCode, Failure> {
    let id = quorlock_server::mark_restored(directory).map_err(Failure::failed)?;
    let shown = directory.display();
    let text = format!(
        "{shown} holds node {id}, put back from an image: its next start serves no locks until restart-delay-max has passed"
    );
    format.result(text, &json!({ "id": id.to_string(), "dir": directory }));
    Ok(ExitCode::SUCCESS)
}

fn sync(nodes: &NodeOptions, trust_disks: bool, format: Format) -> Result<ExitCode, Failure> {
    let list = nodes.clusters()?.only("node sync")?;
    let redlock = nodes.client_of(list, Some(0))?;
    let (total, quorum) = (redlock.nodes().len(), redlock.quorum());
    let synced = runtime::block_on(async {
        Ok(match trust_disks {
            true => redlock.sync_fences_of_trusted_disks().await,
            false => redlock.sync_fences().await,
        })
    })?;
    let taking = synced.iter().filter(|node| node.takes_fences()).count();
    let lines: Vec<String> = synced.iter().map(ToString::to_string).collect();
    let described = |node: &NodeFences| match &node.state {
        FenceState::Certain(ceiling) => {
            json!({ "node": *node.node, "state": "certain", "ceiling": ceiling })
        }
        FenceState::Adopted(ceiling) => {
            json!({ "node": *node.node, "state": "adopted", "ceiling": ceiling })
        }
        FenceState::Uncertain {
            certain_others,
            needed,
            ..
        } => json!({
            "node": *node.node, "state": "uncertain", "certain_others": certain_others, "needed": needed,
        }),
        other => json!({ "node": *node.node, "state": "unknown", "text": other.to_string() }),
    };
    let described: Vec<_> = synced.iter().map(described).collect();
    format.result(
        lines.join("\n"),
        &json!({ "nodes": described, "taking": taking }),
    );
    if taking == total {
        return Ok(ExitCode::SUCCESS);
    }
    let meaning = match taking >= quorum {
        true => "locks can have fences meanwhile",
        false => "no lock can have a fence until then",
    };
    let what = format!(
        "{taking} of {total} nodes take fences; {meaning}, and locks without one are not concerned"
    );
    let is_uncertain = |node: &NodeFences| matches!(node.state, FenceState::Uncertain { .. });
    let remedy = match synced.iter().any(is_uncertain) {
        true => {
            "run this again when all nodes are up and their restart delays are over; where that changes nothing, see --trust-disks"
        }
        false => {
            "list all nodes of one cluster, each once, and run this again when all are up and their restart delays are over"
        }
    };
    Err(Failure::new(NO_QUORUM, what).remedy(remedy))
}

const EXAMPLES: &str = "\
Examples:
  quorlock node init /var/lib/quorlock
  quorlock server --dir /var/lib/quorlock

  quorlock node init /var/lib/quorlock --cluster orders --cluster-size 5     on each of five machines

Do this once for a new node. A directory whose contents were lost must not be initialised again
while locks of its former life may be held: started without it, the node waits until none can be.

Nodes of one cluster need the same name and size. Without a size, a client that lists two of five
nodes and a client that lists the other three can hold the same lock. With it, our client refuses a
list of another length. Libraries of others do not ask: give all clients the same list.";

const SYNC_EXAMPLES: &str = "\
Examples:
  quorlock node sync --nodes db1:7001,db2:7001,db3:7001
  quorlock node sync --nodes db1:7001,db2:7001,db3:7001 --trust-disks    all of them are new

List all nodes of the cluster. A node that is new among others, was emptied, restored, moved or
repaired, or lost power without trust-fsync yes does not know which fences it took, and takes none.
It goes on above what a majority of the others took. Locks without fences are not concerned.";

const RESTORED_EXAMPLES: &str = "\
Examples:
  quorlock node restored /var/lib/quorlock

Do this after a snapshot of a volume or of a virtual machine's disk was put back, before the node's
first start from it. Nothing in such an image says that it is one: in appendfsync always the node
would serve at once, and grant again what it granted after the image was taken.";
