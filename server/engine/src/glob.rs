//! Patterns as in KEYS: `*`, `?`, `[a-z]`, `[^a]` and `\` before a character.
//!
//! Matching goes forward and remembers only the last star, so that it needs neither recursion nor
//! memory. A pattern with many stars can still need the product of both lengths in steps, which is
//! why all steps beyond the plain walk are taken from a budget.

use crate::error::ErrorReply;

/// Whether a text matches a pattern as in KEYS. False also for a pattern so full of stars that
/// telling would take too long.
pub fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    GlobBudget::new().matches(pattern, text).unwrap_or(false)
}

/// The longest pattern: each key costs as many steps, and no other request is served meanwhile.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// The refusal of a longer one.
pub const PATTERN_TOO_LONG: ErrorReply =
    ErrorReply::fixed("ERR the pattern is longer than 1024 bytes");

/// How many steps of going back are left.
#[derive(Debug)]
pub(crate) struct GlobBudget(u64);

/// The pattern would need more steps than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManySteps;

impl GlobBudget {
    /// A budget for one command.
    pub(crate) const fn new() -> GlobBudget {
        GlobBudget(STEPS_MAX)
    }

    /// Whether the whole text matches the pattern.
    pub(crate) fn matches(&mut self, pattern: &[u8], text: &[u8]) -> Result<bool, TooManySteps> {
        // What a walk without going back needs is free, however many keys there are.
        let free = (pattern.len() as u64)
            .saturating_add(text.len() as u64)
            .saturating_mul(2);
        let mut steps = free.saturating_add(self.0);
        let is_match = matches(pattern, text, &mut steps)?;
        self.0 = self.0.min(steps);
        Ok(is_match)
    }
}

fn matches(pattern: &[u8], text: &[u8], steps: &mut u64) -> Result<bool, TooManySteps> {
    let (mut at, mut read) = (0_usize, 0_usize);
    // Behind the last star: where the pattern continues, and where the text does if the star matches
    // one byte more.
    let mut star: Option<(usize, usize)> = None;
    loop {
        *steps = steps.checked_sub(1).ok_or(TooManySteps)?;
        if pattern.get(at) == Some(&b'*') {
            at = at.saturating_add(1);
            star = Some((at, read));
            continue;
        }
        if read == text.len() && at == pattern.len() {
            return Ok(true);
        }
        let element = text
            .get(read)
            .and_then(|&byte| one(&pattern[at..], byte, steps));
        if let Some(length) = element {
            at = at.saturating_add(length);
            read = read.saturating_add(1);
            continue;
        }
        match star {
            Some((after, start)) if start < text.len() => {
                at = after;
                read = start.saturating_add(1);
                star = Some((after, read));
            }
            _ => return Ok(false),
        }
    }
}

/// The length of the pattern's next element if it matches this byte. It is not a star.
fn one(pattern: &[u8], byte: u8, steps: &mut u64) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let ClassMatch { is_match, length } = class_matches(class, byte);
            *steps = steps.saturating_sub(length as u64);
            is_match.then_some(length.saturating_add(1))
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// What a class makes of a byte.
struct ClassMatch {
    is_match: bool,
    /// How long the class is behind its `[`.
    length: usize,
}

/// Matches a byte with a class. One that is not closed ends with the pattern.
fn class_matches(class: &[u8], byte: u8) -> ClassMatch {
    let is_negated = class.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    let ended = |is_in, length| ClassMatch {
        is_match: is_in != is_negated,
        length,
    };
    loop {
        let length = match class.get(at..).unwrap_or_default() {
            [] => return ended(is_in, class.len()),
            [b'\\', escaped, ..] => {
                is_in |= *escaped == byte;
                2
            }
            [b']', ..] => return ended(is_in, at.saturating_add(1)),
            [from, b'-', to, ..] => {
                is_in |= (*from.min(to)..=*from.max(to)).contains(&byte);
                3
            }
            [literal, ..] => {
                is_in |= *literal == byte;
                1
            }
        };
        at = at.saturating_add(length);
    }
}

/// A few tens of milliseconds.
const STEPS_MAX: u64 = 10_000_000;
