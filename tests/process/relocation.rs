//! A node is moved: `quorlock node release`, real tools that copy, `quorlock node adopt`, and a start on the copy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use quorlock_testkit::{Process, Wire};

use crate::log_bad_input::run_unprivileged;
use crate::shell::{Ended, Shell};

fn start(shell: &Shell, directory: &str) -> Process {
    let mut command = shell.command(&["server", "--bind", "127.0.0.1", "--port", "0"]);
    command.args(["--first-start", "serve", "--dir", directory]);
    Process::start(&mut command, &shell.file(&format!("{directory}.out"))).unwrap()
}

/// A node that holds a lock of a minute and was stopped in order, in `data`.
fn stopped(shell: &Shell) {
    fs::create_dir(shell.file("data")).unwrap();
    let mut node = start(shell, "data");
    node.await_line("Ready to accept connections");
    let reply = Wire::connect(node.address()).ask("SET job t NX PX 60000");
    assert_eq!(reply, "+OK");
    node.stop();
}

/// Releases `data` and gives the receipt.
fn released(shell: &Shell) -> String {
    let value = shell
        .quorlock(&["node", "release", "data", "--json"])
        .json();
    value["receipt"].as_str().unwrap().to_owned()
}

fn copy(shell: &Shell, from: &str, to: &str) {
    let done = Command::new("cp")
        .args(["-a", from, to])
        .current_dir(shell.path())
        .status()
        .unwrap();
    assert!(done.success());
}

fn refused(ended: &Ended, part: &str) {
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
}

/// What a start in this directory says of the past, and the time left of the lock.
fn starts(shell: &Shell, directory: &str) -> (String, String) {
    let mut node = start(shell, directory);
    let line = node.await_line("last stop: ");
    let left = Wire::connect(node.address()).ask("PTTL job");
    node.stop();
    (line, left)
}

/// What a start that is refused says.
fn refuses(shell: &Shell, directory: &str) -> String {
    let mut node = start(shell, directory);
    assert_eq!(node.await_end().code(), Some(1), "{}", node.output());
    node.output()
}

#[test]
fn a_released_directory_serves_at_once_where_it_is_adopted_and_nowhere_else() {
    let shell = Shell::new();
    stopped(&shell);
    copy(&shell, "data", "before");
    let text = shell.succeed(&["node", "release", "data"]);
    assert!(text.contains("Use the receipt once"), "{text}");
    let receipt = text.split("--receipt ").nth(1).unwrap();
    let receipt = receipt.split_whitespace().next().unwrap();
    copy(&shell, "data", "new");

    for place in ["data", "new"] {
        let said = refuses(&shell, place);
        for part in [
            "was released to be moved",
            "quorlock node adopt DIR --receipt RECEIPT",
            "--wait",
        ] {
            assert!(said.contains(part), "{place}: {part}\n{said}");
        }
    }
    let adopt =
        |directory: &str| shell.quorlock(&["node", "adopt", directory, "--receipt", receipt]);
    refused(&adopt("before"), "is not released");
    let adopted = adopt("new");
    assert_eq!(adopted.code, Some(0), "{}", adopted.stderr);
    refused(&adopt("new"), "is not released");

    let (line, left) = starts(&shell, "new");
    for part in ["[stop clean,", "no restart delay", "same directory yes"] {
        assert!(line.contains(part), "{part}\n{line}");
    }
    let left: u64 = left.strip_prefix(':').unwrap().parse().unwrap();
    assert!((50_000..=60_000).contains(&left), "{left}");
    // A copy from before the release is one as any other.
    let (line, left) = starts(&shell, "before");
    assert!(line.contains("[stop moved,"), "{line}");
    assert!(left.starts_with("-RESTARTDELAY"), "{left}");
    assert!(refuses(&shell, "data").contains("was released"));
}

#[test]
fn what_may_not_be_released_or_adopted_is_left_as_it_was_and_says_what_to_do() {
    let shell = Shell::new();
    refused(
        &shell.quorlock(&["node", "release", "data"]),
        "does not exist",
    );
    for words in [&["release", "data"][..], &["adopt", "data", "--wait"]] {
        let ended = shell.quorlock(&[&["node"][..], words, &["--json"]].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        let error = &ended.json()["error"];
        let said = error["message"].as_str().unwrap();
        assert!(
            error["exit_code"] == 1 && said.contains("does not exist"),
            "{error}"
        );
    }
    shell.succeed(&["node", "init", "data"]);
    let release = || shell.quorlock(&["node", "release", "data"]);
    refused(&release(), "has never run");
    let mut node = start(&shell, "data");
    node.await_line("Ready to accept connections");
    refused(&release(), "in use");
    let reply = Wire::connect(node.address()).ask("SET job t NX PX 60000");
    assert_eq!(reply, "+OK");
    node.kill();
    refused(
        &release(),
        "its last stop does not count as a clean one: unclean stop",
    );

    fs::remove_dir_all(shell.file("data")).unwrap();
    stopped(&shell);
    let wrong = "00112233445566778899aabbccddeeff";
    let adopt = |receipt: &str| shell.quorlock(&["node", "adopt", "data", "--receipt", receipt]);
    refused(&adopt(wrong), "is not released");
    refused(
        &shell.quorlock(&["node", "adopt", "data", "--wait"]),
        "is not released",
    );
    let receipt = released(&shell);
    refused(&release(), "was released already");
    refused(&adopt(wrong), "this receipt is not that of the release");
    refused(
        &shell.quorlock(&["node", "restored", "data"]),
        "was released to be moved",
    );
    let checked = shell.quorlock(&["log", "check", "data", "--json"]).json();
    assert_eq!(checked["finding"]["kind"], "released", "{checked}");
    // Back in the place where it was.
    assert_eq!(adopt(&receipt).code, Some(0));
    assert!(starts(&shell, "data").0.contains("[stop clean,"));
}

#[test]
fn without_its_receipt_a_released_directory_costs_the_delay() {
    let shell = Shell::new();
    stopped(&shell);
    let _lost = released(&shell);
    let adopted = shell
        .quorlock(&["node", "adopt", "data", "--wait", "--json"])
        .json();
    assert_eq!(adopted["waits"], true, "{adopted}");
    let (line, left) = starts(&shell, "data");
    for part in ["[stop moved,", "for another 61."] {
        assert!(line.contains(part), "{part}\n{line}");
    }
    assert!(left.starts_with("-RESTARTDELAY"), "{left}");
}

/// The operator went back to the old machine, or a snapshot was put back. The receipt opens it again, and nothing in the
/// files can tell: the book says so, and this keeps it honest.
#[test]
fn two_copies_that_are_adopted_with_one_receipt_differ_in_their_incarnations_alone() {
    let shell = Shell::new();
    stopped(&shell);
    let receipt = released(&shell);
    copy(&shell, "data", "new");
    let mut runs = Vec::new();
    for place in ["data", "new"] {
        shell.succeed(&["node", "adopt", place, "--receipt", &receipt]);
        let (line, _) = starts(&shell, place);
        assert!(line.contains("[stop clean,"), "{line}");
        let run = line.split("incarnation ").nth(1).unwrap();
        runs.push(run.split(':').next().unwrap().to_owned());
    }
    assert_ne!(runs[0], runs[1], "clients take them for two runs");
}

#[test]
fn a_directory_that_may_not_be_written_is_neither_released_nor_adopted() {
    let shell = Shell::new();
    stopped(&shell);
    let mut release = run_unprivileged(&shell, 0o500, &["node", "release", "data"]);
    assert_eq!(release.await_end().code(), Some(1));
    let said = release.output();
    assert!(said.contains("cannot be written"), "{said}");
    assert!(said.contains("Permission denied"), "{said}");
    fs::set_permissions(shell.file("data"), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(starts(&shell, "data").0.contains("[stop clean,"));
}
