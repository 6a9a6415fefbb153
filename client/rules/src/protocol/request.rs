//! What this client says to a node: RESP arrays, and the two scripts.
//!
//! Invariant: every request gets exactly one reply. A node that lacks an option or a script gets
//! the plain form; nothing here decides that, the connection does.

use std::io::Write as _;

/// Frees the lock if, and only if, it is held under the token.
pub const RELEASE_SCRIPT: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then \
return redis.call('DEL', KEYS[1]) else return 0 end";

/// Extends the lock if it is held under the token, and never shortens it: 1 extended, 0 not
/// there, -1 somebody else's. A lock without a deadline (-1 from PTTL) is left alone.
pub const EXTEND_SCRIPT: &[u8] = b"local v = redis.call('GET', KEYS[1]) \
if not v then return 0 end if v ~= ARGV[1] then return -1 end \
local t = redis.call('PTTL', KEYS[1]) \
if t >= 0 and t < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 1";

/// The name a node gave to a script it has loaded.
pub(crate) type ScriptHash = [u8; 40];

/// Writes a request of these arguments.
pub(crate) fn write(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    header(out, b'*', arguments.len());
    for argument in arguments {
        header(out, b'$', argument.len());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// Takes the lock if it is free. With `tells_holder` the reply is nil, or the holder's token.
pub(crate) fn take(out: &mut Vec<u8>, name: &[u8], token: &[u8], ttl: &[u8], tells_holder: bool) {
    let arguments: [&[u8]; 7] = [b"SET", name, token, b"NX", b"PX", ttl, b"GET"];
    write(
        out,
        if tells_holder {
            &arguments
        } else {
            &arguments[..6]
        },
    );
}

/// Takes the lock if it is free. The reply tells the fence of the name, and whether the guess was taken.
pub(crate) fn take_fenced(
    out: &mut Vec<u8>,
    name: &[u8],
    token: &[u8],
    ttl: &[u8],
    guess: Option<u64>,
) {
    let arguments: [&[u8]; 4] = [b"LOCK.ACQUIRE", name, token, ttl];
    match guess {
        None => write(out, &arguments),
        Some(guess) => {
            let guess = guess.to_string();
            let more: [&[u8]; 2] = [b"GUESS", guess.as_bytes()];
            write(out, &[&arguments[..], &more].concat());
        }
    }
}

/// Takes a fence for a lock that the node has granted.
pub(crate) fn fence(out: &mut Vec<u8>, name: &[u8], token: &[u8], fence: u64) {
    let fence = fence.to_string();
    write(out, &[b"LOCK.FENCE", name, token, fence.as_bytes()]);
}

/// Runs a script on one key, by its hash where the node has it.
pub(crate) fn script(
    out: &mut Vec<u8>,
    hash: Option<&ScriptHash>,
    body: &[u8],
    name: &[u8],
    arguments: &[&[u8]],
) {
    header(out, b'*', 4 + arguments.len());
    let (command, script): (&[u8], &[u8]) = match hash {
        Some(hash) => (b"EVALSHA", hash),
        None => (b"EVAL", body),
    };
    for argument in [command, script, b"1", name].iter().chain(arguments) {
        header(out, b'$', argument.len());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    write!(out, "{}{number}\r\n", char::from(kind)).expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8_lossy(&out).replace("\r\n", " ")
    }

    #[test]
    fn requests_are_arrays_of_strings() {
        assert_eq!(
            text(|out| take(out, b"a", b"t1", b"30000", true)),
            "*7 $3 SET $1 a $2 t1 $2 NX $2 PX $5 30000 $3 GET "
        );
        assert!(text(|out| take(out, b"a", b"t1", b"30000", false)).starts_with("*6 "));
        assert_eq!(
            text(|out| take_fenced(out, b"a", b"t1", b"30000", Some(7))),
            "*6 $12 LOCK.ACQUIRE $1 a $2 t1 $5 30000 $5 GUESS $1 7 "
        );
        assert!(text(|out| take_fenced(out, b"a", b"t1", b"30000", None)).starts_with("*4 "));
        assert_eq!(
            text(|out| fence(out, b"a", b"t1", 7)),
            "*4 $10 LOCK.FENCE $1 a $2 t1 $1 7 "
        );
        assert_eq!(
            text(|out| script(out, Some(&[b'f'; 40]), b"", b"a", &[b"t"])),
            format!("*5 $7 EVALSHA $40 {} $1 1 $1 a $1 t ", "f".repeat(40))
        );
        assert!(text(|out| script(out, None, b"x", b"a", &[])).starts_with("*4 $4 EVAL $1 x"));
        // Binary names need no quoting.
        assert_eq!(text(|out| write(out, &[b"a\r\nb", b""])), "*2 $4 a b $0  ");
    }
}
