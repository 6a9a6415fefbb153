//! Transactions: WATCH, MULTI, what is queued, EXEC, DISCARD.
//!
//! They fail closed: with one refused command, none is executed. What EXEC executes is one frame of the log
//! and happens at one moment; nobody else's command comes between. How it is executed is in `execution`.

use std::mem::size_of;
use std::ops::DerefMut;

use quorlock_engine::{Command, ErrorReply, Flags, NodeCommand, Reply, Spec};
use smallvec::SmallVec;

use crate::core::clients::Introduction;
use crate::core::commit::Failure;
use crate::core::executor::room::log_bytes_max;
use crate::core::executor::{Executor, needs_service};
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::named_request::NamedRequest;

/// What was queued since MULTI.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) commands: Vec<Queued>,
    /// How many commands CLIENT LIST shows: those from before a refusal as well, which are not kept.
    count: usize,
    /// Memory of the commands.
    bytes: usize,
    /// At most how many bytes they add to the log.
    log_bytes_max: u64,
    pub(super) has_script: bool,
    /// A command is not the engine's.
    pub(super) has_node_command: bool,
    /// A command may write or publish, so that a pause of writes holds up EXEC.
    may_write: bool,
    needs_service: bool,
    /// A command may add to what keys take.
    may_grow: bool,
    /// A command was refused.
    is_spoilt: bool,
}

/// What EXEC is to execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(super) spec: &'static Spec,
    /// Under which it is counted.
    pub(super) number: Option<usize>,
    /// Where the node executes it.
    pub(super) node_command: Option<NodeCommand>,
    /// It may change or publish something.
    pub(super) may_write: bool,
}

#[derive(Debug)]
pub(super) struct Queued {
    pub(super) step: Step,
    pub(super) arguments: Box<[Box<[u8]>]>,
}

pub(super) type Arguments<'a> = SmallVec<[&'a [u8]; ARGUMENTS_INLINE]>;

impl Session {
    /// Whether a request is kept for EXEC.
    pub(super) fn queues(&self, request: NamedRequest<'_>) -> bool {
        let is_now = |spec: &Spec| spec.flags.contains(Flags::AT_ONCE);
        self.transaction.is_some() && !request.spec.is_some_and(is_now)
    }

    /// Whether EXEC would execute commands that may write or publish.
    pub(super) fn has_queued_writes(&self) -> bool {
        let transaction = self.transaction.as_ref();
        transaction.is_some_and(|transaction| transaction.may_write)
    }

    /// Keeps a request for EXEC, or spoils the transaction.
    pub(super) fn queue(&mut self, step: Result<Step, ErrorReply>, arguments: &[&[u8]]) -> Reply {
        let Some(transaction) = &mut self.transaction else {
            return Reply::Error(EXEC_WITHOUT_MULTI);
        };
        let reply = match step.and_then(|step| transaction.push(step, arguments)) {
            Ok(()) => Reply::status("QUEUED"),
            Err(error) => {
                transaction.spoil();
                Reply::Error(error)
            }
        };
        transaction.show(self.client.introduction());
        reply
    }

    /// A request that acts on the transaction, or on none, is refused: that spoils it. A malformed EXEC ends it.
    ///
    /// # Errors
    /// When the node has failed.
    pub(super) fn refuse(
        &mut self,
        request: NamedRequest<'_>,
        error: ErrorReply,
        batch: &mut Batch<'_>,
    ) -> Result<Reply, Failure> {
        if request.is(NodeCommand::Exec) {
            let (executor, _) = batch.executor()?;
            self.end_transaction(executor);
            return Ok(aborted(&error));
        }
        Ok(match self.transaction {
            Some(_) => self.queue(Err(error), &[]),
            None => Reply::Error(error),
        })
    }

    /// Back to before MULTI; nothing is watched any more.
    pub(super) fn end_transaction(&mut self, executor: &mut Executor) -> Option<Transaction> {
        self.unwatch(executor);
        let transaction = self.transaction.take()?;
        self.show_no_transaction();
        Some(transaction)
    }

    /// CLIENT LIST shows nothing queued any more.
    pub(super) fn show_no_transaction(&self) {
        let mut introduction = self.client.introduction();
        introduction.queued = None;
        introduction.queued_bytes = 0;
    }

    pub(super) fn unwatch(&mut self, executor: &mut Executor) {
        executor.unwatch(&self.client);
        self.watched_bytes = 0;
    }

    /// Memory of what is queued and watched.
    pub(super) fn transaction_bytes(&self) -> usize {
        let queued = self.transaction.as_ref().map_or(0, |queue| queue.bytes);
        queued + self.watched_bytes
    }
}

impl Transaction {
    fn push(&mut self, step: Step, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
        if self.is_spoilt {
            // EXEC will refuse it: what comes is checked only.
            return Ok(());
        }
        let spec = step.spec;
        match step.node_command {
            Some(_) => self.has_node_command = true,
            None => {
                let bytes = log_bytes_max(&Command { spec, arguments });
                self.log_bytes_max = self.log_bytes_max.saturating_add(bytes);
                self.has_script |= spec.flags.contains(Flags::SCRIPT);
                self.needs_service |= needs_service(spec);
                self.may_grow |= spec.flags.contains(Flags::DENY_OOM);
                self.may_write |= step.may_write;
            }
        }
        let memory = arguments
            .iter()
            .map(|argument| argument.len() + ARGUMENT_BYTES);
        let memory = memory.sum::<usize>() + size_of::<Queued>();
        if self.bytes + memory > QUEUED_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        self.bytes += memory;
        self.count += 1;
        self.commands.push(Queued {
            step,
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
        });
        Ok(())
    }

    /// CLIENT LIST shows how much is queued.
    pub(super) fn show(&self, mut introduction: impl DerefMut<Target = Introduction>) {
        introduction.queued = Some(self.count);
        introduction.queued_bytes = self.bytes;
    }

    fn spoil(&mut self) {
        // As with Redis a pause holds up the EXEC of what would have written.
        *self = Self {
            is_spoilt: true,
            count: self.count,
            may_write: self.may_write,
            ..Self::default()
        };
    }
}

impl Queued {
    pub(super) fn arguments(&self) -> Arguments<'_> {
        self.arguments.iter().map(AsRef::as_ref).collect()
    }
}

pub(super) fn multi(session: &mut Session, _: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    if session.transaction.is_some() {
        return Err(NESTED.into());
    }
    session.transaction = Some(Transaction::default());
    session.client.introduction().queued = Some(0);
    Ok(Answer::Reply(Reply::Ok))
}

pub(super) fn discard(session: &mut Session, batch: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    if session.transaction.is_none() {
        return Err(DISCARD_WITHOUT_MULTI.into());
    }
    let (executor, _) = batch.executor()?;
    session.end_transaction(executor);
    Ok(Answer::Reply(Reply::Ok))
}

pub(super) fn unwatch(session: &mut Session, batch: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    let (executor, _) = batch.executor()?;
    session.unwatch(executor);
    Ok(Answer::Reply(Reply::Ok))
}

pub(super) fn watch(session: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    if session.transaction.is_some() {
        return Err(WATCH_INSIDE.into());
    }
    if batch.has_upstream() {
        return Err(CANNOT_WATCH.into());
    }
    let keys = &arguments[1..];
    let key_bytes = keys.iter().map(|key| key.len() + WATCHED_BYTES);
    let bytes = session.watched_bytes + key_bytes.sum::<usize>();
    if session.client.watched().len() + keys.len() > WATCHED_MAX || bytes > QUEUED_BYTES_MAX {
        return Err(TOO_MANY_WATCHED.into());
    }
    session.watched_bytes = bytes;
    let database = session.caller.database;
    let (executor, now) = batch.executor()?;
    let mut watched = session.client.watched();
    executor.watching += usize::from(watched.is_empty());
    for key in keys {
        watched.push(executor.engine.watch(now.node, database, key));
    }
    Ok(Answer::Reply(Reply::Ok))
}

pub(super) fn exec(session: &mut Session, batch: &mut Batch<'_>, _: &[&[u8]]) -> Answered {
    let transaction = session.transaction.as_ref().ok_or(EXEC_WITHOUT_MULTI)?;
    let (executor, now) = batch.executor()?;
    if transaction.is_spoilt {
        session.end_transaction(executor);
        return Err(SPOILT.into());
    }
    if session.client.is_dirty(now.node) {
        session.end_transaction(executor);
        return Ok(Answer::Reply(Reply::NilArray));
    }
    let refusal = executor.refuses_transaction(now.node, transaction.needs_service);
    let refusal = refusal.or_else(|| executor.engine.refuses_to_grow(transaction.may_grow));
    let log_bytes_max = transaction.log_bytes_max;
    if refusal.is_none() && executor.transaction_waits_for_segment(log_bytes_max) {
        return Ok(batch.lacks_segment()?);
    }
    let transaction = session
        .end_transaction(executor)
        .ok_or(EXEC_WITHOUT_MULTI)?;
    Ok(match refusal {
        Some(error) => Answer::Reply(aborted(&error)),
        None if batch.has_upstream() => transaction.ask_upstream(session, batch)?,
        None => transaction.execute(session, batch)?,
    })
}

/// What EXEC answers where nothing of it is executed, and why.
pub(super) fn aborted(error: &ErrorReply) -> Reply {
    let why = String::from_utf8_lossy(error.as_bytes());
    let why = why.strip_prefix("ERR ").unwrap_or(&why);
    Reply::Error(ErrorReply::new(format!(
        "EXECABORT Transaction discarded because of: {why}"
    )))
}

/// What one connection may queue, in bytes: more than twice what one frame of the log can hold.
const QUEUED_BYTES_MAX: usize = 16 << 20;

/// So many keys may one connection watch.
const WATCHED_MAX: usize = 4096;

/// Memory of a watched key beside its bytes, with its part of the table.
const WATCHED_BYTES: usize = 192;

/// Memory of an argument beside its bytes.
const ARGUMENT_BYTES: usize = 32;

const ARGUMENTS_INLINE: usize = 8;

const NESTED: ErrorReply = ErrorReply::fixed("ERR MULTI calls can not be nested");
const WATCH_INSIDE: ErrorReply = ErrorReply::fixed("ERR WATCH inside MULTI is not allowed");
const CANNOT_WATCH: ErrorReply = ErrorReply::fixed(
    "NOTALOCK the agent keeps no keys, so it cannot watch one: use one script instead",
);
const EXEC_WITHOUT_MULTI: ErrorReply = ErrorReply::fixed("ERR EXEC without MULTI");
const DISCARD_WITHOUT_MULTI: ErrorReply = ErrorReply::fixed("ERR DISCARD without MULTI");
const SPOILT: ErrorReply =
    ErrorReply::fixed("EXECABORT Transaction discarded because of previous errors.");
const TOO_LARGE: ErrorReply = ErrorReply::fixed(
    "ERR the transaction is larger than 16 MiB, more than one frame of the log can hold. Nothing of it will be \
     executed: divide it",
);
const TOO_MANY_WATCHED: ErrorReply = ErrorReply::fixed(
    "ERR a connection may watch 4096 keys, and 16 MiB of them. None of these is watched",
);
