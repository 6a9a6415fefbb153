//! How often each kind of error was answered: what INFO shows as errorstats.

use std::collections::BTreeMap;

use crate::sync::{Mutex, MutexGuard};

/// Errors by their first word. Scripts make words of their own, so that their number and length are bounded.
#[derive(Debug, Default)]
pub(crate) struct ErrorCodes(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    by_code: BTreeMap<String, u64>,
    /// Of codes that came when there were enough.
    others: u64,
}

impl ErrorCodes {
    /// Counts an error, given as its text without `-`.
    pub(crate) fn note(&self, text: &[u8]) {
        let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let word = &word[..word.len().min(CODE_BYTES_MAX)];
        let mut counts = self.lock();
        let Counts { by_code, others } = &mut *counts;
        if let Ok(known) = str::from_utf8(word)
            && let Some(count) = by_code.get_mut(known)
        {
            *count += 1;
            return;
        }
        // As in Redis: these would end the field's name.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b':' | b'#' | b',');
        let plain = |byte: &u8| {
            if is_plain(*byte) {
                char::from(*byte)
            } else {
                '_'
            }
        };
        let code: String = word.iter().map(plain).collect();
        if by_code.len() >= CODES_MAX && !by_code.contains_key(&code) {
            *others += 1;
            return;
        }
        *by_code.entry(code).or_default() += 1;
    }

    /// All codes with their counts; the last may stand for several.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        let counts = self.lock();
        let mut all: Vec<_> = counts.by_code.clone().into_iter().collect();
        if counts.others > 0 {
            all.push((OTHERS.to_owned(), counts.others));
        }
        all
    }

    /// Counts from zero again.
    pub(crate) fn reset(&self) {
        *self.lock() = Counts::default();
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("no holder of the counts can panic")
    }
}

/// As in Redis.
const CODES_MAX: usize = 128;
const CODE_BYTES_MAX: usize = 64;
/// As in Valkey, which goes on counting.
const OTHERS: &str = "ERRORSTATS_OVERFLOW";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_by_their_first_word_and_words_are_bounded() {
        let codes = ErrorCodes::default();
        for text in ["ERR a", "ERR b", "WRONGTYPE x", "a:b,c y", "a:b,c z", ""] {
            codes.note(text.as_bytes());
        }
        let count = |codes: &ErrorCodes, code: &str| {
            let all = codes.all();
            all.iter().find(|one| one.0 == code).map(|one| one.1)
        };
        assert_eq!(count(&codes, "ERR"), Some(2));
        assert_eq!(count(&codes, "a_b_c"), Some(2));
        codes.note(&[b'x'; 1000]);
        assert_eq!(count(&codes, &"x".repeat(64)), Some(1));
        for number in 0..1000 {
            codes.note(format!("custom{number} text").as_bytes());
        }
        codes.note(b"WRONGTYPE y");
        assert_eq!(count(&codes, "WRONGTYPE"), Some(2));
        assert_eq!(codes.all().len(), 129);
        let sum: u64 = codes.all().iter().map(|one| one.1).sum();
        assert_eq!(sum, 1008, "each was counted");
        codes.reset();
        assert!(codes.all().is_empty());
    }
}
