//! The cache held to plain lists: who stays, who leaves, and how many in one request.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::cache::{
    COMPILED_BYTES_MAX, COMPILED_MAX, Cache, EVALUATED_BYTES_MAX, EVALUATED_MAX, LEAVING_MAX,
    SCRIPT_BYTES,
};
use super::recency::Slot;

/// A text that is long without taking the test's memory for every script.
fn body(number: u32, bytes: usize) -> Vec<u8> {
    let number = number.to_string();
    let mut body = vec![b' '; bytes.max(number.len())];
    body[..number.len()].copy_from_slice(number.as_bytes());
    body
}

/// What the cache should hold, found by searching.
#[derive(Default)]
struct Model {
    bodies: BTreeMap<u32, Vec<u8>>,
    loaded: Vec<u32>,
    /// Oldest first.
    evaluated: Vec<u32>,
    compiled: Vec<(u32, usize)>,
}

impl Model {
    fn cost(&self, numbers: &[u32]) -> usize {
        let cost = |number: &u32| self.bodies[number].len() + SCRIPT_BYTES;
        numbers.iter().map(cost).sum()
    }

    fn compiled_bytes(&self) -> usize {
        self.compiled.iter().map(|(_, bytes)| bytes).sum()
    }

    /// EVAL or EVALSHA of a known script; the number of compilations.
    fn use_script(&mut self, number: u32, function_bytes: usize) -> usize {
        if let Some(at) = self.evaluated.iter().position(|&other| other == number) {
            self.evaluated.remove(at);
            self.evaluated.push(number);
        }
        if let Some(at) = self.compiled.iter().position(|&(other, _)| other == number) {
            let entry = self.compiled.remove(at);
            self.compiled.push(entry);
            return 0;
        }
        self.compiled.push((number, function_bytes));
        let mut left = 0;
        while left < LEAVING_MAX
            && self.compiled.len() > 1
            && (self.compiled.len() > COMPILED_MAX || self.compiled_bytes() > COMPILED_BYTES_MAX)
        {
            self.compiled.remove(0);
            left += 1;
        }
        1
    }

    fn eval(&mut self, number: u32, body: Vec<u8>) -> usize {
        let cost = body.len() + SCRIPT_BYTES;
        let mut left = 0;
        while left < LEAVING_MAX
            && !self.evaluated.is_empty()
            && (self.evaluated.len() >= EVALUATED_MAX
                || self.cost(&self.evaluated) + cost > EVALUATED_BYTES_MAX)
        {
            let gone = self.evaluated.remove(0);
            self.compiled.retain(|&(other, _)| other != gone);
            self.bodies.remove(&gone);
            left += 1;
        }
        self.bodies.insert(number, body);
        self.evaluated.push(number);
        left
    }
}

/// The cache as the runner drives it.
fn use_slot(cache: &mut Cache<u32>, slot: Slot, number: u32, bytes: usize) -> usize {
    if let Some(function) = cache.function(slot) {
        assert_eq!(function, number, "another script's function");
        return 0;
    }
    let forgotten = cache.set_function(slot, number, bytes);
    assert!(
        forgotten <= LEAVING_MAX,
        "{forgotten} functions left at once"
    );
    1
}

/// Adds a script; says how many others made room for it.
fn insert(cache: &mut Cache<u32>, body: &[u8]) -> (Slot, usize) {
    let before = cache.len();
    let slot = cache.insert(body, false);
    (slot, before + 1 - cache.len())
}

fn check(cache: &Cache<u32>, model: &Model) {
    assert_eq!(cache.len(), model.bodies.len());
    let all: Vec<u32> = model.bodies.keys().copied().collect();
    assert_eq!(cache.bytes(), model.cost(&all));
    assert_eq!(
        cache.compiled(),
        (model.compiled.len(), model.compiled_bytes())
    );
    for (number, body) in &model.bodies {
        let slot = cache
            .find(body)
            .unwrap_or_else(|| panic!("{number} is gone"));
        let sha = cache.get(slot).map(|script| script.sha).unwrap_or_default();
        assert_eq!(cache.find_sha(&sha), Some(slot));
    }
}

const LOADED_MAX: usize = 300_000;

/// Long texts and large functions, so that the limits are met with few steps.
fn drive(steps: Vec<(u8, u32, usize, usize)>) {
    let (mut cache, mut model) = (Cache::new(5), Model::default());
    for (at, (kind, number, body_bytes, function_bytes)) in steps.into_iter().enumerate() {
        let body = model
            .bodies
            .get(&number)
            .cloned()
            .unwrap_or_else(|| body(number, body_bytes));
        let known = cache.find(&body);
        assert_eq!(known.is_some(), model.bodies.contains_key(&number));
        match kind {
            0..6 => {
                let slot = known.unwrap_or_else(|| {
                    let (slot, removed) = insert(&mut cache, &body);
                    assert_eq!(removed, model.eval(number, body.clone()));
                    assert!(removed <= LEAVING_MAX, "{removed} texts left at once");
                    slot
                });
                let compiled = use_slot(&mut cache, slot, number, function_bytes);
                assert_eq!(compiled, model.use_script(number, function_bytes));
            }
            6..8 => {
                let cost = model.cost(&model.loaded) + body.len() + SCRIPT_BYTES;
                let is_loaded = model.loaded.contains(&number);
                let done = match known {
                    Some(slot) => cache.keep(slot, LOADED_MAX).is_ok(),
                    None => cache.insert_loaded(&body, false, LOADED_MAX).is_ok(),
                };
                assert_eq!(done, is_loaded || cost <= LOADED_MAX);
                if done && !is_loaded {
                    model.bodies.insert(number, body);
                    model.evaluated.retain(|&other| other != number);
                    model.loaded.push(number);
                }
            }
            8 => {
                cache.forget_functions();
                model.compiled.clear();
            }
            _ => {
                cache.clear();
                model = Model::default();
            }
        }
        if at % 50 == 0 {
            check(&cache, &model);
        }
    }
    check(&cache, &model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_cache_is_what_plain_lists_say(
        steps in prop::collection::vec(
            (
                prop_oneof![60 => 0..8_u8, 2 => Just(8_u8), 1 => Just(9_u8)],
                0..60_u32,
                prop_oneof![2 => 1..2000_usize, 1 => Just(60_000), 1 => Just(600_000)],
                prop_oneof![1..100_000_usize, Just(3 << 20)],
            ),
            0..150,
        )
    ) {
        drive(steps);
    }
}

#[test]
fn five_hundred_scripts_of_eval_are_kept_by_their_last_use() {
    let mut steps: Vec<_> = (0..1100).map(|number| (0, number, 10, 1000)).collect();
    steps.push((0, 700, 10, 1000));
    steps.extend((2000..2400).map(|number| (0, number, 10, 1000)));
    drive(steps);
}

/// Few large ones after many small ones: the sums go beyond their limits by what a few requests bring.
#[test]
fn no_request_makes_more_than_a_few_leave_and_a_few_make_up_for_it() {
    let mut cache = Cache::new(1);
    for number in 0..500 {
        let slot = cache.insert(&body(number, 10), false);
        use_slot(&mut cache, slot, number, 100);
    }
    let (text_bytes, function_bytes) = (1 << 20, 5 << 20);
    let mut most = (0, 0);
    for number in 1000..1030 {
        let (slot, removed) = insert(&mut cache, &body(number, text_bytes));
        assert!(removed <= LEAVING_MAX);
        use_slot(&mut cache, slot, number, function_bytes);
        most = (most.0.max(cache.bytes()), most.1.max(cache.compiled().1));
    }
    assert!(
        most.0 <= EVALUATED_BYTES_MAX + 8 * (text_bytes + SCRIPT_BYTES),
        "{most:?}"
    );
    assert!(
        most.1 <= COMPILED_BYTES_MAX + 8 * function_bytes,
        "{most:?}"
    );
    assert!(cache.bytes() <= EVALUATED_BYTES_MAX, "made up for");
    assert!(cache.compiled().1 <= COMPILED_BYTES_MAX, "made up for");
}
