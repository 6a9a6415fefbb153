//! One caller of a service: takes and gives back locks, whatever the service is.

use std::time::Duration;

use quorlock_client::{AcquireError, Redlock, Token, Wait};
use tokio::time::Instant;

use super::etcd::{self, EtcdCaller};
use super::postgresql::{self, PostgresqlCaller};
use crate::engine::EngineError;

/// A caller.
pub(super) enum ServiceCaller {
    Redlock(Redlock),
    Etcd(EtcdCaller),
    Postgresql(PostgresqlCaller),
}

/// A lock that was granted to a caller.
pub(super) struct GrantedLock {
    by: By,
    /// Until when the caller may count on it; with no end where only the session ends it.
    pub(super) valid_until: Option<Instant>,
}

enum By {
    Token(String, Token),
    Key(String),
    Number(i64),
}

impl ServiceCaller {
    pub(super) fn redlock(ports: &[u16], number: usize) -> Result<ServiceCaller, EngineError> {
        let nodes = ports.iter().map(|port| format!("redis://127.0.0.1:{port}"));
        let name = format!("caller-{number}");
        let redlock = Redlock::builder().nodes(nodes).client_name(&name).build();
        let redlock = redlock.map_err(EngineError::failed)?;
        Ok(ServiceCaller::Redlock(redlock))
    }

    /// Asks for a lock, and waits for it so long; nothing where somebody else has it.
    pub(super) async fn acquire(
        &mut self,
        name: &str,
        ttl: Duration,
        wait: Duration,
    ) -> Result<Option<GrantedLock>, EngineError> {
        match self {
            ServiceCaller::Redlock(redlock) => {
                let wait = match wait.is_zero() {
                    true => Wait::None,
                    false => Wait::For(wait),
                };
                let request = redlock.lock(name).ttl(ttl).wait(wait);
                match request.acquire_lease().await {
                    Ok(lease) => Ok(Some(GrantedLock {
                        valid_until: Some(Instant::now() + lease.remaining()),
                        by: By::Token(name.to_owned(), lease.token().clone()),
                    })),
                    Err(AcquireError::Busy { .. } | AcquireError::TimedOut { .. }) => Ok(None),
                    Err(error) => Err(EngineError::failed(error)),
                }
            }
            ServiceCaller::Etcd(caller) => {
                let answer = caller
                    .acquire(name, ttl, wait)
                    .await
                    .map_err(etcd::failed)?;
                Ok(answer.map(|(key, valid_until)| GrantedLock {
                    by: By::Key(key),
                    valid_until: Some(valid_until),
                }))
            }
            ServiceCaller::Postgresql(caller) => {
                let answer = caller.acquire(name, wait).await;
                let answer = answer.map_err(postgresql::failed)?;
                Ok(answer.map(|number| GrantedLock {
                    by: By::Number(number),
                    valid_until: None,
                }))
            }
        }
    }

    /// Gives a lock back.
    pub(super) async fn release(&mut self, granted: GrantedLock) -> Result<(), EngineError> {
        match (self, granted.by) {
            (ServiceCaller::Redlock(redlock), By::Token(name, token)) => {
                let released = redlock.release(&name, &token).await;
                drop(released);
                Ok(())
            }
            (ServiceCaller::Etcd(caller), By::Key(key)) => {
                caller.release(&key).await.map_err(etcd::failed)
            }
            (ServiceCaller::Postgresql(caller), By::Number(number)) => {
                caller.release(number).await.map_err(postgresql::failed)
            }
            _ => Err(EngineError::failed("a lock of another service")),
        }
    }
}
