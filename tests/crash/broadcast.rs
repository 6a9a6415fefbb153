//! A client that is told of all keys with its prefixes (CLIENT TRACKING with BCAST): of which writes each of its messages
//! tells.
//!
//! Invariant: changes of a prefix are told of in their order, none is left out, and each before a reply that could show
//! it. A node puts several changes into one message, as many as it likes; a change that may have been in a message
//! counts as told, and the message as telling of the first one of each key. A request that has left a key as it was may be
//! told of or not. A key that has expired may be told of at any time: from then on it counts as telling of nothing.

use std::collections::{BTreeSet, VecDeque};

use super::batch::{Effects, Played};
use super::check::Violation;
use super::session::{Learnt, Part};
use super::workload::Mode;

/// What it is to be told of each prefix.
#[derive(Debug)]
pub(crate) struct Broadcasts {
    prefixes: Vec<Prefix>,
    /// What was taken away as a whole.
    flushed: VecDeque<Learnt>,
}

/// One prefix.
#[derive(Debug)]
struct Prefix {
    beginning: &'static [u8],
    changes: VecDeque<Change>,
    /// So many of the first changes may have been told of.
    open: usize,
    /// Keys that may be told of at any time.
    expired: BTreeSet<Vec<u8>>,
}

#[derive(Debug)]
enum Change {
    /// Of a key.
    Of(Vec<u8>, Learnt),
    /// Of a key, or none.
    Perhaps(Vec<u8>),
    /// A request of the client itself: its reply comes behind what was told before.
    Asked,
}

impl Broadcasts {
    pub(crate) fn new() -> Broadcasts {
        let prefixes = PREFIXES.map(|beginning| Prefix {
            beginning: beginning.as_bytes(),
            changes: VecDeque::new(),
            open: 0,
            expired: BTreeSet::new(),
        });
        Broadcasts {
            prefixes: prefixes.into(),
            flushed: VecDeque::new(),
        }
    }

    /// Notes that its client's own request is executed.
    pub(crate) fn note_asked(&mut self) {
        for prefix in &mut self.prefixes {
            prefix.changes.push_back(Change::Asked);
        }
    }

    /// Notes that the reply to a request of its client has come.
    pub(crate) fn note_answered(&mut self) -> Result<(), Violation> {
        self.prefixes.iter_mut().try_for_each(Prefix::answer)
    }

    /// Notes what a request has done that anybody has sent.
    pub(crate) fn note_executed(&mut self, played: &Played, effects: &Effects, mode: Mode) {
        self.note_expired(&effects.expired);
        if played.part != Part::Queued && !played.request.only_reads() {
            self.note_write(played, effects, mode);
        }
        if let Some(served) = &effects.served {
            let learnt = Learnt::own(served.told.clone(), mode);
            self.note_changed(&served.changed, &learnt);
        }
    }

    /// Notes that the deadlines of these keys have come.
    pub(crate) fn note_expired<'a>(&mut self, keys: impl IntoIterator<Item = &'a Vec<u8>>) {
        for key in keys {
            if let Some(prefix) = self.prefix_of(key) {
                prefix.expired.insert(key.clone());
            }
        }
    }

    fn note_write(&mut self, played: &Played, effects: &Effects, mode: Mode) {
        if played.request.is_flush() && !played.is_refused() {
            return self.flushed.push_back(effects.learnt(mode));
        }
        self.note_changed(&effects.changed, &effects.learnt(mode));
        if !played.does_nothing() {
            let words = played.words();
            for word in words.filter(|word| !effects.changed.contains(word)) {
                if let Some(prefix) = self.prefix_of(word) {
                    prefix.changes.push_back(Change::Perhaps(word.clone()));
                }
            }
        }
    }

    fn note_changed(&mut self, keys: &[Vec<u8>], learnt: &Learnt) {
        for key in keys {
            if let Some(prefix) = self.prefix_of(key) {
                let change = Change::Of(key.clone(), learnt.clone());
                prefix.changes.push_back(change);
            }
        }
    }

    fn prefix_of(&mut self, key: &[u8]) -> Option<&mut Prefix> {
        let mut prefixes = self.prefixes.iter_mut();
        prefixes.find(|prefix| key.starts_with(prefix.beginning))
    }

    /// What a message tells that all keys were taken away.
    pub(crate) fn receive_flush(&mut self) -> Vec<Learnt> {
        self.flushed.pop_front().into_iter().collect()
    }

    /// What a message of these keys tells.
    pub(crate) fn receive(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Learnt>, Violation> {
        let prefix = keys.first().and_then(|key| self.prefix_of(key));
        match prefix {
            Some(prefix) if keys.iter().all(|key| key.starts_with(prefix.beginning)) => {
                prefix.receive(keys)
            }
            _ => Err(Violation::new("a message is of no prefix", texts(keys))),
        }
    }
}

impl Prefix {
    fn receive(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Learnt>, Violation> {
        let is_certain = |key: &&Vec<u8>| !self.expired.contains(*key);
        let mut missing: BTreeSet<&Vec<u8>> = keys.iter().filter(is_certain).collect();
        let mut learnt = Vec::new();
        let mut told = 0;
        while !missing.is_empty() {
            let Some(change) = self.changes.get(told) else {
                let detail = texts(missing);
                return Err(Violation::new("a message is of what nobody did", detail));
            };
            match change {
                Change::Of(key, change) => {
                    if missing.remove(key) {
                        learnt.push(change.clone());
                    }
                    if told >= self.open && !self.may_be_told(key, keys) {
                        return Err(left_out(key));
                    }
                }
                Change::Perhaps(key) => {
                    missing.remove(key);
                }
                Change::Asked => {}
            }
            told += 1;
        }
        // What the client has asked meanwhile is still to be answered.
        let asked = self.changes.iter().take(told);
        let asked = asked
            .filter(|change| matches!(change, Change::Asked))
            .count();
        self.changes.drain(..told);
        let behind = self.changes.iter().enumerate();
        let open = behind.take_while(|(index, change)| match change {
            Change::Of(key, _) => index + told < self.open || self.may_be_told(key, keys),
            Change::Perhaps(_) | Change::Asked => true,
        });
        self.open = open.count() + asked;
        (0..asked).for_each(|_| self.changes.push_front(Change::Asked));
        Ok(learnt)
    }

    /// Whether a change of this key may be in a message of these, or in one that is told at another time.
    fn may_be_told(&self, key: &Vec<u8>, keys: &[Vec<u8>]) -> bool {
        keys.contains(key) || self.expired.contains(key)
    }

    fn answer(&mut self) -> Result<(), Violation> {
        while let Some(change) = self.changes.pop_front() {
            let is_open = self.open > 0;
            self.open = self.open.saturating_sub(1);
            match change {
                Change::Asked => break,
                Change::Of(key, _) if !is_open && !self.expired.contains(&key) => {
                    return Err(left_out(&key));
                }
                Change::Of(..) | Change::Perhaps(_) => {}
            }
        }
        Ok(())
    }
}

fn left_out(key: &Vec<u8>) -> Violation {
    Violation::new("a change of a prefix is not told", texts([key]))
}

fn texts<'a>(keys: impl IntoIterator<Item = &'a Vec<u8>>) -> String {
    let keys = keys.into_iter().map(|key| String::from_utf8_lossy(key));
    keys.collect::<Vec<_>>().join(", ")
}

/// What it asks for. Other keys have to stay unknown to it, also one that begins in the same way.
pub(crate) const PREFIXES: [&str; 3] = ["k", "l1", "counter"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes by the first letters of keys, `?` behind what may be none, `|` for a request of the client.
    fn prefix(changes: &str) -> Prefix {
        let learnt = Learnt {
            tells_of: Vec::new(),
            mode: Mode::Always,
        };
        let change = |word: &str| match (word, word.strip_suffix('?')) {
            ("|", _) => Change::Asked,
            (_, Some(word)) => Change::Perhaps(word.into()),
            (word, None) => Change::Of(word.into(), learnt.clone()),
        };
        Prefix {
            beginning: b"",
            changes: changes.split(' ').map(change).collect(),
            open: 0,
            expired: BTreeSet::from([b"gone".to_vec()]),
        }
    }

    /// Receives messages and replies (`|`); of how many changes they tell, or what is wrong.
    fn receive(changes: &str, messages: &str) -> Result<usize, String> {
        let mut prefix = prefix(changes);
        let mut told = 0;
        for message in messages.split(' ') {
            let received = match message {
                "|" => prefix.answer().map(|()| Vec::new()),
                keys => {
                    let keys = keys.split('+').map(Vec::from);
                    prefix.receive(&keys.collect::<Vec<_>>())
                }
            };
            told += received.map_err(|violation| violation.what)?.len();
        }
        Ok(told)
    }

    #[test]
    fn changes_may_share_a_message_and_none_is_left_out_before_a_reply() {
        for (changes, messages, expected) in [
            ("a b", "a b", Ok(2)),
            ("a b", "a+b", Ok(2)),
            ("a b a |", "a+b |", Ok(2)),
            ("a b a |", "a+b a |", Ok(3)),
            ("a | b", "a | b", Ok(2)),
            ("a b |", "a+b |", Ok(2)),
            ("a | b", "a+b |", Ok(2)),
            ("a? b", "b", Ok(1)),
            ("a? b", "a b", Ok(1)),
            ("a", "gone a", Ok(1)),
            ("gone a", "a", Ok(1)),
            ("a b", "b", Err("is not told")),
            ("a b |", "a |", Err("is not told")),
            ("a b a |", "a |", Err("is not told")),
            ("a", "b", Err("is not told")),
            ("a", "a a", Err("nobody did")),
            ("a? b", "a a", Err("is not told")),
        ] {
            let received = receive(changes, messages);
            let is_expected = match (&received, expected) {
                (Ok(told), Ok(expected)) => *told == expected,
                (Err(said), Err(expected)) => said.contains(expected),
                _ => false,
            };
            assert!(is_expected, "{changes}, then {messages}: {received:?}");
        }
    }
}
