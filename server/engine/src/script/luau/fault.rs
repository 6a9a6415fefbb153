//! What went wrong inside the interpreter: the error that a script raised, its place, and Redis's words for it.

use std::fmt;

use mlua::{Error, Lua, Value};

use crate::error::ErrorReply;
use crate::number::truncated;
use crate::script::failure::{CHUNK_NAME, reply_with_place};
use crate::script::limits::ScriptLimit;

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
pub(crate) enum RootCause<'a> {
    Raised(&'a Raised),
    Ended(ScriptLimit),
    OutOfMemory,
    /// A fault that the interpreter itself noticed.
    Fault(String),
}

/// Looks through the layers that the interpreter has put around an error.
pub(crate) fn cause_of(error: &Error) -> RootCause<'_> {
    let mut inner = error;
    loop {
        match inner {
            Error::CallbackError { cause, .. }
            | Error::WithContext { cause, .. }
            | Error::BadArgument { cause, .. } => inner = cause,
            Error::MemoryError(_) => return RootCause::OutOfMemory,
            Error::ExternalError(external) => {
                if let Some(raised) = external.downcast_ref::<Raised>() {
                    return RootCause::Raised(raised);
                }
                if let Some(&end) = external.downcast_ref::<ScriptLimit>() {
                    return RootCause::Ended(end);
                }
                return RootCause::Fault(external.to_string());
            }
            Error::RuntimeError(text) => return RootCause::Fault(text.clone()),
            Error::SyntaxError { message, .. } => return RootCause::Fault(message.clone()),
            other => return RootCause::Fault(other.to_string()),
        }
    }
}

/// A fault's text in Redis's words, without what the interpreter says of its own files.
pub(crate) fn fault_text(text: &[u8]) -> Vec<u8> {
    let end = find(text, TRACEBACK.as_bytes()).unwrap_or(text.len());
    let text = &text[..end];
    let (place, fault) = match placed_in(text, CHUNK_NAME) {
        Some(place) => text.split_at(place),
        None => (&b""[..], without_sandbox(text)),
    };
    [place, &in_words_of_lua(fault)].concat()
}

/// The text without the place in the file of wrappers where the fault was noticed, if there is one.
fn without_sandbox(text: &[u8]) -> &[u8] {
    placed_in(text, SANDBOX_NAME).map_or(text, |place| &text[place..])
}

/// The same fault at the place in the script that called the wrapper which noticed it; `None` for any other one.
pub(crate) fn moved_to_caller(lua: &Lua, text: &[u8]) -> Option<Vec<u8>> {
    let place = placed_in(text, SANDBOX_NAME)?;
    let places = (1..WRAPPERS_MAX).map(|level| location_of(lua, f64::from(level)));
    let caller = places.into_iter().find(|place| !place.is_empty())?;
    Some([&caller, &text[place..]].concat())
}

/// The length of `FILE:LINE: ` in front of a text.
fn placed_in(text: &[u8], file: &str) -> Option<usize> {
    let rest = text.strip_prefix(file.as_bytes())?.strip_prefix(b":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = rest.get(digits..)?.strip_prefix(b": ")?;
    (digits > 0).then(|| text.len().saturating_sub(rest.len()))
}

/// Luau's texts about arguments and patterns as Lua 5.1 has them.
fn in_words_of_lua(fault: &[u8]) -> Vec<u8> {
    let after = |start: &str| fault.strip_prefix(start.as_bytes());
    if after("malformed pattern (missing arguments to '%b')").is_some() {
        return b"unbalanced pattern".to_vec();
    }
    let about = after("invalid argument #").or_else(|| after("missing argument #"));
    if let Some(rest) = about
        && let Some(end) = EXPECTED.iter().find_map(|expected| {
            let at = find(rest, expected)?;
            Some(at.saturating_add(expected.len()))
        })
    {
        // Lua says no more of it, whatever it got.
        return [b"bad argument #", &rest[..end], b")"].concat();
    }
    if let Some(rest) = after("invalid argument #") {
        return [b"bad argument #", rest].concat();
    }
    if let Some(rest) = after("missing argument #") {
        return match rest.strip_suffix(b" expected)") {
            Some(rest) => [b"bad argument #", rest, b" expected, got no value)"].concat(),
            // Which function it was is not said. The first argument any of them may lack, others `string.format`.
            None if rest == b"1" => b"bad argument #1 to '?' (value expected)".to_vec(),
            None => [b"bad argument #", rest, b" to 'format' (no value)"].concat(),
        };
    }
    if after("invalid capture index").is_some() {
        return b"invalid capture index".to_vec();
    }
    match find(fault, LUAU_READ_ONLY) {
        Some(_) => READ_ONLY_TABLE.as_bytes().to_vec(),
        None => fault.to_vec(),
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The reply to a script that has raised an error nobody caught.
pub(crate) fn raised_reply(error: &Error, sha: &str) -> ErrorReply {
    let line = line_of(error);
    let text = match cause_of(error) {
        RootCause::Raised(raised) => raised.text.clone(),
        RootCause::Fault(fault) => {
            let fault = fault_text(fault.as_bytes());
            let is_placed = fault.starts_with(CHUNK_NAME.as_bytes());
            let place = match line {
                Some(line) if !is_placed && fault != READ_ONLY_TABLE.as_bytes() => {
                    format!("{CHUNK_NAME}:{line}: ")
                }
                _ => String::new(),
            };
            [b"ERR ", place.as_bytes(), &fault].concat()
        }
        RootCause::Ended(_) | RootCause::OutOfMemory => b"ERR Script ended".to_vec(),
    };
    reply_with_place(text, sha, line)
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

/// What the file of wrappers is called.
pub(crate) const SANDBOX_NAME: &str = "sandbox";

/// Raised by a function like `rawset` it has no place in the script.
const READ_ONLY_TABLE: &str = "Attempt to modify a readonly table";
const EXPECTED: [&[u8]; 2] = [
    b"(nil or table expected",
    b"(string/function/table expected",
];
const LUAU_READ_ONLY: &[u8] = b"attempt to modify a readonly table";
/// More than the wrappers that lie between a script and what they call, and what looks for the script.
const WRAPPERS_MAX: u32 = 12;
const TRACEBACK: &str = "\nstack traceback:\n";
