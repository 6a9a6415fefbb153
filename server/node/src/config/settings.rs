//! The values that have names: each enum lists its spellings once, for reading and for showing.

pub use quorlock_engine::restart::RestartDelay;

/// When the log is made to survive a power loss (`appendfsync`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendFsync {
    /// Before every reply that depends on it.
    Always,
    /// Once per second.
    Everysec,
    /// When the operating system likes.
    No,
}

impl AppendFsync {
    pub(super) const NAMES: &'static [(&'static str, Self)] = &[
        ("everysec", Self::Everysec),
        ("always", Self::Always),
        ("no", Self::No),
    ];
}

/// How much is logged (`loglevel`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Everything, for development.
    Debug,
    /// Rarely useful details.
    Verbose,
    /// What an operator wants to see.
    Notice,
    /// Only what needs attention.
    Warning,
}

impl LogLevel {
    pub(super) const NAMES: &'static [(&'static str, Self)] = &[
        ("debug", Self::Debug),
        ("verbose", Self::Verbose),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
    ];
}

/// Whom a node tells of itself, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reports {
    /// Who is told that the node is ready, and what it does.
    pub supervised: Supervised,
    /// When it is ready.
    pub ready: SupervisedReady,
    /// How messages are written.
    pub log_format: LogFormat,
    /// Whether they go to syslog as well.
    pub syslog: Syslog,
}

/// How messages are written (`log-format`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// As Redis does.
    #[default]
    Redis,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    pub(super) const NAMES: &'static [(&'static str, Self)] =
        &[("redis", Self::Redis), ("json", Self::Json)];
}

/// Messages to the machine's syslog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syslog {
    /// Whether they go there as well.
    pub is_enabled: bool,
    /// The program that they are said to be from.
    pub ident: String,
    /// The number of the facility, as in RFC 3164.
    pub facility: u8,
}

impl Default for Syslog {
    fn default() -> Self {
        Self {
            is_enabled: false,
            ident: "quorlock".to_owned(),
            facility: 16,
        }
    }
}

pub(super) const SYSLOG_FACILITIES: &[(&str, u8)] = &[
    ("user", 1),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

/// Who is told that the node is ready (`supervised`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Supervised {
    /// Nobody.
    #[default]
    No,
    /// systemd, when the environment names its socket.
    Auto,
    /// systemd.
    Systemd,
}

impl Supervised {
    pub(super) const NAMES: &'static [(&'static str, Self)] = &[
        ("no", Self::No),
        ("auto", Self::Auto),
        ("systemd", Self::Systemd),
    ];
}

/// When the node counts as ready (`supervised-ready`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SupervisedReady {
    /// Once it listens, also during a restart delay.
    #[default]
    Listening,
    /// Once it serves locks.
    Serving,
}

impl SupervisedReady {
    pub(super) const NAMES: &'static [(&'static str, Self)] =
        &[("listening", Self::Listening), ("serving", Self::Serving)];
}

/// What a node does in an empty directory that `quorlock node init` did not create (`first-start`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstStart {
    /// Serve where only this machine can connect, wait where others can.
    Auto,
    /// Take a new identity and serve at once.
    Serve,
    /// Wait `restart-delay-max` first: the directory may have been lost.
    Wait,
}

impl FirstStart {
    pub(super) const NAMES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("serve", Self::Serve),
        ("wait", Self::Wait),
    ];
}

pub(super) const RESTART_DELAYS: &[(&str, RestartDelay)] = &[
    ("auto", RestartDelay::Auto),
    ("always", RestartDelay::Always),
    ("off", RestartDelay::Off),
];

/// From where DEBUG may be called (`enable-debug-command`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DebugCommand {
    /// From nowhere.
    No,
    /// From this machine.
    Local,
    /// From everywhere.
    Yes,
}

impl DebugCommand {
    pub(super) const NAMES: &'static [(&'static str, Self)] =
        &[("no", Self::No), ("local", Self::Local), ("yes", Self::Yes)];
}

/// Which error clients get during the restart delay (`restart-delay-reply`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDelayReply {
    /// `-RESTARTDELAY`, which no driver retries by itself.
    RestartDelay,
    /// `-LOADING`, which many drivers retry for seconds.
    Loading,
}

impl RestartDelayReply {
    pub(super) const NAMES: &'static [(&'static str, Self)] = &[
        ("restartdelay", Self::RestartDelay),
        ("loading", Self::Loading),
    ];
}

/// How a key is made durable that no restart delay could cover (`no-ttl-durability`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTtlDurability {
    /// Synced before the reply in every mode.
    Sync,
    /// As `appendfsync` says, like Redis.
    AsMode,
}

impl NoTtlDurability {
    pub(super) const NAMES: &'static [(&'static str, Self)] =
        &[("sync", Self::Sync), ("as-mode", Self::AsMode)];
}
