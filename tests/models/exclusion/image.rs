//! What a log says: its frames, and what any prefix of them amounts to.
//!
//! The fold over control records is the production [`History`]; a complete checkpoint begins it anew,
//! as a replay does that starts with the checkpoint.

use quorlock_engine::NodeTime;
use quorlock_engine::control::ControlRecord;
use quorlock_engine::restart::History;

use super::mutant::Mutant;
use crate::parts::Token;

/// The one key that all nodes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) token: Token,
    pub(crate) deadline: NodeTime,
    /// It was brought to life by an extension, which must never be.
    pub(crate) is_extension: bool,
}

/// What the log holds at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    Record(ControlRecord),
    /// The key's post-image.
    Group(Option<Key>),
    /// Completes a checkpoint.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) time: NodeTime,
    pub(crate) entry: Entry,
}

/// What a prefix of the log says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Image {
    pub(crate) history: History,
    /// What it says from the opening of a checkpoint on, until that is complete or given up.
    checkpoint: Option<History>,
    pub(crate) key: Option<Key>,
}

impl Image {
    pub(crate) fn apply(&mut self, frame: &Frame, mutant: Mutant) {
        let was_shut_down = self.history.is_shut_down;
        match &frame.entry {
            Entry::Record(record) => {
                if matches!(record, ControlRecord::Control(_)) {
                    self.checkpoint = Some(History::default());
                }
                self.history.record(frame.time, record);
                if let Some(history) = &mut self.checkpoint {
                    history.record(frame.time, record);
                }
            }
            Entry::Group(key) => {
                self.key = *key;
                self.history.frame(frame.time);
                if let Some(history) = &mut self.checkpoint {
                    history.frame(frame.time);
                }
            }
            Entry::End => {
                if let Some(history) = self.checkpoint.take() {
                    self.history = history;
                }
                self.history.frame(frame.time);
            }
        }
        if mutant == Mutant::ShutdownSticks && was_shut_down {
            self.history.is_shut_down = true;
        }
    }
}
