//! The directory that a node starts in for the first time, as far as it knows: new, emptied, or not there.

use std::fs;
use std::net::TcpListener;

use quorlock_testkit::{Process, Wire, eventually};

use crate::shell::Shell;

/// Starts a node on loopback with these words.
fn start(shell: &Shell, words: &[&str]) -> Process {
    let mut command = shell.command(&["server", "--port", "0"]);
    Process::start(command.args(words), &shell.file("out")).unwrap()
}

fn set(node: &mut Process, token: &str) -> String {
    let set = ["SET", "a", token, "NX", "PX", "30000"];
    Wire::connect(node.address()).ask_words(&set)
}

/// On loopback it served, and a node behind a sidecar or a tunnel is on loopback.
#[test]
fn an_emptied_directory_grants_no_lock_that_may_be_held() {
    for words in [&[][..], &["--cluster-size", "5"]] {
        let shell = Shell::new();
        shell.succeed(&["node", "init", "data"]);
        let words = [&["--dir", "data"], words].concat();
        let mut node = start(&shell, &words);
        assert_eq!(set(&mut node, "first"), "+OK");
        drop(node);
        for entry in fs::read_dir(shell.file("data")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let mut node = start(&shell, &words);
        let refused = set(&mut node, "second");
        assert!(refused.starts_with("-RESTARTDELAY "), "{refused}");
        for part in ["quorlock node init DIR", "first-start serve"] {
            assert!(refused.contains(part), "{refused}");
        }
        let said = node.output();
        let why = "first-start auto waits, because dir is configured";
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_first_try_and_a_test_suite_serve_at_once() {
    for words in [
        &[][..],
        &["--bind", "127.0.0.1"],
        &["--save", "", "--appendonly", "no", "--loglevel", "debug"],
    ] {
        let shell = Shell::new();
        let mut node = start(&shell, words);
        assert_eq!(set(&mut node, "first"), "+OK", "{words:?}");
    }
}

/// It was made: where a volume was not mounted, its node started beside its log.
#[test]
fn a_directory_that_does_not_exist_is_refused_and_not_made() {
    // A node whose directory passes ends as well.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for more in [&[][..], &["--logfile", "node.log", "--pidfile", "node.pid"]] {
        let shell = Shell::new();
        let words = [&["server", "--port", &port, "--dir", "volume/data"], more].concat();
        let ended = shell.quorlock(&words);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        for part in [
            "the data directory volume/data (directive dir) does not exist",
            "mount that",
            "quorlock node init volume/data",
        ] {
            assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
        }
        assert!(!shell.file("volume").exists(), "{more:?}");
        // The remedy works.
        shell.succeed(&["node", "init", "volume/data"]);
        let mut node = start(&shell, &["--dir", "volume/data"]);
        assert_eq!(set(&mut node, "first"), "+OK");
    }
}

#[test]
fn other_paths_are_made_no_directories_for_either() {
    let shell = Shell::new();
    fs::write(shell.file("file"), "").unwrap();
    for (directive, code, said) in [
        ("logfile gone/it", 1, "cannot write the log file ./gone/it"),
        ("unixsocket gone/it", 1, "on the Unix socket ./gone/it"),
        ("include gone/it", 64, "gone/it"),
        (
            "dir file",
            1,
            "cannot use file as data directory: not a directory",
        ),
        (
            "dir file/data",
            1,
            "cannot use file/data as data directory: Not a directory",
        ),
    ] {
        fs::write(shell.file("node.conf"), format!("port 0\n{directive}\n")).unwrap();
        let mut command = shell.command(&["server", "node.conf"]);
        let mut refused = Process::start(&mut command, &shell.file("out")).unwrap();
        assert_eq!(refused.await_end().code(), Some(code), "{directive}");
        let errors = refused.output();
        assert!(errors.contains(said), "{directive}: {errors}");
        assert!(!shell.file("gone").exists(), "{directive}");
    }
    // As Redis does: a node runs without the file that only tells of it.
    let node = start(&shell, &["--pidfile", "gone/it"]);
    eventually("it says so", || {
        let said = node.output();
        said.contains("Failed to write PID file ./gone/it")
    });
}
