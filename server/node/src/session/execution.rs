//! How EXEC executes what was queued.
//!
//! Commands on keys, and those about the connection, run in their order under one lock of the engine. Those about the node or
//! about other connections (CONFIG, INFO, CLIENT LIST ...) run in their order behind them, once the transaction stays
//! and the engine is released: they may take long, and nothing takes back what they do. A transaction that is undone for
//! its size or its time has not executed them. What it had changed of its connection cannot be taken back either: the
//! connection is closed, with an error that says so.

use quorlock_engine::channels::Subscription;
use quorlock_engine::{Command, ErrorReply, Flags, Moment, NodeCommand, Reply};

use crate::core::commit::Failure;
use crate::core::wait::DurabilityWait;
use crate::session::Session;
use crate::session::batch::{Answer, Batch};
use crate::session::client::{self, Reach};
use crate::session::executed::{Executed, Part, ReplyContent};
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
        let (mut has_changed_connection, mut has_later) = (false, false);
        for queued in &self.commands {
            let is_later = queued.reach() == Reach::Others;
            has_later |= is_later;
            has_changed_connection |= queued.reach() == Reach::Connection;
            let content = match is_later {
                true => Some(ReplyContent::None),
                false => queued.execute(session, batch, now, &mut executed)?,
            };
            // Without one it has reached a limit, and its end takes it back.
            let Some(content) = content else { break };
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
            session.select(database);
            return Ok(match has_changed_connection {
                true => Answer::Last(aborted(&and_closed(&error))),
                false => Answer::After(aborted(&error), executed.wait),
            });
        }
        if has_later {
            self.execute_later(session, batch, &mut executed, reply_bytes)?;
        } else if is_long {
            // Rendering it, and freeing it, takes long and needs no engine.
            batch.release();
        }
        Ok(Answer::Executed(executed))
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
        let mut began_raw = None;
        let mut budget = node.settings.reply_budget();
        // The engine has had the same limit.
        let _ = budget.charge_memory(reply_bytes);
        for (index, queued) in self.commands.iter().enumerate() {
            if queued.reach() != Reach::Others {
                continue;
            }
            let before = budget;
            let now_raw = node.clock.raw();
            let took_ns = now_raw.nanos_since(*began_raw.get_or_insert(now_raw));
            let content = match budget.charge(0) {
                _ if u128::from(took_ns) > limit.as_nanos() => {
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

impl Queued {
    /// What it may change of the connection or of others.
    fn reach(&self) -> Reach {
        let flags = self.step.spec.flags;
        match self.step.node_command {
            None => Reach::Nothing,
            Some(NodeCommand::Client) => client::reach(&self.arguments()),
            Some(_) if !flags.contains(Flags::BRIEF) => Reach::Others,
            Some(NodeCommand::Hello) => Reach::Connection,
            Some(_) if flags.contains(Flags::PUBSUB) => Reach::Connection,
            Some(_) => Reach::Nothing,
        }
    }

    /// Executes it while the transaction runs, and charges its reply; none where the transaction may not go on.
    fn execute(
        &self,
        session: &mut Session,
        batch: &mut Batch<'_>,
        now: Moment,
        executed: &mut Executed,
    ) -> Result<Option<ReplyContent>, Failure> {
        let spec = self.step.spec;
        if self.step.node_command.is_some() {
            let index = executed.parts.len();
            let content = self.run(session, batch, executed, index)?;
            let (executor, _) = batch.executor()?;
            return Ok(executor.charge_next(content.replies()).then_some(content));
        }
        let around = batch.begin_queued(self.step.number);
        let arguments = &*self.arguments();
        let denied = batch.denied_since(session, arguments)?;
        let guard = batch.guard(session);
        let (executor, _) = batch.executor()?;
        if let Some(error) = denied {
            let reply = Reply::Error(error);
            let may_go_on = executor.charge_next(std::slice::from_ref(&reply));
            batch.note_refused();
            batch.end_queued(around, Some(&reply));
            batch.slow = None;
            return Ok(may_go_on.then_some(ReplyContent::One(reply)));
        }
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
        let denied = batch.denied_since(session, &self.arguments())?;
        let answer = match command {
            _ if denied.is_some() => Answer::Reply(denied.map_or(Reply::Nil, Reply::Error)),
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

fn and_closed(error: &ErrorReply) -> ErrorReply {
    let why = String::from_utf8_lossy(error.as_bytes());
    ErrorReply::new(format!(
        "{why}. It had changed this connection (HELLO, SUBSCRIBE, CLIENT ...), which is closed for that"
    ))
}

fn took_too_long(limit_ms: u128) -> ErrorReply {
    ErrorReply::new(format!(
        "ERR this command was not executed: those of the transaction before it that are about the node took longer than \
         script-time-limit ({limit_ms} ms). What the transaction did to keys stays"
    ))
}

/// Redis's, which lets SUBSCRIBE and PSUBSCRIBE be for clients of old.
const NO_SHARDS: ErrorReply =
    ErrorReply::fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
