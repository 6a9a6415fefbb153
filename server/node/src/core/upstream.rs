//! What executes commands on keys in place of a node's own engine, and how it answers.
//!
//! A node that has an upstream is the protocol's edge of something else: it keeps connections, passwords, limits and
//! pauses, and hands the commands on keys over, scripts and messages included. `session/upstream.rs` says what it hands
//! over and what it refuses. Its clients wait as `session/pending.rs` describes, and each answer reaches its client's
//! worker through `core/deliveries.rs`.
//!
//! Invariant: each request is answered once. An answer that is dropped is an error to the client, which never waits for
//! something that cannot come.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use bytes::Bytes;
use quorlock_engine::lock_counts::TimeCounts;
use quorlock_engine::{CommandGuard, ErrorReply, Reply};

use crate::core::clients::Client;

/// What executes commands on keys in place of a node's own engine.
///
/// Its methods are called on the threads of the node that serve its clients, and hold up all clients of that thread:
/// they must not block. A panic in them ends the node. The node's lock is free meanwhile.
pub trait Upstream: Send + Sync + Debug {
    /// Takes a request. It is answered through [`UpstreamRequest::answer`], on any thread, at once or later. Until then
    /// its client sends nothing else that is executed; requests of other clients come meanwhile.
    ///
    /// Returns whether the request waits for what its client alone wants, and perhaps for long. Then a client that sends no more
    /// has gone: of one that waits for anything else the connection may be closed in one direction, and it is answered.
    fn execute(&self, request: UpstreamRequest) -> bool;

    /// The node runs, and sends messages through this to those of its clients who listen. It is called once, before any request.
    fn begin(&self, publish: Publish) {
        let _ = publish;
    }

    /// The patterns of names by which its metrics count locks apart, as `metrics-lock-patterns` has them. It is called once, before any
    /// request.
    fn count_locks_by(&self, patterns: &[String]) {
        let _ = patterns;
    }

    /// A client wants to listen to channels. It does once the answer is one that is no error, and sends nothing else that is executed
    /// until then. A client that sends no more has gone.
    fn listen(&self, subscription: UpstreamSubscription) {
        drop(subscription);
    }

    /// A client does not listen to these any more. One that has [left](Self::left) listens to nothing.
    fn unlisten(&self, client: u64, is_pattern: bool, names: Vec<Bytes>) {
        let _ = (client, is_pattern, names);
    }

    /// A client has gone. Nothing of it comes afterwards, and an answer to it is dropped. This is called once for every
    /// client, also for one that has asked for nothing, and while the node stops.
    fn left(&self, client: u64) {
        let _ = client;
    }

    /// What INFO, the metrics and `/readyz` say of it. Beside the node's threads that of the metrics calls this as well.
    fn report(&self) -> UpstreamReport {
        UpstreamReport::default()
    }
}

/// Sends messages to the clients of a node.
pub struct Publish(Box<SendMessage>);

/// Takes a channel and a message.
type SendMessage = dyn Fn(&[u8], &[u8]) + Send + Sync;

impl Publish {
    /// Messages go to `send`, by their channel. Tests of an upstream need no node for it.
    pub fn new(send: impl Fn(&[u8], &[u8]) + Send + Sync + 'static) -> Self {
        Self(Box::new(send))
    }

    /// Sends a message to those who listen to this channel, or to a pattern that matches it. It locks the node, so it must not be called
    /// under a lock that is taken within a method of [`Upstream`].
    pub fn send(&self, channel: &[u8], payload: &[u8]) {
        (self.0)(channel, payload);
    }
}

impl Debug for Publish {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("Publish")
    }
}

/// What a client wants to listen to.
#[derive(Debug)]
pub struct UpstreamSubscription {
    /// The client's number.
    pub client: u64,
    /// Whether these are patterns, or the names of channels.
    pub is_pattern: bool,
    /// At least one.
    pub names: Vec<Bytes>,
    /// Any reply but an error says that it listens from now on.
    pub answer: PendingAnswer,
}

/// What an upstream says of itself.
#[derive(Clone, Debug, Default)]
pub struct UpstreamReport {
    /// Why it can answer no request now, where that is so: `/readyz` says it then.
    pub not_ready: Option<String>,
    /// What somebody has to mend although it can answer requests, where there is something: `/readyz` says it as well.
    pub warning: Option<String>,
    /// Sections of INFO.
    pub sections: Vec<ReportSection>,
    /// What `/metrics` shows in place of a node's figures about its keys.
    pub metrics: Vec<ReportMetric>,
    /// The same of durations.
    pub histograms: Vec<ReportHistogram>,
}

/// A section of INFO.
#[derive(Clone, Debug)]
pub struct ReportSection {
    /// Its title. In small letters it is the word that asks for it.
    pub title: &'static str,
    /// Names and values. Neither has a line break.
    pub fields: Vec<(String, String)>,
}

/// A metric with all its samples.
#[derive(Clone, Debug)]
pub struct ReportMetric {
    /// Its name, without the suffix `_total` of a counter.
    pub name: &'static str,
    /// The text that explains it.
    pub help: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// The labels and the value of each sample.
    pub samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// A metric of durations with all its samples.
#[derive(Clone, Debug)]
pub struct ReportHistogram {
    /// Its name.
    pub name: &'static str,
    /// The text that explains it.
    pub help: &'static str,
    /// The labels of each sample, and what was counted.
    pub samples: Vec<(Vec<(&'static str, String)>, TimeCounts)>,
}

/// What a client has asked for.
#[derive(Debug)]
pub struct UpstreamRequest {
    /// The client's number, as CLIENT ID shows it. Numbers are not used again while the node runs.
    pub client: u64,
    /// Says who the client is, for people: the name that it has given itself, its address, and its library.
    pub caller: UpstreamCaller,
    /// The database that the client has selected: 0, since such a node refuses others.
    pub database: u8,
    /// One command with its arguments, its name as the client has written it; or those of a transaction, perhaps none.
    /// The name is known and the number of arguments is right. The words of one command share their memory.
    pub commands: Vec<Vec<Bytes>>,
    /// What is to be asked before each command that a script calls, where the client's user may not call all of them: the refusal,
    /// which the script gets in place of a reply. What is only tried is asked for as a [`Purpose::Question`](quorlock_engine::Purpose).
    pub script_guard: Option<CommandGuard>,
    /// The client has sent EXEC: the answer is an array with the reply to each command, or an error for all of them.
    pub is_transaction: bool,
    /// Where the reply goes.
    pub answer: PendingAnswer,
}

/// The client of a request, which can say who it is.
#[derive(Clone, Debug)]
pub struct UpstreamCaller(pub(crate) Arc<Client>);

impl UpstreamCaller {
    /// Its name, its address and its library, as they are now.
    #[must_use]
    pub fn shown(&self) -> String {
        self.0.caller()
    }
}

/// An answer that a client waits for.
#[must_use = "the client waits for it; dropped, it is an error"]
pub struct PendingAnswer(Option<Box<dyn FnOnce(LateReply) + Send>>);

impl PendingAnswer {
    /// An answer that goes to `send`, which is called once. Tests of an upstream need no node for it.
    pub fn new(send: impl FnOnce(LateReply) + Send + 'static) -> Self {
        Self(Some(Box::new(send)))
    }

    /// Answers the client, if it is still here. A reply that a node would limit is limited by the caller.
    pub fn send(mut self, reply: Reply) {
        if let Some(send) = self.0.take() {
            send(LateReply::Made(reply));
        }
    }

    /// Answers the client with what this makes, right before it is sent: for a reply that is true only for some time. It is
    /// called on the thread of the node that serves the client, and must not block.
    pub fn send_made(mut self, make: impl FnOnce() -> Reply + Send + 'static) {
        if let Some(send) = self.0.take() {
            send(LateReply::ToBeMade(Box::new(make)));
        }
    }
}

/// A reply, or what makes it when it leaves.
pub enum LateReply {
    /// It is this one.
    Made(Reply),
    /// It is made right before it is sent.
    ToBeMade(Box<dyn FnOnce() -> Reply + Send>),
}

impl LateReply {
    /// The reply that leaves now.
    pub fn make(self) -> Reply {
        match self {
            Self::Made(reply) => reply,
            Self::ToBeMade(make) => make(),
        }
    }
}

impl Debug for LateReply {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made(reply) => reply.fmt(formatter),
            Self::ToBeMade(_) => formatter.write_str("ToBeMade"),
        }
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        if let Some(send) = self.0.take() {
            send(LateReply::Made(Reply::Error(UNANSWERED)));
        }
    }
}

impl Debug for PendingAnswer {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PendingAnswer").finish()
    }
}

/// What a client is told whose answer was dropped.
pub(crate) const UNANSWERED: ErrorReply = ErrorReply::fixed(
    "ERR the command was given up without an answer. Whether it was executed is not known: treat a lock that it asked \
     for as not granted",
);
