//! Calls about leases, which nothing renews.

use std::time::Duration;

use bytes::Bytes;
use quorlock_client::{Token, Wait};
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{AcquireCall, Call};

use super::Cluster;

impl<Step> Cluster<Step> {
    /// Asks for a lease, with a fence or without one.
    pub fn acquire(
        &mut self,
        client: usize,
        lock: &str,
        ttl: Duration,
        wait: Wait,
        is_fenced: bool,
    ) -> OperationId {
        let name = Bytes::copy_from_slice(lock.as_bytes()).into();
        let call = AcquireCall {
            is_fenced,
            wait,
            ..AcquireCall::new(name, ttl)
        };
        self.call(client, Call::Acquire(call))
    }

    /// Extends a lease.
    pub fn extend(
        &mut self,
        client: usize,
        lock: &str,
        token: Token,
        ttl: Duration,
    ) -> OperationId {
        let name = Bytes::copy_from_slice(lock.as_bytes());
        self.call(
            client,
            Call::Extend {
                name,
                token,
                ttl,
                waits_for_all: true,
            },
        )
    }

    /// The client keeps nothing of a lease but its token.
    pub fn detach(&mut self, client: usize, held: OperationId) {
        self.call(client, Call::Detach { held });
    }

    /// Gives a lease back.
    pub fn release(&mut self, client: usize, lock: &str, token: Token) -> OperationId {
        let call = Call::Release {
            held: None,
            name: Bytes::copy_from_slice(lock.as_bytes()).into(),
            token,
            waits_for_all: false,
            keeps_lost: false,
            lasts: None,
        };
        self.call(client, call)
    }
}
