//! What of RESP3 a node may answer once it was asked for: a null, a string with its format, and the maps of HELLO and of
//! LOCK.INFO.
//!
//! Invariant: nothing here is taken apart further than the client needs, and nothing has a depth: what is nested is
//! counted. A value is taken once its last byte is there.

use redis_protocol::resp2::types::OwnedFrame;

use super::reply_error::{ReplyError, STRING_BYTES_MAX};

/// Decodes `_`, or a string with its format (INFO), which is taken off.
pub(super) fn scalar(buffer: &[u8]) -> Result<Option<(OwnedFrame, usize)>, ReplyError> {
    let Some((number, begin)) = header(buffer)? else {
        return Ok(None);
    };
    if buffer.first() == Some(&b'_') {
        return match number {
            None => Ok(Some((OwnedFrame::Null, begin))),
            Some(_) => Err(ReplyError::Malformed),
        };
    }
    let bytes = number.ok_or(ReplyError::Malformed)?;
    if bytes > STRING_BYTES_MAX {
        return Err(ReplyError::LongString);
    }
    let end = begin + bytes;
    let Some(text) = buffer.get(begin..end + 2) else {
        return Ok(None);
    };
    if !text.ends_with(b"\r\n") {
        return Err(ReplyError::Unterminated);
    }
    let text = text.get(FORMAT_BYTES..bytes).ok_or(ReplyError::Malformed)?;
    Ok(Some((OwnedFrame::BulkString(text.to_vec()), end + 2)))
}

/// The keys and values of a map, one behind the other, with the number of bytes it takes. What is no string, no number and
/// no null is left out: a null is in its place.
pub(super) fn map(buffer: &[u8]) -> Result<Option<(OwnedFrame, usize)>, ReplyError> {
    let Some(bytes) = value_bytes(buffer)? else {
        return Ok(None);
    };
    let malformed = ReplyError::Malformed;
    let (pairs, mut at) = header(buffer)?.ok_or(malformed)?;
    let mut parts = Vec::new();
    for _ in 0..2 * pairs.ok_or(malformed)? {
        let value = &buffer[at..bytes];
        let length = value_bytes(value)?.ok_or(malformed)?;
        let begin = header(value)?.ok_or(malformed)?.1;
        let line = value.get(1..begin - 2).unwrap_or_default();
        parts.push(match value[0] {
            b'$' => OwnedFrame::BulkString(value[begin..length - 2].to_vec()),
            b'+' => OwnedFrame::BulkString(line.to_vec()),
            b':' => {
                let number = std::str::from_utf8(line)
                    .ok()
                    .and_then(|it| it.parse().ok());
                OwnedFrame::Integer(number.ok_or(malformed)?)
            }
            _ => OwnedFrame::Null,
        });
        at += length;
    }
    Ok(Some((OwnedFrame::Array(parts), bytes)))
}

/// How many values an array has that comes first, and how many bytes say so.
pub(super) fn array_header(buffer: &[u8]) -> Result<Option<(usize, usize)>, ReplyError> {
    let Some((count, bytes)) = header(buffer)? else {
        return Ok(None);
    };
    let count = count.ok_or(ReplyError::Malformed)?;
    match count <= ARRAY_VALUES_MAX {
        true => Ok(Some((count, bytes))),
        false => Err(ReplyError::LongString),
    }
}

/// How many bytes the value takes that comes first, with all that is in it.
fn value_bytes(buffer: &[u8]) -> Result<Option<usize>, ReplyError> {
    let (mut at, mut left) = (0, 1_usize);
    while left > 0 {
        let rest = &buffer[at..];
        let Some((number, begin)) = header(rest)? else {
            return bounded(buffer.len()).map(|_| None);
        };
        let number = || number.ok_or(ReplyError::Malformed);
        at += begin;
        left -= 1;
        match rest[0] {
            b'*' | b'~' => left += bounded(number()?)?,
            b'%' => left += 2 * bounded(number()?)?,
            b'$' | b'=' => at += bounded(number()?)? + 2,
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
            _ => return Err(ReplyError::UnknownKind),
        }
        bounded(left)?;
        if bounded(at)? > buffer.len() {
            return Ok(None);
        }
    }
    Ok(Some(at))
}

/// The number in the first line, if it is one, and where the next line begins.
#[allow(clippy::type_complexity, reason = "two numbers")]
fn header(buffer: &[u8]) -> Result<Option<(Option<usize>, usize)>, ReplyError> {
    let line = &buffer[..buffer.len().min(LINE_BYTES_MAX)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return match line.len() {
            LINE_BYTES_MAX => Err(ReplyError::LongLine),
            _ => Ok(None),
        };
    };
    let text = std::str::from_utf8(line.get(1..end).unwrap_or_default());
    let number = text.ok().and_then(|text| text.parse().ok());
    Ok(Some((number, end + 2)))
}

fn bounded(number: usize) -> Result<usize, ReplyError> {
    match number <= MAP_BYTES_MAX {
        true => Ok(number),
        false => Err(ReplyError::LongString),
    }
}

/// `txt:`
const FORMAT_BYTES: usize = 4;
const LINE_BYTES_MAX: usize = 8 * 1024;
/// The reply to HELLO has some hundred bytes, and some hundred more for each module that a server has loaded.
const MAP_BYTES_MAX: usize = 64 * 1024;
/// The names of keys in one message: all keys that a node has may change at once.
const ARRAY_VALUES_MAX: usize = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cut_anywhere_is_incomplete_and_never_an_error() {
        let map = "%2\r\n$1\r\na\r\n*2\r\n:1\r\n%1\r\n+x\r\n_\r\n$1\r\nb\r\n#t\r\n";
        let bulk = |text: &str| OwnedFrame::BulkString(text.as_bytes().to_vec());
        let null = || OwnedFrame::Null;
        let parts = OwnedFrame::Array(vec![bulk("a"), null(), bulk("b"), null()]);
        assert_eq!(super::map(map.as_bytes()), Ok(Some((parts, map.len()))));
        for cut in 0..map.len() {
            assert_eq!(super::map(&map.as_bytes()[..cut]), Ok(None), "{cut}");
        }
        let numbers = "%1\r\n+n\r\n:-7\r\n";
        let parts = OwnedFrame::Array(vec![bulk("n"), OwnedFrame::Integer(-7)]);
        assert_eq!(
            super::map(numbers.as_bytes()),
            Ok(Some((parts, numbers.len())))
        );
        let text = "=6\r\ntxt:\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(scalar(&text.as_bytes()[..cut]), Ok(None), "{cut}");
        }
        let empty = OwnedFrame::BulkString(b"\r\n".to_vec());
        assert_eq!(scalar(text.as_bytes()), Ok(Some((empty, text.len()))));
    }

    #[test]
    fn hostile_values_are_refused() {
        let deep = "%1\r\n".repeat(100_000);
        assert_eq!(map(deep.as_bytes()), Err(ReplyError::LongString));
        for (text, error) in [
            ("%99999999\r\n", ReplyError::LongString),
            ("%99999999999999999999999999\r\n", ReplyError::Malformed),
            ("%1\r\n$70000\r\n", ReplyError::LongString),
            ("%1\r\n>1\r\n", ReplyError::UnknownKind),
            ("%x\r\n", ReplyError::Malformed),
            ("%1\r\n+a\r\n:x\r\n", ReplyError::Malformed),
        ] {
            assert_eq!(map(text.as_bytes()), Err(error), "{text}");
        }
        for (text, error) in [
            ("_1\r\n", ReplyError::Malformed),
            ("=3\r\ntxt\r\n", ReplyError::Malformed),
            ("=5\r\ntxt:abc", ReplyError::Unterminated),
            ("=300000\r\n", ReplyError::LongString),
        ] {
            assert_eq!(scalar(text.as_bytes()), Err(error), "{text}");
        }
    }
}
