//! How a script fails: what it raised, where, and the error reply made of it.
//!
//! The texts are Redis's: the error, then `script: SHA, on @user_script:LINE.`.

use std::fmt;

use mlua::{Error, Lua, Value};

use crate::error::ErrorReply;
use crate::number::truncated;
use crate::script::limits::{End, ScriptLimits};
use crate::script::syntax::Refusal;

/// An error raised by `redis.call` or by `error`, on its way through the interpreter.
#[derive(Debug)]
pub(crate) struct Raised {
    /// The error reply's text.
    pub(crate) text: Vec<u8>,
    /// What `pcall` hands to the script; the text itself if it is `None`.
    pub(crate) value: Option<Value>,
    /// A command answered it.
    pub(crate) is_by_command: bool,
}

impl Raised {
    pub(crate) fn by_command(text: &[u8]) -> Raised {
        Raised {
            text: text.to_vec(),
            value: None,
            is_by_command: true,
        }
    }

    /// A value that the script itself raised, and what it is to a client.
    pub(crate) fn value(text: &[u8], value: Option<Value>) -> Raised {
        Raised {
            text: text.to_vec(),
            value,
            is_by_command: false,
        }
    }

    /// A fault of the script's own, named without a code.
    pub(crate) fn by_function(text: &str) -> Raised {
        Raised {
            text: format!("ERR {text}").into_bytes(),
            value: None,
            is_by_command: false,
        }
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl std::error::Error for Raised {}

impl From<Raised> for Error {
    fn from(raised: Raised) -> Error {
        Error::external(raised)
    }
}

/// A fault of the script's own, with the place of the function at that level of the stack.
pub(crate) fn located(lua: &Lua, level: f64, text: &[u8]) -> Error {
    let text = [&location_of(lua, level), text].concat();
    let value = match lua.create_string(&text) {
        Ok(text) => Some(Value::String(text)),
        Err(error) => return error,
    };
    Raised::value(&[b"ERR ", &*text].concat(), value).into()
}

/// Where the function at that level of the stack is, as Lua puts it in front of its errors.
pub(crate) fn location_of(lua: &Lua, level: f64) -> Vec<u8> {
    let Ok(level) = usize::try_from(truncated(level)) else {
        return Vec::new();
    };
    if level == 0 {
        return Vec::new();
    }
    let line = lua.inspect_stack(level, |frame| {
        let is_script = frame.source().short_src.as_deref() == Some(CHUNK_NAME);
        frame.current_line().filter(|_| is_script)
    });
    line.flatten().map_or(Vec::new(), |line| {
        format!("{CHUNK_NAME}:{line}: ").into_bytes()
    })
}

/// What is found at the bottom of an error of the interpreter.
pub(crate) enum Cause<'a> {
    Raised(&'a Raised),
    Ended(End),
    OutOfMemory,
    /// A fault that the interpreter itself noticed.
    Fault(String),
}

/// Looks through the layers that the interpreter has put around an error.
pub(crate) fn cause_of(error: &Error) -> Cause<'_> {
    let mut inner = error;
    loop {
        match inner {
            Error::CallbackError { cause, .. }
            | Error::WithContext { cause, .. }
            | Error::BadArgument { cause, .. } => inner = cause,
            Error::MemoryError(_) => return Cause::OutOfMemory,
            Error::ExternalError(external) => {
                if let Some(raised) = external.downcast_ref::<Raised>() {
                    return Cause::Raised(raised);
                }
                if let Some(&end) = external.downcast_ref::<End>() {
                    return Cause::Ended(end);
                }
                return Cause::Fault(external.to_string());
            }
            Error::RuntimeError(text) => return Cause::Fault(text.clone()),
            Error::SyntaxError { message, .. } => return Cause::Fault(message.clone()),
            other => return Cause::Fault(other.to_string()),
        }
    }
}

/// A fault's text in Redis's words, without what the interpreter says of its own files.
pub(crate) fn fault_text(text: &str) -> String {
    let text = text.split(TRACEBACK).next().unwrap_or_default();
    let text = match text
        .strip_prefix(SANDBOX_NAME)
        .and_then(|rest| rest.split_once(": "))
    {
        Some((_, rest)) => rest,
        None => text,
    };
    text.replace("attempt to modify a readonly table", READ_ONLY_TABLE)
}

/// The reply to a script that has raised an error nobody caught.
pub(crate) fn raised_reply(error: &Error, sha: &str) -> ErrorReply {
    let line = line_of(error);
    let text = match cause_of(error) {
        Cause::Raised(raised) => raised.text.clone(),
        Cause::Fault(fault) => {
            let fault = fault_text(&fault);
            match line {
                Some(line) if !fault.starts_with(CHUNK_NAME) && fault != READ_ONLY_TABLE => {
                    format!("ERR {CHUNK_NAME}:{line}: {fault}").into_bytes()
                }
                _ => format!("ERR {fault}").into_bytes(),
            }
        }
        Cause::Ended(_) | Cause::OutOfMemory => b"ERR Script ended".to_vec(),
    };
    reply_with_place(text, sha, line)
}

/// The reply to an error that a script has raised in this line, if that is known.
pub(crate) fn reply_with_place(mut text: Vec<u8>, sha: &str, line: Option<u32>) -> ErrorReply {
    text.truncate(ERROR_BYTES_MAX);
    let location = match line {
        Some(line) => format!(" script: {sha}, on @{CHUNK_NAME}:{line}."),
        None => format!(" script: {sha}"),
    };
    text.extend_from_slice(location.as_bytes());
    ErrorReply::new(text)
}

/// The reply to a text that Redis would not compile.
pub(crate) fn refused_reply(refusal: Refusal) -> ErrorReply {
    let start = "ERR Error compiling script (new function)";
    let mut text = format!("{start}: {CHUNK_NAME}:{}: ", refusal.line).into_bytes();
    text.extend(refusal.message);
    text.truncate(ERROR_BYTES_MAX);
    ErrorReply::new(text)
}

/// Half of a script must not stay where the log has no room for the other half.
const NO_ROOM_FOR_SCRIPT: ErrorReply = ErrorReply::fixed(
    "MISCONF the log has no room for what this script writes: the disk is full. All its effects \
     were undone: no lock was taken, extended or released by it. Locks held here end by their TTL; \
     free space in the data directory",
);

/// The reply to a script that has reached a limit and has been undone.
pub(crate) fn ended_reply(end: End, limits: &ScriptLimits) -> ErrorReply {
    let (limit, remedy) = match end {
        End::Time => (
            format!("time limit of {} ms", limits.time.as_millis()),
            "Shorten the script or raise script-time-limit",
        ),
        End::Memory => (
            format!("memory limit of {} bytes", limits.memory_bytes),
            "Let the script build less at a time",
        ),
        End::Steps => (
            format!("limit of {} steps", limits.steps),
            "Shorten the script",
        ),
        End::Journal => (
            format!("limit of {} bytes written", limits.journal_bytes),
            "Split the work over several scripts",
        ),
        End::Room => return NO_ROOM_FOR_SCRIPT,
    };
    ErrorReply::new(format!(
        "ERR Script ended: {limit} reached, all its effects were undone. No lock was taken, \
         extended or released by it; locks held before still expire as set. {remedy}."
    ))
}

/// The line of the script at which it failed, from the interpreter's own trace.
fn line_of(error: &Error) -> Option<u32> {
    let trace = match error {
        Error::CallbackError { traceback, .. } => traceback,
        Error::RuntimeError(text) => text
            .split_once(TRACEBACK)
            .map_or(text.as_str(), |(_, trace)| trace),
        _ => return None,
    };
    let (_, rest) = trace.split_once(CHUNK_NAME)?;
    let rest = rest.strip_prefix(':')?;
    let digits = rest
        .find(|symbol: char| !symbol.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// What scripts are called in their errors.
pub(crate) const CHUNK_NAME: &str = "user_script";
/// What the file of wrappers is called.
pub(crate) const SANDBOX_NAME: &str = "sandbox";

/// Raised by a function like `rawset` it has no place in the script.
const READ_ONLY_TABLE: &str = "Attempt to modify a readonly table";
const TRACEBACK: &str = "\nstack traceback:\n";
/// A script may raise a text of any length; a client need not read it all.
const ERROR_BYTES_MAX: usize = 4096;
