//! SLOWLOG, and how a command gets into it, and into the latency monitor.
//!
//! A command is measured where commandstats measure it, and no clock is read for this beside. Of commands that take
//! constant or logarithmic time, and took microseconds when last measured, a few calls are left out (`core/calls.rs`); a
//! threshold below a millisecond has them measured as well.

use quorlock_engine::{ErrorReply, Flags, Reply, Spec, parse_integer};

use crate::core::slow_log::{SlowCommand, shortened};
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch, SlowCall};
use crate::session::latency::event_of;
use crate::session::named_request::{NamedRequest, try_help};
use crate::session::shown::redacted;

impl Batch<'_> {
    /// Notes a command of a transaction, where it was slow.
    pub(super) fn note_if_slow(&mut self, session: &Session, arguments: &[&[u8]]) {
        if let Some(slow) = self.slow.take() {
            self.note_slow(session, NamedRequest::of(arguments), slow);
        }
    }

    /// Notes a command that took as long: for the latency monitor, and in the slow log, unless its row keeps it out: those of
    /// EXEC are in it.
    #[cold]
    #[inline(never)]
    pub(super) fn note_slow(
        &mut self,
        session: &Session,
        request: NamedRequest<'_>,
        slow: SlowCall,
    ) {
        let SlowCall { took_ns, ended_raw } = slow;
        self.node
            .latency
            .note(event_of(request), took_ns, ended_raw);
        let keeps_out = |spec: &Spec| spec.flags.contains(Flags::SKIP_SLOWLOG);
        let is_slow = took_ns >= self.node.settings.slow_from_ns();
        if !is_slow || request.spec.is_some_and(keeps_out) {
            return;
        }
        let held_engine = self.holds_engine();
        // A node that has failed has other worries.
        let Ok((_, now)) = self.executor() else {
            return;
        };
        if !held_engine {
            self.release();
        }
        let ended_us = now.wall_us + ended_raw.nanos_since(self.raw()) / 1_000;
        let command = SlowCommand {
            id: 0,
            unix_s: ended_us / 1_000_000,
            took_us: took_ns / 1_000,
            arguments: shortened(redacted(request)),
            client: session.client.address.to_string(),
            client_name: session.client.introduction().name.clone(),
        };
        let entries_max = entries_max(self);
        self.node.slow_log().add(command, entries_max);
    }
}

fn entries_max(batch: &Batch<'_>) -> usize {
    batch.node.settings.config().slowlog_max_len
}

pub(super) fn slowlog(_: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    let request = NamedRequest::of(arguments);
    request.check()?;
    let entries_max = entries_max(batch);
    let mut log = batch.node.slow_log();
    log.keep(entries_max);
    let reply = match (request.names().1, &arguments[2..]) {
        ("get", []) => shown(log.newest(SHOWN)),
        ("get", [count]) => match parse_integer(count) {
            Some(-1) => shown(log.newest(log.len())),
            Some(count @ 0..) => {
                let count = usize::try_from(count.min(ENTRIES_MAX));
                shown(log.newest(count.expect("it is small")))
            }
            _ => Reply::Error(COUNT),
        },
        ("len", _) => Reply::count(log.len()),
        ("reset", _) => {
            log.clear();
            Reply::Ok
        }
        ("help", _) => Reply::help("SLOWLOG", HELP),
        // GET with too many arguments.
        _ => return Err(try_help("SLOWLOG", arguments[1]).into()),
    };
    Ok(Answer::Reply(reply))
}

fn shown<'a>(entries: impl Iterator<Item = &'a SlowCommand>) -> Reply {
    let number = |number: u64| {
        let number = i64::try_from(number);
        Reply::Integer(number.expect("it is a count, or a thousandth of a time"))
    };
    let entry = |command: &SlowCommand| {
        let arguments = command.arguments.iter();
        Reply::Array(vec![
            number(command.id),
            number(command.unix_s),
            number(command.took_us),
            Reply::Array(arguments.map(|word| Reply::bulk(&**word)).collect()),
            Reply::bulk(&*command.client),
            Reply::bulk(&*command.client_name),
        ])
    };
    Reply::Array(entries.map(entry).collect())
}

/// How many entries GET shows by itself.
const SHOWN: usize = 10;

/// The bound on their bytes lets the log have fewer.
const ENTRIES_MAX: i64 = 1 << 24;

const COUNT: ErrorReply = ErrorReply::fixed("ERR count should be greater than or equal to -1");

const HELP: &[&str] = &[
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
];
