//! The wheel held to a plain list of deadlines, and its far corners.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::keyspace::entry::{Body, Entry, Slot};
use crate::keyspace::slab::Slab;
use crate::keyspace::wheel::Wheel;
use crate::position::LogPosition;
use crate::time::{Deadline, NodeTime};

const MS: u64 = 1_000_000;

struct Pair {
    slab: Slab,
    wheel: Wheel,
    model: BTreeMap<Slot, u64>,
}

impl Pair {
    fn new() -> Pair {
        Pair {
            slab: Slab::default(),
            wheel: Wheel::default(),
            model: BTreeMap::new(),
        }
    }

    fn insert(&mut self, deadline: u64) {
        let entry = Entry::new(
            0,
            Body::string(b"k", b"v"),
            Deadline::at(NodeTime::from_nanos(deadline)),
            LogPosition::from_raw(1),
        );
        let slot = self.slab.insert(entry).expect("there is room");
        self.wheel.insert(&mut self.slab, slot);
        self.model.insert(slot, deadline);
    }

    fn remove(&mut self, place: usize) {
        let Some((&slot, _)) = self.model.iter().nth(place) else {
            return;
        };
        self.wheel.remove(&mut self.slab, slot);
        self.slab.remove(slot);
        self.model.remove(&slot);
    }

    /// Takes out what is due, and checks that it is due, and that nothing is left over for long.
    fn advance(&mut self, now: u64, budget: usize) {
        let mut left = budget;
        while let Some(slot) =
            self.wheel
                .pop_due(&mut self.slab, NodeTime::from_nanos(now), &mut left)
        {
            let deadline = self.model.remove(&slot).expect("each entry comes out once");
            assert!(deadline <= now, "{deadline} came out at {now}");
            self.slab.remove(slot);
        }
        if left > 0 {
            let overdue = self
                .model
                .values()
                .find(|&&deadline| deadline.saturating_add(3 * MS) < now);
            assert_eq!(overdue, None, "left over at {now}");
        }
        match self.wheel.next_due() {
            None => assert!(self.model.is_empty(), "an entry without a hint"),
            Some(due) => {
                let earliest = self
                    .model
                    .values()
                    .min()
                    .copied()
                    .expect("a hint without entry");
                assert!(
                    due.as_nanos() <= earliest.max(now).saturating_add(3 * MS),
                    "the hint is late"
                );
            }
        }
    }
}

#[test]
fn what_is_due_comes_out_at_every_distance() {
    for start in [
        0,
        1,
        63 * MS,
        64 * MS,
        u64::from(u32::MAX) * MS,
        u64::MAX / 2,
    ] {
        let mut pair = Pair::new();
        pair.advance(start, 10);
        let distances: Vec<u64> = (0..52)
            .flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1])
            .collect();
        for &distance in &distances {
            pair.insert(start + distance * 1000);
        }
        for &distance in &distances {
            pair.advance(start + distance * 1000 + 3 * MS, usize::MAX);
        }
        assert!(pair.model.is_empty());
        assert_eq!(pair.wheel.next_due(), None);
    }
}

#[test]
fn deadlines_at_the_end_of_time_wait_without_being_in_the_way() {
    let mut pair = Pair::new();
    pair.insert(u64::MAX - 1);
    pair.insert(u64::MAX - 1);
    pair.insert(5 * MS);
    pair.advance(10 * MS, 100);
    assert_eq!(pair.model.len(), 2);
    // Years go by; looking again costs a few steps each time.
    for year in 1..50 {
        pair.advance(year * 365 * 86_400_000 * MS, 100);
    }
    assert_eq!(pair.model.len(), 2);
}

#[test]
fn an_insert_into_the_past_is_found() {
    let mut pair = Pair::new();
    pair.advance(1_000 * MS, 10);
    pair.insert(1);
    pair.insert(999 * MS);
    pair.advance(1_004 * MS, 10);
    assert!(pair.model.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Insert { after_us: u64 },
    Remove { place: usize },
    Advance { by_us: u64, budget: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let distance = prop_oneof![
        0..2_000_u64,
        0..200_000_u64,
        0..50_000_000_u64,
        0..1_u64 << 46
    ];
    let by = prop_oneof![
        0..2_000_u64,
        0..200_000_u64,
        0..100_000_000_u64,
        0..1_u64 << 40
    ];
    prop_oneof![
        4 => distance.prop_map(|after_us| Step::Insert { after_us }),
        1 => (0..50_usize).prop_map(|place| Step::Remove { place }),
        2 => (by, prop_oneof![0..8_usize, Just(usize::MAX)])
            .prop_map(|(by_us, budget)| Step::Advance { by_us, budget }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn the_wheel_behaves_like_a_list(steps in prop::collection::vec(step(), 0..300)) {
        let (mut pair, mut now) = (Pair::new(), 7 * MS);
        for step in steps {
            match step {
                Step::Insert { after_us } => pair.insert(now + after_us * 1000),
                Step::Remove { place } => pair.remove(place),
                Step::Advance { by_us, budget } => {
                    now += by_us * 1000;
                    pair.advance(now, budget);
                }
            }
        }
        pair.advance(u64::MAX - 1, usize::MAX);
        prop_assert!(pair.model.is_empty());
    }
}
