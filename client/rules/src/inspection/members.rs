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
    /// Of each node that was needed and does not answer, why it does not.
    pub silent: Vec<String>,
}

/// What nodes are to say from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeStep {
    /// What `cluster-size` is to be,
    pub size: String,
    /// on these of the listed nodes.
    pub nodes: Vec<usize>,
    /// Those that go by it alone already, which are not asked to: another change may have begun there since.
    pub unchanged: Vec<usize>,
    /// The nodes that are in no list afterwards, and are to be stopped.
    pub left_over: Vec<String>,
    /// The nodes that the changes are about which it ends or gives up.
    pub ended: Vec<String>,
}

impl SizeStep {
    /// Whether it ends or gives up no change that has begun since the first look, from which this step came.
    ///
    /// # Errors
    /// The one that has.
    pub fn follows(&self, first: &Self) -> Result<(), MembersRefusal> {
        match self.ended.iter().find(|about| !first.ended.contains(about)) {
            None => Ok(()),
            Some(about) => Err(refusal(
                format!("a change about {about} has begun meanwhile"),
                "see what each node goes by with: quorlock members. If that change is meant as well, do it again",
            )),
        }
    }
}

/// Lets clients list another node as well.
///
/// # Errors
/// Why it is not added.
pub fn size_to_add(listed: &[Asked<'_>], joining: &Asked<'_>) -> Result<SizeStep, MembersRefusal> {
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
    Ok(step(
        format!("{old} {new} {}", joining.0),
        (0..old).collect(),
    ))
}

/// Lets clients list all nodes but the one with this index. It may be away; where two are listed it has to be, because of two that are
/// removed at once no third node knows. Nodes on which the removal has ended already, while it was given up on others, stay as they
/// are: then the node that goes has to say itself that it is removed, so that no other one can be meant.
///
/// # Errors
/// Why it is not removed.
pub fn size_to_remove(listed: &[Asked<'_>], leaving: usize) -> Result<SizeStep, MembersRefusal> {
    let (old, new) = (listed.len(), listed.len() - 1);
    if new == 0 {
        return Err(refusal(
            "it is the only node",
            "list all nodes that clients list",
        ));
    }
    let others = (0..old).filter(|at| *at != leaving);
    let stay: Vec<Asked<'_>> = others.clone().map(|at| listed[at]).collect();
    let (label, facts) = listed[leaving];
    begins(&stay, (old, new), label)?;
    is_quiet(&listed[leaving..=leaving])?;
    let is_over = |at: &usize| listed[*at].1.ok().and_then(said) == Some((new, None));
    let goes_by = facts.ok().map(said);
    let is_removed = matches!(goes_by, Some(Some((size, None))) if size > NODES_MAX);
    if !is_removed {
        if goes_by.is_some_and(|goes_by| goes_by != Some((old, None))) {
            return Err(refusal(
                format!("{label} is to go, and goes by other numbers than {old} alone"),
                ELSEWHERE,
            ));
        }
        if others.clone().any(|at| is_over(&at)) {
            return Err(refusal(
                format!(
                    "a removal has ended on some nodes, and {label} does not say that it is the one that was removed"
                ),
                format!(
                    "if it is, on {label}, or on a new node under its address: redis-cli CONFIG SET cluster-size removed. Then do it again, \
                     and end it. {ELSEWHERE}"
                ),
            ));
        }
        if new == 1 && facts.is_ok() {
            return Err(refusal(
                format!("{label} answers, and of two nodes the one that goes is stopped first"),
                "stop it for good, and do it again",
            ));
        }
    }
    let nodes: Vec<usize> = others.filter(|at| !is_over(at)).collect();
    match nodes.is_empty() {
        true => Err(refusal(
            format!("{label} is removed, and the other nodes go by {new} already"),
            "give every client the list without it, and then: quorlock members end",
        )),
        false => Ok(step(format!("{old} {new} {label}"), nodes)),
    }
}

/// Has clients list these nodes and no others, where the change is over. A node that was added goes by the right number, and may be away.
/// The one that is removed may be named, so that it is no other one.
///
/// # Errors
/// Why it is not ended.
pub fn size_to_end(
    listed: &[Asked<'_>],
    removed: Option<&str>,
) -> Result<SizeStep, MembersRefusal> {
    let new = listed.len();
    let mut facts = listed.iter().filter_map(|(_, facts)| facts.ok());
    let change = facts.find_map(|facts| {
        let about = facts.size_about.as_deref();
        Some((facts.cluster_size?, facts.next_size?, about))
    });
    let Some((old, other, about)) = change else {
        agree(&all(listed, new)?, new, |said| said == (new, None))?;
        return Ok(alone(new, listed, (0..new).collect()));
    };
    if other != new {
        return Err(refusal(
            format!("the change is from {old} to {other} nodes, and {new} are listed"),
            format!("list the {other} nodes that clients list from now on"),
        ));
    }
    let is_listed = |about: &str| listed.iter().any(|(label, _)| *label == about);
    let is_other = |about: &str| removed.is_some_and(|removed| removed != about);
    if let Some(about) = about.filter(|about| is_listed(about) != (new > old) || is_other(about)) {
        return Err(refusal(
            match (new > old, is_listed(about)) {
                (true, false) => format!("{about} is added, and is not listed"),
                (false, true) => format!("{about} is removed, and is listed"),
                _ => format!("the change is about {about}"),
            },
            "list the nodes that clients list from now on, and name no other node as the removed one, each as when the change began",
        ));
    }
    let may_be_away = |at: &usize| listed[*at].1.is_err() && about == Some(listed[*at].0);
    let nodes: Vec<usize> = (0..new).filter(|at| !may_be_away(at)).collect();
    let asked: Vec<Asked<'_>> = nodes.iter().map(|at| listed[*at]).collect();
    same_change(&asked, about)?;
    agree(&all(&asked, new)?, new, |said| {
        said == (new, None) || said == (old, Some(new))
    })?;
    let removed = about.unwrap_or("the node that was removed").to_owned();
    Ok(SizeStep {
        left_over: (new < old).then_some(removed).into_iter().collect(),
        ..alone(new, listed, nodes)
    })
}

/// Has clients list the nodes that they have listed before, where a removal is given up, or two changes that have begun
/// in two places at once. A node in one change takes no other. So where there are two, no addition has reached all nodes, and no client was
/// given its list, unless a node has forgotten a change since, in a start with a number that was not written. A removal may have
/// reached all that stay, and is given up also then.
///
/// # Errors
/// Why it is not given up.
pub fn size_to_give_up(listed: &[Asked<'_>]) -> Result<SizeStep, MembersRefusal> {
    let old = listed.len();
    let said = all(listed, old)?;
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
    Ok(SizeStep {
        left_over,
        ..alone(old, listed, (0..old).collect())
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

fn step(size: String, nodes: Vec<usize>) -> SizeStep {
    SizeStep {
        size,
        nodes,
        unchanged: Vec::new(),
        left_over: Vec::new(),
        ended: Vec::new(),
    }
}

/// Has those of these nodes that are in a change go by this number alone.
fn alone(size: usize, listed: &[Asked<'_>], nodes: Vec<usize>) -> SizeStep {
    let is_in_change = |at: &usize| listed[*at].1.is_ok_and(|facts| facts.next_size.is_some());
    let (nodes, unchanged) = nodes.into_iter().partition(is_in_change);
    let abouts = changes(listed).map(|(_, about)| about.unwrap_or(UNNAMED).to_owned());
    SizeStep {
        unchanged,
        ended: abouts.collect(),
        ..step(size.to_string(), nodes)
    }
}

/// Whether a change from one number to another one, about this node, can begin on these nodes, or has. A removal may have ended on some.
fn begins(
    nodes: &[Asked<'_>],
    (old, new): (usize, usize),
    about: &str,
) -> Result<(), MembersRefusal> {
    agree(&all(nodes, old)?, old, |said| {
        said == (old, None) || said == (old, Some(new)) || (new < old && said == (new, None))
    })?;
    same_change(nodes, Some(about))?;
    is_quiet(nodes)
}

/// Whether the locks of the change before are over on those of these nodes that answer.
fn is_quiet(nodes: &[Asked<'_>]) -> Result<(), MembersRefusal> {
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
            format!("{label} is in a change about {}", other.unwrap_or(UNNAMED)),
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
            "{ELSEWHERE}. If this one has started with an old number, stop it, correct its configuration and its flags, and start it with \
             cluster-size {size}"
        ),
        false if other.0 > NODES_MAX => format!(
            "go on with its removal, with a list that has it: quorlock members remove {label}, and then quorlock members end"
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

/// What each node says. All that cannot be asked are named, with what they are needed for.
fn all<'a>(nodes: &[Asked<'a>], size: usize) -> Result<Vec<(&'a str, Said)>, MembersRefusal> {
    if nodes.is_empty() {
        return Err(refusal("no node is listed", "list all nodes"));
    }
    let away = nodes
        .iter()
        .filter_map(|(label, facts)| Some((*label, facts.err()?)));
    let (labels, whys): (Vec<&str>, Vec<&str>) = away.unzip();
    let instead = match (&labels[..], changes(nodes).next()) {
        ([], _) => return nodes.iter().map(|node| Ok((node.0, one(node)?))).collect(),
        // The node that is to be removed itself is not among them, and may be away as well.
        ([label], None) if nodes.len() == size => {
            format!(", or remove it: quorlock members remove {label}")
        }
        ([_], Some(_)) => String::new(),
        (_, None) => {
            ". Of two that are lost one may be removed, once the other one is replaced".to_owned()
        }
        (_, Some(_)) => ". A change is under way, so that none of them can be removed".to_owned(),
    };
    Err(silence(
        &labels.join(" and "),
        &whys,
        format!(
            "start what is away, and do it again: a node that does not answer may still give votes to clients with another list, so that only \
             the one that is removed may be away. Replace one that is lost under the same address, by a node that is made for {size} nodes \
             (quorlock node init DIR --cluster-size {size}){instead}"
        ),
    ))
}

fn one((label, facts): &Asked<'_>) -> Result<Said, MembersRefusal> {
    let facts = facts.map_err(|why| silence(label, &[why], "start it, and do it again"))?;
    said(facts).ok_or_else(|| {
        refusal(
            format!("{label} goes by no number of nodes, as Redis and Valkey do"),
            "set cluster-size on a Quorlock node. For others change the lists of all clients by one node at a time, and wait for the \
             longest ttl between two changes",
        )
    })
}

fn said(facts: &NodeFacts) -> Option<Said> {
    Some((facts.cluster_size?, facts.next_size))
}

fn silence(labels: &str, whys: &[&str], remedy: impl Into<String>) -> MembersRefusal {
    let why = whys.join("; ");
    MembersRefusal {
        silent: whys.iter().map(|why| (*why).to_owned()).collect(),
        ..refusal(format!("{labels} cannot be asked: {why}"), remedy)
    }
}

fn refusal(what: impl Into<String>, remedy: impl Into<String>) -> MembersRefusal {
    MembersRefusal {
        what: what.into(),
        remedy: remedy.into(),
        silent: Vec::new(),
    }
}

const UNNAMED: &str = "a node that was not named";
const ELSEWHERE: &str = "see what each node goes by with: quorlock members. Go on with a change that has begun, also where it was given up on \
     some nodes: quorlock members add or remove again with the list of before, and then end it with the list of afterwards";

#[cfg(test)]
mod interleaving_tests;
#[cfg(test)]
mod tests;
