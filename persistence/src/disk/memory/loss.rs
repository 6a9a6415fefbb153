//! What a power loss may take, as a list of choices, and one way of choosing.
//!
//! Invariant: the same disk lists the same choices in the same order, so that a loss can be written down
//! and repeated. A choice that would change nothing is not listed.

use std::fmt;

/// What is not durable yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unsynced {
    /// Files made, renamed and removed since the directory was synced, oldest first, in words. Any subset
    /// may survive: no order of theirs is promised.
    pub names: Vec<String>,
    /// Files whose length changed. The length may survive without the data, which then reads as zeros.
    pub lengths: Vec<String>,
    /// Sectors whose content changed. They reach the disk in any order.
    pub sectors: Vec<Sector>,
}

/// 512 bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sector {
    /// The file's name.
    pub file: String,
    /// The number in the file, from 0.
    pub number: u64,
}

impl Unsynced {
    /// How many things may or may not survive.
    pub fn len(&self) -> usize {
        self.names.len() + self.lengths.len() + self.sectors.len()
    }

    /// Whether everything is durable.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What survives: one choice for each entry of [`Unsynced`], in its order. A choice that is missing means lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PowerLoss {
    /// Which changes of names survive.
    pub names: Vec<bool>,
    /// Which lengths survive.
    pub lengths: Vec<bool>,
    /// What becomes of the sectors.
    pub sectors: Vec<Fate>,
}

/// What becomes of an unsynced sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It is as it was when it was last synced.
    #[default]
    Lost,
    /// It was written.
    Kept,
    /// Only its first half was written.
    FirstHalf,
    /// Only its second half was written.
    SecondHalf,
    /// The bytes that were being changed are now neither old nor new.
    Garbage,
}

impl Fate {
    /// One byte of the sector after the loss.
    pub(super) fn byte(self, index: usize, old: u8, new: u8) -> u8 {
        let is_first = index < SECTOR_BYTES / 2;
        match self {
            Fate::Lost => old,
            Fate::Kept => new,
            Fate::FirstHalf if is_first => new,
            Fate::SecondHalf if !is_first => new,
            Fate::FirstHalf | Fate::SecondHalf => old,
            // Bytes that were written with the value they had are what they were in any case.
            Fate::Garbage if old == new => old,
            Fate::Garbage => new ^ old.rotate_left(3) ^ 0x5a,
        }
    }

    const fn letter(self) -> char {
        match self {
            Fate::Lost => '0',
            Fate::Kept => '1',
            Fate::FirstHalf => 'f',
            Fate::SecondHalf => 's',
            Fate::Garbage => 'g',
        }
    }
}

impl fmt::Display for PowerLoss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = |survives: &[bool]| -> String {
            let digit = |survives: &bool| if *survives { '1' } else { '0' };
            survives.iter().map(digit).collect()
        };
        let sectors: String = self.sectors.iter().map(|fate| fate.letter()).collect();
        let (names, lengths) = (bits(&self.names), bits(&self.lengths));
        write!(
            formatter,
            "names {names} lengths {lengths} sectors {sectors}"
        )
    }
}

/// What a disk writes as a whole, unless it is torn.
pub(super) const SECTOR_BYTES: usize = 512;
