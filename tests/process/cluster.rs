//! `quorlock cluster`: from up to clean.

use quorlock_testkit::{Wire, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::take_away;
use crate::shell::{Shell, lives, pids};

fn identities(ready: &Value) -> Vec<(String, String)> {
    let nodes = ready["nodes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    nodes
        .map(|node| (text(&node["id"]), text(&node["url"])))
        .collect()
}

#[test]
fn a_stopped_cluster_resumes_with_its_nodes_and_locks() {
    let mut shell = Shell::new();
    let first = shell.up(&["--nodes", "3", "--base-port", "0"]);
    assert_eq!(
        (&first["version"], &first["quorum"]),
        (&1.into(), &2.into())
    );
    assert_eq!(first["name"], "dev");
    let nodes = first["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3);
    for node in nodes {
        assert_eq!(node["id"].as_str().unwrap().len(), 40);
        assert!(lives(node["pid"].as_u64().unwrap()));
        assert!(std::path::Path::new(node["dir"].as_str().unwrap()).is_dir());
        assert!(std::path::Path::new(node["log"].as_str().unwrap()).is_file());
    }
    let banner = shell.up_output();
    assert!(
        banner.contains("export QUORLOCK_NODES=redis://127.0.0.1:"),
        "{banner}"
    );
    assert!(
        !banner.contains('\x1b'),
        "no escape codes without a terminal"
    );

    let token = shell.succeed(&["acquire", "kept", "--ttl", "1h"]);
    let farewell = shell.succeed(&["cluster", "down"]);
    assert!(
        farewell.contains("3 of 3 nodes stopped cleanly"),
        "{farewell}"
    );
    assert!(shell.supervisor().await_end().success());
    assert!(pids(&first).into_iter().all(|pid| !lives(pid)));
    assert_eq!(shell.states(), ["down", "down", "down"]);

    let second = shell.up(&[]);
    assert_eq!(identities(&second), identities(&first));
    assert_eq!(
        shell.quorlock(&["acquire", "kept", "--no-wait"]).code,
        Some(75)
    );
    shell.succeed(&["release", "kept", token.trim()]);
    shell.supervisor().signal(Signal::INT);
    assert!(shell.supervisor().await_end().success());
    shell.succeed(&["cluster", "clean"]);
    assert!(!shell.file(".quorlock").exists(), "nothing stays behind");
}

#[test]
fn a_killed_node_stays_down_and_waits_after_its_restart() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0"]);
    // A quick `run` may be over before the third node has granted anything it could forget.
    take_away(&shell, "kept", 3);
    shell.succeed(&["cluster", "kill", "3"]);
    assert_eq!(shell.states(), ["serving", "serving", "down"]);
    assert_eq!(shell.quorlock(&["cluster", "kill", "3"]).code, Some(1));
    shell.succeed(&["run", "a", "--", "true"]);

    let restarted = shell.succeed(&["cluster", "restart", "3"]);
    assert!(restarted.contains("restart delay"), "{restarted}");
    assert_eq!(shell.states(), ["serving", "serving", "restart-delay"]);
    shell.succeed(&["cluster", "kill", "1"]);
    assert_eq!(shell.quorlock(&["cluster", "status"]).code, Some(69));
    let refused = shell.quorlock(&["run", "a", "--no-wait", "--", "true"]);
    assert_eq!(refused.code, Some(69), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("restart delay"),
        "{}",
        refused.stderr
    );
}

#[test]
fn with_always_a_killed_node_serves_again_at_once() {
    let mut shell = Shell::new();
    shell.up_of(1, &["--appendfsync", "always"]);
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    shell.succeed(&["cluster", "kill", "1"]);
    let restarted = shell.succeed(&["cluster", "restart", "1"]);
    assert!(restarted.ends_with("it serves locks\n"), "{restarted}");
    shell.succeed(&["release", "a", token.trim()]);
}

#[test]
fn a_clean_restart_needs_no_delay() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "1", "--base-port", "0"]);
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    shell.succeed(&["cluster", "restart", "1"]);
    eventually("the node serves", || shell.states() == ["serving"]);
    // What kill -9 would have it wait for.
    take_away(&shell, "b", 1);
    let stopped = shell.succeed(&["cluster", "kill", "1", "--term"]);
    let words = "node 1: stopped cleanly; it stays down until: quorlock cluster restart 1\n";
    assert_eq!(stopped, words);
    let again = shell.quorlock(&["cluster", "kill", "1", "--term"]);
    assert_eq!(again.code, Some(1), "{}", again.stderr);
    let restarted = shell.succeed(&["cluster", "restart", "1"]);
    assert!(restarted.ends_with("it serves locks\n"), "{restarted}");
    shell.succeed(&["release", "a", token.trim()]);
}

#[test]
fn a_paused_node_hangs_until_it_is_resumed() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0"]);
    assert_eq!(shell.quorlock(&["cluster", "resume", "2"]).code, Some(1));
    shell.succeed(&["cluster", "pause", "2"]);
    assert_eq!(shell.states(), ["serving", "paused", "serving"]);
    shell.succeed(&["run", "a", "--", "true"]);
    shell.succeed(&["cluster", "resume", "2"]);
    assert_eq!(shell.states(), ["serving", "serving", "serving"]);
    let logs = shell.succeed(&["cluster", "logs"]);
    assert!(logs.lines().any(|line| line.starts_with("[n2] ")), "{logs}");
    assert!(
        shell
            .succeed(&["cluster", "logs", "2"])
            .contains("Ready to accept connections")
    );
}

#[test]
fn nodes_do_not_outlive_a_killed_supervisor() {
    let mut shell = Shell::new();
    let first = shell.up_of(3, &["--appendfsync", "always"]);
    // A stopped process must go too, although it cannot hear anything.
    shell.succeed(&["cluster", "pause", "2"]);
    shell.supervisor().signal(Signal::KILL);
    shell.supervisor().await_end();
    eventually("the nodes end", || {
        pids(&first).into_iter().all(|pid| !lives(pid))
    });
    assert_eq!(shell.states(), ["down", "down", "down"]);
    // Nothing was promised that is not on disk, so there is nothing to wait for.
    let second = shell.up(&[]);
    assert_eq!(identities(&second), identities(&first));
}

#[test]
fn a_detached_cluster_lives_on_and_an_ephemeral_one_leaves_nothing() {
    let shell = Shell::new();
    let words = [
        "cluster",
        "up",
        "--detach",
        "--ephemeral",
        "--nodes",
        "1",
        "--base-port",
        "0",
    ];
    shell.succeed(&words);
    let status = shell.quorlock(&["cluster", "status", "--json"]).json();
    let directory = std::path::PathBuf::from(status["dir"].as_str().unwrap());
    assert!(directory.is_dir());
    shell.succeed(&["run", "a", "--", "true"]);
    shell.succeed(&["cluster", "down"]);
    let pid = status["pid"].as_u64().unwrap();
    eventually("the supervisor ends", || !lives(pid));
    assert!(!directory.exists() && !shell.file(".quorlock").exists());
}

#[test]
fn nodes_inside_the_supervisor_work_the_same() {
    let mut shell = Shell::new();
    let ready = shell.up_of(3, &["--in-process", "--ephemeral"]);
    let mut ids: Vec<String> = identities(&ready).into_iter().map(|(id, _)| id).collect();
    assert!(
        ids.iter()
            .all(|id| id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit())),
        "{ids:?}"
    );
    ids.dedup();
    assert_eq!(ids.len(), 3, "each has its own");
    let token = shell.succeed(&["acquire", "a", "--ttl", "50s"]);
    // A client that lists one node of three has no majority, and is told so before it takes anything.
    let one = ready["nodes"][0]["url"].as_str().unwrap();
    let refused = shell.quorlock(&["acquire", "b", "--no-wait", "--nodes", one]);
    assert_eq!(refused.code, Some(69), "{}", refused.stderr);
    let why = "its cluster has 3 nodes, another number than are listed";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    // A majority may have been quicker than this node, which must have something to forget.
    let mut client = Wire::connect(one.trim_start_matches("redis://"));
    assert_eq!(client.ask("SET b token NX PX 50000"), "+OK");
    shell.succeed(&["cluster", "kill", "1"]);
    assert_eq!(shell.states(), ["down", "serving", "serving"]);
    let restarted = shell.succeed(&["cluster", "restart", "1"]);
    assert!(restarted.contains("restart delay"), "{restarted}");
    let released = shell.quorlock(&["release", "a", token.trim(), "--require-all"]);
    assert_eq!(released.code, Some(74), "{}", released.stderr);
    assert!(
        released.stderr.contains("restart delay"),
        "{}",
        released.stderr
    );
    shell.supervisor().signal(Signal::TERM);
    assert!(shell.supervisor().await_end().success());
}

#[test]
fn programs_get_json() {
    let mut shell = Shell::new();
    let ready = shell.up(&["--nodes", "2", "--base-port", "0", "--json"]);
    let printed: Value = serde_json::from_str(&shell.up_output()).unwrap();
    assert_eq!(printed, ready);
    let done = shell.quorlock(&["cluster", "kill", "1", "--json"]).json();
    assert!(done["done"].as_str().unwrap().contains("node 1"));
    let failed = shell.quorlock(&["cluster", "kill", "7", "--json"]);
    assert_eq!(
        (failed.code, &failed.json()["error"]["kind"]),
        (Some(64), &"usage".into())
    );
}

#[test]
fn a_second_ctrl_c_kills_what_does_not_stop() {
    let mut shell = Shell::new();
    let ready = shell.up(&["--nodes", "2", "--base-port", "0"]);
    let pids = pids(&ready);
    // Stopped behind the supervisor's back, so it hears nothing and nobody lets it go on.
    let hung = Pid::from_raw(i32::try_from(pids[0]).unwrap()).unwrap();
    kill_process(hung, Signal::STOP).unwrap();
    shell.supervisor().signal(Signal::INT);
    eventually("the other node stops", || !lives(pids[1]));
    assert!(lives(pids[0]));
    shell.supervisor().signal(Signal::INT);
    shell.supervisor().await_end();
    assert!(!lives(pids[0]));
    assert!(
        shell.up_output().contains("1 of 2 nodes stopped cleanly"),
        "{}",
        shell.up_output()
    );
}

#[test]
fn a_ready_file_is_never_that_of_an_earlier_run() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "1", "--base-port", "0"]);
    shell.succeed(&["cluster", "down"]);
    shell.supervisor().await_end();
    let ready = shell.file("ready.json");
    assert!(!ready.exists(), "it goes with the cluster");
    std::fs::write(&ready, "left by a killed supervisor").unwrap();
    let identity = shell.file(".quorlock/dev/node-1/node.id");
    std::fs::remove_file(identity).unwrap();
    let words = ["cluster", "up", "--ready-file", "ready.json"];
    assert_eq!(shell.quorlock(&words).code, Some(1));
    assert!(!ready.exists(), "a start that fails leaves none");
}
