//! A node without threads and sockets: its rules, what is known of it, and the ways to those who carry
//! out what it decides.
//!
//! Sessions, event loops, metrics and a simulation work on this; `node/` puts it together.

use std::sync::Arc;

use quorlock_engine::control::Durability;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::config::{Config, RestartDelayReply};
use crate::core::clients::Clients;
use crate::core::commit::{Commit, Failure};
use crate::core::executor::Executor;
use crate::core::log_queue::{Job, LogQueue};
use crate::core::log_writer::LogWriter;
use crate::core::rewrites::Rewrites;
use crate::core::settings::Settings;
use crate::core::signals::Signals;
use crate::core::start_facts::StartFacts;
use crate::core::statistics::Statistics;
use crate::sync::{Mutex, MutexGuard};

/// One node's state, behind one `Arc`.
pub(crate) struct NodeState {
    pub(crate) executor: Mutex<Executor>,
    pub(crate) commit: Arc<Commit>,
    pub(crate) log_writer: LogWriter,
    pub(crate) log_queue: LogQueue,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) facts: StartFacts,
    pub(crate) clients: Clients,
    pub(crate) statistics: Statistics,
    /// What an operator may change while the node runs.
    pub(crate) settings: Settings,
    pub(crate) rewrites: Rewrites,
    pub(crate) signals: Signals,
}

impl NodeState {
    /// Locks the engine and the end of the log.
    ///
    /// # Errors
    /// When a command panicked under this lock: the state cannot be trusted, the node stops.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Executor>, Failure> {
        self.executor.lock().map_err(|_| {
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

    /// To be called after each write: asks for the sync of this second, for segments and for a
    /// compaction, where they are due.
    pub(crate) fn after_write(&self) {
        let asks = self
            .log_queue
            .duties
            .after_write(&self.commit, self.durability());
        if asks.prepares {
            self.log_queue.send(Job::Prepare);
        }
        if self.is_compaction_due() {
            // Without keys that expire, maintenance sleeps without a timer.
            self.signals.activity.notify_one();
        }
        if asks.syncs_soon {
            self.log_queue.send(Job::SyncSoon);
        }
    }

    /// Whether a compaction is due.
    pub(crate) fn is_compaction_due(&self) -> bool {
        self.rewrites
            .are_due(&self.settings, self.commit.size(), &*self.clock)
    }

    /// This node's id and name, for people.
    pub(crate) fn shown_id(&self) -> String {
        self.facts.identity.shown(self.config.node_name.as_deref())
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
        self.facts.start.durability != Durability::Volatile
    }

    /// Whether clients are told to come back later in Redis's own words (`loading:1`). Only where
    /// the restart delay is answered that way, because drivers block on it.
    pub(crate) fn is_loading(&self) -> bool {
        self.config.restart_delay_reply == RestartDelayReply::Loading
            && !*self.signals.serving.borrow()
    }
}
