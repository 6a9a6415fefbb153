//! `quorlock agent` with nodes of two clusters in its list.

use quorlock_testkit::NodeProcess;

use crate::agent::agent;
use crate::shell::Shell;

#[test]
fn nodes_of_two_clusters_are_refused_at_the_start_and_told_when_they_come_later() {
    let shell = Shell::new();
    let node = |name, cluster| {
        let directives = ["--cluster-id", cluster, "--cluster-size", "3"];
        NodeProcess::start(shell.path(), name, &directives)
    };
    let [first, second] = ["a", "b"].map(|name| node(name, "blue"));
    let mut third = node("c", "red");
    let list = [first.url(), second.url(), third.url()].join(",");
    let refused = shell.quorlock(&["agent", "--port", "0", "--nodes", &list]);
    assert_eq!(refused.code, Some(64), "{}", refused.stderr);
    let mixed = format!(
        "belong to different clusters: blue ({}, {}), red ({})",
        first.url(),
        second.url(),
        third.url()
    );
    assert!(refused.stderr.contains(&mixed), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("the nodes of one cluster"),
        "{}",
        refused.stderr
    );

    // One that is away says nothing, until it comes.
    third.kill();
    let (mut agent, mut wire) = agent(&shell, &["--nodes", &list], "agent.log");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    third.start_again();
    let line = agent.await_line("belong to different clusters");
    assert!(line.contains(&mixed), "{line}");
    let info = wire.ask("INFO nodes");
    assert!(
        info.contains("it belongs to the cluster red and not to blue"),
        "{info}"
    );
    assert_eq!(wire.ask("GET job"), "me");
}
