//! What `quorlock` refuses to do, and that it names the way out.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use quorlock_testkit::binary;

use crate::shell::{Ended, Shell};

fn refuses(shell: &Shell, words: &[&str], code: i32, said: &[&str]) {
    let Ended {
        code: ended,
        stdout,
        stderr,
    } = shell.quorlock(words);
    assert_eq!(ended, Some(code), "{words:?}\n{stdout}\n{stderr}");
    for part in said {
        assert!(
            stderr.contains(part),
            "{words:?} does not say '{part}':\n{stderr}"
        );
    }
}

#[test]
fn a_running_or_differently_sized_cluster() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "1", "--base-port", "0"]);
    refuses(
        &shell,
        &["cluster", "up"],
        1,
        &["already runs", "quorlock cluster down", "--dir"],
    );
    refuses(
        &shell,
        &["cluster", "clean"],
        1,
        &["running", "quorlock cluster down"],
    );
    shell.succeed(&["cluster", "down"]);
    refuses(
        &shell,
        &["cluster", "up", "--nodes", "3"],
        1,
        &["has 1 nodes, not 3", "clean"],
    );
    refuses(
        &shell,
        &["cluster", "up", "--base-port", "4"],
        1,
        &["ports from", "--base-port"],
    );
    refuses(
        &shell,
        &["cluster", "kill", "1"],
        1,
        &["not running", "quorlock cluster up"],
    );
}

#[test]
fn a_foreign_directory() {
    let shell = Shell::new();
    fs::create_dir(shell.file("mine")).unwrap();
    fs::write(shell.file("mine").join("letter.txt"), "dear").unwrap();
    refuses(
        &shell,
        &["cluster", "up", "--dir", "mine"],
        1,
        &["not a cluster", "--dir"],
    );
    assert_eq!(
        fs::read_dir(shell.file("mine")).unwrap().count(),
        1,
        "nothing was written"
    );
    refuses(
        &shell,
        &["cluster", "clean", "--dir", "mine"],
        1,
        &["no cluster"],
    );
    assert!(shell.file("mine").join("letter.txt").exists());
    fs::write(shell.file("mine").join("cluster.json"), "{}").unwrap();
    refuses(
        &shell,
        &["cluster", "up", "--dir", "mine"],
        1,
        &["not usable", "restore"],
    );
    fs::write(shell.file("plain"), "").unwrap();
    refuses(&shell, &["cluster", "up", "--dir", "plain"], 1, &["plain"]);
}

#[test]
fn a_taken_port_that_was_asked_for() {
    let shell = Shell::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let words = ["cluster", "up", "--nodes", "1", "--base-port", &port];
    refuses(
        &shell,
        &words,
        1,
        &[&format!("port {port} is taken"), "--base-port"],
    );
}

#[test]
fn a_node_whose_past_is_gone() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0"]);
    shell.succeed(&["cluster", "down"]);
    fs::remove_dir_all(shell.file(".quorlock/dev/node-2")).unwrap();
    refuses(
        &shell,
        &["cluster", "up"],
        1,
        &["node 2 was created before", "is gone", "restore", "clean"],
    );
    fs::create_dir(shell.file(".quorlock/dev/node-2")).unwrap();
    refuses(
        &shell,
        &["cluster", "up"],
        1,
        &["node 2 was created before", "lost its contents", "clean"],
    );
    let identity = |number: u16| shell.file(&format!(".quorlock/dev/node-{number}/node.id"));
    fs::copy(identity(1), identity(2)).unwrap();
    refuses(
        &shell,
        &["cluster", "up"],
        1,
        &["node 2 was created before", "another node", "clean"],
    );
}

#[test]
fn a_node_that_was_made_for_another_cluster() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "1", "--base-port", "0"]);
    shell.succeed(&["cluster", "down"]);
    let manifest = shell.file(".quorlock/dev/cluster.json");
    let own = fs::read_to_string(&manifest).unwrap();
    let (before, rest) = own.split_once("\"cluster_id\": \"").unwrap();
    let (id, after) = rest.split_once('"').unwrap();
    let other = format!("{before}\"cluster_id\": \"blue\"{after}");
    fs::write(&manifest, other).unwrap();
    let made_for = format!(
        "cluster-id is blue, but the node in {}",
        shell.file("").display()
    );
    let refused = shell.quorlock(&["cluster", "up", "--detach"]);
    if refused.code == Some(0) {
        shell.succeed(&["cluster", "down"]);
    }
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    for part in [
        "node 1 did not start",
        &made_for,
        &format!("was made for the cluster {id}"),
        "a directory of its own with --dir",
    ] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    // Nothing has become of its locks: in its own cluster it serves as before.
    fs::write(&manifest, own).unwrap();
    let ready = shell.up(&[]);
    assert_eq!(ready["nodes"].as_array().unwrap().len(), 1);
    shell.succeed(&["acquire", "a", "--ttl", "1m"]);
}

#[test]
fn a_start_whose_nodes_fail_says_why() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "1", "--base-port", "0"]);
    shell.succeed(&["cluster", "down"]);
    let identity = shell.file(".quorlock/dev/node-1/node.id");
    let text = fs::read_to_string(&identity).unwrap();
    let id = text.lines().nth(1).unwrap();
    fs::write(&identity, format!("of a version to come\n{id}\n")).unwrap();
    refuses(
        &shell,
        &["cluster", "up"],
        1,
        &["node 1 did not start", "node-1.log"],
    );
    refuses(
        &shell,
        &["cluster", "up", "--detach"],
        1,
        &["node 1 did not start", "node-1.log"],
    );
}

#[test]
fn no_cluster_at_all() {
    let shell = Shell::new();
    refuses(
        &shell,
        &["cluster", "status"],
        1,
        &["no cluster", "quorlock cluster up"],
    );
    refuses(
        &shell,
        &["run", "a", "--", "true"],
        64,
        &["no nodes", "QUORLOCK_NODES", "cluster up"],
    );
    fs::create_dir(shell.file(".quorlock")).unwrap();
    fs::write(shell.file(".quorlock/current"), "gone\n").unwrap();
    refuses(&shell, &["acquire", "a"], 64, &["no nodes"]);
}

/// It served, and answered every client that it had too many.
#[test]
fn a_node_that_may_open_too_few_files_for_one_client() {
    let shell = Shell::new();
    let start = "ulimit -n 60; exec \"$0\" server --port 0 --dir .";
    let mut command = Command::new("sh");
    command.args(["-c", start]).arg(binary::quorlock());
    let ended = command.current_dir(shell.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned()
        + &String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("the process may open 60 files"), "{said}");
    assert!(said.contains("LimitNOFILE"), "{said}");
}
