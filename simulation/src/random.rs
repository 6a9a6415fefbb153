//! Numbers that look random and are the same for the same seed.

/// SplitMix64: small, fast, and good enough to choose crashes with.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers that belong to these: a seed, the number of a state, and so on.
    pub fn of(parts: &[u64]) -> Random {
        let mut random = Random(0);
        for part in parts {
            random.0 ^= *part;
            random.0 = random.number();
        }
        random
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// True in `one` out of `of` cases.
    pub fn chance(&mut self, one: u64, of: u64) -> bool {
        self.below(of) < one
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let place = usize::try_from(self.below(choices.len() as u64)).unwrap_or(0);
        choices[place]
    }
}
