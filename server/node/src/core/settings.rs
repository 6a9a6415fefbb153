//! What an operator may change while a node runs, as everybody sees it who does not hold the
//! engine: CONFIG GET, the log thread, the compaction.
//!
//! Invariant: changed only while the engine is locked, so that two changes cannot mix. What
//! commands depend on is in the executor; this is its copy.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use quorlock_engine::control::Durability;
use quorlock_engine::{RawTime, ReplyBudget};

use crate::clock::{saturated, saturated_nanos};
use crate::config::{AppendFsync, Config};

/// The settings in force.
#[derive(Debug)]
pub(crate) struct NodeSettings {
    config: Mutex<Config>,
    durability: AtomicU8,
    rewrite_min_bytes: AtomicU64,
    rewrite_percentage: AtomicU64,
    reply_bytes_max: AtomicUsize,
    /// Held while the configuration file is written, so that a later state is not overwritten by an earlier one.
    rewriting: Mutex<()>,
    slow_from_ns: AtomicU64,
    latency_from_ns: AtomicU64,
    /// When the size of the cluster was changed so that some clients have lost their votes, in nanoseconds of the raw clock.
    size_changed_raw_ns: AtomicU64,
    /// The client that has set the size of the cluster last, and the last one that had connected by then.
    size_set_by: AtomicU64,
    size_set_before: AtomicU64,
    /// The largest `restart-delay-max` that was in force since the start.
    longest_cap_ns: AtomicU64,
    /// Counts the changes, so that who keeps a copy of something notices them.
    version: AtomicU64,
}

impl NodeSettings {
    /// What the node starts with.
    pub(crate) fn new(config: &Config) -> Self {
        let settings = Self {
            config: Mutex::new(config.clone()),
            durability: AtomicU8::new(0),
            rewrite_min_bytes: AtomicU64::new(0),
            rewrite_percentage: AtomicU64::new(0),
            reply_bytes_max: AtomicUsize::new(0),
            rewriting: Mutex::default(),
            slow_from_ns: AtomicU64::new(u64::MAX),
            latency_from_ns: AtomicU64::new(u64::MAX),
            size_changed_raw_ns: AtomicU64::new(0),
            size_set_by: AtomicU64::new(0),
            size_set_before: AtomicU64::new(0),
            longest_cap_ns: AtomicU64::new(0),
            version: AtomicU64::new(0),
        };
        settings.replace(config.clone());
        settings
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> MutexGuard<'_, Config> {
        self.config
            .lock()
            .expect("no holder of the settings can panic")
    }

    /// To be held while the configuration file is written.
    pub(crate) fn rewriting(&self) -> MutexGuard<'_, ()> {
        self.rewriting
            .lock()
            .expect("no holder of the file can panic")
    }

    /// Takes another configuration; to be called with the engine locked.
    pub(crate) fn replace(&self, config: Config) {
        let durability = durability(&config).code();
        self.durability.store(durability, Ordering::Release);
        self.rewrite_min_bytes
            .store(config.auto_aof_rewrite_min_size, Ordering::Relaxed);
        self.rewrite_percentage
            .store(config.auto_aof_rewrite_percentage.into(), Ordering::Relaxed);
        self.reply_bytes_max
            .store(config.proto_max_reply_len, Ordering::Relaxed);
        let slow_from = u64::try_from(config.slowlog_log_slower_than);
        let slow_from_ns = slow_from.map_or(u64::MAX, |us| us.saturating_mul(1_000));
        self.slow_from_ns.store(slow_from_ns, Ordering::Relaxed);
        let latency_from_ns = match config.latency.monitor_threshold_ms {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        };
        self.latency_from_ns
            .store(latency_from_ns, Ordering::Relaxed);
        (self.longest_cap_ns)
            .fetch_max(saturated_nanos(config.restart_delay_max), Ordering::Relaxed);
        *self.config() = config;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// When clients have lost their votes by a change of the cluster's size; [`RawTime::ZERO`] where none have.
    pub(crate) fn size_changed_raw(&self) -> RawTime {
        RawTime::from_nanos(self.size_changed_raw_ns.load(Ordering::Relaxed))
    }

    /// The largest `restart-delay-max` that was in force since the start, in nanoseconds.
    pub(crate) fn longest_cap_ns(&self) -> u64 {
        self.longest_cap_ns.load(Ordering::Relaxed)
    }

    /// Clients have lost their votes now; to be called with the engine locked.
    pub(crate) fn note_size_change(&self, now_raw: RawTime) {
        (self.size_changed_raw_ns).store(now_raw.as_nanos(), Ordering::Relaxed);
    }

    /// Whether another client has set the cluster's size since this one connected; to be called with the engine locked.
    pub(crate) fn has_size_set_since(&self, client: u64) -> bool {
        client != self.size_set_by.load(Ordering::Relaxed)
            && client <= self.size_set_before.load(Ordering::Relaxed)
    }

    /// This client sets the cluster's size, and this one is the last that has connected; to be called with the engine locked.
    pub(crate) fn note_size_set(&self, client: u64, last: u64) {
        self.size_set_by.store(client, Ordering::Relaxed);
        self.size_set_before.store(last, Ordering::Relaxed);
    }

    /// Another number after each change.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The durability of replies.
    pub(crate) fn durability(&self) -> Durability {
        Durability::from_code(self.durability.load(Ordering::Acquire))
            .expect("it is stored from a durability")
    }

    /// What the reply to a command that is not the engine's may take.
    pub(crate) fn reply_budget(&self) -> ReplyBudget {
        ReplyBudget::new(self.reply_bytes_max.load(Ordering::Relaxed))
    }

    /// Nanoseconds from which a command is slow; none takes [`u64::MAX`].
    #[inline]
    pub(crate) fn slow_from_ns(&self) -> u64 {
        self.slow_from_ns.load(Ordering::Relaxed)
    }

    /// Nanoseconds from which the latency monitor notes something; [`u64::MAX`] where it is off.
    #[inline]
    pub(crate) fn latency_from_ns(&self) -> u64 {
        self.latency_from_ns.load(Ordering::Relaxed)
    }

    /// Bytes of log since the last checkpoint, of `base_bytes`, from which the next one pays;
    /// `None` where the log is rewritten only when asked for.
    pub(crate) fn rewrite_from(&self, base_bytes: u64) -> Option<u64> {
        let percentage = self.rewrite_percentage.load(Ordering::Relaxed);
        let growth = u128::from(base_bytes) * u128::from(percentage) / 100;
        let grown = base_bytes.saturating_add(saturated(growth));
        (percentage > 0).then(|| grown.max(self.rewrite_min_bytes.load(Ordering::Relaxed)))
    }
}

/// The durability that a configuration asks for.
pub(crate) fn durability(config: &Config) -> Durability {
    match config.appendfsync {
        _ if !config.appendonly => Durability::Volatile,
        AppendFsync::Always => Durability::Always,
        AppendFsync::Everysec => Durability::Everysec,
        AppendFsync::No => Durability::No,
    }
}
