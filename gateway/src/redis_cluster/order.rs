//! The order of the requests about a lock, where a server hands one back to be asked again a little later.
//!
//! Invariant: what a later request has passed is not asked again. So servers carry the requests of a holder about a lock out in the order in
//! which the client has sent them, as far as they carry them out at all. Requests that share no token need no order: each leaves the locks of
//! the others as they are.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;

/// The requests under way.
#[derive(Default)]
pub(super) struct Order {
    entries: Rc<RefCell<Vec<Rc<Entry>>>>,
}

/// The locks that a request is about, and the tokens that it names. A request that changes nothing names none.
pub(super) struct About {
    pub(super) names: Vec<Bytes>,
    pub(super) tokens: Vec<Bytes>,
}

struct Entry {
    about: About,
    is_passed: Cell<bool>,
}

/// A request that is under way as long as this exists.
pub(super) struct UnderWay {
    entries: Rc<RefCell<Vec<Rc<Entry>>>>,
    entry: Rc<Entry>,
}

impl Order {
    /// Notes that a request begins. It passes those under way about a lock of the same holder.
    pub(super) fn begin(&self, about: About) -> UnderWay {
        let entry = Rc::new(Entry {
            about,
            is_passed: Cell::new(false),
        });
        let mut entries = self.entries.borrow_mut();
        for earlier in entries.iter() {
            if earlier.about.shares_a_lock(&entry.about) {
                earlier.is_passed.set(true);
            }
        }
        entries.push(Rc::clone(&entry));
        UnderWay {
            entries: Rc::clone(&self.entries),
            entry,
        }
    }
}

impl About {
    fn shares_a_lock(&self, other: &Self) -> bool {
        let shares = |ours: &[Bytes], theirs: &[Bytes]| ours.iter().any(|one| theirs.contains(one));
        shares(&self.tokens, &other.tokens) && shares(&self.names, &other.names)
    }
}

impl UnderWay {
    /// Whether a later request about a lock of the same holder has begun.
    pub(super) fn is_passed(&self) -> bool {
        self.entry.is_passed.get()
    }

    pub(super) fn names(&self) -> &[Bytes] {
        &self.entry.about.names
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let is_other = |entry: &Rc<Entry>| !Rc::ptr_eq(entry, &self.entry);
        self.entries.borrow_mut().retain(is_other);
    }
}
