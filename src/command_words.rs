//! `quorlock run NAME COMMAND...` without `--`, as flock, etcdctl and consul take it.
//!
//! Invariant: words that have a `--` are left as they are, so that several names are only those that stand before one.

use std::ffi::{OsStr, OsString};

use clap::{Command, CommandFactory as _};

use crate::arguments::Arguments;

/// The same words, with `--` between the name and the command where `run` has both and no `--`.
pub(crate) fn separated(mut words: Vec<OsString>) -> Vec<OsString> {
    if let Some(at) = command_at(&words) {
        words.insert(at, "--".into());
    }
    words
}

/// Where the command begins: at the second word that is neither a flag nor the value of one.
fn command_at(words: &[OsString]) -> Option<usize> {
    if words.iter().any(|word| word == "--") {
        return None;
    }
    let subcommand = 1 + words.iter().skip(1).position(|word| word != "--json")?;
    if words[subcommand] != "run" && words[subcommand] != "lock" {
        return None;
    }
    let all = Arguments::command();
    let run = all.find_subcommand("run")?;
    let mut is_value = false;
    let mut names = 0;
    for (at, word) in words.iter().enumerate().skip(subcommand + 1) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        match flag(word) {
            Some(flag) => is_value = takes_next_word(run, flag),
            None => names += 1,
        }
        if names == 2 {
            return Some(at);
        }
    }
    None
}

/// The word, if it is a flag. A single dash is none.
fn flag(word: &OsStr) -> Option<&str> {
    word.to_str()
        .filter(|word| word.len() > 1 && word.starts_with('-'))
}

/// Whether the value of this flag is the next word.
fn takes_next_word(run: &Command, flag: &str) -> bool {
    let takes_value = |argument: Option<&clap::Arg>| {
        argument.is_some_and(|argument| argument.get_action().takes_values())
    };
    if let Some(long) = flag.strip_prefix("--") {
        // With a '=' the value is in the same word, and no flag has that name.
        let mut arguments = run.get_arguments();
        let is_it = |argument: &&clap::Arg| {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            argument.get_long() == Some(long) || aliases.contains(&long)
        };
        return takes_value(arguments.find(is_it));
    }
    let mut letters = flag.chars().skip(1);
    while let Some(letter) = letters.next() {
        let mut arguments = run.get_arguments();
        if takes_value(arguments.find(|argument| argument.get_short() == Some(letter))) {
            return letters.next().is_none();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_run_begins_behind_the_name_and_its_flags() {
        for (given, expected) in [
            (
                "run backup ./backup.sh --full",
                "run backup -- ./backup.sh --full",
            ),
            ("lock backup echo a -n", "lock backup -- echo a -n"),
            ("--json run backup true", "--json run backup -- true"),
            ("run --ttl 5s backup true", "run --ttl 5s backup -- true"),
            ("run --ttl=5s backup true", "run --ttl=5s backup -- true"),
            ("run backup -w 5s true", "run backup -w 5s -- true"),
            ("run backup -w5s true", "run backup -w5s -- true"),
            ("run backup -n -E 3 true", "run backup -n -E 3 -- true"),
            ("run backup -nE 3 true", "run backup -nE 3 -- true"),
            (
                "run --timeout 5s backup true",
                "run --timeout 5s backup -- true",
            ),
            (
                "run --endpoints a:1 backup true",
                "run --endpoints a:1 backup -- true",
            ),
            ("run backup", "run backup"),
            ("run backup --ttl 5s", "run backup --ttl 5s"),
            ("run a b -- true", "run a b -- true"),
            (
                "run a kubectl exec pod -- ls",
                "run a kubectl exec pod -- ls",
            ),
            ("acquire a b", "acquire a b"),
            ("", ""),
        ] {
            let words = |text: &str| {
                let words = std::iter::once("quorlock").chain(text.split_whitespace());
                words.map(OsString::from).collect::<Vec<_>>()
            };
            assert_eq!(separated(words(given)), words(expected), "{given}");
        }
    }
}
