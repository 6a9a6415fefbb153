//! Where this client waits for locks: for each name at one node, in its line or for its word of changes, with the token
//! of the next attempt.
//!
//! Invariant: a token that stands in a line was drawn for one attempt and is given to one. Nothing here grants a lock: a
//! line that is lost, or that a node has forgotten, costs time alone.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::name::LockName;
use crate::permits::permit_of;
use crate::token::Token;
use crate::votes::{NodeIndex, NodeSet};

#[derive(Debug, Default)]
pub(super) struct Lines {
    by_name: BTreeMap<Bytes, Line>,
    /// How often a wait for word of changes has ended.
    told_in_vain: usize,
    /// Locks whose line was left just now.
    left: Vec<Bytes>,
}

/// How a node tells that a lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It has lines, and says whose turn it is.
    Turns,
    /// It has none, and tells of every change of the lock: Redis and Valkey do.
    Changes,
}

/// The line for one lock. The callers of this client that want the lock stand in it as one.
#[derive(Debug)]
struct Line {
    node: NodeIndex,
    way: Way,
    token: Token,
    /// An attempt has the token.
    is_tried: bool,
    /// The node was asked for word of changes.
    is_tracked: bool,
    /// The names that are wanted together with this one, if they are several.
    set: Option<LockName>,
    /// Other nodes in whose lines the client stands, so that no reader is let in before it there.
    also_at: NodeSet,
}

/// What a message about a lock means for this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is the turn of the token of the next attempt.
    Ours,
    /// Of an earlier token: the node knows the new one by now, or the attempt is under way.
    Past,
    /// The client stands there to keep readers out. Its turn is that of the line.
    Elsewhere,
    /// Nobody stands in that line.
    Nobodys,
}

impl Lines {
    /// The client waits at this node from now on. Names the node in whose line it stood before, if that is another.
    pub(super) fn join(
        &mut self,
        name: &Bytes,
        node: NodeIndex,
        way: Way,
        token: Token,
    ) -> Option<NodeIndex> {
        let before = self.by_name.remove(name);
        let mut also_at = before.as_ref().map(|it| it.also_at).unwrap_or_default();
        also_at.remove(node);
        let line = Line {
            node,
            way,
            token,
            is_tried: false,
            is_tracked: false,
            set: None,
            also_at,
        };
        self.by_name.insert(name.clone(), line);
        let before = before?;
        if (before.node, before.way) == (node, way) {
            if before.is_tracked {
                self.note_tracked(name);
            }
            return None;
        }
        self.end_of(&before)
    }

    /// The line that was joined last for this name is that of calls for several names.
    pub(super) fn stand_for_set(&mut self, name: &Bytes, set: &LockName) {
        if let Some(line) = self.by_name.get_mut(name) {
            line.set = Some(set.clone());
        }
    }

    /// The client stands in the line of this node as well, where it keeps readers out. Says whether that is new.
    pub(super) fn stand_also_at(&mut self, name: &Bytes, node: NodeIndex) -> bool {
        let Some(line) = self.by_name.get_mut(name) else {
            return false;
        };
        let is_new = !line.also_at.contains(node);
        line.also_at.insert(node);
        is_new
    }

    /// The client stands there no longer.
    pub(super) fn stand_not_at(&mut self, name: &Bytes, node: NodeIndex) {
        if let Some(line) = self.by_name.get_mut(name) {
            line.also_at.remove(node);
        }
    }

    /// The connection to this node has ended, and with it the lines there.
    pub(super) fn lost_at(&mut self, node: NodeIndex) {
        for line in self.by_name.values_mut() {
            line.also_at.remove(node);
        }
    }

    /// A node at which the client stands as well, and is to stand no longer.
    pub(super) fn take_also_at(&mut self, name: &Bytes) -> Option<NodeIndex> {
        let node = self.by_name.get(name)?.also_at.first()?;
        self.stand_not_at(name, node);
        Some(node)
    }

    /// The node is asked for word of changes of this name.
    pub(super) fn note_tracked(&mut self, name: &Bytes) {
        if let Some(line) = self.by_name.get_mut(name) {
            line.is_tracked = true;
        }
    }

    /// The names that are wanted by those who stand in the line, if they are several.
    pub(super) fn set_of(&self, name: &Bytes) -> Option<&LockName> {
        self.by_name.get(name)?.set.as_ref()
    }

    /// Whether those who want these names stand in the line for one of them; none if no call of this client does.
    pub(super) fn is_of(&self, name: &Bytes, wanted: &LockName) -> Option<bool> {
        let line = self.by_name.get(name)?;
        Some(match &line.set {
            None => wanted.single().is_some(),
            Some(set) => set == wanted,
        })
    }

    /// A lock whose line was left since the last time: others of this client may want to stand there.
    pub(super) fn take_left(&mut self) -> Option<Bytes> {
        self.left.pop()
    }

    /// The node whose line is joined, and the token there, which an attempt may have.
    pub(super) fn joined(&self, name: &Bytes) -> Option<(NodeIndex, Token)> {
        let line = self.by_name.get(name)?;
        Some((line.node, line.token.clone()))
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

    /// The client waits no longer. Names the node in whose line it stood.
    pub(super) fn leave(&mut self, name: &Bytes) -> Option<NodeIndex> {
        let line = self.by_name.remove(name)?;
        self.left.push(name.clone());
        self.end_of(&line)
    }

    fn end_of(&mut self, line: &Line) -> Option<NodeIndex> {
        match line.way {
            Way::Turns => Some(line.node),
            Way::Changes if line.is_tracked => {
                self.told_in_vain += 1;
                None
            }
            // It was only looked at.
            Way::Changes => None,
        }
    }

    /// How often the client has ceased to wait for word of changes of a lock, since nodes have forgotten all names.
    pub(super) fn told_in_vain(&self) -> usize {
        self.told_in_vain
    }

    /// Nodes have forgotten all names.
    pub(super) fn forget_told_in_vain(&mut self) {
        self.told_in_vain = 0;
    }

    /// How the client waits for the lock, if it does.
    pub(super) fn way(&self, name: &Bytes) -> Option<Way> {
        self.by_name.get(name).map(|line| line.way)
    }

    /// Whether the client waits for this node's word of changes of the lock.
    pub(super) fn waits_for_changes(&self, name: &Bytes, node: NodeIndex) -> bool {
        let is_it = |line: &Line| line.node == node && line.way == Way::Changes;
        self.by_name.get(name).is_some_and(is_it)
    }

    /// A node says that a lock is free, and that it is the turn of this token.
    pub(super) fn turn(&self, name: &Bytes, node: NodeIndex, token: &Token) -> Turn {
        match self.by_name.get(name) {
            Some(line) if line.also_at.contains(node) => Turn::Elsewhere,
            Some(line) if line.node != node => Turn::Nobodys,
            Some(line) if line.token == *token && !line.is_tried => Turn::Ours,
            Some(_) => Turn::Past,
            None => Turn::Nobodys,
        }
    }

    /// Whether the client stands in the line of this node.
    pub(super) fn stands_at(&self, name: &Bytes, node: NodeIndex) -> bool {
        let is_there = |line: &Line| (line.node, line.way) == (node, Way::Turns);
        let line = self.by_name.get(name);
        line.is_some_and(|line| is_there(line) || line.also_at.contains(node))
    }

    /// The locks for which the client waits at this node in this way.
    pub(super) fn at(&self, node: NodeIndex, way: Way) -> Vec<Bytes> {
        let is_there = |line: &Line| (line.node, line.way) == (node, way);
        let lines = self.by_name.iter().filter(|(_, line)| is_there(line));
        lines.map(|(name, _)| name.clone()).collect()
    }

    /// The permits of a semaphore for which the client waits.
    pub(super) fn of_semaphore(&self, semaphore: &Bytes) -> Vec<Bytes> {
        let names = self
            .by_name
            .range(semaphore.clone()..)
            .map(|(name, _)| name);
        let names = names.take_while(|name| name.starts_with(semaphore));
        let is_its = |name: &&Bytes| permit_of(name).is_some_and(|(of, _)| of == *semaphore);
        names.filter(is_its).cloned().collect()
    }

    /// For how many locks the client waits at nodes.
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
        assert_eq!(lines.join(&name, 1, Way::Turns, first.clone()), None);
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
        assert_eq!(lines.join(&name, 1, Way::Turns, second.clone()), None);
        assert_eq!(lines.join(&name, 0, Way::Turns, second.clone()), Some(1));
        assert_eq!(lines.at(1, Way::Turns), Vec::<Bytes>::new());
        assert_eq!(lines.at(0, Way::Turns), std::slice::from_ref(&name));
        assert_eq!((lines.leave(&name), lines.leave(&name)), (Some(0), None));
        assert_eq!(lines.turn(&name, 0, &second), Turn::Nobodys);
    }

    #[test]
    fn a_node_beside_that_of_the_line_has_no_turn_and_is_left_once() {
        let mut lines = Lines::default();
        let name = Bytes::from_static(b"a");
        let token = Token::from("t");
        assert!(!lines.stand_also_at(&name, 1), "there is no line");
        lines.join(&name, 0, Way::Turns, token.clone());
        let is_new = [1, 2, 1].map(|node| lines.stand_also_at(&name, node));
        assert_eq!(is_new, [true, true, false]);
        assert_eq!(lines.turn(&name, 1, &token), Turn::Elsewhere);
        lines.stand_not_at(&name, 1);
        assert_eq!(lines.turn(&name, 1, &token), Turn::Nobodys);
        // The next token stands in the same line; and the line moves to a node where it stands already.
        lines.stand_also_at(&name, 1);
        assert_eq!(lines.join(&name, 0, Way::Turns, token.clone()), None);
        assert_eq!(lines.join(&name, 2, Way::Turns, token.clone()), Some(0));
        assert_eq!(lines.turn(&name, 2, &token), Turn::Ours);
        let left = [(); 2].map(|()| lines.take_also_at(&name));
        assert_eq!(left, [Some(1), None]);
    }

    #[test]
    fn who_waits_for_changes_stands_in_no_line_and_names_left_are_counted() {
        let mut lines = Lines::default();
        let [a, b] = ["a", "b"].map(Bytes::from);
        let token = Token::from("t");
        lines.join(&a, 0, Way::Changes, token.clone());
        // It was looked at, and the node was asked for nothing more.
        assert_eq!((lines.leave(&a), lines.told_in_vain()), (None, 0));
        lines.join(&a, 0, Way::Changes, token.clone());
        lines.note_tracked(&a);
        lines.join(&b, 0, Way::Turns, token.clone());
        assert!(lines.waits_for_changes(&a, 0) && !lines.waits_for_changes(&a, 1));
        assert!(!lines.waits_for_changes(&b, 0));
        assert_eq!(lines.at(0, Way::Changes), std::slice::from_ref(&a));
        assert_eq!(lines.at(0, Way::Turns), std::slice::from_ref(&b));
        assert_eq!(lines.join(&a, 0, Way::Changes, token.clone()), None);
        assert_eq!(lines.told_in_vain(), 0);
        assert_eq!(lines.join(&a, 1, Way::Changes, token.clone()), None);
        assert_eq!(lines.join(&b, 0, Way::Changes, token), Some(0));
        lines.note_tracked(&a);
        lines.note_tracked(&b);
        assert_eq!((lines.leave(&a), lines.leave(&b)), (None, None));
        assert_eq!(lines.told_in_vain(), 3);
        lines.forget_told_in_vain();
        assert_eq!(lines.told_in_vain(), 0);
    }
}
