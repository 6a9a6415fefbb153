//! One write: the command that asks for it, and what it does to the oracle's state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorlock_testkit::Reply;

use crate::state::{Deadline, Item, State, Value};

/// The words of one command.
pub(crate) type Request = Vec<Vec<u8>>;

/// A write.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Set {
        key: String,
        value: Arc<[u8]>,
        ttl: Option<Duration>,
        only_absent: bool,
    },
    Delete {
        key: String,
    },
    Expire {
        key: String,
        ttl: Duration,
    },
    Persist {
        key: String,
    },
    /// The script of every lock library: delete if the value is mine.
    Release {
        key: String,
        token: Arc<[u8]>,
    },
    /// The same for a longer TTL.
    Extend {
        key: String,
        token: Arc<[u8]>,
        ttl: Duration,
    },
    HashSet {
        key: String,
        field: String,
        value: String,
    },
    HashDelete {
        key: String,
        field: String,
    },
    Increment {
        key: String,
    },
}

impl Op {
    /// The command.
    pub(crate) fn request(&self) -> Request {
        let ms = |ttl: &Duration| ttl.as_millis().to_string();
        match self {
            Self::Set {
                key,
                value,
                ttl,
                only_absent,
            } => {
                let mut words: Request = vec!["SET".into(), key.as_str().into(), value.to_vec()];
                if *only_absent {
                    words.push("NX".into());
                }
                if let Some(ttl) = ttl {
                    words.extend(["PX".into(), ms(ttl).into_bytes()]);
                }
                words
            }
            Self::Delete { key } => words(&["DEL", key]),
            Self::Expire { key, ttl } => words(&["PEXPIRE", key, &ms(ttl)]),
            Self::Persist { key } => words(&["PERSIST", key]),
            Self::Release { key, token } => {
                let mut request = words(&["EVAL", RELEASE, "1", key]);
                request.push(token.to_vec());
                request
            }
            Self::Extend { key, token, ttl } => {
                let mut request = words(&["EVAL", EXTEND, "1", key]);
                request.extend([token.to_vec(), ms(ttl).into_bytes()]);
                request
            }
            Self::HashSet { key, field, value } => words(&["HSET", key, field, value]),
            Self::HashDelete { key, field } => words(&["HDEL", key, field]),
            Self::Increment { key } => words(&["INCR", key]),
        }
    }

    /// The TTL it gives to a key, if it gives one.
    pub(crate) fn ttl(&self) -> Option<Duration> {
        match self {
            Self::Set { ttl, .. } => *ttl,
            Self::Expire { ttl, .. } | Self::Extend { ttl, .. } => Some(*ttl),
            _ => None,
        }
    }

    /// Applies it to the state as it took effect between the two moments; returns the reply that
    /// a node must give.
    pub(crate) fn apply(&self, state: &mut State, sent: Duration, done: Duration) -> Reply {
        let deadline = |ttl: &Duration| Deadline {
            earliest: sent.saturating_add(*ttl),
            latest: done.saturating_add(*ttl),
        };
        match self {
            Self::Set {
                key,
                value,
                ttl,
                only_absent,
            } => {
                if *only_absent && state.contains_key(key) {
                    return Reply::Bulk(None);
                }
                let item = Item {
                    value: Value::Text(Arc::clone(value)),
                    deadline: ttl.as_ref().map(deadline),
                };
                state.insert(key.clone(), item);
                Reply::Status("OK".to_owned())
            }
            Self::Delete { key } => count(state.remove(key).is_some()),
            Self::Expire { key, ttl } => expire(state.get_mut(key), deadline(ttl)),
            Self::Persist { key } => {
                let had_deadline = state.get_mut(key).and_then(|item| item.deadline.take());
                count(had_deadline.is_some())
            }
            Self::Release { key, token } => {
                let is_mine = holds(state, key, token);
                if is_mine {
                    state.remove(key);
                }
                count(is_mine)
            }
            Self::Extend { key, token, ttl } => {
                let mine = holds(state, key, token)
                    .then(|| state.get_mut(key))
                    .flatten();
                expire(mine, deadline(ttl))
            }
            Self::HashSet { key, field, value } => {
                let fields = fields(state, key);
                count(fields.insert(field.clone(), value.clone()).is_none())
            }
            Self::HashDelete { key, field } => {
                if !state.contains_key(key) {
                    return count(false);
                }
                let fields = fields(state, key);
                let was_there = fields.remove(field).is_some();
                if fields.is_empty() {
                    state.remove(key);
                }
                count(was_there)
            }
            Self::Increment { key } => increment(state, key),
        }
    }
}

fn words(words: &[&str]) -> Request {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn count(is_one: bool) -> Reply {
    Reply::Integer(i64::from(is_one))
}

fn expire(item: Option<&mut Item>, deadline: Deadline) -> Reply {
    let is_there = item.is_some();
    if let Some(item) = item {
        item.deadline = Some(deadline);
    }
    count(is_there)
}

fn holds(state: &State, key: &str, token: &Arc<[u8]>) -> bool {
    state
        .get(key)
        .is_some_and(|item| item.value == Value::Text(Arc::clone(token)))
}

/// The fields of a hash, which is made if it is not there.
fn fields<'a>(state: &'a mut State, key: &str) -> &'a mut BTreeMap<String, String> {
    let item = state.entry(key.to_owned()).or_insert_with(|| Item {
        value: Value::Hash(BTreeMap::new()),
        deadline: None,
    });
    match &mut item.value {
        Value::Hash(fields) => fields,
        Value::Text(_) => unreachable!("a stream uses a key for one type only"),
    }
}

fn increment(state: &mut State, key: &str) -> Reply {
    let known = match state.get(key).map(|item| &item.value) {
        Some(Value::Text(text)) => String::from_utf8_lossy(text).parse().unwrap_or(0),
        _ => 0,
    };
    let next: i64 = known + 1;
    let value = Value::Text(next.to_string().into_bytes().into());
    let deadline = state.get(key).and_then(|item| item.deadline);
    state.insert(key.to_owned(), Item { value, deadline });
    Reply::Integer(next)
}

const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                       return redis.call('del', KEYS[1]) else return 0 end";
const EXTEND: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                      return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";
