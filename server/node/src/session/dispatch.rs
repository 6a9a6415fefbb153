//! One request: who may ask, and where its command runs.

use quorlock_engine::{Command, ErrorReply, Flags, NodeCommand, Reply, Spec, WaitLimit, is_arity};

use crate::clock::saturated_nanos;
use crate::core::commit::Failure;
use crate::core::deliveries::PUBLISHED_COST_MAX;
use crate::core::wait::DurabilityWait;
use crate::protocol::Output;
use crate::session::batch::{Answer, Batch};
use crate::session::named_request::NamedRequest;
use crate::session::transaction::Step;
use crate::session::upstream::not_in_transaction;
use crate::session::{Condition, Next, Outcome, Pending, Session, client, debug};

impl Batch<'_> {
    /// Executes one request and appends its reply.
    pub(crate) fn execute(
        &mut self,
        session: &mut Session,
        arguments: &[&[u8]],
        wait: &mut DurabilityWait,
        replies: &mut Output,
    ) -> Next {
        if session.client.is_killed() {
            return Next::Close;
        }
        self.commands += 1;
        self.under_lock += 1;
        let request = NamedRequest::of(arguments);
        let answer = self.answer(session, request, wait);
        if session.is_tracking() && !comes_again(&answer) {
            session.note_executed(request);
        }
        if self.node.monitors.is_any() && self.is_executing() && !comes_again(&answer) {
            let held_engine = self.holds_engine();
            self.show(session, request);
            if !held_engine {
                self.release();
            }
        }
        let next = self.respond(session, answer, wait, replies);
        if let Some(slow) = self.slow.take() {
            self.note_slow(session, request, slow);
        }
        next
    }

    /// Appends what a request is answered.
    #[inline]
    pub(super) fn respond(
        &mut self,
        session: &mut Session,
        answer: Result<Answer, Failure>,
        wait: &mut DurabilityWait,
        replies: &mut Output,
    ) -> Next {
        // Most requests end here. The reply is not moved: a wide load of what was just stored in halves waits for all
        // stores before it, and those of a new key miss the cache (100 ns of 760 per SET in a deep pipeline).
        if let Ok(Answer::Reply(reply)) = &answer {
            self.end_call(reply.is_error());
            self.write_reply(session, reply, replies);
            return Next::Read;
        }
        self.count(&answer);
        let (answer, next) = match answer {
            Ok(Answer::Reply(reply)) => (reply, Next::Read),
            Ok(Answer::Durable(reply, position)) => {
                wait.raise(DurabilityWait::until_synced_at_once(position));
                (reply, Next::Read)
            }
            Ok(Answer::Made(made)) => {
                session.write_made(replies, made);
                session.note_answered();
                return Next::Read;
            }
            Ok(Answer::Many(several)) => {
                for one in &several {
                    session.write(replies, one);
                }
                session.note_answered();
                return Next::Read;
            }
            Ok(Answer::Nothing) => {
                session.note_answered();
                return Next::Read;
            }
            Ok(Answer::After(reply, after)) => {
                wait.raise(after);
                (reply, Next::Read)
            }
            Ok(Answer::Executed(executed)) => {
                wait.raise(executed.wait);
                session.write_executed(replies, &executed);
                session.note_answered();
                return match executed.closes {
                    true => Next::Close,
                    false => Next::Read,
                };
            }
            Ok(Answer::Wait(pending)) => {
                // The replies before it are on its way, with their sync.
                wait.urgent = wait.urgent.max(pending.position);
                return Next::Wait(pending);
            }
            Ok(Answer::Last(reply)) => (reply, Next::Close),
            Ok(Answer::Close) => return Next::Close,
            Err(_) if session.client.is_killed() => return Next::Close,
            Err(failure) => (
                Reply::Error(ErrorReply::new(format!("ERR {failure}. The node stops"))),
                Next::Close,
            ),
        };
        self.write_reply(session, &answer, replies);
        next
    }

    /// Counts a request, unless it was not executed and will come again.
    fn count(&mut self, answer: &Result<Answer, Failure>) {
        match answer {
            answer if comes_again(answer) => {
                self.commands -= 1;
                self.forget_call();
            }
            Ok(answer) => self.end_call(answer.is_error()),
            Err(_) => self.end_call(true),
        }
    }

    fn write_reply(&mut self, session: &mut Session, reply: &Reply, replies: &mut Output) {
        if let Reply::Error(error) = reply {
            self.note_error(error);
        }
        session.write(replies, reply);
        session.note_answered();
    }

    fn answer(
        &mut self,
        session: &mut Session,
        request: NamedRequest<'_>,
        wait: &mut DurabilityWait,
    ) -> Result<Answer, Failure> {
        if session.refuses_while_listening(request) && request.check().is_ok() {
            session.note_command(request);
            self.refuse_call(request.counted_as());
            let error = ErrorReply::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
                 allowed in this context",
                request.full_name()
            ));
            return Ok(Answer::Reply(session.refuse(request, error, self)?));
        }
        if self.node.pause.may_be_on() && self.is_held_up(session, request) {
            session.note_command(request);
            return Ok(Answer::Wait(Pending::on(Condition::PauseOver)));
        }
        if self.is_held_back(session, request) {
            session.note_command(request);
            return Ok(Answer::Wait(Pending::on(Condition::BacklogBelow)));
        }
        if request
            .spec
            .is_some_and(|spec| spec.flags.contains(Flags::SENDS_LATER))
        {
            if !session.is_authenticated && !self.node.access.is_open() {
                // Others may execute whatever a stranger sends.
                session.note_command(request);
                self.refuse_call(Some(request.number));
                return Ok(Answer::Reply(Reply::Error(NOAUTH)));
            }
            // Users are changed with the engine locked, and with it what a client waits for or listens to and may not any more is ended.
            // What was checked before that and executed after it would stay.
            self.executor()?;
        }
        if !session.rights.are_unchecked_at(self.node.access.version())
            && let Some(answer) = self.check_rights(session, request)?
        {
            return Ok(answer);
        }
        if session.queues(request) {
            return self.queue(session, request);
        }
        session.note_command(request);
        let Some(spec) = request.spec else {
            return Ok(Answer::Reply(Reply::Error(
                match session.is_authenticated {
                    true => request.unknown(request.arguments),
                    false => NOAUTH,
                },
            )));
        };
        if !session.is_authenticated && !spec.flags.contains(Flags::NO_AUTH) {
            self.refuse_call(Some(request.number));
            return Ok(Answer::Reply(Reply::Error(NOAUTH)));
        }
        if let Some(number) = request.counted_as() {
            self.begin_call(number);
        }
        match spec.node_command_of(request.arguments) {
            None => self.answer_from_engine(session, spec, request.arguments, wait),
            Some(command) => self.answer_from_node(session, request, spec, command, wait),
        }
    }

    fn answer_from_node(
        &mut self,
        session: &mut Session,
        request: NamedRequest<'_>,
        spec: &'static Spec,
        command: NodeCommand,
        wait: &DurabilityWait,
    ) -> Result<Answer, Failure> {
        let arguments = request.arguments;
        if !is_arity(spec.arity, arguments.len()) {
            self.note_refused();
            let error = ErrorReply::wrong_arity(spec.name);
            return Ok(Answer::Reply(session.refuse(request, error, self)?));
        }
        self.owed = *wait;
        if spec.flags.contains(Flags::BRIEF) {
            return self.execute_of_node(session, command, arguments);
        }
        // Others may execute meanwhile; a command that needs the engine takes it for as long as it does.
        self.release();
        let answer = self.execute_of_node(session, command, arguments);
        self.release();
        self.follow_thresholds();
        answer
    }

    /// A request is refused before its command looks at it.
    #[cold]
    pub(super) fn refuse_call(&mut self, number: Option<usize>) {
        if let Some(number) = number {
            self.begin_call(number);
            self.note_refused();
        }
    }

    fn answer_from_engine(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        arguments: &[&[u8]],
        wait: &mut DurabilityWait,
    ) -> Result<Answer, Failure> {
        // Not by way of a result, which would be moved right after it was stored.
        if !is_arity(spec.arity, arguments.len()) {
            self.note_refused();
            return Ok(Answer::Reply(Reply::Error(ErrorReply::wrong_arity(
                spec.name,
            ))));
        }
        if self.has_upstream() {
            return self.ask_upstream(session, arguments);
        }
        if spec.flags.may_write() {
            session.client.note_may_hold_locks();
        }
        let command = Command { spec, arguments };
        let guard = self.guard(session);
        let (executor, now) = self.executor()?;
        if spec.flags.contains(Flags::SCRIPT) {
            executor.guard_scripts(guard);
        }
        let Some(reply) = executor.execute(now, &session.caller, &command, wait) else {
            return self.lacks_segment();
        };
        let was_refused = executor.take_was_refused();
        if let Some(limit) = executor.wait_limit() {
            if let Some(guard) = session.waiting_guard(self.node) {
                let (executor, _) = self.executor()?;
                executor.engine.guard_waiting(session.client.id, guard);
            }
            return Ok(Answer::Wait(
                self.wait_for_element(session, limit, arguments),
            ));
        }
        if executor.take_has_published() {
            session.has_published = true;
        }
        if spec.flags.contains(Flags::SENDS_LATER) {
            session.client.note_may_be_told();
            session.has_waited = true;
        }
        let is_long = executor.has_long_reply();
        session.position = session.position.max(wait.position());
        if spec.flags.contains(Flags::SCRIPT) {
            let lines = executor.engine.take_script_log();
            if let Some(took) = executor.engine.take_script_time() {
                self.note_measured(took);
            }
            self.has_run_script = true;
            self.note_script_log(lines);
            self.note_script_denials(session)?;
        }
        if was_refused {
            self.note_refused();
        }
        if is_long {
            // Rendering it, and freeing it, takes long and needs no engine.
            self.release();
        }
        Ok(Answer::Reply(reply))
    }

    /// The request waits for a segment of the log. A log that has failed makes none.
    pub(super) fn lacks_segment(&self) -> Result<Answer, Failure> {
        match self.node.commit.failure() {
            Some(failure) => Err(failure.clone()),
            None => Ok(Answer::Wait(Pending::on(Condition::Segment))),
        }
    }

    /// The client waits for what its command has not found.
    fn wait_for_element(
        &mut self,
        session: &mut Session,
        limit: WaitLimit,
        arguments: &[&[u8]],
    ) -> Pending {
        let bytes = |argument: &&[u8]| 2 * (argument.len() + WAITING_ARGUMENT_BYTES);
        session.waiting_bytes = Some(arguments.iter().map(bytes).sum());
        let now_raw = self.raw();
        Pending {
            until_raw: limit
                .0
                .map(|limit| now_raw.plus_nanos(saturated_nanos(limit))),
            ..Pending::on(Condition::Element)
        }
    }

    /// Whether a pause keeps a request waiting. One that would be refused is refused at once.
    fn is_held_up(&mut self, session: &Session, request: NamedRequest<'_>) -> bool {
        let Some(mut may_write) = may_write(session, request) else {
            return false;
        };
        if let (true, Some(spec)) = (may_write, request.spec)
            && spec.node_command_of(request.arguments).is_none()
            // A poisoned lock is reported by the commands.
            && let Ok((executor, _)) = self.executor()
        {
            // Which scripts are here only the engine knows.
            let arguments = request.arguments;
            may_write = executor.engine.may_write(&Command { spec, arguments });
        }
        let now_raw = self.raw();
        self.node.pause.holds_up(now_raw, may_write)
    }

    /// Whether so much was published and is not handed out that a request has to wait: of a client that has published
    /// since it was less, or of any client whose request may publish where it is much more. Others go on.
    fn is_held_back(&self, session: &mut Session, request: NamedRequest<'_>) -> bool {
        let cost = self.published_cost();
        if cost <= PUBLISHED_COST_MAX {
            if session.has_published {
                session.has_published = false;
            }
            return false;
        }
        let is_much_more = cost > PUBLISHED_COST_FACTOR * PUBLISHED_COST_MAX;
        session.has_published || is_much_more && may_write(session, request) == Some(true)
    }

    /// A request between MULTI and EXEC: it is checked, and kept. One that is refused spoils the transaction.
    fn queue(
        &mut self,
        session: &mut Session,
        request: NamedRequest<'_>,
    ) -> Result<Answer, Failure> {
        let step = self.step(session, request)?;
        let answer = Answer::Reply(session.queue(step, request.arguments));
        if answer.is_error() {
            self.refuse_call(request.counted_as());
        }
        Ok(answer)
    }

    /// What EXEC is to execute for a request, or why it is refused.
    fn step(
        &mut self,
        session: &mut Session,
        request: NamedRequest<'_>,
    ) -> Result<Result<Step, ErrorReply>, Failure> {
        session.note_command(request);
        let arguments = request.arguments;
        let Some(spec) = request.spec else {
            return Ok(Err(request.unknown(arguments)));
        };
        let mut step = Step {
            spec,
            number: request.counted_as(),
            node_command: spec.node_command_of(arguments),
            may_write: false,
        };
        let checked = request.check();
        Ok(match step.node_command {
            _ if spec.flags.contains(Flags::NO_MULTI) => checked.and(Err(NOT_IN_TRANSACTION)),
            None => {
                let (executor, now) = self.executor()?;
                let refusal = executor.refuses(now.node, spec);
                step.may_write = executor.engine.may_write(&Command { spec, arguments });
                if step.may_write {
                    session.client.note_may_hold_locks();
                }
                checked.and(refusal.map_or(Ok(step), Err))
            }
            Some(_) if self.has_upstream() => checked.and(Err(not_in_transaction(spec))),
            Some(NodeCommand::Debug) => checked
                .and_then(|()| debug::allowed(session, self))
                .map(|()| step),
            Some(_) => checked.map(|()| step),
        })
    }
}

impl Answer {
    fn is_error(&self) -> bool {
        match self {
            Self::Reply(reply) | Self::After(reply, _) => reply.is_error(),
            Self::Durable(reply, _) | Self::Last(reply) => reply.is_error(),
            _ => false,
        }
    }
}

/// Whether a request may change or publish something; none where it would be refused, or ends a pause.
fn may_write(session: &Session, request: NamedRequest<'_>) -> Option<bool> {
    let spec = request.spec.filter(|_| session.is_authenticated)?;
    if !is_arity(spec.arity, request.arguments.len()) {
        return None;
    }
    match spec.node_command_of(request.arguments) {
        None => Some(spec.flags.may_write()),
        Some(NodeCommand::Client) if client::ends_pause(request.arguments) => None,
        Some(command) => Some(command == NodeCommand::Exec && session.has_queued_writes()),
    }
}

impl Session {
    /// Notes the command of a request for CLIENT LIST.
    #[inline]
    pub(super) fn note_command(&mut self, request: NamedRequest<'_>) {
        let (name, part) = request.names();
        // By address: names are static, and to write the same name once more does no harm.
        let (last_name, last_part) = self.last_command;
        if !std::ptr::eq(last_name, name) || !std::ptr::eq(last_part, part) {
            self.last_command = (name, part);
            self.client.introduction().last_command = (name, part);
        }
    }
}

/// Whether a request was not executed, and will be.
fn comes_again(answer: &Result<Answer, Failure>) -> bool {
    matches!(answer, Ok(Answer::Wait(pending)) if pending.condition.traits().outcome == Outcome::Execute)
}

/// Memory of an argument of a command that waits, beside its bytes.
const WAITING_ARGUMENT_BYTES: usize = 96;

/// So many times as much, and all who may publish wait: thousands may publish once each.
const PUBLISHED_COST_FACTOR: usize = 4;

const NOT_IN_TRANSACTION: ErrorReply =
    ErrorReply::fixed("ERR Command not allowed inside a transaction");
pub(super) const NOAUTH: ErrorReply = ErrorReply::fixed("NOAUTH Authentication required.");
