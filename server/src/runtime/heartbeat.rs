//! Whether the threads of a node go on: each is asked, and answers when it comes to what is sent to it.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use quorlock_node::core::log_queue::LogEvent;
use quorlock_node::core::state::NodeState;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::runtime::inbox::{Inbox, InboxItem};

/// Asks the threads of a node for a sign of life. It keeps the node's memory in use. A watchdog calls [`Heartbeat::beat`] again and again
/// and takes a call that does not return in time for a node that hangs.
#[derive(Clone)]
pub struct Heartbeat {
    node: Arc<NodeState>,
    /// The thread that accepts connections and keeps the node going.
    keeper: Handle,
    workers: Vec<Inbox>,
}

impl Heartbeat {
    /// Of a node whose own thread runs this runtime.
    pub(crate) fn new(node: Arc<NodeState>, keeper: Handle, workers: Vec<Inbox>) -> Self {
        Self {
            node,
            keeper,
            workers,
        }
    }

    /// Resolves when each thread that the node cannot do without has come to what was sent to it after this call. One that
    /// a script or the disk holds up answers once it goes on; one that has ended never does.
    pub async fn beat(&self) {
        let mut answers = Vec::with_capacity(self.workers.len() + 2);
        let mut question = || {
            let (sender, answer) = oneshot::channel::<()>();
            answers.push(answer);
            sender
        };
        for worker in &self.workers {
            worker.send(InboxItem::Question(question()));
        }
        let sender = question();
        self.node
            .log_queue
            .send(LogEvent::Question(Box::new(move || {
                // Who asked may have given up.
                let _ = sender.send(());
            })));
        let sender = question();
        self.keeper.spawn(async move { sender.send(()) });
        for answer in answers {
            if answer.await.is_err() {
                return pending().await;
            }
        }
    }
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.workers.len() + 2;
        write!(formatter, "Heartbeat(of {threads} threads)")
    }
}
