//! "Did you mean": the known name that is closest to a misspelt one.

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
        .map(|candidate| (edits(word.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(edits, _)| *edits <= edits_max)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// How many letters lead from one word to the other by being put in, left out, replaced, or swapped with the next one.
fn edits(word: &[u8], name: &[u8]) -> usize {
    // Rows of a table: the edits between the beginnings of both words. The row before last, and the last one.
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=name.len()).collect();
    for (at, letter) in word.iter().enumerate() {
        let mut row = vec![at + 1];
        for (to, other) in name.iter().enumerate() {
            let replaced = last[to] + usize::from(letter != other);
            let mut least = replaced.min(last[to + 1] + 1).min(row[to] + 1);
            if at > 0 && to > 0 && *letter == name[to - 1] && word[at - 1] == *other {
                least = least.min(before[to - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[name.len()]
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

    #[test]
    fn an_edit_is_a_letter_more_less_other_or_swapped() {
        for (word, name, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("port", "port", 0),
            ("prt", "port", 1),
            ("poort", "port", 1),
            ("pert", "port", 1),
            ("prot", "port", 1),
            ("opr", "port", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(
                edits(word.as_bytes(), name.as_bytes()),
                expected,
                "{word} {name}"
            );
        }
    }
}
