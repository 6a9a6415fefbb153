//! Adding and removing members of a cluster, one at a time, as far as all of its nodes can be asked.
//!
//! A node judges a change by itself and knows nothing of the others. So nothing is changed on any node before all of them have
//! said that the change before is over: else clients with lists that differ by two could hold the same lock.

use super::node_facts::NodeFacts;

/// What an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Clients may list so many nodes as well.
    Begin(usize),
    /// Clients list the new number of nodes alone.
    End,
    /// Clients list the old number of nodes alone.
    GiveUp,
}

/// Why nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is so.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// What `cluster-size` is to be on every node that is listed: the old list where a change begins or is given up, the new one where
/// it ends.
///
/// # Errors
/// Why it is not changed.
pub fn size_for(
    intent: Intent,
    nodes: &[(&str, Result<&NodeFacts, &str>)],
) -> Result<String, Refusal> {
    let listed = nodes.len();
    let mut said = Vec::new();
    for (label, facts) in nodes {
        match facts {
            Ok(facts) => match facts.cluster_size {
                Some(size) => said.push((*label, size, facts.next_size)),
                None => return Err(without_number(label)),
            },
            Err(why) => return Err(away(label, why)),
        }
    }
    let Some(&(_, first, _)) = said.first() else {
        return Err(refusal("no node is listed", "list all nodes"));
    };
    match intent {
        Intent::Begin(next) => {
            if next.abs_diff(listed) != 1 || next == 0 {
                return Err(refusal(
                    format!(
                        "one member at a time is added or removed, and {listed} nodes are listed"
                    ),
                    "begin with one node more or less; begin again when that change has ended",
                ));
            }
            all(&said, |size, other| {
                size == listed && other.is_none_or(|it| it == next)
            })?;
            Ok(format!("{listed} {next}"))
        }
        Intent::End | Intent::GiveUp => {
            let mut changing = said.iter();
            match changing.find_map(|(_, size, next)| Some((*size, (*next)?))) {
                Some(change) => last_step(intent, change, listed, &said),
                None => Err(nothing_begun(first)),
            }
        }
    }
}

/// The size with which a change from one number to another one is over.
fn last_step(
    intent: Intent,
    (old, new): (usize, usize),
    listed: usize,
    said: &[Said<'_>],
) -> Result<String, Refusal> {
    let (wanted, remedy) = match intent {
        Intent::GiveUp => (
            old,
            format!("list the {old} nodes that clients have listed before"),
        ),
        _ => (
            new,
            format!(
                "list the {new} nodes that clients list from now on, or give the change up: quorlock members give-up"
            ),
        ),
    };
    if wanted != listed {
        return Err(refusal(
            format!("the change is from {old} to {new} nodes, and {listed} are listed"),
            remedy,
        ));
    }
    // Where two operators have begun two changes, both are given up.
    all(said, |size, next| match intent {
        Intent::GiveUp => size == old,
        _ => (size, next) == (old, Some(new)) || (size, next) == (new, None),
    })?;
    Ok(wanted.to_string())
}

/// What a node has said: its address, the number that it goes by, and the one that it goes by as well.
type Said<'a> = (&'a str, usize, Option<usize>);

/// What nodes go by, as one of them says it.
#[must_use]
pub fn shown(size: usize, next: Option<usize>) -> String {
    match next {
        Some(next) => format!("{size} and {next}"),
        None => size.to_string(),
    }
}

fn all(said: &[Said<'_>], is_right: impl Fn(usize, Option<usize>) -> bool) -> Result<(), Refusal> {
    match said.iter().find(|(_, size, next)| !is_right(*size, *next)) {
        None => Ok(()),
        Some((label, size, next)) => Err(refusal(
            format!(
                "{label} goes by {} nodes: another change is not over there",
                shown(*size, *next)
            ),
            "see what each node goes by with: quorlock members. End that change on all nodes, with its list, or give it up",
        )),
    }
}

fn away(label: &str, why: &str) -> Refusal {
    refusal(
        format!(
            "{label} cannot be asked: {why}. It may still give votes to clients with another list"
        ),
        "do it again when all nodes answer; a node that is lost is replaced first, under the same address",
    )
}

fn without_number(label: &str) -> Refusal {
    refusal(
        format!("{label} goes by no number of nodes, as Redis and Valkey do"),
        "set cluster-size on a Quorlock node. For others change the lists of all clients by one node at a time, and wait for the longest ttl between two changes",
    )
}

fn nothing_begun(size: usize) -> Refusal {
    refusal(
        format!("no change has begun: the nodes go by {size}"),
        "begin one with: quorlock members begin SIZE",
    )
}

fn refusal(what: impl Into<String>, remedy: impl Into<String>) -> Refusal {
    Refusal {
        what: what.into(),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::super::node_reply::NodeReply;
    use super::*;

    /// Nodes that say this: `5`, `5 6`, nothing, or `-` where one is away.
    fn outcome(intent: Intent, said: &[&str]) -> Result<String, String> {
        let facts = |text: &&str| {
            let mut words = text.split(' ');
            let (size, next) = (words.next().unwrap(), words.next().unwrap_or("0"));
            let info = format!(
                "run_id:a\r\nquorlock_cluster_size:{size}\r\nquorlock_cluster_size_next:{next}\r\n"
            );
            match *text {
                "-" => Err("refused"),
                _ => Ok(NodeFacts::read(&NodeReply::Text(info.into_bytes())).unwrap()),
            }
        };
        let facts: Vec<_> = said.iter().map(facts).collect();
        let nodes = facts
            .iter()
            .map(|facts| ("node", facts.as_ref().map_err(|why| *why)));
        let nodes: Vec<_> = nodes.collect();
        size_for(intent, &nodes).map_err(|refusal| refusal.what)
    }

    #[test]
    fn a_change_begins_where_all_nodes_go_by_the_list_and_by_nothing_else() {
        use Intent::Begin;
        for (next, said, size) in [
            (4, vec!["3", "3", "3"], "3 4"),
            (2, vec!["3", "3", "3"], "3 2"),
            // It has begun on some.
            (4, vec!["3 4", "3", "3 4"], "3 4"),
        ] {
            assert_eq!(outcome(Begin(next), &said), Ok(size.to_owned()), "{said:?}");
        }
        for (next, said, part) in [
            (5, vec!["3", "3", "3"], "one member at a time"),
            (3, vec!["3", "3", "3"], "one member at a time"),
            (4, vec!["3", "-", "3"], "cannot be asked"),
            (4, vec!["3", "0", "3"], "no number"),
            (4, vec!["3", "2 3", "3"], "goes by 2 and 3 nodes"),
            (4, vec!["3", "3 2", "3"], "goes by 3 and 2 nodes"),
            (4, vec!["3", "5", "3"], "goes by 5 nodes"),
        ] {
            let why = outcome(Begin(next), &said).unwrap_err();
            assert!(why.contains(part), "{next} {said:?}: {why}");
        }
    }

    #[test]
    fn a_change_ends_with_the_new_list_and_is_given_up_with_the_old_one() {
        use Intent::{End, GiveUp};
        for (intent, said, size) in [
            (End, vec!["3 4", "3 4", "3 4", "4"], "4"),
            (End, vec!["4", "3 4", "4", "4"], "4"),
            (End, vec!["4 3", "4 3", "4 3"], "3"),
            (GiveUp, vec!["3 4", "3 4", "3 4"], "3"),
            (GiveUp, vec!["3", "3 4", "3"], "3"),
            (GiveUp, vec!["3 2", "3 4", "3"], "3"),
        ] {
            assert_eq!(
                outcome(intent, &said),
                Ok(size.to_owned()),
                "{intent:?} {said:?}"
            );
        }
        for (intent, said, part) in [
            (End, vec!["3", "3", "3"], "no change has begun"),
            (GiveUp, vec!["3", "3", "3"], "no change has begun"),
            (End, vec!["3 4", "3 4", "3 4"], "3 are listed"),
            (GiveUp, vec!["3 4", "3 4", "3 4", "4"], "4 are listed"),
            (End, vec!["3 4", "3", "3 4", "4"], "goes by 3 nodes"),
            (End, vec!["3 4", "-", "3 4", "4"], "cannot be asked"),
            (GiveUp, vec!["3 4", "4", "3 4"], "goes by 4 nodes"),
        ] {
            let why = outcome(intent, &said).unwrap_err();
            assert!(why.contains(part), "{intent:?} {said:?}: {why}");
        }
    }
}
