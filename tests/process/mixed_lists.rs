//! Nodes of several clusters in one list: what `locks`, `who`, `wait` and `force-release` say of them, and that they end no lock of another cluster.

use quorlock_testkit::{NodeProcess, eventually};

use crate::shell::Shell;

/// A node of this cluster, which holds the lock `job`.
fn node(shell: &Shell, name: &str, cluster: &str) -> NodeProcess {
    holding(shell, name, &["--cluster-id", cluster])
}

fn holding(shell: &Shell, name: &str, directives: &[&str]) -> NodeProcess {
    let node = NodeProcess::start(shell.path(), name, directives);
    eventually("the lock is taken", || {
        let taken = node.ask(&["SET", "job", "t", "PX", "600000"]);
        taken.is_ok_and(|reply| reply == "+OK")
    });
    node
}

#[test]
fn a_list_in_which_no_cluster_has_a_majority_is_called_by_its_name() {
    let shell = Shell::new();
    let (red, blue) = (node(&shell, "r", "red"), node(&shell, "b", "blue"));
    let away = "redis://127.0.0.1:1".to_owned();
    for list in [
        vec![red.url(), blue.url()],
        vec![red.url(), blue.url(), away],
    ] {
        let list = list.join(",");
        for words in [
            &["locks"][..],
            &["who", "job"],
            &["wait", "job", "--wait", "1h"],
            &["force-release", "job", "--yes"],
            &["run", "free", "--wait", "1s", "--", "true"],
            &["acquire", "job", "-n"],
        ] {
            let options = [words[0], "--nodes", &list];
            let ended = shell.quorlock(&[&options[..], &words[1..]].concat());
            assert_eq!(ended.code, Some(69), "{words:?}: {}", ended.stdout);
            for said in [
                "it belongs to the cluster red",
                "it belongs to the cluster blue",
                "list all nodes of one cluster",
            ] {
                assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
            }
            assert!(!ended.stderr.contains("readers"), "{}", ended.stderr);
        }
    }
    for node in [&red, &blue] {
        assert_eq!(node.ask(&["GET", "job"]).unwrap(), "t");
    }
}

/// As servers of Redis that stand in one list with nodes of two clusters.
#[test]
fn nodes_without_a_cluster_have_no_majority_beside_nodes_of_two_clusters() {
    let shell = Shell::new();
    let mut nodes = vec![node(&shell, "r", "red"), node(&shell, "b", "blue")];
    nodes.extend(["n1", "n2", "n3"].map(|name| holding(&shell, name, &[])));
    let urls: Vec<String> = nodes.iter().map(NodeProcess::url).collect();
    let code = |words: &[&str], list: &[String]| {
        let list = list.join(",");
        let options = [words[0], "--nodes", &list];
        shell.quorlock(&[&options[..], &words[1..]].concat()).code
    };
    let who = &["who", "job"][..];
    for words in [
        who,
        &["locks"],
        &["wait", "job", "--wait", "1h"],
        &["force-release", "job", "--yes"],
        &["status"],
        &["doctor"],
    ] {
        assert_eq!(code(words, &urls), Some(69), "{words:?}");
    }
    for node in &nodes {
        assert_eq!(node.ask(&["GET", "job"]).unwrap(), "t");
    }
    // Beside nodes of one cluster they vote, as while they are replaced by such nodes one after the other.
    assert_eq!(code(who, &urls[1..]), Some(0));
    assert_eq!(code(&["status"], &urls[1..]), Some(0));
}

#[test]
fn the_node_of_another_cluster_is_named_and_keeps_its_lock() {
    let shell = Shell::new();
    let nodes = [("r1", "red"), ("r2", "red"), ("b", "blue")];
    let nodes = nodes.map(|(name, cluster)| node(&shell, name, cluster));
    let urls = nodes.each_ref().map(NodeProcess::url);
    let list = urls.join(",");
    let other = "it belongs to the cluster blue and not to red";
    let who = shell.quorlock(&["who", "job", "--nodes", &list]);
    assert_eq!(who.code, Some(0), "{}", who.stderr);
    let held = who.stdout.starts_with("'job' is held: 2 of 3 nodes");
    assert!(held && who.stdout.contains(other), "{}", who.stdout);
    let ended = shell.quorlock(&["force-release", "job", "--yes", "--nodes", &list]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let said = format!("{}: nothing was asked of it: {other}", urls[2]);
    assert!(
        ended.stdout.contains("released on 2 of 3 nodes"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains(&said), "{}", ended.stdout);
    assert_eq!(nodes[2].ask(&["GET", "job"]).unwrap(), "t");
    let locks = shell.quorlock(&["locks", "--nodes", &list]);
    assert_eq!(locks.code, Some(64), "{}", locks.stderr);
}
