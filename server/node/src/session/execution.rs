//! How EXEC executes what was queued.
//!
//! Commands on keys, those about the connection, and ACL and CONFIG run in their order under one lock of the engine, each under the
//! user that the connection has at its place. Others about the node or about other connections (INFO, CLIENT LIST ...) are
//! checked at their place, and run in their order behind them, once the transaction stays
//! and the engine is released: they may take long, and nothing takes back what they do. A transaction that is undone for
//! its size or its time has not executed them, and what it has changed of users and configuration is put back. What it
//! had changed of its connection cannot be taken back: the
//! connection is closed, with an error that says so.

use std::convert::Infallible;

use quorlock_engine::channels::Subscription;
use quorlock_engine::{Command, DEBUG_OBJECT, ErrorReply, Flags, Moment, NodeCommand, Reply, Spec};

use crate::core::commit::Failure;
use crate::core::wait::DurabilityWait;
use crate::session::Session;
use crate::session::acl::{change_users, close_those_who_may_not_stay};
use crate::session::batch::{Answer, Batch};
use crate::session::client::{self, Reach};
use crate::session::config;
use crate::session::executed::{Executed, Part, ReplyContent};
use crate::session::node_changes::NodeChanges;
use crate::session::place::{Place, is_change, place};
use crate::session::transaction::{Queued, Transaction, aborted};

impl Transaction {
    pub(super) fn execute(
        self,
        session: &mut Session,
        batch: &mut Batch<'_>,
    ) -> Result<Answer, Failure> {
        if self.has_node_command {
            // CLIENT INFO may be among them.
            self.show(session.client.introduction());
        }
        let answer = self.execute_all(session, batch);
        if self.has_node_command {
            session.show_no_transaction();
        }
        answer
    }

    fn execute_all(&self, session: &mut Session, batch: &mut Batch<'_>) -> Result<Answer, Failure> {
        let database = session.caller.database;
        let mut executed = Executed {
            is_wanted: session.wants_replies(),
            parts: Vec::with_capacity(self.commands.len()),
            wait: batch.owed,
            closes: false,
        };
        let (executor, now) = batch.executor()?;
        let running = executor.begin_transaction(now);
        // Until it ends the engine stays locked.
        batch.changes = Some(NodeChanges::default());
        let order = self.order();
        let (mut has_changed_connection, mut has_later) = (false, false);
        for (index, queued) in self.commands.iter().enumerate() {
            let is_later = queued.reach() == Reach::Others;
            has_changed_connection |= queued.reach() == Reach::Connection;
            let is_too_late = is_later && order.is_too_late(index, queued.place());
            let content = queued.execute(session, batch, now, (&mut executed, is_too_late))?;
            // Without one it has reached a limit, and its end takes it back.
            let Some(content) = content else { break };
            has_later |= is_later && content.replies().is_empty();
            executed.parts.push(Part {
                content,
                protocol: session.protocol(),
                is_wanted: session.wants_replies(),
                is_last: false,
            });
        }
        batch.under_lock += self.commands.len();
        let (executor, _) = batch.executor()?;
        let ended = executor.end_transaction(now, running, &mut executed.wait);
        session.has_published |= executor.take_has_published();
        let (is_long, reply_bytes) = (executor.has_long_reply(), executor.reply_bytes());
        session.position = session.position.max(executed.wait.position());
        if self.has_script {
            let lines = executor.engine.take_script_log();
            batch.has_run_script = true;
            batch.note_script_log(lines);
            batch.note_script_denials(session)?;
        }
        if let Err(error) = ended {
            undo_changes(batch)?;
            session.select(database);
            return Ok(match has_changed_connection {
                true => Answer::Last(aborted(&and_closed(&error))),
                false => Answer::After(aborted(&error), executed.wait),
            });
        }
        executed.closes |= keep_changes(session, batch)?;
        if has_later {
            self.execute_later(session, batch, &mut executed, reply_bytes)?;
        } else if is_long {
            // Rendering it, and freeing it, takes long and needs no engine.
            batch.release();
        }
        Ok(Answer::Executed(executed))
    }

    /// Looks for what others may not run behind.
    fn order(&self) -> ExecutionOrder {
        let mut order = ExecutionOrder::default();
        if !self.has_node_command {
            return order;
        }
        for (index, queued) in self.commands.iter().enumerate() {
            if queued.place() == Place::Own {
                order.own_until = index;
                let command = queued.step.node_command;
                if command.is_some_and(|command| is_change(command, &queued.arguments())) {
                    order.changes_until = index;
                }
            }
        }
        order
    }

    /// Executes what is about the node or about other connections. `reply_bytes`: what the replies of the others take.
    fn execute_later(
        &self,
        session: &mut Session,
        batch: &mut Batch<'_>,
        executed: &mut Executed,
        reply_bytes: usize,
    ) -> Result<(), Failure> {
        batch.release();
        batch.owed.raise(executed.wait);
        let node = batch.node;
        let limit = node.configured(|it| it.script_time_limit);
        let mut began = None;
        let mut budget = node.settings.reply_budget();
        // The engine has had the same limit.
        let _ = budget.charge_memory(reply_bytes);
        for (index, queued) in self.commands.iter().enumerate() {
            let is_refused = !executed.parts[index].content.replies().is_empty();
            if queued.reach() != Reach::Others || is_refused {
                continue;
            }
            let before = budget;
            // A new moment: the engine was released.
            let (_, now) = batch.executor()?;
            batch.release();
            let took = now.node.saturating_since(*began.get_or_insert(now.node));
            let content = match budget.charge(0) {
                _ if took > limit => {
                    ReplyContent::One(Reply::Error(took_too_long(limit.as_millis())))
                }
                Err(error) => ReplyContent::One(Reply::Error(error.of_command())),
                Ok(()) => {
                    let content = queued.run(session, batch, executed, index)?;
                    batch.release();
                    // An acknowledgement takes what was charged above.
                    budget = before;
                    let mut replies = content.replies().iter();
                    match replies.try_for_each(|reply| budget.charge_reply(reply)) {
                        Ok(()) => content,
                        Err(error) => ReplyContent::One(Reply::Error(error.of_command())),
                    }
                }
            };
            executed.parts[index].content = content;
        }
        Ok(())
    }
}

/// Up to which command those run that are executed at their own place.
#[derive(Clone, Copy, Debug, Default)]
struct ExecutionOrder {
    own_until: usize,
    changes_until: usize,
}

impl ExecutionOrder {
    /// Whether a command at this index would run behind commands that come after it and see, or change, the same.
    fn is_too_late(self, index: usize, place: Place) -> bool {
        match place {
            Place::Own | Place::Behind => false,
            Place::BehindChanges => index < self.changes_until,
            Place::BehindAll => index < self.own_until,
        }
    }
}

impl Queued {
    /// What it may change of the connection or of others.
    fn reach(&self) -> Reach {
        let flags = self.step.spec.flags;
        match self.step.node_command {
            None => Reach::Nothing,
            Some(NodeCommand::Client) => client::reach(&self.arguments()),
            Some(command @ (NodeCommand::Acl | NodeCommand::Config)) => {
                match place(command, &self.arguments()) {
                    Place::Own => Reach::Nothing,
                    _ => Reach::Others,
                }
            }
            Some(NodeCommand::Debug) if self.engine_spec().is_some() => Reach::Nothing,
            Some(_) if !flags.contains(Flags::BRIEF) => Reach::Others,
            Some(NodeCommand::Auth | NodeCommand::Hello) => Reach::Connection,
            Some(_) if flags.contains(Flags::PUBSUB) => Reach::Connection,
            Some(_) => Reach::Nothing,
        }
    }

    /// The row by which the engine executes it, if it does.
    fn engine_spec(&self) -> Option<&'static Spec> {
        match (self.step.node_command, &*self.arguments) {
            (None, _) => Some(self.step.spec),
            (Some(NodeCommand::Debug), [_, subcommand, _])
                if subcommand.eq_ignore_ascii_case(b"object") =>
            {
                Some(DEBUG_OBJECT)
            }
            _ => None,
        }
    }

    /// Where it runs.
    fn place(&self) -> Place {
        match self.step.node_command {
            Some(command @ (NodeCommand::Acl | NodeCommand::Config)) => {
                place(command, &self.arguments())
            }
            _ if self.reach() == Reach::Others => Place::Behind,
            _ => Place::Own,
        }
    }

    /// Refuses it at its place: its user may not send it there, or it runs too late for commands behind it.
    fn refused(
        &self,
        session: &mut Session,
        batch: &mut Batch<'_>,
        is_too_late: bool,
    ) -> Result<Option<Reply>, Failure> {
        let refusal = match batch.denied_since(session, &self.arguments())? {
            None if is_too_late => Some(NOT_AT_ITS_PLACE),
            refusal => refusal,
        };
        let Some(reply) = refusal.map(Reply::Error) else {
            return Ok(None);
        };
        let around = batch.begin_queued(self.step.number);
        batch.note_refused();
        batch.end_queued(around, Some(&reply));
        batch.slow = None;
        Ok(Some(reply))
    }

    /// Executes it at its place, if it runs there, and charges its reply; none where the transaction may not go on.
    fn execute(
        &self,
        session: &mut Session,
        batch: &mut Batch<'_>,
        now: Moment,
        (executed, is_too_late): (&mut Executed, bool),
    ) -> Result<Option<ReplyContent>, Failure> {
        let content = match self.refused(session, batch, is_too_late)? {
            Some(reply) => ReplyContent::One(reply),
            None if self.reach() == Reach::Others => return Ok(Some(ReplyContent::None)),
            None => match self.engine_spec() {
                Some(spec) => return self.execute_in_engine(session, batch, now, spec),
                None => self.run(session, batch, executed, executed.parts.len())?,
            },
        };
        let (executor, _) = batch.executor()?;
        Ok(executor.charge_next(content.replies()).then_some(content))
    }

    fn execute_in_engine(
        &self,
        session: &mut Session,
        batch: &mut Batch<'_>,
        now: Moment,
        spec: &'static Spec,
    ) -> Result<Option<ReplyContent>, Failure> {
        let around = batch.begin_queued(self.step.number);
        let arguments = &*self.arguments();
        let guard = batch.guard(session);
        let (executor, _) = batch.executor()?;
        if spec.flags.contains(Flags::SCRIPT) {
            executor.guard_scripts(guard);
        }
        let command = Command { spec, arguments };
        let reply = executor.execute_next(now, &session.caller, &command);
        batch.show_queued(session, arguments);
        batch.end_queued(around, reply.as_ref());
        batch.note_if_slow(session, arguments);
        Ok(reply.map(ReplyContent::One))
    }

    /// Runs a command of the node, as the part of this index.
    fn run(
        &self,
        session: &mut Session,
        batch: &mut Batch<'_>,
        executed: &mut Executed,
        index: usize,
    ) -> Result<ReplyContent, Failure> {
        let Some(command) = self.step.node_command else {
            return Ok(ReplyContent::None);
        };
        let around = batch.begin_queued(self.step.number);
        let answer = match command {
            NodeCommand::Subscribe(Subscription::Shard) => Answer::Reply(Reply::Error(NO_SHARDS)),
            _ => batch.execute_of_node(session, command, &self.arguments())?,
        };
        let content = match answer {
            Answer::Reply(reply) => ReplyContent::One(reply),
            Answer::Made(made) => ReplyContent::Made(made),
            Answer::Many(replies) => ReplyContent::Many(replies),
            Answer::Durable(reply, position) => {
                executed
                    .wait
                    .raise(DurabilityWait::until_synced_at_once(position));
                ReplyContent::One(reply)
            }
            Answer::After(reply, after) => {
                executed.wait.raise(after);
                ReplyContent::One(reply)
            }
            // As in Redis nothing waits within a transaction.
            Answer::Wait(pending) => ReplyContent::One(pending.reply(batch.node)),
            Answer::Last(reply) => {
                executed.closes = true;
                if let Some(part) = executed.parts.get_mut(index) {
                    part.is_last = true;
                }
                ReplyContent::One(reply)
            }
            _ => ReplyContent::None,
        };
        batch.show_queued(session, &self.arguments());
        batch.end_queued(around, content.replies().first());
        batch.note_if_slow(session, &self.arguments());
        Ok(content)
    }
}

/// The transaction stays: connections are closed that their users have lost by it. Says whether its own is one.
fn keep_changes(session: &Session, batch: &mut Batch<'_>) -> Result<bool, Failure> {
    let changes = batch.changes.take().unwrap_or_default();
    if changes.users.is_none() {
        return Ok(false);
    }
    let answer = close_those_who_may_not_stay(session, batch)?;
    Ok(matches!(answer, Answer::Last(_)))
}

/// The transaction is taken back, and with it what it has changed of users and configuration.
fn undo_changes(batch: &mut Batch<'_>) -> Result<(), Failure> {
    let changes = batch.changes.take().unwrap_or_default();
    if let Some(before) = changes.config {
        config::put_back(batch, before)?;
    }
    if let Some(before) = changes.users {
        let Ok(()) = change_users(batch, |users| {
            *users = before;
            Ok::<(), Infallible>(())
        })?;
    }
    Ok(())
}

fn and_closed(error: &ErrorReply) -> ErrorReply {
    let why = String::from_utf8_lossy(error.as_bytes());
    ErrorReply::new(format!(
        "{why}. It had changed this connection (AUTH, HELLO, SUBSCRIBE, CLIENT ...), which is closed for that"
    ))
}

fn took_too_long(limit_ms: u128) -> ErrorReply {
    ErrorReply::new(format!(
        "ERR this command was not executed: those of the transaction before it that are about the node took longer than \
         script-time-limit ({limit_ms} ms). What the transaction did to keys stays"
    ))
}

const NOT_AT_ITS_PLACE: ErrorReply = ErrorReply::fixed(
    "ERR this command runs behind the transaction, because it waits for the disk, writes to the log or disconnects clients, and \
     commands behind it in the transaction depend on it: send it on its own, or at the end of the transaction",
);

/// Redis's, which lets SUBSCRIBE and PSUBSCRIBE be for clients of old.
const NO_SHARDS: ErrorReply =
    ErrorReply::fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
