//! The file that says a cluster is ready, for scripts and tests.
//!
//! It appears in one piece, once all nodes serve, and goes when the cluster stops. One that an
//! earlier cluster could not remove goes before the next start, so a program that starts a cluster and
//! then waits for the file can connect at once. It does not say that a cluster still runs: a
//! supervisor that is killed leaves it behind.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::manifest::write_atomically;
use super::ownership::{READABLE, remove_if_there};
use super::view::LocalCluster;
use crate::exit_code::Failure;

/// The JSON form of a cluster that is ready.
pub(super) fn value(cluster: &LocalCluster) -> Value {
    let nodes = cluster.nodes.iter();
    let nodes: Vec<_> = nodes
        .map(|node| node.fields(&["number", "id", "url", "pid", "dir", "log"]))
        .collect();
    let value = json!({
        "version": 1,
        "name": cluster.name,
        "dir": cluster.directory,
        "pid": cluster.pid,
        "quorum": cluster.quorum,
        "nodes": nodes,
    });
    cluster.with_addresses(value)
}

/// Writes the file.
pub(super) fn write(path: &Path, cluster: &LocalCluster) -> Result<(), Failure> {
    write_atomically(path, &format!("{:#}\n", value(cluster)), READABLE)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

/// Removes what an earlier cluster left behind.
pub(super) fn remove_stale(path: &Path) -> Result<(), Failure> {
    remove_if_there(path).map_err(|error| {
        Failure::failed(format!(
            "cannot remove the ready file of an earlier run, {}: {error}",
            path.display()
        ))
        .remedy("name another file with --ready-file")
    })
}

/// Removes the file of this process's cluster, but not one that another cluster has put there.
pub(super) fn remove_own(path: &Path) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let written: Option<Value> = serde_json::from_str(&text).ok();
    if written.is_some_and(|written| written["pid"] == std::process::id()) {
        let _left_behind = fs::remove_file(path);
    }
}
