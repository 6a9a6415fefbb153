//! `quorlock node init`: gives a node its identity, once in its life.

use std::path::PathBuf;
use std::process::ExitCode;

use quorlock_server::config::Config;
use serde_json::json;

use crate::exit_code::Failure;
use crate::output::Format;

/// Arguments of `quorlock node`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, clap::Subcommand)]
enum NodeCommand {
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
}

/// Runs a subcommand of `quorlock node`.
pub(crate) fn run(arguments: Arguments, format: Format) -> Result<ExitCode, Failure> {
    let NodeCommand::Init {
        directory,
        cluster,
        cluster_size,
    } = arguments.command;
    let config = membership(cluster.as_deref(), cluster_size.as_deref())?;
    let id = quorlock_server::init(&directory, &config).map_err(Failure::failed)?;
    let shown = directory.display();
    let text = format!("{shown} is now node {id}; start it with: quorlock server --dir {shown}");
    let (cluster, size) = (&config.cluster_id, config.cluster_size);
    let value =
        json!({ "id": id.to_string(), "dir": directory, "cluster": cluster, "cluster_size": size });
    format.result(text, &value);
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
