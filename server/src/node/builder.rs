//! Preparing a node: configuration, disk and clock.

use std::path::PathBuf;
use std::sync::Arc;

use quorlock_persistence::{Disk, DiskLock, LogOptions, MemoryDisk};
use tokio::sync::{oneshot, watch};

use crate::clock::{Clock, SystemClock};
use crate::config::{Config, LogFormat, Supervised, SystemFiles};
use crate::node::call::ConnectionPool;
use crate::node::start::{Opened, cores, system_random};
use crate::node::{Node, StateWatch, identity, socket_of, threads};
use crate::runtime::{descriptors, process};
use quorlock_node::core::compaction::PART_BYTES;
use quorlock_node::core::process::LogFilter;
use quorlock_node::core::upstream::Upstream;
use quorlock_node::start::{StartError, StartPlan};

/// A node that has not been started.
///
/// The order of calls does not matter: what is said of one setting holds over [`NodeBuilder::config`] and
/// [`NodeBuilder::ephemeral`], and where one setting is given twice the last one counts. Calls that contradict each other are
/// refused by [`NodeBuilder::start`].
#[derive(Default)]
pub struct NodeBuilder {
    config: Config,
    /// What was said beside the configuration.
    settings: Vec<Setting>,
    is_ephemeral: bool,
    disk: Option<Arc<dyn Disk>>,
    /// `None`: the machine's.
    clock: Option<Arc<dyn Clock>>,
    owns_process: bool,
    upstream: Option<Arc<dyn Upstream>>,
    opened: Opened,
    log_filter: Option<LogFilter>,
}

/// What was said of one directive.
#[derive(Clone, Debug)]
enum Setting {
    Directive(String, Vec<String>),
    /// A path need not be text.
    Directory(PathBuf),
}

impl NodeBuilder {
    /// A node for tests: any free port of 127.0.0.1, its log in memory, a new identity each time,
    /// serving at once. Nothing of it is left when it stops. A port, a disk or directives that are given hold instead; a
    /// directory contradicts it. With a Unix socket it has a TCP port only if one is given.
    #[must_use]
    pub fn ephemeral(mut self) -> Self {
        self.is_ephemeral = true;
        self
    }

    /// The port to listen on; 0 takes any free one, which [`Node::address`](crate::Node::address) names: for tests.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.directive("port", &[&port.to_string()])
    }

    /// The data directory, of this node alone. It must exist; [`init`](crate::init) makes that of a new node, once, when a machine is set up.
    #[must_use]
    pub fn dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.push(Setting::Directory(directory.into()));
        self
    }

    /// Sets a directive as a line of the configuration file would; a mistake is reported by
    /// [`NodeBuilder::start`].
    #[must_use]
    pub fn directive(mut self, name: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned());
        let setting = Setting::Directive(name.to_ascii_lowercase(), values.collect());
        self.settings.push(setting);
        self
    }

    /// Takes a whole configuration, in place of the default one: for programs that read a file as `quorlock server` does. Other calls
    /// override it, in any order.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Keeps the log on this disk instead of a directory. A second node started on the same
    /// [`MemoryDisk`] after the first has stopped is the same node restarted; beside it, it is refused.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Reads this clock instead of the machine's: a [`SettableClock`](crate::clock::SettableClock) in tests, which moves the node's time. A
    /// client that is given the same one moves along.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The process exists for this node, as that of `quorlock server` does. Its limit of open files is raised for
    /// `maxclients`, as far as it may; without this the limit, which all nodes of a process share, is the program's business.
    /// And the program itself does what `logfile`, `log-format`, `syslog-enabled`, `pidfile` and
    /// `supervised` say, which are refused otherwise.
    #[must_use]
    pub fn owns_process(mut self) -> Self {
        self.owns_process = true;
        self
    }

    /// Calls this with the new level when CONFIG SET changes `loglevel`; without it that is refused, since what is logged is the
    /// program's business. The level of the start is for the program to set.
    #[must_use]
    pub fn log_filter(
        mut self,
        set: impl Fn(crate::config::LogLevel) + Send + Sync + 'static,
    ) -> Self {
        self.log_filter = Some(Arc::new(set));
        self
    }

    /// For a program that answers Redis's protocol from somewhere else: commands on keys, scripts and PUBLISH are executed by
    /// `upstream` instead of the node, which keeps connections, passwords and limits and no key. It refuses WATCH, databases
    /// but 0 and CLIENT TRACKING. Such a node has nothing to keep in a directory: [`NodeBuilder::start`] refuses it
    /// without [`NodeBuilder::ephemeral`].
    #[must_use]
    pub fn upstream(mut self, upstream: Arc<dyn Upstream>) -> Self {
        self.upstream = Some(upstream);
        self
    }

    /// Listens on sockets that were opened before the process started, as systemd does for its units, and on no others: `bind`,
    /// `port` and `unixsocket` do not count then. The name of the Unix socket stays when the node stops. Without any socket this says
    /// nothing.
    #[must_use]
    pub fn listen_on(
        mut self,
        listeners: Vec<std::net::TcpListener>,
        socket: Option<std::os::unix::net::UnixListener>,
    ) -> Self {
        self.opened = Opened { listeners, socket };
        self
    }

    /// Starts the node. It answers when this returns; whether it grants at once is for its past
    /// to say: [`Node::serving`] waits for it. Everything that takes time is done on the node's
    /// own threads. A future that is dropped stops the node as soon as it has started.
    ///
    /// # Errors
    /// When a directive is wrong, the address is taken, the directory or its log cannot be used,
    /// or the machine's clock shows a time before its zero.
    pub async fn start(self) -> Result<Node, StartError> {
        let (ready, started) = oneshot::channel();
        let (sender, outcome) = watch::channel(None);
        let supervisor =
            threads::spawn(|| self.plan(), ready, sender).map_err(StartError::Thread)?;
        match started.await {
            Ok(Ok((unwanted, address, in_process, heartbeat))) => {
                let node = unwanted.take();
                Ok(Node {
                    states: Box::new(StateWatch::of(&node, outcome)),
                    socket: socket_of(&node.config),
                    node,
                    address,
                    calls: ConnectionPool::new(Arc::clone(&in_process)),
                    in_process,
                    heartbeat,
                    supervisor: Some(supervisor),
                })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StartError::Panicked),
        }
    }
}

impl NodeBuilder {
    /// What the node starts from, and its hold of the disk. Opens the directory, so it may wait for the disk.
    fn plan(self) -> Result<(StartPlan, Opened, DiskLock), StartError> {
        let config = self.resolved().map_err(StartError::Config)?;
        let clock = match self.clock {
            Some(clock) => clock,
            None => machine_clock()?,
        };
        let disk = match self.disk {
            Some(disk) => disk,
            None if self.is_ephemeral => Arc::new(MemoryDisk::default()),
            None => identity::open(&config.dir)?,
        };
        if self.owns_process {
            descriptors::raise(config.maxclients);
        }
        let hold = disk.hold().map_err(StartError::Open)?;
        let plan = StartPlan {
            config,
            clock,
            process: process::own(self.owns_process),
            disk,
            sizes: LogOptions::default(),
            part_bytes: PART_BYTES,
            random: Arc::new(system_random),
            files: Some(Arc::new(SystemFiles)),
            cores: cores(),
            upstream: self.upstream,
            certificates: None,
            metrics: None,
            log_filter: self.log_filter,
        };
        Ok((plan, self.opened, hold))
    }

    /// The configuration that all calls together give.
    fn resolved(&self) -> Result<Config, String> {
        if let Some(contradiction) = self.contradiction() {
            return Err(contradiction.to_owned());
        }
        let mut config = self.config.clone();
        let mut set = |name: &str, values: &[String]| {
            let outcome = config.set(name, values);
            outcome.map_err(|problem| format!("{name}: {problem}"))
        };
        if self.is_ephemeral {
            for (name, value) in EPHEMERAL {
                set(name, &[value.to_owned()])?;
            }
        }
        let mut directory = None;
        for setting in &self.settings {
            match setting {
                Setting::Directive(name, values) => {
                    set(name, values)?;
                    directory = directory.filter(|_| name != "dir");
                }
                Setting::Directory(path) => directory = Some(path),
            }
        }
        if let Some(path) = directory {
            config.dir.clone_from(path);
        }
        config.check_ranges()?;
        if !self.owns_process
            && let Some(name) = of_the_process(&config)
        {
            return Err(format!(
                "{name} is a matter of the program that the node is embedded in: remove it from the node's configuration, and \
                 let the program do it. A program that does what it says calls NodeBuilder::owns_process"
            ));
        }
        Ok(config)
    }

    /// Two calls of which one would be lost.
    fn contradiction(&self) -> Option<&'static str> {
        let names_directory = self.settings.iter().any(|setting| match setting {
            Setting::Directory(_) => true,
            Setting::Directive(name, _) => name == "dir",
        });
        match (self.is_ephemeral, &self.disk) {
            (false, _) if self.upstream.is_some() => Some(
                "a node with an upstream keeps no key, so it needs no directory: call NodeBuilder::ephemeral as well",
            ),
            (true, _) if names_directory || self.config.dir != Config::default().dir => Some(
                "dir contradicts NodeBuilder::ephemeral, which keeps nothing in a directory: leave one of the two out",
            ),
            (_, Some(_)) if names_directory => Some(
                "dir contradicts NodeBuilder::disk, which keeps the log elsewhere: leave one of the two out",
            ),
            _ => None,
        }
    }
}

/// What a node is told that is meant for its process.
fn of_the_process(config: &Config) -> Option<&'static str> {
    let is_supervised = config.reports.supervised != Supervised::No;
    let logfile = config.logfile.is_some().then_some("logfile");
    let pidfile = config.pidfile.is_some().then_some("pidfile");
    let supervised = is_supervised.then_some("supervised");
    let is_json = config.reports.log_format != LogFormat::Redis;
    let log_format = is_json.then_some("log-format");
    let syslog = config.reports.syslog.is_enabled.then_some("syslog-enabled");
    logfile.or(pidfile).or(supervised).or(log_format).or(syslog)
}

/// What an ephemeral node is told unless its program says otherwise.
const EPHEMERAL: [(&str, &str); 3] = [
    ("bind", "127.0.0.1"),
    ("first-start", "serve"),
    ("port", "0"),
];

fn machine_clock() -> Result<Arc<dyn Clock>, StartError> {
    match SystemClock.before_zero() {
        Some(clock) => Err(StartError::ClockBeforeZero(clock)),
        None => Ok(Arc::new(SystemClock)),
    }
}

impl std::fmt::Debug for NodeBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("NodeBuilder")
            .field("config", &self.config)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
