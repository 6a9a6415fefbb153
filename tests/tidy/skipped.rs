//! Skipped is not passed: a test whose need may be missing is ignored, with the need as its reason, and `.ci/run`
//! runs it.
//!
//! The needs that `.ci/steps` provides, or leaves out by name, are listed here, so that no test is ignored for
//! good. A program that counts its checks itself prints what it skips; libtest cannot, so tests may not.

use crate::tree::Source;

/// What a reason begins with: what CI provides, and what it leaves out by name.
const REASONS: [&str; 11] = [
    "needs a file system that gives inode numbers again",
    "needs a kernel that lets one process answer the system calls of another",
    "needs etcd",
    "needs logrotate",
    "needs openssl",
    "needs redis-server",
    "needs root",
    "needs rsync",
    "needs zsh and fish",
    "a measurement",
    "a part of other tests",
];

/// Programs that end with `N passed, N failed, N skipped`.
const COUNTS_ITSELF: &str = "tests/time/main.rs";

/// Reports tests that skip themselves, and reasons that CI does not know.
pub(crate) fn skipped(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    if !source.is_rust() {
        return problems;
    }
    for (number, line) in source.text.lines().enumerate() {
        let line = line.trim_start();
        let mut say = |what: &str| {
            problems.push(format!("{}:{}: {what}", source.path, number + 1));
        };
        if let Some(reason) = line.strip_prefix("#[ignore") {
            let reason = reason.trim_start_matches(" = \"");
            if !REASONS.iter().any(|known| reason.starts_with(known)) {
                say("ignored for a reason that CI does not know");
            }
        }
        let prints = [
            concat!("println!(\"skip", "ped"),
            concat!("print!(\"skip", "ped"),
        ];
        if prints.iter().any(|it| line.contains(it)) && source.path != COUNTS_ITSELF {
            say("a test that skips itself counts as passed: ignore it, with what it needs");
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_skips_itself_or_is_ignored_for_good_is_reported() {
        let of = |text: &str| {
            let path = "tests/one.rs".into();
            let text = text.to_owned();
            skipped(&Source { path, text }).len()
        };
        assert_eq!(of("#[test]\n#[ignore = \"needs root and a mount\"]\n"), 0);
        assert_eq!(of("    #[ignore = \"needs the moon\"]\n"), 1);
        assert_eq!(of("#[ignore]\n"), 1);
        assert_eq!(of(concat!("eprintln!(\"skip", "ped: no moon\");")), 1);
    }
}
