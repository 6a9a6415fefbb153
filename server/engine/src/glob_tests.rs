//! Patterns held to a recursive matcher that is written like their description.

use proptest::prelude::*;

use crate::glob::{GlobBudget, TooManySteps};

fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    GlobBudget::default().matches(pattern, text) == Ok(true)
}

/// The same rules in the plainest form, exponential and recursive.
fn plain(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => plain(rest, text) || (!text.is_empty() && plain(pattern, &text[1..])),
        _ if text.is_empty() => false,
        [b'?', rest @ ..] => plain(rest, &text[1..]),
        [b'[', rest @ ..] => {
            let (is_in, rest) = plain_class(rest, text[0]);
            is_in && plain(rest, &text[1..])
        }
        [b'\\', escaped, rest @ ..] => *escaped == text[0] && plain(rest, &text[1..]),
        [literal, rest @ ..] => *literal == text[0] && plain(rest, &text[1..]),
    }
}

fn plain_class(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => return (is_in != negated, rest),
            [b'\\', escaped, rest @ ..] => {
                is_in |= *escaped == byte;
                rest
            }
            [b']', rest @ ..] => return (is_in != negated, rest),
            [from, b'-', to, rest @ ..] => {
                let (low, high) = if from <= to { (from, to) } else { (to, from) };
                is_in |= *low <= byte && byte <= *high;
                rest
            }
            [literal, rest @ ..] => {
                is_in |= *literal == byte;
                rest
            }
        };
    }
}

#[test]
fn an_empty_text_is_matched_by_stars_only() {
    assert!(glob_matches(b"", b""));
    assert!(glob_matches(b"*", b""));
    assert!(glob_matches(b"***", b""));
    assert!(!glob_matches(b"?", b""));
    assert!(!glob_matches(b"[^a]", b""));
    assert!(!glob_matches(b"", b"a"));
}

/// Planted: a matcher that goes back from each star gives such a match up.
#[test]
fn what_a_walk_would_take_too_long_for_is_decided_all_the_same() {
    let text = [&*vec![b'a'; 4000], b"b"].concat();
    for (end, is_match) in [("b", true), ("c", false), ("[b-d]", true), ("[^b]", false)] {
        let pattern = format!("*{}*{}", "a".repeat(500), "a?".repeat(200) + end);
        let matched = GlobBudget::default().matches(pattern.as_bytes(), &text);
        assert_eq!(matched, Ok(is_match), "{end}");
    }
}

#[test]
fn the_budget_is_for_going_back_and_shared_by_all_texts() {
    let text = vec![b'a'; 4000];
    let pattern = [b"*".as_slice(), &vec![b'a'; 1000], b"b"].concat();
    let mut budget = GlobBudget::default();
    let mut calls = 0;
    while budget.matches(&pattern, &text) == Ok(false) {
        calls += 1;
        assert!(calls < 1000, "going back has to cost something");
    }
    assert!(calls > 100, "{calls}");
    assert_eq!(budget.matches(&pattern, &text), Err(TooManySteps));
    // What needs no going back is still matched.
    let long = vec![b'x'; 1_000_000];
    assert_eq!(budget.matches(&long, &long), Ok(true));
    assert_eq!(budget.matches(b"lock:*", b"lock:1"), Ok(true));
    assert_eq!(budget.quick_match(b"lock:*", b"lock:1"), Err(TooManySteps));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4096) })]

    #[test]
    fn patterns_match_like_their_description(
        pattern in prop::collection::vec(prop::sample::select(b"ab*?[]^-\\".as_slice()), 0..12),
        text in prop::collection::vec(prop::sample::select(b"ab-]\\".as_slice()), 0..10),
    ) {
        prop_assert_eq!(glob_matches(&pattern, &text), plain(&pattern, &text));
    }

    /// Both ways to decide, whatever the lengths.
    #[test]
    fn all_positions_at_once_match_like_a_walk(
        pattern in prop::collection::vec(prop::sample::select(b"abb*?[]^-\\".as_slice()), 0..150),
        text in prop::collection::vec(prop::sample::select(b"ab".as_slice()), 0..150),
    ) {
        let walked = GlobBudget::default().quick_match(&pattern, &text);
        let decided = GlobBudget::default().decide(&pattern, &text);
        prop_assume!(walked != Ok(None));
        prop_assert_eq!(walked, decided.map(Some));
    }

    /// The same for texts that are made from the pattern.
    #[test]
    fn texts_of_a_pattern_match_both_ways(
        parts in prop::collection::vec((0..5_u8, 0..4_usize), 0..120),
    ) {
        let (mut pattern, mut text) = (Vec::new(), Vec::new());
        for (kind, count) in parts {
            let (element, piece): (&[u8], Vec<u8>) = match kind {
                0 => (b"*", vec![b'a'; count]),
                1 => (b"?", vec![b'x']),
                2 => (b"[a-c^]", vec![b'b']),
                3 => (b"\\*", vec![b'*']),
                _ => (b"a", vec![b'a']),
            };
            pattern.extend_from_slice(element);
            text.extend(piece);
        }
        prop_assert_eq!(GlobBudget::default().decide(&pattern, &text), Ok(true));
        prop_assert!(glob_matches(&pattern, &text));
    }
}
