//! A node's reply, as a value, how replies are read out of bytes that come in pieces of any length, and the fields of INFO.
//!
//! Nested arrays are replies as well: rows of LOCK.LIST, fields of a hash.
//!
//! Invariant: whatever a node sends, reading takes time in proportion to its bytes, and bounded memory and stack.

use std::borrow::Cow;
use std::mem;
use std::str::FromStr;

/// One reply of RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReply {
    /// A simple string, or bytes.
    Text(Vec<u8>),
    /// An error, with its code.
    Error(String),
    /// A number.
    Integer(i64),
    /// Nothing.
    Nil,
    /// Several replies.
    Array(Vec<NodeReply>),
}

impl NodeReply {
    /// Its bytes, if it has any.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Its number, if it is one that is not negative.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Its parts, if it is an array.
    #[must_use]
    pub fn parts(&self) -> Option<&[NodeReply]> {
        match self {
            Self::Array(parts) => Some(parts),
            _ => None,
        }
    }

    /// The value behind this name, in an array of names and values.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&NodeReply> {
        let mut pairs = self.parts()?.chunks_exact(2);
        let pair = pairs.find(|pair| pair[0].text() == Some(name.as_bytes()))?;
        Some(&pair[1]).filter(|value| **value != Self::Nil)
    }

    /// Why it is not what was asked for.
    #[must_use]
    pub fn refusal(&self) -> String {
        match self {
            Self::Error(text) => format!("refused: {text}"),
            _ => "it answers something else than was asked for".to_owned(),
        }
    }
}

/// What has come of the replies on one connection, out of which they are taken one after the other.
#[derive(Debug)]
pub struct NodeReplies {
    reply_bytes_max: usize,
    /// How many more bytes the reply may take that is being read.
    bytes_left: usize,
    /// The beginning of a line, or of a string.
    beginning: Vec<u8>,
    /// How long the string is with the end of its line; none while a line is read.
    string_bytes: Option<usize>,
    /// The arrays that are being read, the outermost first: how many parts each has, and those that have come.
    arrays: Vec<(usize, Vec<NodeReply>)>,
}

impl NodeReplies {
    /// Reads replies that take at most so many bytes each: their own, and what the parts of arrays take besides.
    #[must_use]
    pub fn new(reply_bytes_max: usize) -> Self {
        Self {
            reply_bytes_max,
            bytes_left: reply_bytes_max,
            beginning: Vec::new(),
            string_bytes: None,
            arrays: Vec::new(),
        }
    }

    /// Takes the next reply, or what has come of it, off the front of these bytes. None where all are taken and more is to come.
    ///
    /// # Errors
    /// Why it is no reply. What follows cannot be read either.
    pub fn read(&mut self, bytes: &mut &[u8]) -> Result<Option<NodeReply>, &'static str> {
        while let Some(part) = self.take(bytes)? {
            let reply = match self.string_bytes.take() {
                Some(_) => Some(NodeReply::Text(part)),
                None => self.parse(&part)?,
            };
            if let Some(reply) = reply.and_then(|reply| self.put(reply)) {
                self.bytes_left = self.reply_bytes_max;
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    /// Takes a line or a string off these bytes, and leaves out how it ends. None while more of it is to come.
    fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let lacking = match self.string_bytes {
            Some(length) => length - self.beginning.len(),
            None => lines.next().map_or(0, <[u8]>::len),
        };
        let (taken, rest) = bytes.split_at(lacking.min(bytes.len()));
        *bytes = rest;
        self.beginning.extend_from_slice(taken);
        let is_whole = match self.string_bytes {
            Some(length) => self.beginning.len() == length,
            None if self.beginning.len() > LINE_BYTES_MAX => return Err(TOO_LONG),
            None => self.beginning.ends_with(b"\n"),
        };
        if !is_whole {
            return Ok(None);
        }
        let mut part = mem::take(&mut self.beginning);
        if !part.ends_with(b"\r\n") {
            return Err("a reply has no end");
        }
        part.truncate(part.len() - 2);
        Ok(Some(part))
    }

    /// The reply that a line is. None where a string or the parts of an array follow.
    fn parse(&mut self, line: &[u8]) -> Result<Option<NodeReply>, &'static str> {
        self.charge(line.len())?;
        let (kind, rest) = line.split_first().ok_or("a reply is empty")?;
        let text = String::from_utf8_lossy(rest);
        let number = || text.parse::<i64>().map_err(|_| "a reply has no number");
        let length = || usize::try_from(number()?).map_err(|_| "a length is negative");
        match kind {
            b'+' => Ok(Some(NodeReply::Text(rest.to_vec()))),
            b'-' => Ok(Some(NodeReply::Error(text.into_owned()))),
            b':' => Ok(Some(NodeReply::Integer(number()?))),
            b'$' | b'*' if number()? == -1 => Ok(Some(NodeReply::Nil)),
            b'*' if number()? == 0 => Ok(Some(NodeReply::Array(Vec::new()))),
            b'$' => {
                let length = length()?;
                self.charge(length)?;
                self.string_bytes = Some(length + 2);
                Ok(None)
            }
            b'*' if self.arrays.len() < DEPTH_MAX => {
                let count = length()?;
                self.charge(count.saturating_mul(PART_BYTES))?;
                self.arrays.push((count, Vec::new()));
                Ok(None)
            }
            _ => Err("it does not speak Redis's protocol"),
        }
    }

    /// Puts a reply into the array that it is a part of. The outermost one, once it is whole.
    fn put(&mut self, mut reply: NodeReply) -> Option<NodeReply> {
        while let Some((count, mut parts)) = self.arrays.pop() {
            parts.push(reply);
            if parts.len() < count {
                self.arrays.push((count, parts));
                return None;
            }
            reply = NodeReply::Array(parts);
        }
        Some(reply)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(TOO_LONG)?;
        Ok(())
    }
}

/// The text of a reply to INFO: a line for each field, with its name before a colon. A field that is missing or empty is none.
#[derive(Debug)]
pub struct InfoText<'t>(Cow<'t, str>);

impl<'t> InfoText<'t> {
    /// Of the bytes of a reply.
    #[must_use]
    pub fn new(bytes: &'t [u8]) -> Self {
        Self(String::from_utf8_lossy(bytes))
    }

    /// All lines, in their order.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.lines()
    }

    /// The value of the first field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim).filter(|value| !value.is_empty())
    }

    /// That value, if it is such a number.
    #[must_use]
    pub fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.field(name)?.parse().ok()
    }
}

const TOO_LONG: &str = "a reply is longer than it may be";
const LINE_BYTES_MAX: usize = 64 << 10;
/// What a part of an array takes in memory beside its bytes.
const PART_BYTES: usize = 32;
/// LOCK.LIST has rows with maps of holders, which are maps.
const DEPTH_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> NodeReply {
        NodeReply::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn replies_of_all_kinds_are_read_once_their_last_byte_is_there() {
        let empty = NodeReply::Array(Vec::new());
        for (bytes, reply) in [
            ("+OK\r\n", text("OK")),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("$0\r\n\r\n", text("")),
            ("$-1\r\n", NodeReply::Nil),
            ("*-1\r\n", NodeReply::Nil),
            ("*0\r\n", empty.clone()),
            (":-2\r\n", NodeReply::Integer(-2)),
            ("-ERR no\r\n", NodeReply::Error("ERR no".to_owned())),
            (
                "*3\r\n$1\r\n0\r\n*0\r\n*1\r\n:1\r\n",
                NodeReply::Array(vec![
                    text("0"),
                    empty,
                    NodeReply::Array(vec![NodeReply::Integer(1)]),
                ]),
            ),
        ] {
            let followed = format!("{bytes}:7\r\n");
            for cut in 0..bytes.len() {
                let (mut beginning, mut rest) = followed.as_bytes().split_at(cut);
                let mut replies = NodeReplies::new(1_000);
                assert_eq!(replies.read(&mut beginning), Ok(None), "{bytes:?} at {cut}");
                assert_eq!(replies.read(&mut rest), Ok(Some(reply.clone())));
                assert_eq!(rest, b":7\r\n");
                assert_eq!(replies.read(&mut rest), Ok(Some(NodeReply::Integer(7))));
                assert_eq!(replies.read(&mut rest), Ok(None));
            }
        }
    }

    #[test]
    fn what_is_no_reply_or_has_no_bounds_is_refused() {
        let nested = "*1\r\n".repeat(DEPTH_MAX + 1);
        let line = "+".repeat(LINE_BYTES_MAX + 1);
        for bytes in [
            "\r\n",
            "+OK\n",
            "HTTP/1.1 400 Bad Request\r\n",
            "$x\r\n",
            "$-7\r\n",
            "*-7\r\n",
            "$1\r\nabc",
            "$99999999999\r\n",
            "*99999999999\r\n",
            "*9223372036854775807\r\n",
            &nested,
            &line,
        ] {
            let read = NodeReplies::new(1 << 20).read(&mut bytes.as_bytes());
            assert!(read.is_err(), "{bytes:.20} {read:?}");
        }
    }

    #[test]
    fn each_reply_has_bounds_of_its_own_that_all_of_its_parts_share() {
        let string = format!("$600\r\n{}\r\n", "a".repeat(600));
        let mut replies = NodeReplies::new(1_000);
        for _ in 0..2 {
            let read = replies.read(&mut string.as_bytes());
            assert!(matches!(read, Ok(Some(NodeReply::Text(_)))), "{read:?}");
        }
        let both = format!("*2\r\n{string}{string}");
        assert_eq!(replies.read(&mut both.as_bytes()), Err(TOO_LONG));
        // Of parts that have no bytes not many fit either.
        let read = |parts| NodeReplies::new(1_000).read(&mut format!("*{parts}\r\n").as_bytes());
        assert_eq!((read(30), read(32)), (Ok(None), Err(TOO_LONG)));
    }

    #[test]
    fn what_was_read_is_not_read_again() {
        let mut replies = NodeReplies::new(1 << 20);
        let page = format!("*1000\r\n{}", "$9\r\nlock:name\r\n".repeat(1_000));
        let (last, before) = page.as_bytes().split_last().expect("it is long");
        for byte in before {
            assert_eq!(replies.read(&mut &[*byte][..]), Ok(None));
            assert!(replies.beginning.len() <= "lock:name\r\n".len());
        }
        let page = NodeReply::Array(vec![text("lock:name"); 1_000]);
        assert_eq!(replies.read(&mut &[*last][..]), Ok(Some(page)));
    }

    #[test]
    fn the_first_field_with_the_whole_name_counts_unless_it_is_empty() {
        let info =
            InfoText::new(b"# a:\r\nab:1\r\na: -2 \r\na:3\r\nb:\r\nb:4\r\nc\r\nd:x:y\r\ne:\xff\n");
        assert_eq!(
            (info.field("a"), info.number::<i64>("a")),
            (Some("-2"), Some(-2))
        );
        assert_eq!(info.number::<u64>("a"), None);
        assert_eq!(
            (info.field("b"), info.field("c"), info.field("f")),
            (None, None, None)
        );
        assert_eq!(
            (info.field("d"), info.field("e")),
            (Some("x:y"), Some("\u{fffd}"))
        );
    }

    /// All replies in these bytes, and the error that ends them.
    fn all<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> Vec<Result<NodeReply, &'static str>> {
        let mut replies = NodeReplies::new(200);
        let mut found = Vec::new();
        for mut piece in pieces {
            while let Some(read) = replies.read(&mut piece).transpose() {
                found.push(read);
                if found.last().is_some_and(Result::is_err) {
                    return found;
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic_or_mean_something_else_in_pieces(
            bytes in "([*$][0-3]\r\n|[*$+:\\-\r\n0-9a]){0,60}",
            length in 1..9_usize,
        ) {
            let bytes = bytes.as_bytes();
            prop_assert_eq!(all(bytes.chunks(length)), all([bytes].into_iter()));
        }
    }
}
