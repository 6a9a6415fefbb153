//! The configuration of a node: redis.conf's grammar, resolved into values that cannot be wrong.
//!
//! `directive` says what a directive is, `table` lists the ones a node uses, `redis` the ones it only
//! knows of, `kept` those of them that tools set, `catalogue` finds one by its name, `file` and `command_line` read text. Every spelling goes through `Config::set`, so a
//! value is checked in one place. It does not touch what it configures, and reads files through [`Files`].

mod bind;
#[cfg(test)]
mod book_tests;
mod catalogue;
mod clients;
mod cluster_size;
mod command_line;
mod diagnostics;
mod directive;
mod error;
mod file;
mod first_try;
mod immutable;
mod kept;
mod notice;
mod password;
mod range;
mod redis;
mod rewrite;
mod scripts;
mod settings;
mod suggest;
mod supervision;
mod table;
#[cfg(test)]
mod tests;
mod times;
mod tls;
mod users;
mod value;
mod warning;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorlock_engine::notifications::Events;

use users::ConfiguredUsers;

pub use bind::Bind;
pub use catalogue::directives;
pub use clients::{ClientMemory, OutputLimit, OutputLimits};
pub use cluster_size::ClusterSize;
pub(crate) use cluster_size::SizeChange;
pub use command_line::{Invocation, USAGE, parse};
pub use diagnostics::{Latency, Percentile};
pub use directive::Directive;
pub use error::{ConfigError, Origin, Problem};
pub use file::words;
pub use notice::Notice;
pub use password::Password;
pub use settings::{
    AppendFsync, DebugCommand, FirstStart, LogFormat, LogLevel, NoTtlDurability, Reports,
    RestartDelay, RestartDelayReply, Supervised, SupervisedReady, Syslog,
};
pub(crate) use tls::is_of_tls;
pub use tls::{ClientCertificates, Tls, TlsProtocols};
pub(crate) use users::read_file;

/// Everything a node can be told, checked. Each field is the directive of the same name.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file this was read from, as an absolute path.
    pub file: Option<PathBuf>,
    /// Addresses to listen on.
    pub bind: Vec<Bind>,
    /// TCP port; 0 takes any free one.
    pub port: u16,
    /// TLS: each field is the directive of the same name behind `tls-`.
    pub tls: Tls,
    /// Addresses of the HTTP endpoint for monitoring.
    pub metrics_bind: Vec<Bind>,
    /// Its port; `None` where there is no such endpoint, 0 takes any free one.
    pub metrics_port: Option<u16>,
    /// Whether it speaks TLS, with the certificate of `tls`.
    pub metrics_tls: bool,
    /// Names by which locks are counted apart in the metrics.
    pub metrics_lock_patterns: Vec<String>,
    /// Whether clients from other machines are refused as long as there is no password.
    pub protected_mode: bool,
    /// The Unix socket to listen on as well; a relative path begins in the data directory.
    pub unixsocket: Option<PathBuf>,
    /// Its permissions; 0 leaves them to the umask.
    pub unixsocketperm: u32,
    /// Length of the kernel's queue of connections that are not accepted yet.
    pub tcp_backlog: u32,
    /// Idle time after which the kernel probes a connection.
    pub tcp_keepalive: Option<Duration>,
    /// Idle time after which a client is disconnected.
    pub timeout: Option<Duration>,
    /// Time from connecting within which a client must have sent the password.
    pub authentication_timeout: Duration,
    /// Time within which a request that has begun must be complete.
    pub request_timeout: Option<Duration>,
    /// Time after which a client is disconnected that takes none of its replies.
    pub send_timeout: Option<Duration>,
    /// Most connections at a time.
    pub maxclients: usize,
    /// As many were wanted when the node started, where its process may not open files for all of them; else 0.
    pub maxclients_wanted: usize,
    /// The password of AUTH.
    pub requirepass: Option<Password>,
    /// The file that it was read from, if it was.
    pub requirepass_file: Option<PathBuf>,
    /// The file of users, if there is one.
    pub aclfile: Option<PathBuf>,
    /// Longest argument of a request that is read, in bytes.
    pub proto_max_bulk_len: usize,
    /// Most memory that the reply to one request may take, in bytes.
    pub proto_max_reply_len: usize,
    /// Longest request, in bytes.
    pub client_query_buffer_limit: u32,
    /// How many bytes of replies may wait for one client.
    pub client_output_buffer_limit: OutputLimits,
    /// What keys may take with their values, in bytes; 0: no limit.
    pub maxmemory: u64,
    /// How much the buffers of all clients may take together.
    pub maxmemory_clients: ClientMemory,
    /// Which events of keys are published.
    pub notify_keyspace_events: Events,
    /// How many keys are remembered for clients that keep what they read; 0: only memory is a limit.
    pub tracking_table_max_keys: u32,
    /// Where the log and everything else of this node is kept.
    pub dir: PathBuf,
    /// Whether locks are logged.
    pub appendonly: bool,
    /// When the log is synced.
    pub appendfsync: AppendFsync,
    /// Whether a log whose every write is synced goes past the page cache.
    pub log_direct_io: bool,
    /// Growth of the log, in percent, from which it is compacted; 0: only when asked.
    pub auto_aof_rewrite_percentage: u32,
    /// Size of the log, in bytes, below which it is not compacted by itself.
    pub auto_aof_rewrite_min_size: u64,
    /// How many databases there are.
    pub databases: u8,
    /// How much is logged.
    pub loglevel: LogLevel,
    /// Where the messages go; standard output when there is none.
    pub logfile: Option<PathBuf>,
    /// A file that holds the process id while the node runs.
    pub pidfile: Option<PathBuf>,
    /// Whom the node tells of itself, and how.
    pub reports: Reports,
    /// How long a stop may take before clients are cut off.
    pub shutdown_timeout: Duration,
    /// What to do in an empty directory.
    pub first_start: FirstStart,
    /// Whether to stay out after an unclean stop.
    pub restart_delay: RestartDelay,
    /// The longest TTL that a delay covers.
    pub restart_delay_max: Duration,
    /// What clients are told during the delay.
    pub restart_delay_reply: RestartDelayReply,
    /// Whether the disk keeps what it acknowledged when the power fails.
    pub trust_fsync: bool,
    /// How keys are made durable that no delay could cover.
    pub no_ttl_durability: NoTtlDurability,
    /// Whether such keys are refused.
    pub require_ttl: bool,
    /// Microseconds from which a command is in SLOWLOG; -1: none is.
    pub slowlog_log_slower_than: i64,
    /// How many entries SLOWLOG keeps.
    pub slowlog_max_len: usize,
    /// What LATENCY and INFO show of how long things took.
    pub latency: Latency,
    /// How many entries ACL LOG keeps.
    pub acllog_max_len: usize,
    /// From where DEBUG may be called.
    pub enable_debug_command: DebugCommand,
    /// Longest run of a script.
    pub script_time_limit: Duration,
    /// Longest text of a script.
    pub script_size_limit: usize,
    /// Memory that the scripts kept by SCRIPT LOAD may take.
    pub script_load_limit: usize,
    /// Whether scripts that need no interpreter run without it.
    pub script_native: bool,
    /// Threads that serve clients; 0 goes by the number of cores.
    pub workers: usize,
    /// The cluster this node belongs to.
    pub cluster_id: Option<String>,
    /// How many nodes the cluster has; 0 if that is not said.
    pub cluster_size: ClusterSize,
    /// What people call this node.
    pub node_name: Option<String>,
    /// Bound on the difference in rate between any two clocks, in millionths.
    pub clock_drift_millionths: u32,
    /// What was set of the directives that have no effect and keep their value.
    kept: BTreeMap<&'static str, String>,
    users: ConfiguredUsers,
    notices: Vec<Notice>,
}

/// The files that a configuration names.
pub trait Files {
    /// Opens one to be read.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;
    /// Whether this is no file but a pipe or a device, which could make whoever reads it wait for ever.
    fn is_special(&self, path: &Path) -> bool;
    /// The whole path, if the system says it.
    fn absolute(&self, path: &Path) -> Option<PathBuf>;
    /// Whether every user of the machine may read the file.
    fn is_public(&self, path: &Path) -> bool;
    /// Puts these bytes in the place of a file, durably: it holds the old ones or the new ones, whatever happens.
    ///
    /// # Errors
    /// What the system says. Then the file is what it was.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
}

impl Config {
    /// What a node with this configuration listens on, as Redis shows it.
    pub(crate) fn listeners(&self, port: u16) -> Vec<String> {
        let mut listeners = Vec::new();
        if port != 0 {
            let addresses = self.bind.iter().map(|bind| format!("bind={bind},"));
            listeners.push(format!(
                "name=tcp,{}port={port}",
                addresses.collect::<String>()
            ));
        }
        if let Some(tls) = self.spoken_tls() {
            let addresses = self.bind.iter().map(|bind| format!("bind={bind},"));
            listeners.push(format!(
                "name=tls,{}port={}",
                addresses.collect::<String>(),
                tls.port
            ));
        }
        if let Some(path) = &self.unixsocket {
            listeners.push(format!("name=unix,bind={}", path.display()));
        }
        listeners
    }

    /// Sets one directive, as a line of the file would. An error changes nothing. A file that holds the password is
    /// read when the node starts.
    pub fn set<S: AsRef<str>>(&mut self, name: &str, values: &[S]) -> Result<(), Problem> {
        let values: Vec<String> = values
            .iter()
            .map(|value| value.as_ref().to_owned())
            .collect();
        let directive = catalogue::named(name).ok_or_else(|| catalogue::unknown(name))?;
        let notice = directive.apply(self, &values)?;
        self.replace_notice(name, notice);
        Ok(())
    }

    fn replace_notice(&mut self, name: &str, notice: Option<String>) {
        let directive = name.to_ascii_lowercase();
        self.notices.retain(|notice| notice.directive != directive);
        if let Some(text) = notice {
            let is_inert = catalogue::named(name).is_some_and(Directive::is_inert);
            self.notices.push(Notice {
                directive,
                text,
                is_inert,
            });
        }
    }

    /// Whether CONFIG SET can change this directive. `name` in any case.
    pub fn is_live(name: &str) -> bool {
        catalogue::named(name).is_some_and(Directive::is_live)
    }

    /// Why CONFIG SET cannot change a directive of this name, in any case. Empty where it can, or there is none.
    pub fn why_immutable(name: &str) -> &'static str {
        let fixed = catalogue::named(name).filter(|directive| !directive.is_live());
        fixed.map_or("", |directive| {
            immutable::reason(directive.name).unwrap_or(directive.summary)
        })
    }

    /// The value in effect, as CONFIG GET shows it. `name` in any case; None when there is none.
    pub fn value_of(&self, name: &str) -> Option<String> {
        catalogue::named(name)?.show(self)
    }

    /// The names of all directives that have a value.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        directives()
            .filter(|directive| directive.has_value())
            .map(|directive| directive.name)
    }

    /// What the operator should read at start: directives without effect, and unsafe choices.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The same as the lines of a log, one for all directives without effect.
    pub fn notice_lines(&self) -> Vec<String> {
        notice::lines(&self.notices)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            bind: Bind::loopback(),
            port: 6379,
            tls: Tls::default(),
            metrics_bind: Bind::loopback(),
            metrics_port: None,
            metrics_tls: false,
            metrics_lock_patterns: Vec::new(),
            protected_mode: true,
            unixsocket: None,
            unixsocketperm: 0,
            tcp_backlog: 511,
            tcp_keepalive: Some(Duration::from_secs(300)),
            timeout: None,
            authentication_timeout: Duration::from_secs(60),
            request_timeout: Some(Duration::from_secs(60)),
            send_timeout: Some(Duration::from_secs(60)),
            maxclients: 10_000,
            maxclients_wanted: 0,
            requirepass: None,
            requirepass_file: None,
            aclfile: None,
            proto_max_bulk_len: 512 * 1024 * 1024,
            proto_max_reply_len: quorlock_engine::REPLY_BYTES_MAX,
            client_query_buffer_limit: 64 * 1024 * 1024,
            client_output_buffer_limit: OutputLimits::DEFAULT,
            maxmemory: 0,
            maxmemory_clients: ClientMemory::Bytes(256 * 1024 * 1024),
            notify_keyspace_events: Events::default(),
            tracking_table_max_keys: 1_000_000,
            dir: PathBuf::from("."),
            appendonly: true,
            appendfsync: AppendFsync::Everysec,
            log_direct_io: true,
            auto_aof_rewrite_percentage: 100,
            auto_aof_rewrite_min_size: 64 * 1024 * 1024,
            databases: 16,
            loglevel: LogLevel::Notice,
            logfile: None,
            pidfile: None,
            reports: Reports::default(),
            shutdown_timeout: Duration::from_secs(10),
            first_start: FirstStart::Auto,
            restart_delay: RestartDelay::Auto,
            restart_delay_max: Duration::from_secs(60),
            restart_delay_reply: RestartDelayReply::RestartDelay,
            trust_fsync: false,
            no_ttl_durability: NoTtlDurability::Sync,
            require_ttl: false,
            slowlog_log_slower_than: 10_000,
            slowlog_max_len: 128,
            latency: Latency::default(),
            acllog_max_len: 128,
            enable_debug_command: DebugCommand::No,
            script_time_limit: Duration::from_millis(500),
            script_size_limit: 64 * 1024,
            script_load_limit: 16 * 1024 * 1024,
            script_native: true,
            workers: 0,
            cluster_id: None,
            cluster_size: ClusterSize::default(),
            node_name: None,
            clock_drift_millionths: 10_000,
            kept: BTreeMap::new(),
            users: ConfiguredUsers::default(),
            notices: Vec::new(),
        }
    }
}
