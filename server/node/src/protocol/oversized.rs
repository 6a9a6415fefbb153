//! Requests that are too large to be kept: what is left of them for the reply that refuses them.

use std::fmt;

/// A request that was read to its end and not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Oversized {
    words: Vec<Box<[u8]>>,
    excess: Excess,
}

/// What of a request is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    /// An argument has so many bytes, and may have so many.
    Argument(usize, usize),
    /// It has more than so many bytes as a whole.
    Request(u32),
}

impl Default for Excess {
    fn default() -> Self {
        Self::Request(u32::MAX)
    }
}

impl Oversized {
    /// A request with these arguments before the one that is too much.
    pub(super) fn new<'a>(arguments: impl Iterator<Item = &'a [u8]>, excess: Excess) -> Self {
        let clip = |word: &'a [u8]| word[..word.len().min(WORD_BYTES_MAX)].into();
        Self {
            words: arguments.take(WORDS_MAX).map(clip).collect(),
            excess,
        }
    }

    /// What is left of it takes so many bytes.
    pub(super) fn memory(&self) -> usize {
        let words = self.words.iter().map(|word| word.len());
        words.sum::<usize>() + size_of::<Self>() + WORDS_MAX * size_of::<Box<[u8]>>()
    }

    /// The command's name and the argument behind it, as far as they came before the one that is too much.
    pub fn words(&self) -> Vec<&[u8]> {
        self.words.iter().map(AsRef::as_ref).collect()
    }
}

/// Why it is refused.
impl fmt::Display for Oversized {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.excess {
            Excess::Argument(bytes, limit) => write!(
                formatter,
                "an argument of {bytes} bytes is longer than any value: a node keeps {limit} bytes of an argument at most"
            ),
            Excess::Request(limit) => write!(
                formatter,
                "its arguments together have more than the {limit} bytes that client-query-buffer-limit allows"
            ),
        }
    }
}

/// The command and its subcommand.
const WORDS_MAX: usize = 2;
const WORD_BYTES_MAX: usize = 128;
