//! What is called while a lock is waited for.

use std::fmt;
use std::sync::Arc;

use quorlock_client_rules::wait::Waiting;
use tokio::sync::{oneshot, watch};

/// A callback that is told what a call waits for.
#[derive(Clone)]
pub(crate) struct OnWait(Arc<dyn Fn(&Waiting) + Send + Sync>);

impl OnWait {
    pub(crate) fn new(tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Tells the news until the outcome is there.
    pub(crate) async fn follow<T>(
        &self,
        mut outcome: oneshot::Receiver<T>,
        news: &mut watch::Receiver<Option<Waiting>>,
    ) -> Result<T, oneshot::error::RecvError> {
        loop {
            tokio::select! {
                biased;
                outcome = &mut outcome => return outcome,
                Ok(()) = news.changed() => {
                    let waiting = news.borrow_and_update().clone();
                    waiting.iter().for_each(&*self.0);
                }
            }
        }
    }
}

impl fmt::Debug for OnWait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OnWait")
    }
}
