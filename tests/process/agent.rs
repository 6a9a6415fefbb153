//! `quorlock agent` in front of a small cluster.

use quorlock_testkit::{Process, Wire};
use rustix::process::Signal;

use crate::run::cluster;
use crate::shell::Shell;

/// An agent, and a connection to it.
fn agent(shell: &Shell, words: &[&str], output: &str) -> (Process, Wire) {
    let words = [&["agent", "--port", "0"][..], words].concat();
    let mut command = shell.command(&words);
    let mut agent = Process::start(&mut command, &shell.file(output)).unwrap();
    let line = agent.await_line("find the agent under redis://");
    let address = line.rsplit("redis://").next().unwrap().trim();
    (agent, Wire::connect(address))
}

#[test]
fn a_lock_of_one_agent_is_a_lock_for_the_others_and_outlives_them() {
    let shell = cluster();
    let (mut first, mut wire) = agent(&shell, &[], "first.log");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    assert_eq!(wire.ask("GET job"), "me");
    first.kill();
    let (mut second, mut wire) = agent(&shell, &[], "second.log");
    assert_eq!(wire.ask("SET job you NX PX 60000"), "nil");
    // Whoever asks the nodes themselves is kept out as well.
    let held = shell.quorlock(&["run", "job", "-n", "--", "true"]);
    assert_eq!(held.code, Some(75), "{}", held.stderr);
    let release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    let release = |owner| ["EVAL", release, "1", "job", owner];
    assert_eq!(wire.ask_words(&release("you")), ":0");
    assert_eq!(wire.ask_words(&release("me")), ":1");
    let free = shell.quorlock(&["run", "job", "-n", "--", "true"]);
    assert_eq!(free.code, Some(0), "{}", free.stderr);
    second.signal(Signal::TERM);
    assert_eq!(second.await_end().code(), Some(0), "{}", second.output());
}

#[test]
fn a_majority_that_is_away_is_an_error_and_no_answer() {
    let shell = cluster();
    let (_agent, mut wire) = agent(&shell, &[], "agent.log");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    let down = shell.quorlock(&["cluster", "down"]);
    assert_eq!(down.code, Some(0), "{}", down.stderr);
    for request in [
        "GET job",
        "SET job you NX PX 1000",
        "SET other you NX PX 1000",
        "DEL job",
    ] {
        let answer = wire.ask(request);
        assert!(answer.starts_with("-NOQUORUM "), "{request}: {answer}");
        assert!(answer.contains("127.0.0.1:"), "{answer}");
    }
}

#[test]
fn what_stands_behind_two_dashes_is_for_its_connections() {
    let shell = cluster();
    let (_agent, mut wire) = agent(&shell, &["--", "--requirepass", "secret"], "agent.log");
    assert!(wire.ask("GET job").starts_with("-NOAUTH "));
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    let refused = shell.quorlock(&["agent", "--", "--no-such-directive", "1"]);
    assert_eq!(refused.code, Some(64), "{}", refused.stderr);
}
