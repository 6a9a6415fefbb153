//! What a system does for locks: the operations of a client, with the system's answers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use crate::reply::Reply;
use crate::request::{Acquire, Operation, Several};

/// A system that keeps locks, on one connection.
///
/// Operations are carried out in the order in which their futures are polled first.
pub(crate) trait System {
    /// How it is called in refusals.
    fn name(&self) -> &'static str;

    /// Whether it gives locks numbers that rise.
    fn has_fences(&self) -> bool {
        true
    }

    /// What INFO says: one line for each field.
    fn info(&self) -> Running<String>;

    /// Takes the lock if it is free, or held under the same token.
    fn acquire(&self, acquire: Acquire) -> Running<Taken>;

    /// Does this to a lock. Says whether the lock was held under the token.
    fn operate(&self, operation: Operation) -> Running<Done>;

    /// Runs one of the client's scripts about several names, on all of them or on none.
    fn run_on_all(&self, _: Several) -> Running<Reply> {
        let refusal = format!(
            "ERR {} keeps one name a lock: take locks one after the other, or take several at once on Quorlock nodes",
            self.name()
        );
        Box::pin(async move { Err(refusal) })
    }

    /// Who holds the lock.
    fn look(&self, name: Bytes) -> Running<Option<Holder>>;

    /// Has the system tell from now on when this lock is released, and says who holds it after that.
    fn watch(&mut self, name: Bytes) -> Running<Option<Holder>>;

    /// Nobody waits for the lock any more.
    fn unwatch(&mut self, name: &Bytes) -> Running<()>;

    /// Locks that are held, at least those whose names match: all, or the first ones in the order of their names behind this one.
    fn list(&self, pattern: Bytes, after: Bytes) -> Running<Page>;

    /// Moves the connection on. A lock that was released, if one was that is watched.
    fn poll_released(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>>;
}

/// An operation under way, or the system's words where it refuses it.
pub(crate) type Running<T> = Pin<Box<dyn Future<Output = Result<T, String>>>>;

/// What became of an attempt to take a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is granted with this fence, which nobody asks for where there are none.
    Granted(i64),
    /// It is held: the fence of the name, and the holder's token.
    Held(i64, Bytes),
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It was held under the token, and is changed.
    Held,
    /// Nobody holds the lock.
    Free,
    /// Another one holds it.
    Other,
    /// The lock has this fence.
    #[cfg_attr(
        not(any(feature = "etcd", feature = "postgresql")),
        allow(dead_code, reason = "Redis Cluster has none")
    )]
    Fence(i64),
}

/// Some of the locks that are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Their names, and who holds them where the list has that.
    pub(crate) locks: Vec<(Bytes, Option<Holder>)>,
    /// The name behind which the next page begins, unless this one is the last.
    pub(crate) next: Option<Bytes>,
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) token: Bytes,
    pub(crate) fence: Option<i64>,
    pub(crate) left: Duration,
    pub(crate) owner: Option<Bytes>,
}
