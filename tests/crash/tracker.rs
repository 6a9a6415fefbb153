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
    pub(crate) fn receive(&mut self, invalidation: &Invalidation) -> Option<Learnt> {
        match invalidation {
            Invalidation::Everything => self.flushed.pop_front(),
            Invalidation::Of(key) => {
                let kept = self.kept.get_mut(key)?.pop_front()?;
                kept.told.filter(|_| !kept.is_vague)
            }
        }
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
    Of(Vec<u8>),
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
        // One key, with its length before it.
        let lines: Vec<&[u8]> = rest.split_inclusive(|byte| *byte == b'\n').collect();
        match lines.as_slice() {
            [b"*1\r\n", length, key, ..] if key.ends_with(b"\r\n") => {
                let bytes = HEAD.len() + 4 + length.len() + key.len();
                let key = key[..key.len() - 2].to_vec();
                Beginning::Whole(Invalidation::Of(key), bytes)
            }
            _ => Beginning::Part,
        }
    }
}

/// With RESP3.
const HEAD: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";
const ALL: &[u8] = b"_\r\n";
