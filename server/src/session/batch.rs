//! The requests of one turn: executed in order under one lock of the engine, at one moment.
//!
//! Nothing is written to a file, a pipe or a socket while the engine is locked: what there is to
//! say is kept until it is released.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use quorlock_engine::{Command, ErrorReply, Flags, Hint, LogLine, Moment, Reply, spec_named};
use smallvec::SmallVec;

use crate::node::commit::Failure;
use crate::node::core::{Core, Wait};
use crate::node::durable_counts::Counts;
use crate::node::shared::Shared;
use crate::protocol::{Output, reply};
use crate::session::blocked::Blocked;
use crate::session::{Session, table};

/// What the connection does after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Everything that arrived is executed.
    Read,
    /// Send what there is, and execute nothing more until this is over and answered.
    Wait(Blocked),
    /// The request was not executed: it may need a segment of the log that is not made yet. It is to be
    /// executed again once one was made, or could not be.
    LacksSegment,
    /// Send what there is and close.
    Close,
}

/// One turn's access to the node.
pub(crate) struct Batch<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    core: Option<(MutexGuard<'a, Core>, Moment)>,
    /// The raw clock at the last moment, once there was one.
    raw_ns: Option<u64>,
    /// What the connection's earlier replies wait for, and so those of later requests.
    owed: Wait,
    /// For the node's log, once the engine is released.
    lines: Vec<Line>,
    /// Where the keys of this batch are.
    hints: SmallVec<[Hint; HINTS_INLINE]>,
    /// Commands under the present lock, and whether a script was among them.
    under_lock: usize,
    has_run_script: bool,
    commands: u64,
    errors: u64,
}

/// What a request has to say to the people who run the node.
enum Line {
    /// Written by a script with `redis.log`.
    Script(LogLine),
    Warning(String),
}

/// What a command of the node's own table answers.
pub(crate) enum Answer {
    /// This reply, and go on.
    Reply(Reply),
    /// This reply, once the log is synced up to this position.
    Durable(Reply, u64),
    /// No reply yet.
    Wait(Blocked),
    /// Not executed yet.
    LacksSegment,
    /// This reply, then close.
    Last(Reply),
    /// Close without a word.
    Close,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(shared: &'a Arc<Shared>) -> Self {
        Self {
            shared,
            core: None,
            raw_ns: None,
            owed: Wait::default(),
            lines: Vec::new(),
            hints: SmallVec::new(),
            under_lock: 0,
            has_run_script: false,
            commands: 0,
            errors: 0,
        }
    }

    /// Executes one request and appends its reply.
    pub(crate) fn execute(
        &mut self,
        session: &mut Session,
        arguments: &[&[u8]],
        wait: &mut Wait,
        replies: &mut Output,
    ) -> Next {
        self.commands += 1;
        self.under_lock += 1;
        let (answer, next) = match self.answer(session, arguments, wait) {
            Ok(Answer::Reply(reply)) => (reply, Next::Read),
            Ok(Answer::Durable(reply, position)) => {
                wait.synced = wait.synced.max(position);
                (reply, Next::Read)
            }
            Ok(Answer::Wait(blocked)) => return Next::Wait(blocked),
            Ok(Answer::LacksSegment) => {
                self.commands -= 1;
                return Next::LacksSegment;
            }
            Ok(Answer::Last(reply)) => (reply, Next::Close),
            Ok(Answer::Close) => return Next::Close,
            Err(failure) => (
                Reply::Error(ErrorReply::new(format!("ERR {failure}. The node stops"))),
                Next::Close,
            ),
        };
        self.errors += u64::from(answer.is_error());
        reply::write(replies, &answer, session.caller.protocol);
        next
    }

    fn answer(
        &mut self,
        session: &mut Session,
        arguments: &[&[u8]],
        wait: &mut Wait,
    ) -> Result<Answer, Failure> {
        let name = arguments.first().copied().unwrap_or_default();
        if let Some(spec) = spec_named(name) {
            if !session.is_authenticated {
                return Ok(Answer::Reply(Reply::Error(NOAUTH)));
            }
            session.note_command(spec.name);
            let command = match Command::of(spec, arguments) {
                Ok(command) => command,
                Err(error) => return Ok(Answer::Reply(Reply::Error(error))),
            };
            // Once: the disk may turn out to be full.
            let has_waited = std::mem::take(&mut session.has_waited_for_segment);
            let (core, now) = self.core()?;
            if !has_waited && core.waits_for_segment(&command) {
                session.has_waited_for_segment = true;
                return Ok(Answer::LacksSegment);
            }
            let reply = core.execute(now, &session.caller, &command, wait);
            let is_long = core.reply_bytes() >= LONG_REPLY_BYTES;
            session.position = session.position.max(wait.position());
            if spec.flags.contains(Flags::SCRIPT) {
                let lines = core.engine.take_script_log();
                self.has_run_script = true;
                self.note_script_log(lines);
            }
            if is_long {
                // Rendering it, and freeing it, takes long and needs no engine.
                self.release();
            }
            return Ok(Answer::Reply(reply));
        }
        let Some(row) = table::named(name) else {
            let unknown = ErrorReply::unknown_command(arguments);
            return Ok(Answer::Reply(Reply::Error(if session.is_authenticated {
                unknown
            } else {
                NOAUTH
            })));
        };
        if !session.is_authenticated && !row.before_auth {
            return Ok(Answer::Reply(Reply::Error(NOAUTH)));
        }
        session.note_command(row.name);
        if !row.takes(arguments.len()) {
            return Ok(Answer::Reply(Reply::Error(ErrorReply::wrong_arity(
                row.name,
            ))));
        }
        if row.is_brief {
            return (row.run)(session, self, arguments);
        }
        // Others may execute meanwhile; a row that needs the engine takes it for as long as it does.
        self.release();
        self.owed = *wait;
        let answer = (row.run)(session, self, arguments);
        self.release();
        answer
    }

    /// How many keys each database holds, as far as the reply may reveal it without waiting for more
    /// than it does.
    pub(crate) fn counts_shown(&mut self) -> Result<Counts, Failure> {
        let (shared, owed) = (self.shared, self.owed);
        let (core, _) = self.core()?;
        Ok(shared.commit.counts_shown(core, owed))
    }

    /// Warns the people who run the node, once the engine is released.
    pub(crate) fn warn(&mut self, text: String) {
        self.lines.push(Line::Warning(text));
    }

    fn note_script_log(&mut self, lines: Vec<LogLine>) {
        if !lines.is_empty() {
            self.lines.extend(lines.into_iter().map(Line::Script));
            // Else those of a long pipeline would pile up.
            self.release();
        }
    }

    /// The raw clock at the last moment of this turn.
    pub(crate) fn raw_ns(&mut self) -> u64 {
        *self
            .raw_ns
            .get_or_insert_with(|| self.shared.clock.raw_ns())
    }

    /// Notes which key a request will touch, for [`Batch::warm`].
    pub(crate) fn hint<'b>(
        &mut self,
        session: &Session,
        argument: impl Fn(usize) -> Option<&'b [u8]>,
    ) {
        // A poisoned lock is reported by the commands.
        let Ok((core, _)) = self.core() else { return };
        if let Some(hint) = core.engine.hint(session.caller.database, argument) {
            self.hints.push(hint);
        }
    }

    /// Fetches the places of all noted keys into the processor's caches at once: one after the other,
    /// each would be waited for.
    pub(crate) fn warm(&mut self) {
        if let Some((core, _)) = &self.core {
            core.engine.warm(&self.hints);
        }
        self.hints.clear();
    }

    /// Between two connections: lets others have the engine after many commands, and takes a new
    /// moment after a script, which may have run for long.
    pub(crate) fn breathe(&mut self) {
        if self.has_run_script || self.under_lock >= COMMANDS_PER_LOCK {
            self.release();
        }
    }

    /// Lets others have the engine, and then says what there is to say.
    pub(crate) fn release(&mut self) {
        if let Some((mut core, _)) = self.core.take() {
            let wakes_maintenance = core.take_idle_wish();
            drop(core);
            if wakes_maintenance {
                self.shared.activity.notify_one();
            }
        }
        self.under_lock = 0;
        self.has_run_script = false;
        self.lines.drain(..).for_each(Line::write);
    }

    #[cfg(test)]
    pub(crate) fn holds_engine(&self) -> bool {
        self.core.is_some()
    }

    /// The engine, locked, and the moment of this turn.
    pub(crate) fn core(&mut self) -> Result<(&mut Core, Moment), Failure> {
        if self.core.is_none() {
            let mut core = self.shared.lock()?;
            let now = core.now(&*self.shared.clock);
            self.raw_ns = Some(core.time.raw_ns);
            self.core = Some((core, now));
        }
        let (core, now) = self.core.as_mut().expect("locked on the lines above");
        Ok((&mut *core, *now))
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.release();
        let statistics = &self.shared.statistics;
        statistics
            .commands
            .fetch_add(self.commands, Ordering::Relaxed);
        if let Some(raw_ns) = self.raw_ns {
            statistics.sample_rate(raw_ns);
        }
        if self.errors > 0 {
            statistics.errors.fetch_add(self.errors, Ordering::Relaxed);
        }
    }
}

impl Session {
    fn note_command(&mut self, name: &'static str) {
        if self.last_command != name {
            self.last_command = name;
            self.client.introduction().last_command = name;
        }
    }
}

impl Line {
    fn write(self) {
        let line = match self {
            Self::Script(line) => line,
            Self::Warning(text) => return tracing::warn!("{text}"),
        };
        let text = String::from_utf8_lossy(&line.text).replace(['\r', '\n'], " ");
        match line.level {
            0 => tracing::debug!("script: {text}"),
            1 | 2 => tracing::info!("script: {text}"),
            _ => tracing::warn!("script: {text}"),
        }
    }
}

/// The engine is released between connections after so many commands.
const COMMANDS_PER_LOCK: usize = 256;
const HINTS_INLINE: usize = 64;
/// The engine is released before a reply of this size is rendered, which takes about as long as
/// releasing and locking it.
const LONG_REPLY_BYTES: usize = 64 * 1024;

const NOAUTH: ErrorReply = ErrorReply::fixed("NOAUTH Authentication required.");
