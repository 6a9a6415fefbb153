//! The flags of `quorlock cluster up`.

use std::path::PathBuf;

use super::home::DEFAULT_DIRECTORY;
use crate::output::Format;

/// Arguments of `quorlock cluster up`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// How many nodes; a lock needs more than half of them (default: 5)
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(super) nodes: Option<u16>,
    /// Port of the first node, the others follow; 0 takes any free block (default: 7001, or the
    /// next free block)
    #[arg(long, value_name = "PORT")]
    pub(super) base_port: Option<u16>,
    /// Where the cluster keeps its data
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    pub(super) dir: PathBuf,
    /// For tests: keep nothing. The nodes are in memory, inside this process, and can lose their power,
    /// have a full disk, be cut off, slow and advanced in time
    #[arg(long, conflicts_with = "dir")]
    pub(super) ephemeral: bool,
    /// When the nodes sync their logs to disk (default: everysec)
    #[arg(long, value_name = "MODE", value_parser = ["always", "everysec", "no"])]
    pub(super) appendfsync: Option<String>,
    /// The nodes speak TLS alone, with certificates that are made at the first start, for this machine
    #[arg(long)]
    pub(super) tls: bool,
    /// Run the nodes inside this process instead of one process each
    #[arg(long)]
    pub(super) in_process: bool,
    /// Return once all nodes serve, and leave the cluster running
    #[arg(long)]
    pub(super) detach: bool,
    /// Print what happens line by line, also on a terminal, which else shows a live table
    #[arg(long)]
    pub(super) no_tui: bool,
    /// Port of the page that shows nodes and locks in a browser; 0 takes any free one (default: 8701, or the next free one,
    /// and with --json or --ephemeral no page)
    #[arg(long, value_name = "PORT", conflicts_with = "no_page")]
    pub(super) page_port: Option<u16>,
    /// Serve no page
    #[arg(long)]
    pub(super) no_page: bool,
    /// Let so many callers take locks all the time, and check that no lock has two holders (default: 20)
    #[arg(long, value_name = "CALLERS", num_args = 0..=1, default_missing_value = "20", value_parser = parse_callers)]
    pub(super) with_load: Option<u16>,
    /// Write a JSON description of the cluster here once all nodes serve; removed at the end, and
    /// before the start if one of an earlier run is there
    #[arg(long, value_name = "FILE")]
    pub(super) ready_file: Option<PathBuf>,
    /// This is the background half of --detach
    #[arg(long, hide = true)]
    pub(super) detached: bool,
    /// Remove the directory at the end, as for --ephemeral whose directory is known
    #[arg(long, hide = true)]
    pub(super) remove: bool,
}

fn parse_count(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(count @ 1..=NODES_MAX) => Ok(count),
        Ok(0) => {
            Err("a cluster has at least one node, and five to survive two failures".to_owned())
        }
        _ => Err(format!(
            "'{text}' is not a number of nodes from 1 to {NODES_MAX}"
        )),
    }
}

fn parse_callers(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(count @ 1..=CALLERS_MAX) => Ok(count),
        _ => Err(format!(
            "'{text}' is not a number of callers from 1 to {CALLERS_MAX}"
        )),
    }
}

const NODES_MAX: u16 = 64;
const CALLERS_MAX: u16 = 1_000;

impl Arguments {
    /// The flags about the page for the half in the background, which does not know how its caller is answered.
    pub(super) fn page_flags(&self, format: Format) -> Vec<String> {
        match self.page_port {
            Some(port) => vec!["--page-port".to_owned(), port.to_string()],
            None if self.no_page || format == Format::Json => vec!["--no-page".to_owned()],
            None => Vec::new(),
        }
    }

    pub(super) fn appendfsync(&self) -> String {
        let given = self.appendfsync.as_deref();
        given.unwrap_or("everysec").to_owned()
    }
}

const EXAMPLES: &str = "\
Examples:
  quorlock cluster up                                 five nodes, until Ctrl-C
  quorlock cluster up --appendfsync always            no restart delay after a killed process
  quorlock cluster up --ephemeral --base-port 0 --json              for a test suite
  quorlock cluster up --with-load                     kill nodes, and see that no lock gets a second holder
  quorlock cluster up --dir b --base-port 7101        a second cluster beside the first

Up again on a stopped cluster resumes it: the same nodes, ports and locks. A node that did not
stop cleanly serves no locks until everything it may have forgotten has expired.";
