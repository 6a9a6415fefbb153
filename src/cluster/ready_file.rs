//! The file that says a cluster is ready, for scripts and tests.
//!
//! It appears in one piece, once all nodes serve, so whoever waits for it can connect at once.

use std::path::Path;

use serde_json::{Value, json};

use super::manifest::write_atomically;
use super::view::ClusterView;
use crate::exit_code::Failure;

/// The JSON form of a cluster that is ready.
pub(super) fn value(cluster: &ClusterView) -> Value {
    let nodes: Vec<Value> = cluster
        .nodes
        .iter()
        .map(|node| {
            json!({
                "number": node.number,
                "id": node.id,
                "url": node.url,
                "pid": node.pid,
                "dir": node.dir,
                "log": node.log,
            })
        })
        .collect();
    json!({
        "version": 1,
        "name": cluster.name,
        "dir": cluster.directory,
        "pid": cluster.pid,
        "quorum": cluster.quorum,
        "nodes": nodes,
    })
}

/// Writes the file.
pub(super) fn write(path: &Path, cluster: &ClusterView) -> Result<(), Failure> {
    write_atomically(path, &format!("{:#}\n", value(cluster)))
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}
