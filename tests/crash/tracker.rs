//! A client that is told of changes of what it has read (CLIENT TRACKING): of which write each of its messages tells.
//!
//! Invariant: where a message may tell of no more than that a deadline has come, or of a write that has left everything
//! as it was, it counts as telling of nothing.

use std::collections::{BTreeMap, VecDeque};

use super::batch::{Effects, Played};
use super::session::{Learnt, Part};
use super::workload::Mode;

/// What it has read and was not told of since.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    kept: BTreeMap<Vec<u8>, VecDeque<Kept>>,
    /// What was taken away as a whole.
    flushed: VecDeque<Learnt>,
}

/// A read, and the first write behind it.
#[derive(Debug, Default)]
struct Kept {
    /// What the message will tell; `None` for as long as nothing was written.
    told: Option<Learnt>,
    /// The message may be of something that is no change of the model's.
    is_vague: bool,
}

impl Tracker {
    /// Notes that its client has read a key.
    pub(crate) fn note_read(&mut self, key: &[u8]) {
        let kept = self.kept.entry(key.to_vec()).or_default();
        // As long as nothing happens, it is told once.
        if kept.back().is_none_or(Kept::is_over) {
            kept.push_back(Kept::default());
        }
    }

    /// Notes what a request has done that anybody has sent.
    pub(crate) fn note_executed(&mut self, played: &Played, effects: &Effects, mode: Mode) {
        for key in &effects.expired {
            self.open(key, |kept| kept.is_vague = true);
        }
        if played.part != Part::Queued && !played.request.only_reads() {
            self.note_write(played, effects, mode);
        }
        if let Some(served) = &effects.served {
            for key in &served.changed {
                self.open(key, |kept| {
                    kept.told = Some(Learnt::own(served.told.clone(), mode))
                });
            }
        }
    }

    fn note_write(&mut self, played: &Played, effects: &Effects, mode: Mode) {
        if played.request.is_flush() && !played.is_refused() {
            return self.flush(effects.learnt(mode));
        }
        for key in &effects.changed {
            self.open(key, |kept| kept.told = Some(effects.learnt(mode)));
        }
        if !played.does_nothing() {
            for key in played.words() {
                self.open(key, |kept| kept.is_vague = true);
            }
        }
    }

    /// Changes the last read of a key, if nothing was written since.
    fn open(&mut self, key: &[u8], change: impl FnOnce(&mut Kept)) {
        let kept = self.kept.get_mut(key).and_then(VecDeque::back_mut);
        if let Some(kept) = kept.filter(|kept| !kept.is_over()) {
            change(kept);
        }
    }

    /// What is kept is told of at once, and as one.
    fn flush(&mut self, learnt: Learnt) {
        for kept in self.kept.values_mut() {
            kept.retain(Kept::is_over);
        }
        self.flushed.push_back(learnt);
    }

    /// What a message tells.
    pub(crate) fn receive(&mut self, invalidation: &Invalidation) -> Vec<Learnt> {
        match invalidation {
            Invalidation::Everything => self.flushed.pop_front().into_iter().collect(),
            Invalidation::Of(keys) => keys.iter().filter_map(|key| self.take(key)).collect(),
        }
    }

    fn take(&mut self, key: &[u8]) -> Option<Learnt> {
        let kept = self.kept.get_mut(key)?.pop_front()?;
        kept.told.filter(|_| !kept.is_vague)
    }
}

impl Kept {
    /// Whether its client will read it again to hear more.
    fn is_over(&self) -> bool {
        self.told.is_some() || self.is_vague
    }
}

/// What such a client is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invalidation {
    /// These keys, one or more.
    Of(Vec<Vec<u8>>),
    Everything,
}

/// How bytes begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// With a whole message of so many bytes.
    Whole(Invalidation, usize),
    /// Perhaps with a part of one.
    Part,
    /// With something else.
    Other,
}

impl Beginning {
    pub(crate) fn of(bytes: &[u8]) -> Beginning {
        let Some(rest) = bytes.strip_prefix(HEAD) else {
            return match HEAD.starts_with(bytes) {
                true => Beginning::Part,
                false => Beginning::Other,
            };
        };
        if rest.starts_with(ALL) {
            return Beginning::Whole(Invalidation::Everything, HEAD.len() + ALL.len());
        }
        // So many keys, each with its length before it.
        let mut lines = rest.split_inclusive(|byte| *byte == b'\n');
        let number = |line: Option<&[u8]>, mark: u8| -> Option<usize> {
            let digits = line?.strip_prefix(&[mark])?.strip_suffix(b"\r\n")?;
            std::str::from_utf8(digits).ok()?.parse().ok()
        };
        let head = lines.next();
        let Some(count) = number(head, b'*') else {
            return Beginning::Part;
        };
        let mut bytes = HEAD.len() + head.map_or(0, <[u8]>::len);
        let mut keys = Vec::new();
        for _ in 0..count {
            let (length, key) = (lines.next(), lines.next());
            let (Some(line), Some(_), Some(key)) = (length, number(length, b'$'), key) else {
                return Beginning::Part;
            };
            let Some(name) = key.strip_suffix(b"\r\n") else {
                return Beginning::Part;
            };
            bytes += line.len() + key.len();
            keys.push(name.to_vec());
        }
        Beginning::Whole(Invalidation::Of(keys), bytes)
    }
}

/// With RESP3.
const HEAD: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";
const ALL: &[u8] = b"_\r\n";
