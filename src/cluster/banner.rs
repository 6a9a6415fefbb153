//! What a cluster says when it is up: which nodes there are and lines to paste.
//!
//! Plain text without escape codes, so that it looks the same on a terminal and in a file.

use std::fmt::{self, Write};

use super::view::ClusterView;

/// The text shown once all nodes serve.
pub(super) fn banner(cluster: &ClusterView) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _infallible = write_banner(&mut text, cluster);
    text
}

fn write_banner(out: &mut String, cluster: &ClusterView) -> fmt::Result {
    let (count, quorum) = (cluster.nodes.len(), cluster.quorum);
    let resumed = if cluster.resumed {
        " again, with the same data"
    } else {
        ""
    };
    writeln!(
        out,
        "Cluster '{}' is up{resumed}: {count} nodes serve, a lock needs {quorum}.",
        cluster.name
    )?;
    if !cluster.note.is_empty() {
        writeln!(out, "{}", cluster.note)?;
    }
    if cluster.in_process {
        writeln!(out, "\n  node  address")?;
        for node in &cluster.nodes {
            writeln!(out, "  {:<4}  127.0.0.1:{}", node.number, node.port)?;
        }
    } else {
        writeln!(out, "\n  node  address           pid       log")?;
        for node in &cluster.nodes {
            let address = format!("127.0.0.1:{}", node.port);
            let pid = node.pid.map(|pid| pid.to_string()).unwrap_or_default();
            let (number, log) = (node.number, node.log.display());
            writeln!(out, "  {number:<4}  {address:<16}  {pid:<8}  {log}")?;
        }
    }
    let kept = if cluster.ephemeral {
        "data goes when it stops"
    } else {
        "data stays"
    };
    writeln!(
        out,
        "\n  appendfsync {}, {kept}, in {}",
        cluster.appendfsync,
        cluster.directory.display()
    )?;
    write_lines_to_paste(out, cluster)?;
    let one = count.min(3);
    writeln!(
        out,
        "\nFrom another terminal: \
         quorlock cluster status | kill {one} | restart {one} | logs {one} -f | down\n\
         What a power cut takes from each fsync mode: quorlock experiment crash-recovery"
    )
}

fn write_lines_to_paste(out: &mut String, cluster: &ClusterView) -> fmt::Result {
    // The ports of a cluster are consecutive.
    let ports: Vec<u16> = cluster.nodes.iter().map(|node| node.port).collect();
    let first = ports.first().copied().unwrap_or_default();
    let last = ports.last().copied().unwrap_or_default();
    let list = ports
        .iter()
        .map(u16::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    writeln!(
        out,
        "
Paste:
  shell      export QUORLOCK_NODES={urls}
             quorlock run backup -- echo held
  redis-cli  redis-cli -p {first} SET a t1 NX PX 30000
  Rust       let nodes = ({first}..={last}).map(|port| format!(\"redis://127.0.0.1:{{port}}\"));
             let redlock = Redlock::builder().nodes(nodes).build()?;
  Python     Redlock([{{\"host\": \"127.0.0.1\", \"port\": port}} for port in range({first}, {end})])
  Node       new Redlock([{list}].map((port) => new Redis(port)))",
        urls = cluster.node_list(),
        end = u32::from(last) + 1,
    )
}
