//! What a cluster says when it is up: which nodes there are and lines to paste.
//!
//! Plain text without escape codes, so that it looks the same on a terminal and in a file.

use serde_json::json;

use super::view::{LocalCluster, NodeView};
use crate::output::shell_word;

/// The text shown once all nodes serve.
pub(super) fn banner(cluster: &LocalCluster) -> String {
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
    format!(
        "\
Cluster '{name}' is up{resumed}: {count} nodes serve, a lock needs {quorum}.
{note}
  node  address{columns}
{rows}
  appendfsync {appendfsync}, {kept}, in {directory}

Paste:
{paste}
{page}From another terminal: quorlock cluster status | kill {one} | restart {one} | logs {one} -f | down
What a power cut takes from each fsync mode: quorlock experiment crash-recovery
",
        appendfsync = cluster.appendfsync,
        directory = cluster.directory.display(),
        paste = paste(cluster),
        page = page(cluster),
    )
}

fn page(cluster: &LocalCluster) -> String {
    let line = |url| format!("In a browser: {url}\n");
    cluster.page.as_ref().map(line).unwrap_or_default()
}

/// How clients of several languages are given the nodes.
fn paste(cluster: &LocalCluster) -> String {
    // The ports of a cluster are consecutive.
    let ports = || cluster.nodes.iter().map(|node| node.port);
    let first = ports().next().unwrap_or_default();
    let last = ports().next_back().unwrap_or_default();
    let list: Vec<String> = ports().map(|port| port.to_string()).collect();
    let (list, end, urls) = (list.join(", "), u32::from(last) + 1, cluster.node_list());
    let Some(file) = &cluster.cacert else {
        return format!(
            "  shell      export QUORLOCK_NODES={urls}
             quorlock run backup -- echo held
  redis-cli  redis-cli -p {first} SET a t1 NX PX 30000
  Rust       let nodes = ({first}..={last}).map(|port| format!(\"redis://127.0.0.1:{{port}}\"));
             let redlock = Redlock::builder().nodes(nodes).build()?;
  Python     Redlock([{{\"host\": \"127.0.0.1\", \"port\": port}} for port in range({first}, {end})])
  Node       new Redlock([{list}].map((port) => new Redis(port)))
"
        );
    };
    let (word, literal) = (
        shell_word(file.display()),
        json!(file.display().to_string()),
    );
    format!(
        "  shell      export QUORLOCK_NODES={urls}
             export QUORLOCK_CACERT={word}
             quorlock run backup -- echo held
  redis-cli  redis-cli --tls --cacert {word} -p {first} SET a t1 NX PX 30000
  Rust       let nodes = ({first}..={last}).map(|port| format!(\"rediss://127.0.0.1:{{port}}\"));
             let tls = TlsOptions::new().ca_file({literal});
             let redlock = Redlock::builder().nodes(nodes).tls(tls).build()?;
  Python     Redlock([{{\"host\": \"127.0.0.1\", \"port\": port, \"ssl\": True, \"ssl_ca_certs\": {literal}}}
                      for port in range({first}, {end})])
  Node       const tls = {{ ca: fs.readFileSync({literal}) }};
             new Redlock([{list}].map((port) => new Redis({{ port, tls }})))
"
    )
}
