//! A node that keeps the rules of `cluster-size`, as far as these tests need it.

use std::sync::OnceLock;
use std::time::Duration;

use crate::inspection::node_facts::NodeFacts;
use crate::inspection::node_reply::NodeReply;

/// A list of nodes, by bits.
pub(super) type List = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FakeNode {
    pub(super) size: usize,
    pub(super) next: Option<usize>,
    pub(super) about: Option<usize>,
    /// The lengths of other lists that had its vote so shortly before that their locks may last, by bits.
    pub(super) recent: u8,
}

impl FakeNode {
    pub(super) fn of(size: usize) -> FakeNode {
        FakeNode {
            size,
            next: None,
            about: None,
            recent: 0,
        }
    }

    /// What a step has it go by.
    pub(super) fn wanted(size: &str) -> FakeNode {
        let mut words = size.split(' ');
        FakeNode {
            size: words.next().unwrap().parse().unwrap(),
            next: words.next().map(|next| next.parse().unwrap()),
            about: words.next().map(number),
            recent: 0,
        }
    }

    /// The lengths of the lists that get its vote.
    pub(super) fn lengths(self) -> u8 {
        let sizes = [Some(self.size), self.next].into_iter().flatten();
        sizes
            .filter(|size| *size < 8)
            .fold(0, |lengths, size| lengths | (1 << size))
    }

    /// Itself after `CONFIG SET cluster-size`, as `ClusterSize::change` has it; none where it refuses that.
    pub(super) fn set(self, to: FakeNode) -> Option<FakeNode> {
        if self.goes_by(to) {
            return Some(self);
        }
        let recent = (self.recent | self.lengths()) & !to.lengths();
        match (self.next, to.next) {
            _ if to.size == REMOVED => Some(FakeNode { recent, ..to }),
            _ if self.size == REMOVED => None,
            (None, Some(_)) if to.size == self.size && self.recent == 0 => Some(to),
            (Some(next), None) if [self.size, next].contains(&to.size) => {
                Some(FakeNode { recent, ..to })
            }
            _ => None,
        }
    }

    /// Whether it goes by this already.
    pub(super) fn goes_by(self, to: FakeNode) -> bool {
        to == FakeNode { recent: 0, ..self }
    }

    pub(super) fn facts(self) -> NodeFacts {
        static BASE: OnceLock<NodeFacts> = OnceLock::new();
        let base = BASE
            .get_or_init(|| NodeFacts::read(&NodeReply::Text(b"run_id:a\r\n".to_vec())).unwrap());
        NodeFacts {
            cluster_size: Some(self.size),
            next_size: self.next,
            size_about: self.about.map(|about| LABELS[about].to_owned()),
            size_wait: Some(Duration::from_millis(self.recent.into())),
            ..base.clone()
        }
    }
}

pub(super) fn members(list: List) -> impl Iterator<Item = usize> {
    (0..LABELS.len()).filter(move |node| (list >> node) & 1 == 1)
}

pub(super) fn count(list: List) -> usize {
    members(list).count()
}

pub(super) fn number(label: &str) -> usize {
    LABELS.iter().position(|other| *other == label).unwrap()
}

pub(super) const LABELS: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
pub(super) const REMOVED: usize = 255;
