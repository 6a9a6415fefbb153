//! Databases that have become small take little memory again, and a key of theirs is found quickly.
//!
//! Where more of a database's slots are free than used, the key in the last slot moves into a free one, and the last
//! slot is given back. That takes at most two such steps for each key that leaves, so that no request waits long:
//! every command makes a few, and the maintenance the rest. Nothing moves while a script or a transaction runs, which
//! may be undone and holds slots.

use crate::keyspace::Keyspace;
use crate::keyspace::entry::Slot;

impl Keyspace {
    /// Takes at most so many steps; says whether there are more to take.
    #[inline]
    pub(crate) fn shrink(&mut self, steps: usize) -> bool {
        let tracks_more = self.tracking.is_sparse() && self.tracking.shrink(steps);
        (self.slab.may_be_sparse() && self.shrink_databases(steps)) || tracks_more
    }

    // What nearly every command asks above is to stay small.
    #[inline(never)]
    fn shrink_databases(&mut self, steps: usize) -> bool {
        debug_assert!(
            !self.is_recording(),
            "no key moves while a script or a transaction runs"
        );
        for _ in 0..steps {
            let Some(database) = self.slab.sparse() else {
                return false;
            };
            if let Some(chunks) = self.slab.take_empty(database) {
                let is_empty = self.counts.iter().all(|count| count.keys == 0);
                if is_empty && !chunks.is_empty() {
                    self.discarded.add_holders(self.holders.take_all());
                }
                self.discarded.add_chunks(chunks);
            } else if let Some((from, to)) = self.slab.shorten(database) {
                self.follow(from, to);
            }
        }
        self.slab.sparse().is_some()
    }

    /// Everything that knows an entry by its slot hears that it has moved.
    fn follow(&mut self, from: Slot, to: Slot) {
        let hash = self.hash_of(self.slab.get(to));
        self.index.renumber(hash, from, to);
        self.wheel.follow(&mut self.slab, to);
        self.expired.follow(from, to);
        self.holders.follow(from, to);
        if let Some(partial) = self.partial.as_mut().filter(|partial| partial.slot == from) {
            partial.slot = to;
        }
    }
}

/// Two for a key that has left, and two of those that are left from before: some microseconds.
pub(crate) const STEPS_PER_COMMAND: usize = 4;
