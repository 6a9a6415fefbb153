//! `quorlock cluster up --with-load`: callers that take locks while nodes fail, and a check that sees a second holder.

use quorlock_testkit::eventually;
use rustix::process::Signal;

use crate::shell::Shell;

fn up() -> Shell {
    let mut shell = Shell::new();
    shell.up(&["--base-port", "0", "--ephemeral", "--with-load", "10"]);
    shell
}

/// Ends the cluster; returns its exit code and all that it has printed.
fn end(shell: &mut Shell) -> (Option<i32>, String) {
    shell.supervisor().signal(Signal::INT);
    let code = shell.supervisor().await_end().code();
    (code, shell.up_output())
}

/// The last words about the load.
fn last_words(output: &str) -> &str {
    let line = output
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("The load: "));
    line.unwrap_or_else(|| panic!("{output}"))
}

#[test]
fn callers_take_locks_while_nodes_are_killed_and_no_lock_has_two_holders() {
    let mut shell = up();
    for node in ["2", "4"] {
        shell.succeed(&["cluster", "kill", node]);
        shell.succeed(&["cluster", "restart", node]);
    }
    // They go on while two nodes may be in their restart delay.
    shell.succeed(&["cluster", "pause", "5"]);
    shell.succeed(&["cluster", "resume", "5"]);
    let (code, output) = end(&mut shell);
    assert_eq!(code, Some(0), "{output}");
    let words = last_words(&output);
    let taken: u64 = words.split(' ').next().unwrap().parse().unwrap();
    assert!(
        taken > 0 && words.contains(" 0 with two holders"),
        "{output}"
    );
}

#[test]
fn a_lock_that_a_second_caller_gets_is_seen() {
    let mut shell = up();
    // The nodes take the locks for over, and their holders do not.
    eventually("two hold a lock", || {
        shell.succeed(&["cluster", "advance", "31s"]);
        shell.up_output().contains("TWO HOLDERS: caller ")
    });
    let (code, output) = end(&mut shell);
    assert_eq!(code, Some(1), "{output}");
    let words = last_words(&output);
    assert!(!words.contains(" 0 with two holders"), "{output}");
}
