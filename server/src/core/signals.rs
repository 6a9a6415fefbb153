//! What a node tells those who wait for it: its threads and its owner.

use std::sync::atomic::AtomicBool;

use tokio::sync::{Notify, watch};

/// What the node tells its threads and its owner.
pub(crate) struct Signals {
    /// Notified when a key appears, so that an idle node needs no timer.
    pub(crate) activity: Notify,
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
            activity: Notify::new(),
            stop: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            crash: AtomicBool::new(false),
            serving: watch::Sender::new(false),
        }
    }
}
