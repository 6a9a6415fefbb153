//! What a release came to.

use std::fmt;
use std::sync::Arc;

use super::cause::Cause;
use crate::votes::majority;

/// What one node did with a release.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// # use quorlock_client::{NodeRelease, Token};
/// let release = redlock.release("backup", &Token::fresh()).await; // nobody's token
/// assert_eq!(release.nodes[0].1, NodeRelease::NotHeld);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeRelease {
    /// It held the lock for the token and freed it.
    Freed,
    /// It did not hold the lock for the token.
    NotHeld,
    /// It was not asked: the lock was lost before. Where the node still holds it, it stays until its lock delay is over.
    Kept,
    /// It was not asked: other guards of the same owner hold the lock.
    Shared,
    /// It has not answered, because it could not be reached or, with [`Cause::NotWaitedFor`], because a majority had freed the
    /// lock before it did. Where it may hold the lock, the client goes on trying in the
    /// background until the lease is over.
    Not(Cause),
}

/// What a release came to.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use quorlock_client::Redlock;
/// # let node = quorlock_server::Node::builder().ephemeral().start().await?;
/// # let redlock = Redlock::builder().node(node.url()).build()?;
/// let guard = redlock.lock("backup").acquire().await?;
/// let release = guard.release().await;
/// assert_eq!(release.freed(), 1);
/// for (node, outcome) in &release.nodes {
///     println!("{node}: {outcome:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "was_lost() tells whether the lock was held until now, is_free() whether it is free"]
pub struct Release {
    /// Each node's address and what it did.
    pub nodes: Vec<(Arc<str>, NodeRelease)>,
}

impl Release {
    /// What simulated nodes did.
    #[doc(hidden)]
    pub fn of(nodes: Vec<(Arc<str>, NodeRelease)>) -> Self {
        Self { nodes }
    }

    /// No node was asked, for this reason.
    pub(crate) fn not_sent(nodes: &[Arc<str>], cause: &Cause) -> Self {
        Self::everywhere(nodes, &NodeRelease::Not(cause.clone()))
    }

    /// No node was asked to free a lock that was lost before and has a lock delay.
    pub(crate) fn kept(nodes: &[Arc<str>]) -> Self {
        Self::everywhere(nodes, &NodeRelease::Kept)
    }

    /// No node was asked to free a lock that others of the same owner hold.
    pub(crate) fn shared(nodes: &[Arc<str>]) -> Self {
        Self::everywhere(nodes, &NodeRelease::Shared)
    }

    fn everywhere(nodes: &[Arc<str>], release: &NodeRelease) -> Self {
        let nodes = nodes.iter();
        Self {
            nodes: nodes
                .map(|node| (Arc::clone(node), release.clone()))
                .collect(),
        }
    }

    /// How many nodes did this.
    fn count(&self, is_so: impl Fn(&NodeRelease) -> bool) -> usize {
        self.nodes.iter().filter(|(_, node)| is_so(node)).count()
    }

    /// Whether other guards of the same owner hold the lock, and no node was asked.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.count(|node| *node == NodeRelease::Shared) > 0
    }

    /// Nodes that freed the lock.
    #[must_use]
    pub fn freed(&self) -> usize {
        self.count(|node| *node == NodeRelease::Freed)
    }

    /// Whether a majority freed the lock: it was held until now, and is free.
    #[must_use]
    pub fn released(&self) -> bool {
        self.freed() > self.nodes.len() / 2
    }

    /// Whether the token had lost the lock before this release: so many nodes did not hold it for
    /// the token that the others are no majority.
    ///
    /// A healthy lock may be missing on a minority of the nodes, and a node that was not reached
    /// says nothing; neither is a loss. A lock with a lock delay that was lost before was not asked for.
    #[must_use]
    pub fn was_lost(&self) -> bool {
        let not_held = self.count(|node| matches!(node, NodeRelease::NotHeld | NodeRelease::Kept));
        not_held > self.nodes.len() - majority(self.nodes.len()).min(self.nodes.len())
    }

    /// Whether a majority says that the token does not hold the lock (any more): everybody can
    /// take it already, as far as this token is concerned.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let told = self.count(|node| matches!(node, NodeRelease::Freed | NodeRelease::NotHeld));
        told > self.nodes.len() / 2
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_shared() {
            return formatter.write_str("kept for other guards of the same owner");
        }
        let (freed, count) = (self.freed(), self.nodes.len());
        let is_released = self.released();
        if is_released {
            formatter.write_str("released: ")?;
        }
        write!(formatter, "freed on {freed} of {count} nodes")?;
        for (node, release) in &self.nodes {
            match release {
                NodeRelease::Freed | NodeRelease::Shared => {}
                // A release is a success before they have answered, and nothing is known against them.
                NodeRelease::Not(Cause::NotWaitedFor) if is_released => {}
                NodeRelease::NotHeld => write!(formatter, "\n  {node}: not held by this token")?,
                NodeRelease::Kept => {
                    write!(formatter, "\n  {node}: kept until its lock delay is over")?;
                }
                NodeRelease::Not(cause) => write!(formatter, "\n  {node}: {cause}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(nodes: &str) -> Release {
        let node = |letter: char| match letter {
            'f' => NodeRelease::Freed,
            'n' => NodeRelease::NotHeld,
            'k' => NodeRelease::Kept,
            's' => NodeRelease::Shared,
            'w' => NodeRelease::Not(Cause::NotWaitedFor),
            _ => NodeRelease::Not(Cause::Silent),
        };
        let nodes = nodes
            .chars()
            .map(|letter| (Arc::from("node"), node(letter)));
        Release {
            nodes: nodes.collect(),
        }
    }

    #[test]
    fn a_release_by_a_majority_reads_as_a_success() {
        for (nodes, shown) in [
            ("fffww", "released: freed on 3 of 5 nodes"),
            (
                "fff-w",
                "released: freed on 3 of 5 nodes\n  node: connected, but silent",
            ),
            ("f", "released: freed on 1 of 1 nodes"),
        ] {
            assert_eq!(release(nodes).to_string(), shown);
        }
        let failed = release("ffww-").to_string();
        assert!(failed.starts_with("freed on 2 of 5 nodes\n"), "{failed}");
        assert!(failed.contains("had not answered yet"), "{failed}");
    }

    #[test]
    fn a_lock_was_lost_when_the_other_nodes_are_no_majority() {
        for lost in ["nnnff", "nnn--", "nnnnn", "n", "nn", "nf", "nnff"] {
            assert!(release(lost).was_lost(), "{lost}");
        }
        for held in [
            "fffnn", "ffnn-", "nn---", "-----", "fffff", "f", "ff", "nfff", "n---",
        ] {
            assert!(!release(held).was_lost(), "{held}");
        }
        assert!(!release("").was_lost(), "no node says anything");
        let shared = release("sss");
        assert!(
            shared.is_shared() && !shared.was_lost() && !shared.is_free() && !shared.released()
        );
        assert_eq!(
            shared.to_string(),
            "kept for other guards of the same owner"
        );
        let kept = release("kkk");
        assert!(kept.was_lost() && !kept.is_free() && !kept.released());
        assert!(
            kept.to_string()
                .ends_with("kept until its lock delay is over")
        );
    }
}
