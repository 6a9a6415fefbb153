//! The commands of operators, by the rules of `quorlock members`.

use std::collections::BTreeSet;

use super::super::{
    Asked, MembersRefusal, SizeStep, size_to_add, size_to_end, size_to_give_up, size_to_remove,
};
use super::fake_node::{FakeNode, LABELS, List, members};
use crate::inspection::node_facts::NodeFacts;

/// What operators do, with the list that they name. A node that stops does not come back; one that is replaced has its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Command {
    Add(List, usize),
    Remove(List, usize),
    End(List, Option<usize>),
    GiveUp(List),
    Stop(usize),
}

impl Command {
    /// All with one of these lists.
    pub(super) fn all(lists: &BTreeSet<List>, nodes: usize) -> Vec<Command> {
        let of = |list: &List| {
            let list = *list;
            let changes = (0..nodes).flat_map(move |node| match (list >> node) & 1 {
                1 => vec![Command::Remove(list, node)],
                _ => vec![Command::Add(list, node), Command::End(list, Some(node))],
            });
            changes.chain([Command::End(list, None), Command::GiveUp(list)])
        };
        lists.iter().flat_map(of).collect()
    }

    /// The nodes that it asks, in this order.
    pub(super) fn asks(self) -> Vec<usize> {
        let (list, more) = match self {
            Command::Add(list, node) => (list, Some(node)),
            Command::End(list, removed) => (list, removed),
            Command::Remove(list, _) | Command::GiveUp(list) => (list, None),
            Command::Stop(_) => (0, None),
        };
        members(list).chain(more).collect()
    }

    /// What it does after these answers.
    pub(super) fn judge(self, seen: &[Option<FakeNode>]) -> Result<SizeStep, MembersRefusal> {
        let order = self.asks();
        let facts: Vec<Option<NodeFacts>> =
            seen.iter().map(|node| node.map(FakeNode::facts)).collect();
        let asked = order.iter().zip(&facts);
        let asked: Vec<Asked<'_>> = asked
            .map(|(node, facts)| (LABELS[*node], facts.as_ref().ok_or("away")))
            .collect();
        let (last, others) = asked.split_last().unwrap();
        match self {
            Command::Add(..) => size_to_add(others, last),
            Command::Remove(_, node) => {
                let leaving = order.iter().position(|other| *other == node);
                size_to_remove(&asked, leaving.unwrap())
            }
            Command::End(_, Some(_)) => size_to_end(others, Some(last.0)),
            Command::End(_, None) => size_to_end(&asked, None),
            Command::GiveUp(_) | Command::Stop(_) => size_to_give_up(&asked),
        }
    }
}
