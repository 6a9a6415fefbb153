//! Nodes of one list that belong to different clusters: the list is wrong, and a majority of it is none.

use std::collections::BTreeMap;

use quorlock_client::{Cause, NodeState, NodeStatus};

/// Which nodes belong to which clusters, in words, if these are several. Nodes that are away, and those of Redis and Valkey, name none.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quorlock_client::Redlock;
/// use quorlock_server::Node;
///
/// let (mut nodes, mut addresses) = (Vec::new(), Vec::new());
/// for cluster in ["blue", "blue", "red"] {
///     let node = Node::builder().ephemeral().directive("cluster-id", &[cluster]);
///     let node = node.directive("cluster-size", &["3"]).start().await?;
///     addresses.push(node.url());
///     nodes.push(node);
/// }
/// let redlock = Redlock::builder().nodes(addresses).build()?;
/// let mixed = quorlock_agent::mixed_clusters(&redlock.probe().await);
/// assert!(mixed.is_some_and(|text| text.contains("red (")));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn mixed_clusters(statuses: &[NodeStatus]) -> Option<String> {
    mixed(statuses).map(|mixed| mixed.text)
}

/// The same, where no cluster has a majority of the nodes: it is not known then which of them are the wrong ones, and none of them
/// gives its vote to a majority, one that names no cluster either.
///
/// # Example
/// ```
/// assert_eq!(quorlock_agent::undecided_clusters(&[]), None);
/// ```
#[must_use]
pub fn undecided_clusters(statuses: &[NodeStatus]) -> Option<String> {
    let mixed = mixed(statuses).filter(|mixed| !mixed.is_decided)?;
    Some(mixed.text)
}

/// Nodes of several clusters in one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mixed {
    /// Which nodes belong to which clusters.
    pub(crate) text: String,
    /// One of the clusters has a majority of the nodes: the votes of the others do not count.
    pub(crate) is_decided: bool,
}

pub(crate) fn mixed(statuses: &[NodeStatus]) -> Option<Mixed> {
    let mut clusters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for status in statuses {
        let identity = status.identity.as_ref();
        let cluster = match &status.state {
            NodeState::DoesNotVote(Cause::OtherCluster { cluster, .. }) => Some(cluster),
            NodeState::DoesNotVote(Cause::MixedClusters { cluster, .. }) => cluster.as_ref(),
            _ => identity.and_then(|identity| identity.cluster.as_ref()),
        };
        if let Some(cluster) = cluster {
            clusters.entry(cluster).or_default().push(&status.node);
        }
    }
    if clusters.len() < 2 {
        return None;
    }
    let quorum = statuses.len() / 2 + 1;
    let is_decided = clusters.values().any(|nodes| nodes.len() >= quorum);
    let shown = clusters.iter();
    let shown = shown.map(|(cluster, nodes)| format!("{cluster} ({})", nodes.join(", ")));
    let shown: Vec<String> = shown.collect();
    let shown = shown.join(", ");
    Some(Mixed {
        text: format!("the nodes of the list belong to different clusters: {shown}"),
        is_decided,
    })
}

/// What to do about a list of nodes of several clusters.
pub(crate) const REMEDY: &str = "start the right node under the address, or correct the list and restart all agents of these nodes";
