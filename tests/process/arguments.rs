//! Command lines: help that teaches, and mistakes that end with 64.

use crate::shell::Shell;

#[test]
fn every_subcommand_explains_itself_with_an_example() {
    let shell = Shell::new();
    let all: [&[&str]; 13] = [
        &["--help"],
        &["server", "--help"],
        &["node", "init", "--help"],
        &["log", "check", "--help"],
        &["log", "dump", "--help"],
        &["log", "stats", "--help"],
        &["log", "repair", "--help"],
        &["cluster", "--help"],
        &["cluster", "up", "--help"],
        &["run", "--help"],
        &["acquire", "--help"],
        &["extend", "--help"],
        &["release", "--help"],
    ];
    for words in all {
        let help = shell.succeed(words);
        assert!(help.contains("Example"), "{words:?}:\n{help}");
    }
    assert!(shell.succeed(&["--version"]).starts_with("quorlock "));
}

#[test]
fn mistakes_are_usage_errors() {
    let shell = Shell::new();
    let all: [&[&str]; 17] = [
        &[],
        &["nonsense"],
        &["run"],
        &["run", "a"],
        &["run", "a", "true"],
        &["run", "a", "--ttl", "0", "--", "true"],
        &["run", "a", "--ttl", "-1s", "--", "true"],
        &["run", "a", "--ttl", "soon", "--", "true"],
        &["run", "a", "--wait", "1s", "--no-wait", "--", "true"],
        &["run", "a", "--nodes", "", "--", "true"],
        &["run", "a", "--nodes", "http://localhost", "--", "true"],
        &["run", "", "--nodes", "redis://127.0.0.1:1", "--", "true"],
        &["acquire"],
        &["release", "a"],
        &["cluster", "up", "--nodes", "0"],
        &["cluster", "up", "--nodes", "65"],
        &["cluster", "kill", "0"],
    ];
    for words in all {
        let ended = shell.quorlock(words);
        assert_eq!(ended.code, Some(64), "{words:?}\n{}", ended.stderr);
        assert!(!ended.stderr.is_empty(), "{words:?}");
    }
    let json = shell.quorlock(&["acquire", "--json"]);
    assert_eq!(
        (json.code, &json.json()["error"]["exit_code"]),
        (Some(64), &64.into())
    );
}

#[test]
fn a_node_listed_twice_is_refused_and_passwords_are_not_shown() {
    let shell = Shell::new();
    let twice = "redis://:hunter2@127.0.0.1:1,redis://:hunter2@127.0.0.1:1";
    let ended = shell.quorlock(&["run", "a", "--nodes", twice, "--", "true"]);
    assert_eq!(ended.code, Some(64), "{}", ended.stderr);
    let unreachable = [
        "run",
        "a",
        "-n",
        "--nodes",
        "redis://:hunter2@127.0.0.1:1",
        "--",
        "true",
    ];
    let second = shell.quorlock(&unreachable);
    assert_eq!(second.code, Some(69), "{}", second.stderr);
    let broken = shell.quorlock(&["run", "a", "--nodes", "foo://:hunter2@h", "--", "true"]);
    for ended in [ended, second, broken] {
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
}
