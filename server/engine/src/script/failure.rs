//! The error replies of scripts.
//!
//! The texts are Redis's: the error, then `script: SHA, on @user_script:LINE.`.

use crate::error::ErrorReply;
use crate::script::limits::{ScriptLimit, ScriptLimits};
use crate::script::syntax::Refusal;

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

/// The same where the process has no descriptor for the log's next file.
const NO_FILES_FOR_SCRIPT: ErrorReply = ErrorReply::fixed(
    "MISCONF the log has no room for what this script writes: the node's process can open no further file (too many open \
     files). All its effects were undone: no lock was taken, extended or released by it. Locks held here end by their TTL; \
     close files or connections, or raise the limit of open files",
);

/// The reply to a script that has reached a limit and has been undone.
pub(crate) fn ended_reply(
    end: ScriptLimit,
    limits: &ScriptLimits,
    lacks_files: bool,
) -> ErrorReply {
    let (limit, remedy) = match end {
        ScriptLimit::Time => (
            format!("time limit of {} ms", limits.time.as_millis()),
            "Shorten the script or raise script-time-limit",
        ),
        ScriptLimit::Memory => (
            format!("memory limit of {} bytes", limits.memory_bytes),
            "Let the script build less at a time",
        ),
        ScriptLimit::Steps => (
            format!("limit of {} steps", limits.steps),
            "Shorten the script",
        ),
        ScriptLimit::Journal => (
            format!("limit of {} bytes written", limits.journal_bytes),
            "Split the work over several scripts",
        ),
        ScriptLimit::Room if lacks_files => return NO_FILES_FOR_SCRIPT,
        ScriptLimit::Room => return NO_ROOM_FOR_SCRIPT,
    };
    ErrorReply::new(format!(
        "ERR Script ended: {limit} reached, all its effects were undone. No lock was taken, \
         extended or released by it; locks held before still expire as set. {remedy}."
    ))
}

pub(crate) const NO_SCRIPT: ErrorReply =
    ErrorReply::fixed("NOSCRIPT No matching script. Please use EVAL.");

/// What scripts are called in their errors.
pub(crate) const CHUNK_NAME: &str = "user_script";
/// A script may raise a text of any length; a client need not read it all.
const ERROR_BYTES_MAX: usize = 4096;
