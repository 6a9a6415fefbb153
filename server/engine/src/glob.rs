//! Patterns as in KEYS: `*`, `?`, `[a-z]`, `[^a]` and `\` before a character.
//!
//! A walk goes forward and remembers only the last star, which decides nearly every match in a few looks at each byte. One
//! that would go back too often is decided by all positions of the pattern at once, 64 of them in a word: the time then
//! grows with the length of the text, whatever the pattern holds. What is beyond a plain walk is taken from a budget.

use crate::error::ErrorReply;

/// The longest pattern, wherever one is given: each key or channel costs as many steps, and no other request is served
/// meanwhile.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// The refusal of a longer one.
pub const PATTERN_TOO_LONG: ErrorReply =
    ErrorReply::fixed("ERR the pattern is longer than 1024 bytes");

/// The refusal of a command whose matches would take too long.
pub const PATTERN_TOO_EXPENSIVE: ErrorReply =
    ErrorReply::fixed("ERR the pattern needs too many steps; use fewer '*'");

/// How many steps of matching a command, script or transaction has left.
#[derive(Debug)]
pub struct GlobBudget(u64);

/// The pattern would need more steps than are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySteps;

impl Default for GlobBudget {
    fn default() -> GlobBudget {
        GlobBudget(STEPS_MAX)
    }
}

impl GlobBudget {
    /// Whether the whole text matches the pattern.
    pub fn matches(&mut self, pattern: &[u8], text: &[u8]) -> Result<bool, TooManySteps> {
        // What a walk without going back needs is free, however many keys there are.
        let free = both(pattern, text).saturating_mul(2);
        match self.walk(pattern, text, free, WALKS_MAX) {
            Some(is_match) => Ok(is_match),
            None => self.decide(pattern, text),
        }
    }

    /// The same where every step counts, and only if a walk finds out; else [`GlobBudget::decide`] does.
    pub(crate) fn quick_match(
        &mut self,
        pattern: &[u8],
        text: &[u8],
    ) -> Result<Option<bool>, TooManySteps> {
        self.charge(PATTERN_STEPS)?;
        Ok(self.walk(pattern, text, 0, QUICK_WALKS_MAX))
    }

    fn walk(&mut self, pattern: &[u8], text: &[u8], free: u64, walks_max: u64) -> Option<bool> {
        let walks = both(pattern, text).saturating_mul(walks_max);
        let given = free.saturating_add(walks.min(self.0));
        let mut left = given;
        let found = walk(pattern, text, &mut left);
        let used = given.saturating_sub(left).saturating_sub(free);
        self.0 = self.0.saturating_sub(used);
        found
    }

    /// Whether a text matches where a walk would take too long.
    pub(crate) fn decide(&mut self, pattern: &[u8], text: &[u8]) -> Result<bool, TooManySteps> {
        let positions = Positions::of(pattern, self)?;
        let words = positions.accepted.len() as u64;
        self.charge((text.len() as u64).saturating_mul(words))?;
        Ok(positions.match_all(text))
    }

    /// Whether half of the steps are gone.
    pub(crate) fn is_half_used(&self) -> bool {
        self.0 < STEPS_MAX / 2
    }

    fn charge(&mut self, steps: u64) -> Result<(), TooManySteps> {
        match self.0.checked_sub(steps) {
            Some(left) => self.0 = left,
            None => {
                self.0 = 0;
                return Err(TooManySteps);
            }
        }
        Ok(())
    }
}

fn both(pattern: &[u8], text: &[u8]) -> u64 {
    (pattern.len() as u64).saturating_add(text.len() as u64)
}

/// Whether the whole text matches; `None` when the steps are used up.
fn walk(pattern: &[u8], text: &[u8], steps: &mut u64) -> Option<bool> {
    let (mut at, mut read) = (0_usize, 0_usize);
    // Behind the last star: where the pattern continues, and where the text does if the star matches
    // one byte more.
    let mut star: Option<(usize, usize)> = None;
    loop {
        *steps = steps.checked_sub(1)?;
        if pattern.get(at) == Some(&b'*') {
            // Several are one: a pattern of nothing else costs a look at it.
            let stars = pattern[at..].iter().take_while(|&&byte| byte == b'*');
            at = at.saturating_add(stars.count());
            if at == pattern.len() {
                return Some(true);
            }
            star = Some((at, read));
            continue;
        }
        if read == text.len() && at == pattern.len() {
            return Some(true);
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
            _ => return Some(false),
        }
    }
}

/// The length of the pattern's next element if it matches this byte. It is not a star.
fn one(pattern: &[u8], byte: u8, steps: &mut u64) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let class = CharacterClass::of(class);
            *steps = steps.saturating_sub(class.length as u64);
            let is_in = class.ranges().any(|(from, to)| (from..=to).contains(&byte));
            (is_in != class.is_negated).then_some(class.length.saturating_add(1))
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// What stands between `[` and `]`. One that is not closed ends with the pattern.
struct CharacterClass<'a> {
    is_negated: bool,
    /// What is in it, its end included.
    parts: &'a [u8],
    /// How long the class is behind its `[`.
    length: usize,
}

impl<'a> CharacterClass<'a> {
    fn of(class: &'a [u8]) -> CharacterClass<'a> {
        let is_negated = class.first() == Some(&b'^');
        let start = usize::from(is_negated);
        let mut at = start;
        while let Some((_, length)) = part(class.get(at..).unwrap_or_default()) {
            at = at.saturating_add(length);
        }
        let parts = class.get(start..at).unwrap_or_default();
        let is_closed = class.get(at) == Some(&b']');
        CharacterClass {
            is_negated,
            parts,
            length: at.saturating_add(usize::from(is_closed)),
        }
    }

    fn ranges(&self) -> impl Iterator<Item = (u8, u8)> {
        let mut rest = self.parts;
        std::iter::from_fn(move || {
            let (range, length) = part(rest)?;
            rest = rest.get(length..).unwrap_or_default();
            Some(range)
        })
    }
}

/// The next part of a class, from a byte to another one, and its length; `None` at its end.
fn part(rest: &[u8]) -> Option<((u8, u8), usize)> {
    Some(match rest {
        [] | [b']', ..] => return None,
        [b'\\', escaped, ..] => ((*escaped, *escaped), 2),
        [from, b'-', to, ..] => ((*from.min(to), *from.max(to)), 3),
        [literal, ..] => ((*literal, *literal), 1),
    })
}

/// A pattern as the set of positions in it that the bytes read so far may have led to, a bit for each. A position is
/// before an element that is not a star; the last one is the end.
struct Positions {
    /// Which positions a byte leads on from, by byte: as many words for each as `accepted` has.
    of_byte: Vec<u64>,
    /// Those that any byte leads on from.
    accepted: Vec<u64>,
    /// Those behind a star, where a byte may also be skipped.
    stars: Vec<u64>,
    end: usize,
}

impl Positions {
    fn of(pattern: &[u8], budget: &mut GlobBudget) -> Result<Positions, TooManySteps> {
        let words = (pattern.len() / 64).saturating_add(1);
        let size = words.saturating_mul(256);
        budget.charge((pattern.len() as u64).saturating_add(size as u64 / 8))?;
        let mut positions = Positions {
            of_byte: vec![0; size],
            accepted: vec![0; words],
            stars: vec![0; words],
            end: 0,
        };
        let mut rest = pattern;
        while let Some(&first) = rest.first() {
            let (word, bit) = (positions.end / 64, 1_u64 << (positions.end % 64));
            let length = match rest {
                [b'*', ..] => {
                    positions.stars[word] |= bit;
                    rest = &rest[1..];
                    continue;
                }
                [b'?', ..] => {
                    positions.accepted[word] |= bit;
                    1
                }
                [b'[', class @ ..] => {
                    budget.charge(CLASS_STEPS)?;
                    let class = CharacterClass::of(class);
                    let mut is_in = [class.is_negated; 256];
                    for (from, to) in class.ranges() {
                        is_in[usize::from(from)..=usize::from(to)].fill(!class.is_negated);
                    }
                    for (of_byte, _) in positions
                        .of_byte
                        .chunks_exact_mut(words)
                        .zip(is_in)
                        .filter(|(_, is_in)| *is_in)
                    {
                        of_byte[word] |= bit;
                    }
                    class.length.saturating_add(1)
                }
                [b'\\', escaped, ..] => {
                    positions.led_on_by(*escaped, words)[word] |= bit;
                    2
                }
                _ => {
                    positions.led_on_by(first, words)[word] |= bit;
                    1
                }
            };
            rest = rest.get(length..).unwrap_or_default();
            positions.end = positions.end.saturating_add(1);
        }
        // A star at the end stands at the last position.
        Ok(positions)
    }

    fn led_on_by(&mut self, byte: u8, words: usize) -> &mut [u64] {
        let start = usize::from(byte).saturating_mul(words);
        &mut self.of_byte[start..start.saturating_add(words)]
    }

    fn match_all(&self, text: &[u8]) -> bool {
        let words = self.accepted.len();
        let mut reached = vec![0_u64; words];
        reached[0] = 1;
        for &byte in text {
            let start = usize::from(byte).saturating_mul(words);
            let of_byte = &self.of_byte[start..start.saturating_add(words)];
            let mut carry = 0;
            let mut any = 0;
            for (word, reached) in reached.iter_mut().enumerate() {
                let led_on = *reached & (of_byte[word] | self.accepted[word]);
                let next = led_on << 1 | carry | *reached & self.stars[word];
                carry = led_on >> 63;
                any |= next;
                *reached = next;
            }
            if any == 0 {
                return false;
            }
        }
        reached[self.end / 64] >> (self.end % 64) & 1 == 1
    }
}

/// Some tens of milliseconds.
const STEPS_MAX: u64 = 40_000_000;

/// A walk is given up when it has looked so often at each byte of both.
const WALKS_MAX: u64 = 6;

/// The same where many patterns are to be told from each other first.
const QUICK_WALKS_MAX: u64 = 2;

/// To come to the next pattern and to tell that it begins with other bytes.
const PATTERN_STEPS: u64 = 8;

/// To tell which bytes a class holds.
const CLASS_STEPS: u64 = 256;
