//! The nodes of the examples: those that `QUORLOCK_NODES` names, or five in this process.

use quorlock::Node;

/// Addresses of nodes, and the nodes themselves if they run here. They stop when this is dropped.
pub(crate) struct Cluster {
    pub(crate) addresses: Vec<String>,
    _nodes: Vec<Node>,
}

/// As in `QUORLOCK_NODES=redis://db1:7001,redis://db2:7001,redis://db3:7001`.
pub(crate) async fn nodes() -> Result<Cluster, Box<dyn std::error::Error>> {
    if let Ok(named) = std::env::var("QUORLOCK_NODES") {
        return Ok(Cluster {
            addresses: named.split(',').map(str::to_owned).collect(),
            _nodes: Vec::new(),
        });
    }
    let mut nodes = Vec::new();
    for _ in 0..5 {
        // Clients that list another number of nodes get no lock from these.
        let builder = Node::builder().ephemeral();
        nodes.push(builder.directive("cluster-size", &["5"]).start().await?);
    }
    Ok(Cluster {
        addresses: nodes.iter().map(Node::url).collect(),
        _nodes: nodes,
    })
}
