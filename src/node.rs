//! `quorlock node init`: gives a node its identity, once in its life.

use std::path::PathBuf;
use std::process::ExitCode;

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
        /// The node's data directory, as in the directive dir
        directory: PathBuf,
        /// Name of the cluster the node belongs to; shown in INFO, no client is refused for it
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
    },
}

/// Runs a subcommand of `quorlock node`.
pub(crate) fn run(arguments: Arguments, format: Format) -> Result<ExitCode, Failure> {
    let NodeCommand::Init { directory, cluster } = arguments.command;
    let id = quorlock_server::init(&directory, cluster.as_deref()).map_err(Failure::failed)?;
    let shown = directory.display();
    let text = format!("{shown} is now node {id}; start it with: quorlock server --dir {shown}");
    format.result(text, &json!({ "id": id.to_string(), "dir": directory }));
    Ok(ExitCode::SUCCESS)
}

const EXAMPLES: &str = "\
Example:
  quorlock node init /var/lib/quorlock
  quorlock server --dir /var/lib/quorlock --first-start wait

Do this once for a new node. A directory whose contents were lost must not be initialised again
while locks of its former life may be held: started without it, the node waits until none can be.";
