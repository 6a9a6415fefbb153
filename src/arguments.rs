//! The command line: the list of subcommands and the help that teaches them.
//!
//! Each subcommand's own arguments are defined in its own file. `server` is listed here for the
//! help only, its words are read by the parser of node configurations.

use std::ffi::OsString;

use clap::Parser;

#[cfg(feature = "experiment")]
use crate::experiment;
use crate::inspect::{doctor, force_release, locks, members, status, wait, who};
#[cfg(feature = "http")]
use crate::page;
use crate::{acquire, agent, cluster, elect, extend, generated, log, node, release, run};

/// A lock server that speaks Redis's protocol, and Redlock over five of them.
#[derive(Debug, Parser)]
#[command(name = "quorlock", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Answer in JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Start one node: quorlock server [FILE] [--directive value ...]
    #[command(disable_help_flag = true)]
    Server {
        #[arg(value_name = "FILE and directives", trailing_var_arg = true)]
        #[arg(allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Prepare the data directory of a node
    Node(node::Arguments),
    /// Check, print, measure or cut the log in a data directory
    Log(log::Arguments),
    /// Let lock libraries that know one Redis hold their locks on the nodes
    Agent(agent::Arguments),
    /// Start and handle a cluster of nodes on this machine
    Cluster(cluster::Arguments),
    /// Show what each fsync mode loses, costs and risks when nodes crash
    #[cfg(feature = "experiment")]
    Experiment(experiment::Arguments),
    /// Run a command while holding a lock, or hold it until a signal
    #[command(visible_alias = "lock")]
    Run(run::Arguments),
    /// Lead an election until a signal, or follow who leads
    Elect(elect::Arguments),
    /// Take a lock and print its token
    Acquire(acquire::Arguments),
    /// Extend a lock taken with acquire
    Extend(extend::Arguments),
    /// Release a lock taken with acquire
    #[command(visible_alias = "unlock")]
    Release(release::Arguments),
    /// Show all locks that the nodes have, of every library
    #[command(visible_alias = "ls", alias = "list")]
    Locks(locks::Arguments),
    /// End a lock that somebody else holds
    ForceRelease(force_release::Arguments),
    /// Wait until a lock is free, without taking it
    Wait(wait::Arguments),
    /// Show who holds a lock
    Who(who::Arguments),
    /// Print what a shell completes words with: quorlock completions bash
    Completions(generated::Completions),
    /// Write man pages of all subcommands to a directory
    #[command(hide = true)]
    Man(generated::ManPages),
    /// Show what each node does, and whether locks can be taken
    Status(status::Arguments),
    /// Add a node to the list of all clients or remove one, while they take locks
    Members(members::Arguments),
    /// Find what is wrong with the nodes, each with its remedy
    Doctor(doctor::Arguments),
    /// Show nodes and locks in a browser
    #[cfg(feature = "http")]
    #[command(aliases = ["ui", "dashboard"])]
    Page(page::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  quorlock cluster up                         five nodes on this machine, in one command
  quorlock run backup -- ./backup.sh          run it while holding the lock 'backup'
  quorlock run backup                         hold the lock 'backup' until Ctrl-C
  token=$(quorlock acquire backup --ttl 1m)   take a lock in a script ...
  quorlock release backup \"$token\"            ... and give it back
  quorlock locks                              who holds what, locks of all libraries
  quorlock agent --port 6380                  locks of redis-py, redislock, Laravel, ... on five nodes
  quorlock experiment crash-recovery          what a power cut takes from each fsync mode
  quorlock server --port 6379                 one node, as redis-server would be started

Which nodes:
  --nodes host:7001,host:7002,...  or --nodes-file FILE first, then the variable QUORLOCK_NODES, then
  the cluster last started in this directory or the nearest one above it (.quorlock/current), then
  ~/.config/quorlock/nodes.conf, then /etc/quorlock/nodes.conf.

Exit codes:
  75 busy, 69 no majority of nodes answered, 70 the lock was lost, 64 wrong usage,
  74 released, but not on all nodes (release --require-all),
  127 and 126 the command to run does not exist or cannot be executed,
  66 a directory cannot be read. `log check` has codes of its own: see its help.";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory as _};

    use super::*;

    /// The long flags that people may give to a command or to one below it.
    fn add_flags(command: &Command, flags: &mut BTreeSet<String>) {
        let shown = command.get_arguments().filter(|it| !it.is_hide_set());
        flags.extend(shown.filter_map(|it| it.get_long().map(str::to_owned)));
        command
            .get_subcommands()
            .for_each(|below| add_flags(below, flags));
    }

    /// What stands behind two dashes in a text. Lines of a table are none.
    fn named(text: &str) -> BTreeSet<String> {
        let behind = text.split("--").skip(1);
        let names = behind.map(|rest| {
            let is_part = |c: char| c.is_ascii_lowercase() || c == '-';
            rest.split(|c| !is_part(c)).next().unwrap_or_default()
        });
        let is_flag = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase());
        names.filter(is_flag).map(str::to_owned).collect()
    }

    #[test]
    fn the_book_names_every_flag_and_no_other() {
        let mut known = BTreeSet::from(["help".to_owned()]);
        add_flags(&Arguments::command(), &mut known);
        let named = named(concat!(
            include_str!("../docs/book/command-line.md"),
            include_str!("../docs/book/cluster.md"),
            include_str!("../docs/book/log-tools.md"),
        ));
        let unnamed: Vec<_> = known
            .difference(&named)
            .filter(|it| *it != "version")
            .collect();
        assert!(unnamed.is_empty(), "no page names {unnamed:?}");
        // Directives of a node, a flag of another program, and flags that other tools have for ours.
        let others = BTreeSet::from(
            [
                "port",
                "appendonly",
                "full",
                "timeout",
                "nonblock",
                "nb",
                "try",
                "endpoints",
                "fair",
            ]
            .map(str::to_owned),
        );
        let unknown: Vec<_> = named
            .difference(&known)
            .filter(|it| !others.contains(*it))
            .collect();
        assert!(unknown.is_empty(), "no command has {unknown:?}");
    }
}
