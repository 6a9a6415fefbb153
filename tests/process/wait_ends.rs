//! Which waits end because they can come to nothing, and that all others go on: nodes that refuse the
//! list, a local cluster that is down, something that is no node, names that are not known.
//!
//! A wait that should end and does not is ended by `timeout`, whose exit code is 124.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use quorlock_testkit::{Process, ReservedPort, binary};
use rustix::process::Signal;

use crate::shell::{Ended, Shell};

/// `quorlock` with these words, which is given a minute.
fn within_a_minute(shell: &Shell, words: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.arg("60").arg(binary::quorlock()).args(words);
    command.current_dir(shell.path());
    command.env_remove("QUORLOCK_NODES").stdin(Stdio::null());
    command
}

fn ends(command: &mut Command, said: &[&str]) {
    let ended = Ended::of(command.output().unwrap());
    assert_eq!(ended.code, Some(69), "{command:?}: {}", ended.stderr);
    for part in said {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[test]
fn a_list_that_the_nodes_refuse_is_not_waited_for() {
    let mut shell = Shell::new();
    let ready = shell.up(&["--nodes", "5", "--base-port", "0", "--ephemeral"]);
    let url = |node: usize| ready["nodes"][node]["url"].as_str().unwrap().to_owned();
    let two = format!("{},{}", url(0), url(1));
    let size = [
        "of 2 nodes do not vote, which no wait changes, and 2 must vote; not acquired",
        "its cluster has 5 nodes, another number than are listed",
        "list all nodes of one cluster",
    ];
    for words in [
        &["run", "a", "--nodes", &two, "--", "true"][..],
        &["run", "a", "--nodes", &two, "--wait", "1h", "--", "true"],
        &["run", "a", "--nodes", &two],
        &["acquire", "a", "--nodes", &two],
        &["acquire", "a", "--nodes", &two, "--no-wait"],
    ] {
        ends(&mut within_a_minute(&shell, words), &size);
    }
    // Nobody waits for these nodes in the right list either.
    shell.succeed(&["acquire", "a", "-n"]);
}

#[test]
fn a_list_with_one_node_twice_is_not_waited_for() {
    let shell = Shell::new();
    let reserved = ReservedPort::new().unwrap();
    let port = reserved.number().to_string();
    let words = ["server", "--bind", "127.0.0.1", "--port", &port];
    let mut node = shell.command(&words);
    let mut node = Process::start(&mut node, &shell.file("node.out")).unwrap();
    let one = format!("127.0.0.1:{port}");
    let twice = format!("{one},localhost:{port}");
    shell.succeed(&["acquire", "b", "--nodes", &one]);
    let words = ["acquire", "a", "--nodes", &twice];
    let said = ["1 of 2 nodes do not vote", "the same node as", "each once"];
    ends(&mut within_a_minute(&shell, &words), &said);
    node.signal(Signal::TERM);
    node.await_end();
}

#[test]
fn a_local_cluster_that_is_down_is_not_waited_for() {
    let mut shell = Shell::new();
    let ready = shell.up(&["--nodes", "3", "--base-port", "0"]);
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    let nodes = ready["nodes"].as_array().unwrap().iter();
    let nodes: Vec<&str> = nodes.map(|node| node["url"].as_str().unwrap()).collect();
    let list = nodes.join(",");
    // Killed, so that nothing of it is tidied up; its nodes end with it.
    shell.supervisor().signal(Signal::KILL);
    shell.supervisor().await_end();
    let directory = shell.file(".quorlock/dev").display().to_string();
    let down = format!("the cluster in {directory} is down");
    let start = format!("start it with: quorlock cluster up --dir {directory}");
    for words in [
        &["run", "a", "--", "true"][..],
        &["run", "a", "--wait", "1h", "--", "true"],
        &["run", "a", "-n", "--", "true"],
        &["acquire", "a"],
        &["acquire", "a", "--nodes", &list],
        &["extend", "a", token.trim()],
        &["release", "a", token.trim()],
    ] {
        ends(&mut within_a_minute(&shell, words), &[&down, &start]);
    }
    // Others than its nodes are waited for.
    let words = ["acquire", "a", "--nodes", "127.0.0.1:1", "--wait", "1500ms"];
    ends(&mut within_a_minute(&shell, &words), &["after 1."]);
    // And with what was said it goes on.
    shell.up(&["--dir", &directory]);
    shell.succeed(&["release", "a", token.trim()]);
}

#[test]
fn what_is_no_node_is_not_waited_for_and_an_unknown_name_is() {
    let shell = Shell::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let _ends_with_the_test = std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _asked = stream.read(&mut [0; 4096]);
            let _answered = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let words = ["run", "a", "--nodes", &address, "--", "true"];
    let said = ["protocol error", "without TLS"];
    ends(&mut within_a_minute(&shell, &words), &said);
    let unknown = "no-such-host.invalid:7001";
    let words = [
        "run", "a", "--nodes", unknown, "--wait", "1500ms", "--", "true",
    ];
    ends(&mut within_a_minute(&shell, &words), &["after 1."]);
}
