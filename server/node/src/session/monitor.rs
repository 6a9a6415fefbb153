//! MONITOR: every request that is executed, as a line to each client that asks for it, in the order of execution.
//!
//! Whoever knows a token can release its lock. So values and tokens are cut to a few bytes, unless the client says
//! `MONITOR FULL`, for which its user needs the right to read all keys as well. The word stands with the command because a
//! person asks for it once, where a directive would show tokens to every monitor from then on. Passwords are never shown,
//! and as in Redis no command for administrators is.

use std::sync::{Arc, Mutex, PoisonError};

use quorlock_engine::{CommandGuard, ErrorReply, Flags, Purpose, Reply, keys_of_request};

use crate::core::state::NodeState;
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::named_request::NamedRequest;
use crate::session::shown::{REDACTED, redacted};

pub(super) fn monitor(
    session: &mut Session,
    batch: &mut Batch<'_>,
    arguments: &[&[u8]],
) -> Answered {
    let is_full = match &arguments[1..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"full") => true,
        [_] => return Err(ErrorReply::SYNTAX.into()),
        _ => return Err(ErrorReply::wrong_arity("monitor").into()),
    };
    session.is_monitor = true;
    session.client.introduction().is_monitor = true;
    // Requests that are executed later than this one are posted later: that is done while the engine is locked.
    let (_executor, _) = batch.executor()?;
    batch.node.monitors.add(session.client.listener(), is_full);
    Ok(Answer::Reply(Reply::Ok))
}

impl Session {
    /// Whether it watches all requests.
    pub(crate) fn is_monitor(&self) -> bool {
        self.is_monitor
    }

    /// Ends that (RESET).
    pub(super) fn stop_watching(&mut self, node: &NodeState) {
        if std::mem::take(&mut self.is_monitor) {
            self.client.introduction().is_monitor = false;
            node.monitors.remove(self.client.id);
        }
    }
}

/// What a script calls, as monitors are shown it. It is noted while the engine is locked, and on the script's own time: so
/// there is a bound to it.
#[derive(Debug, Default)]
pub(super) struct ScriptCalls(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    calls: Vec<Lines>,
    bytes: usize,
}

/// A request for those who are shown short values, and for those who are shown all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lines {
    short: Vec<u8>,
    full: Vec<u8>,
}

impl Batch<'_> {
    /// What a script of this session is asked before each of its commands. Where there are monitors, that notes them.
    pub(super) fn guard(&self, session: &Session) -> Option<CommandGuard> {
        let guard = session.rights.guard();
        match self.node.monitors.is_any() {
            false => guard,
            true => {
                // What a script has called that is executed again is not shown twice.
                session.take_script_calls();
                Some(noting(guard, Arc::clone(&session.script_calls)))
            }
        }
    }

    /// Shows a command of a transaction to the monitors.
    pub(super) fn show_queued(&mut self, session: &mut Session, arguments: &[&[u8]]) {
        if self.node.monitors.is_any() && self.is_executing() {
            self.show(session, NamedRequest::of(arguments));
        }
    }

    /// Shows a request that was executed to the monitors, and behind it what its script has called.
    #[cold]
    #[inline(never)]
    pub(super) fn show(&mut self, session: &mut Session, request: NamedRequest<'_>) {
        let flags = request.flags();
        let runs_script = flags.contains(Flags::SCRIPT);
        // Redis keeps scripts out by that flag and shows them elsewhere.
        let is_kept_out = flags.contains(Flags::SKIP_MONITOR) && !runs_script;
        let calls = session.take_script_calls();
        if is_kept_out || flags.contains(Flags::ADMIN) {
            return;
        }
        // A node that has failed executes nothing.
        let Ok((_, now)) = self.executor() else {
            return;
        };
        let (node, database) = (self.node, session.caller.database);
        let lists = node.monitors.lists();
        let (seconds, micros) = (now.wall_us / 1_000_000, now.wall_us % 1_000_000);
        let address = &session.client.address;
        let places = [format!("{address}"), "lua".to_owned()];
        let lines = std::iter::once((&places[0], Lines::of(request)));
        let lines = lines.chain(calls.into_iter().map(|lines| (&places[1], lines)));
        for (place, lines) in lines {
            let begin = format!("{seconds}.{micros:06} [{database} {place}]");
            for (text, monitors) in [(lines.short, &lists.short), (lines.full, &lists.full)] {
                if !monitors.is_empty() {
                    let line = [begin.as_bytes(), &text].concat();
                    node.deliveries
                        .post_monitored(line, monitors, &node.clients);
                }
            }
        }
        // Who is watched waits where monitors have much to take, like one that publishes.
        session.has_published = true;
        self.note_published();
    }
}

impl Session {
    fn take_script_calls(&self) -> Vec<Lines> {
        let mut noted = (self.script_calls.0.lock()).unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *noted).calls
    }
}

fn noting(guard: Option<CommandGuard>, calls: Arc<ScriptCalls>) -> CommandGuard {
    CommandGuard::new(move |arguments, purpose| {
        let refusal = guard
            .as_ref()
            .and_then(|guard| guard.refuses(arguments, purpose));
        let mut noted = calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refusal.is_none() && purpose == Purpose::Call && noted.has_room() {
            let lines = Lines::of(NamedRequest::of(arguments));
            noted.bytes = noted.bytes.saturating_add(lines.full.len());
            noted.calls.push(lines);
        }
        refusal
    })
}

impl Noted {
    fn has_room(&self) -> bool {
        self.calls.len() < SCRIPT_CALLS_MAX && self.bytes < SCRIPT_BYTES_MAX
    }
}

impl Lines {
    fn of(request: NamedRequest<'_>) -> Self {
        let spec = request.spec;
        let keys =
            spec.and_then(|spec| keys_of_request(spec.description(), request.arguments).ok());
        let keys = keys.unwrap_or_default();
        let is_whole = |index: usize, argument: &[u8]| {
            index < request.name_words() || keys.iter().any(|key| std::ptr::eq(key.name, argument))
        };
        let mut lines = Lines {
            short: Vec::new(),
            full: Vec::new(),
        };
        for (index, argument) in redacted(request).enumerate() {
            if lines.full.len() > LINE_BYTES_MAX {
                let left = request.arguments.len() - index;
                let more = format!(" ... ({left} more arguments)");
                lines.short.extend_from_slice(more.as_bytes());
                lines.full.extend_from_slice(more.as_bytes());
                break;
            }
            let is_whole = is_whole(index, argument) || argument == REDACTED;
            let short_max = if is_whole {
                ARGUMENT_BYTES_MAX
            } else {
                VALUE_BYTES_MAX
            };
            quote(&mut lines.short, argument, short_max);
            quote(&mut lines.full, argument, ARGUMENT_BYTES_MAX);
        }
        lines
    }
}

/// An argument as Redis quotes it, up to as many bytes of it.
fn quote(line: &mut Vec<u8>, argument: &[u8], bytes_max: usize) {
    line.extend_from_slice(b" \"");
    let shown = &argument[..argument.len().min(bytes_max)];
    for &byte in shown {
        match byte {
            b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            7 => line.extend_from_slice(b"\\a"),
            8 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    if shown.len() < argument.len() {
        line.extend_from_slice(b"...");
    }
    line.push(b'"');
}

/// Of a value that may be a token.
const VALUE_BYTES_MAX: usize = 8;
/// Of a key, and of a value that is shown whole.
const ARGUMENT_BYTES_MAX: usize = 64 * 1024;
const LINE_BYTES_MAX: usize = 256 * 1024;
/// More calls of one script are not shown.
const SCRIPT_CALLS_MAX: usize = 1024;
/// And none behind so many bytes of them.
const SCRIPT_BYTES_MAX: usize = 1024 * 1024;
