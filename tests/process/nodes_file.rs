//! A wrong `nodes.conf`: every command that reads it says what is wrong, and does nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use crate::shell::Shell;

/// Each command that finds its nodes in the file.
const COMMANDS: [&[&str]; 12] = [
    &["doctor"],
    &["status"],
    &["locks"],
    &["members"],
    &["agent", "--port", "0"],
    &["acquire", "job"],
    &["extend", "job", "t"],
    &["release", "job", "t"],
    &["who", "job"],
    &["wait", "job"],
    &["force-release", "job", "--token", "t"],
    &["node", "sync"],
];

#[test]
fn each_command_names_the_file_and_the_line_that_is_wrong_or_who_may_read_its_password() {
    let shell = Shell::new();
    for (text, mode, what, remedy) in [
        (
            "node 127.0.0.1:1\nprot 7\n",
            0o600,
            "nodes.conf, line 2: 'prot' is no directive",
            "the directives are: node,",
        ),
        (
            "node redis://:secret@127.0.0.1:1\n",
            0o644,
            "nodes.conf holds a password that every user of this machine can read",
            "chmod o-r nodes.conf",
        ),
        (
            "node 127.0.0.1:1\n",
            0o666,
            "every user of this machine can write nodes.conf",
            "chmod o-w nodes.conf",
        ),
    ] {
        fs::write(shell.file("nodes.conf"), text).unwrap();
        fs::set_permissions(shell.file("nodes.conf"), Permissions::from_mode(mode)).unwrap();
        for words in COMMANDS {
            let ended = shell.quorlock(&[words, &["--nodes-file", "nodes.conf"]].concat());
            let said = &ended.stderr;
            assert_eq!(ended.code, Some(64), "{words:?}: {said}");
            assert!(
                said.contains(what) && said.contains(remedy),
                "{words:?}: {said}"
            );
            assert!(!said.contains("secret"), "{words:?}: {said}");
        }
    }
}
