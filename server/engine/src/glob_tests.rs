//! Patterns held to a recursive matcher that is written like their description.

use proptest::prelude::*;

use crate::glob::{GlobBudget, TooManySteps, glob_matches};

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

#[test]
fn the_budget_is_for_going_back_and_shared_by_all_texts() {
    let text = vec![b'a'; 4000];
    let pattern = [b"*".as_slice(), &vec![b'a'; 2000], b"b"].concat();
    let mut budget = GlobBudget::new();
    let mut calls = 0;
    while budget.matches(&pattern, &text) == Ok(false) {
        calls += 1;
        assert!(calls < 100, "going back has to cost something");
    }
    assert!(calls > 0);
    assert_eq!(budget.matches(&pattern, &text), Err(TooManySteps));
    // What needs no going back is still matched.
    let long = vec![b'x'; 1_000_000];
    assert_eq!(budget.matches(&long, &long), Ok(true));
    assert_eq!(budget.matches(b"lock:*", b"lock:1"), Ok(true));
}

#[test]
fn a_huge_class_counts_by_its_length() {
    let pattern = [b"*".as_slice(), b"[", &vec![b'b'; 100_000], b"]"].concat();
    assert_eq!(
        GlobBudget::new().matches(&pattern, &vec![b'a'; 100_000]),
        Err(TooManySteps)
    );
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
}
