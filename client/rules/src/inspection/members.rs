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
    begins(listed, (old, new), joining.0)?;
    let joins = one(joining)?;
    if joins != (new, None) {
        return Err(refusal(
            format!(
                "{} goes by {}, and the list with it has {new} nodes",
                joining.0,
                shown(joins)
            ),
            format!("make its directory with: quorlock node init DIR --cluster-size {new}"),
        ));
    }
    Ok(format!("{old} {new} {}", joining.0))
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
    let (label, facts) = &listed[leaving];
    begins(&stay, (old, new), label)?;
    match facts.map(|facts| (facts.cluster_size, facts.next_size)) {
        Ok(said) if said != (Some(old), None) => Err(refusal(
            format!("{label} is to go, and goes by other numbers than {old} alone"),
            ELSEWHERE,
        )),
        _ => Ok(format!("{old} {new} {label}")),
    }
}

/// What `cluster-size` is to be on the nodes that clients list from now on, where the change is over, and whether one was removed. A node
/// that was added goes by the right number, and may be away.
///
/// # Errors
/// Why it is not ended.
pub fn size_to_end(listed: &[Asked<'_>]) -> Result<(String, bool), MembersRefusal> {
    let new = listed.len();
    let mut facts = listed.iter().filter_map(|(_, facts)| facts.ok());
    let change = facts.find_map(|facts| {
        let about = facts.size_about.as_deref();
        Some((facts.cluster_size?, facts.next_size?, about))
    });
    let Some((old, other, about)) = change else {
        agree(&all(listed)?, new, |said| said == (new, None))?;
        return Ok((new.to_string(), false));
    };
    if other != new {
        return Err(refusal(
            format!("the change is from {old} to {other} nodes, and {new} are listed"),
            format!("list the {other} nodes that clients list from now on"),
        ));
    }
    let is_listed = |about: &str| listed.iter().any(|(label, _)| *label == about);
    if let Some(about) = about.filter(|about| is_listed(about) != (new > old)) {
        return Err(refusal(
            match new > old {
                true => format!("{about} is added, and is not listed"),
                false => format!("{about} is removed, and is listed"),
            },
            "list the nodes that clients list from now on, each as when the change began",
        ));
    }
    let asked = listed
        .iter()
        .filter(|(label, facts)| facts.is_ok() || about != Some(*label));
    let asked: Vec<Asked<'_>> = asked.copied().collect();
    same_change(&asked, about)?;
    agree(&all(&asked)?, new, |said| {
        said == (new, None) || said == (old, Some(new))
    })?;
    Ok((new.to_string(), new < old))
}

/// What `cluster-size` is to be on the nodes that clients have listed before, where a removal is given up, or two changes that have begun
/// in two places at once. A node in one change takes no other, so neither of two has reached all nodes, and no client was given its list.
///
/// # Errors
/// Why it is not given up.
pub fn size_to_give_up(listed: &[Asked<'_>]) -> Result<String, MembersRefusal> {
    let said = all(listed)?;
    let old = listed.len();
    let mut begun = changes(listed).map(|(_, about)| about);
    let first = begun.next().flatten();
    // Two that name no node may be one.
    let are_two = first.is_some() && begun.any(|other| other.is_some() && other != first);
    let may_be_listed = |next: usize| next > old && !are_two;
    if said
        .iter()
        .any(|(_, (_, next))| next.is_some_and(may_be_listed))
    {
        return Err(refusal(
            "a client may have the list with the node that is added",
            "end the change: quorlock members end. Then remove that node: quorlock members remove NODE",
        ));
    }
    agree(&said, old, |(size, next)| {
        size == old && next.is_none_or(|next| next < old || are_two)
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
        None if size > NODES_MAX => "removed".to_owned(),
        None => size.to_string(),
    }
}

type Said = (usize, Option<usize>);

/// Whether a change from one number to another one, about this node, can begin on these nodes, or has.
fn begins(
    nodes: &[Asked<'_>],
    (old, new): (usize, usize),
    about: &str,
) -> Result<(), MembersRefusal> {
    let said = all(nodes)?;
    agree(&said, old, |said| {
        said == (old, None) || said == (old, Some(new))
    })?;
    same_change(nodes, Some(about))?;
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

/// Whether all nodes that have begun a change have begun the one about this node.
fn same_change(nodes: &[Asked<'_>], about: Option<&str>) -> Result<(), MembersRefusal> {
    match changes(nodes).find(|(_, other)| *other != about) {
        None => Ok(()),
        Some((label, other)) => Err(refusal(
            format!(
                "{label} is in a change about {}",
                other.unwrap_or("a node that was not named")
            ),
            "one change is about one node: go on with that one, in the words with which it began, and end it. Where two have begun at \
             once, each on some nodes, give both up with the list that clients have: quorlock members give-up",
        )),
    }
}

/// The nodes that have begun a change, and about which node.
fn changes<'a>(nodes: &'a [Asked<'a>]) -> impl Iterator<Item = (&'a str, Option<&'a str>)> + 'a {
    nodes.iter().filter_map(|(label, facts)| {
        let facts = facts.ok().filter(|facts| facts.next_size.is_some())?;
        Some((*label, facts.size_about.as_deref()))
    })
}

fn agree(
    said: &[(&str, Said)],
    size: usize,
    is_right: impl Fn(Said) -> bool,
) -> Result<(), MembersRefusal> {
    let Some((label, other)) = said.iter().find(|(_, said)| !is_right(*said)) else {
        return Ok(());
    };
    // In the middle of a change it may be the node that goes, or one that the change has not reached.
    let is_steady = |(_, (size, next)): &(&str, Said)| next.is_none() && *size <= NODES_MAX;
    let is_one = said.iter().filter(|(_, said)| !is_right(*said)).count() == 1;
    let remedy = match is_one && said.len() > 2 && said.iter().all(is_steady) {
        true => format!(
            "see what each node goes by with: quorlock members. If this one has started with an old number, stop it, correct its \
             configuration and its flags, and start it with cluster-size {size}"
        ),
        false => ELSEWHERE.to_owned(),
    };
    Err(refusal(
        format!(
            "{label} goes by {}, and {size} nodes are expected",
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

const ELSEWHERE: &str = "see what each node goes by with: quorlock members. Go on with a change that has begun: quorlock members add or \
     remove again with the list of before, and then end it with the list of afterwards";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::super::node_reply::NodeReply;
    use super::*;

    /// What a node says: `5`, `5 6 n5`, `5!` where locks may last, nothing, or `-` where it is away.
    fn facts(text: &&str) -> Result<NodeFacts, &'static str> {
        let mut words = text.trim_end_matches('!').split(' ');
        let (size, next) = (words.next().unwrap(), words.next().unwrap_or("0"));
        let about = words.next().unwrap_or_default();
        let wait = if text.ends_with('!') { 7 } else { 0 };
        let info = format!(
            "run_id:a\r\nquorlock_cluster_size:{size}\r\nquorlock_cluster_size_next:{next}\r\nquorlock_cluster_size_wait_ms:{wait}\r\nquorlock_cluster_size_about:{about}\r\n"
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
        let labels = ["n0", "n1", "n2", "n3", "n4"].iter();
        let nodes = labels
            .zip(&facts)
            .map(|(label, facts)| (*label, facts.as_ref().map_err(|why| *why)));
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
            (add(&["3", "3", "3", "4"]), Ok("3 4 n3")),
            (add(&["3 4 n3", "3", "3 4 n3", "4"]), Ok("3 4 n3")),
            (
                add(&["3 4 n9", "3", "3 4 n9", "4"]),
                Err("is in a change about n9"),
            ),
            (
                add(&["3 4", "3", "3 4", "4"]),
                Err("about a node that was not named"),
            ),
            (
                add(&["3", "3", "3", "3"]),
                Err("goes by 3, and the list with it has 4"),
            ),
            (
                add(&["3", "3", "3", "4 3"]),
                Err("goes by 4 and 3, and the list"),
            ),
            (add(&["3", "3", "3", "255"]), Err("goes by removed")),
            (add(&["3", "-", "3", "4"]), Err("cannot be asked")),
            (add(&["3", "3", "3", "-"]), Err("cannot be asked")),
            (add(&["3", "0", "3", "4"]), Err("no number")),
            (add(&["3", "2 3 n1", "3", "4"]), Err("goes by 2 and 3")),
            (add(&["3", "3 2 n0", "3", "4"]), Err("goes by 3 and 2")),
            (add(&["3", "3!", "3", "4"]), Err("may last 7 ms more")),
            (add(&["3 4 n3!", "3 4 n3", "3 4 n3", "4!"]), Ok("3 4 n3")),
        ]);
    }

    #[test]
    fn a_node_is_removed_that_hears_nothing_of_the_list_without_it_and_may_be_away() {
        let remove = |said: &[&str], leaving| on(said, |nodes| size_to_remove(nodes, leaving));
        check(&[
            (remove(&["3", "3", "3"], 1), Ok("3 2 n1")),
            (remove(&["3", "-", "3"], 1), Ok("3 2 n1")),
            (remove(&["3 2 n1", "3", "3"], 1), Ok("3 2 n1")),
            // Another one, which is away, beside the one that has begun.
            (
                remove(&["3", "-", "3 2 n0"], 1),
                Err("is in a change about n0"),
            ),
            (
                remove(&["3 2 n1", "3 2 n1", "3"], 1),
                Err("is to go, and goes by other numbers"),
            ),
            (remove(&["3", "3", "-"], 1), Err("cannot be asked")),
            (remove(&["3", "3", "3!"], 1), Err("may last 7 ms more")),
            (remove(&["3", "3", "3 4 n9"], 1), Err("goes by 3 and 4")),
            (remove(&["1"], 0), Err("the only node")),
        ]);
    }

    #[test]
    fn a_change_ends_with_the_new_list_again_and_again_and_a_removal_is_given_up_with_the_old_one()
    {
        let end = |said: &[&str]| on(said, |nodes| size_to_end(nodes).map(|(size, _)| size));
        let give_up = |said: &[&str]| on(said, size_to_give_up);
        check(&[
            (end(&["3 4 n3", "3 4 n3", "3 4 n3", "4"]), Ok("4")),
            (end(&["3 4 n3", "3 4 n3", "3 4 n3", "-"]), Ok("4")),
            (end(&["4", "3 4 n3", "4", "4"]), Ok("4")),
            (end(&["4", "4", "4", "4"]), Ok("4")),
            (end(&["4 3 n9", "4 3 n9", "4 3 n9"]), Ok("3")),
            (end(&["4 3", "4 3", "4 3"]), Ok("3")),
            // With another node than the one that was added, and with the one that was removed.
            (
                end(&["3 4 n9", "3 4 n9", "3 4 n9", "4"]),
                Err("n9 is added, and is not listed"),
            ),
            (
                end(&["4", "4 3 n0", "4 3 n0"]),
                Err("n0 is removed, and is listed"),
            ),
            (
                end(&["3 4 n3", "3 4 n2", "3 4 n3", "4"]),
                Err("is in a change about n2"),
            ),
            (
                end(&["3 4 n3", "3 4 n3", "3 4 n3"]),
                Err("from 3 to 4 nodes, and 3 are listed"),
            ),
            (
                end(&["3 4 n3", "3", "3 4 n3", "4"]),
                Err("goes by 3, and 4 nodes are expected"),
            ),
            (
                end(&["4", "3", "4", "4"]),
                Err("goes by 3, and 4 nodes are expected"),
            ),
            (end(&["3 4 n3", "-", "3 4 n3", "4"]), Err("cannot be asked")),
            (give_up(&["4 3 n3", "4 3 n3", "4 3 n3", "4"]), Ok("4")),
            (give_up(&["4", "4", "4", "4"]), Ok("4")),
            (
                give_up(&["3 4 n9", "3 4 n9", "3 4 n9"]),
                Err("the node that is added"),
            ),
            (
                give_up(&["3 4 n9", "3", "3"]),
                Err("the node that is added"),
            ),
            // Two that have begun at once: no client was given the list of either.
            (give_up(&["3 4 n9", "3 4 n8", "3"]), Ok("3")),
            (give_up(&["3", "3 4 n9", "3 2 n0"]), Ok("3")),
            (give_up(&["3 2 n1", "3 2 n0", "3"]), Ok("3")),
            (give_up(&["3 4 n9", "3 4 n8", "-"]), Err("cannot be asked")),
            (
                give_up(&["3 4 n9", "3 4", "3"]),
                Err("the node that is added"),
            ),
            (give_up(&["3 4 n9", "4 5 n8", "3"]), Err("goes by 4 and 5")),
            (
                give_up(&["4 3 n9", "4 3 n9", "4 3 n9"]),
                Err("goes by 4 and 3"),
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
