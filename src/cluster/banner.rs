//! What a cluster says when it is up: which nodes there are and lines to paste.
//!
//! Plain text without escape codes, so that it looks the same on a terminal and in a file.

use super::view::{ClusterView, NodeView};

/// The text shown once all nodes serve.
pub(super) fn banner(cluster: &ClusterView) -> String {
    let (name, nodes, quorum) = (&cluster.name, &cluster.nodes, cluster.quorum);
    let (count, one) = (nodes.len(), nodes.len().min(3));
    let resumed = if cluster.resumed {
        " again, with the same data"
    } else {
        ""
    };
    let note = match cluster.note.as_str() {
        "" => String::new(),
        note => format!("{note}\n"),
    };
    let row = |node: &NodeView| {
        let (number, address) = (node.number, format!("127.0.0.1:{}", node.port));
        if cluster.in_process {
            return format!("  {number:<4}  {address}\n");
        }
        let pid = node.pid.map(|pid| pid.to_string()).unwrap_or_default();
        let log = node.log.display();
        format!("  {number:<4}  {address:<16}  {pid:<8}  {log}\n")
    };
    let rows: String = nodes.iter().map(row).collect();
    let columns = if cluster.in_process {
        ""
    } else {
        "           pid       log"
    };
    let kept = if cluster.ephemeral {
        "data goes when it stops"
    } else {
        "data stays"
    };
    // The ports of a cluster are consecutive.
    let ports = || nodes.iter().map(|node| node.port);
    let first = ports().next().unwrap_or_default();
    let last = ports().next_back().unwrap_or_default();
    let list: Vec<String> = ports().map(|port| port.to_string()).collect();
    format!(
        "\
Cluster '{name}' is up{resumed}: {count} nodes serve, a lock needs {quorum}.
{note}
  node  address{columns}
{rows}
  appendfsync {appendfsync}, {kept}, in {directory}

Paste:
  shell      export QUORLOCK_NODES={urls}
             quorlock run backup -- echo held
  redis-cli  redis-cli -p {first} SET a t1 NX PX 30000
  Rust       let nodes = ({first}..={last}).map(|port| format!(\"redis://127.0.0.1:{{port}}\"));
             let redlock = Redlock::builder().nodes(nodes).build()?;
  Python     Redlock([{{\"host\": \"127.0.0.1\", \"port\": port}} for port in range({first}, {end})])
  Node       new Redlock([{list}].map((port) => new Redis(port)))

From another terminal: quorlock cluster status | kill {one} | restart {one} | logs {one} -f | down
What a power cut takes from each fsync mode: quorlock experiment crash-recovery
",
        appendfsync = cluster.appendfsync,
        directory = cluster.directory.display(),
        urls = cluster.node_list(),
        end = u32::from(last) + 1,
        list = list.join(", "),
    )
}
