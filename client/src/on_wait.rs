//! What is called while a lock is waited for.

use std::sync::Arc;

use quorlock_client_rules::wait::Waiting;
use tokio::sync::{oneshot, watch};

use crate::opaque::Opaque;

/// A callback that is told what a call waits for.
#[derive(Clone, Debug)]
pub(crate) struct OnWait(Opaque<Arc<Called>>);

type Called = dyn Fn(&Waiting) + Send + Sync;

impl OnWait {
    pub(crate) fn new(tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self(Opaque(Arc::new(tell)))
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
                    waiting.iter().for_each(&*self.0.0);
                }
            }
        }
    }
}
