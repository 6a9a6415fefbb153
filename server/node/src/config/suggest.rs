//! "Did you mean": the known name that is closest to a misspelt one.

use strsim::damerau_levenshtein;

/// The candidate within few edits of `word`, the closest first. None when nothing is similar.
pub(super) fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let edits_max = match word.len() {
        0..=3 => 1,
        4..=8 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .map(|candidate| (damerau_levenshtein(&word, candidate), candidate))
        .filter(|(edits, _)| *edits <= edits_max)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// No directive is this long; bounds the work for a hostile one.
const WORD_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["appendfsync", "appendonly", "port", "bind"];
        assert_eq!(closest("appendfsnc", names), Some("appendfsync"));
        assert_eq!(closest("APPENDONLI", names), Some("appendonly"));
        assert_eq!(closest("prt", names), Some("port"));
        assert_eq!(closest("zzz", names), None);
        assert_eq!(closest("", names), None);
        assert_eq!(closest(&"port".repeat(1000), names), None);
    }
}
