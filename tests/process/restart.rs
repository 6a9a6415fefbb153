//! What the log of a real process says about a start, and directories that real tools copied,
//! restored and damaged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use quorlock_testkit::{Process, Wire};

use crate::log_bad_input::start_unprivileged;
use crate::shell::Shell;

fn start(shell: &Shell, directory: &str, words: &[&str]) -> Process {
    start_in(shell, directory, words, &[])
}

/// Starts a node, with `wrapper` in front of the command. The first word may be a configuration file.
fn start_in(shell: &Shell, directory: &str, words: &[&str], wrapper: &[&str]) -> Process {
    fs::create_dir_all(shell.file(directory)).unwrap();
    let is_file = words.first().is_some_and(|word| !word.starts_with("--"));
    let (configured, words) = words.split_at(usize::from(is_file));
    let mut plain = shell.command(&["server"]);
    plain.args(configured);
    plain.args(["--bind", "127.0.0.1", "--first-start", "serve"]);
    let mut command = match wrapper {
        [] => plain,
        [program, rest @ ..] => {
            let mut command = Command::new(program);
            command.args(rest).arg(plain.get_program());
            command.args(plain.get_args()).current_dir(shell.path());
            command
        }
    };
    command
        .args(["--dir", directory, "--port", "0"])
        .args(words);
    Process::start(&mut command, &shell.file(&format!("{directory}.out"))).unwrap()
}

fn ask(node: &mut Process, command: &str) -> String {
    Wire::connect(node.address()).ask(command)
}

/// A node that has run twice and was stopped in order, and a copy of it from between, in `backup`.
fn with_backup(shell: &Shell) {
    for (key, is_first) in [("a", true), ("b", false)] {
        let mut node = start(shell, "data", &["--appendfsync", "always"]);
        node.await_line("Ready to accept connections");
        let set = format!("SET {key} t NX PX 60000");
        assert_eq!(ask(&mut node, &set), "+OK");
        node.stop();
        if is_first {
            tool(shell, "cp", &["-a", "data", "backup"]);
        }
    }
}

fn tool(shell: &Shell, program: &str, words: &[&str]) {
    let done = Command::new(program)
        .args(words)
        .current_dir(shell.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{program} {words:?}: {done:?}");
}

/// Debian's redis.conf has it, and whoever takes that over has no log.
#[test]
fn a_node_without_a_log_says_at_every_start_what_a_crash_costs() {
    let shell = Shell::new();
    for (more, costs) in [
        (
            "restart-delay-max 10s",
            "After a crash the next start serves no locks for up to 10.2 s; keys without a TTL, or with one above \
             restart-delay-max, are gone and no delay covers them. appendonly yes keeps the locks",
        ),
        (
            "require-ttl yes",
            "serves no locks for up to 61.2 s. appendonly yes keeps the locks",
        ),
        (
            "restart-delay off",
            "The next start serves at once and grants again what may still be held",
        ),
    ] {
        fs::write(
            shell.file("redis.conf"),
            format!("appendonly no\nsave \"\"\n{more}\n"),
        )
        .unwrap();
        for _ in 0..2 {
            let mut node = start(&shell, "data", &["redis.conf"]);
            let line = node.await_line("runs with appendonly no");
            assert!(line.contains(" # node "), "a warning: {line}");
            assert!(line.contains("any stop forgets every lock"), "{line}");
            assert!(line.contains(costs), "{costs}\n{line}");
            node.await_line("Listening on");
            node.stop();
        }
    }
    let mut node = start(&shell, "logged", &[]);
    node.await_line("Ready to accept connections");
    let said = node.output();
    assert!(!said.contains("appendonly no"), "{said}");
    node.stop();
}

#[test]
fn a_start_says_in_one_line_what_it_found_and_later_that_it_serves() {
    let shell = Shell::new();
    let mut node = start(&shell, "data", &[]);
    let line = node.await_line("incarnation 1:");
    assert!(line.contains(" * node "), "no warning: {line}");
    assert!(
        line.ends_with("incarnation 1: new node; no restart delay"),
        "{line}"
    );
    node.await_line("serves locks (incarnation 1)");
    assert_eq!(ask(&mut node, "SET a t NX PX 300"), "+OK");
    node.kill();

    let mut node = start(&shell, "data", &["--appendfsync", "always"]);
    let line = node.await_line("incarnation 2:");
    for part in [
        " # node ",
        "last stop: unclean stop; it is in its restart delay of 316 ms and serves no locks for another 316 ms",
        "because of: unclean stop: appendfsync everysec acknowledges a write before it is on the disk. ",
        "a write-back that failed and a file system that was taken away lose the last writes and leave the same log",
        "serves at once. That is until about ",
        " UTC, if nobody sets this machine's clock. [stop unclean, clean no, cause unclean, weakest mode everysec, TTL bound 300 ms, \
         cap 60000 ms, restart-delay auto, trust-fsync no, same boot yes, same directory yes, log whole yes, ",
    ] {
        assert!(line.contains(part), "{part}\n{line}");
    }
    let line = node.await_line("serves locks again after ");
    let info = ask(&mut node, "INFO restart");
    let field = |line: &str| line.strip_prefix("restart_waited_ms:")?.parse().ok();
    let waited: u64 = info.lines().find_map(field).unwrap();
    assert!((316..5_000).contains(&waited), "{line}");
    assert!(line.contains("(incarnation 2, restart delay because of: unclean stop)"));
    node.stop();

    let mut node = start(&shell, "data", &["--metrics-port", "0"]);
    let line = node.await_line("incarnation 3:");
    assert!(line.contains(" * node "), "no warning: {line}");
    assert!(line.contains("last stop: clean stop; no restart delay. [stop clean, clean yes,"));
    let line = node.await_line("metrics at http://127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).unwrap();
    let port: u16 = port.split('/').next().unwrap().parse().unwrap();
    let mut client = Wire::connect(("127.0.0.1", port));
    node.await_line("Ready to accept");
    client.send(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = String::from_utf8(client.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    node.stop();
}

#[test]
fn what_real_tools_put_back_is_noticed() {
    assert_noticed(&[
        &[&["rm", "-r", "data"], &["cp", "-a", "backup", "data"]],
        &[&["rm", "-r", "data"], &["mv", "backup", "data"]],
        &[
            &["tar", "-C", "backup", "-cf", "backup.tar", "."],
            &["find", "data", "-mindepth", "1", "-delete"],
            &["tar", "-C", "data", "-xf", "backup.tar"],
        ],
    ]);
}

#[test]
#[ignore = "needs rsync"]
fn what_rsync_puts_back_is_noticed() {
    assert_noticed(&[
        &[&["rsync", "-a", "--delete", "backup/", "data/"]],
        &[&["rsync", "-a", "--delete", "--inplace", "backup/", "data/"]],
    ]);
}

/// The steps of each tool put the backup in the place of the data directory.
fn assert_noticed(tools: &[&[&[&str]]]) {
    for steps in tools {
        let shell = Shell::new();
        with_backup(&shell);
        for step in *steps {
            tool(&shell, step[0], &step[1..]);
        }
        let mut node = start(&shell, "data", &[]);
        let line = node.await_line("incarnation 2:");
        for part in ["[stop moved,", "for another 61.", "same directory no"] {
            assert!(line.contains(part), "{steps:?}: {part}\n{line}");
        }
        assert!(
            ask(&mut node, "GET a").starts_with("-RESTARTDELAY"),
            "{steps:?}"
        );
    }
}

#[test]
#[ignore = "needs root and its own mounts"]
fn another_machine_id_is_another_machine() {
    let shell = Shell::new();
    with_backup(&shell);
    fs::write(
        shell.file("machine-id"),
        "0123456789abcdef0123456789abcdef\n",
    )
    .unwrap();
    let bind = "mount --bind machine-id /etc/machine-id && exec \"$@\"";
    let inside = ["unshare", "--mount", "sh", "-c", bind, "sh"];
    tool(&shell, inside[0], &[&inside[1..], &["true"]].concat());
    let mut node = start_in(&shell, "data", &[], &inside);
    let line = node.await_line("incarnation 3:");
    assert!(line.contains("[stop moved,"), "{line}");
    node.stop();
}

#[test]
fn a_node_id_that_cannot_be_used_stops_the_start_with_a_remedy() {
    let shell = Shell::new();
    with_backup(&shell);
    let file = shell.file("data/node.id");
    let assert_refusal = |what: &str, output: &str| {
        assert!(
            output.contains("node.id cannot be used"),
            "{what}: {output}"
        );
        assert!(
            output.contains("Restore this one file; or remove it"),
            "{what}: {output}"
        );
    };
    let refuses = |what: &str| {
        let mut node = start(&shell, "data", &[]);
        assert_eq!(node.await_end().code(), Some(1), "{what}");
        assert_refusal(what, &node.output());
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let mut node = start_unprivileged(&shell, 0o700, &[]);
    assert_eq!(node.await_end().code(), Some(1), "unreadable");
    assert_refusal("unreadable", &node.output());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&file, shell.file("kept")).unwrap();
    fs::create_dir(&file).unwrap();
    refuses("a directory");
    fs::remove_dir(&file).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RWXU).unwrap();
    refuses("a pipe, which would block for ever");
    fs::remove_file(&file).unwrap();
    fs::rename(shell.file("kept"), &file).unwrap();
    let mut node = start(&shell, "data", &[]);
    let line = node.await_line("incarnation 3:");
    assert!(
        line.contains("[stop clean,"),
        "the same file, at home again: {line}"
    );
    node.stop();
}
