//! How many nodes a cluster has, and how that number is changed while clients take locks.
//!
//! A member is added or removed one at a time: a majority of one list and a majority of the other then have a node in common,
//! so that clients with either list cannot hold the same lock (the argument of Raft's change of one server at a time, section
//! 4.1 of Ongaro's dissertation). While that goes on a node names both numbers, and clients with either list get its vote.
//!
//! Invariant: a node names a number only if it is in the list of that length, so that two lists of one length share a majority of the
//! votes that are left. Lists that differ by more than one never get votes of one node within the time that a lock lasts: the number is
//! changed in two steps, and the next change begins once the locks of clients with the list before have ended.

use std::fmt;
use std::time::Duration;

use super::error::Problem;
use super::value::integer;

/// The number of nodes that clients list, and another one while that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSize {
    nodes: u8,
    next: Option<u8>,
    /// The node that is added or removed, by its address: one change is about one node.
    about: Option<String>,
}

impl ClusterSize {
    /// A number that does not change; 0 where none is said.
    #[must_use]
    pub fn of(nodes: u8) -> Self {
        Self {
            nodes,
            ..Self::default()
        }
    }

    /// That of a node which is in no list any more: clients have none that is as long.
    #[must_use]
    pub fn removed() -> Self {
        Self::of(REMOVED)
    }

    /// Reads one number, or two that differ by one, or `removed`.
    pub(super) fn parse(values: &[String]) -> Result<Self, Problem> {
        let words: Vec<&str> = values.iter().flat_map(|it| it.split_whitespace()).collect();
        match words[..] {
            ["removed"] => Ok(Self::removed()),
            [nodes] => Ok(Self::of(integer(nodes, 0, NODES_MAX)?)),
            [nodes, next] => Self::changing(nodes, next, None),
            [nodes, next, about] => Self::changing(nodes, next, Some(about)),
            _ => Err(Problem::wrong_number_of_arguments()),
        }
    }

    fn changing(nodes: &str, next: &str, about: Option<&str>) -> Result<Self, Problem> {
        let nodes: u8 = integer(nodes, 1, NODES_MAX)?;
        let next = integer(next, 1, NODES_MAX)?;
        if nodes.abs_diff(next) != 1 {
            return Err(Problem::new(
                "one member at a time is added or removed: two numbers differ by one",
            ));
        }
        let is_address = |text: &str| {
            text.len() <= ADDRESS_BYTES_MAX
                && text.contains(':')
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !about.is_none_or(is_address) {
            return Err(Problem::new(
                "the address of the node that is added or removed has a ':' and up to 255 visible ASCII characters",
            ));
        }
        Ok(Self {
            nodes,
            next: Some(next),
            about: about.map(str::to_owned),
        })
    }

    /// Takes this number where none is said.
    pub(crate) fn default_to(&mut self, nodes: u8) {
        if !self.is_said() {
            *self = Self::of(nodes);
        }
    }

    /// How many nodes clients list; 0 where none is said.
    #[must_use]
    pub fn nodes(&self) -> u8 {
        self.nodes
    }

    /// How many nodes clients list from a change on that has begun.
    #[must_use]
    pub fn next(&self) -> Option<u8> {
        self.next
    }

    /// The node that is added or removed by it, by the address that the operator has named.
    #[must_use]
    pub fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// Whether any number is said.
    pub(crate) fn is_said(&self) -> bool {
        self.nodes > 0
    }

    /// Judges a change to another size, `quiet` after the last one or the start. Clients with a list that gets no vote any
    /// more are to be disconnected where it says so.
    ///
    /// # Errors
    /// Why it may not be made.
    pub(crate) fn change(
        &self,
        to: &Self,
        quiet: Duration,
        lock_max: Duration,
    ) -> Result<SizeChange, String> {
        if to == self {
            return Ok(SizeChange::None);
        }
        if *to == Self::removed() {
            return Ok(SizeChange::Disconnects);
        }
        if *self == Self::removed() {
            return Err(
                "this node was removed from its cluster; a new directory makes a new node"
                    .to_owned(),
            );
        }
        match (self.next, to.next) {
            (None, None) if !self.is_said() => Ok(SizeChange::Disconnects),
            (None, Some(_)) if !self.is_said() => {
                Err("clients go by one number alone first".to_owned())
            }
            (None, Some(_)) if to.nodes == self.nodes => match lock_max.checked_sub(quiet) {
                Some(left) if !left.is_zero() => Err(format!(
                    "locks of clients with another list of nodes may last {} ms more: a member is added or removed after that",
                    left.as_millis().max(1)
                )),
                _ => Ok(SizeChange::Begins),
            },
            (Some(next), None) if [self.nodes, next].contains(&to.nodes) => {
                Ok(SizeChange::Disconnects)
            }
            (None, None) if !to.is_said() => {
                Err("a number that clients go by is not taken back".to_owned())
            }
            (Some(_), _) => Err(format!(
                "the change of members that has begun ({self}) is ended or given up first, with one of its two numbers"
            )),
            (None, _) => Err(format!(
                "clients with lists of {} and of {} nodes could hold the same lock. One member at a time is added or removed: \
                 '{} {}' first, then give every client the other list, and then the second number alone",
                self.nodes,
                to.next.unwrap_or(to.nodes),
                self.nodes,
                self.towards(to.next.unwrap_or(to.nodes)),
            )),
        }
    }

    /// One more or one less.
    fn towards(&self, wanted: u8) -> u8 {
        match wanted > self.nodes {
            true => self.nodes + 1,
            false => self.nodes - 1,
        }
    }
}

impl fmt::Display for ClusterSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.next {
            Some(next) => {
                write!(formatter, "{} {next}", self.nodes)?;
                match &self.about {
                    Some(about) => write!(formatter, " {about}"),
                    None => Ok(()),
                }
            }
            None if self.nodes == REMOVED => formatter.write_str("removed"),
            None => write!(formatter, "{}", self.nodes),
        }
    }
}

/// What a change of the size comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeChange {
    None,
    /// Clients with either list get votes from now on.
    Begins,
    /// Some clients may have a list that gets no vote any more, and are to ask again.
    Disconnects,
}

const NODES_MAX: u8 = 64;
const REMOVED: u8 = u8::MAX;
const ADDRESS_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    fn size(text: &str) -> ClusterSize {
        ClusterSize::parse(&[text.to_owned()]).unwrap()
    }

    #[test]
    fn a_size_is_one_number_or_two_that_differ_by_one() {
        for text in [
            "0",
            "1",
            "64",
            "5 6",
            "6 5",
            "1 2",
            "64 63",
            "removed",
            "5 6 redis://db6:7001",
        ] {
            assert_eq!(size(text).to_string(), text);
        }
        let two = ["5".to_owned(), "6".to_owned()];
        assert_eq!(ClusterSize::parse(&two).unwrap(), size("5 6"));
        for text in [
            "",
            "65",
            "255",
            "removed 5",
            "5 removed",
            "-1",
            "5 7",
            "5 5",
            "0 1",
            "1 0",
            "64 65",
            "5 6 7",
            "five",
        ] {
            let refused = ClusterSize::parse(&[text.to_owned()]);
            assert!(refused.is_err(), "{text:?}: {refused:?}");
        }
    }

    #[test]
    fn a_size_changes_by_one_and_in_two_steps() {
        let lock_max = Duration::from_secs(60);
        let outcome = |from: &str, to: &str| size(from).change(&size(to), lock_max, lock_max);
        for (from, to, change) in [
            ("5", "5", SizeChange::None),
            ("5 6", "5 6", SizeChange::None),
            ("0", "5", SizeChange::Disconnects),
            ("5", "5 6", SizeChange::Begins),
            ("5", "5 4", SizeChange::Begins),
            ("5 6", "6", SizeChange::Disconnects),
            ("5 6", "5", SizeChange::Disconnects),
            ("5", "5 6 a:1", SizeChange::Begins),
            ("5 6 a:1", "6", SizeChange::Disconnects),
            ("5 6 a:1", "5 6 a:1", SizeChange::None),
            ("5", "removed", SizeChange::Disconnects),
            ("5 6", "removed", SizeChange::Disconnects),
            ("removed", "removed", SizeChange::None),
        ] {
            assert_eq!(outcome(from, to), Ok(change), "{from} to {to}");
        }
        for (from, to, part) in [
            ("5", "6", "'5 6' first"),
            ("5", "9", "'5 6' first"),
            ("5", "3", "'5 4' first"),
            ("1", "0", "not taken back"),
            ("5", "6 7", "'5 6' first"),
            ("0", "5 6", "one number alone"),
            ("5 6", "6 7", "(5 6) is ended"),
            ("5 6 a:1", "5 6 b:1", "(5 6 a:1) is ended"),
            ("5 6 a:1", "5 6", "(5 6 a:1) is ended"),
            ("5 6", "6 5", "(5 6) is ended"),
            ("5 6", "7", "(5 6) is ended"),
            ("removed", "5", "new directory"),
            ("removed", "5 6", "new directory"),
        ] {
            let why = outcome(from, to).unwrap_err();
            assert!(why.contains(part), "{from} to {to}: {why}");
        }
    }

    #[test]
    fn a_change_begins_once_the_locks_of_the_list_before_have_ended() {
        let lock_max = Duration::from_millis(60_000);
        let begin = |quiet| size("6").change(&size("6 7"), Duration::from_millis(quiet), lock_max);
        let why = begin(59_000).unwrap_err();
        assert!(why.contains("may last 1000 ms more"), "{why}");
        assert!(begin(59_999).is_err());
        assert_eq!(begin(60_000), Ok(SizeChange::Begins));
        // It ends without a wait.
        let ended = size("6 7").change(&size("7"), Duration::ZERO, lock_max);
        assert_eq!(ended, Ok(SizeChange::Disconnects));
    }
}
