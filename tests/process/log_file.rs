//! The file of the directive `logfile`: moved away, by logrotate as well, and one that cannot be written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use quorlock_testkit::{Process, Wire, becomes_so, eventually};
use rustix::process::Signal;
use serde_json::Value;

use crate::shell::Shell;

/// Starts a node in `data` that logs to this file.
fn start(shell: &Shell, log: &str) -> Process {
    fs::create_dir_all(shell.file("data")).unwrap();
    let mut command = shell.command(&["server", "--dir", "data", "--port", "0"]);
    command.args(["--first-start", "serve", "--logfile", log]);
    Process::start(&mut command, &shell.file("out")).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Renaming it stopped rotation for ever: all went on into the file that was moved away.
#[test]
fn a_log_file_that_was_moved_away_is_made_anew() {
    let shell = Shell::new();
    let mut node = start(&shell, "node.log");
    let (log, moved) = (shell.file("data/node.log"), shell.file("data/node.log.1"));
    let says = |path: &Path, text: &str| {
        fs::read_to_string(path).is_ok_and(|lines| lines.lines().any(|line| line.contains(text)))
    };
    eventually("it is ready", || says(&log, "Ready to accept connections"));
    fs::rename(&log, &moved).unwrap();
    node.signal(Signal::HUP);
    eventually("SIGHUP makes it anew", || says(&log, "Received SIGHUP"));
    // As logrotate does without a signal: the next line makes it. What a compressing logrotate removed is no matter.
    fs::remove_file(&log).unwrap();
    node.signal(Signal::TERM);
    assert_eq!(node.await_end().code(), Some(0));
    assert!(says(&log, "Received SIGTERM") && says(&log, "bye bye"));
    assert!(says(&moved, "Ready to accept connections") && !says(&moved, "Received"));
    assert_eq!(node.output(), "");
}

#[test]
fn messages_go_to_the_output_while_the_log_file_cannot_be_made() {
    let shell = Shell::new();
    let (folder, aside) = (shell.file("logs"), shell.file("aside"));
    fs::create_dir(&folder).unwrap();
    let log = folder.join("node.log");
    let mut node = start(&shell, log.to_str().unwrap());
    let lines = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    eventually("it is ready", || lines(&log).contains("Ready to accept"));
    fs::rename(&folder, &aside).unwrap();
    for hangup in 1..=2 {
        node.signal(Signal::HUP);
        eventually("the output has it", || {
            node.output().matches("Received SIGHUP").count() == hangup
        });
    }
    let said = format!("cannot write the log file {}: No such file", log.display());
    assert_eq!(node.output().matches(&said).count(), 1, "{}", node.output());
    fs::create_dir(&folder).unwrap();
    node.signal(Signal::TERM);
    assert_eq!(node.await_end().code(), Some(0));
    assert!(lines(&log).contains("Received SIGTERM"));
    assert!(!lines(&aside.join("node.log")).contains("Received"));
}

/// It was made with the next line, which a node that is left alone has none of for hours.
#[test]
fn a_node_that_has_nothing_to_say_makes_its_log_file_anew_as_well() {
    let shell = Shell::new();
    let mut node = start(&shell, "node.log");
    let log = shell.file("data/node.log");
    eventually("it is ready", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("Ready to accept"))
    });
    assert_eq!(mode(&log), 0o600, "it says who asks for locks");
    for wanted in [0o600, 0o640] {
        fs::set_permissions(&log, fs::Permissions::from_mode(wanted)).unwrap();
        fs::rename(&log, shell.file("moved")).unwrap();
        assert!(becomes_so(Duration::from_secs(2), || log.exists()));
        eventually("it has the mode of the last one", || mode(&log) == wanted);
        assert_eq!(fs::read_to_string(&log).unwrap(), "");
    }
    node.stop();
}

#[test]
#[ignore = "needs logrotate"]
fn the_logrotate_file_of_the_package_rotates_the_log_of_a_node_that_runs() {
    let shell = Shell::new();
    let (log, rotated) = (
        shell.file("data/node.log"),
        shell.file("data/node.log.1.gz"),
    );
    let mut node = start(&shell, "node.log");
    eventually("it is ready", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("Ready to accept"))
    });
    let packaged = include_str!("../../packaging/debian/logrotate");
    let own = packaged.replace("/var/log/quorlock", shell.file("data").to_str().unwrap());
    assert_ne!(own, packaged);
    let rules = shell.file("rules");
    fs::write(&rules, own).unwrap();
    fs::set_permissions(&rules, fs::Permissions::from_mode(0o644)).unwrap();
    let mut logrotate = Command::new("/usr/sbin/logrotate");
    logrotate
        .arg("--force")
        .arg("--state")
        .arg(shell.file("state"));
    let done = logrotate.arg(&rules).output();
    let done = done.expect("the package logrotate is installed");
    assert!(done.status.success(), "{done:?}");
    assert!(rotated.exists(), "{done:?}");
    assert!(becomes_so(Duration::from_secs(2), || log.exists()));
    node.signal(Signal::TERM);
    assert_eq!(node.await_end().code(), Some(0));
    assert!(
        fs::read_to_string(&log)
            .unwrap()
            .contains("Received SIGTERM")
    );
    let first = Command::new("gzip")
        .arg("-dc")
        .arg(&rotated)
        .output()
        .unwrap();
    let first = String::from_utf8(first.stdout).unwrap();
    assert!(first.contains("Ready to accept") && !first.contains("Received"));
    assert_eq!(node.output(), "");
}

#[test]
fn a_log_file_without_room_loses_no_lock_and_is_told_of_once() {
    let shell = Shell::new();
    let mut node = start(&shell, "/dev/full");
    assert_eq!(
        Wire::connect(node.address()).ask("SET a t NX PX 60000"),
        "+OK"
    );
    node.stop();
    let said = node.output();
    let trouble = "cannot write the log file /dev/full: No space left on device";
    assert_eq!(said.matches(trouble).count(), 1, "{said}");
    assert!(
        said.contains("Ready to accept") && said.contains("bye bye"),
        "{said}"
    );
    let mut node = start(&shell, "node.log");
    let log = shell.file("data/node.log");
    let mut address = None;
    eventually("it listens", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let line = text.split("Listening on ").nth(1);
        address = line.and_then(|rest| rest.lines().next().map(str::to_owned));
        address.is_some()
    });
    let held = Wire::connect(address.unwrap()).ask("GET a");
    assert_eq!(held, "t", "{said}");
    node.stop();
}

#[test]
fn a_log_of_json_is_an_object_in_each_line() {
    let shell = Shell::new();
    fs::create_dir(shell.file("data")).unwrap();
    let mut command = shell.command(&["server", "--dir", "data", "--port", "0"]);
    command.args([
        "--first-start",
        "serve",
        "--log-format",
        "json",
        "--hz",
        "7",
    ]);
    let mut node = Process::start(&mut command, &shell.file("out")).unwrap();
    node.await_line("Ready to accept connections tcp");
    node.stop();
    let said = node.output();
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let level = |begin: &str| {
        let says = |line: &&Value| line["message"].as_str().unwrap().starts_with(begin);
        let line = lines.iter().find(says);
        line.unwrap_or_else(|| panic!("{begin}: {said}"))["level"].clone()
    };
    assert_eq!(level("hz: accepted, without effect"), "warning");
    assert_eq!(level("Ready to accept connections tcp"), "notice");
    for line in &lines {
        assert_eq!(line["pid"], node.id(), "{line}");
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
    }
}
