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

/// What giving changes up comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// What `cluster-size` is to be.
    pub size: String,
    /// The nodes that were to be added: they go by the number of a list that is not to be.
    pub left_over: Vec<String>,
}

/// What `cluster-size` is to be on the nodes that clients have listed before, where a removal is given up, or two changes that have begun
/// in two places at once. A node in one change takes no other. So where there are two, no addition has reached all nodes, and no client was
/// given its list, unless a node has forgotten a change since, in a start with a number that was not written. A removal may have
/// reached all that stay, and is given up also then.
///
/// # Errors
/// Why it is not given up.
pub fn size_to_give_up(listed: &[Asked<'_>]) -> Result<GivenUp, MembersRefusal> {
    let said = all(listed)?;
    let old = listed.len();
    // Two that name no node may be one.
    let named = || changes(listed).filter_map(|(_, about)| about);
    let first = named().next();
    let are_two = named().any(|other| Some(other) != first);
    let mut next = said.iter().filter_map(|(_, (_, next))| *next);
    if !are_two && next.any(|next| next > old) {
        let begun: Vec<&str> = changes(listed).map(|(label, _)| label).collect();
        let has_ended = said.iter().any(|(_, (size, _))| *size != old);
        return Err(refusal(
            "a client may have the list with the node that is added",
            match begun.len() == old || has_ended {
                true => "end the change: quorlock members end. Then remove that node: quorlock members remove NODE".to_owned(),
                false => format!(
                    "it has not reached all nodes: go on with it: quorlock members add {}. Then end it, and remove that node. If it is what \
                     is left of two changes of which the other one was given up, no client has its list: on {}: redis-cli CONFIG SET \
                     cluster-size {old}, and CONFIG REWRITE",
                    first.unwrap_or("NODE"),
                    begun.join(" and ")
                ),
            },
        ));
    }
    agree(&said, old, |(size, next)| {
        size == old && next.is_none_or(|next| next < old || are_two)
    })?;
    let is_listed = |about: &str| listed.iter().any(|(label, _)| *label == about);
    let mut left_over: Vec<String> = Vec::new();
    for about in named().filter(|about| !is_listed(about)) {
        if !left_over.iter().any(|other| other == about) {
            left_over.push(about.to_owned());
        }
    }
    Ok(GivenUp {
        size: old.to_string(),
        left_over,
    })
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
mod tests;
