//! What requests on lists, sets and sorted sets do: by plain vectors and sets.

use std::collections::BTreeSet;

use quorlock_engine::StoredValue;

use super::{Execution, Expected, bulk, integer, nil, number};

type Scored = Vec<(u64, Vec<u8>)>;

impl Execution<'_> {
    /// Executes a request on elements; `None` where it is another one.
    pub(super) fn run_on_elements(&mut self, words: &[Vec<u8>]) -> Option<Expected> {
        let word = |index: usize| words.get(index).map_or(&[][..], Vec::as_slice);
        let key = word(1);
        Some(match word(0) {
            b"RPUSH" | b"LPUSH" => self.push(key, word(0) == b"LPUSH", &words[2..]),
            b"LPOP" | b"RPOP" => self.pop(key, word(0) == b"LPOP", words.get(2)),
            b"BLPOP" | b"BRPOP" => self.pop_first(&words[1..words.len() - 1], word(0) == b"BLPOP"),
            b"BZPOPMIN" => self.pop_lowest_or_wait(key),
            b"BLMOVE" => {
                match self.move_element(key, word(2), word(3) == b"LEFT", word(4) == b"LEFT") {
                    moved if moved == nil() => WAITS,
                    moved => moved,
                }
            }
            b"LMOVE" => self.move_element(key, word(2), word(3) == b"LEFT", word(4) == b"LEFT"),
            b"LSET" => self.set_element(key, integer(word(2)), word(3)),
            b"LINSERT" => self.insert(key, word(2) == b"AFTER", word(3), word(4)),
            b"LREM" => self.remove_elements(key, integer(word(2)), word(3)),
            b"LTRIM" => self.trim(key, integer(word(2)), integer(word(3))),
            b"LRANGE" => array(&self.list(key)),
            b"SADD" => self.add_members(key, &words[2..]),
            b"SREM" => self.remove_members(key, &words[2..]),
            b"SMOVE" => self.move_member(key, word(2), word(3)),
            b"SMEMBERS" => Expected::Set(self.set_of(key)),
            b"ZADD" => self.add_score(key, integer(word(2)), word(3)),
            b"ZINCRBY" => self.increment_score(key, integer(word(2)), word(3)),
            b"ZREM" => self.remove_scored("zrem", key, |_, member| member == word(2)),
            b"ZPOPMIN" => self.pop_lowest(key),
            b"ZREMRANGEBYSCORE" => {
                let range = integer(word(2))..=integer(word(3));
                let is_in = |score, _: &[u8]| range.contains(&whole(score));
                self.remove_scored("zremrangebyscore", key, is_in)
            }
            b"ZRANGE" => {
                let members = self.scored(key).into_iter().map(|one| one.1);
                array(&members.collect::<Vec<_>>())
            }
            _ => return None,
        })
    }

    /// Gives a key this value; none where nothing is in it.
    fn hold(&mut self, key: &[u8], value: StoredValue) {
        let is_empty = match &value {
            StoredValue::List(list) => list.is_empty(),
            StoredValue::Set(members) => members.is_empty(),
            StoredValue::SortedSet(scored) => scored.is_empty(),
            StoredValue::String(_) | StoredValue::Hash(_) | StoredValue::SharedLock(_) => false,
        };
        match is_empty {
            true => drop(self.remove(key)),
            false => self.change(key, |_| ((), value)),
        }
    }

    fn list(&self, key: &[u8]) -> Vec<Vec<u8>> {
        match self.item(key).map(|item| &item.value) {
            Some(StoredValue::List(list)) => list.clone(),
            _ => Vec::new(),
        }
    }

    fn push(&mut self, key: &[u8], is_left: bool, elements: &[Vec<u8>]) -> Expected {
        let mut list = self.list(key);
        for element in elements {
            let index = if is_left { 0 } else { list.len() };
            list.insert(index, element.clone());
        }
        let length = list.len();
        self.hold(key, StoredValue::List(list));
        self.tell(push_event(is_left), key);
        number(length)
    }

    /// The first of these lists that has an element loses it; where none has, the client waits.
    fn pop_first(&mut self, keys: &[Vec<u8>], is_left: bool) -> Expected {
        let Some(key) = keys.iter().find(|key| !self.list(key).is_empty()) else {
            return WAITS;
        };
        let list = self.list(key);
        let element = if is_left { list.first() } else { list.last() };
        let element = element.cloned().unwrap_or_default();
        self.pop(key, is_left, None);
        array(&[key.clone(), element])
    }

    fn pop(&mut self, key: &[u8], is_left: bool, count: Option<&Vec<u8>>) -> Expected {
        let mut list = self.list(key);
        if list.is_empty() {
            return count.map_or_else(nil, |_| Expected::Exactly(b"*-1\r\n".to_vec()));
        }
        let most = count.map_or(1, |digits| integer(digits)).min(list.len());
        let popped: Vec<Vec<u8>> = match is_left {
            true => list.drain(..most).collect(),
            false => list.drain(list.len() - most..).rev().collect(),
        };
        self.hold(key, StoredValue::List(list));
        self.tell_of_part(pop_event(is_left), key);
        match count {
            None => bulk(&popped[0]),
            Some(_) => array(&popped),
        }
    }

    fn move_element(&mut self, from: &[u8], to: &[u8], left: bool, to_left: bool) -> Expected {
        let mut list = self.list(from);
        if list.is_empty() {
            return nil();
        }
        let index = if left { 0 } else { list.len() - 1 };
        let element = list.remove(index);
        let mut other = match from == to {
            true => list.clone(),
            false => self.list(to),
        };
        let index = if to_left { 0 } else { other.len() };
        other.insert(index, element.clone());
        if from != to {
            self.hold(from, StoredValue::List(list));
        }
        self.hold(to, StoredValue::List(other));
        self.tell(push_event(to_left), to);
        self.tell_of_part(pop_event(left), from);
        bulk(&element)
    }

    fn set_element(&mut self, key: &[u8], index: usize, element: &[u8]) -> Expected {
        let mut list = self.list(key);
        let Some(old) = list.get_mut(index) else {
            return Expected::Exactly(b"-".to_vec());
        };
        *old = element.to_vec();
        self.hold(key, StoredValue::List(list));
        self.tell("lset", key);
        Expected::Exactly(b"+OK\r\n".to_vec())
    }

    fn insert(&mut self, key: &[u8], is_after: bool, pivot: &[u8], element: &[u8]) -> Expected {
        let mut list = self.list(key);
        let place = list.iter().position(|one| one == pivot);
        match (list.is_empty(), place) {
            (true, _) => number(0),
            (_, None) => Expected::Exactly(b":-1\r\n".to_vec()),
            (_, Some(place)) => {
                list.insert(place + usize::from(is_after), element.to_vec());
                let length = list.len();
                self.hold(key, StoredValue::List(list));
                self.tell("linsert", key);
                number(length)
            }
        }
    }

    fn remove_elements(&mut self, key: &[u8], most: usize, element: &[u8]) -> Expected {
        let mut list = self.list(key);
        let mut removed = 0;
        list.retain(|one| {
            let goes = one == element && (most == 0 || removed < most);
            removed += usize::from(goes);
            !goes
        });
        if removed > 0 {
            self.hold(key, StoredValue::List(list));
            self.tell_of_part("lrem", key);
        }
        number(removed)
    }

    fn trim(&mut self, key: &[u8], start: usize, stop: usize) -> Expected {
        let list = self.list(key);
        let kept = list.iter().take(stop + 1).skip(start).cloned();
        let kept: Vec<Vec<u8>> = kept.collect();
        if kept.len() < list.len() {
            self.hold(key, StoredValue::List(kept));
        }
        if !list.is_empty() {
            self.tell_of_part("ltrim", key);
        }
        Expected::Exactly(b"+OK\r\n".to_vec())
    }

    fn set_of(&self, key: &[u8]) -> BTreeSet<Vec<u8>> {
        match self.item(key).map(|item| &item.value) {
            Some(StoredValue::Set(members)) => members.clone(),
            _ => BTreeSet::new(),
        }
    }

    fn add_members(&mut self, key: &[u8], members: &[Vec<u8>]) -> Expected {
        let mut set = self.set_of(key);
        let before = set.len();
        set.extend(members.iter().cloned());
        let added = set.len() - before;
        if added > 0 {
            self.hold(key, StoredValue::Set(set));
            self.tell("sadd", key);
        }
        number(added)
    }

    fn remove_members(&mut self, key: &[u8], members: &[Vec<u8>]) -> Expected {
        let mut set = self.set_of(key);
        let removed = members.iter().filter(|member| set.remove(*member));
        let removed = removed.count();
        if removed > 0 {
            self.hold(key, StoredValue::Set(set));
            self.tell_of_part("srem", key);
        }
        number(removed)
    }

    fn move_member(&mut self, from: &[u8], to: &[u8], member: &[u8]) -> Expected {
        let member = [member.to_vec()];
        if !self.set_of(from).contains(&member[0]) {
            return number(0);
        }
        if from != to {
            self.remove_members(from, &member);
            self.add_members(to, &member);
        }
        number(1)
    }

    fn scored(&self, key: &[u8]) -> Scored {
        match self.item(key).map(|item| &item.value) {
            Some(StoredValue::SortedSet(scored)) => scored.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns what the member had before.
    fn put_score(
        &mut self,
        event: &'static str,
        key: &[u8],
        score: usize,
        member: &[u8],
    ) -> Option<usize> {
        let mut scored = self.scored(key);
        let place = scored.iter().position(|one| one.1 == member);
        let old = place.map(|place| whole(scored.remove(place).0));
        if old != Some(score) {
            scored.push(((score as f64).to_bits(), member.to_vec()));
            scored.sort_by_key(|(score, member)| (whole(*score), member.clone()));
            self.hold(key, StoredValue::SortedSet(scored));
            self.tell(event, key);
        }
        old
    }

    fn add_score(&mut self, key: &[u8], score: usize, member: &[u8]) -> Expected {
        let old = self.put_score("zadd", key, score, member);
        number(usize::from(old.is_none()))
    }

    fn increment_score(&mut self, key: &[u8], by: usize, member: &[u8]) -> Expected {
        let scored = self.scored(key);
        let old = scored.iter().find(|one| one.1 == member);
        let sum = old.map_or(0, |one| whole(one.0)) + by;
        self.put_score("zincr", key, sum, member);
        bulk(sum.to_string().as_bytes())
    }

    fn remove_scored(
        &mut self,
        event: &'static str,
        key: &[u8],
        goes: impl Fn(u64, &[u8]) -> bool,
    ) -> Expected {
        let mut scored = self.scored(key);
        let before = scored.len();
        scored.retain(|(score, member)| !goes(*score, member));
        let removed = before - scored.len();
        if removed > 0 {
            self.hold(key, StoredValue::SortedSet(scored));
            self.tell_of_part(event, key);
        }
        number(removed)
    }

    fn pop_lowest(&mut self, key: &[u8]) -> Expected {
        let mut scored = self.scored(key);
        if scored.is_empty() {
            return array(&[]);
        }
        let (score, member) = scored.remove(0);
        self.hold(key, StoredValue::SortedSet(scored));
        self.tell_of_part("zpopmin", key);
        array(&[member, whole(score).to_string().into_bytes()])
    }

    fn pop_lowest_or_wait(&mut self, key: &[u8]) -> Expected {
        let Some((score, member)) = self.scored(key).into_iter().next() else {
            return WAITS;
        };
        self.pop_lowest(key);
        let score = whole(score).to_string().into_bytes();
        array(&[key.to_vec(), member, score])
    }
}

fn push_event(is_left: bool) -> &'static str {
    if is_left { "lpush" } else { "rpush" }
}

fn pop_event(is_left: bool) -> &'static str {
    if is_left { "lpop" } else { "rpop" }
}

/// No reply yet.
const WAITS: Expected = Expected::Exactly(Vec::new());

/// A workload's scores are whole numbers.
fn whole(score: u64) -> usize {
    format!("{:.0}", f64::from_bits(score)).parse().unwrap_or(0)
}

fn array(words: &[Vec<u8>]) -> Expected {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    Expected::Exactly(bytes)
}
