//! One reply out of a node's byte stream.
//!
//! Invariant: whatever a node sends, decoding takes bounded memory and stack. The decoder, which recurses, never sees an
//! array: the short ones without arrays in them that this client asks for are put together here, and others are refused.
//! Of a very long string only the beginning is kept. RESP3 is not spoken: this client never asks for it.

use bytes::{Buf as _, BytesMut};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use thiserror::Error;

/// Why a node's bytes are no reply. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ReplyError {
    #[error("a reply begins with a byte that none of the expected kinds begins with")]
    UnknownKind,
    #[error("a length, a number or a text in a reply is malformed")]
    Malformed,
    #[error("a line of a reply is too long")]
    LongLine,
    #[error("a string of a reply is too long")]
    LongString,
    #[error("a string of a reply does not end where it should")]
    Unterminated,
}

/// A node's bytes, out of which replies are taken one after the other.
#[derive(Debug)]
pub(crate) struct Replies {
    buffer: BytesMut,
    /// What is still to come of a string whose beginning has been taken.
    to_skip: usize,
    /// An array whose end is still to come.
    array: Option<Parts>,
}

#[derive(Debug)]
struct Parts {
    count: usize,
    taken: Vec<OwnedFrame>,
}

impl Replies {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(bytes),
            to_skip: 0,
            array: None,
        }
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

    /// Takes the next reply, if it is there.
    pub(crate) fn next(&mut self) -> Result<Option<OwnedFrame>, ReplyError> {
        loop {
            self.skip(0);
            if self.to_skip > 0 {
                return Ok(None);
            }
            if self.array.is_none() && self.buffer.first() == Some(&b'*') {
                let Some((count, bytes)) = array_length(&self.buffer)? else {
                    return Ok(None);
                };
                let taken = Vec::with_capacity(count);
                self.array = Some(Parts { count, taken });
                self.skip(bytes);
            }
            let Some((frame, bytes)) = first(&self.buffer)? else {
                return Ok(None);
            };
            self.skip(bytes);
            let Some(array) = &mut self.array else {
                return Ok(Some(frame));
            };
            array.taken.push(frame);
            if array.taken.len() == array.count {
                let array = self.array.take();
                return Ok(array.map(|array| OwnedFrame::Array(array.taken)));
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.to_skip == 0 && self.array.is_none()
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
fn first(buffer: &[u8]) -> Result<Option<(OwnedFrame, usize)>, ReplyError> {
    let Some(kind) = buffer.first() else {
        return Ok(None);
    };
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

/// How many parts the array has that comes first, and how many bytes say so.
fn array_length(buffer: &[u8]) -> Result<Option<(usize, usize)>, ReplyError> {
    match buffer {
        [b'*', digit @ b'1'..=b'3', b'\r', b'\n', ..] => Ok(Some((usize::from(digit - b'0'), 4))),
        [b'*'] | [b'*', b'1'..=b'3'] | [b'*', b'1'..=b'3', b'\r'] => Ok(None),
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

/// `INFO` has some ten thousand bytes, and no token is longer than a thousand; but where a lock's
/// name is that of somebody's large value, `SET ... GET` answers with all of it.
const STRING_BYTES_MAX: usize = 256 * 1024;
/// More than any value a node stores: Redis and Valkey end at 512 MiB unless told otherwise.
const SKIPPED_BYTES_MAX: usize = 1 << 31;
const LINE_BYTES_MAX: usize = 8 * 1024;
/// A `$`, a number of at most twenty characters, and the end of the line.
const HEADER_BYTES_MAX: usize = 23;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &str) -> OwnedFrame {
        let (frame, used) = first(text.as_bytes()).unwrap().unwrap();
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
                    first(&reply.as_bytes()[..cut]),
                    Ok(None),
                    "{reply:?} at {cut}"
                );
            }
            assert!(first(reply.as_bytes()).unwrap().is_some());
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
            assert_eq!(first(reply.as_bytes()), Err(error), "{:.20}", reply);
        }
    }

    fn read(text: &str) -> Result<Vec<OwnedFrame>, ReplyError> {
        let mut replies = Replies::with_capacity(16);
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
            "*4\r\n",
            "*12\r\n",
            "*1\r\n*1\r\n:1\r\n",
            "*1\n",
        ] {
            assert_eq!(read(other), Err(ReplyError::UnknownKind), "{other:?}");
        }
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
            matches!(&taken[0], OwnedFrame::BulkString(text) if text.len() == STRING_BYTES_MAX)
        );
        assert_eq!(taken[1..], [OwnedFrame::Integer(7), OwnedFrame::Null]);
        assert!(
            replies.is_empty() && largest <= STRING_BYTES_MAX,
            "{largest}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(
            prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b':'), Just(b'-'),
                        b'0'..=b'9', any::<u8>()], 0..200)) {
            let _decoded = first(&bytes);
        }
    }
}
