//! Requests to a cluster whose supervisor ends at that moment, is stopped, or has its nodes inside itself.

use std::time::Duration;

use quorlock_testkit::observed_now;
use rustix::process::Signal;

use crate::shell::{Ended, Shell, await_end};

#[test]
fn a_cluster_that_is_stopped_twice_at_once_is_down_for_both() {
    for round in 0..6 {
        let mut shell = Shell::new();
        shell.up(&["--nodes", "3", "--base-port", "0", "--in-process"]);
        let mut first = shell.command(&["cluster", "down"]).spawn().unwrap();
        let second = shell.quorlock(&["cluster", "down"]);
        assert!(await_end(&mut first).success(), "{round}");
        let first = Ended::of(first.wait_with_output().unwrap());
        for ended in [&first, &second] {
            // Who comes when all is over is told so.
            let came_late = ended.stderr.contains("is not running");
            assert!(
                ended.code == Some(0) || came_late,
                "{round}: {}",
                ended.stderr
            );
            assert!(
                came_late || ended.stdout.contains("is down"),
                "{}",
                ended.stdout
            );
        }
        assert_eq!(shell.states(), ["down", "down", "down"]);
    }
}

#[test]
fn a_supervisor_that_is_stopped_is_named_and_not_waited_for() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0"]);
    let pid = shell.supervisor().id();
    shell.supervisor().signal(Signal::STOP);
    for request in ["status", "down"] {
        let began = observed_now();
        let ended = shell.quorlock(&["cluster", request]);
        let took = observed_now() - began;
        assert_eq!(ended.code, Some(1), "{request}");
        let is_named = ended.stderr.contains(&format!("kill -CONT {pid}"));
        assert!(is_named, "{request}: {}", ended.stderr);
        assert!(took < Duration::from_secs(5), "{request}: {took:?}");
    }
    shell.supervisor().signal(Signal::CONT);
    // It was asked for its end meanwhile.
    assert!(shell.supervisor().await_end().success());
}

#[test]
fn a_node_without_a_process_is_not_said_to_have_been_killed_with_a_signal() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0", "--in-process"]);
    let said = shell.succeed(&["cluster", "kill", "2"]);
    assert!(!said.contains("killed"), "{said}");
    assert!(said.contains("inside the supervisor"), "{said}");
    assert!(said.contains("cluster restart 2"), "{said}");
}
