//! Users of `quorlock agent`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::agent::agent_at;
use crate::run::cluster;
use crate::shell::{Ended, Shell};

/// A file that only its owner reads, and its path.
fn private(shell: &Shell, name: &str, text: &str) -> String {
    let path = shell.file(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_check_logs_in_as_a_user_and_says_what_is_wrong_with_the_login() {
    let shell = cluster();
    let users = "user default off\nuser bob on >secret ~* &* +@all\nuser ann on >secret ~jobs:* +set +get\n";
    let users = private(&shell, "users.acl", users);
    let (_agent, address) = agent_at(&shell, &["--", "--aclfile", &users], "agent.log");
    let port = address.rsplit(':').next().unwrap();
    let secret = private(&shell, "secret", "secret\n");
    let other = private(&shell, "other", "other\n");
    let nodes = "node 127.0.0.1:1\nagent-user bob\nagent-password-file secret\n";
    let nodes = private(&shell, "agents.conf", nodes);
    let check = |words: &[&str], variable: &str| {
        let mut command = shell.command(&[&["agent", "--check"], words].concat());
        Ended::of(command.env("QUORLOCK_AGENT", variable).output().unwrap())
    };
    let by_flags = |user, file: &str| {
        let words = ["--port", port, "--user", user, "--password-file", file];
        check(&words, "")
    };
    let of_variable = format!("redis://bob:secret@{address}");
    for (checked, login) in [
        (by_flags("bob", &secret), "the user 'bob' of --password-file"),
        (check(&[], &of_variable), "the user of QUORLOCK_AGENT"),
        (
            check(&["--port", port, "--nodes-file", &nodes], ""),
            "the user 'bob' of /",
        ),
    ] {
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
        let first = format!("lets {login}");
        assert!(checked.stdout.starts_with(&first), "{}", checked.stdout);
        assert!(!checked.stdout.contains("secret@"), "{}", checked.stdout);
    }
    for (checked, what, remedy) in [
        (
            check(&["--port", port], ""),
            "wants a login: NOAUTH",
            "--user NAME --password-file FILE",
        ),
        (
            by_flags("bob", &other),
            "does not let the user 'bob' of --password-file in: WRONGPASS",
            "in its aclfile",
        ),
        (
            by_flags("ann", &secret),
            "does not let the user 'ann' of --password-file do what a check does: ",
            "the rights of the bundled client",
        ),
    ] {
        let said = &checked.stderr;
        assert_eq!(checked.code, Some(69), "{said}");
        assert!(said.contains(what) && said.contains(remedy), "{said}");
    }
}
