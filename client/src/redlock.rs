//! The client: built once from a list of nodes, cloned cheaply, used for any number of locks.
//!
//! Invariant: a clone is a handle. All connections and all locks in hand live on a thread of clients, so they outlive a
//! cancelled future, a dropped guard and the caller's runtime.

mod builder;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::call::Call;
use quorlock_client_rules::name::{LockName, check_name};
use quorlock_client_rules::outcome::{Cause, ExtendError, Loss, NodeFences, Release};
use quorlock_client_rules::probe::NodeStatus;
use quorlock_client_rules::statistics::Statistics;
use quorlock_client_rules::token::{Token, check_token};
use quorlock_client_rules::unasked;

use crate::election::Election;
use crate::lease::Lease;
use crate::limits::{check_ttl, whole_milliseconds};
use crate::lock::LockRequest;
use crate::runtime::handle::ReplyTo;
use crate::shared::Shared;

pub use builder::RedlockBuilder;

/// A Redlock client over a fixed set of nodes.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// // One per program; clones share connections.
/// let worker = redlock.clone();
/// let guard = worker.lock("backup").acquire().await?;
/// assert_eq!((redlock.nodes().len(), redlock.quorum()), (1, 1));
/// assert!(!guard.release().await.was_lost());
/// redlock.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redlock {
    shared: Arc<Shared>,
}

impl Redlock {
    /// Starts to build a client. A program needs one for each list of nodes; clones share it.
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder::new()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A lock with this name, to be acquired: any bytes, at least one and fewer than 64 KiB. Nothing is checked or sent
    /// before that.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        let name = Bytes::copy_from_slice(name.as_ref());
        LockRequest::new(Arc::clone(&self.shared), name.into())
    }

    /// Several locks, to be acquired together: all of these names or none. A node grants all of them at once or refuses, and
    /// a majority that grants them makes one lock with one token, one guard and one loss. It takes as many round trips as one
    /// name does. Whoever wants one of the names is excluded, alone or with others.
    ///
    /// 1 to 64 names, with fewer than 64 KiB in all; one that is there twice counts once. Callers that name the same locks in
    /// different orders do not wait for each other without end: nothing is held while a call waits. A call that waits for
    /// `a` and `b` holds up nobody who wants one of them, so it can wait long where they are hardly ever free at the same time.
    /// Not with an owner or a fence.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::{AcquireError, Redlock, Wait};
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let guard = redlock.locks(["account:2", "account:1"]).acquire().await?;
    /// let one = redlock.lock("account:1").wait(Wait::None).acquire().await;
    /// assert!(matches!(one, Err(AcquireError::Busy { .. })));
    /// assert!(guard.release().await.is_free());
    /// # Ok(())
    /// # }
    /// ```
    pub fn locks(&self, names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> LockRequest {
        let names = names.into_iter();
        let names = names.map(|name| Bytes::copy_from_slice(name.as_ref()));
        LockRequest::new(Arc::clone(&self.shared), LockName::of_all(names))
    }

    /// One of so many permits of this name, to be acquired: as many callers as there are permits have one at a time. Each
    /// permit is a lock of its own on a majority of the nodes, under the name `NAME:permit:INDEX` with an index from 0, so no
    /// fault makes them more. A permit is acquired, renewed, lost and released like a lock; [`Guard::permit`] is its
    /// index.
    ///
    /// 1 to 1,024 permits. A call asks for one permit after the other, in a random order, until one is free. One that waits
    /// then goes on with one permit at each of its attempts, and so asks the nodes no more often than for a lock; it takes
    /// what others release after as many attempts as there are permits at most. What this client releases, the first of its
    /// own callers that wait asks for at once.
    ///
    /// All callers should say the same number. No more than K of those that say K have a permit at a time, and no more
    /// than the largest number that anybody says in all. A semaphore and a lock of the same name have nothing to do with
    /// each other.
    ///
    /// [`Guard::permit`]: crate::Guard::permit
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::{AcquireError, Redlock, Wait};
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let uploads = redlock.semaphore("uploads", 2).wait(Wait::None);
    /// let first = uploads.clone().acquire().await?;
    /// let second = uploads.clone().acquire().await?;
    /// assert_ne!(first.permit(), second.permit());
    /// assert!(matches!(uploads.acquire().await, Err(AcquireError::Busy { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> LockRequest {
        self.lock(name).of_permits(permits)
    }

    /// An election with this name: of its candidates one leads at a time, as long as it holds the lock of that name. Candidates
    /// wait in line, and observers are told who leads.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        let name = Bytes::copy_from_slice(name.as_ref());
        Election::new(Arc::clone(&self.shared), name)
    }

    /// Extends a lock that is held under `token` to at least `ttl` from now, on a majority. One
    /// that lasts longer already is not shortened: [`Lease::kept`] tells how long the nodes keep it.
    ///
    /// If the future is dropped, nodes that were asked may have extended it.
    ///
    /// # Errors
    /// When no majority holds the lock for this token, too few nodes answer, or the name, token or ttl cannot
    /// work.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let lease = redlock.lock("backup").ttl(Duration::from_secs(10)).acquire_lease().await?;
    /// let token = lease.token().to_string(); // handed to another program
    /// let longer = redlock.extend("backup", &token.into(), Duration::from_secs(60)).await?;
    /// assert!(longer.remaining() > Duration::from_secs(50));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(
        &self,
        name: impl AsRef<[u8]>,
        token: &Token,
        ttl: Duration,
    ) -> Result<Lease, ExtendError> {
        let name = Bytes::copy_from_slice(name.as_ref());
        let ttl = whole_milliseconds(ttl);
        let invalid = |reason| ExtendError::Invalid { reason };
        self.shared.handle.process().check().map_err(invalid)?;
        check_name(&name).map_err(invalid)?;
        check_token(token).map_err(invalid)?;
        check_ttl(ttl, self.shared.settings.drift, Duration::ZERO).map_err(invalid)?;
        let call = Call::Extend {
            name: name.clone(),
            token: token.clone(),
            ttl,
            waits_for_all: true,
        };
        let extended = self.shared.handle.ask(call, ReplyTo::Extend).await;
        let extended = extended.ok_or(ExtendError::Lost(Loss::ClientStopped))??;
        let clock = Arc::clone(&self.shared.clock);
        let lease = Lease::new(name.into(), token.clone(), ttl, extended.valid_until, clock);
        Ok(lease.kept_until(extended.kept_until))
    }

    /// Releases a lock that is held under `token`, on all nodes. Harmless where it is not held.
    ///
    /// Waits until every node has told, or has had its time; what a node that cannot be reached
    /// is owed, it gets in the background. With a name or a token that cannot work nothing is sent:
    /// then every node's [`Cause`] is [`Invalid`](Cause::Invalid).
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let lease = redlock.lock("backup").acquire_lease().await?;
    /// let release = redlock.release("backup", lease.token()).await;
    /// assert!(release.is_free() && !release.was_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(&self, name: impl AsRef<[u8]>, token: &Token) -> Release {
        let name = name.as_ref();
        let process = self.shared.handle.process().check();
        let checked = process.and_then(|()| check_name(name));
        if let Err(reason) = checked.and_then(|()| check_token(token)) {
            return unasked::release(&self.shared.nodes, &Cause::Invalid(reason));
        }
        let call = Call::Release {
            held: None,
            name: Bytes::copy_from_slice(name).into(),
            token: token.clone(),
            waits_for_all: true,
            keeps_lost: false,
            lasts: None,
        };
        let released = self.shared.handle.ask(call, ReplyTo::Release).await;
        released.unwrap_or_else(|| unasked::stopped_release(&self.shared.nodes))
    }

    /// Asks every node who it is and how it does. Connects where there is no connection yet.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// for status in redlock.probe().await {
    ///     println!("{status}"); // redis://127.0.0.1:7001: votes (180 us)
    ///     assert!(status.votes());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn probe(&self) -> Vec<NodeStatus> {
        if let Err(reason) = self.shared.handle.process().check() {
            let nodes = self.shared.nodes.iter();
            let not_asked = |node| unasked::status(node, Cause::Invalid(Arc::clone(&reason)));
            return nodes.map(not_asked).collect();
        }
        let statuses = self.shared.handle.ask(Call::Probe, ReplyTo::Probe).await;
        statuses.unwrap_or_default()
    }

    /// Tells nodes that may have lost [fences](LockRequest::fenced) what the others took, so that they take fences again: nodes
    /// that are new among others, were emptied, restored or repaired, or lost power without `trust-fsync yes`. Nodes in their
    /// restart delay have to be asked again when it is over. A node takes fences again once a majority of nodes beside it is
    /// certain of theirs. The user needs the right to run `LOCK.ADOPT`.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// for node in redlock.sync_fences().await {
    ///     println!("{node}"); // redis://127.0.0.1:7001: takes fences; none above 0 so far
    ///     assert!(node.takes_fences());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn sync_fences(&self) -> Vec<NodeFences> {
        self.sync(false).await
    }

    /// The same where too few nodes are certain: all of them are new, or lost power at once. They take fences above the largest
    /// that any of them knows of, if all have answered. **Fences may repeat if a disk has not kept what it
    /// acknowledged**, or if one of the nodes was emptied: only you can know that.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let nodes = redlock.sync_fences_of_trusted_disks().await;
    /// assert!(nodes.iter().all(|node| node.takes_fences()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn sync_fences_of_trusted_disks(&self) -> Vec<NodeFences> {
        self.sync(true).await
    }

    async fn sync(&self, trusts_disks: bool) -> Vec<NodeFences> {
        if let Err(reason) = self.shared.handle.process().check() {
            let unknown =
                |node: &Arc<str>| unasked::fences(node, Cause::Invalid(Arc::clone(&reason)));
            return self.shared.nodes.iter().map(unknown).collect();
        }
        let call = Call::SyncFences { trusts_disks };
        let nodes = self.shared.handle.ask(call, ReplyTo::SyncFences).await;
        nodes.unwrap_or_default()
    }

    /// What was counted since the client was built. No node is asked.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// let _guard = redlock.lock("backup").acquire().await?;
    /// let statistics = redlock.statistics().await;
    /// assert_eq!((statistics.acquired, statistics.held), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn statistics(&self) -> Statistics {
        let handle = &self.shared.handle;
        let statistics = handle.ask(Call::Statistics, ReplyTo::Statistics).await;
        statistics.unwrap_or_else(|| unasked::statistics(&self.shared.nodes))
    }

    /// Waits until what is being released in the background has been released on all nodes that
    /// can be reached, for one node deadline at most (1 s, if the builder was told nothing else).
    /// Where a node cannot be reached, the lock ends with its lease.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// drop(redlock.lock("backup").acquire().await?);
    /// redlock.settle().await; // before this program says that it is done
    /// let again = redlock.lock("backup").wait(quorlock_client::Wait::None).acquire().await;
    /// assert!(again.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settle(&self) {
        let handle = &self.shared.handle;
        // A client that has stopped owes nothing.
        let _stopped = handle.ask(Call::Settle, ReplyTo::Settle).await;
    }

    /// Ends this handle, once what is being released in the background has been released, as for
    /// [`settle`](Self::settle). To be called last in a program. Clones and guards go on; the
    /// client ends when the last of them is gone and nothing is owed to the nodes, and its thread with the last client.
    ///
    /// Without it, guards that are dropped at the end of a program are released as a rule: the
    /// drop of the last handle outside of a tokio runtime's threads, and the end of a thread that
    /// has dropped guards, wait for the nodes to release those, for 200 ms at most. Threads of
    /// other runtimes are not recognised: there the drop of the last handle may block one for as
    /// long.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use quorlock_client::Redlock;
    /// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
    /// # let redlock = Redlock::builder().node(node.url()).build()?;
    /// drop(redlock.lock("backup").acquire().await?);
    /// let other = redlock.clone();
    /// redlock.close().await; // the lock is free now
    /// assert!(other.lock("backup").wait(quorlock_client::Wait::None).acquire().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(self) {
        self.settle().await;
    }

    /// The nodes' addresses, without passwords, in the order they were listed: for log lines.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<str>] {
        &self.shared.nodes
    }

    /// How many nodes must agree: a majority, and the spare votes that the client was built with. The list may lose the rest.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.shared.settings.quorum(self.shared.nodes.len())
    }
}

/// Its nodes, without passwords, and its settings.
impl fmt::Debug for Redlock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Redlock")
            .field("nodes", &self.shared.nodes)
            .field("quorum", &self.quorum())
            .field("settings", &self.shared.settings)
            .field("clock", &self.shared.clock)
            .finish_non_exhaustive()
    }
}

// A panic of a caller leaves nothing half done: what changes lives on the client's thread.
impl UnwindSafe for Redlock {}
impl RefUnwindSafe for Redlock {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;
    use crate::blocking;
    use crate::runtime::handle::Handle;
    use quorlock_client_rules::outcome::AcquireError;
    use quorlock_client_rules::settings::Settings;
    use quorlock_system_clock::SystemClock;

    #[test]
    fn a_client_of_the_process_before_a_fork_fails_at_once_and_says_so() {
        let (handle, _unread) = Handle::forked();
        let (settings, nodes) = (Settings::default(), Arc::from([Arc::from("node")]));
        let shared = Arc::new(Shared {
            handle,
            settings,
            clock: Arc::new(SystemClock),
            nodes,
            on_acquired: None,
            on_event: None,
        });
        let redlock = blocking::Redlock::from(Redlock { shared });
        let token = Token::fresh();
        let acquired = redlock.lock("a").acquire().unwrap_err();
        assert!(
            matches!(acquired, AcquireError::Invalid { .. }),
            "{acquired}"
        );
        let extended = redlock
            .extend("a", &token, Duration::from_secs(9))
            .unwrap_err();
        let release = redlock.release("a", &token);
        assert!(!release.is_free() && !release.was_lost());
        let status = redlock.probe().pop().unwrap();
        assert!(!status.votes());
        for text in [
            acquired.to_string(),
            extended.to_string(),
            release.to_string(),
            status.to_string(),
        ] {
            assert!(text.contains("after the fork"), "{text}");
        }
        assert_eq!(redlock.statistics().acquired, 0);
        redlock.settle();
        redlock.close();
    }

    #[test]
    fn a_client_may_be_used_after_a_panic_of_its_caller() {
        fn check<T: UnwindSafe + RefUnwindSafe>() {}
        check::<Redlock>();
        check::<blocking::Redlock>();
    }

    #[test]
    fn debug_shows_nodes_and_settings_and_no_password() {
        let builder = Redlock::builder().nodes(["redis://:secret@h1:1", "redis://h2:2"]);
        let redlock = builder.client_name("billing").build().unwrap();
        let shown = format!("{redlock:?}");
        for part in ["redis://h1:1", "quorum: 2", "billing", "rate_ppm: 10000"] {
            assert!(shown.contains(part), "{shown}");
        }
        assert!(
            !shown.contains("secret") && !shown.contains("calls"),
            "{shown}"
        );
    }
}
