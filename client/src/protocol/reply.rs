//! One reply out of a node's byte stream, decoded behind a guard of depth and size.
//!
//! Invariant: whatever a node sends, decoding takes bounded memory and stack: the guard walks the
//! bytes iteratively and refuses what is too long, too deep or malformed before the decoder, which
//! recurses and trusts lengths, sees it. RESP3 is not spoken: this client never asks for it.

use bytes::{Buf as _, BytesMut};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use thiserror::Error;

/// Why a node's bytes are no reply. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ReplyError {
    #[error("a reply begins with an unknown byte")]
    UnknownKind,
    #[error("a length or number in a reply is malformed")]
    BadNumber,
    #[error("a line of a reply is too long")]
    LongLine,
    #[error("a string of a reply is too long")]
    LongString,
    #[error("a reply has too many elements")]
    ManyElements,
    #[error("a reply is nested too deeply")]
    Deep,
    #[error("a string of a reply does not end where it should")]
    Unterminated,
}

/// A node's bytes, out of which replies are taken one after the other.
#[derive(Debug)]
pub(crate) struct Replies {
    buffer: BytesMut,
    /// What is still to come of a string whose beginning has been taken.
    to_skip: usize,
}

impl Replies {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(bytes),
            to_skip: 0,
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
        self.skip(0);
        if self.to_skip > 0 {
            return Ok(None);
        }
        let Some((frame, bytes)) = first(&self.buffer)? else {
            return Ok(None);
        };
        self.skip(bytes);
        Ok(Some(frame))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.to_skip == 0
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
    if let Some((at, bytes)) = long_string(buffer)? {
        let beginning = buffer.get(at..at + STRING_BYTES_MAX);
        let frame = beginning.map(|text| OwnedFrame::BulkString(text.to_vec()));
        return Ok(frame.map(|frame| (frame, at + bytes + 2)));
    }
    let Some(bytes) = length(buffer)? else {
        return Ok(None);
    };
    match decode(&buffer[..bytes]) {
        Ok(Some((frame, used))) if used == bytes => Ok(Some((frame, bytes))),
        // The decoder is stricter than the guard about what it calls a number or a string.
        _ => Err(ReplyError::BadNumber),
    }
}

/// Where the text of a very long string begins and how long it is, if that is what comes first.
fn long_string(buffer: &[u8]) -> Result<Option<(usize, usize)>, ReplyError> {
    if buffer.first() != Some(&b'$') {
        return Ok(None);
    }
    let Some((line, at)) = line(buffer, 0)? else {
        return Ok(None);
    };
    let bytes = match number(&line[1..])? {
        -1 => 0,
        count => size(count, SKIPPED_BYTES_MAX).ok_or(ReplyError::LongString)?,
    };
    Ok((bytes > STRING_BYTES_MAX).then_some((at, bytes)))
}

/// The length of the first reply in `buffer`, or nothing while it is incomplete.
fn length(buffer: &[u8]) -> Result<Option<usize>, ReplyError> {
    let mut at = 0;
    let mut elements = 0;
    // Elements still to come at each level of nesting.
    let mut open = [0_usize; DEPTH_MAX];
    let mut depth = 0;
    loop {
        let Some((line, after)) = line(buffer, at)? else {
            return Ok(None);
        };
        let (kind, rest) = line.split_first().ok_or(ReplyError::UnknownKind)?;
        at = after;
        match kind {
            b'+' | b'-' => {}
            b':' => {
                number(rest)?;
            }
            b'$' => match number(rest)? {
                -1 => {}
                count => {
                    let bytes = size(count, STRING_BYTES_MAX).ok_or(ReplyError::LongString)?;
                    if buffer.len() < at + bytes + 2 {
                        return Ok(None);
                    }
                    if &buffer[at + bytes..at + bytes + 2] != b"\r\n" {
                        return Err(ReplyError::Unterminated);
                    }
                    at += bytes + 2;
                }
            },
            b'*' => match number(rest)? {
                -1 | 0 => {}
                count => {
                    let count = size(count, ELEMENTS_MAX).ok_or(ReplyError::ManyElements)?;
                    elements += count;
                    if elements > ELEMENTS_MAX {
                        return Err(ReplyError::ManyElements);
                    }
                    *open.get_mut(depth).ok_or(ReplyError::Deep)? = count;
                    depth += 1;
                    continue;
                }
            },
            _ => return Err(ReplyError::UnknownKind),
        }
        while depth > 0 {
            open[depth - 1] -= 1;
            if open[depth - 1] > 0 {
                break;
            }
            depth -= 1;
        }
        if depth == 0 {
            return Ok(Some(at));
        }
    }
}

/// The line that begins at `at`, without its end, and where the next one begins.
fn line(buffer: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, ReplyError> {
    let rest = &buffer[at..];
    let searched = &rest[..rest.len().min(LINE_BYTES_MAX)];
    if let Some(&kind) = rest.first()
        && !b"+-:$*".contains(&kind)
    {
        return Err(ReplyError::UnknownKind);
    }
    match searched.windows(2).position(|pair| pair == b"\r\n") {
        Some(end) => Ok(Some((&rest[..end], at + end + 2))),
        None if rest.len() >= LINE_BYTES_MAX => Err(ReplyError::LongLine),
        None => Ok(None),
    }
}

fn number(text: &[u8]) -> Result<i64, ReplyError> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ReplyError::BadNumber);
    }
    let text = std::str::from_utf8(text).map_err(|_| ReplyError::BadNumber)?;
    text.parse().map_err(|_| ReplyError::BadNumber)
}

fn size(count: i64, most: usize) -> Option<usize> {
    usize::try_from(count).ok().filter(|count| *count <= most)
}

/// `INFO` has some ten thousand bytes, and no token is longer than a thousand; but where a lock's
/// name is that of somebody's large value, `SET ... GET` answers with all of it.
const STRING_BYTES_MAX: usize = 256 * 1024;
/// More than any value a node stores: Redis and Valkey end at 512 MiB unless told otherwise.
const SKIPPED_BYTES_MAX: usize = 1 << 31;
const LINE_BYTES_MAX: usize = 8 * 1024;
const ELEMENTS_MAX: usize = 1024;
const DEPTH_MAX: usize = 4;

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
        assert_eq!(whole("*0\r\n"), OwnedFrame::Array(vec![]));
        let one = || OwnedFrame::Integer(1);
        assert_eq!(
            whole("*2\r\n*1\r\n:1\r\n:1\r\n"),
            OwnedFrame::Array(vec![OwnedFrame::Array(vec![one()]), one()])
        );
    }

    #[test]
    fn a_reply_cut_anywhere_is_incomplete_and_never_an_error() {
        let reply = b"*3\r\n$3\r\nabc\r\n*2\r\n:12\r\n$-1\r\n+OK\r\n";
        for cut in 0..reply.len() {
            assert_eq!(first(&reply[..cut]), Ok(None), "cut at {cut}");
        }
        assert!(first(reply).unwrap().is_some());
    }

    #[test]
    fn hostile_replies_are_refused_before_they_are_decoded() {
        let nested = "*1\r\n".repeat(100_000);
        let wide = format!("*{}\r\n", ELEMENTS_MAX + 1);
        let sum = "*600\r\n".repeat(3);
        let long = format!("+{}", "x".repeat(LINE_BYTES_MAX));
        for (reply, error) in [
            (nested.as_str(), ReplyError::Deep),
            (wide.as_str(), ReplyError::ManyElements),
            (sum.as_str(), ReplyError::ManyElements),
            (long.as_str(), ReplyError::LongLine),
            ("*2147483648\r\n", ReplyError::ManyElements),
            ("*-2\r\n", ReplyError::ManyElements),
            ("$-2\r\n", ReplyError::LongString),
            ("$9223372036854775807\r\n", ReplyError::LongString),
            ("$99999999999999999999\r\n", ReplyError::BadNumber),
            ("$+1\r\n", ReplyError::BadNumber),
            ("$\r\n", ReplyError::BadNumber),
            (": 1\r\n", ReplyError::BadNumber),
            ("$1\r\nabc", ReplyError::Unterminated),
            ("HTTP/1.1 400 Bad Request\r\n", ReplyError::UnknownKind),
            ("\x15\x03\x01", ReplyError::UnknownKind),
            ("%1\r\n+a\r\n+b\r\n", ReplyError::UnknownKind),
            ("\r\n", ReplyError::UnknownKind),
        ] {
            assert_eq!(first(reply.as_bytes()), Err(error), "{:.20}", reply);
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
