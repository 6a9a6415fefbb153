//! Replies out of a server's bytes.
//!
//! Invariant: whatever a server sends takes bounded memory and stack, and what is no reply ends the connection.

use quorlock_client_rules::inspection::node_reply::NodeReply;

/// What is no reply, or a longer one than any that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The first reply in these bytes, and how many of them it takes. None while more is to come.
pub(super) fn first(bytes: &[u8]) -> Result<Option<(NodeReply, usize)>, Malformed> {
    match part(bytes, 0) {
        Ok(None) if bytes.len() >= REPLY_BYTES_MAX => Err(Malformed),
        read => read,
    }
}

fn part(bytes: &[u8], depth: usize) -> Result<Option<(NodeReply, usize)>, Malformed> {
    let beginning = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = beginning.windows(2).position(|pair| pair == b"\r\n") else {
        return match beginning.len() {
            LINE_BYTES_MAX => Err(Malformed),
            _ => Ok(None),
        };
    };
    let (kind, rest) = bytes[..end].split_first().ok_or(Malformed)?;
    let number = || {
        let text = std::str::from_utf8(rest).map_err(|_| Malformed)?;
        text.parse::<i64>().map_err(|_| Malformed)
    };
    let length = || usize::try_from(number()?).map_err(|_| Malformed);
    let after = end + 2;
    let reply = match kind {
        b'+' => NodeReply::Text(rest.to_vec()),
        b'-' => NodeReply::Error(String::from_utf8_lossy(rest).into_owned()),
        b':' => NodeReply::Integer(number()?),
        b'$' | b'*' if number()? == -1 => NodeReply::Nil,
        b'$' => {
            let length = length()?;
            if length > REPLY_BYTES_MAX {
                return Err(Malformed);
            }
            let whole = after + length + 2;
            return match bytes.get(after..whole) {
                None => Ok(None),
                Some(text) => match text.strip_suffix(b"\r\n") {
                    Some(text) => Ok(Some((NodeReply::Text(text.to_vec()), whole))),
                    None => Err(Malformed),
                },
            };
        }
        b'*' if depth < DEPTH_MAX => return array(bytes, after, length()?, depth),
        _ => return Err(Malformed),
    };
    Ok(Some((reply, after)))
}

fn array(
    bytes: &[u8],
    mut at: usize,
    count: usize,
    depth: usize,
) -> Result<Option<(NodeReply, usize)>, Malformed> {
    let mut parts = Vec::new();
    for _ in 0..count {
        let Some((next, used)) = part(&bytes[at..], depth + 1)? else {
            return Ok(None);
        };
        parts.push(next);
        at += used;
    }
    Ok(Some((NodeReply::Array(parts), at)))
}

/// A page of names that are longer than those of locks.
const REPLY_BYTES_MAX: usize = 64 << 20;
const LINE_BYTES_MAX: usize = 64 << 10;
/// CLUSTER SLOTS tells of facts about servers of ranges.
const DEPTH_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn replies_of_all_kinds_are_read_once_their_last_byte_is_there() {
        let text = |text: &str| NodeReply::Text(text.as_bytes().to_vec());
        for (bytes, reply) in [
            ("+OK\r\n", text("OK")),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("$-1\r\n", NodeReply::Nil),
            ("*-1\r\n", NodeReply::Nil),
            (":-2\r\n", NodeReply::Integer(-2)),
            ("-ERR no\r\n", NodeReply::Error("ERR no".to_owned())),
            (
                "*2\r\n$1\r\n0\r\n*1\r\n:1\r\n",
                NodeReply::Array(vec![
                    text("0"),
                    NodeReply::Array(vec![NodeReply::Integer(1)]),
                ]),
            ),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(
                    first(&bytes.as_bytes()[..cut]),
                    Ok(None),
                    "{bytes:?} at {cut}"
                );
            }
            let followed = format!("{bytes}:7\r\n");
            let whole = Some((reply, bytes.len()));
            assert_eq!(first(followed.as_bytes()), Ok(whole));
        }
    }

    #[test]
    fn what_is_no_reply_or_has_no_bounds_is_refused() {
        let nested = "*1\r\n".repeat(1_000);
        let line = "+".repeat(LINE_BYTES_MAX);
        for bytes in [
            "\r\n",
            "HTTP/1.1 400 Bad Request\r\n",
            "$x\r\n",
            "$-7\r\n",
            "*-7\r\n",
            "$1\r\nabc",
            "$99999999999\r\n",
            &nested,
            &line,
        ] {
            assert_eq!(first(bytes.as_bytes()), Err(Malformed), "{bytes:.20}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in "[*$+:\\-\r\n0-9a]{0,60}") {
            let _is_read = first(bytes.as_bytes());
        }
    }
}
