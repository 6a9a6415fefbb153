//! `quorlock cluster`: five nodes on this machine, for trying things out and for tests.
//!
//! `up` supervises the nodes; every other subcommand asks that supervisor over a socket in the
//! cluster's directory, so only the parent of a node ever signals it and a recycled process id
//! cannot be hit. Nothing here but `load` knows what a lock is: a cluster is only a set of nodes.

mod actions;
mod banner;
mod certificates;
mod clean;
mod control;
pub(crate) mod current;
mod deploy;
mod detach;
mod embedded;
mod event;
mod home;
mod info;
mod latencies;
mod live;
mod load;
mod logs;
mod machine;
mod manifest;
mod member;
mod no_answer;
mod options;
mod ownership;
mod ports;
mod prepare;
mod proxy;
mod queued_output;
mod ready_file;
mod requests;
mod snapshot;
mod status;
mod supervisor;
mod up;
mod view;
mod watch;

pub(crate) use up::ServePage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::duration;
use crate::exit_code::Failure;
use crate::output::Format;

/// Arguments of `quorlock cluster`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClusterCommand {
    /// Start a cluster, or resume a stopped one
    Up(options::Arguments),
    /// Show what each node is doing; ends with 69 if fewer than a quorum serve
    Status(status::Arguments),
    /// Kill a node with kill -9; it stays down until it is restarted
    Kill {
        /// Number of the node, counted from 1
        #[arg(value_name = "N", value_parser = parse_number)]
        node: u16,
        /// With SIGTERM instead of kill -9: the node stops cleanly, and remembers its locks
        #[arg(long)]
        term: bool,
        #[command(flatten)]
        cluster: ClusterDirectory,
    },
    /// Stop a node cleanly if it runs, and start it again
    Restart(OneNode),
    /// Take a node's power: what it has not synced is gone, and it stays down (--ephemeral)
    LosePower(OneNode),
    /// Stop a node's process in its tracks (SIGSTOP), as a hung machine would
    Pause(OneNode),
    /// Let a paused node go on
    Resume(OneNode),
    /// Let nothing pass between a node and its clients, until it is healed (--ephemeral)
    Cut(OneNode),
    /// Let what a node and its clients send arrive later, until it is healed (--ephemeral)
    Slow {
        /// Number of the node, counted from 1
        #[arg(value_name = "N", value_parser = parse_number)]
        node: u16,
        /// How much later what either side sends arrives, such as 200ms
        #[arg(value_name = "TIME", allow_hyphen_values = true, value_parser = parse_delay)]
        delay: Duration,
        #[command(flatten)]
        cluster: ClusterDirectory,
    },
    /// Leave no room on a node's disk, until it is healed (--ephemeral)
    DiskFull(OneNode),
    /// End what cut, slow and disk-full have done to a node, or to all (--ephemeral)
    Heal {
        /// Number of the node (default: all)
        #[arg(value_name = "N", value_parser = parse_number)]
        node: Option<u16>,
        #[command(flatten)]
        cluster: ClusterDirectory,
    },
    /// Move the clocks of all nodes forward, past the end of locks (--ephemeral)
    Advance {
        /// How far, such as 31s
        #[arg(value_name = "TIME", allow_hyphen_values = true, value_parser = parse_step)]
        by: Duration,
        /// Only the clocks of this node
        #[arg(long, value_name = "N", value_parser = parse_number)]
        node: Option<u16>,
        #[command(flatten)]
        cluster: ClusterDirectory,
    },
    /// Print the log of a node, or of all
    Logs(logs::Arguments),
    /// Stop all nodes cleanly; their locks and data stay
    Down(ClusterDirectory),
    /// Remove a stopped cluster: its files and data, and nothing else
    Clean(ClusterDirectory),
    /// Print a Compose file for a cluster of this shape, on one machine
    Compose(deploy::Arguments),
    /// Print units and configuration for a cluster of this shape, on machines with systemd
    Systemd(deploy::Arguments),
    /// Print Kubernetes manifests for a cluster of this shape
    Kubernetes(deploy::Arguments),
}

/// Which cluster is meant.
#[derive(Clone, Debug, clap::Args)]
struct ClusterDirectory {
    /// Directory of the cluster (default: the one last started here, see .quorlock/current)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ClusterDirectory {
    /// The cluster there, or else the one last started.
    fn find(&self) -> Result<home::ClusterHome, Failure> {
        current::find(self.dir.as_deref())
    }
}

/// Which node of which cluster is meant.
#[derive(Clone, Debug, clap::Args)]
struct OneNode {
    /// Number of the node, counted from 1
    #[arg(value_name = "N", value_parser = parse_number)]
    node: u16,
    #[command(flatten)]
    cluster: ClusterDirectory,
}

fn parse_step(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        step if step < STEP_MIN => Err(format!("'{text}' is too short; the shortest is 1ms")),
        step => Ok(step),
    }
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    match parse_step(text)? {
        delay if delay > DELAY_MAX => Err(format!(
            "'{text}' is too long; the longest is 1m, and a node that nothing reaches is cut off with: \
             quorlock cluster cut N"
        )),
        delay => Ok(delay),
    }
}

fn parse_number(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("node-").unwrap_or(text);
    match digits.parse() {
        Ok(0) => Err("nodes are numbered from 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!(
            "'{text}' is not the number of a node; write 3 or node-3"
        )),
    }
}

/// Runs a subcommand of `quorlock cluster`.
pub(crate) fn run(
    arguments: Arguments,
    format: Format,
    serve_page: ServePage,
) -> Result<ExitCode, Failure> {
    use ClusterCommand as Command;
    use control::ControlRequest as Request;
    let act = |cluster: &ClusterDirectory, request| actions::run(cluster, &request, format);
    match arguments.command {
        Command::Up(arguments) => up::run(arguments, format, serve_page),
        Command::Status(status::Arguments {
            cluster,
            watch: true,
        }) => watch::run(&cluster, format),
        Command::Status(status::Arguments { cluster, .. }) => status::run(&cluster, format),
        Command::Kill {
            node,
            term,
            cluster,
        } => match term {
            true => act(&cluster, Request::Stop { node }),
            false => act(&cluster, Request::Kill { node }),
        },
        Command::Restart(OneNode { node, cluster }) => act(&cluster, Request::Restart { node }),
        Command::Pause(OneNode { node, cluster }) => act(&cluster, Request::Pause { node }),
        Command::Resume(OneNode { node, cluster }) => act(&cluster, Request::Resume { node }),
        Command::LosePower(OneNode { node, cluster }) => act(&cluster, Request::LosePower { node }),
        Command::Cut(OneNode { node, cluster }) => act(&cluster, Request::Cut { node }),
        Command::Slow {
            node,
            delay,
            cluster,
        } => act(&cluster, Request::Slow { node, delay }),
        Command::DiskFull(OneNode { node, cluster }) => act(&cluster, Request::DiskFull { node }),
        Command::Heal { node, cluster } => act(&cluster, Request::Heal { node }),
        Command::Advance { by, node, cluster } => act(&cluster, Request::Advance { node, by }),
        Command::Logs(arguments) => logs::run(&arguments),
        Command::Down(cluster) => act(&cluster, Request::Down),
        Command::Clean(cluster) => clean::run(&cluster, format),
        Command::Compose(arguments) => deploy::run(&arguments, deploy::compose, format),
        Command::Systemd(arguments) => deploy::run(&arguments, deploy::systemd, format),
        Command::Kubernetes(arguments) => deploy::run(&arguments, deploy::kubernetes, format),
    }
}

const STEP_MIN: Duration = Duration::from_millis(1);
const DELAY_MAX: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  quorlock cluster up                     five nodes on ports 7001 to 7005, until Ctrl-C
  quorlock cluster up --nodes 3 --detach  three nodes in the background
  quorlock cluster status                 from another terminal; with --watch again and again
  quorlock cluster kill 3                 what happens to my locks when a node dies?
  quorlock cluster restart 3              it answers -RESTARTDELAY until it is safe again
  quorlock cluster up --ephemeral         for tests: these nodes can also lose-power, have a full
                                          disk, and be cut off, slow and advanced in time
  quorlock cluster down                   stop; 'up' resumes with the same nodes and locks
  quorlock cluster kubernetes             manifests for as many nodes, from the same templates as
                                          those in packaging/";
