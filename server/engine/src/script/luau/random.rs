//! The random numbers of `math.random`: Redis's generator, and so Redis's numbers after `math.randomseed`.
//!
//! Each script that asks for a number gets a seed of its own: tokens and members that scripts make of such numbers must
//! differ between their runs. What a script does never depends on the scripts before it.

use std::cell::{Cell, RefCell};
use std::fmt;

use crate::script::invocation::Seeds;

/// The random numbers of the script that runs.
pub(crate) struct ScriptRandom {
    seeds: RefCell<Seeds>,
    /// None until the script has asked for a number.
    generator: Cell<Option<Drand48>>,
}

impl ScriptRandom {
    pub(crate) fn new(seeds: Seeds) -> ScriptRandom {
        ScriptRandom {
            seeds: RefCell::new(seeds),
            generator: Cell::new(None),
        }
    }

    pub(crate) fn set_seeds(&self, seeds: Seeds) {
        *self.seeds.borrow_mut() = seeds;
    }

    /// Forgets what the last script has used.
    pub(crate) fn begin(&self) {
        self.generator.set(None);
    }

    /// Goes on from this seed, as the script wants it.
    pub(crate) fn seed(&self, seed: u32) {
        self.generator.set(Some(Drand48::new(seed)));
    }

    /// What `draw` makes of the next numbers; `None` where no seed can be had.
    pub(crate) fn draw(&self, draw: impl FnOnce(&mut Drand48) -> f64) -> Option<f64> {
        let mut generator = match self.generator.get() {
            Some(generator) => generator,
            None => Drand48((self.seeds.borrow_mut())()? & MASK),
        };
        let number = draw(&mut generator);
        self.generator.set(Some(generator));
        Some(number)
    }
}

impl fmt::Debug for ScriptRandom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ScriptRandom").finish()
    }
}

/// The 48-bit linear congruential generator of `drand48`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drand48(u64);

impl Drand48 {
    pub(crate) const fn new(seed: u32) -> Drand48 {
        Drand48(((seed as u64) << 16) | LOW_BITS)
    }

    /// A number from 0 to 2^31 - 1.
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        u32::try_from(self.0 >> 17).expect("48 bits without 17")
    }

    /// A number from 0 (included) to 1 (excluded).
    pub(crate) fn fraction(&mut self) -> f64 {
        f64::from(self.next() % RANGE) / f64::from(RANGE)
    }

    /// The whole numbers from `low` to `high`, both included. `low` must not be above `high`.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        (self.fraction() * (high - low + 1.0)).floor() + low
    }
}

const LOW_BITS: u64 = 0x330E;
const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
const RANGE: u32 = i32::MAX as u32;

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are what Redis 7.0.15 answers after `math.randomseed`.
    #[test]
    fn the_numbers_are_those_of_redis() {
        // `string.format('%.17g', math.random())` after `math.randomseed(0)`.
        assert_eq!(Drand48::new(0).fraction(), 0.170_828_036_112_165_1);
        let mut random = Drand48::new(7);
        assert_eq!(random.between(1.0, 1e6), 266_445.0);
        assert_eq!(random.between(1.0, 1e6), 682_036.0);
        let mut random = Drand48::new(7);
        assert_eq!(random.fraction(), 0.266_444_196_582_978_7);
        assert_eq!(random.fraction(), 0.682_035_230_417_752_3);
        assert_eq!(random.fraction(), 0.265_490_593_512_305_36);
    }

    /// 1 would be outside of the array that a script picks from.
    #[test]
    fn fractions_stay_below_one() {
        let largest = (0..=u32::MAX)
            .step_by(0x1_0001)
            .map(|seed| Drand48::new(seed).fraction());
        let largest = largest.fold(0.0, f64::max);
        assert!((0.999..1.0).contains(&largest), "{largest}");
    }
}
