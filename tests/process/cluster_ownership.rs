//! What a cluster's commands make of files that another user owns or may write, and of files that no cluster has made.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use crate::shell::Shell;

const NOBODY: u32 = 65534;

/// A stopped cluster of one node, recorded above the folder `work`.
fn stopped() -> Shell {
    let shell = Shell::new();
    let words = [
        "cluster",
        "up",
        "--detach",
        "--nodes",
        "1",
        "--base-port",
        "0",
    ];
    shell.succeed(&words);
    shell.succeed(&["cluster", "down"]);
    fs::create_dir(shell.file("work")).unwrap();
    shell
}

/// Runs a command in `work`, and expects it to be refused with these words.
fn refused(shell: &Shell, words: &[&str], parts: &[&str]) {
    let mut command = shell.command(words);
    let ended = command.current_dir(shell.file("work")).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{words:?}: {said}");
    assert!(
        parts.iter().all(|part| said.contains(part)),
        "{words:?}: {said}"
    );
}

fn refuse_all(shell: &Shell, parts: &[&str]) {
    for words in [
        &["run", "a", "--", "touch", "ran"][..],
        &["acquire", "a"],
        &["cluster", "status"],
        &["cluster", "logs"],
        &["cluster", "down"],
        &["cluster", "clean"],
    ] {
        refused(shell, words, parts);
    }
    assert!(!shell.file("work/ran").exists());
    assert!(shell.file(".quorlock/dev/cluster.json").is_file());
}

/// What a command acts by.
const OBEYED: [&str; 4] = [
    ".quorlock",
    ".quorlock/current",
    ".quorlock/dev",
    ".quorlock/dev/cluster.json",
];

#[test]
fn what_others_may_write_or_a_link_stands_for_is_not_obeyed() {
    for path in OBEYED {
        let shell = stopped();
        let sound = fs::metadata(shell.file(path)).unwrap().permissions();
        let mode = sound.mode() | 0o020;
        fs::set_permissions(shell.file(path), Permissions::from_mode(mode)).unwrap();
        refuse_all(
            &shell,
            &["may be written by other users", "chmod go-w", "--nodes"],
        );
        fs::set_permissions(shell.file(path), sound).unwrap();
        shell.succeed(&["cluster", "clean"]);
    }
    let shell = stopped();
    fs::rename(shell.file(".quorlock"), shell.file("elsewhere")).unwrap();
    symlink("elsewhere", shell.file(".quorlock")).unwrap();
    let mut words = vec!["cluster", "status"];
    refused(&shell, &words, &[".quorlock is a link"]);
    words = vec!["cluster", "up", "--nodes", "1"];
    let ended = shell.quorlock(&words);
    assert!(
        ended.stderr.contains(".quorlock is a link"),
        "{}",
        ended.stderr
    );
}

#[test]
#[ignore = "needs root"]
fn what_another_user_owns_is_not_obeyed() {
    let give_away = |path: &Path| chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    for path in OBEYED {
        let shell = stopped();
        give_away(&shell.file(path));
        refuse_all(
            &shell,
            &["belongs to another user (id 65534)", "ask as that user"],
        );
    }
    // A record of our own is not needed to mean a directory of theirs.
    let shell = stopped();
    fs::remove_file(shell.file(".quorlock/current")).unwrap();
    give_away(&shell.file(".quorlock"));
    for command in ["status", "clean", "up"] {
        let ended = shell.quorlock(&["cluster", command]);
        assert!(ended.stderr.contains("another user"), "{}", ended.stderr);
        let ended = shell.quorlock(&["cluster", command, "--dir", ".quorlock"]);
        assert!(ended.stderr.contains("another user"), "{}", ended.stderr);
    }
}

#[test]
fn clean_removes_what_a_cluster_has_made_and_says_what() {
    let shell = stopped();
    let home = shell.file(".quorlock/dev");
    // It speaks no TLS, so it has made no certificates.
    for name in ["notes", "ca.pem", "node.key", "node.pem.7"] {
        fs::write(home.join(name), "mine").unwrap();
    }
    fs::create_dir(home.join("node-7.bak")).unwrap();
    fs::write(home.join("node-1/notes"), "mine").unwrap();
    fs::write(shell.file("work/node.id"), "mine").unwrap();
    symlink(shell.file("work"), home.join("node-2")).unwrap();
    symlink(
        shell.file("work/node.id"),
        home.join("node-1/segment-0000000099.segment"),
    )
    .unwrap();
    let said = shell.succeed(&["cluster", "clean"]);
    for part in [
        "removed: cluster.json",
        "node-1/node.id",
        "node-1.log",
        "kept, for no cluster",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!home.join("cluster.json").exists() && !home.join("node-1/node.id").exists());
    for path in [
        "notes",
        "ca.pem",
        "node.key",
        "node.pem.7",
        "node-7.bak",
        "node-1/notes",
        "node-2/node.id",
    ] {
        assert!(home.join(path).exists(), "{path}");
        assert!(said.contains(path.trim_end_matches("/node.id")), "{said}");
    }
    assert_eq!(fs::read(shell.file("work/node.id")).unwrap(), b"mine");
}
