//! What a word that is no subcommand was meant for, as far as other tools teach such words.
//!
//! A known guess is answered with the command that does what was meant, or with the way that takes
//! its place. A typing error gets the name that is near; a name that merely shares some letters is
//! not proposed, because it may do the opposite. Nothing is ever carried out for a guess.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit_code::Failure;

/// The answer to a guess, if `error` is about one.
pub(crate) fn answer(words: &[OsString], error: &clap::Error) -> Option<Failure> {
    let word = unknown_word(error)?;
    let own = words.iter().skip(1).filter_map(|word| word.to_str());
    let mut before = own.take_while(|other| *other != word);
    let parents: Vec<&str> = before.by_ref().filter(|word| !is_flag(word)).collect();
    let (table, shown) = match parents.as_slice() {
        [] => (TOP, word.to_owned()),
        ["cluster"] => (CLUSTER, format!("cluster {word}")),
        _ => return None,
    };
    let (_, instead) = entries(table).find(|(guesses, _)| guesses.contains(&word))?;
    Some(
        Failure::usage(format!(
            "there is no subcommand '{shown}'; nothing was done"
        ))
        .remedy(instead),
    )
}

fn entries(table: &str) -> impl Iterator<Item = (Vec<&str>, &str)> {
    let entries = table
        .trim_end()
        .split("\n\n")
        .filter_map(|entry| entry.split_once(": "));
    entries.map(|(guesses, instead)| (guesses.split(' ').collect(), instead))
}

/// Removes what the parser proposes for a word that is no subcommand, unless it is near enough to be
/// what was meant.
pub(crate) fn drop_far_proposals(error: &mut clap::Error) {
    let Some(word) = unknown_word(error).map(str::to_owned) else {
        return;
    };
    let Some(ContextValue::Strings(proposed)) = error.get(ContextKind::SuggestedSubcommand) else {
        return;
    };
    let may_be_meant = |name: &&String| *name != NEVER_PROPOSED && is_near(&word, name);
    let near = proposed.iter().filter(may_be_meant);
    let near: Vec<String> = near.cloned().collect();
    error.remove(ContextKind::SuggestedSubcommand);
    if !near.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(near),
        );
    }
}

fn unknown_word(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => {
            Some(word)
        }
        _ => None,
    }
}

fn is_flag(word: &&str) -> bool {
    word.starts_with('-')
}

/// Whether few edits lead from one word to the other.
fn is_near(word: &str, name: &str) -> bool {
    let edits_max = if word.len() <= SHORT { 1 } else { 2 };
    word.len() <= WORD_BYTES_MAX && strsim::damerau_levenshtein(word, name) <= edits_max
}

/// What is guessed and, behind the first colon, what is meant; entries have an empty line between them.
const TOP: &str = include_str!("guesses.txt");

/// Who mistypes it may have meant anything else, and it takes a lock away from its holder.
const NEVER_PROPOSED: &str = "force-release";

const CLUSTER: &str = "\
start create init run: start a cluster with: quorlock cluster up

stop shutdown halt: stop the nodes with: quorlock cluster down

ls list ps info show nodes health: see what each node does with: quorlock cluster status

rm remove delete destroy: remove a stopped cluster with: quorlock cluster clean

continue unpause: let a paused node go on with: quorlock cluster resume N";

/// Words up to this length may differ in one letter, longer ones in two.
const SHORT: usize = 3;
/// No subcommand is this long; bounds the work for a hostile word.
const WORD_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::arguments::Arguments;

    fn error(words: &[&str]) -> (Vec<OsString>, clap::Error) {
        let words = std::iter::once("quorlock").chain(words.iter().copied());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let error = Arguments::try_parse_from(&words).expect_err("it is no subcommand");
        (words, error)
    }

    fn proposed(words: &[&str]) -> Option<String> {
        let (_, mut error) = error(words);
        drop_far_proposals(&mut error);
        let text = error.to_string();
        let (_, tip) = text.split_once("tip: ")?;
        tip.lines().next().map(str::to_owned)
    }

    #[test]
    fn every_guess_is_answered_and_is_no_subcommand() {
        for (parent, table) in [(None, TOP), (Some("cluster"), CLUSTER)] {
            for (guesses, instead) in entries(table) {
                for guess in guesses {
                    let words: Vec<&str> = parent.into_iter().chain([guess]).collect();
                    let (words, error) = error(&words);
                    let failure = answer(&words, &error).expect("it is answered");
                    assert_eq!(failure.code, crate::exit_code::USAGE, "{guess}");
                    assert_eq!(failure.remedy, instead, "{guess}");
                }
            }
        }
        let (words, error) = error(&["log", "ls"]);
        assert!(answer(&words, &error).is_none(), "of another subcommand");
    }

    #[test]
    fn what_answers_name_are_subcommands() {
        let command = Arguments::command();
        for (_, instead) in entries(TOP).chain(entries(CLUSTER)) {
            for part in instead.split("quorlock ").skip(1) {
                let mut words = part.split_whitespace();
                let name = words.next().expect("a word follows");
                if name.starts_with('-') || name == "help" {
                    continue;
                }
                let found = command.find_subcommand(name).expect(name);
                if let Some(next) = words.next().filter(|_| found.has_subcommands()) {
                    let is_known = found.find_subcommand(next).is_some();
                    assert!(is_known || name == "log", "{part}");
                }
            }
        }
    }

    #[test]
    fn a_typing_error_gets_what_is_near_and_another_word_nothing() {
        for (typed, name) in [
            ("unlok", "unlock"),
            ("relase", "release"),
            ("aquire", "acquire"),
        ] {
            let tip = proposed(&[typed]).unwrap_or_default();
            assert!(tip.contains(&format!("'{name}'")), "{typed}: {tip}");
        }
        for typed in [
            "unlock-by-force",
            "force-relase",
            "locking",
            "healthy",
            "deleted",
            "simulator",
        ] {
            assert_eq!(proposed(&[typed]), None, "{typed}");
        }
        let tip = proposed(&["cluster", "statsu"]).unwrap_or_default();
        assert!(tip.contains("'status'"), "{tip}");
    }
}
