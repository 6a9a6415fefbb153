//! A script or a transaction is undone as one: where its effects began, and how they are kept or taken back.

use crate::channels::{Published, PushMessage};
use crate::context::{CommandContext, REQUIRE_TTL, is_covered};
use crate::error::ErrorReply;
use crate::keyspace::entry::Entry;
use crate::keyspace::partial::Partial;
use crate::time::NodeTime;

/// How the effects were when a script or a transaction began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoMark {
    records: usize,
    journal_bytes: usize,
    published: usize,
    longest_deadline: Option<NodeTime>,
    uncovered: bool,
    /// What the snapshot holds of a collection: its parts are taken between requests.
    partial: Option<Partial>,
}

impl CommandContext<'_> {
    /// Starts to record how to undo what follows, when a script or a transaction starts.
    pub(crate) fn begin_undo(&mut self) -> UndoMark {
        UndoMark {
            records: self.keyspace.begin_undo(),
            journal_bytes: self.effects.journal.len(),
            published: self.effects.published.len(),
            longest_deadline: self.effects.longest_deadline,
            uncovered: self.effects.uncovered,
            partial: self.keyspace.partial,
        }
    }

    /// Whether something was written since.
    pub(crate) fn has_written_since(&self, mark: UndoMark) -> bool {
        self.effects.journal.len() > mark.journal_bytes
    }

    /// Keeps what the script or transaction did. With `require-ttl` one that leaves a key without a
    /// sufficient deadline is undone instead, and refused; only the state after its end counts, and of
    /// a script in a transaction that after the transaction's.
    pub(crate) fn commit_undo(&mut self, mark: UndoMark) -> Result<(), ErrorReply> {
        if self.keyspace.is_nested() {
            self.keyspace.commit_undo(self.effects.position, true);
            return Ok(());
        }
        let (limit, position) = (self.covered_until(), self.effects.position);
        let is_uncovered = |entry: &&Entry| {
            !entry.is_vacant() && entry.position() == position && !is_covered(entry.deadline, limit)
        };
        let found: Vec<u64> = self
            .keyspace
            .written_entries()
            .filter(is_uncovered)
            .map(|entry| self.keyspace.hash_of(entry))
            .collect();
        if !found.is_empty() {
            if self.keyspace.rules.require_ttl {
                self.rollback(mark);
                return Err(REQUIRE_TTL);
            }
            self.effects.uncovered = true;
            for hash in found {
                self.keyspace.mark_uncovered(hash, position);
            }
        }
        let has_written = self.has_written_since(mark);
        self.keyspace.commit_undo(position, has_written);
        Ok(())
    }

    /// Takes back what the script or transaction did, as if it had never been called. What it has read stays in
    /// the reply's dependency.
    pub(crate) fn rollback(&mut self, mark: UndoMark) {
        let position = self.effects.position;
        self.keyspace.rollback(mark.records, position);
        self.keyspace.partial = mark.partial;
        self.effects.journal.truncate(mark.journal_bytes);
        // Who was told to forget a key is not remembered for it any more, and has to be told.
        let since = self.effects.published.split_off(mark.published);
        let is_kept = |one: &Published| !matches!(one.message, PushMessage::Published(_));
        self.effects
            .published
            .extend(since.into_iter().filter(is_kept));
        self.effects.longest_deadline = mark.longest_deadline;
        self.effects.uncovered = mark.uncovered;
        let depends = &mut self.effects.depends;
        depends.any = depends.any.min(position.previous());
        depends.synced = depends.synced.min(position.previous());
    }
}
