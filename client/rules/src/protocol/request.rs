//! What this client says to a node: RESP arrays, and the scripts: two about one key, three about several.
//!
//! Invariant: every request gets exactly one reply. A node that lacks an option or a script gets
//! the plain form; nothing here decides that, the connection does.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;

/// Frees the lock if, and only if, it is held under the token.
pub const RELEASE_SCRIPT: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then \
return redis.call('DEL', KEYS[1]) else return 0 end";

/// Extends the lock if it is held under the token, and never shortens it: 1 extended, 0 not
/// there, -1 somebody else's. A lock without a deadline (-1 from PTTL) is left alone.
pub const EXTEND_SCRIPT: &[u8] = b"local v = redis.call('GET', KEYS[1]) \
if not v then return 0 end if v ~= ARGV[1] then return -1 end \
local t = redis.call('PTTL', KEYS[1]) \
if t >= 0 and t < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 1";

/// Lets the lock end at another time if it is held under the token.
pub const SET_END_SCRIPT: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then \
return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

/// The same, and lets it be held under another token from then on.
pub const SET_END_AND_TOKEN_SCRIPT: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then \
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2]) return 1 else return 0 end";

/// Lets several locks end at another time, and be held under this token from then on, if all are held under the other one.
pub const SET_END_ALL_SCRIPT: &[u8] = b"for _, k in ipairs(KEYS) do \
if redis.call('GET', k) ~= ARGV[1] then return 0 end end \
for _, k in ipairs(KEYS) do redis.call('SET', k, ARGV[3], 'PX', ARGV[2]) end return 1";

/// Takes several locks if each of them is free or held under the token: 1 taken, the holder's token otherwise. None is
/// taken where another is held, and none that is ours ends sooner.
pub const ACQUIRE_ALL_SCRIPT: &[u8] =
    b"for _, k in ipairs(KEYS) do local v = redis.call('GET', k) \
if v and v ~= ARGV[1] then return v end end \
for _, k in ipairs(KEYS) do redis.call('SET', k, ARGV[1], 'PX', ARGV[2]) end return 1";

/// Extends several locks if all are held under the token, and never shortens one: 1 extended, 0 one is not there, -1 one is
/// somebody else's.
pub const EXTEND_ALL_SCRIPT: &[u8] = b"for _, k in ipairs(KEYS) do local v = redis.call('GET', k) \
if not v then return 0 end if v ~= ARGV[1] then return -1 end end \
for _, k in ipairs(KEYS) do local t = redis.call('PTTL', k) \
if t >= 0 and t < tonumber(ARGV[2]) then redis.call('PEXPIRE', k, ARGV[2]) end end return 1";

/// Frees those of several locks that are held under the token: 1 if that was each of them, 0 otherwise.
/// At a key of another type it stops, and the client releases each name alone then: no error is hidden.
pub const RELEASE_ALL_SCRIPT: &[u8] = b"local all = 1 for _, k in ipairs(KEYS) do \
if redis.call('GET', k) == ARGV[1] then redis.call('DEL', k) else all = 0 end end return all";

/// The name a node gave to a script it has loaded.
pub(crate) type ScriptHash = [u8; 40];

/// Writes a request of these arguments.
pub(crate) fn write(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    header(out, b'*', arguments.len());
    arguments.iter().for_each(|one| argument(out, one));
}

/// Writes a request of these words.
pub(crate) fn write_words(out: &mut Vec<u8>, words: &[Bytes]) {
    header(out, b'*', words.len());
    words.iter().for_each(|one| argument(out, one));
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

/// Takes the lock, by its name, token and ttl, if it is free, with what its holder says about itself. The reply tells the
/// fence of the name, and whether the guess was taken.
pub(crate) fn acquire(
    out: &mut Vec<u8>,
    (name, token, ttl): (&[u8], &[u8], &[u8]),
    text: Option<&str>,
    guess: Option<u64>,
) {
    let guess = guess.map(|guess| guess.to_string());
    let mut arguments: Vec<&[u8]> = vec![b"LOCK.ACQUIRE", name, token, ttl];
    if let Some(text) = text {
        arguments.extend([b"OWNER", text.as_bytes()]);
    }
    if let Some(guess) = &guess {
        arguments.extend([b"GUESS", guess.as_bytes()]);
    }
    write(out, &arguments);
}

/// Takes the lock beside others who read, if no writer has it, with what its holder says about itself.
pub(crate) fn take_shared(
    out: &mut Vec<u8>,
    (name, token, kept_ms): (&[u8], &[u8], &[u8]),
    text: Option<&str>,
) {
    let shared: [&[u8]; 5] = [b"LOCK.ACQUIRE", name, token, kept_ms, b"SHARED"];
    match text {
        None => write(out, &shared),
        Some(text) => write(out, &[&shared[..], &[b"OWNER", text.as_bytes()]].concat()),
    }
}

/// Stands in line for the lock. The turn is bounded as the node bounds it.
pub(crate) fn wait(
    out: &mut Vec<u8>,
    name: &[u8],
    token: &[u8],
    is_shared: bool,
    turn: Option<Duration>,
) {
    let shared: &[&[u8]] = if is_shared { &[b"SHARED"] } else { &[] };
    let arguments: [&[u8]; 3] = [b"LOCK.WAIT", name, token];
    match turn {
        None => write(out, &[&arguments[..], shared].concat()),
        Some(turn) => {
            let millis = turn.as_millis().to_string();
            let turn: [&[u8]; 2] = [b"TURN", millis.as_bytes()];
            write(out, &[&arguments[..], shared, &turn].concat());
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
    let all = [command, script, b"1", name];
    all.iter()
        .chain(arguments)
        .for_each(|one| argument(out, one));
}

/// Runs a script on several keys, by its text: that is one round trip, whether the node has seen it or not.
pub(crate) fn script_on_all(out: &mut Vec<u8>, body: &[u8], names: &[Bytes], arguments: &[&[u8]]) {
    let count = names.len().to_string();
    let names = names.iter().map(|name| &name[..]);
    header(out, b'*', 3 + names.len() + arguments.len());
    let first: [&[u8]; 3] = [b"EVAL", body, count.as_bytes()];
    let all = first
        .into_iter()
        .chain(names)
        .chain(arguments.iter().copied());
    all.for_each(|one| argument(out, one));
}

fn argument(out: &mut Vec<u8>, argument: &[u8]) {
    header(out, b'$', argument.len());
    out.extend_from_slice(argument);
    out.extend_from_slice(b"\r\n");
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
            text(|out| acquire(out, (b"a", b"t1", b"30000"), None, Some(7))),
            "*6 $12 LOCK.ACQUIRE $1 a $2 t1 $5 30000 $5 GUESS $1 7 "
        );
        assert!(text(|out| acquire(out, (b"a", b"t1", b"30000"), None, None)).starts_with("*4 "));
        assert_eq!(
            text(|out| fence(out, b"a", b"t1", 7)),
            "*4 $10 LOCK.FENCE $1 a $2 t1 $1 7 "
        );
        assert_eq!(
            text(|out| script(out, Some(&[b'f'; 40]), b"", b"a", &[b"t"])),
            format!("*5 $7 EVALSHA $40 {} $1 1 $1 a $1 t ", "f".repeat(40))
        );
        assert!(text(|out| script(out, None, b"x", b"a", &[])).starts_with("*4 $4 EVAL $1 x"));
        let names = ["a", "b"].map(Bytes::from);
        assert_eq!(
            text(|out| script_on_all(out, b"x", &names, &[b"t"])),
            "*6 $4 EVAL $1 x $1 2 $1 a $1 b $1 t "
        );
        assert_eq!(
            text(|out| wait(out, b"a", b"t1", true, Some(Duration::from_millis(600)))),
            "*6 $9 LOCK.WAIT $1 a $2 t1 $6 SHARED $4 TURN $3 600 "
        );
        assert!(text(|out| wait(out, b"a", b"t1", false, None)).starts_with("*3 "));
        assert_eq!(
            text(|out| take_shared(out, (b"a", b"t1", b"30000"), Some("me"))),
            "*7 $12 LOCK.ACQUIRE $1 a $2 t1 $5 30000 $6 SHARED $5 OWNER $2 me "
        );
        assert!(text(|out| take_shared(out, (b"a", b"t1", b"9"), None)).starts_with("*5 "));
        // Binary names need no quoting.
        assert_eq!(text(|out| write(out, &[b"a\r\nb", b""])), "*2 $4 a b $0  ");
    }
}
