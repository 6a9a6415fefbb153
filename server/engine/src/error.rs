//! Refusals: the error replies that clients match on, in Redis's exact words.
//!
//! An error a client can cause is a reply and nothing else; the engine has no other errors.

use std::borrow::Cow;
use std::fmt;

/// The whole text of an error reply, code included, without the leading `-`.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorReply(Cow<'static, [u8]>);

impl ErrorReply {
    /// An option that does not exist, is given twice, or contradicts another one.
    pub const SYNTAX: ErrorReply = ErrorReply::fixed("ERR syntax error");
    /// The key holds a value of another type.
    pub const WRONG_TYPE: ErrorReply =
        ErrorReply::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// Not a number of 64 bits.
    pub const NOT_AN_INTEGER: ErrorReply =
        ErrorReply::fixed("ERR value is not an integer or out of range");

    /// A key that has to exist.
    pub(crate) const NO_SUCH_KEY: ErrorReply = ErrorReply::fixed("ERR no such key");

    /// The one number of 64 bits that has no opposite.
    pub(crate) const OUT_OF_SYMMETRIC_RANGE: ErrorReply = ErrorReply::fixed(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );

    /// A sum beyond 64 bits.
    pub(crate) const WOULD_OVERFLOW: ErrorReply =
        ErrorReply::fixed("ERR increment or decrement would overflow");

    /// An error with a constant text, which starts with its code.
    pub const fn fixed(text: &'static str) -> ErrorReply {
        ErrorReply(Cow::Borrowed(text.as_bytes()))
    }

    /// An error with a text made for the occasion, which starts with its code.
    pub fn new(text: impl Into<Vec<u8>>) -> ErrorReply {
        ErrorReply(Cow::Owned(text.into()))
    }

    /// A wrong number of arguments for the command `name`.
    pub fn wrong_arity(name: &str) -> ErrorReply {
        ErrorReply::new(format!(
            "ERR wrong number of arguments for '{name}' command"
        ))
    }

    /// A command that does not exist. Redis quotes the start of the name and of the arguments.
    pub fn unknown_command(arguments: &[&[u8]]) -> ErrorReply {
        let mut text = b"ERR unknown command '".to_vec();
        let name = arguments.first().copied().unwrap_or_default();
        text.extend_from_slice(start_of(name, QUOTED_BYTES_MAX));
        text.extend_from_slice(b"', with args beginning with: ");
        let mut room = QUOTED_BYTES_MAX;
        for argument in arguments.iter().skip(1) {
            if room == 0 {
                break;
            }
            let quoted = start_of(argument, room);
            text.push(b'\'');
            text.extend_from_slice(quoted);
            text.extend_from_slice(b"' ");
            room = room.saturating_sub(quoted.len().saturating_add(3));
        }
        ErrorReply::new(text)
    }

    /// The same with a reason behind it, for people.
    pub fn because(self, why: &str) -> ErrorReply {
        let mut text = self.0.into_owned();
        text.extend_from_slice(format!("({why})").as_bytes());
        ErrorReply::new(text)
    }

    /// A subcommand that does not exist.
    pub fn unknown_subcommand(command: &str, subcommand: &[u8]) -> ErrorReply {
        let mut text = b"ERR unknown subcommand '".to_vec();
        text.extend_from_slice(start_of(subcommand, QUOTED_BYTES_MAX));
        text.extend_from_slice(b"'. Try ");
        text.extend_from_slice(command.to_ascii_uppercase().as_bytes());
        text.extend_from_slice(b" HELP.");
        ErrorReply::new(text)
    }

    /// An expiry that is not positive, or too far away to be represented.
    pub(crate) fn invalid_expire(name: &str) -> ErrorReply {
        ErrorReply::new(format!("ERR invalid expire time in '{name}' command"))
    }

    /// The whole text, code included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first word: what clients tell errors apart by.
    pub fn code(&self) -> &[u8] {
        self.0
            .split(|&byte| byte == b' ')
            .next()
            .unwrap_or_default()
    }
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for ErrorReply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ErrorReply({self})")
    }
}

impl std::error::Error for ErrorReply {}

/// The refusal of a command that may add to what keys take, where they take more than `maxmemory`.
pub(crate) const OUT_OF_MEMORY: ErrorReply =
    ErrorReply::fixed("OOM command not allowed when used memory > 'maxmemory'.");

fn start_of(bytes: &[u8], length_max: usize) -> &[u8] {
    bytes.get(..length_max).unwrap_or(bytes)
}

/// How much of a client's words an error repeats.
const QUOTED_BYTES_MAX: usize = 128;
