//! What each request does, by itself: the few command forms of the workloads, one after the other, at the time
//! that the harness moves.
//!
//! Invariant: nothing here asks a node. What a lock was granted for follows from the request, true time and the cap
//! that the harness configured. A node's reply, and the keys that it then has, must agree with it.

mod elements;
mod messages;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use quorlock_engine::StoredValue;

pub(crate) use self::messages::{CHANNEL, EVENTS, Message};
pub(crate) use self::sharing::{Share, share_name, share_of};
use super::request::{COMPARE_AND_DELETE, PUBLISH, REENTER, TWO};

/// A key in its database.
pub(crate) type Name = (u8, Vec<u8>);

/// All keys at one moment.
pub(crate) type Keys = BTreeMap<Name, Item>;

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) value: StoredValue,
    /// In node time, in nanoseconds, as the harness counts it.
    pub(crate) deadline: Option<u64>,
    /// In true time: until then the lock was promised to its holder.
    pub(crate) until: Option<u64>,
    /// The part of it that a restart delay can cover.
    pub(crate) covered_until: Option<u64>,
    /// When its TTL was granted, in true time.
    pub(crate) granted: u64,
    /// The node's start in whose run it got this state.
    pub(crate) run: u64,
    /// What each of those was promised who hold it shared, by their tokens.
    pub(crate) shares: BTreeMap<Vec<u8>, Share>,
}

/// The moment of a request, in both times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) node_ns: u64,
    pub(crate) true_ns: u64,
}

/// What the harness configured the node with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// `restart-delay-max` in force.
    pub(crate) cap_ns: u64,
    /// `require-ttl yes`
    pub(crate) requires_ttl: bool,
    /// The node's starts so far.
    pub(crate) run: u64,
}

/// The reply that a request must get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// These bytes.
    Exactly(Vec<u8>),
    /// An array of these words, in any order.
    Set(BTreeSet<Vec<u8>>),
    /// An array of these fields and values, in any order of the fields.
    Map(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A number that counts these keys, and perhaps some that have expired.
    AtLeast(usize),
}

/// A request that is executed.
pub(crate) struct Execution<'a> {
    pub(crate) now: Moment,
    pub(crate) rules: Rules,
    pub(crate) database: u8,
    pub(crate) keys: &'a mut Keys,
    /// What clients that listen are told.
    pub(crate) messages: Vec<Message>,
    /// What is so after every single write, the last one excepted: a script that runs out of room stops at one.
    pub(crate) between: Vec<State>,
}

/// Keys, and what was told on the way there.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) keys: Keys,
    pub(crate) messages: Vec<Message>,
}

impl Execution<'_> {
    /// Executes all requests of a transaction at one moment. What each answers is known to the byte.
    ///
    /// # Panics
    /// If it is a form that no transaction of a workload has.
    pub(crate) fn run_all(&mut self, requests: &[Vec<Vec<u8>>]) -> Expected {
        let mut replies = format!("*{}\r\n", requests.len()).into_bytes();
        for words in requests {
            let Expected::Exactly(reply) = self.run(words) else {
                panic!("no transaction of a workload has {words:?}")
            };
            replies.extend_from_slice(&reply);
        }
        Expected::Exactly(replies)
    }

    /// Executes a request on the keys, whose expired ones are gone already, and says what it answers.
    ///
    /// # Panics
    /// If it is a form that no workload has.
    pub(crate) fn run(&mut self, words: &[Vec<u8>]) -> Expected {
        let word = |index: usize| words.get(index).map_or(&[][..], Vec::as_slice);
        let key = word(1);
        match word(0) {
            b"SET" => self.set(key, word(2), &words[3..]),
            b"DEL" => number(words[1..].iter().filter(|key| self.delete(key)).count()),
            b"PEXPIRE" => number(usize::from(self.expire(key, Some(nanoseconds(word(2)))))),
            b"PERSIST" => {
                let has_ttl = self.item(key).is_some_and(|item| item.until.is_some());
                number(usize::from(has_ttl && self.expire(key, None)))
            }
            b"HSET" => {
                let pairs = words[2..].chunks_exact(2);
                let new = pairs.filter(|pair| self.set_field(key, &pair[0], &pair[1]));
                let new = new.count();
                self.tell("hset", key);
                number(new)
            }
            b"HDEL" => number(usize::from(self.remove_field(key, word(2)))),
            b"HINCRBY" => number(self.increment_field(key, word(2))),
            b"INCR" => number(self.increment(key)),
            b"EVAL" => self.script(word(1), &words[3..]),
            b"FLUSHALL" => self.flush(|_| true),
            b"FLUSHDB" => {
                let database = self.database;
                self.flush(|name| name.0 == database)
            }
            b"GET" => match self.item(key).map(|item| &item.value) {
                Some(StoredValue::String(value)) => bulk(value),
                _ => nil(),
            },
            b"PTTL" => Expected::Exactly(match self.item(key).map(|item| item.deadline) {
                None => b":-2\r\n".to_vec(),
                Some(None) => b":-1\r\n".to_vec(),
                Some(Some(deadline)) => {
                    let left_ms = (deadline - self.now.node_ns).div_ceil(NANOS_IN_MS);
                    format!(":{left_ms}\r\n").into_bytes()
                }
            }),
            b"HGETALL" => Expected::Map(match self.item(key).map(|item| &item.value) {
                Some(StoredValue::Hash(fields)) => fields.clone(),
                _ => BTreeMap::new(),
            }),
            b"DBSIZE" => Expected::AtLeast(self.names().len()),
            b"KEYS" => Expected::Set(self.names()),
            other => self
                .run_on_elements(words)
                .or_else(|| self.run_on_shared(words))
                .unwrap_or_else(|| panic!("no workload has {}", String::from_utf8_lossy(other))),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8], options: &[Vec<u8>]) -> Expected {
        let has = |option: &[u8]| options.iter().position(|word| word == option);
        if has(b"NX").is_some() && self.item(key).is_some() {
            return nil();
        }
        let ttl_ns = has(b"PX").map(|at| nanoseconds(&options[at + 1]));
        self.set_string(key, value, ttl_ns);
        Expected::Exactly(b"+OK\r\n".to_vec())
    }

    fn script(&mut self, body: &[u8], words: &[Vec<u8>]) -> Expected {
        if body == COMPARE_AND_DELETE.as_bytes() {
            let wanted = StoredValue::String(words[1].clone());
            let is_own = self
                .item(&words[0])
                .is_some_and(|item| item.value == wanted);
            return number(usize::from(is_own && self.delete(&words[0])));
        }
        if body == REENTER.as_bytes() {
            let (key, owner, ttl) = (&words[0], &words[1], &words[2]);
            self.increment_field(key, owner);
            self.expire(key, Some(nanoseconds(ttl)));
            return nil();
        }
        if body == PUBLISH.as_bytes() {
            self.set_string(&words[0], &words[1], Some(nanoseconds(&words[2])));
            self.messages.push(Message::Published(words[1].clone()));
            return number(1);
        }
        assert!(body == TWO.as_bytes(), "no workload has another script");
        let (value, ttl_ns) = (&words[2], Some(nanoseconds(&words[3])));
        self.set_string(&words[0], value, ttl_ns);
        self.delete(&words[1]);
        self.set_string(b"k9", value, ttl_ns);
        number(1)
    }

    fn set_string(&mut self, key: &[u8], value: &[u8], ttl_ns: Option<u64>) {
        self.put(key, StoredValue::String(value.to_vec()), ttl_ns);
        self.tell("set", key);
        if ttl_ns.is_some() {
            self.tell("expire", key);
        }
    }

    fn put(&mut self, key: &[u8], value: StoredValue, ttl_ns: Option<u64>) {
        let item = Item::granted(value, ttl_ns, self.now, self.rules);
        self.note();
        self.keys.insert(self.name(key), item);
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        let is_there = self.remove(key);
        if is_there {
            self.tell("del", key);
        }
        is_there
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        self.note();
        self.keys.remove(&self.name(key)).is_some()
    }

    fn expire(&mut self, key: &[u8], ttl_ns: Option<u64>) -> bool {
        let Some(value) = self.item(key).map(|item| item.value.clone()) else {
            return false;
        };
        self.put(key, value, ttl_ns);
        self.tell(
            if ttl_ns.is_some() {
                "expire"
            } else {
                "persist"
            },
            key,
        );
        true
    }

    fn set_field(&mut self, key: &[u8], field: &[u8], value: &[u8]) -> bool {
        self.change(key, |old| {
            let mut fields = fields(old);
            let is_new = fields.insert(field.to_vec(), value.to_vec()).is_none();
            (is_new, StoredValue::Hash(fields))
        })
    }

    fn remove_field(&mut self, key: &[u8], field: &[u8]) -> bool {
        let mut fields = fields(self.item(key).map(|item| &item.value));
        if fields.remove(field).is_none() {
            return false;
        }
        match fields.is_empty() {
            true => drop(self.remove(key)),
            false => self.change(key, |_| ((), StoredValue::Hash(fields))),
        }
        self.tell_of_part("hdel", key);
        true
    }

    fn increment_field(&mut self, key: &[u8], field: &[u8]) -> usize {
        let sum = self.change(key, |old| {
            let mut fields = fields(old);
            let sum = fields.get(field).map_or(0, |digits| integer(digits)) + 1;
            fields.insert(field.to_vec(), sum.to_string().into_bytes());
            (sum, StoredValue::Hash(fields))
        });
        self.tell("hincrby", key);
        sum
    }

    fn increment(&mut self, key: &[u8]) -> usize {
        let sum = self.change(key, |old| {
            let sum = match old {
                Some(StoredValue::String(digits)) => integer(digits) + 1,
                _ => 1,
            };
            (sum, StoredValue::String(sum.to_string().into_bytes()))
        });
        self.tell("incrby", key);
        sum
    }

    /// Gives a key another value and leaves it its deadline.
    fn change<T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&StoredValue>) -> (T, StoredValue),
    ) -> T {
        self.note();
        let name = self.name(key);
        let old = self.keys.get(&name);
        let (answer, value) = change(old.map(|item| &item.value));
        let item = match old {
            None => Item::granted(value, None, self.now, self.rules),
            Some(old) => Item {
                value,
                covered_until: old
                    .until
                    .map(|until| until.min(self.now.true_ns.saturating_add(self.rules.cap_ns))),
                run: self.rules.run,
                ..old.clone()
            },
        };
        self.keys.insert(name, item);
        answer
    }

    fn flush(&mut self, goes: impl Fn(&Name) -> bool) -> Expected {
        self.keys.retain(|name, _| !goes(name));
        Expected::Exactly(b"+OK\r\n".to_vec())
    }

    fn note(&mut self) {
        self.between.push(State {
            keys: self.keys.clone(),
            messages: self.messages.clone(),
        });
    }

    fn item(&self, key: &[u8]) -> Option<&Item> {
        self.keys.get(&self.name(key))
    }

    fn name(&self, key: &[u8]) -> Name {
        (self.database, key.to_vec())
    }

    fn names(&self) -> BTreeSet<Vec<u8>> {
        let own = self.keys.keys().filter(|name| name.0 == self.database);
        own.map(|name| name.1.clone()).collect()
    }
}

impl Item {
    /// A key that gets its TTL now.
    pub(crate) fn granted(
        value: StoredValue,
        ttl_ns: Option<u64>,
        now: Moment,
        rules: Rules,
    ) -> Item {
        Item {
            value,
            deadline: ttl_ns.map(|ttl_ns| now.node_ns + ttl_ns),
            until: ttl_ns.map(|ttl_ns| now.true_ns + ttl_ns),
            covered_until: ttl_ns.map(|ttl_ns| now.true_ns + ttl_ns.min(rules.cap_ns)),
            granted: now.true_ns,
            run: rules.run,
            shares: BTreeMap::new(),
        }
        .with_shares(now, rules)
    }

    pub(crate) fn is_live(&self, node_ns: u64) -> bool {
        self.deadline.is_none_or(|deadline| deadline > node_ns)
    }

    /// Whether no delay covers all of it.
    pub(crate) fn is_uncovered(&self, now: Moment, cap_ns: u64) -> bool {
        let limit = now.node_ns.saturating_add(cap_ns);
        self.deadline.is_none_or(|deadline| deadline > limit)
    }
}

impl Expected {
    /// Whether these are the bytes of such a reply.
    pub(crate) fn is_met_by(&self, reply: &[u8]) -> bool {
        match self {
            Expected::Exactly(bytes) => reply == bytes,
            Expected::AtLeast(count) => {
                reply.first() == Some(&b':') && integer(reply[1..].trim_ascii()) >= *count
            }
            Expected::Set(words) => words_of(reply).is_some_and(|found| {
                found.len() == words.len() && found.iter().all(|word| words.contains(*word))
            }),
            Expected::Map(fields) => words_of(reply).is_some_and(|found| {
                let pairs = found.chunks_exact(2);
                let held = |pair: &[&[u8]]| fields.get(pair[0]).map(Vec::as_slice) == Some(pair[1]);
                found.len() == 2 * fields.len() && pairs.into_iter().all(held)
            }),
        }
    }
}

/// The words of an array of bulk strings.
fn words_of(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let line_end = |bytes: &[u8]| bytes.windows(2).position(|window| window == b"\r\n");
    if reply.first() != Some(&b'*') {
        return None;
    }
    let end = line_end(reply)?;
    let count = integer(&reply[1..end]);
    let mut rest = &reply[end + 2..];
    let mut words = Vec::new();
    for _ in 0..count {
        let end = line_end(rest)?;
        let length = integer(rest.get(1..end)?);
        words.push(rest.get(end + 2..end + 2 + length)?);
        rest = rest.get(end + 4 + length..)?;
    }
    Some(words)
}

fn fields(value: Option<&StoredValue>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    match value {
        Some(StoredValue::Hash(fields)) => fields.clone(),
        _ => BTreeMap::new(),
    }
}

fn bulk(value: &[u8]) -> Expected {
    let head = format!("${}\r\n", value.len());
    Expected::Exactly([head.as_bytes(), value, b"\r\n"].concat())
}

fn nil() -> Expected {
    Expected::Exactly(b"$-1\r\n".to_vec())
}

fn number(number: usize) -> Expected {
    Expected::Exactly(format!(":{number}\r\n").into_bytes())
}

fn nanoseconds(milliseconds: &[u8]) -> u64 {
    integer(milliseconds) as u64 * NANOS_IN_MS
}

fn integer(digits: &[u8]) -> usize {
    let text = std::str::from_utf8(digits).unwrap_or_default();
    text.parse().expect("a workload's numbers have digits only")
}

const NANOS_IN_MS: u64 = 1_000_000;
