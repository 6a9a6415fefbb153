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
    let mut clusters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for status in statuses {
        let identity = status.identity.as_ref();
        let cluster = match &status.state {
            NodeState::DoesNotVote(Cause::OtherCluster { cluster, .. }) => Some(cluster),
            _ => identity.and_then(|identity| identity.cluster.as_ref()),
        };
        if let Some(cluster) = cluster {
            clusters.entry(cluster).or_default().push(&status.node);
        }
    }
    if clusters.len() < 2 {
        return None;
    }
    let shown = clusters.iter();
    let shown = shown.map(|(cluster, nodes)| format!("{cluster} ({})", nodes.join(", ")));
    let shown: Vec<String> = shown.collect();
    Some(format!(
        "the nodes of the list belong to different clusters: {}",
        shown.join(", ")
    ))
}
