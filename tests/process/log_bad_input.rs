//! Data directories that somebody else has been at, before a start and while the node runs: a clear error that
//! names the file, a safe state, and nothing silently dropped.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use quorlock_testkit::{Connection, Process, binary, eventually};
use serde_json::Value;

use crate::log::Logged;
use crate::shell::Shell;

#[test]
fn garbage_behind_the_end_is_a_break_and_takes_no_lock_away() {
    let mut logged = Logged::stopped();
    let end = logged.frames(1).last().unwrap().1;
    logged.edit(1, |bytes| bytes[end + 64..end + 128].fill(0x5a));
    let value = logged.check();
    assert_state(&value, "broken", 1);
    assert_eq!(value["finding"]["offset"].as_u64(), Some(end as u64));
    logged.node.start_again();
    let reply = logged.node.ask(&["GET", "lock:3"]).unwrap();
    assert!(reply.starts_with("-RESTARTDELAY"), "{reply}");
    let log = logged.node.log();
    assert!(
        log.contains("segment-0000000001.segment at offset"),
        "{log}"
    );
    logged.node.stop();
    let dump = logged.log("dump", &[]).stdout;
    assert!(dump.contains("lock:3"), "{dump}");
}

#[test]
fn garbage_in_the_segment_made_ahead_is_a_break() {
    let logged = Logged::stopped_with_segment_ahead();
    logged.edit(2, |bytes| bytes[1_000_000] = 1);
    let value = logged.check();
    assert_eq!(value["finding"]["kind"], "break", "{value}");
    let file = value["finding"]["file"].as_str().unwrap();
    assert!(file.ends_with("segment-0000000002.segment"), "{file}");
}

/// What has the name of a file and not its content.
const IMPOSTORS: [fn(&Path); 5] = [
    |path| fs::create_dir(path).unwrap(),
    |path| symlink("/dev/zero", path).unwrap(),
    |path| fs::write(path, "").unwrap(),
    |path| fs::write(path, vec![0x5a; 100_000]).unwrap(),
    |path| fs::write(path, vec![0xff; 100_000]).unwrap(),
];

fn assert_state(value: &Value, state: &str, exit_code: u64) {
    let found = (&value["state"], &value["exit_code"]);
    assert_eq!(found, (&state.into(), &exit_code.into()), "{value}");
}

#[test]
fn what_only_has_the_name_of_a_segment_is_refused_by_name() {
    for make in IMPOSTORS {
        let logged = Logged::stopped();
        let path = logged.segment(7);
        make(&path);
        let value = logged.check();
        assert_state(&value, "refused", 2);
        assert_eq!(value["finding"]["kind"], "damaged", "{value}");
        let said = logged.refused_start();
        assert!(said.contains("segment-0000000007.segment"), "{said}");
        assert!(path.symlink_metadata().is_ok(), "it was left alone");
    }
}

#[test]
fn a_node_id_that_is_none_is_refused_by_name() {
    for make in IMPOSTORS {
        let logged = Logged::stopped();
        let path = logged.directory.join("node.id");
        fs::remove_file(&path).unwrap();
        make(&path);
        let value = logged.check();
        assert_state(&value, "refused", 2);
        let file = value["finding"]["file"].as_str().unwrap();
        assert!(file.ends_with("node.id"), "{value}");
        let said = logged.refused_start();
        assert!(said.contains("node.id"), "{said}");
    }
}

#[test]
fn files_of_others_are_named_and_left_alone() {
    let mut logged = Logged::stopped();
    fs::write(logged.directory.join("notes\x1b.txt"), "mine").unwrap();
    let value = logged.check();
    assert_eq!(value["state"], "whole", "{value}");
    let remarks = value["remarks"].to_string();
    assert!(
        remarks.contains("notes") && !remarks.contains("node.id"),
        "{remarks}"
    );
    logged.node.start_again();
    logged.node.stop();
    let log = logged.node.log();
    assert!(log.contains("is no file of the log"), "{log}");
    assert_eq!(
        fs::read(logged.directory.join("notes\x1b.txt")).unwrap(),
        b"mine"
    );
}

/// The log's files have no name any more: whatever is synced ends with the process.
#[test]
fn a_directory_removed_under_a_node_ends_it_with_the_next_grant() {
    let shell = Shell::new();
    fs::create_dir(shell.file("data")).unwrap();
    let mut command = shell.command(&["server", "--dir", "data", "--appendfsync", "always"]);
    command.args(["--port", "0", "--bind", "127.0.0.1"]);
    command.args(["--first-start", "serve"]);
    let mut node = Process::start(&mut command, &shell.file("out")).unwrap();
    let address = node.address();
    let ask = |words: &[&str]| ask(address, words);
    assert_eq!(ask(&["SET", "before", "t", "PX", "30000"]).unwrap(), "+OK");
    fs::remove_dir_all(shell.file("data")).unwrap();
    let reply = ask(&["SET", "after", "t", "PX", "30000"]);
    let is_granted = reply.as_ref().is_ok_and(|reply| reply == "+OK");
    assert!(!is_granted, "a lock was granted that nothing remembers");
    let said = "was removed or renamed while the node was using it";
    assert_fails(&mut node, &[said]);
}

/// The node ends, and says all of this.
fn assert_fails(node: &mut Process, says: &[&str]) {
    assert_eq!(node.await_end().code(), Some(1), "{}", node.output());
    let said = node.output();
    for text in says {
        assert!(said.contains(text), "{text}: {said}");
    }
}

/// The reply to a command on a connection of its own, if there is one.
fn ask(address: SocketAddr, words: &[&str]) -> io::Result<String> {
    Ok(Connection::open(address)?.ask(words)?.to_string())
}

/// Runs a node without the power to ignore permissions, on a directory with these.
pub(crate) fn start_unprivileged(shell: &Shell, mode: u32, words: &[&str]) -> Process {
    let server: &[&str] = &["server", "--port", "0", "--dir", "data"];
    let words = [server, &["--first-start", "serve"], words].concat();
    run_unprivileged(shell, mode, &words)
}

/// The same with any command that uses the directory `data`.
pub(crate) fn run_unprivileged(shell: &Shell, mode: u32, words: &[&str]) -> Process {
    let program = shell.file("quorlock");
    fs::copy(binary::quorlock(), &program).unwrap();
    let mut command = std::process::Command::new(program);
    command.args(words).current_dir(shell.path());
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(shell.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for entry in fs::read_dir(shell.file("data")).unwrap() {
            chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        chown(shell.file("data"), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    fs::set_permissions(shell.file("data"), fs::Permissions::from_mode(mode)).unwrap();
    // A child that another test has just forked may hold the copy open for writing until it runs
    // its own program.
    loop {
        match Process::start(&mut command, &shell.file("out")) {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::yield_now();
            }
            started => return started.unwrap(),
        }
    }
}

#[test]
fn a_directory_that_may_not_be_written_is_refused_by_name() {
    for mode in [0o500, 0o000] {
        let shell = Shell::new();
        fs::create_dir(shell.file("data")).unwrap();
        let mut node = start_unprivileged(&shell, mode, &[]);
        let said = [
            "the data directory data cannot be used",
            "must exist and be writable",
        ];
        assert_fails(&mut node, &said);
        fs::set_permissions(shell.file("data"), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(fs::read_dir(shell.file("data")).unwrap().next().is_none());
    }
}

#[test]
fn a_segment_that_may_not_be_read_is_refused_by_name() {
    let shell = Shell::new();
    shell.succeed(&["node", "init", "data"]);
    let segment = shell.file("data/segment-0000000001.segment");
    fs::set_permissions(&segment, fs::Permissions::from_mode(0o000)).unwrap();
    let mut node = start_unprivileged(&shell, 0o700, &[]);
    let said = [
        "segment-0000000001.segment: Permission denied",
        "permissions",
    ];
    assert_fails(&mut node, &said);
}

const NOBODY: u32 = 65_534;

/// What is open stays usable, so the node goes on until it needs another segment, and then ends.
#[test]
fn a_directory_that_is_closed_under_a_node_ends_it_at_the_next_segment() {
    let shell = Shell::new();
    fs::create_dir(shell.file("data")).unwrap();
    let mut node = start_unprivileged(&shell, 0o700, &["--bind", "127.0.0.1"]);
    let address = node.address();
    let ask = |words: &[&str]| ask(address, words);
    fs::set_permissions(shell.file("data"), fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(ask(&["SET", "before", "t", "PX", "30000"]).unwrap(), "+OK");
    let value = "v".repeat(20_000);
    let mut asked = 0;
    eventually("the node ends", || {
        let _granted_or_not = ask(&["SET", "lock", &value, "PX", "30000"]);
        asked += 1;
        node.status().is_some()
    });
    assert!(asked > 10, "it goes on for as long as it can");
    let said = ["segment-0000000002.new: Permission denied", "permissions"];
    assert_fails(&mut node, &said);
    fs::set_permissions(shell.file("data"), fs::Permissions::from_mode(0o700)).unwrap();
    // What it had granted is on record.
    let dump = shell.succeed(&["log", "dump", "data"]);
    assert!(dump.contains("\"before\""), "{dump}");
}
