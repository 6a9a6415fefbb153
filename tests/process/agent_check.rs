//! `quorlock agent --check`: what it says of an agent, and of what is none.

use quorlock_testkit::NodeProcess;

use crate::agent::{agent, agent_at};
use crate::run::cluster;
use crate::shell::Shell;

#[test]
fn a_check_takes_a_lock_through_an_agent_and_says_what_is_wrong() {
    let shell = cluster();
    let (_agent, wire) = agent(&shell, &["--", "--requirepass", "secret"], "agent.log");
    drop(wire);
    let output = std::fs::read_to_string(shell.file("agent.log")).unwrap();
    let port = output.trim().rsplit(':').next().unwrap();
    let check = |words: &[&str]| {
        let words = [&["agent", "--check", "--port", port][..], words].concat();
        shell.quorlock(&words)
    };
    let checked = check(&["--", "--requirepass", "secret"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let lines: Vec<&str> = checked.stdout.lines().collect();
    let begins = [
        "lets the default user of --requirepass log in (",
        "takes a lock (",
        "refuses it to a second caller (",
        "extends it (",
        "releases it (",
        "the agent under redis://127.0.0.1:",
    ];
    assert_eq!(lines.len(), begins.len(), "{}", checked.stdout);
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
    }
    let checked = check(&[]);
    assert_eq!(checked.code, Some(69), "{}", checked.stdout);
    assert!(
        checked.stderr.contains("--requirepass-file"),
        "{}",
        checked.stderr
    );
    shell.succeed(&["cluster", "down"]);
    let checked = check(&["--", "--requirepass", "secret"]);
    assert_eq!(checked.code, Some(69), "{}", checked.stdout);
    assert!(
        checked.stderr.contains("too few of its nodes vote"),
        "{}",
        checked.stderr
    );
    let absent = shell.quorlock(&["agent", "--check", "--unixsocket", "/nonexistent/socket"]);
    assert_eq!(absent.code, Some(69), "{}", absent.stdout);
    assert!(absent.stderr.contains("start it: "), "{}", absent.stderr);
}

#[test]
fn a_check_waits_for_an_answer_that_the_agent_holds_back() {
    let shell = cluster();
    let (_agent, address) = agent_at(&shell, &["--hold-back", "1s"], "agent.log");
    let port = address.rsplit(':').next().unwrap();
    let checked = shell.quorlock(&["agent", "--check", "--port", port]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let refused = "\nrefuses it to a second caller (";
    assert!(checked.stdout.contains(refused), "{}", checked.stdout);
}

#[test]
fn a_check_of_a_node_says_that_it_is_no_agent() {
    let shell = Shell::new();
    let node = NodeProcess::start(shell.path(), "node", &[]);
    let url = node.url();
    let port = url.rsplit(':').next().unwrap();
    let checked = shell.quorlock(&["agent", "--check", "--port", port]);
    assert_eq!(checked.code, Some(69), "{}", checked.stdout);
    assert!(
        checked
            .stderr
            .contains("is a Quorlock node and not an agent"),
        "{}",
        checked.stderr
    );
    assert_eq!(checked.stdout, "");
}
