//! What a node with an upstream hands over to it, and what it refuses because it keeps no keys.
//!
//! A command on keys is checked as on any node: it is known, its arguments are right in number, its client may send it
//! now. Then its connection waits for the answer and executes nothing meanwhile, so that replies keep their order. Commands
//! about the connection and the node stay here, except within a transaction: that is one request.
//!
//! What was handed over is executed even if its client is killed or goes away, unless the upstream ends it: the reply to CLIENT KILL says only that
//! nothing more comes from that client. CLIENT UNBLOCK does not end the wait, since what becomes of the request would not be
//! known. A node that stops waits for answers as long as for clients that read: `shutdown-timeout`, and two seconds
//! without a byte sent.

use std::sync::Arc;

use bytes::Bytes;
use quorlock_engine::channels::Subscription;
use quorlock_engine::{ErrorReply, Flags, Reply, Spec, spec_named};

use crate::core::commit::Failure;
use crate::core::upstream::{PendingAnswer, UpstreamCaller, UpstreamRequest, UpstreamSubscription};
use crate::session::batch::{Answer, Batch};
use crate::session::transaction::{Transaction, aborted};
use crate::session::{Condition, Pending, Session};

impl Batch<'_> {
    /// Whether another than the engine executes commands on keys.
    #[inline]
    pub(super) fn has_upstream(&self) -> bool {
        self.node.upstream.is_some()
    }

    /// Hands over a command whose arguments are right in number.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_upstream(
        &mut self,
        session: &mut Session,
        arguments: &[&[u8]],
    ) -> Result<Answer, Failure> {
        self.hand_over(session, vec![words(arguments)], false)
    }

    fn hand_over(
        &mut self,
        session: &mut Session,
        commands: Vec<Vec<Bytes>>,
        is_transaction: bool,
    ) -> Result<Answer, Failure> {
        let (executor, now) = self.executor()?;
        // Also what needs no lock: a node that stops is asked for nothing more.
        if let Some(error) = executor.refuses_transaction(now.node, true) {
            self.note_refused();
            return Ok(Answer::Reply(Reply::Error(error)));
        }
        // Whatever the upstream does, it does not hold up the others.
        self.release();
        let Some(upstream) = &self.node.upstream else {
            return Ok(Answer::Close);
        };
        let words = commands.iter().flatten();
        session.waiting_bytes = Some(words.map(|word| word.len() + WORD_BYTES).sum());
        // An upstream may keep answers for longer than the node lives.
        let (node, client) = (Arc::downgrade(self.node), Arc::clone(&session.client));
        let answer = PendingAnswer::new(move |reply| {
            if let Some(node) = node.upgrade() {
                node.deliveries.answer(&client, reply);
            }
        });
        let awaited = commands.clone();
        let mut specs = commands
            .iter()
            .filter_map(|words| spec_named(words.first()?));
        let script_guard = match specs.any(|spec| spec.flags.contains(Flags::SCRIPT)) {
            true => session.upstream_guard(&self.node.access),
            false => None,
        };
        let waits = upstream.execute(UpstreamRequest {
            client: session.client.id,
            caller: UpstreamCaller(Arc::clone(&session.client)),
            database: session.caller.database,
            commands,
            script_guard,
            is_transaction,
            answer,
        });
        match waits {
            true => self.wait_for_upstream(session, awaited),
            false => Ok(Answer::Wait(Pending::on(Condition::Upstream))),
        }
    }

    /// The upstream has a request that waits, perhaps for long. Its connection ends where its user may not send it any more: so the
    /// upstream grants nothing to that user, and gives back what it has taken for it.
    fn wait_for_upstream(
        &self,
        session: &mut Session,
        awaited: Vec<Vec<Bytes>>,
    ) -> Result<Answer, Failure> {
        // Shown first: who changes users looks at it behind the change.
        session.has_awaited = true;
        session.client.introduction().awaited = awaited;
        let access = &self.node.access;
        let is_as_checked = session.rights.are_of(access.version());
        let may_wait = is_as_checked
            || session.follow_user(access) && session.may_wait_as(session.rights.user());
        Ok(match may_wait {
            true => Answer::Wait(Pending::on(Condition::UpstreamWait)),
            false => Answer::Close,
        })
    }
}

impl Batch<'_> {
    /// Asks for what a client wants to listen to. It is told of nothing before that stands.
    pub(super) fn listen_upstream(
        &mut self,
        session: &mut Session,
        to: Subscription,
        names: &[&[u8]],
    ) -> Result<Answer, Failure> {
        if to == Subscription::Shard {
            return Ok(Answer::Reply(Reply::Error(NO_SHARDS)));
        }
        let (executor, now) = self.executor()?;
        if let Some(error) = executor.refuses_transaction(now.node, true) {
            self.note_refused();
            return Ok(Answer::Reply(Reply::Error(error)));
        }
        self.release();
        let Some(upstream) = &self.node.upstream else {
            return Ok(Answer::Close);
        };
        let command: &[u8] = match to {
            Subscription::Pattern => b"psubscribe",
            _ => b"subscribe",
        };
        let awaited = vec![words(&[&[command], names].concat())];
        let names = words(names);
        session.waiting_bytes = Some(names.iter().map(|name| name.len() + WORD_BYTES).sum());
        session.subscribing = Some((to, names.clone()));
        let (node, client) = (Arc::downgrade(self.node), Arc::clone(&session.client));
        let answer = PendingAnswer::new(move |reply| {
            if let Some(node) = node.upgrade() {
                node.deliveries.answer(&client, reply);
            }
        });
        upstream.listen(UpstreamSubscription {
            client: session.client.id,
            is_pattern: to == Subscription::Pattern,
            names,
            answer,
        });
        self.wait_for_upstream(session, awaited)
    }

    /// A client does not listen to these any more. The engine is released: messages are sent to its clients under locks of the upstream.
    pub(super) fn unlisten_upstream(
        &mut self,
        session: &Session,
        to: Subscription,
        names: Vec<Bytes>,
    ) {
        if names.is_empty() || !self.has_upstream() {
            return;
        }
        self.release();
        if let Some(upstream) = &self.node.upstream {
            upstream.unlisten(session.client.id, to == Subscription::Pattern, names);
        }
    }
}

impl Transaction {
    /// EXEC of a node with an upstream.
    pub(super) fn ask_upstream(
        self,
        session: &mut Session,
        batch: &mut Batch<'_>,
    ) -> Result<Answer, Failure> {
        for queued in &self.commands {
            if let Some(error) = batch.denied_since(session, &queued.arguments())? {
                return Ok(Answer::Reply(aborted(&error)));
            }
        }
        let commands = self.commands.iter();
        let commands = commands.map(|queued| words(&queued.arguments()));
        batch.hand_over(session, commands.collect(), true)
    }
}

/// The words of a command, in one piece of memory.
fn words(arguments: &[&[u8]]) -> Vec<Bytes> {
    let all = Bytes::from(arguments.concat());
    let mut end = 0;
    let word = |argument: &&[u8]| {
        let start = end;
        end += argument.len();
        all.slice(start..end)
    };
    arguments.iter().map(word).collect()
}

/// A command about the node within a transaction.
pub(super) fn not_in_transaction(spec: &Spec) -> ErrorReply {
    let name = spec.name.to_ascii_uppercase();
    ErrorReply::new(format!(
        "NOTALOCK a transaction on the agent holds commands on keys alone: send {name} before MULTI or after EXEC"
    ))
}

/// Memory of a word beside its bytes.
const WORD_BYTES: usize = 32;

pub(super) const CANNOT_TRACK: ErrorReply = ErrorReply::fixed(
    "NOTALOCK the agent keeps no keys, so it cannot tell when one changes: read it again instead",
);
const NO_SHARDS: ErrorReply = ErrorReply::fixed(
    "NOTALOCK the agent has no sharded channels: use SUBSCRIBE and PUBLISH, which go through all nodes",
);
pub(super) const ONE_DATABASE: ErrorReply = ErrorReply::fixed(
    "NOTALOCK the agent keeps no keys and has database 0 alone: begin the names of locks with a prefix instead",
);
