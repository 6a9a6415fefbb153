//! What every thread of one node shares.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use quorlock_engine::control::{Durability, Start};
use quorlock_engine::restart::Verdict;
use quorlock_persistence::Disk;
use tokio::sync::{oneshot, watch};

use crate::clock::Clock;
use crate::config::{Config, RestartDelayReply};
use crate::node::commit::{Commit, Failure};
use crate::node::core::Core;
use crate::node::log_thread::{Job, LogThread};
use crate::node::log_writer::LogWriter;
use crate::node::report::StartReport;
use crate::node::rewrites::Rewrites;
use crate::node::settings::Settings;
use crate::node::statistics::Statistics;
use crate::past::{Identity, Place};
use crate::session::clients::Clients;

/// One node's state, behind one `Arc`.
pub(crate) struct Shared {
    pub(crate) core: Mutex<Core>,
    pub(crate) commit: Arc<Commit>,
    pub(crate) log_writer: LogWriter,
    pub(crate) log_thread: LogThread,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) identity: Identity,
    pub(crate) place: Place,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) start: Start,
    pub(crate) verdict: Verdict,
    pub(crate) report: StartReport,
    pub(crate) port: u16,
    /// Where `/metrics` is, if anywhere.
    pub(crate) metrics_address: Option<SocketAddr>,
    pub(crate) workers: usize,
    pub(crate) started_raw_ns: u64,
    pub(crate) clients: Clients,
    pub(crate) statistics: Statistics,
    /// What an operator may change while the node runs.
    pub(crate) settings: Settings,
    pub(crate) rewrites: Rewrites,
    /// Rung when a key appears, so that an idle node needs no timer.
    pub(crate) activity: tokio::sync::Notify,
    pub(crate) signals: Signals,
}

/// What the node tells its threads and its owner.
pub(crate) struct Signals {
    /// The orderly stop was asked for.
    pub(crate) stop: watch::Sender<bool>,
    /// The last record is synced: workers may end.
    pub(crate) stopped: watch::Sender<bool>,
    /// Stop as a killed process would.
    pub(crate) crash: AtomicBool,
    /// The restart delay is over.
    pub(crate) serving: watch::Sender<bool>,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            stop: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            crash: AtomicBool::new(false),
            serving: watch::Sender::new(false),
        }
    }
}

impl Shared {
    /// Locks the engine and the end of the log.
    ///
    /// # Errors
    /// When a command panicked under this lock: the state cannot be trusted, the node stops.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Core>, Failure> {
        self.core.lock().map_err(|_| {
            let failure = self
                .commit
                .fail(&"a thread panicked while it held the engine");
            self.signals.stop.send_replace(true);
            failure
        })
    }

    /// The log failed: grant no more, and stop.
    pub(crate) fn fail(&self, failure: &Failure) {
        if !self.signals.stop.send_replace(true) {
            tracing::error!(
                "{failure}. The node grants no more and stops; after a restart it waits until \
                 every lock it may have forgotten has expired"
            );
        }
    }

    /// Whether a compaction is due.
    pub(crate) fn is_compaction_due(&self) -> bool {
        self.rewrites
            .are_due(&self.settings, self.commit.size(), &*self.clock)
    }

    /// This node's id and name, for people.
    pub(crate) fn shown_id(&self) -> String {
        self.identity.shown(self.config.node_name.as_deref())
    }

    /// Asks for the orderly stop.
    pub(crate) fn stop(&self) {
        self.signals.stop.send_replace(true);
    }

    /// Turns true when the workers may end.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.signals.stopped.subscribe()
    }

    /// The durability of this node's replies, as it is now.
    pub(crate) fn durability(&self) -> Durability {
        self.settings.durability()
    }

    /// Whether keys are in the log at all: decided at start.
    pub(crate) fn is_logged(&self) -> bool {
        self.start.durability != Durability::Volatile
    }

    /// Waits until everything written so far is synced, without holding up this thread.
    ///
    /// # Errors
    /// When the log failed.
    pub(crate) async fn synced(&self) -> Result<(), Failure> {
        let (done, finished) = oneshot::channel();
        // A receiver that is gone needs no answer.
        let done = move || {
            let _ = done.send(());
        };
        self.log_thread.send(Job::SyncNow(Box::new(done)));
        self.done(finished).await
    }

    /// Waits until the log thread has made the segment ahead, or found that it cannot, without
    /// holding up this thread.
    ///
    /// # Errors
    /// When the log failed.
    pub(crate) async fn segment_made(&self) -> Result<(), Failure> {
        let (done, finished) = oneshot::channel();
        // A receiver that is gone needs no answer.
        let done = move || {
            let _ = done.send(());
        };
        self.log_thread.send(Job::PrepareNow(Box::new(done)));
        self.done(finished).await
    }

    async fn done(&self, finished: oneshot::Receiver<()>) -> Result<(), Failure> {
        match (finished.await, self.commit.failure()) {
            (Ok(()), None) => Ok(()),
            (_, Some(failure)) => Err(failure.clone()),
            (Err(_), None) => Err(self.commit.fail(&"the log thread ended")),
        }
    }

    /// Whether clients are told to come back later in Redis's own words (`loading:1`). Only where
    /// the restart delay is answered that way, because drivers block on it.
    pub(crate) fn is_loading(&self) -> bool {
        self.config.restart_delay_reply == RestartDelayReply::Loading
            && !*self.signals.serving.borrow()
    }
}
