//! How often each kind of error was answered: what INFO shows as errorstats, and the metrics of it what is the node's own.
//!
//! Invariant: a script makes errors with words of its own, which may be secret. They are never shown without authentication, and
//! take no room from the node's.

use std::collections::BTreeMap;

use crate::sync::{Mutex, MutexGuard};

/// Errors by their first word. Of those that scripts make number and length are bounded.
#[derive(Debug, Default)]
pub struct ErrorCodes(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    own: BTreeMap<&'static str, u64>,
    invented: BTreeMap<String, u64>,
    /// Of inventions that came when there were enough.
    others: u64,
}

impl ErrorCodes {
    /// Counts an error, given as its text without `-`.
    pub(crate) fn note(&self, text: &[u8]) {
        let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let word = &word[..word.len().min(CODE_BYTES_MAX)];
        let mut counts = self.lock();
        if let Some(own) = OWN_CODES.iter().find(|own| own.as_bytes() == word) {
            *counts.own.entry(own).or_default() += 1;
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
        if counts.invented.len() >= CODES_MAX && !counts.invented.contains_key(&code) {
            counts.others += 1;
            return;
        }
        *counts.invented.entry(code).or_default() += 1;
    }

    /// The node's own codes with their counts, and the sum of all others.
    pub fn public(&self) -> Vec<(&'static str, u64)> {
        let counts = self.lock();
        let others = counts.invented.values().sum::<u64>() + counts.others;
        let own = counts.own.iter().map(|(code, count)| (*code, *count));
        let others = (others > 0).then_some(("other", others));
        own.chain(others).collect()
    }

    /// All codes with their counts; the last may stand for several.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        let counts = self.lock();
        let own = counts
            .own
            .iter()
            .map(|(code, count)| ((*code).to_owned(), *count));
        let mut all: Vec<_> = own.chain(counts.invented.clone()).collect();
        all.sort_unstable();
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

/// All codes of errors that the node itself answers with.
const OWN_CODES: &[&str] = &[
    "BUSYKEY",
    "ERR",
    "EXECABORT",
    "FENCELOST",
    "MISCONF",
    "NOAUTH",
    "NOPERM",
    "NOPROTO",
    "NOSCRIPT",
    "NOTALOCK",
    "NOTBUSY",
    "OOM",
    "RESTARTDELAY",
    "UNBLOCKED",
    "WRONGPASS",
    "WRONGTYPE",
];

/// As in Redis.
const CODES_MAX: usize = 128;
const CODE_BYTES_MAX: usize = 64;
/// As in Valkey, which goes on counting.
const OTHERS: &str = "ERRORSTATS_OVERFLOW";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

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
        // 128 inventions, their overflow, and the two of the node.
        assert_eq!(codes.all().len(), 131);
        codes.note(b"MISCONF z");
        assert_eq!(
            count(&codes, "MISCONF"),
            Some(1),
            "inventions leave it its place"
        );
        let sum: u64 = codes.all().iter().map(|one| one.1).sum();
        assert_eq!(sum, 1009, "each was counted");
        codes.reset();
        assert!(codes.all().is_empty());
    }

    #[test]
    fn what_is_public_is_the_nodes_own() {
        let codes = ErrorCodes::default();
        for text in [
            "hunter2 x",
            "lock:\n42 x",
            "WRONGTYPE x",
            "\"} 1\n",
            "errors x",
        ] {
            codes.note(text.as_bytes());
        }
        assert_eq!(codes.public(), [("WRONGTYPE", 1), ("other", 4)]);
    }

    /// The first word of each literal that an error is made of, in all sources.
    #[test]
    fn every_code_in_the_sources_is_listed() {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
        let mut found = BTreeSet::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                if path.is_dir() {
                    if name != "target" && !name.ends_with("tests") {
                        folders.push(path);
                    }
                } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                    let text = fs::read_to_string(&path).unwrap();
                    for made in text.split("ErrorReply::").skip(1) {
                        found.extend(code_made(made).map(str::to_owned));
                    }
                }
            }
        }
        assert!(found.len() > 8, "{found:?}");
        for code in found {
            assert!(OWN_CODES.contains(&&*code), "{code}");
        }
    }

    fn code_made(after: &str) -> Option<&str> {
        let made = ["fixed(", "new("]
            .iter()
            .find_map(|way| after.strip_prefix(way))?;
        let made = made.trim_start();
        let made = made.strip_prefix("format!(").unwrap_or(made).trim_start();
        let code = made.strip_prefix('"')?.split([' ', '"']).next()?;
        code.bytes()
            .all(|byte| byte.is_ascii_uppercase())
            .then_some(code)
    }
}
