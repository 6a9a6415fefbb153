//! Forgetting keys where more are remembered than may be.
//!
//! Keys are forgotten some at a time, neighbours from a position that is drawn: neighbours were mostly read one after the
//! other by the same client, so that one message tells it of all of them, and their memory lies together. Where few may be remembered, each is told by itself.

use crate::channels::{ClientIds, Published};
use crate::reply::Reply;
use crate::tracking::ClientTracking;
use crate::tracking::table::Position;

impl ClientTracking {
    /// Whether keys are to be forgotten.
    pub(crate) fn is_over_limit(&self) -> bool {
        let is_over = self.keys_max > 0 && self.table.len() > self.keys_max;
        is_over || self.table.bytes() > TABLE_BYTES_MAX
    }

    /// Forgets some keys from a position on, and tells those who keep them.
    pub(crate) fn evict(&mut self, start: Position, published: &mut Vec<Published>) {
        let end = self.end();
        let mut left = (self.keys_max / KEYS_PER_EVICTED).min(EVICTED_MAX);
        let together_max = left.saturating_add(1);
        let mut group: (ClientIds, Vec<Reply>) = Default::default();
        let items_min = self.items().saturating_sub(ITEMS_PER_EVICTION);
        for position in (start..end).chain(0..start).take(POSITIONS_TRIED) {
            let is_enough = left == 0 && !self.is_over_limit();
            if is_enough || self.items() < items_min {
                break;
            }
            let Some((key, receivers)) = self.take_out(position, None) else {
                continue;
            };
            left = left.saturating_sub(1);
            if receivers != group.0 || group.1.len() >= together_max {
                let (receivers, keys) = std::mem::replace(&mut group, (receivers, Vec::new()));
                self.tell_evicted(keys, receivers, published);
            }
            group.1.push(Reply::Shared(key));
        }
        self.tell_evicted(group.1, group.0, published);
        self.discard_if_empty();
    }

    fn tell_evicted(&self, keys: Vec<Reply>, receivers: ClientIds, published: &mut Vec<Published>) {
        if !keys.is_empty() {
            self.tell(Reply::Array(keys), receivers, published);
        }
    }
}

/// So many keys more than have to be are forgotten at a time, where many may be remembered.
const EVICTED_MAX: usize = 15;
/// Of fewer keys, one more for each so many.
const KEYS_PER_EVICTED: usize = 64;
/// Once more than so many clients' keys are forgotten, the others are left to the next read: others wait meanwhile.
const ITEMS_PER_EVICTION: usize = 1024;
/// How many positions are looked at to find keys: most are taken where the limit has not been lowered.
const POSITIONS_TRIED: usize = 1024;
/// The memory of the table: with short keys, more than those need.
pub(crate) const TABLE_BYTES_MAX: usize = 512 << 20;
