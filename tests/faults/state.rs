//! What a node holds: as the oracle expects it, and as a restarted node shows it.
//!
//! Deadlines of the oracle are ranges: a command took effect somewhere between the moment it was
//! sent and the moment its reply was read. All times are the observer's raw monotonic clock, the
//! one a node's deadlines are kept in, so a restart within one boot shifts nothing.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quorlock_testkit::{Connection, Reply, observed_now, request};

/// What stands under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(Arc<[u8]>),
    Hash(BTreeMap<String, String>),
}

/// When a key ends: not before `earliest`, not after `latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) earliest: Duration,
    pub(crate) latest: Duration,
}

/// A key as the oracle expects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) value: Value,
    pub(crate) deadline: Option<Deadline>,
}

/// All keys, as the oracle expects them.
pub(crate) type State = BTreeMap<String, Item>;

/// A key as a node shows it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    value: Value,
    /// Milliseconds, as PTTL says; -1 for none.
    ttl_ms: i64,
}

/// All keys of a node, read between two moments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    keys: BTreeMap<String, Seen>,
    began: Duration,
    ended: Duration,
    /// Keys may live longer, by the time that passed between two looks at the clock.
    pub(crate) may_give_time_back: bool,
}

impl Sight {
    /// Reads every key of a node.
    pub(crate) fn of(address: SocketAddr) -> io::Result<Self> {
        let began = observed_now();
        let mut connection = Connection::open(address)?;
        let names = match connection.ask(&["KEYS", "*"])? {
            Reply::Array(Some(names)) => names.iter().map(Reply::text).collect::<Vec<_>>(),
            other => return Err(io::Error::other(format!("KEYS answered {other:?}"))),
        };
        let mut keys = BTreeMap::new();
        for name in names {
            if let Some(seen) = read_key(&mut connection, &name)? {
                keys.insert(name, seen);
            }
        }
        Ok(Self {
            keys,
            began,
            ended: observed_now(),
            may_give_time_back: false,
        })
    }

    /// The keys whose names do not begin with any of these: nobody has written them.
    pub(crate) fn strangers(&self, prefixes: &[&str]) -> Vec<String> {
        let is_known = |name: &&String| prefixes.iter().any(|prefix| name.starts_with(prefix));
        self.keys
            .keys()
            .filter(|name| !is_known(name))
            .cloned()
            .collect()
    }

    /// The first key below `prefix` that is not as `expected`, in words; `None` if all are.
    pub(crate) fn differs(&self, prefix: &str, expected: &State) -> Option<String> {
        let extra = self
            .keys
            .keys()
            .filter(|name| name.starts_with(prefix) && !expected.contains_key(*name));
        if let Some(name) = extra.into_iter().next() {
            return Some(format!("{name} is there and must not be"));
        }
        expected
            .iter()
            .find_map(|(name, item)| self.key_differs(name, item))
    }

    fn key_differs(&self, name: &str, item: &Item) -> Option<String> {
        let Some(seen) = self.keys.get(name) else {
            let may_be_over = item.deadline.is_some_and(|end| end.earliest <= self.ended);
            return (!may_be_over).then(|| format!("{name} is missing"));
        };
        if seen.value != item.value {
            return Some(format!("{name} holds another value"));
        }
        let ttl_ms = seen.ttl_ms;
        let Some(deadline) = item.deadline else {
            return (ttl_ms != -1).then(|| format!("{name} ends in {ttl_ms} ms, not never"));
        };
        if deadline.latest < self.began && !self.may_give_time_back {
            return Some(format!("{name} is there after its end"));
        }
        let least = milliseconds(deadline.earliest.saturating_sub(self.ended)) - CLOCK_SLACK_MS;
        let most = milliseconds(deadline.latest.saturating_sub(self.began)) + CLOCK_SLACK_MS;
        if ttl_ms < least {
            return Some(format!(
                "{name} ends in {ttl_ms} ms, too early: {least} ms at least"
            ));
        }
        (ttl_ms > most && !self.may_give_time_back)
            .then(|| format!("{name} ends in {ttl_ms} ms, not within {most} ms"))
    }
}

fn read_key(connection: &mut Connection, name: &str) -> io::Result<Option<Seen>> {
    let kind = match connection.ask(&["TYPE", name])? {
        Reply::Status(kind) => kind,
        other => return Err(io::Error::other(format!("TYPE answered {other:?}"))),
    };
    if kind == "none" {
        return Ok(None);
    }
    let read = if kind == "hash" { "HGETALL" } else { "GET" };
    let requests = [request(&[read, name]), request(&["PTTL", name])];
    connection.send(&requests.concat())?;
    let (value, ttl) = (connection.reply()?, connection.reply()?);
    let value = match value {
        Reply::Bulk(Some(bytes)) => Value::Text(bytes.into()),
        Reply::Array(Some(words)) => {
            let pairs = words.chunks(2).map(|pair| {
                let text = |index: usize| pair.get(index).map(Reply::text).unwrap_or_default();
                (text(0), text(1))
            });
            Value::Hash(pairs.collect())
        }
        // It ended in between.
        Reply::Bulk(None) => return Ok(None),
        other => return Err(io::Error::other(format!("{read} answered {other:?}"))),
    };
    match ttl {
        Reply::Integer(-2) => Ok(None),
        Reply::Integer(ttl_ms) => Ok(Some(Seen { value, ttl_ms })),
        other => Err(io::Error::other(format!("PTTL answered {other:?}"))),
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// PTTL is rounded to whole milliseconds, and so are both ends of the range.
const CLOCK_SLACK_MS: i64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Value {
        Value::Text(value.as_bytes().into())
    }

    fn sight(ttl_ms: i64) -> Sight {
        let seen = Seen {
            value: text("v"),
            ttl_ms,
        };
        Sight {
            keys: BTreeMap::from([("a:k".to_owned(), seen)]),
            began: Duration::from_secs(100),
            ended: Duration::from_millis(100_010),
            may_give_time_back: false,
        }
    }

    fn expected(value: &str, deadline_s: Option<(u64, u64)>) -> State {
        let deadline = deadline_s.map(|(earliest, latest)| Deadline {
            earliest: Duration::from_secs(earliest),
            latest: Duration::from_secs(latest),
        });
        let item = Item {
            value: text(value),
            deadline,
        };
        State::from([("a:k".to_owned(), item)])
    }

    #[test]
    fn what_is_as_expected_does_not_differ() {
        assert_eq!(sight(-1).differs("a:", &expected("v", None)), None);
        let ranged = expected("v", Some((150, 152)));
        for ttl_ms in [49_990, 51_000, 52_000] {
            assert_eq!(sight(ttl_ms).differs("a:", &ranged), None, "{ttl_ms}");
        }
        assert_eq!(sight(-1).differs("b:", &State::new()), None);
    }

    #[test]
    fn every_difference_is_seen() {
        let ranged = expected("v", Some((150, 152)));
        let wrong = [
            (sight(-1), expected("w", None)),
            (sight(5), expected("v", None)),
            (sight(-1), ranged.clone()),
            (sight(49_900), ranged.clone()),
            (sight(52_100), ranged),
            (sight(10), expected("v", Some((10, 20)))),
            (sight(-1), State::new()),
            (Sight::default(), expected("v", None)),
        ];
        for (sight, expected) in wrong {
            assert!(sight.differs("a:", &expected).is_some(), "{expected:?}");
        }
        assert_eq!(sight(1).strangers(&["b:"]).len(), 1);
        assert!(sight(1).strangers(&["a:"]).is_empty());
    }
}
