//! What lock libraries send, by the text of their scripts, and what they make of the replies.

use quorlock_agent_simulation::library_scripts::{
    COMPARE_AND_DELETE, NODE_REDLOCK_ACQUIRE, NODE_REDLOCK_EXTEND, NODE_REDLOCK_RELEASE,
    REDIS_PY_EXTEND, REDIS_PY_REACQUIRE, REDIS_PY_RELEASE, REDISLOCK_OBTAIN, REDISLOCK_REFRESH,
    SEMAPHORE_DELETE, SEMAPHORE_REFRESH, SHEDLOCK_UPDATE, SPRING_OBTAIN, SPRING_UNLOCK,
    SYMFONY_PUT_OFF, SYMFONY_SAVE,
};
use quorlock_engine::Reply;

/// A lock library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    RedisPy,
    Redislock,
    Spring,
    NodeRedlock,
    RedisSemaphore,
    Symfony,
    Laravel,
    ShedLock,
    /// No library: LOCK commands, in line for the lock.
    InLine,
    /// The same, with a fence.
    Fenced,
    /// The same, beside others who read.
    Reading,
}

/// What a library makes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was done.
    Yes,
    /// Somebody else has the lock, or it is not held any more.
    No,
    /// Nothing is known of the lock.
    Error,
    /// No server answers like this.
    Nonsense,
}

/// A request: the command's name, and its arguments.
pub(crate) type Words = Vec<String>;

impl Library {
    pub(crate) const ALL: [Library; 11] = [
        Library::RedisPy,
        Library::Redislock,
        Library::Spring,
        Library::NodeRedlock,
        Library::RedisSemaphore,
        Library::Symfony,
        Library::Laravel,
        Library::ShedLock,
        Library::InLine,
        Library::Fenced,
        Library::Reading,
    ];

    /// Whether a process uses one token for all of its locks.
    pub(crate) fn has_one_token(self) -> bool {
        self == Library::Spring
    }

    /// Whether it takes a lock again that is held under its token already.
    pub(crate) fn takes_again(self) -> bool {
        matches!(
            self,
            Library::Spring | Library::Redislock | Library::Symfony
        )
    }

    /// Whether it takes several locks together.
    pub(crate) fn takes_several(self) -> bool {
        self == Library::NodeRedlock
    }

    /// Whether who was refused, or learnt nothing, releases what its try may have taken.
    pub(crate) fn releases_failed_tries(self) -> bool {
        self == Library::NodeRedlock
    }

    pub(crate) fn acquire(self, names: &[String], token: &str, ttl_ms: u64) -> Words {
        let ttl = ttl_ms.to_string();
        match self {
            Library::RedisPy | Library::ShedLock => {
                words(&["SET", &names[0], token, "NX", "PX", &ttl])
            }
            Library::RedisSemaphore => words(&["SET", &names[0], token, "PX", &ttl, "NX"]),
            Library::Laravel => {
                let seconds = ttl_ms.div_ceil(1_000).to_string();
                words(&["SET", &names[0], token, "EX", &seconds, "NX"])
            }
            Library::Redislock => {
                let length = token.len().to_string();
                script(REDISLOCK_OBTAIN, names, &[token, &length, &ttl])
            }
            Library::Spring => script(SPRING_OBTAIN, names, &[token, &ttl]),
            Library::NodeRedlock => script(NODE_REDLOCK_ACQUIRE, names, &[token, &ttl]),
            Library::Symfony => script(SYMFONY_SAVE, names, &[token, &ttl]),
            Library::InLine | Library::Fenced | Library::Reading => {
                let options: &[&str] = match self {
                    Library::Fenced => &["WAIT", "300", "FENCE"],
                    Library::Reading => &["WAIT", "300", "SHARED"],
                    _ => &["WAIT", "300"],
                };
                words(&[&["LOCK.ACQUIRE", &names[0], token, &ttl], options].concat())
            }
        }
    }

    /// The lock is to last this long from now on; none where the library has nothing for it.
    pub(crate) fn extend(self, names: &[String], token: &str, ttl_ms: u64) -> Option<Words> {
        let ttl = ttl_ms.to_string();
        Some(match self {
            Library::RedisPy => script(REDIS_PY_REACQUIRE, names, &[token, &ttl]),
            Library::Redislock => script(REDISLOCK_REFRESH, names, &[token, &ttl]),
            Library::Spring => script(SPRING_OBTAIN, names, &[token, &ttl]),
            Library::NodeRedlock => script(NODE_REDLOCK_EXTEND, names, &[token, &ttl]),
            Library::RedisSemaphore => script(SEMAPHORE_REFRESH, names, &[token, &ttl]),
            Library::Symfony => script(SYMFONY_PUT_OFF, names, &[token, &ttl]),
            Library::ShedLock => script(SHEDLOCK_UPDATE, names, &[token, &ttl]),
            Library::InLine | Library::Fenced | Library::Reading => {
                words(&["LOCK.EXTEND", &names[0], token, &ttl])
            }
            Library::Laravel => return None,
        })
    }

    /// The lock is to last so much longer; none where the library has nothing for it.
    pub(crate) fn prolong(self, names: &[String], token: &str, more_ms: u64) -> Option<Words> {
        let more = more_ms.to_string();
        (self == Library::RedisPy).then(|| script(REDIS_PY_EXTEND, names, &[token, &more, "0"]))
    }

    /// The lock is free from now on, or, where the library wants that, after this time.
    pub(crate) fn release(self, names: &[String], token: &str, keep_ms: u64) -> Words {
        match self {
            Library::RedisPy => script(REDIS_PY_RELEASE, names, &[token]),
            Library::Spring => script(SPRING_UNLOCK, names, &[token]),
            Library::NodeRedlock => script(NODE_REDLOCK_RELEASE, names, &[token]),
            Library::RedisSemaphore => script(SEMAPHORE_DELETE, names, &[token]),
            Library::ShedLock if keep_ms > 0 => {
                script(SHEDLOCK_UPDATE, names, &[token, &keep_ms.to_string()])
            }
            Library::InLine | Library::Fenced | Library::Reading => {
                words(&["LOCK.RELEASE", &names[0], token])
            }
            Library::Redislock | Library::Symfony | Library::Laravel | Library::ShedLock => {
                script(COMPARE_AND_DELETE, names, &[token])
            }
        }
    }
}

impl Verdict {
    pub(crate) fn of(reply: &Reply) -> Verdict {
        match reply {
            Reply::Integer(1..) => Verdict::Yes,
            Reply::Nil | Reply::Integer(0) => Verdict::No,
            Reply::Array(parts) if matches!(parts[..], [Reply::Integer(1), _, _, _]) => {
                Verdict::Yes
            }
            Reply::Array(parts) if matches!(parts[..], [Reply::Integer(0), Reply::Nil, _, _]) => {
                Verdict::No
            }
            // Readers have it.
            Reply::Error(error) if starts(error.as_bytes(), "WRONGTYPE ") => Verdict::No,
            Reply::Error(error) if REFUSALS.iter().any(|code| starts(error.as_bytes(), code)) => {
                Verdict::Error
            }
            reply if *reply == Reply::Ok || *reply == Reply::status("OK") => Verdict::Yes,
            _ => Verdict::Nonsense,
        }
    }
}

fn starts(text: &[u8], code: &str) -> bool {
    text.starts_with(code.as_bytes())
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn script(text: &str, names: &[String], arguments: &[&str]) -> Words {
    let count = names.len().to_string();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    words(&[&["EVAL", text, &count], &names[..], arguments].concat())
}

/// What an agent may answer to a request of a lock library that it cannot carry out.
const REFUSALS: [&str; 2] = ["NOQUORUM ", "TRYAGAIN "];
