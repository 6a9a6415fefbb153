//! A prefix of names and a ttl in `nodes.conf`: what each command and the agent make of them.

use std::fs;

use quorlock_testkit::{Process, Wire, binary};

use crate::run::{addresses, cluster};
use crate::shell::Shell;

/// A cluster, and a `nodes.conf` with these lines besides those of its nodes.
fn with_file(lines: &str) -> Shell {
    let shell = cluster();
    let nodes = addresses(&shell);
    let nodes = nodes.iter().map(|node| format!("node {node}\n"));
    let text: String = [lines.to_owned()].into_iter().chain(nodes).collect();
    fs::write(shell.file("nodes.conf"), text).unwrap();
    shell
}

/// What a command prints that finds its nodes in that file.
fn say(shell: &Shell, words: &[&str]) -> String {
    let (command, rest) = words.split_first().unwrap();
    let words = [&[*command, "--nodes-file", "nodes.conf"], rest].concat();
    let ended = shell.quorlock(&words);
    assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
    ended.stdout
}

#[test]
fn names_are_said_without_the_prefix_that_they_have_on_the_nodes() {
    let shell = with_file("prefix 'te[a]m:'\nttl 50s\n");
    let say = |words: &[&str]| say(&shell, words);
    let mut node = Wire::connect(&addresses(&shell)[0]);
    let token = say(&["acquire", "job"]);
    let token = token.trim();
    assert_eq!(node.ask("GET te[a]m:job"), token);
    let left: u64 = node.ask("PTTL te[a]m:job")[1..].parse().unwrap();
    assert!((40_000..=50_000).contains(&left), "{left}");
    assert_eq!(node.ask("EXISTS job"), ":0");
    // Others' names, of which one fits the prefix read as a pattern.
    assert_eq!(node.ask("SET team:other t PX 60000"), "+OK");
    assert_eq!(node.ask("SET job t PX 60000"), "+OK");
    let shown = say(&["locks", "--json"]);
    assert!(shown.contains("\"name\":\"job\""), "{shown}");
    let lines = shown.lines().count();
    assert_eq!(lines, 2, "one lock, and the line that counts: {shown}");
    assert!(say(&["who", "job"]).starts_with("'job' is held: 3 of 3"));
    assert!(say(&["extend", "job", token]).contains("'job'"));
    let busy = [
        "run",
        "job",
        "--nodes-file",
        "nodes.conf",
        "-n",
        "--",
        "true",
    ];
    assert_eq!(shell.quorlock(&busy).code, Some(75));
    say(&["release", "job", token]);
    assert_eq!(node.ask("EXISTS te[a]m:job"), ":0");
    say(&["acquire", "stuck"]);
    say(&["force-release", "stuck", "--yes"]);
    assert_eq!(node.ask("EXISTS te[a]m:stuck"), ":0");
    say(&["wait", "stuck", "--no-wait"]);
}

#[test]
fn a_command_says_the_name_of_its_lock_again_and_a_flag_is_above_the_file() {
    let shell = with_file("prefix app:\nttl 50s\n");
    let extend = "\"$0\" extend \"$QUORLOCK_NAME\" \"$QUORLOCK_TOKEN\" --nodes-file nodes.conf";
    let program = binary::quorlock();
    let program = program.to_str().unwrap();
    say(&shell, &["run", "job", "--", "sh", "-c", extend, program]);
    // Nothing else than the variable of run leads to the name there.
    let extend = "\"$0\" extend \"$QUORLOCK_NAME\" \"$QUORLOCK_TOKEN\"";
    let words = [
        "run", "job", "--prefix", "b:", "--", "sh", "-c", extend, program,
    ];
    let ended = shell.quorlock(&words);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // No prefix is one as well, whatever the variable said before.
    let mut none = shell.command(&[
        "run", "job", "--prefix", "", "--", "sh", "-c", extend, program,
    ]);
    assert!(
        none.env("QUORLOCK_PREFIX", "team:")
            .status()
            .unwrap()
            .success()
    );
    say(&shell, &["acquire", "job", "--prefix", "", "--ttl", "9s"]);
    let mut node = Wire::connect(&addresses(&shell)[0]);
    let left: u64 = node.ask("PTTL job")[1..].parse().unwrap();
    assert!(left <= 9_000, "{left}");
    assert_eq!(node.ask("EXISTS app:job"), ":0");
}

#[test]
fn programs_behind_an_agent_with_a_prefix_say_their_own_names() {
    let shell = cluster();
    let words = ["agent", "--port", "0", "--prefix", "app:"];
    let mut agent = Process::start(&mut shell.command(&words), &shell.file("log")).unwrap();
    let line = agent.await_line("find the agent under redis://");
    let mut wire = Wire::connect(line.rsplit("redis://").next().unwrap().trim());
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    assert_eq!(wire.ask("GET job"), "me");
    assert_eq!(wire.ask("SET job you NX PX 60000"), "nil");
    let mut node = Wire::connect(&addresses(&shell)[0]);
    assert!(node.ask("GET app:job").starts_with("me~attempt-"));
    assert_eq!(node.ask("EXISTS job"), ":0");
    assert_eq!(wire.ask("PEXPIRE job 90000"), ":1");
    assert!(node.ask("PTTL app:job")[1..].parse::<u64>().unwrap() > 80_000);
    assert_eq!(wire.ask("DEL job"), ":1");
    assert_eq!(node.ask("EXISTS app:job"), ":0");
}
