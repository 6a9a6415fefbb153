//! The `quorlock run`s that this process is within, and which locks they hold for it.
//!
//! Invariant: a variable only says what to ask. A run counts if this process descends from it, since it then ends this process
//! where it loses its lock; and it holds a name if a majority of the nodes says so. A lease that a shell got from `acquire`
//! never counts: no process ends the work when it is over.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use quorlock_client::{ExtendError, Redlock, Token, blocking};

use crate::exit_code::{Failure, NO_QUORUM};

/// The variable that names them, the innermost one last: `PROCESS:TOKEN PROCESS:TOKEN`.
pub(crate) const RUNS: &str = "QUORLOCK_RUNS";

/// What the variable is for a command that this process runs under that token.
pub(crate) fn with_this_one(token: &Token) -> String {
    let own = format!("{}:{token}", std::process::id());
    match env::var(RUNS) {
        Ok(outer) if !outer.is_empty() => format!("{outer} {own}"),
        _ => own,
    }
}

/// Whether one of them holds its lock under this token.
pub(crate) fn have(token: &Token) -> bool {
    tokens().contains(token)
}

/// Whether they hold all of these locks; a failure where they hold some of them alone.
pub(crate) fn hold_all(
    redlock: &Redlock,
    names: &[OsString],
    ttl: Duration,
) -> Result<bool, Failure> {
    let tokens = tokens();
    if tokens.is_empty() {
        return Ok(false);
    }
    let redlock = blocking::Redlock::from(redlock.clone());
    let (mut held, mut others) = (Vec::new(), Vec::new());
    for name in names {
        match is_held(&redlock, name, &tokens, ttl)? {
            true => held.push(name),
            false => others.push(name),
        }
    }
    match (held.first(), others.first()) {
        (Some(held), Some(other)) => Err(Failure::usage(format!(
            "the run around this command holds '{}' and not '{}', and what waits for a lock while it holds another one may \
             wait without end; nothing was run",
            held.display(),
            other.display()
        ))
        .remedy("let the outer run take all of these locks, together")),
        (held, _) => Ok(held.is_some()),
    }
}

/// An extension asks the nodes for votes, and shortens nothing.
fn is_held(
    redlock: &blocking::Redlock,
    name: &OsStr,
    tokens: &[Token],
    ttl: Duration,
) -> Result<bool, Failure> {
    for token in tokens {
        match redlock.extend(name.as_bytes(), token, ttl) {
            Ok(_) => return Ok(true),
            Err(error @ ExtendError::NoQuorum { .. }) => {
                let what = format!(
                    "it is not known whether the run around this command holds '{}' still: {error}; nothing was run",
                    name.display()
                );
                return Err(Failure::new(NO_QUORUM, what));
            }
            Err(_) => {}
        }
    }
    Ok(false)
}

/// The tokens of the runs that this process descends from, the innermost one first.
fn tokens() -> Vec<Token> {
    let Ok(runs) = env::var(RUNS) else {
        return Vec::new();
    };
    let ancestors: Vec<u32> = ancestors().collect();
    let of_ancestor = |run: &str| {
        let (process, token) = run.split_once(':')?;
        let process = process.parse::<u32>().ok()?;
        (ancestors.contains(&process) && !token.is_empty()).then(|| Token::from(token))
    };
    runs.split(' ').rev().filter_map(of_ancestor).collect()
}

fn ancestors() -> impl Iterator<Item = u32> {
    iter::successors(parent(std::process::id()), |process| parent(*process)).take(ANCESTORS_MAX)
}

fn parent(process: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{process}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    let parent = line.trim().parse::<u32>().ok()?;
    (parent > 0).then_some(parent)
}

/// The list of processes changes while it is read.
const ANCESTORS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_an_ancestor_and_no_process_its_own() {
        let own = std::process::id();
        let above: Vec<u32> = ancestors().collect();
        assert_eq!(above.first(), Some(&std::os::unix::process::parent_id()));
        assert!(!above.contains(&own) && !above.contains(&0), "{above:?}");
    }
}
