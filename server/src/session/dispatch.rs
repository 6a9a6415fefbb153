//! One request: who may ask, which table its command is in, and where it runs.

use quorlock_engine::{
    Command, Description, ErrorReply, Flags, Reply, Spec, WaitLimit, is_arity, numbered_spec,
    spec_named,
};

use crate::clock::saturated_nanos;
use crate::core::commit::Failure;
use crate::core::deliveries::PUBLISHED_COST_MAX;
use crate::core::wait::Wait;
use crate::protocol::Output;
use crate::session::batch::{Answer, Batch, Next};
use crate::session::introspection::{check, part_of};
use crate::session::transaction::Step;
use crate::session::{
    Condition, Outcome, Pending, Session, absent, client, debug, introspection, numbers,
};

impl Batch<'_> {
    /// Executes one request and appends its reply.
    pub(crate) fn execute(
        &mut self,
        session: &mut Session,
        arguments: &[&[u8]],
        wait: &mut Wait,
        replies: &mut Output,
    ) -> Next {
        if session.client.is_killed() {
            return Next::Close;
        }
        self.commands += 1;
        self.under_lock += 1;
        let answer = self.answer(session, arguments, wait);
        if session.is_tracking() && !comes_again(&answer) {
            session.note_executed(arguments);
        }
        self.respond(session, answer, wait, replies)
    }

    /// Appends what a request is answered.
    #[inline]
    pub(super) fn respond(
        &mut self,
        session: &mut Session,
        answer: Result<Answer, Failure>,
        wait: &mut Wait,
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
                wait.raise(Wait::until_synced_at_once(position));
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
                wait.urgent = wait.urgent.max(pending.urgent());
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
        arguments: &[&[u8]],
        wait: &mut Wait,
    ) -> Result<Answer, Failure> {
        let name = arguments.first().copied().unwrap_or_default();
        if session.refuses_while_listening(name)
            && let Some(called) = called(arguments)
        {
            session.note_unexecuted(arguments);
            self.refuse_call(numbers::of_request(arguments));
            let error = ErrorReply::new(format!(
                "ERR Can't execute '{called}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
                 allowed in this context"
            ));
            return Ok(Answer::Reply(session.refuse(&called, error, self)?));
        }
        if self.node.pause.may_be_on() && self.is_held_up(session, arguments) {
            session.note_unexecuted(arguments);
            return Ok(Answer::Wait(Pending::on(Condition::PauseOver)));
        }
        if self.is_held_back(session, arguments) {
            session.note_unexecuted(arguments);
            return Ok(Answer::Wait(Pending::on(Condition::BacklogBelow)));
        }
        if session.queues(name) {
            return self.queue(session, arguments);
        }
        if let Some((number, spec)) = numbered_spec(name) {
            if !session.is_authenticated {
                return Ok(self.refuse_unauthenticated(session, number, arguments));
            }
            let parts = spec.about.subcommands;
            let place = session.note_command(spec.name, parts, arguments);
            self.begin_call_of(number, parts, place, arguments);
            return self.answer_from_engine(session, spec, arguments, wait);
        }
        let Some((number, row)) = numbers::numbered_row(name) else {
            session.note_unexecuted(arguments);
            let unknown = absent::refusal(arguments);
            return Ok(Answer::Reply(Reply::Error(if session.is_authenticated {
                unknown
            } else {
                NOAUTH
            })));
        };
        if !session.is_authenticated && !row.before_auth {
            return Ok(self.refuse_unauthenticated(session, number, arguments));
        }
        let place = session.note_command(row.name, row.parts(), arguments);
        self.begin_call_of(number, row.parts(), place, arguments);
        if !is_arity(row.arity, arguments.len()) {
            self.note_refused();
            let error = ErrorReply::wrong_arity(row.name);
            let refused = session.refuse(row.name, error, self)?;
            return Ok(Answer::Reply(refused));
        }
        self.owed = *wait;
        if row.is_brief {
            return (row.run)(session, self, arguments);
        }
        // Others may execute meanwhile; a row that needs the engine takes it for as long as it does.
        self.release();
        let answer = (row.run)(session, self, arguments);
        self.release();
        answer
    }
}

impl Batch<'_> {
    /// Begins to count a request, under its subcommand where it names one. One that names an unknown one is not counted,
    /// as in Redis.
    #[inline]
    fn begin_call_of(
        &mut self,
        number: usize,
        parts: &[Description],
        place: Option<usize>,
        arguments: &[&[u8]],
    ) {
        match place {
            Some(place) => self.begin_call(numbers::part(number, place)),
            None if parts.is_empty() || arguments.len() == 1 => self.begin_call(number),
            None => {}
        }
    }

    /// A request is refused before its command looks at it.
    #[cold]
    pub(super) fn refuse_call(&mut self, number: Option<usize>) {
        if let Some(number) = number {
            self.begin_call(number);
            self.note_refused();
        }
    }

    #[cold]
    fn refuse_unauthenticated(
        &mut self,
        session: &mut Session,
        number: usize,
        arguments: &[&[u8]],
    ) -> Answer {
        session.note_unexecuted(arguments);
        self.refuse_call(Some(number));
        Answer::Reply(Reply::Error(NOAUTH))
    }

    fn answer_from_engine(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        arguments: &[&[u8]],
        wait: &mut Wait,
    ) -> Result<Answer, Failure> {
        // Not by way of a result, which would be moved right after it was stored.
        if !is_arity(spec.arity, arguments.len()) {
            self.note_refused();
            return Ok(Answer::Reply(Reply::Error(ErrorReply::wrong_arity(
                spec.name,
            ))));
        }
        let command = Command { spec, arguments };
        let (executor, now) = self.executor()?;
        let Some(reply) = executor.execute(now, &session.caller, &command, wait) else {
            return self.lacks_segment();
        };
        let was_refused = executor.take_was_refused();
        if let Some(limit) = executor.wait_limit() {
            return Ok(Answer::Wait(
                self.wait_for_element(session, limit, arguments),
            ));
        }
        if executor.take_has_published() {
            session.has_published = true;
        }
        let is_long = executor.has_long_reply();
        session.position = session.position.max(wait.position());
        if spec.flags.contains(Flags::SCRIPT) {
            let lines = executor.engine.take_script_log();
            self.has_run_script = true;
            self.note_script_log(lines);
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
            condition: Condition::Element,
            until_raw: limit
                .0
                .map(|limit| now_raw.plus_nanos(saturated_nanos(limit))),
        }
    }

    /// Whether a pause keeps a request waiting. One that would be refused is refused at once.
    fn is_held_up(&mut self, session: &Session, arguments: &[&[u8]]) -> bool {
        let Some(mut may_write) = may_write(session, arguments) else {
            return false;
        };
        let name = arguments.first().copied().unwrap_or_default();
        if let (true, Some(spec)) = (may_write, spec_named(name))
            // A poisoned lock is reported by the commands.
            && let Ok((executor, _)) = self.executor()
        {
            // Which scripts are here only the engine knows.
            may_write = executor.engine.may_write(&Command { spec, arguments });
        }
        let now_raw = self.raw();
        self.node.pause.holds_up(now_raw, may_write)
    }

    /// Whether so much was published and is not handed out that a request has to wait: of a client that has published
    /// since it was less, or of any client whose request may publish where it is much more. Others go on.
    fn is_held_back(&self, session: &mut Session, arguments: &[&[u8]]) -> bool {
        let cost = self.published_cost();
        if cost <= PUBLISHED_COST_MAX {
            if session.has_published {
                session.has_published = false;
            }
            return false;
        }
        let is_much_more = cost > PUBLISHED_COST_FACTOR * PUBLISHED_COST_MAX;
        session.has_published || is_much_more && may_write(session, arguments) == Some(true)
    }

    /// A request between MULTI and EXEC: it is checked, and kept. One that is refused spoils the transaction.
    fn queue(&mut self, session: &mut Session, arguments: &[&[u8]]) -> Result<Answer, Failure> {
        let step = self.step(session, arguments)?;
        let number = numbers::of_request(arguments);
        let answer = Answer::Reply(session.queue(step, number, arguments));
        if answer.is_error() {
            self.refuse_call(number);
        }
        Ok(answer)
    }

    /// What EXEC is to execute for a request, or why it is refused.
    fn step(
        &mut self,
        session: &mut Session,
        arguments: &[&[u8]],
    ) -> Result<Result<Step, ErrorReply>, Failure> {
        let name = arguments.first().copied().unwrap_or_default();
        let Some(spec) = spec_named(name) else {
            let Some(row) = introspection::named(name) else {
                session.note_unexecuted(arguments);
                return Ok(Err(absent::refusal(arguments)));
            };
            session.note_command(row.name, row.parts(), arguments);
            let checked = check(row.name, row.arity, row.parts(), arguments);
            let checked = match row.name {
                "debug" => checked.and_then(|()| debug::allowed(session, self)),
                _ => checked,
            };
            return Ok(match row.is_refused_in_transactions() {
                true => checked.and(Err(NOT_IN_TRANSACTION)),
                false => checked.map(|()| Step::Node(row)),
            });
        };
        let parts = spec.about.subcommands;
        session.note_command(spec.name, parts, arguments);
        let (executor, now) = self.executor()?;
        let refusal = executor.refuses(now.node, spec);
        let checked = check(spec.name, spec.arity, parts, arguments);
        let may_write = executor.engine.may_write(&Command { spec, arguments });
        let step = Step::Keys { spec, may_write };
        Ok(checked.and(refusal.map_or(Ok(step), Err)))
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

/// The full name of the command that a request calls; none where there is no such command, or none with so many arguments.
fn called(arguments: &[&[u8]]) -> Option<String> {
    let name = arguments.first().copied().unwrap_or_default();
    let (name, arity, parts) = match (spec_named(name), introspection::named(name)) {
        (Some(spec), _) => (spec.name, spec.arity, spec.about.subcommands),
        (None, Some(row)) => (row.name, row.arity, row.parts()),
        (None, None) => return None,
    };
    check(name, arity, parts, arguments).ok()?;
    Some(match part_of(parts, arguments) {
        Some((_, part)) => format!("{name}|{}", part.name),
        None => name.to_owned(),
    })
}

/// Whether a request may change or publish something; none where it would be refused, or ends a pause.
fn may_write(session: &Session, arguments: &[&[u8]]) -> Option<bool> {
    let name = arguments.first().copied().unwrap_or_default();
    match (spec_named(name), introspection::named(name)) {
        _ if !session.is_authenticated => None,
        (Some(spec), _) if is_arity(spec.arity, arguments.len()) => {
            let flags = spec.flags;
            Some(flags.contains(Flags::WRITE) || flags.contains(Flags::MAY_REPLICATE))
        }
        (None, Some(row)) if is_arity(row.arity, arguments.len()) => {
            (!client::ends_pause(arguments)).then(|| session.executes_writes(row.name))
        }
        _ => None,
    }
}

impl Session {
    /// Notes the command of a request that is not executed, or not yet.
    #[cold]
    fn note_unexecuted(&mut self, arguments: &[&[u8]]) {
        let name = arguments.first().copied().unwrap_or_default();
        match (spec_named(name), introspection::named(name)) {
            (Some(spec), _) => self.note_command(spec.name, spec.about.subcommands, arguments),
            (None, Some(row)) => self.note_command(row.name, row.parts(), arguments),
            (None, None) => self.note_command("", &[], arguments),
        };
    }

    /// Notes the command for CLIENT LIST. Returns the place of its subcommand.
    pub(super) fn note_command(
        &mut self,
        name: &'static str,
        parts: &[Description],
        arguments: &[&[u8]],
    ) -> Option<usize> {
        let named = part_of(parts, arguments);
        let part = named.map_or("", |(_, part)| part.name);
        // As in Redis a subcommand that is unknown makes the command unknown.
        let is_unknown = named.is_none() && !parts.is_empty() && arguments.len() > 1;
        let name = if is_unknown { "" } else { name };
        // By address: names are static, and to write the same name once more does no harm.
        let (last_name, last_part) = self.last_command;
        if !std::ptr::eq(last_name, name) || !std::ptr::eq(last_part, part) {
            self.last_command = (name, part);
            self.client.introduction().last_command = (name, part);
        }
        named.map(|(place, _)| place)
    }
}

/// Whether a request was not executed, and will be.
fn comes_again(answer: &Result<Answer, Failure>) -> bool {
    matches!(answer, Ok(Answer::Wait(pending)) if pending.condition.outcome() == Outcome::Execute)
}

/// Memory of an argument of a command that waits, beside its bytes.
const WAITING_ARGUMENT_BYTES: usize = 96;

/// So many times as much, and all who may publish wait: thousands may publish once each.
const PUBLISHED_COST_FACTOR: usize = 4;

const NOT_IN_TRANSACTION: ErrorReply =
    ErrorReply::fixed("ERR Command not allowed inside a transaction");
pub(super) const NOAUTH: ErrorReply = ErrorReply::fixed("NOAUTH Authentication required.");
