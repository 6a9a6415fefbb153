//! The two libraries behind one cycle: acquire, then release.

use std::time::Duration;

use quorlock_client::{Redlock, Wait};
use rslock::LockManager;

use crate::Outcome;

/// A client of one of the libraries, with one connection for each node.
pub enum Library {
    Quorlock(Redlock),
    Rslock(LockManager),
}

impl Library {
    pub fn open(name: &str, nodes: &[&str]) -> Outcome<Self> {
        match name {
            "quorlock" => Ok(Self::Quorlock(
                Redlock::builder().nodes(nodes.iter().copied()).build()?,
            )),
            "rslock" => Ok(Self::Rslock(LockManager::new(nodes.to_vec()))),
            _ => Err(format!("no library is called {name:?}").into()),
        }
    }

    /// Acquires the lock and releases it.
    pub async fn cycle(&self, name: &str) -> Outcome<()> {
        match self {
            Self::Quorlock(redlock) => {
                let request = redlock.lock(name).ttl(TTL).wait(Wait::None);
                let _release = request.acquire().await?.release().await;
            }
            Self::Rslock(manager) => {
                let lock = manager.lock(name, TTL).await?;
                manager.unlock(&lock).await;
            }
        }
        Ok(())
    }
}

const TTL: Duration = Duration::from_secs(10);
