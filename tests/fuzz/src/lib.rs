//! What the fuzz targets share: an input that is read as choices, and bytes that arrive in pieces.
//!
//! Invariant: the same input gives the same choices, so that an input alone repeats a failure.

/// An input, read from its front. What is missing reads as zeros.
#[derive(Clone, Copy, Debug)]
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// All of an input.
    pub fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *byte
    }

    /// A number of two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A number of eight bytes.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number below `end`, which is at least 1 and at most 65536.
    pub fn below(&mut self, end: usize) -> usize {
        let number = match end {
            0..=256 => usize::from(self.byte()),
            _ => usize::from(self.short()),
        };
        number % end
    }

    /// One of several.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// As many of the bytes that are left, or fewer where there are no more.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Those of a seed.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next one below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        let number = self.draw() % end as u64;
        usize::try_from(number).expect("it is below a usize")
    }
}

/// The bytes in pieces, short and long ones, whose ends follow from a seed.
pub fn pieces(bytes: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut numbers = Numbers::of(seed);
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let longest = match numbers.below(4) {
            0 => 2,
            1 => 16,
            2 => 256,
            _ => rest.len(),
        };
        let count = (1 + numbers.below(longest)).min(rest.len());
        let (piece, behind) = rest.split_at(count);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}
