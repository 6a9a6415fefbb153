//! `quorlock node`: gives a node its identity, once in its life, or says that its directory was put back.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use quorlock_server::config::Config;
use serde_json::json;

use crate::exit_code::Failure;
use crate::output::Format;
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
    /// Say that an older image of a node's file system was put back, so that its next start waits for restart-delay-max
    #[command(after_help = RESTORED_EXAMPLES)]
    Restored {
        /// The node's data directory, as in the directive dir; no node may run on it
        directory: PathBuf,
    },
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
    }
}

fn init(directory: &Path, config: &Config, format: Format) -> Result<ExitCode, Failure> {
    let id = quorlock_server::init(directory, config)
        .map_err(|error| Failure::failed(in_flags(&error.to_string())))?;
    let shown = directory.display();
    let text = format!("{shown} is now node {id}; start it with: quorlock server --dir {shown}");
    let (cluster, size) = (&config.cluster_id, config.cluster_size);
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

/// A configuration that says which cluster a node belongs to, and how many nodes that has.
pub(crate) fn membership(cluster: Option<&str>, size: Option<&str>) -> Result<Config, Failure> {
    let mut config = Config::default();
    for (option, name, value) in [
        ("--cluster", "cluster-id", cluster),
        ("--cluster-size", "cluster-size", size),
    ] {
        let Some(value) = value else { continue };
        config
            .set(name, &[value])
            .map_err(|problem| Failure::usage(format!("{option} {value:?}: {problem}")))?;
    }
    Ok(config)
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

const RESTORED_EXAMPLES: &str = "\
Examples:
  quorlock node restored /var/lib/quorlock

Do this after a snapshot of a volume or of a virtual machine's disk was put back, before the node's
first start from it. Nothing in such an image says that it is one: in appendfsync always the node
would serve at once, and grant again what it granted after the image was taken.";
