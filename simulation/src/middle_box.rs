//! A box between a node and its clients that answers in the node's place: errors, or bytes that are no answer.
//!
//! Invariant: every request still has one answer, unless the bytes are garbage, which ends the connection. A push answers none,
//! and is lost where answers are replaced.

use crate::random::Random;

/// What a box does to the answers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meddling {
    /// Requests do not reach the node.
    Refuses,
    /// The node carries requests out, and its answers are replaced.
    Lies,
    /// What the node answers is replaced by bytes that mean nothing.
    Garbles,
}

/// So many errors.
pub fn errors(count: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.push(b'-');
        bytes.extend_from_slice(random.pick(ERRORS).as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Bytes that are no answer.
pub fn garbage(random: &mut Random) -> Vec<u8> {
    let garbage: &[&[u8]] = &[
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$-7\r\n",
        b"*99999999999\r\n",
        b":12x\r\n",
        b"\0\0\0\0",
    ];
    random.pick(garbage).to_vec()
}

/// How many whole requests or replies these bytes hold, if nothing is left of them.
pub fn count(mut bytes: &[u8]) -> Option<usize> {
    let mut values = 0;
    while let Some(kind) = bytes.first() {
        values += usize::from(*kind != b'>');
        bytes = skip(bytes)?;
    }
    Some(values)
}

/// What is left behind the first value, if that is whole.
pub fn skip(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let number = || std::str::from_utf8(&line[1..]).ok()?.parse::<i64>().ok();
    match line.first()? {
        b'+' | b'-' | b':' | b'_' => Some(rest),
        b'$' | b'=' => match usize::try_from(number()?) {
            Ok(length) => rest.get(length + 2..),
            Err(_) => Some(rest),
        },
        b'*' | b'>' => (0..number()?.max(0)).try_fold(rest, |rest, _| skip(rest)),
        b'%' => (0..number()?.max(0) * 2).try_fold(rest, |rest, _| skip(rest)),
        _ => None,
    }
}

/// None says what a key is: that would be a vote, and what a box votes is no fault that a client can notice.
const ERRORS: &[&str] = &[
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Errors writing to the AOF file: No space left on device",
    "LOADING Redis is loading the dataset in memory",
    "NOAUTH Authentication required.",
    "NOPERM this user has no permissions to run this command",
    "DENIED Redis is running in protected mode",
    "READONLY You can't write against a read only replica.",
    "RESTARTDELAY 300 ab this node is in its restart delay",
    "NOSCRIPT No matching script. Please use EVAL.",
    "CLUSTERDOWN The cluster is down",
    "ERR max number of clients reached",
    "ERR syntax error",
];

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn whole_values_are_counted() {
        assert_eq!(count(b""), Some(0));
        assert_eq!(count(b"+OK\r\n$-1\r\n$3\r\na\r\n\r\n:-1\r\n"), Some(4));
        assert_eq!(count(b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n-ERR x\r\n"), Some(2));
        assert_eq!(count(b">1\r\n$1\r\na\r\n_\r\n%1\r\n+a\r\n:1\r\n"), Some(2));
        assert_eq!(count(b"$3\r\nab"), None);
        assert_eq!(count(b"*2\r\n:1\r\n"), None);
    }
}
