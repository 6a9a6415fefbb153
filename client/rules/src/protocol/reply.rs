//! One reply out of a node's byte stream.
//!
//! Invariant: whatever a node sends, decoding takes bounded memory and stack. The decoder, which recurses, never sees an
//! array: the short ones without arrays in them that this client asks for are put together here, and others are refused.
//! Of a very long string only the beginning is kept. Of RESP3, once it was asked for, pushes are put together likewise; an
//! array in a push, with the names of keys that have changed, may be of any length, and only its beginning is kept.

use bytes::{Buf as _, BytesMut};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;

use super::reply_error::{ReplyError, STRING_BYTES_MAX};
use super::resp3;

/// What a node has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// The reply to the oldest request.
    Reply(OwnedFrame),
    /// A message that no request has asked for.
    Push(Vec<OwnedFrame>),
}

/// A node's bytes, out of which replies and pushes are taken one after the other.
#[derive(Debug)]
pub(crate) struct Replies {
    buffer: BytesMut,
    /// What is still to come of a string whose beginning has been taken.
    to_skip: usize,
    /// An array or a push whose end is still to come.
    parts: Option<Parts>,
    /// Whether RESP3 was asked for: before that its kinds are no replies.
    is_resp3: bool,
}

#[derive(Debug)]
struct Parts {
    is_push: bool,
    /// How many are still to come.
    left: usize,
    taken: Vec<OwnedFrame>,
    /// Whether an array in it was opened: its parts are taken as parts of the push.
    has_array: bool,
    /// Whether parts were left out.
    is_cut: bool,
}

impl Parts {
    fn take(&mut self, frame: OwnedFrame) {
        self.left -= 1;
        match self.taken.len() < PARTS_KEPT_MAX {
            true => self.taken.push(frame),
            false => self.is_cut = true,
        }
    }

    /// All of them. A null at the end stands for what was left out.
    fn finish(mut self) -> Incoming {
        if self.is_cut {
            self.taken.push(OwnedFrame::Null);
        }
        match self.is_push {
            true => Incoming::Push(self.taken),
            false => Incoming::Reply(OwnedFrame::Array(self.taken)),
        }
    }
}

impl Replies {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(bytes),
            to_skip: 0,
            parts: None,
            is_resp3: false,
        }
    }

    /// RESP3 is asked for: what comes before the reply to that is of RESP2.
    pub(crate) fn expect_resp3(&mut self) {
        self.is_resp3 = true;
    }

    pub(crate) fn may_push(&self) -> bool {
        self.is_resp3
    }

    /// Takes in what was read.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        // What is skipped anyway is not kept.
        let skipped = if self.buffer.is_empty() {
            self.to_skip.min(bytes.len())
        } else {
            0
        };
        self.to_skip -= skipped;
        self.buffer.extend_from_slice(&bytes[skipped..]);
    }

    /// Takes the next reply or push, if it is there. A push is told from a reply by its first byte alone.
    pub(crate) fn next(&mut self) -> Result<Option<Incoming>, ReplyError> {
        loop {
            self.skip(0);
            if self.to_skip > 0 {
                return Ok(None);
            }
            if self.parts.is_none() {
                if self.is_resp3 && self.buffer.first() == Some(&b'%') {
                    let map = resp3::map(&self.buffer)?;
                    self.skip(map.as_ref().map_or(0, |(_, bytes)| *bytes));
                    return Ok(map.map(|(frame, _)| Incoming::Reply(frame)));
                }
                let Some(parts) = self.parts()? else {
                    return Ok(None);
                };
                self.parts = parts;
            }
            if self.buffer.first() == Some(&b'*')
                && let Some(parts) = &mut self.parts
                && parts.is_push
                && !parts.has_array
            {
                let Some((count, bytes)) = resp3::array_header(&self.buffer)? else {
                    return Ok(None);
                };
                parts.has_array = true;
                parts.left = parts.left - 1 + count;
                self.skip(bytes);
            } else {
                let Some((frame, bytes)) = first(&self.buffer, self.is_resp3)? else {
                    return Ok(None);
                };
                self.skip(bytes);
                let Some(parts) = &mut self.parts else {
                    return Ok(Some(Incoming::Reply(frame)));
                };
                parts.take(frame);
            }
            if self.parts.as_ref().is_some_and(|parts| parts.left == 0) {
                return Ok(self.parts.take().map(Parts::finish));
            }
        }
    }

    /// Takes the beginning of an array or a push, if one comes first. None if more bytes are needed.
    #[allow(clippy::option_option, reason = "incomplete, or none")]
    fn parts(&mut self) -> Result<Option<Option<Parts>>, ReplyError> {
        let is_push = match self.buffer.first() {
            Some(b'*') => false,
            Some(b'>') if self.is_resp3 => true,
            _ => return Ok(Some(None)),
        };
        let most = if is_push {
            PUSH_PARTS_MAX
        } else {
            ARRAY_PARTS_MAX
        };
        let Some((count, bytes)) = array_length(&self.buffer, most)? else {
            return Ok(None);
        };
        self.skip(bytes);
        let taken = Vec::with_capacity(count);
        Ok(Some(Some(Parts {
            is_push,
            left: count,
            taken,
            has_array: false,
            is_cut: false,
        })))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.to_skip == 0 && self.parts.is_none()
    }

    #[cfg(fuzzing)]
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    fn skip(&mut self, bytes: usize) {
        self.to_skip += bytes;
        let here = self.to_skip.min(self.buffer.len());
        self.buffer.advance(here);
        self.to_skip -= here;
    }
}

/// Decodes the first reply in `buffer`, if it is complete, with the number of bytes it takes.
///
/// Of a very long string only the beginning is waited for and decoded; the bytes it takes then
/// reach beyond the buffer.
fn first(buffer: &[u8], is_resp3: bool) -> Result<Option<(OwnedFrame, usize)>, ReplyError> {
    let Some(kind) = buffer.first() else {
        return Ok(None);
    };
    if is_resp3 && b"_=".contains(kind) {
        return resp3::scalar(buffer);
    }
    if !b"+-:$".contains(kind) {
        return Err(ReplyError::UnknownKind);
    }
    if let Some((at, bytes)) = long_string(buffer)? {
        let beginning = buffer.get(at..at + STRING_BYTES_MAX);
        let frame = beginning.map(|text| OwnedFrame::BulkString(text.to_vec()));
        return Ok(frame.map(|frame| (frame, at + bytes + 2)));
    }
    match decode(buffer) {
        // The decoder does not look at what ends a string.
        Ok(Some((_, used))) if !buffer[..used].ends_with(b"\r\n") => Err(ReplyError::Unterminated),
        Ok(Some((_, used))) if *kind != b'$' && used > LINE_BYTES_MAX => Err(ReplyError::LongLine),
        Ok(None) if *kind != b'$' && buffer.len() >= LINE_BYTES_MAX => Err(ReplyError::LongLine),
        Ok(decoded) => Ok(decoded),
        Err(_) => Err(ReplyError::Malformed),
    }
}

/// How many parts the array or push has that comes first, and how many bytes say so.
fn array_length(buffer: &[u8], most: usize) -> Result<Option<(usize, usize)>, ReplyError> {
    let digits = buffer[1..].iter().take_while(|byte| byte.is_ascii_digit());
    let digits = digits.take(3).count();
    let text = std::str::from_utf8(&buffer[1..=digits]).unwrap_or_default();
    let count = text.parse().unwrap_or(0);
    let is_count = (1..=most).contains(&count) && buffer.get(1) != Some(&b'0');
    match buffer[1 + digits..] {
        [] if digits == 0 => Ok(None),
        _ if !is_count => Err(ReplyError::UnknownKind),
        [b'\r', b'\n', ..] => Ok(Some((count, digits + 3))),
        [] | [b'\r'] => Ok(None),
        _ => Err(ReplyError::UnknownKind),
    }
}

/// Where the text of a very long string begins and how long it is, if that is what comes first.
fn long_string(buffer: &[u8]) -> Result<Option<(usize, usize)>, ReplyError> {
    if buffer.first() != Some(&b'$') {
        return Ok(None);
    }
    let header = &buffer[..buffer.len().min(HEADER_BYTES_MAX)];
    let Some(end) = header.windows(2).position(|pair| pair == b"\r\n") else {
        return match header.len() {
            HEADER_BYTES_MAX => Err(ReplyError::Malformed),
            _ => Ok(None),
        };
    };
    let text = std::str::from_utf8(&header[1..end]).map_err(|_| ReplyError::Malformed)?;
    let bytes = match text.parse::<i64>().map_err(|_| ReplyError::Malformed)? {
        -1 => 0,
        count => usize::try_from(count).map_err(|_| ReplyError::LongString)?,
    };
    if bytes > SKIPPED_BYTES_MAX {
        return Err(ReplyError::LongString);
    }
    Ok((bytes > STRING_BYTES_MAX).then_some((end + 2, bytes)))
}

/// More than any value a node stores: Redis and Valkey end at 512 MiB unless told otherwise.
const SKIPPED_BYTES_MAX: usize = 1 << 31;
const LINE_BYTES_MAX: usize = 8 * 1024;
/// What LOCK.INFO tells has fifteen names and values.
const ARRAY_PARTS_MAX: usize = 64;
const PUSH_PARTS_MAX: usize = 9;
/// Of a push and the array in it. Where more keys have changed at once, all have for this client.
const PARTS_KEPT_MAX: usize = 64;
/// A `$`, a number of at most twenty characters, and the end of the line.
const HEADER_BYTES_MAX: usize = 23;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &str) -> OwnedFrame {
        let (frame, used) = first(text.as_bytes(), false).unwrap().unwrap();
        assert_eq!(used, text.len());
        frame
    }

    #[test]
    fn reads_each_kind() {
        assert_eq!(whole("$-1\r\n"), OwnedFrame::Null);
        assert_eq!(whole(":-1\r\n"), OwnedFrame::Integer(-1));
        assert_eq!(whole("+OK\r\n"), OwnedFrame::SimpleString(b"OK".to_vec()));
        assert_eq!(whole("-ERR x\r\n"), OwnedFrame::Error("ERR x".to_owned()));
        assert_eq!(
            whole("$4\r\na\r\nb\r\n"),
            OwnedFrame::BulkString(b"a\r\nb".to_vec())
        );
    }

    #[test]
    fn a_reply_cut_anywhere_is_incomplete_and_never_an_error() {
        for reply in [
            "$5\r\nab\r\nc\r\n",
            ":12\r\n",
            "$-1\r\n",
            "+OK\r\n",
            "-ERR x\r\n",
        ] {
            for cut in 0..reply.len() {
                assert_eq!(
                    first(&reply.as_bytes()[..cut], false),
                    Ok(None),
                    "{reply:?} at {cut}"
                );
            }
            assert!(first(reply.as_bytes(), false).unwrap().is_some());
        }
    }

    #[test]
    fn hostile_replies_are_refused_before_they_are_decoded() {
        let nested = "*1\r\n".repeat(100_000);
        let long = format!("+{}", "x".repeat(LINE_BYTES_MAX));
        for (reply, error) in [
            (nested.as_str(), ReplyError::UnknownKind),
            ("*2147483648\r\n", ReplyError::UnknownKind),
            (long.as_str(), ReplyError::LongLine),
            ("$-2\r\n", ReplyError::LongString),
            ("$2147483649\r\n", ReplyError::LongString),
            ("$9223372036854775807\r\n", ReplyError::LongString),
            ("$99999999999999999999\r\n", ReplyError::Malformed),
            ("$000000000000000000000001", ReplyError::Malformed),
            ("$\r\n", ReplyError::Malformed),
            ("$x\r\n", ReplyError::Malformed),
            (": 1\r\n", ReplyError::Malformed),
            (":99999999999999999999\r\n", ReplyError::Malformed),
            ("$1\r\nabc", ReplyError::Unterminated),
            ("HTTP/1.1 400 Bad Request\r\n", ReplyError::UnknownKind),
            ("\x15\x03\x01", ReplyError::UnknownKind),
            ("%1\r\n+a\r\n+b\r\n", ReplyError::UnknownKind),
            ("\r\n", ReplyError::UnknownKind),
        ] {
            assert_eq!(first(reply.as_bytes(), false), Err(error), "{:.20}", reply);
        }
    }

    fn read(text: &str) -> Result<Vec<OwnedFrame>, ReplyError> {
        let reply = |incoming| match incoming {
            Incoming::Reply(frame) => frame,
            Incoming::Push(_) => panic!("a push"),
        };
        let mut replies = Replies::with_capacity(16);
        Ok(read_by(&mut replies, text)?
            .into_iter()
            .map(reply)
            .collect())
    }

    fn read_by(replies: &mut Replies, text: &str) -> Result<Vec<Incoming>, ReplyError> {
        let mut taken = Vec::new();
        for byte in text.as_bytes() {
            replies.append(&[*byte]);
            while let Some(reply) = replies.next()? {
                assert!(replies.is_empty());
                taken.push(reply);
            }
        }
        assert!(replies.is_empty(), "{text:?}");
        Ok(taken)
    }

    #[test]
    fn a_push_is_no_reply_and_what_is_between_pushes_is_none() {
        let bulk = |text: &str| OwnedFrame::BulkString(text.as_bytes().to_vec());
        let push = |words: &[&str]| Incoming::Push(words.iter().map(|word| bulk(word)).collect());
        let mut replies = Replies::with_capacity(16);
        replies.expect_resp3();
        let free = ">3\r\n$9\r\nlock-free\r\n$1\r\na\r\n$1\r\nt\r\n";
        let hello = "%2\r\n$5\r\nproto\r\n:3\r\n$7\r\nmodules\r\n*1\r\n%1\r\n+a\r\n$1\r\n%\r\n";
        let text = format!("{free}$-1\r\n{hello}_\r\n{free}*2\r\n:1\r\n_\r\n=7\r\ntxt:a\r\n\r\n");
        let reply = |frame| Incoming::Reply(frame);
        assert_eq!(
            read_by(&mut replies, &text),
            Ok(vec![
                push(&["lock-free", "a", "t"]),
                reply(OwnedFrame::Null),
                reply(OwnedFrame::Array(vec![
                    bulk("proto"),
                    OwnedFrame::Integer(3),
                    bulk("modules"),
                    OwnedFrame::Null
                ])),
                reply(OwnedFrame::Null),
                push(&["lock-free", "a", "t"]),
                reply(OwnedFrame::Array(vec![
                    OwnedFrame::Integer(1),
                    OwnedFrame::Null
                ])),
                reply(bulk("a\r\n")),
            ])
        );
        // Nobody has asked for RESP3.
        for text in [free, hello, "_\r\n", "=5\r\ntxt:a\r\n"] {
            assert_eq!(read(text), Err(ReplyError::UnknownKind), "{text}");
        }
    }

    #[test]
    fn short_arrays_are_put_together_and_others_are_refused() {
        let integer = OwnedFrame::Integer;
        assert_eq!(
            read("*3\r\n:1\r\n:41\r\n$2\r\n\r\n\r\n:5\r\n*2\r\n:0\r\n$-1\r\n"),
            Ok(vec![
                OwnedFrame::Array(vec![
                    integer(1),
                    integer(41),
                    OwnedFrame::BulkString(b"\r\n".to_vec())
                ]),
                integer(5),
                OwnedFrame::Array(vec![integer(0), OwnedFrame::Null]),
            ])
        );
        for other in [
            "*0\r\n",
            "*-1\r\n",
            "*65\r\n",
            "*100\r\n",
            "*1000\r\n",
            "*01\r\n",
            "*1\r\n*1\r\n:1\r\n",
            "*1\n",
        ] {
            assert_eq!(read(other), Err(ReplyError::UnknownKind), "{other:?}");
        }
    }

    #[test]
    fn of_an_array_in_a_push_the_beginning_is_kept_however_long_it_is() {
        let bulk = |text: &str| OwnedFrame::BulkString(text.as_bytes().to_vec());
        let mut replies = Replies::with_capacity(16);
        replies.expect_resp3();
        let begin = ">2\r\n$10\r\ninvalidate\r\n";
        let all = |keys: &str| format!("{begin}{keys}");
        let many = all(&format!("*100\r\n{}", "$1\r\na\r\n".repeat(100)));
        let text = [
            all("*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
            all("_\r\n"),
            all("*0\r\n"),
            many,
        ];
        let mut kept = vec![bulk("invalidate")];
        kept.resize(PARTS_KEPT_MAX, bulk("a"));
        kept.push(OwnedFrame::Null);
        assert_eq!(
            read_by(&mut replies, &text.concat()),
            Ok(vec![
                Incoming::Push(vec![bulk("invalidate"), bulk("a"), bulk("b")]),
                Incoming::Push(vec![bulk("invalidate"), OwnedFrame::Null]),
                Incoming::Push(vec![bulk("invalidate")]),
                Incoming::Push(kept),
            ])
        );
        replies.append(all("*1\r\n*1\r\n").as_bytes());
        assert_eq!(replies.next(), Err(ReplyError::UnknownKind));
    }

    #[test]
    fn a_large_value_is_cut_and_does_not_hide_what_follows() {
        let bytes = 5 * 1024 * 1024;
        let mut stream = format!("${bytes}\r\n").into_bytes();
        stream.resize(stream.len() + bytes, b'x');
        stream.extend_from_slice(b"\r\n:7\r\n$-1\r\n");
        let mut replies = Replies::with_capacity(16);
        let mut taken = Vec::new();
        let mut largest = 0;
        for chunk in stream.chunks(10_000) {
            replies.append(chunk);
            while let Some(reply) = replies.next().unwrap() {
                taken.push(reply);
            }
            largest = largest.max(replies.buffer.len());
        }
        assert!(
            matches!(&taken[0], Incoming::Reply(OwnedFrame::BulkString(text)) if text.len() == STRING_BYTES_MAX)
        );
        let rest = [OwnedFrame::Integer(7), OwnedFrame::Null].map(Incoming::Reply);
        assert_eq!(taken[1..], rest);
        assert!(
            replies.is_empty() && largest <= STRING_BYTES_MAX,
            "{largest}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(
            prop_oneof![Just(b'*'), Just(b'$'), Just(b'>'), Just(b'%'), Just(b'='), Just(b'\r'), Just(b'\n'), Just(b':'), Just(b'-'),
                        b'0'..=b'9', any::<u8>()], 0..200)) {
            let _decoded = first(&bytes, false);
            let mut replies = Replies::with_capacity(16);
            replies.expect_resp3();
            replies.append(&bytes);
            while let Ok(Some(_)) = replies.next() {}
        }
    }
}
