//! Where this client stands in line for locks: for each name at one node, with the token of its next attempt.
//!
//! Invariant: a token that stands in a line was drawn for one attempt and is given to one. Nothing here grants a lock: a
//! line that is lost, or that a node has forgotten, costs time alone.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::token::Token;
use crate::votes::NodeIndex;

#[derive(Debug, Default)]
pub(super) struct Lines {
    by_name: BTreeMap<Bytes, Line>,
}

/// The line for one lock. The callers of this client that want the lock stand in it as one.
#[derive(Debug)]
struct Line {
    node: NodeIndex,
    token: Token,
    /// An attempt has the token.
    is_tried: bool,
}

/// What a message about a lock means for this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is the turn of the token of the next attempt.
    Ours,
    /// Of an earlier token: the node knows the new one by now, or the attempt is under way.
    Past,
    /// Nobody stands in that line.
    Nobodys,
}

impl Lines {
    /// The client stands in line at this node from now on. Names the node at which it stood before, if that is another.
    pub(super) fn join(
        &mut self,
        name: &Bytes,
        node: NodeIndex,
        token: Token,
    ) -> Option<NodeIndex> {
        let line = Line {
            node,
            token,
            is_tried: false,
        };
        let before = self.by_name.insert(name.clone(), line)?.node;
        (before != node).then_some(before)
    }

    /// The node whose line is joined, and the token there that no attempt has yet.
    pub(super) fn untried(&self, name: &Bytes) -> Option<(NodeIndex, Token)> {
        let line = self.by_name.get(name)?;
        (!line.is_tried).then(|| (line.node, line.token.clone()))
    }

    /// The token of the attempt that begins, if one was drawn when the line was joined.
    pub(super) fn take_token(&mut self, name: &Bytes) -> Option<Token> {
        let line = self.by_name.get_mut(name)?;
        (!std::mem::replace(&mut line.is_tried, true)).then(|| line.token.clone())
    }

    /// The client stands in line no longer. Names the node whose line that was.
    pub(super) fn leave(&mut self, name: &Bytes) -> Option<NodeIndex> {
        self.by_name.remove(name).map(|line| line.node)
    }

    /// A node says that a lock is free, and that it is the turn of this token.
    pub(super) fn turn(&self, name: &Bytes, node: NodeIndex, token: &Token) -> Turn {
        match self.by_name.get(name) {
            Some(line) if line.node != node => Turn::Nobodys,
            Some(line) if line.token == *token && !line.is_tried => Turn::Ours,
            Some(_) => Turn::Past,
            None => Turn::Nobodys,
        }
    }

    /// The lines at this node are gone. Names the locks.
    pub(super) fn ended_at(&self, node: NodeIndex) -> Vec<Bytes> {
        let lines = self.by_name.iter().filter(|(_, line)| line.node == node);
        lines.map(|(name, _)| name.clone()).collect()
    }

    /// In how many lines the client stands.
    pub(super) fn size(&self) -> usize {
        self.by_name.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_a_line_is_given_to_one_attempt() {
        let mut lines = Lines::default();
        let name = Bytes::from_static(b"a");
        let [first, second] = ["t1", "t2"].map(Token::from);
        assert_eq!(lines.join(&name, 1, first.clone()), None);
        assert_eq!(lines.turn(&name, 1, &first), Turn::Ours);
        assert_eq!(lines.turn(&name, 0, &first), Turn::Nobodys);
        assert_eq!(lines.turn(&name, 1, &second), Turn::Past);
        assert_eq!(lines.untried(&name), Some((1, first.clone())));
        assert_eq!(lines.take_token(&name), Some(first.clone()));
        assert_eq!(
            (lines.take_token(&name), lines.untried(&name)),
            (None, None)
        );
        assert_eq!(lines.turn(&name, 1, &first), Turn::Past);
        assert_eq!(lines.join(&name, 1, second.clone()), None);
        assert_eq!(lines.join(&name, 0, second.clone()), Some(1));
        assert_eq!(
            (lines.ended_at(1), lines.ended_at(0)),
            (vec![], vec![name.clone()])
        );
        assert_eq!((lines.leave(&name), lines.leave(&name)), (Some(0), None));
        assert_eq!(lines.turn(&name, 0, &second), Turn::Nobodys);
    }
}
