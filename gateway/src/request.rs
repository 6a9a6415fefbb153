//! What a client asks for, out of the words of its request.
//!
//! Invariant: what is not understood is refused, and so is each option whose promise the other system could not keep.

use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::{
    ACQUIRE_ALL_SCRIPT, EXTEND_ALL_SCRIPT, EXTEND_SCRIPT, RELEASE_ALL_SCRIPT, RELEASE_SCRIPT,
    SET_END_ALL_SCRIPT, SET_END_AND_TOKEN_SCRIPT, SET_END_SCRIPT,
};

use crate::listing::name_of;
use crate::reply::Reply;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// It asks for nothing of the other system.
    Answer(Reply),
    /// Who the node is.
    Info,
    /// Take the lock, and answer in this form.
    Acquire(Acquire, Form),
    Operation(Operation),
    /// Do this to several locks at once.
    Several(Several),
    /// Stand in line for the lock.
    Wait {
        name: Bytes,
        token: Bytes,
    },
    /// Leave the line.
    Unwait(Bytes),
    /// The token, the time that is left, whether it is there, or all that is known of the holder.
    Look(Bytes, Aspect),
    /// The locks whose names match the first text, from behind the second one on.
    List(Bytes, Bytes, Listing),
}

/// A lock that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acquire {
    pub(crate) name: Bytes,
    pub(crate) token: Bytes,
    pub(crate) ttl: Duration,
    pub(crate) owner: Option<Bytes>,
}

/// How a grant or a refusal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `OK`, or nothing.
    Plain,
    /// Nothing, or the holder's token.
    Holder,
    /// Whether it is granted, the fence of the name, and the holder's token.
    Fence,
}

/// What is done with a lock that is held under this token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It lasts so long at least.
    Extend(Bytes, Bytes, Duration),
    /// It lasts so long, and is held under the new token from then on, where there is one.
    SetEnd(Bytes, Bytes, Duration, Option<Bytes>),
    Release(Bytes, Bytes),
    /// Its fence is this one, unless it is larger already.
    Fence(Bytes, Bytes, i64),
}

/// One of the client's scripts about several names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Several {
    pub(crate) script: &'static [u8],
    pub(crate) names: Vec<Bytes>,
    pub(crate) arguments: Vec<Bytes>,
}

/// What is asked about a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aspect {
    Token,
    TimeLeft,
    Exists,
    All,
}

/// How a list is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    Names,
    Facts,
}

impl Request {
    /// Reads a request. `system` is the name that refusals show. Where it has no fences, it knows no command that tells one.
    pub(crate) fn read(words: &[Bytes], system: &str, has_fences: bool) -> Self {
        let (command, rest) = words.split_first().expect("a request has a word");
        let command = String::from_utf8_lossy(command).to_ascii_uppercase();
        let read = match command.as_str() {
            "CLIENT" => on_connection(rest, system),
            "HELLO" => Some(Self::Answer(Reply::Map(vec![
                ("server", system.to_owned()),
                ("proto", "3".to_owned()),
            ]))),
            "PING" => Some(Self::Answer(Reply::text("PONG"))),
            "INFO" => Some(Self::Info),
            "EVAL" => script(rest, system),
            // The client sends the text, then.
            "SCRIPT" | "EVALSHA" => Some(refused(format!("NOSCRIPT {system} runs no scripts"))),
            "SET" => set(rest),
            "LOCK.ACQUIRE" if !has_fences => match rest.iter().any(is_shared) {
                true => Some(no_readers(system)),
                false => Some(unknown(&command, system)),
            },
            "LOCK.FENCE" if !has_fences => Some(unknown(&command, system)),
            "LOCK.ACQUIRE" => acquire(rest, system),
            "LOCK.EXTEND" | "LOCK.RELEASE" => Some(no_readers(system)),
            "LOCK.FENCE" => fence(rest),
            "LOCK.WAIT" => wait(rest, system),
            "LOCK.UNWAIT" => single(rest).map(Self::Unwait),
            "LOCK.FORCE-RELEASE" => force_release(rest),
            "LOCK.INFO" => single(rest).map(|name| Self::Look(name, Aspect::All)),
            "GET" => single(rest).map(|name| Self::Look(name, Aspect::Token)),
            "PTTL" => single(rest).map(|name| Self::Look(name, Aspect::TimeLeft)),
            "EXISTS" => single(rest).map(|name| Self::Look(name, Aspect::Exists)),
            "LOCK.LIST" => {
                let pattern = rest.first().cloned().unwrap_or(Bytes::from_static(b"*"));
                list(pattern, rest.get(1), Listing::Facts)
            }
            "SCAN" => match rest {
                [cursor, word, pattern, ..] if word.eq_ignore_ascii_case(b"MATCH") => {
                    list(pattern.clone(), Some(cursor), Listing::Names)
                }
                _ => None,
            },
            _ => Some(unknown(&command, system)),
        };
        read.unwrap_or_else(|| refused(format!("ERR syntax error in {command}: {system} is asked by this version of the client alone")))
    }
}

/// A page of locks, of which the cursor says where it begins.
fn list(pattern: Bytes, cursor: Option<&Bytes>, listing: Listing) -> Option<Request> {
    let after = cursor.map_or_else(|| Some(Bytes::new()), |cursor| name_of(cursor))?;
    Some(Request::List(pattern, after, listing))
}

fn on_connection(rest: &[Bytes], system: &str) -> Option<Request> {
    let first = rest.first()?;
    if first.eq_ignore_ascii_case(b"SETNAME") || first.eq_ignore_ascii_case(b"SETINFO") {
        return Some(Request::Answer(Reply::Ok));
    }
    Some(unknown("CLIENT TRACKING", system))
}

fn set(rest: &[Bytes]) -> Option<Request> {
    let [name, token, nx, px, ttl, get @ ..] = rest else {
        return None;
    };
    let form = match get {
        [] => Form::Plain,
        [get] if get.eq_ignore_ascii_case(b"GET") => Form::Holder,
        _ => return None,
    };
    let is_lock = nx.eq_ignore_ascii_case(b"NX") && px.eq_ignore_ascii_case(b"PX");
    let acquire = Acquire {
        name: name.clone(),
        token: token.clone(),
        ttl: time(ttl)?,
        owner: None,
    };
    is_lock.then_some(Request::Acquire(acquire, form))
}

fn acquire(rest: &[Bytes], system: &str) -> Option<Request> {
    let [name, token, ttl, options @ ..] = rest else {
        return None;
    };
    let mut owner = None;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if is_shared(option) {
            return Some(no_readers(system));
        } else if option.eq_ignore_ascii_case(b"OWNER") {
            owner = Some(options.next()?.clone());
        } else if option.eq_ignore_ascii_case(b"GUESS") {
            // The system gives a number of its own.
            options.next()?;
        } else {
            return None;
        }
    }
    let acquire = Acquire {
        name: name.clone(),
        token: token.clone(),
        ttl: time(ttl)?,
        owner,
    };
    Some(Request::Acquire(acquire, Form::Fence))
}

fn fence(rest: &[Bytes]) -> Option<Request> {
    let [name, token, fence] = rest else {
        return None;
    };
    let fence = std::str::from_utf8(fence).ok()?.parse().ok()?;
    let fence = Operation::Fence(name.clone(), token.clone(), fence);
    Some(Request::Operation(fence))
}

fn wait(rest: &[Bytes], system: &str) -> Option<Request> {
    let [name, token, options @ ..] = rest else {
        return None;
    };
    if options.iter().any(is_shared) {
        return Some(no_readers(system));
    }
    Some(Request::Wait {
        name: name.clone(),
        token: token.clone(),
    })
}

fn force_release(rest: &[Bytes]) -> Option<Request> {
    let [name, token] = rest else {
        return None;
    };
    let release = Operation::Release(name.clone(), token.clone());
    Some(Request::Operation(release))
}

fn single(rest: &[Bytes]) -> Option<Bytes> {
    match rest {
        [name] => Some(name.clone()),
        _ => None,
    }
}

/// The client's scripts about a lock.
fn script(rest: &[Bytes], system: &str) -> Option<Request> {
    let [body, count, arguments @ ..] = rest else {
        return None;
    };
    let of_several = [
        ACQUIRE_ALL_SCRIPT,
        EXTEND_ALL_SCRIPT,
        RELEASE_ALL_SCRIPT,
        SET_END_ALL_SCRIPT,
    ];
    if let Some(script) = of_several.iter().find(|script| ***script == body[..]) {
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let (names, arguments) = arguments.split_at_checked(count)?;
        let several = Several {
            script,
            names: names.to_vec(),
            arguments: arguments.to_vec(),
        };
        return (count > 0).then_some(Request::Several(several));
    }
    if body[..] == b"return 1"[..] {
        return Some(Request::Answer(Reply::Number(1)));
    }
    let operation = match (&body[..], arguments) {
        (RELEASE_SCRIPT, [name, token]) => Operation::Release(name.clone(), token.clone()),
        (EXTEND_SCRIPT, [name, token, ttl]) => {
            Operation::Extend(name.clone(), token.clone(), time(ttl)?)
        }
        (SET_END_SCRIPT, [name, token, ttl]) => {
            Operation::SetEnd(name.clone(), token.clone(), time(ttl)?, None)
        }
        (SET_END_AND_TOKEN_SCRIPT, [name, token, ttl, new]) => {
            let new = Some(new.clone());
            Operation::SetEnd(name.clone(), token.clone(), time(ttl)?, new)
        }
        _ => return Some(refused(format!("ERR {system} runs no scripts"))),
    };
    (count[..] == b"1"[..]).then_some(Request::Operation(operation))
}

/// A number of milliseconds as clients write it.
fn time(text: &[u8]) -> Option<Duration> {
    let millis: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let millis = (1..=MILLIS_MAX).contains(&millis).then_some(millis);
    millis.map(Duration::from_millis)
}

fn is_shared(word: &Bytes) -> bool {
    word.eq_ignore_ascii_case(b"SHARED")
}

fn no_readers(system: &str) -> Request {
    refused(format!(
        "ERR {system} keeps no locks for readers (SHARED): take the lock as a writer, or list Quorlock nodes"
    ))
}

fn unknown(command: &str, system: &str) -> Request {
    let shown: String = command.chars().take(64).collect();
    refused(format!(
        "ERR unknown command '{shown}', locks are on {system}"
    ))
}

fn refused(words: String) -> Request {
    Request::Answer(Reply::Error(words))
}

/// 100 years, as on nodes.
const MILLIS_MAX: u64 = 100 * 366 * 24 * 3600 * 1000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(words: &[&[u8]]) -> Request {
        let words: Vec<Bytes> = words
            .iter()
            .map(|word| Bytes::copy_from_slice(word))
            .collect();
        Request::read(&words, "Elsewhere", true)
    }

    fn error(words: &[&[u8]]) -> String {
        match read(words) {
            Request::Answer(Reply::Error(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_client_sends_is_understood() {
        let (name, token) = (Bytes::from_static(b"a\0b"), Bytes::from_static(b"t1"));
        let ttl = Duration::from_millis(30_000);
        let acquire = |owner: Option<&'static str>| Acquire {
            name: name.clone(),
            token: token.clone(),
            ttl,
            owner: owner.map(Bytes::from),
        };
        let set: [&[u8]; 7] = [b"SET", b"a\0b", b"t1", b"NX", b"PX", b"30000", b"GET"];
        assert_eq!(read(&set), Request::Acquire(acquire(None), Form::Holder));
        assert_eq!(
            read(&set[..6]),
            Request::Acquire(acquire(None), Form::Plain)
        );
        let fenced: [&[u8]; 8] = [
            b"LOCK.ACQUIRE",
            b"a\0b",
            b"t1",
            b"30000",
            b"OWNER",
            b"me",
            b"GUESS",
            b"7",
        ];
        assert_eq!(
            read(&fenced),
            Request::Acquire(acquire(Some("me")), Form::Fence)
        );
        let (n, t) = (name.clone(), token.clone());
        for (script, arguments, operation) in [
            (
                RELEASE_SCRIPT,
                &[][..],
                Operation::Release(n.clone(), t.clone()),
            ),
            (
                EXTEND_SCRIPT,
                &[&b"30000"[..]],
                Operation::Extend(n.clone(), t.clone(), ttl),
            ),
            (
                SET_END_SCRIPT,
                &[b"30000"],
                Operation::SetEnd(n.clone(), t.clone(), ttl, None),
            ),
            (
                SET_END_AND_TOKEN_SCRIPT,
                &[b"30000", b"t2"],
                Operation::SetEnd(n.clone(), t.clone(), ttl, Some(Bytes::from_static(b"t2"))),
            ),
        ] {
            let words: Vec<&[u8]> = [&[b"EVAL", script, b"1", b"a\0b", b"t1"], arguments].concat();
            assert_eq!(read(&words), Request::Operation(operation));
        }
        let words: [&[u8]; 7] = [b"EVAL", ACQUIRE_ALL_SCRIPT, b"2", b"a", b"b", b"t", b"1"];
        let several = Several {
            script: ACQUIRE_ALL_SCRIPT,
            names: vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")],
            arguments: vec![Bytes::from_static(b"t"), Bytes::from_static(b"1")],
        };
        assert_eq!(read(&words), Request::Several(several));
        let wait = Request::Wait { name, token };
        assert_eq!(read(&[b"LOCK.WAIT", b"a\0b", b"t1", b"TURN", b"600"]), wait);
        assert_eq!(
            read(&[b"EVAL", b"return 1", b"0"]),
            Request::Answer(Reply::Number(1))
        );
    }

    #[test]
    fn what_the_other_system_cannot_promise_is_refused_and_it_is_named() {
        let shared: [&[u8]; 5] = [b"LOCK.ACQUIRE", b"a", b"t", b"1", b"SHARED"];
        assert!(error(&shared).contains("Elsewhere keeps no locks for readers"));
        assert!(error(&[b"LOCK.WAIT", b"a", b"t", b"SHARED"]).contains("readers"));
        assert!(error(&[b"EVAL", b"return 2", b"0"]).contains("no scripts"));
        assert!(error(&[b"CLIENT", b"TRACKING", b"ON"]).starts_with("ERR unknown command"));
        assert!(error(&[b"FLUSHALL"]).starts_with("ERR unknown command 'FLUSHALL'"));
        for words in [
            &[&b"SET"[..], b"a", b"t", b"NX", b"PX", b"0"][..],
            &[b"SET", b"a", b"t", b"NX", b"PX", b"99999999999999999999"],
            &[b"SET", b"a", b"t", b"XX", b"PX", b"1"],
            &[b"SET", b"a", b"t"],
            &[b"LOCK.ACQUIRE", b"a", b"t", b"1", b"OWNER"],
            &[b"LOCK.FENCE", b"a", b"t", b"-x"],
            &[b"EVAL", ACQUIRE_ALL_SCRIPT, b"0", b"t"],
            &[b"EVAL", ACQUIRE_ALL_SCRIPT, b"3", b"a", b"t"],
            &[b"EVAL", ACQUIRE_ALL_SCRIPT, b"x", b"a", b"t"],
            &[b"GET"],
        ] {
            assert!(error(words).starts_with("ERR syntax error"), "{words:?}");
        }
    }

    #[test]
    fn where_there_are_no_fences_the_commands_that_tell_them_are_unknown() {
        let error = |words: &[&[u8]]| {
            let words: Vec<Bytes> = words
                .iter()
                .map(|word| Bytes::copy_from_slice(word))
                .collect();
            match Request::read(&words, "Elsewhere", false) {
                Request::Answer(Reply::Error(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        let words: [&[u8]; 6] = [b"LOCK.ACQUIRE", b"a", b"t", b"9", b"OWNER", b"me"];
        assert!(error(&words).starts_with("ERR unknown command 'LOCK.ACQUIRE'"));
        assert!(error(&[b"LOCK.FENCE", b"a", b"t", b"7"]).starts_with("ERR unknown command"));
        let shared: [&[u8]; 5] = [b"LOCK.ACQUIRE", b"a", b"t", b"1", b"SHARED"];
        assert!(error(&shared).contains("Elsewhere keeps no locks for readers"));
    }

    proptest! {
        #[test]
        fn no_words_are_a_panic(words in proptest::collection::vec("(SET|EVAL|LOCK[.](ACQUIRE|WAIT|FENCE)|NX|PX|GET|1|\\PC{0,3})", 1..8)) {
            let words: Vec<Bytes> = words.into_iter().map(Bytes::from).collect();
            let _is_read = Request::read(&words, "Elsewhere", true);
            let _is_read = Request::read(&words, "Elsewhere", false);
        }
    }
}
