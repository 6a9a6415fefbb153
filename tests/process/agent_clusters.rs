//! `quorlock agent` with nodes of two clusters in its list.

use quorlock_testkit::{NodeProcess, Wire, eventually};

use crate::agent::{agent, agent_at};
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

#[test]
fn an_agent_that_sees_nodes_of_two_clusters_names_them_and_is_not_ready_until_one_has_a_majority() {
    let shell = Shell::new();
    let node = |(name, cluster)| {
        let directives = ["--cluster-id", cluster, "--cluster-size", "5"];
        NodeProcess::start(shell.path(), name, &directives)
    };
    let all = [
        ("a", "blue"),
        ("b", "blue"),
        ("c", "red"),
        ("d", "red"),
        ("e", "blue"),
    ];
    let mut nodes = all.map(node);
    let urls = nodes.each_ref().map(NodeProcess::url);
    // Those that are away say nothing, until they come.
    for node in &mut nodes[2..] {
        node.kill();
    }
    let (_agent, address) = agent_at(&shell, &["--nodes", &urls.join(",")], "agent.log");
    let mut wire = Wire::connect(&*address);
    for node in &mut nodes[2..4] {
        node.start_again();
    }
    let mut info = String::new();
    eventually("both clusters are seen", || {
        info = wire.ask("INFO agent");
        info.contains("belong to different clusters")
    });
    let shown = format!(
        "blue ({}, {}), red ({}, {})",
        urls[0], urls[1], urls[2], urls[3]
    );
    let says = |text: &str| text.contains("red (") && text.contains("correct the list");
    eventually("all of them are seen", || {
        info = wire.ask("INFO agent");
        info.contains(&shown)
    });
    assert!(says(&info) && info.contains("agent_ready:0"), "{info}");
    let port = address.rsplit(':').next().expect("a port");
    let checked = shell.quorlock(&["agent", "--check", "--port", port]);
    assert_eq!(checked.code, Some(69), "{}", checked.stdout);
    assert!(says(&checked.stderr), "{}", checked.stderr);

    nodes[4].start_again();
    eventually("one cluster has a majority", || {
        info = wire.ask("INFO agent");
        info.contains("has a majority of the list vote")
    });
    assert!(says(&info), "{info}");
}
