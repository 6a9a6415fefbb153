//! Users of `quorlock agent`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use quorlock_testkit::Wire;

use crate::agent::agent_at;
use crate::run::cluster;
use crate::shell::{Ended, Shell};

/// A file that only its owner reads, and its path.
pub(crate) fn private(shell: &Shell, name: &str, text: &str) -> String {
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
        (
            by_flags("bob", &secret),
            "the user 'bob' of --password-file",
        ),
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

/// The scripts of redis-py's Lock.
const RELEASE: &str = "local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 end \
    redis.call('del', KEYS[1]) return 1";
const EXTEND: &str = "local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 end \
    local expiration = redis.call('pttl', KEYS[1]) if not expiration then expiration = 0 end \
    if expiration < 0 then return 0 end local newttl = ARGV[2] if ARGV[3] == '0' then newttl = ARGV[2] + expiration end \
    redis.call('pexpire', KEYS[1], newttl) return 1";

#[test]
fn a_user_with_the_rights_of_a_library_sends_its_scripts_and_no_others() {
    let shell = cluster();
    let rights = "~jobs:* +ping +set +get +del +pttl +pexpire +evalsha +script|load";
    let users =
        format!("user lib on >secret {rights}\nuser other on >secret {rights} -del +eval\n");
    let users = private(&shell, "users.acl", &users);
    let (_agent, address) = agent_at(&shell, &["--", "--aclfile", &users], "agent.log");
    let mut lib = Wire::connect(&address);
    assert_eq!(lib.ask("AUTH lib secret"), "+OK");
    let release = lib.ask_words(&["SCRIPT", "LOAD", RELEASE]);
    let extend = lib.ask_words(&["SCRIPT", "LOAD", EXTEND]);
    assert_eq!(lib.ask("SET jobs:a me NX PX 30000"), "+OK");
    let by_hash = |hash: &str, rest: &[&str]| {
        let words = [&["EVALSHA", hash, "1", "jobs:a"][..], rest].concat();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let ask = |wire: &mut Wire, words: &[String]| {
        wire.ask_words(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(
        ask(&mut lib, &by_hash(&extend, &["you", "60000", "1"])),
        ":0"
    );
    assert_eq!(
        ask(&mut lib, &by_hash(&extend, &["me", "60000", "1"])),
        ":1"
    );

    let mut other = Wire::connect(&address);
    assert_eq!(other.ask("AUTH other secret"), "+OK");
    let refused = ask(&mut other, &by_hash(&release, &["me"]));
    assert!(refused.contains("can't run this command"), "{refused}");
    let refused = other.ask_words(&["EVAL", "return redis.call('get', 'b')", "0"]);
    assert!(
        refused.contains("can't access at least one of the keys"),
        "{refused}"
    );
    assert!(lib.ask("EVAL x 0").starts_with("-NOPERM "));
    let foreign = lib.ask_words(&["EVALSHA", &release, "1", "a", "me"]);
    assert!(foreign.starts_with("-NOPERM "), "{foreign}");
    let mut admin = Wire::connect(&address);
    let log = admin.ask("ACL LOG");
    assert!(
        log.contains("context, lua, object, del, username, other"),
        "{log}"
    );
    assert_eq!(lib.ask("GET jobs:a"), "me");
    assert_eq!(ask(&mut lib, &by_hash(&release, &["me"])), ":1");
    assert_eq!(lib.ask("GET jobs:a"), "nil");
}
