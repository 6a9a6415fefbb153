//! A node without threads and sockets: its rules, what is known of it, and the ways to those who carry
//! out what it decides.
//!
//! Sessions, event loops, metrics and a simulation work on this; `start` puts it together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock_engine::control::{Durability, Start};
use quorlock_engine::restart::RestartVerdict;

use crate::clock::{Clock, WallReading};
use crate::config::{Config, Files, RestartDelayReply};
use crate::core::access::Access;
use crate::core::calls::CommandStatistics;
use crate::core::certificates::CertificateSource;
use crate::core::clients::Clients;
use crate::core::commit::{Commit, Failure};
use crate::core::commit_queue::CommitPlan;
use crate::core::deliveries::Deliveries;
use crate::core::executor::Executor;
use crate::core::latency::LatencyMonitor;
use crate::core::log_queue::{LogEvent, LogQueue};
use crate::core::log_writer::LogWriter;
use crate::core::metrics_endpoint::MetricsEndpoint;
use crate::core::monitors::Monitors;
use crate::core::next_commit::CommitRequest;
use crate::core::pause::Pause;
use crate::core::process::{FailureDomain, LogFilter, Process};
use crate::core::report::StartReport;
use crate::core::rewrites::Rewrites;
use crate::core::settings::NodeSettings;
use crate::core::slow_log::SlowLog;
use crate::core::statistics::ServerStatistics;
use crate::core::upstream::Upstream;
use crate::past::NodeIdentity;
use crate::sync::{Latch, Mutex, MutexGuard, Notify};
use quorlock_engine::channels::Subscription;
use quorlock_engine::{Moment, RawTime};

/// One node's state, behind one `Arc`.
pub struct NodeState {
    /// What executes commands, one at a time.
    pub executor: Mutex<Executor>,
    /// What executes commands on keys instead, if anything does.
    pub upstream: Option<Arc<dyn Upstream>>,
    /// The files of TLS, where TLS is spoken.
    pub certificates: Option<Arc<dyn CertificateSource>>,
    /// Where the metrics are read, where the node has sockets.
    pub metrics: Option<Arc<dyn MetricsEndpoint>>,
    /// Where CONFIG REWRITE reads and writes, if anywhere.
    pub(crate) files: Option<Arc<dyn Files + Send + Sync>>,
    /// What `loglevel` is set by, where the node may.
    pub(crate) log_filter: Option<LogFilter>,
    /// What is written and synced.
    pub commit: Arc<Commit>,
    /// Writes the log and syncs it.
    pub log_writer: LogWriter,
    /// The way to the log thread.
    pub log_queue: LogQueue,
    /// The clocks that the node goes by.
    pub clock: Arc<dyn Clock>,
    /// What can be asked of its process.
    pub process: Process,
    /// What it shares with other nodes. Asked once: a disk that hangs holds up no INFO.
    pub(crate) machine: FailureDomain,
    /// What was configured at the start. What is in force now: [`NodeState::configured`].
    pub config: Config,
    /// What its start has found.
    pub facts: StartFacts,
    /// The users, and what they may do.
    pub access: Arc<Access>,
    /// The clients that are connected.
    pub clients: Arc<Clients>,
    /// What was published, on its way to the workers.
    pub deliveries: Deliveries,
    /// CLIENT PAUSE.
    pub(crate) pause: Pause,
    /// What is counted for INFO and the metrics.
    pub statistics: ServerStatistics,
    /// How often and how long each command ran.
    pub calls: CommandStatistics,
    /// What an operator may change while the node runs.
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) slow_log: Mutex<SlowLog>,
    pub(crate) latency: Arc<LatencyMonitor>,
    pub(crate) monitors: Monitors,
    pub(crate) rewrites: Rewrites,
    /// What other threads wait for.
    pub signals: Signals,
}

/// What is known of a node for as long as it runs.
#[derive(Debug)]
pub struct StartFacts {
    /// Who it is.
    pub identity: NodeIdentity,
    /// What START has put on record.
    pub start: Start,
    /// What the past comes to.
    pub verdict: RestartVerdict,
    /// The same for people.
    pub report: StartReport,
    /// The first port it listens on; 0 where there is none.
    pub port: u16,
    /// How many event loops serve sockets.
    pub workers: usize,
    pub(crate) started_raw: RawTime,
}

/// What the node tells its threads and its owner.
#[derive(Debug, Default)]
pub struct Signals {
    /// Notified when a key appears, so that an idle node needs no timer.
    pub activity: Notify,
    /// The orderly stop was asked for.
    pub stop: Arc<Latch>,
    /// The last record is synced: workers may end.
    pub stopped: Latch,
    /// Stop as a killed process would.
    pub crash: AtomicBool,
    /// The restart delay is over.
    pub serving: Arc<Latch>,
}

impl NodeState {
    /// Reads the files of TLS again and takes them into use. False where the node speaks no TLS.
    ///
    /// # Errors
    /// Which file cannot be used, and why; then nothing has changed.
    pub fn reload_certificates(&self) -> Result<bool, String> {
        let Some(certificates) = &self.certificates else {
            return Ok(false);
        };
        let config = self.settings.config().clone();
        let install = certificates.read(&config)?;
        // Changes are made under this lock.
        let _executor = self.lock().map_err(|failure| failure.to_string())?;
        if self.settings.config().tls != config.tls {
            return Err("CONFIG SET has named other files meanwhile, and they are used".to_owned());
        }
        install();
        Ok(true)
    }

    /// Sends a message to the clients that listen, which waits for nothing. Where workers have too much left to hand out, those whom it is
    /// for are disconnected: nobody misses a message without notice.
    pub(crate) fn publish_here(&self, channel: &[u8], payload: &[u8]) {
        // A node whose lock is poisoned stops.
        let Ok(mut executor) = self.lock() else {
            return;
        };
        let channels = executor.engine.channels();
        channels.begin();
        let mut published = channels.publish(Subscription::Channel, channel, payload);
        if self.deliveries.is_full() {
            for one in published.drain(..) {
                channels.miss(one.receivers.listeners());
            }
        }
        self.deliveries
            .publish_now(&mut executor, published, &self.clients);
        drop(executor);
        self.deliveries.wake();
    }

    /// Something of the configuration in force, which CONFIG SET may have changed.
    pub fn configured<T>(&self, read: impl FnOnce(&Config) -> T) -> T {
        read(&self.settings.config())
    }

    /// The commands that took long.
    pub(crate) fn slow_log(&self) -> MutexGuard<'_, SlowLog> {
        self.slow_log
            .lock()
            .expect("no holder of the slow log can panic")
    }

    /// How many connections were made since all was last counted anew.
    pub fn connections_received(&self) -> u64 {
        let before = &self.statistics.connections_before;
        self.clients.total() - before.load(Ordering::Relaxed)
    }

    /// Locks the engine and the end of the log.
    ///
    /// # Errors
    /// When a command panicked under this lock: the state cannot be trusted, the node stops.
    pub fn lock(&self) -> Result<MutexGuard<'_, Executor>, Failure> {
        self.executor.lock().map_err(|_| {
            let failure = self
                .commit
                .fail("a thread panicked while it held the engine");
            self.signals.stop.set();
            failure
        })
    }

    /// Locks the engine, and reads the clock behind the lock.
    ///
    /// # Errors
    /// As [`NodeState::lock`].
    pub fn lock_now(&self) -> Result<(MutexGuard<'_, Executor>, Moment), Failure> {
        let mut executor = self.lock()?;
        let now = executor
            .time
            .now(self.clock.raw(), || WallReading::now(&*self.clock));
        Ok((executor, now))
    }

    /// Nanoseconds since the start.
    pub fn uptime_ns(&self, now_raw: RawTime) -> u64 {
        now_raw.nanos_since(self.facts.started_raw)
    }

    /// The log failed: grant no more, and stop.
    pub fn fail(&self, failure: &Failure) {
        if !self.signals.stop.set() {
            tracing::error!(
                "{failure}. The node grants no more and stops; after a restart it waits until \
                 every lock it may have forgotten has expired"
            );
        }
    }

    /// Does what a worker's queue asks of this thread. What it hands over is left to the caller.
    pub fn carry_out(&self, plan: CommitPlan, now_raw: RawTime) {
        let done = match plan {
            CommitPlan::Write | CommitPlan::WriteAndHandOver(_) => {
                self.log_writer.write_for_commit(&self.executor)
            }
            CommitPlan::Commit => self.log_writer.write_and_sync(&self.executor),
            CommitPlan::Nothing | CommitPlan::HandOver(_) => Ok(()),
        };
        if let Err(failure) = done {
            self.fail(&failure);
        }
        self.after_write(now_raw);
    }

    /// Writes what is appended, for nobody who waits for it. On a slow disk that is written past the page cache the
    /// log thread does it, with a sync behind it: this thread may serve others.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub(crate) fn write_without_waiting(&self) -> Result<(), Failure> {
        if self.durability() == Durability::Always && self.commit.is_slow() {
            self.log_queue.ask_for_commit(CommitRequest::default());
            return Ok(());
        }
        self.log_writer.write(&self.executor)
    }

    /// To be called after each write: asks for the sync of this second, for segments and for a
    /// compaction, where they are due.
    pub fn after_write(&self, now_raw: RawTime) {
        let asks = self
            .log_queue
            .duties
            .after_write(&self.commit, self.durability());
        if asks.prepares {
            self.log_queue.send(LogEvent::Prepare(None));
        }
        if self.is_compaction_due(now_raw) {
            // Without keys that expire, maintenance sleeps without a timer.
            self.signals.activity.notify_all();
        }
        if asks.syncs_soon {
            self.log_queue.send(LogEvent::SyncSoon);
        }
    }

    /// Whether a compaction is due.
    pub(crate) fn is_compaction_due(&self, now_raw: RawTime) -> bool {
        self.rewrites
            .are_due(&self.settings, self.commit.size(), now_raw)
    }

    /// This node's id and name, for people.
    pub fn shown_id(&self) -> String {
        self.facts.identity.shown(self.config.node_name.as_deref())
    }

    /// Asks for the orderly stop.
    pub fn stop(&self) {
        self.signals.stop.set();
    }

    /// The durability of this node's replies, as it is now.
    pub fn durability(&self) -> Durability {
        self.settings.durability()
    }

    /// Whether keys are in the log at all: decided at start.
    pub(crate) fn is_logged(&self) -> bool {
        self.facts.start.durability != Durability::Volatile
    }

    /// Whether clients are told to come back later in Redis's own words (`loading:1`). Only where
    /// the restart delay is answered that way, because drivers block on it.
    pub fn is_loading(&self) -> bool {
        !self.signals.serving.is_set()
            && self.configured(|it| it.restart_delay_reply) == RestartDelayReply::Loading
    }
}
