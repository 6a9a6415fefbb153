//! The `quorlock run`s that this process is within, and which locks they hold for it.
//!
//! Invariant: a variable only says what to ask. A run counts if this process descends from it, since it then ends this process
//! where it loses its lock; and it holds a name if a majority of the nodes says so. A lease that a shell got from `acquire`
//! never counts: no process ends the work when it is over. A variable may reach any machine, and each container has a process 1:
//! so a run is known by its start, boot and namespace as well.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use quorlock_client::{ExtendError, Redlock, Token, blocking};

use crate::exit_code::{Failure, NO_QUORUM};

/// The variable that names them, the innermost one last, each as `NUMBER.START.NAMESPACE.BOOT.TTL_MS:TOKEN`.
pub(crate) const RUNS: &str = "QUORLOCK_RUNS";

/// What the variable is for a command that this process runs under that token; `None` where it cannot name this process.
pub(crate) fn with_this_one(token: &Token, ttl: Duration) -> Option<String> {
    let process = ProcessStat::read("self")?.identity(&namespace()?);
    let own = format!("{process}.{}:{token}", ttl.as_millis());
    Some(match env::var(RUNS) {
        Ok(outer) if !outer.is_empty() => format!("{outer} {own}"),
        _ => own,
    })
}

/// Whether one of them holds its lock under this token.
pub(crate) fn have(token: &Token) -> bool {
    runs().iter().any(|run| run.token == *token)
}

/// Whether they hold all of these locks; a failure where they hold some of them alone.
pub(crate) fn hold_all(
    redlock: &Redlock,
    names: &[OsString],
    ttl: Duration,
) -> Result<bool, Failure> {
    let runs = runs();
    if runs.is_empty() {
        return Ok(false);
    }
    let redlock = blocking::Redlock::from(redlock.clone());
    let (mut held, mut others) = (Vec::new(), Vec::new());
    for name in names {
        match is_held(&redlock, name, &runs, ttl)? {
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

/// An extension asks the nodes for votes. It shortens nothing, and lengthens no lease beyond the run's own ttl.
fn is_held(
    redlock: &blocking::Redlock,
    name: &OsStr,
    runs: &[Run],
    ttl: Duration,
) -> Result<bool, Failure> {
    for run in runs {
        match redlock.extend(name.as_bytes(), &run.token, run.ttl.min(ttl)) {
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

/// A run that this process descends from.
struct Run {
    token: Token,
    ttl: Duration,
}

/// All of them, the innermost one first.
fn runs() -> Vec<Run> {
    let Ok(runs) = env::var(RUNS) else {
        return Vec::new();
    };
    let ancestors = ancestors();
    let of_ancestor = |run: &str| {
        let (process, token) = run.split_once(':')?;
        let (process, ttl_ms) = process.rsplit_once('.')?;
        let is_above = ancestors.iter().any(|ancestor| ancestor == process);
        let ttl = Duration::from_millis(ttl_ms.parse().ok()?);
        (is_above && !token.is_empty()).then(|| Run {
            token: Token::from(token),
            ttl,
        })
    };
    runs.split(' ').rev().filter_map(of_ancestor).collect()
}

/// The identities of all processes that this one descends from, its parent first.
fn ancestors() -> Vec<String> {
    let Some(namespace) = namespace() else {
        return Vec::new();
    };
    let parent = |process: &ProcessStat| ProcessStat::read(&process.parent);
    let own = ProcessStat::read("self");
    iter::successors(own.as_ref().and_then(parent), parent)
        .take(ANCESTORS_MAX)
        .map(|process| process.identity(&namespace))
        .collect()
}

/// Where no two processes have the same number and start: the namespace of this one's number, in this boot.
fn namespace() -> Option<String> {
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let boot = boot.trim_end();
    (!boot.is_empty()).then(|| format!("{namespace}.{boot}"))
}

/// What `/proc/PID/stat` says of a process, as the kernel writes it.
struct ProcessStat {
    number: String,
    parent: String,
    started: String,
}

impl ProcessStat {
    fn read(number: &str) -> Option<Self> {
        let line = fs::read(format!("/proc/{number}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&line))
    }

    fn parse(line: &str) -> Option<Self> {
        // The name may contain blanks and parentheses itself.
        let (name, fields) = line.rsplit_once(')')?;
        let (number, _) = name.split_once(' ')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        Some(Self {
            number: number.to_owned(),
            parent: (*fields.get(FIELD_PARENT)?).to_owned(),
            started: (*fields.get(FIELD_STARTED)?).to_owned(),
        })
    }

    fn identity(&self, namespace: &str) -> String {
        format!("{}.{}.{namespace}", self.number, self.started)
    }
}

/// Counted from the state, which follows the name.
const FIELD_PARENT: usize = 1;
const FIELD_STARTED: usize = 19;
/// The list of processes changes while it is read.
const ANCESTORS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_an_ancestor_and_no_process_its_own() {
        let above = ancestors();
        let parent = format!("{}.", std::os::unix::process::parent_id());
        let has = |number: &str| above.iter().any(|process| process.starts_with(number));
        assert!(above[0].starts_with(&parent), "{above:?}");
        let own = format!("{}.", std::process::id());
        assert!(!has(&own) && !has("0."), "{above:?}");
    }

    #[test]
    fn a_name_that_looks_like_fields_hides_none() {
        let line = "7 (a) Z 1 (b) S 3 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 4711 99\n";
        let process = ProcessStat::parse(line).unwrap();
        assert_eq!(
            (process.parent.as_str(), process.identity("n.b").as_str()),
            ("3", "7.4711.n.b")
        );
        assert!(ProcessStat::parse("7 (a) S 3").is_none() && ProcessStat::parse("").is_none());
    }
}
