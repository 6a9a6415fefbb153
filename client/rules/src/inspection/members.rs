//! Adding and removing members of a cluster, one at a time, as far as its nodes can be asked.
//!
//! A node judges a change by itself and knows nothing of the others. So nothing is changed on any node before all of them have
//! said that the change before is over, with the locks of clients of that time.
//!
//! Invariant: a node goes by a number only if it is in the list of that length. So all that name a number are one list, and two
//! majorities of them have a node in common, whatever lists clients still have: the node that is added goes by the larger number alone, and
//! the one that is removed is not told of the smaller one.

use std::time::Duration;

use super::node_facts::NodeFacts;
use crate::votes::NODES_MAX;

/// A node, and what it says of itself, or why it cannot be asked.
pub type Asked<'a> = (&'a str, Result<&'a NodeFacts, &'a str>);

/// Why nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembersRefusal {
    /// What is so.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
    /// Whether a node was needed that does not answer.
    pub is_for_silence: bool,
}

/// What `cluster-size` is to be on the nodes that clients list, so that they may list another one as well.
///
/// # Errors
/// Why it is not added.
pub fn size_to_add(listed: &[Asked<'_>], joining: &Asked<'_>) -> Result<String, MembersRefusal> {
    let (old, new) = (listed.len(), listed.len() + 1);
    begins(listed, old, new)?;
    let joins = one(joining)?;
    if joins != (new, None) {
        return Err(refusal(
            format!(
                "{} goes by {} nodes, and the list with it has {new}",
                joining.0,
                shown(joins)
            ),
            format!("make its directory with: quorlock node init DIR --cluster-size {new}"),
        ));
    }
    Ok(format!("{old} {new}"))
}

/// What `cluster-size` is to be on all nodes that clients list but the one with this index, so that they may list the others alone. It may
/// be away.
///
/// # Errors
/// Why it is not removed.
pub fn size_to_remove(listed: &[Asked<'_>], leaving: usize) -> Result<String, MembersRefusal> {
    let (old, new) = (listed.len(), listed.len() - 1);
    if new == 0 {
        return Err(refusal(
            "it is the only node",
            "list all nodes that clients list",
        ));
    }
    let stays = listed.iter().enumerate().filter(|(at, _)| *at != leaving);
    let stay: Vec<Asked<'_>> = stays.map(|(_, node)| *node).collect();
    begins(&stay, old, new)?;
    let (label, facts) = &listed[leaving];
    match facts.map(|facts| (facts.cluster_size, facts.next_size)) {
        Ok(said) if said != (Some(old), None) => Err(refusal(
            format!("{label} is to go, and goes by other numbers than {old} alone"),
            ELSEWHERE,
        )),
        _ => Ok(format!("{old} {new}")),
    }
}

/// What `cluster-size` is to be on the nodes that clients list from now on, where the change is over.
///
/// # Errors
/// Why it is not ended.
pub fn size_to_end(listed: &[Asked<'_>]) -> Result<String, MembersRefusal> {
    let said = all(listed)?;
    let new = listed.len();
    let old = said
        .iter()
        .find_map(|(_, (size, next))| next.map(|next| (*size, next)));
    match old {
        Some((old, other)) if other != new => Err(refusal(
            format!("the change is from {old} to {other} nodes, and {new} are listed"),
            format!("list the {other} nodes that clients list from now on"),
        )),
        _ => {
            let old = old.map(|(old, _)| old);
            let is_right =
                |said| said == (new, None) || old.is_some_and(|old| said == (old, Some(new)));
            agree(&said, new, is_right)?;
            Ok(new.to_string())
        }
    }
}

/// What `cluster-size` is to be on the nodes that clients have listed before, where a removal is given up.
///
/// # Errors
/// Why it is not given up.
pub fn size_to_give_up(listed: &[Asked<'_>]) -> Result<String, MembersRefusal> {
    let said = all(listed)?;
    let old = listed.len();
    if said
        .iter()
        .any(|(_, (_, next))| next.is_some_and(|next| next > old))
    {
        return Err(refusal(
            "a client may have the list with the node that is added",
            "end the change: quorlock members end. Then remove that node: quorlock members remove NODE",
        ));
    }
    agree(&said, old, |(size, next)| {
        size == old && next.is_none_or(|next| next < old)
    })?;
    Ok(old.to_string())
}

/// The fence that all nodes take over before a change begins: none that was given is above it. None where none was given.
///
/// # Errors
/// When a node may have forgotten some.
pub fn floor(ceilings: &[(&str, u64, bool)]) -> Result<Option<u64>, MembersRefusal> {
    let largest = ceilings.iter().map(|(_, ceiling, _)| *ceiling).max();
    let Some(largest) = largest.filter(|largest| *largest > 0) else {
        return Ok(None);
    };
    match ceilings.iter().find(|(_, _, is_certain)| !is_certain) {
        Some((label, ..)) => Err(refusal(
            format!("{label} may have forgotten fences"),
            "run quorlock node sync with the list that clients have",
        )),
        None => Ok(Some(largest)),
    }
}

/// What a node goes by, in words.
#[must_use]
pub fn shown((size, next): (usize, Option<usize>)) -> String {
    match next {
        Some(next) => format!("{size} and {next}"),
        None if size > NODES_MAX => "no".to_owned(),
        None => size.to_string(),
    }
}

type Said = (usize, Option<usize>);

/// Whether a change from one number to another one can begin on these nodes, or has.
fn begins(nodes: &[Asked<'_>], old: usize, new: usize) -> Result<(), MembersRefusal> {
    let said = all(nodes)?;
    agree(&said, old, |said| {
        said == (old, None) || said == (old, Some(new))
    })?;
    let waits = nodes.iter().filter_map(|(label, facts)| {
        let facts = facts.ok()?;
        Some((
            facts.size_wait.filter(|_| facts.next_size.is_none())?,
            *label,
        ))
    });
    match waits.max() {
        Some((wait, label)) if wait > Duration::ZERO => Err(refusal(
            format!(
                "{label} says that locks of clients with another list may last {} ms more",
                wait.as_millis()
            ),
            "do it again then",
        )),
        _ => Ok(()),
    }
}

fn agree(
    said: &[(&str, Said)],
    size: usize,
    is_right: impl Fn(Said) -> bool,
) -> Result<(), MembersRefusal> {
    let Some((label, other)) = said.iter().find(|(_, said)| !is_right(*said)) else {
        return Ok(());
    };
    let remedy = match other {
        (_, None) if said.iter().any(|(_, said)| is_right(*said)) => format!(
            "if its configuration or its flags still have an old number, stop it and start it again with cluster-size {size}"
        ),
        _ => ELSEWHERE.to_owned(),
    };
    Err(refusal(
        format!(
            "{label} goes by {} nodes, and {size} are expected",
            shown(*other)
        ),
        remedy,
    ))
}

fn all<'a>(nodes: &[Asked<'a>]) -> Result<Vec<(&'a str, Said)>, MembersRefusal> {
    if nodes.is_empty() {
        return Err(refusal("no node is listed", "list all nodes"));
    }
    let said = nodes.iter().map(|node| Ok((node.0, one(node)?)));
    said.collect()
}

fn one((label, facts): &Asked<'_>) -> Result<Said, MembersRefusal> {
    let facts = facts.map_err(|why| MembersRefusal {
        is_for_silence: true,
        ..refusal(
            format!("{label} cannot be asked: {why}. It may still give votes to clients with another list"),
            "do it again when all nodes answer; a node that is lost is replaced first, under the same address, or removed",
        )
    })?;
    match facts.cluster_size {
        Some(size) => Ok((size, facts.next_size)),
        None => Err(refusal(
            format!("{label} goes by no number of nodes, as Redis and Valkey do"),
            "set cluster-size on a Quorlock node. For others change the lists of all clients by one node at a time, and wait for the \
             longest ttl between two changes",
        )),
    }
}

fn refusal(what: impl Into<String>, remedy: impl Into<String>) -> MembersRefusal {
    MembersRefusal {
        what: what.into(),
        remedy: remedy.into(),
        is_for_silence: false,
    }
}

const ELSEWHERE: &str = "see what each node goes by with: quorlock members. List the nodes that clients list, and end a change that has begun";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::super::node_reply::NodeReply;
    use super::*;

    /// What a node says: `5`, `5 6`, `5!` where locks may last, nothing, or `-` where it is away.
    fn facts(text: &&str) -> Result<NodeFacts, &'static str> {
        let mut words = text.trim_end_matches('!').split(' ');
        let (size, next) = (words.next().unwrap(), words.next().unwrap_or("0"));
        let wait = if text.ends_with('!') { 7 } else { 0 };
        let info = format!(
            "run_id:a\r\nquorlock_cluster_size:{size}\r\nquorlock_cluster_size_next:{next}\r\nquorlock_cluster_size_wait_ms:{wait}\r\n"
        );
        match *text {
            "-" => Err("refused"),
            _ => Ok(NodeFacts::read(&NodeReply::Text(info.into_bytes())).unwrap()),
        }
    }

    fn on<T>(
        said: &[&str],
        judge: impl FnOnce(&[Asked<'_>]) -> Result<T, MembersRefusal>,
    ) -> Result<T, String> {
        let facts: Vec<_> = said.iter().map(facts).collect();
        let nodes = facts
            .iter()
            .map(|facts| ("node", facts.as_ref().map_err(|why| *why)));
        judge(&nodes.collect::<Vec<_>>()).map_err(|refusal| refusal.what)
    }

    /// What it came to, and the size or a part of the refusal that it should be.
    type Checked<'a> = (Result<String, String>, Result<&'a str, &'a str>);

    fn check(outcomes: &[Checked<'_>]) {
        for (number, (outcome, expected)) in outcomes.iter().enumerate() {
            match (outcome, expected) {
                (Ok(size), Ok(expected)) => assert_eq!(size, expected, "{number}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{number}: {why}"),
                _ => panic!("{number}: {outcome:?} and not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_node_is_added_that_goes_by_the_list_with_it_where_all_others_go_by_the_one_without() {
        // The last one is the node that joins.
        let add = |said: &[&str]| {
            on(said, |nodes| {
                let (joining, listed) = nodes.split_last().unwrap();
                size_to_add(listed, joining)
            })
        };
        check(&[
            (add(&["3", "3", "3", "4"]), Ok("3 4")),
            (add(&["3 4", "3", "3 4", "4"]), Ok("3 4")),
            (
                add(&["3", "3", "3", "3"]),
                Err("goes by 3 nodes, and the list with it has 4"),
            ),
            (
                add(&["3", "3", "3", "4 3"]),
                Err("goes by 4 and 3 nodes, and the list"),
            ),
            (add(&["3", "3", "3", "255"]), Err("goes by no nodes")),
            (add(&["3", "-", "3", "4"]), Err("cannot be asked")),
            (add(&["3", "3", "3", "-"]), Err("cannot be asked")),
            (add(&["3", "0", "3", "4"]), Err("no number")),
            (add(&["3", "2 3", "3", "4"]), Err("goes by 2 and 3 nodes")),
            (add(&["3", "3 2", "3", "4"]), Err("goes by 3 and 2 nodes")),
            (add(&["3", "3!", "3", "4"]), Err("may last 7 ms more")),
            (add(&["3 4!", "3 4", "3 4", "4!"]), Ok("3 4")),
        ]);
    }

    #[test]
    fn a_node_is_removed_that_hears_nothing_of_the_list_without_it_and_may_be_away() {
        let remove = |said: &[&str], leaving| on(said, |nodes| size_to_remove(nodes, leaving));
        check(&[
            (remove(&["3", "3", "3"], 1), Ok("3 2")),
            (remove(&["3", "-", "3"], 1), Ok("3 2")),
            (remove(&["3 2", "3", "3"], 1), Ok("3 2")),
            (
                remove(&["3 2", "3 2", "3"], 1),
                Err("is to go, and goes by other numbers"),
            ),
            (remove(&["3", "3", "-"], 1), Err("cannot be asked")),
            (remove(&["3", "3", "3!"], 1), Err("may last 7 ms more")),
            (remove(&["3", "3", "3 4"], 1), Err("goes by 3 and 4 nodes")),
            (remove(&["1"], 0), Err("the only node")),
        ]);
    }

    #[test]
    fn a_change_ends_with_the_new_list_again_and_again_and_a_removal_is_given_up_with_the_old_one()
    {
        let (end, give_up) = (
            |said: &[&str]| on(said, size_to_end),
            |said: &[&str]| on(said, size_to_give_up),
        );
        check(&[
            (end(&["3 4", "3 4", "3 4", "4"]), Ok("4")),
            (end(&["4", "3 4", "4", "4"]), Ok("4")),
            (end(&["4", "4", "4", "4"]), Ok("4")),
            (end(&["4 3", "4 3", "4 3"]), Ok("3")),
            (
                end(&["3 4", "3 4", "3 4"]),
                Err("from 3 to 4 nodes, and 3 are listed"),
            ),
            (
                end(&["3 4", "3", "3 4", "4"]),
                Err("goes by 3 nodes, and 4 are expected"),
            ),
            (
                end(&["4", "3", "4", "4"]),
                Err("goes by 3 nodes, and 4 are expected"),
            ),
            (end(&["3 4", "-", "3 4", "4"]), Err("cannot be asked")),
            (give_up(&["4 3", "4 3", "4 3", "4"]), Ok("4")),
            (give_up(&["4", "4", "4", "4"]), Ok("4")),
            (
                give_up(&["3 4", "3 4", "3 4"]),
                Err("the node that is added"),
            ),
            (
                give_up(&["4 3", "4 3", "4 3"]),
                Err("goes by 4 and 3 nodes"),
            ),
        ]);
    }

    #[test]
    fn nodes_take_over_the_largest_ceiling_unless_one_has_forgotten_its_own() {
        let of = |ceilings: &[(u64, bool)]| {
            let named = ceilings
                .iter()
                .map(|(ceiling, certain)| ("node", *ceiling, *certain));
            floor(&named.collect::<Vec<_>>())
        };
        assert_eq!(of(&[(0, true), (0, true)]), Ok(None));
        assert_eq!(
            of(&[(0, false), (0, true)]),
            Ok(None),
            "no fence was ever given"
        );
        assert_eq!(of(&[(0, true), (70, true), (3, true)]), Ok(Some(70)));
        assert!(of(&[(70, true), (0, false)]).is_err());
    }
}
