//! What a command answers, independent of the protocol's version.
//!
//! The engine decides the meaning (a map, a set, nothing); the server decides the bytes. What a reply
//! may take is known before it is taken: every element is charged to a [`ReplyBudget`] first.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::ErrorReply;

/// One reply. The server renders it for RESP2 or RESP3 and keeps CR and LF out of lines.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// A simple line.
    Status(Cow<'static, [u8]>),
    /// Nothing, where a bulk would be.
    Nil,
    /// Nothing, where an array would be.
    NilArray,
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Bytes that the keyspace holds as well: a long value, not copied. The same to a client.
    Shared(Arc<[u8]>),
    /// A sequence.
    Array(Vec<Reply>),
    /// Pairs; flattened to an array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// A sequence without order; an array in RESP2.
    Set(Vec<Reply>),
    /// A floating point number; a bulk in RESP2.
    Double(f64),
    /// The digits of a whole number of any length; a bulk in RESP2.
    BigNumber(Vec<u8>),
    /// True or false; 1 or 0 in RESP2.
    Boolean(bool),
    /// Text with a three-letter format; a bulk in RESP2.
    Verbatim([u8; 3], Vec<u8>),
    /// Data that is no answer to a request; an array in RESP2.
    Push(Vec<Reply>),
    /// A refusal.
    Error(ErrorReply),
}

impl Reply {
    /// A simple line from a constant.
    pub const fn status(text: &'static str) -> Reply {
        Reply::Status(Cow::Borrowed(text.as_bytes()))
    }

    /// A bulk with a copy of `bytes`.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(bytes.as_ref().to_vec())
    }

    /// A bulk that shares `bytes` where they are long, and copies them where that costs less.
    pub(crate) fn value(bytes: &Arc<[u8]>) -> Reply {
        if bytes.len() < SHARED_BYTES_MIN {
            Reply::bulk(bytes)
        } else {
            Reply::Shared(Arc::clone(bytes))
        }
    }

    /// 1 or 0.
    pub const fn flag(yes: bool) -> Reply {
        Reply::Integer(if yes { 1 } else { 0 })
    }

    /// A count of things in memory.
    pub fn count(count: usize) -> Reply {
        Reply::Integer(i64::try_from(count).expect("it counts things in memory"))
    }

    /// What a command with subcommands answers to HELP: the lines about each of them, and about HELP itself, as
    /// Redis has them.
    pub fn help(command: &str, lines: &[&'static str]) -> Reply {
        let head = format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        let head = Reply::Status(head.into_bytes().into());
        let tail = ["HELP", "    Prints this help."];
        let lines = lines.iter().chain(&tail).map(|&line| Reply::status(line));
        Reply::Array(std::iter::once(head).chain(lines).collect())
    }

    /// Whether this is a refusal.
    pub const fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

impl From<ErrorReply> for Reply {
    fn from(error: ErrorReply) -> Reply {
        Reply::Error(error)
    }
}

/// What one reply may still take.
///
/// An element costs its bytes and what the node spends on it besides, so that a million tiny keys
/// are bounded by the memory they take and not by the few bytes that are sent of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyBudget {
    limit: usize,
    taken: usize,
}

/// The element would have made the reply larger than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTooLarge {
    limit: usize,
}

impl Default for ReplyBudget {
    fn default() -> ReplyBudget {
        ReplyBudget::new(REPLY_BYTES_MAX)
    }
}

impl ReplyBudget {
    /// A budget of which nothing is taken.
    pub const fn new(limit: usize) -> ReplyBudget {
        ReplyBudget { limit, taken: 0 }
    }

    /// A budget of which earlier replies have taken a part.
    pub(crate) const fn after(taken: usize, limit: usize) -> ReplyBudget {
        ReplyBudget { limit, taken }
    }

    /// Charges an element of so many bytes; to be called before it is made.
    ///
    /// # Errors
    /// When the reply would become too large. Then nothing is charged.
    #[inline]
    pub fn charge(&mut self, bytes: usize) -> Result<(), ReplyTooLarge> {
        self.charge_memory(bytes.saturating_add(ELEMENT_BYTES))
    }

    /// Charges memory as it is.
    ///
    /// # Errors
    /// As [`ReplyBudget::charge`].
    #[inline]
    pub fn charge_memory(&mut self, bytes: usize) -> Result<(), ReplyTooLarge> {
        let taken = self.taken.saturating_add(bytes);
        if taken > self.limit {
            return Err(ReplyTooLarge { limit: self.limit });
        }
        self.taken = taken;
        Ok(())
    }

    /// Charges a whole reply, elements and all; for small ones that are made many times over.
    ///
    /// # Errors
    /// As [`ReplyBudget::charge`].
    pub fn charge_reply(&mut self, reply: &Reply) -> Result<(), ReplyTooLarge> {
        self.charge_memory(memory_of(reply))
    }

    /// What has been charged, by earlier replies as well.
    pub const fn taken(&self) -> usize {
        self.taken
    }
}

/// The depth of what is charged like this is a constant, hence the recursion.
fn memory_of(reply: &Reply) -> usize {
    let sum = |sum: usize, item: &Reply| sum.saturating_add(memory_of(item));
    let inside = match reply {
        Reply::Ok | Reply::Nil | Reply::NilArray => 0,
        Reply::Integer(_) | Reply::Double(_) | Reply::Boolean(_) => 0,
        Reply::Status(text) => text.len(),
        Reply::Bulk(bytes) | Reply::BigNumber(bytes) | Reply::Verbatim(_, bytes) => bytes.len(),
        Reply::Shared(bytes) => bytes.len(),
        Reply::Error(error) => error.as_bytes().len(),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items.iter().fold(0, sum),
        Reply::Map(pairs) => pairs
            .iter()
            .fold(0, |all, (key, value)| sum(sum(all, key), value)),
    };
    inside.saturating_add(ELEMENT_BYTES)
}

impl ReplyTooLarge {
    /// The reply to a command that has changed nothing.
    pub fn of_command(self) -> ErrorReply {
        self.error("the reply", "Nothing was changed")
    }

    /// The reply to a command of a script or transaction whose earlier commands have changed something.
    pub(crate) fn of_command_after_writes(self) -> ErrorReply {
        self.error(
            "the reply to a command of this script or transaction",
            "This command changed nothing, but earlier writes have taken effect",
        )
    }

    /// The reply to a transaction that is taken back because there is no room for all its replies.
    pub(crate) fn of_transaction(self) -> ErrorReply {
        self.error(
            "the replies to this transaction, errors included,",
            "Nothing of it was executed",
        )
    }

    /// The reply to a script, whose writes stay even if its result is too large.
    pub(crate) fn of_script(self, has_written: bool) -> ErrorReply {
        let effect = if has_written {
            "The script's writes have taken effect"
        } else {
            "The script has changed nothing"
        };
        self.error("the result of this script", effect)
    }

    fn error(self, what: &str, effect: &str) -> ErrorReply {
        ErrorReply::new(format!(
            "ERR {what} would take more than the {} bytes that proto-max-reply-len allows, so it \
             is not sent. {effect}. Ask for less at a time (SCAN for KEYS), or raise \
             proto-max-reply-len",
            self.limit
        ))
    }
}

/// What an element costs besides its bytes: its [`Reply`], and the allocation of its bytes.
pub(crate) const ELEMENT_BYTES: usize = size_of::<Reply>() + ALLOCATION_BYTES;

/// What the allocator adds to a short piece of memory.
const ALLOCATION_BYTES: usize = 32;

const _: () = assert!(size_of::<Reply>() <= 32, "a reply is half a cache line");

/// From here on a value has an allocation of its own, with a count of who uses it: that costs less
/// than copies.
pub(crate) const SHARED_BYTES_MIN: usize = 1024;

/// The largest reply unless told otherwise.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_may_take_its_limit_and_not_a_byte_more() {
        let whole = 100 + ELEMENT_BYTES;
        for (limit, is_admitted) in [(whole - 1, false), (whole, true), (whole + 1, true)] {
            let mut budget = ReplyBudget::new(limit);
            assert_eq!(budget.charge(100).is_ok(), is_admitted, "limit {limit}");
            assert_eq!(budget.taken(), if is_admitted { whole } else { 0 });
        }
    }

    #[test]
    fn charges_add_up_and_never_wrap() {
        let mut budget = ReplyBudget::new(3 * ELEMENT_BYTES);
        assert_eq!(
            budget.charge(usize::MAX),
            Err(ReplyTooLarge {
                limit: 3 * ELEMENT_BYTES
            })
        );
        assert!((0..3).all(|_| budget.charge(0).is_ok()));
        assert!(budget.charge(0).is_err());
        assert!(ReplyBudget::new(0).charge(0).is_err());
        assert!(ReplyBudget::new(usize::MAX).charge(usize::MAX).is_ok());
    }

    #[test]
    fn the_error_names_the_limit_the_directive_and_what_happened() {
        let error = ReplyTooLarge { limit: 1000 };
        for (error, effect) in [
            (error.of_command(), "Nothing was changed."),
            (
                error.of_command_after_writes(),
                "earlier writes have taken effect.",
            ),
            (
                error.of_script(true),
                "The script's writes have taken effect.",
            ),
            (error.of_script(false), "The script has changed nothing."),
        ] {
            let text = error.to_string();
            for part in ["1000 bytes", "raise proto-max-reply-len", effect] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}
