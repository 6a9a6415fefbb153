//! A hierarchical timing wheel: which keys with a deadline are due to leave memory.
//!
//! Its links lie in the entries themselves, so that adding and removing are a few stores and never
//! allocate. It does not decide whether a key exists: that is a comparison with its deadline on every
//! access. The wheel only finds what may be freed, at a granularity of about a millisecond.
//!
//! Level n has 64 lists of 64^n ticks each. An entry lies at the level of the highest digit (base
//! 64) in which its tick differs from the wheel's own, and moves down as that time comes.

use crate::keyspace::entry::{NONE, Slot};
use crate::keyspace::slab::Slab;
use crate::time::{Deadline, NodeTime};

/// The lists of the wheel.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// The first entry of each list.
    heads: Box<[Slot]>,
    /// Which lists of a level are not empty, one bit each.
    occupied: [u64; LEVELS],
    /// Everything due before or at this tick has been handed out, except what still lies in the
    /// lists that begin at this very tick.
    elapsed: u64,
    /// How many entries were inserted since they were last forgotten.
    inserted: usize,
}

impl Default for Wheel {
    fn default() -> Wheel {
        let heads = vec![NONE; LEVELS * LISTS].into_boxed_slice();
        Wheel {
            heads,
            occupied: [0; LEVELS],
            elapsed: 0,
            inserted: 0,
        }
    }
}

impl Wheel {
    /// Adds an entry, which has a deadline and is in no list.
    pub(crate) fn insert(&mut self, slab: &mut Slab, slot: Slot) {
        self.inserted = self.inserted.saturating_add(1);
        self.place(slab, slot);
    }

    /// How many entries were inserted since they were last forgotten.
    pub(crate) fn inserted(&self) -> usize {
        self.inserted
    }

    pub(crate) fn forget_inserted(&mut self) {
        self.inserted = 0;
    }

    fn place(&mut self, slab: &mut Slab, slot: Slot) {
        let deadline = slab.get(slot).deadline;
        debug_assert!(
            deadline != Deadline::NEVER,
            "only deadlines belong into the wheel"
        );
        let list = self.list_for(tick_at_or_after(deadline));
        let next = std::mem::replace(&mut self.heads[list], slot);
        self.occupied[list / LISTS] |= 1 << (list % LISTS);
        if next != NONE {
            slab.get_mut(next).previous = slot;
        }
        let entry = slab.get_mut(slot);
        debug_assert!(entry.previous == NONE, "an entry is in one list at most");
        entry.previous = mark_of(list);
        entry.next = next;
    }

    /// Takes an entry out, if it is in.
    pub(crate) fn remove(&mut self, slab: &mut Slab, slot: Slot) {
        let entry = slab.get_mut(slot);
        let (previous, next) = (entry.previous, entry.next);
        if previous == NONE {
            return;
        }
        entry.previous = NONE;
        entry.next = NONE;
        if next != NONE {
            slab.get_mut(next).previous = previous;
        }
        if let Some(list) = list_of(previous) {
            self.heads[list] = next;
            if next == NONE {
                self.occupied[list / LISTS] &= !(1 << (list % LISTS));
            }
        } else {
            slab.get_mut(previous).next = next;
        }
    }

    /// An entry has moved into this slot: those before and behind it hear of that.
    pub(crate) fn follow(&mut self, slab: &mut Slab, slot: Slot) {
        let entry = slab.get(slot);
        let (previous, next) = (entry.previous, entry.next);
        if previous == NONE {
            return;
        }
        if next != NONE {
            slab.get_mut(next).previous = slot;
        }
        match list_of(previous) {
            Some(list) => self.heads[list] = slot,
            None => slab.get_mut(previous).next = slot,
        }
    }

    /// Takes out one entry whose deadline has come, spending from `budget` one step for each entry
    /// that is moved or handed out. `None` when nothing is due or the budget is spent.
    pub(crate) fn pop_due(
        &mut self,
        slab: &mut Slab,
        now: NodeTime,
        budget: &mut usize,
    ) -> Option<Slot> {
        let now_tick = now.as_nanos() / TICK_NANOS;
        loop {
            let Some(next) = self.next_list().filter(|next| next.tick <= now_tick) else {
                self.elapsed = self.elapsed.max(now_tick);
                return None;
            };
            self.elapsed = self.elapsed.max(next.tick);
            while self.heads[next.list] != NONE {
                if *budget == 0 {
                    return None;
                }
                *budget = budget.saturating_sub(1);
                let slot = self.heads[next.list];
                self.remove(slab, slot);
                if !slab.get(slot).is_live(now) {
                    return Some(slot);
                }
                self.place(slab, slot);
            }
        }
    }

    /// When something may next be handed out or moved. Never later than one tick after the
    /// earliest deadline.
    pub(crate) fn next_due(&self) -> Option<NodeTime> {
        let next = self.next_list()?;
        Some(NodeTime::from_nanos(next.tick.saturating_mul(TICK_NANOS)))
    }

    /// The list that begins first. Of two that begin together the
    /// one of the higher level, whose entries may have to move into the other.
    fn next_list(&self) -> Option<NextList> {
        let mut found: Option<NextList> = None;
        for (level, &occupied) in self.occupied.iter().enumerate().rev() {
            if occupied == 0 {
                continue;
            }
            let shift = shift_of(level);
            let current = self.elapsed >> shift;
            let ahead = occupied.rotate_right(digit_of(current)).trailing_zeros();
            let index = current.saturating_add(u64::from(ahead));
            let tick = index << shift;
            if found.is_none_or(|earliest| tick < earliest.tick) {
                let list = list_at(level, index);
                found = Some(NextList { tick, list });
            }
        }
        found
    }

    fn list_for(&self, tick: u64) -> usize {
        let last = self.elapsed.saturating_add(HORIZON_TICKS);
        let tick = tick.clamp(self.elapsed.saturating_add(1), last);
        let highest = (u64::BITS - 1).saturating_sub((tick ^ self.elapsed).leading_zeros());
        let level = ((highest / LIST_BITS) as usize).min(LEVELS - 1);
        list_at(level, tick >> shift_of(level))
    }
}

/// A list that holds something, and the tick at which it begins.
#[derive(Clone, Copy)]
struct NextList {
    tick: u64,
    list: usize,
}

/// The lowest digit of a number of ticks or lists.
fn digit_of(number: u64) -> u32 {
    (number & DIGIT_MASK) as u32
}

fn list_at(level: usize, number: u64) -> usize {
    level
        .saturating_mul(LISTS)
        .saturating_add(digit_of(number) as usize)
}

fn shift_of(level: usize) -> u32 {
    u32::try_from(level)
        .expect("there are six levels")
        .saturating_mul(LIST_BITS)
}

/// The first tick at which this deadline has come for certain.
fn tick_at_or_after(deadline: Deadline) -> u64 {
    deadline.as_nanos().div_ceil(TICK_NANOS)
}

/// The value of `previous` in a list's first entry. Slots are below this.
fn mark_of(list: usize) -> Slot {
    LIST_MARK | u32::try_from(list).expect("lists are few hundred")
}

fn list_of(previous: Slot) -> Option<usize> {
    (previous & LIST_MARK != 0).then_some((previous & !LIST_MARK) as usize)
}

/// A power of two near a millisecond.
const TICK_NANOS: u64 = 1 << 20;
const LIST_BITS: u32 = 6;
const LISTS: usize = 1 << LIST_BITS;
const DIGIT_MASK: u64 = (1 << LIST_BITS) - 1;

/// Together 64^6 ticks, about 830 days; what lies beyond is looked at again when it comes nearer.
const LEVELS: usize = 6;
const HORIZON_TICKS: u64 = 62 << (LIST_BITS * 5);

const LIST_MARK: Slot = 1 << 31;

#[cfg(test)]
#[path = "wheel_tests.rs"]
mod tests;
