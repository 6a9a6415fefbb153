//! A primary and its asynchronous replica in the place of one node, and the failover by hand.
//!
//! Clients know one address, which leads to the primary, and after the failover to the replica: what a virtual address or
//! a proxy does for those who run them.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ask::ask;
use crate::engine::EngineError;
use crate::engine::proxy::{Proxy, Silence};

/// The ways around a replica.
pub(super) struct Replica {
    /// From the replica to the primary.
    link: Proxy,
    /// From clients to whichever of them is the primary.
    address: Proxy,
    port: u16,
}

impl Replica {
    /// Makes the server behind one port the replica of the other, and waits until it has all of its data.
    pub(super) async fn attach(primary: u16, port: u16) -> Result<Replica, EngineError> {
        let failed = |what: std::io::Error| {
            EngineError::Failed(format!("the replica cannot be attached: {what}"))
        };
        let link = Proxy::start(primary).await.map_err(failed)?;
        let address = Proxy::start(primary).await.map_err(failed)?;
        let at_once: [&[u8]; 4] = [b"CONFIG", b"SET", b"repl-diskless-sync-delay", b"0"];
        ask(primary, &at_once).await.map_err(failed)?;
        let link_port = link.port().to_string();
        let words: [&[u8]; 3] = [b"REPLICAOF", b"127.0.0.1", link_port.as_bytes()];
        ask(port, &words).await.map_err(failed)?;
        let give_up = Instant::now() + ATTACHED_MAX;
        loop {
            let info = ask(port, &[b"INFO", b"replication"]).await;
            let info = info.map_err(failed)?;
            let text = String::from_utf8_lossy(info.text().unwrap_or_default());
            if text.contains("master_link_status:up") {
                break;
            }
            if Instant::now() > give_up {
                return Err(EngineError::Failed(format!(
                    "the replica did not get the primary's data in {} s:\n{text}",
                    ATTACHED_MAX.as_secs()
                )));
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(Replica {
            link,
            address,
            port,
        })
    }

    /// The port that clients know.
    pub(super) fn address(&self) -> u16 {
        self.address.port()
    }

    /// From here on nothing that the primary writes reaches the replica: replication lags behind.
    pub(super) fn lag(&self) {
        self.link.cut(Silence::Swallowing);
    }

    /// The replica becomes the primary, and clients are led to it. The primary is down.
    pub(super) async fn promote(&self) -> Result<(), EngineError> {
        let words: [&[u8]; 3] = [b"REPLICAOF", b"NO", b"ONE"];
        let promoted = ask(self.port, &words).await;
        promoted.map_err(|error| {
            EngineError::Failed(format!("the replica cannot be promoted: {error}"))
        })?;
        self.address.lead_to(self.port);
        Ok(())
    }
}

const ATTACHED_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
