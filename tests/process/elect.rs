//! `quorlock elect`: candidates that lead in turn, and a listener that says who leads.

use quorlock_testkit::{Process, eventually};
use rustix::process::Signal;

use crate::run::cluster;
use crate::shell::Shell;

/// A candidate, or a listener, with these words.
fn elect(shell: &Shell, name: &str, words: &[&str]) -> Process {
    let mut command = shell.command(&["elect"]);
    Process::start(command.args(words), &shell.file(name)).unwrap()
}

#[test]
fn candidates_lead_in_turn_and_a_listener_prints_one_line_for_each_change() {
    let shell = cluster();
    let mut listener = elect(&shell, "listener", &["--listen", "primary"]);
    listener.await_line("nobody leads");
    let campaign = |name: &str| elect(&shell, name, &["primary", name, "--fence", "--ttl", "2s"]);
    let mut anna = campaign("anna");
    assert_eq!(anna.await_line("leads").trim(), "anna leads with fence 1");
    listener.await_line("anna leads with fence 1");
    let mut ben = campaign("ben");
    anna.signal(Signal::INT);
    assert!(anna.await_end().success(), "{}", anna.output());
    ben.await_line("ben leads with fence 2");
    listener.await_line("ben leads with fence 2");
    // Its lease ends by itself.
    ben.kill();
    eventually("nobody leads again", || {
        listener.output().ends_with("fence 2\nnobody leads\n")
    });
    listener.signal(Signal::TERM);
    assert!(listener.await_end().success());
    let lines: Vec<String> = listener.output().lines().map(str::to_owned).collect();
    assert!(lines.windows(2).all(|two| two[0] != two[1]), "{lines:?}");
}

#[test]
fn an_election_as_json_names_the_leader_and_its_token() {
    let shell = cluster();
    let candidate = ["--json", "primary", "10.0.0.7:8080"];
    let mut candidate = elect(&shell, "candidate", &candidate);
    let leads = candidate.await_line("\"state\":\"leader\"");
    assert!(leads.contains("\"proposal\":\"10.0.0.7:8080\""), "{leads}");
    let mut listener = elect(&shell, "listener", &["--listen", "primary", "--json"]);
    let heard = listener.await_line("\"state\":\"leader\"");
    let token = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["token"].as_str().unwrap().to_owned()
    };
    assert_eq!(token(&leads), token(&heard));
    let busy = shell.quorlock(&["elect", "primary", "-n"]);
    assert_eq!(busy.code, Some(75), "{}", busy.stderr);
    candidate.signal(Signal::TERM);
    assert!(candidate.await_end().success());
    listener.await_line("\"state\":\"vacant\"");
}
