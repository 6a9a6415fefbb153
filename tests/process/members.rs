//! `quorlock members`: a node more in the list of all clients, while they take locks.

use quorlock_testkit::NodeProcess;

use crate::shell::{Ended, Shell};

/// Nodes whose locks last so shortly that a change of members can begin soon after their start.
fn node(shell: &Shell, number: usize, size: &str) -> NodeProcess {
    let directives = ["--cluster-size", size, "--restart-delay-max", "50"];
    NodeProcess::start(shell.path(), &format!("node-{number}"), &directives)
}

fn list(nodes: &[NodeProcess]) -> String {
    let urls: Vec<String> = nodes.iter().map(NodeProcess::url).collect();
    urls.join(",")
}

fn members(shell: &Shell, words: &[&str], nodes: &str) -> Ended {
    shell.quorlock(&[&["members"], words, &["--nodes", nodes]].concat())
}

/// Begins a change, again and again as long as locks may last.
fn begin(shell: &Shell, size: &str, nodes: &str) -> Ended {
    loop {
        let ended = members(shell, &["begin", size], nodes);
        if !ended.stderr.contains("may last") {
            return ended;
        }
    }
}

/// Whether a client with this list gets a lock.
fn takes(shell: &Shell, nodes: &str) -> bool {
    let words = ["run", "job", "--nodes", nodes, "--", "true"];
    shell.quorlock(&words).code == Some(0)
}

#[test]
fn a_node_is_added_while_clients_with_the_old_and_the_new_list_take_locks() {
    let shell = Shell::new();
    let mut nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let old = list(&nodes);
    nodes.push(node(&shell, 3, "4"));
    let new = list(&nodes);
    assert!(takes(&shell, &old) && !takes(&shell, &new));

    let begun = begin(&shell, "4", &old);
    assert_eq!(begun.code, Some(0), "{}", begun.stderr);
    // These nodes have no configuration file that would keep it.
    assert_eq!(
        begun.stdout.matches("without a config file").count(),
        3,
        "{}",
        begun.stdout
    );
    assert!(takes(&shell, &old) && takes(&shell, &new));
    let shown = members(&shell, &[], &new);
    assert_eq!(
        shown.stdout.matches("3 and 4").count(),
        3,
        "{}",
        shown.stdout
    );
    let found = shell.quorlock(&["doctor", "--nodes", &new]);
    assert!(
        found.stdout.contains("a member is being added or removed"),
        "{}",
        found.stdout
    );

    // With the wrong list, and with a node that is away.
    let ended = members(&shell, &["end"], &old);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("from 3 to 4 nodes, and 3 are listed"),
        "{}",
        ended.stderr
    );
    nodes[3].kill();
    let ended = members(&shell, &["end"], &new);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("cannot be asked"), "{}", ended.stderr);
    assert!(takes(&shell, &old), "nothing was changed");
    nodes[3].start_again();

    let ended = members(&shell, &["end"], &new);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!takes(&shell, &old) && takes(&shell, &new));
    let again = members(&shell, &["end"], &new);
    assert!(
        again.stderr.contains("no change has begun"),
        "{}",
        again.stderr
    );
}

#[test]
fn a_removal_is_given_up_and_one_that_was_begun_on_some_nodes_goes_on() {
    let shell = Shell::new();
    let nodes: Vec<_> = (0..3).map(|number| node(&shell, number, "3")).collect();
    let (all, fewer) = (list(&nodes), list(&nodes[..2]));
    let refused = members(&shell, &["begin", "5"], &all);
    assert!(
        refused.stderr.contains("one member at a time"),
        "{}",
        refused.stderr
    );
    assert_eq!(begin(&shell, "2", &all).code, Some(0));
    assert!(takes(&shell, &all) && takes(&shell, &fewer));
    assert_eq!(members(&shell, &["give-up"], &all).code, Some(0));
    assert!(takes(&shell, &all) && !takes(&shell, &fewer));

    // As an operator's own hand leaves it.
    loop {
        let reply = nodes[1]
            .ask(&["CONFIG", "SET", "cluster-size", "3 2"])
            .unwrap();
        if !reply.contains("may last") {
            break;
        }
    }
    assert_eq!(begin(&shell, "2", &all).code, Some(0));
    assert_eq!(members(&shell, &["end"], &fewer).code, Some(0));
    assert!(!takes(&shell, &all) && takes(&shell, &fewer));
}
