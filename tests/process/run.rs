//! `quorlock run`, `acquire`, `extend` and `release` against a small cluster.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use quorlock_testkit::{Process, ReservedPort, Wire, eventually};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::shell::{Ended, Shell, await_end, lives, send};

pub(crate) fn cluster() -> Shell {
    let mut shell = Shell::new();
    shell.up_of(3, &["--in-process", "--ephemeral"]);
    shell
}

/// Lets somebody else take a lock away on so many nodes, as a careless administrator would.
pub(crate) fn take_away(shell: &Shell, name: &str, count: usize) {
    for address in addresses(shell).iter().take(count) {
        let answer = Wire::connect(address).ask(&format!("SET {name} other PX 60000"));
        assert_eq!(answer, "+OK");
    }
}

fn is_held_everywhere(shell: &Shell, name: &str) -> bool {
    let addresses = addresses(shell);
    let mut answers = addresses.iter();
    answers.all(|address| Wire::connect(address).ask(&format!("EXISTS {name}")) == ":1")
}

/// Where the nodes of the cluster listen.
pub(crate) fn addresses(shell: &Shell) -> Vec<String> {
    let ready = fs::read_to_string(shell.file("ready.json")).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    let nodes = ready["nodes"].as_array().unwrap().iter();
    let url = |node: &serde_json::Value| node["url"].as_str().unwrap().to_owned();
    nodes
        .map(|node| url(node).replacen("redis://", "", 1))
        .collect()
}

#[test]
fn the_exit_code_is_the_commands() {
    let shell = cluster();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
    ] {
        let ended = shell.quorlock(&["run", "a", "--", "sh", "-c", script]);
        assert_eq!(ended.code, Some(code), "{script}: {}", ended.stderr);
        assert!(ended.stderr.is_empty(), "{script}: {}", ended.stderr);
    }
}

#[test]
fn the_command_knows_its_lock_and_gets_input_and_arguments() {
    let shell = cluster();
    let mut command = shell.command(&["run", "my lock", "--", "sh", "-c", SCRIPT, "zero", "a b"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"typed").unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "my lock");
    assert_eq!(lines[1].len(), 32, "the token");
    assert!(
        lines[2].parse::<u64>().unwrap() > 1_700_000_000_000,
        "the deadline"
    );
    assert_eq!(&lines[3..], ["a b", "typed"]);
}

const SCRIPT: &str = "echo $QUORLOCK_NAME; echo $QUORLOCK_TOKEN; echo $QUORLOCK_DEADLINE; \
                      echo \"$1\"; cat";

#[test]
fn a_command_that_cannot_start_takes_no_lock() {
    let shell = cluster();
    fs::write(shell.file("plain"), "text").unwrap();
    for (word, code) in [
        ("no-such-command", 127),
        ("./nowhere", 127),
        ("./plain", 126),
        ("/", 126),
    ] {
        // The nodes are not even asked: these do not exist.
        let words = ["run", "a", "--nodes", "redis://127.0.0.1:1", "--", word];
        let ended = shell.quorlock(&words);
        assert_eq!(ended.code, Some(code), "{word}: {}", ended.stderr);
        assert!(ended.stderr.contains("not taken"), "{}", ended.stderr);
    }
}

#[test]
fn a_busy_lock_is_waited_for_or_not() {
    let shell = cluster();
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    let token = token.trim();
    let busy = shell.quorlock(&["run", "a", "--no-wait", "--", "true"]);
    assert_eq!(busy.code, Some(75), "{}", busy.stderr);
    assert_eq!(
        shell
            .quorlock(&["run", "a", "--wait", "50ms", "--", "true"])
            .code,
        Some(75)
    );
    let json = shell.quorlock(&["acquire", "a", "-n", "--json"]);
    assert_eq!(
        (json.code, &json.json()["error"]["kind"]),
        (Some(75), &"busy".into())
    );

    let mut waiting = shell.command(&["run", "a", "--", "true"]).spawn().unwrap();
    shell.succeed(&["release", "a", token]);
    assert!(
        await_end(&mut waiting).success(),
        "it waits for ever, until the lock is free"
    );
}

#[test]
fn tokens_extend_and_release_only_their_own_lock() {
    let shell = cluster();
    let taken = shell
        .quorlock(&["acquire", "a", "--ttl", "1h", "--json"])
        .json();
    assert_eq!(
        (&taken["name"], taken["nodes"].as_array().unwrap().len()),
        (&"a".into(), 3)
    );
    assert!(taken["validity_ms"].as_u64().unwrap() > 3_000_000);
    let token = taken["token"].as_str().unwrap();
    shell.succeed(&["extend", "a", token, "--ttl", "2h"]);
    assert_eq!(shell.quorlock(&["extend", "a", "wrong"]).code, Some(70));
    assert_eq!(shell.quorlock(&["release", "a", "wrong"]).code, Some(70));
    shell.succeed(&["release", "a", token]);
    assert_eq!(shell.quorlock(&["release", "a", token]).code, Some(70));
    assert_eq!(shell.quorlock(&["release", "a", ""]).code, Some(64));
}

#[test]
fn signals_reach_the_command() {
    let shell = cluster();
    let script = "trap 'echo heard; exit 3' USR1; echo started; while :; do sleep 0.01; done";
    let output = fs::File::create(shell.file("out")).unwrap();
    let mut command = shell.command(&["run", "a", "--", "sh", "-c", script]);
    let mut child = command.stdout(output).spawn().unwrap();
    let printed = |text: &str| {
        fs::read_to_string(shell.file("out"))
            .unwrap()
            .contains(text)
    };
    eventually("the command runs", || printed("started"));
    send(&child, Signal::USR1);
    assert_eq!(await_end(&mut child).code(), Some(3));
    assert!(printed("heard"));
}

#[test]
fn the_command_dies_with_a_killed_wrapper() {
    let shell = cluster();
    let output = fs::File::create(shell.file("out")).unwrap();
    let words = [
        "run",
        "a",
        "--",
        "sh",
        "-c",
        "echo $$; while :; do sleep 0.01; done",
    ];
    let mut child = shell.command(&words).stdout(output).spawn().unwrap();
    let printed = || fs::read_to_string(shell.file("out")).unwrap();
    eventually("the command runs", || printed().ends_with('\n'));
    let pid: u64 = printed().trim().parse().unwrap();
    assert!(lives(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the command dies", || !lives(pid));
}

#[test]
fn the_loss_of_the_lock_stops_the_command() {
    let shell = cluster();
    let polite = "trap 'echo asked; exit 0' TERM; echo started; while :; do sleep 0.01; done";
    let stubborn = "trap '' TERM; echo started; while :; do sleep 0.01; done";
    for (script, said) in [(polite, "asked to end"), (stubborn, "killed")] {
        let output = fs::File::create(shell.file("out")).unwrap();
        let words = ["run", "lost", "--ttl", "1s", "--", "sh", "-c", script];
        let mut command = shell.command(&words);
        let child = command.stdout(output).spawn().unwrap();
        let printed = || fs::read_to_string(shell.file("out")).unwrap();
        eventually("the command runs", || printed().contains("started"));
        take_away(&shell, "lost", 3);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(70), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        assert_eq!(printed().contains("asked"), said == "asked to end");
        shell.succeed(&["release", "lost", "other"]);
    }
}

#[test]
fn a_loss_seen_only_at_the_release_is_no_success() {
    let shell = cluster();
    let script = "echo started; while ! [ -e go ]; do sleep 0.01; done";
    for (count, code) in [(1, 0), (2, 70), (3, 70)] {
        let name = format!("lost{count}");
        let output = fs::File::create(shell.file("out")).unwrap();
        // No renewal comes before the command's end.
        let words = ["run", &name, "--ttl", "1h", "--", "sh", "-c", script];
        let child = shell.command(&words).stdout(output).spawn().unwrap();
        let printed = || fs::read_to_string(shell.file("out")).unwrap();
        eventually("the command runs", || printed().contains("started"));
        // It begins with a majority; without all nodes, one that is taken away may be a loss.
        eventually("all nodes hold it", || is_held_everywhere(&shell, &name));
        take_away(&shell, &name, count);
        fs::write(shell.file("go"), "").unwrap();
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(code), "{count}: {}", ended.stderr);
        assert_eq!(
            ended.stderr.contains("was lost"),
            code == 70,
            "{}",
            ended.stderr
        );
        fs::remove_file(shell.file("go")).unwrap();

        let name = format!("taken{count}");
        let token = shell.succeed(&["acquire", &name, "--ttl", "1h"]);
        take_away(&shell, &name, count);
        let ended = shell.quorlock(&["release", &name, token.trim()]);
        assert_eq!(ended.code, Some(code), "{count}: {}", ended.stderr);
    }
}

#[test]
fn a_wait_without_a_quorum_says_why_and_goes_on() {
    let shell = Shell::new();
    let errors = shell.file("err");
    let words = ["run", "a", "--nodes", "redis://127.0.0.1:1", "--", "true"];
    let output = fs::File::create(&errors).unwrap();
    let mut child = shell.command(&words).stderr(output).spawn().unwrap();
    let said = || fs::read_to_string(&errors).unwrap();
    eventually("it says why", || said().contains("unreachable"));
    assert!(
        said().contains("no quorum, 1 of 1 nodes cannot vote"),
        "{}",
        said()
    );
    assert!(child.try_wait().unwrap().is_none());
    send(&child, Signal::TERM);
    assert_eq!(await_end(&mut child).code(), Some(143), "{}", said());
}

#[test]
fn a_wrong_password_is_not_waited_for() {
    let shell = Shell::new();
    let reserved = ReservedPort::new().unwrap();
    let port = reserved.number().to_string();
    let words = ["server", "--bind", "127.0.0.1", "--port", &port];
    let mut command = shell.command(&words);
    command.args(["--requirepass", "right", "--first-start", "serve"]);
    let mut node = Process::start(&mut command, &shell.file("node.out")).unwrap();
    let named = |password: &str| format!("redis://:{password}@127.0.0.1:{port}");
    let run = |nodes: &str| shell.quorlock(&["run", "a", "--nodes", nodes, "--", "true"]);
    // Waits until the node is there.
    let right = run(&named("right"));
    assert_eq!(right.code, Some(0), "{}", right.stderr);
    for (nodes, said) in [
        (named("wrong"), "WRONGPASS"),
        (format!("redis://127.0.0.1:{port}"), "NOAUTH"),
    ] {
        let ended = run(&nodes);
        assert_eq!(ended.code, Some(69), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        assert!(!ended.stderr.contains("wrong@"), "{}", ended.stderr);
    }
    node.signal(Signal::TERM);
    node.await_end();
}

#[test]
fn a_wait_can_be_interrupted() {
    let shell = cluster();
    shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    let child = shell.command(&["run", "a", "--", "true"]).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    eventually("it listens to SIGTERM", || catches_sigterm(&status));
    send(&child, Signal::TERM);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
    assert!(ended.stderr.contains("not held"), "{}", ended.stderr);
}

pub(crate) fn catches_sigterm(status: &str) -> bool {
    let Ok(text) = fs::read_to_string(status) else {
        return false;
    };
    let mask = text
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << 14) != 0
}

#[test]
fn nodes_may_come_from_the_variable_and_from_above() {
    let shell = cluster();
    let below = shell.file("below");
    fs::create_dir(&below).unwrap();
    let mut found = shell.command(&["run", "a", "--", "true"]);
    assert!(found.current_dir(&below).status().unwrap().success());
    let mut named: Command = shell.command(&["run", "a", "-n", "--", "true"]);
    named.env("QUORLOCK_NODES", "redis://127.0.0.1:1");
    assert_eq!(
        named.status().unwrap().code(),
        Some(69),
        "the variable comes first"
    );
    let mut nobody: Command = shell.command(&["run", "a", "-n", "--", "true"]);
    let ended = Ended::of(nobody.env("QUORLOCK_NODES", ",").output().unwrap());
    assert_eq!(ended.code, Some(64), "not the cluster's nodes instead");
    assert!(ended.stderr.contains("names no node"), "{}", ended.stderr);
}

/// A cluster whose nodes are in the user's file, and a folder in which no cluster was started.
fn with_user_file() -> (Shell, TempDir) {
    let shell = cluster();
    let lines = addresses(&shell).into_iter();
    let lines = lines.map(|node| format!("node {node}\n"));
    write_user_file(&shell, &lines.collect::<String>());
    (shell, tempfile::tempdir().unwrap())
}

fn write_user_file(shell: &Shell, text: &str) {
    fs::create_dir_all(shell.file("config/quorlock")).unwrap();
    fs::write(shell.file("config/quorlock/nodes.conf"), text).unwrap();
}

#[test]
fn nodes_may_come_from_a_file_of_the_user_s_or_one_that_is_named() {
    let (shell, elsewhere) = with_user_file();
    let run = |words: &[&str]| {
        let mut command = shell.command(words);
        Ended::of(command.current_dir(elsewhere.path()).output().unwrap())
    };
    let ended = run(&["run", "a", "-n", "--", "true"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for command in ["status", "doctor"] {
        let ended = run(&[command, "--json"]);
        assert_eq!(ended.json()["votes"], 3, "{command}: {}", ended.stderr);
    }
    let members = run(&["members", "--json"]).json();
    assert_eq!(members["listed"], 3, "{members}");
    let mut listener = shell.command(&["elect", "leader", "--listen"]);
    listener.current_dir(elsewhere.path());
    let mut listener = Process::start(&mut listener, &shell.file("listener")).unwrap();
    listener.await_line("nobody leads");
    fs::write(elsewhere.path().join("none.conf"), "# none yet\n").unwrap();
    let ended = run(&["run", "--nodes-file", "none.conf", "a", "--", "true"]);
    assert_eq!(ended.code, Some(64), "not the user's file instead");
    assert!(
        ended.stderr.contains("none.conf names no node"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_named_file_the_variable_and_a_cluster_above_come_before_the_user_s_file() {
    let (shell, elsewhere) = with_user_file();
    fs::write(shell.file("gone.conf"), "node 127.0.0.1:1\n").unwrap();
    let gone = shell.file("gone.conf");
    let file = ["--nodes-file", gone.to_str().unwrap()];
    let code = |folder: &Path, variable: Option<&str>, flags: &[&str]| {
        let words = [&["run", "a", "-n"][..], flags, &["--", "true"]].concat();
        let mut command = shell.command(&words);
        let variable = variable.map(|nodes| ("QUORLOCK_NODES", nodes));
        let command = command.current_dir(folder).envs(variable);
        Ended::of(command.output().unwrap()).code
    };
    let elsewhere = elsewhere.path();
    assert_eq!(code(elsewhere, None, &[]), Some(0));
    assert_eq!(code(elsewhere, Some("127.0.0.1:1"), &[]), Some(69));
    assert_eq!(code(elsewhere, Some(""), &[]), Some(0), "as good as none");
    assert_eq!(code(elsewhere, None, &file), Some(69));
    let nodes = addresses(&shell).join(",");
    assert_eq!(code(elsewhere, Some(nodes.as_str()), &file), Some(69));
    assert_eq!(code(elsewhere, Some(nodes.as_str()), &[]), Some(0));
    write_user_file(&shell, "node 127.0.0.1:1\n");
    assert_eq!(code(elsewhere, None, &[]), Some(69));
    assert_eq!(code(shell.path(), None, &[]), Some(0), "its cluster");
}
