//! Command lines: help that teaches, and mistakes that end with 64.

use std::fs;
use std::process::Command;

use crate::run::cluster;
use crate::shell::{Ended, Shell};

const RECEIPT: &str = "00112233445566778899aabbccddeeff";

#[test]
fn every_subcommand_explains_itself_with_an_example() {
    let shell = Shell::new();
    let all: [&[&str]; 16] = [
        &["--help"],
        &["server", "--help"],
        &["node", "init", "--help"],
        &["node", "restored", "--help"],
        &["node", "release", "--help"],
        &["node", "adopt", "--help"],
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
fn mistakes_of_nodes_tools_and_experiments_are_usage_errors() {
    let shell = Shell::new();
    let all: [&[&str]; 29] = [
        &["server", "--nonsense"],
        &["server", "--port"],
        &["server", "--port", "many"],
        &["server", "--appendfsync", "sometimes"],
        &["server", "not-there.conf"],
        &["server", "bad.conf"],
        &["server", "unknown.conf"],
        &["server", "sharded.conf"],
        &["server", "--port", "0", "--include", "not-there.conf"],
        &["extend", "a"],
        &["release", "a", "b", "c"],
        &["node", "init"],
        &["node", "restored"],
        &["node", "release"],
        &["node", "adopt", "data"],
        &["node", "adopt", "data", "--receipt", "12"],
        &["node", "adopt", "data", "--wait", "--receipt", RECEIPT],
        &["node", "init", "data", "--id", "a"],
        &["log", "check"],
        &["log", "dump", "data", "--from", "x"],
        &["log", "dump", "data", "--from", "3", "--to", "2"],
        &["log", "repair", "data", "more"],
        &["log", "stats", "--nonsense", "data"],
        &["experiment", "show", "nothing"],
        &["experiment", "crash-recovery", "--trials", "0"],
        &[
            "experiment",
            "crash-recovery",
            "--resume",
            "a",
            "--seed",
            "1",
        ],
        &["experiment", "compare", "--rounds", "0"],
        &["experiment", "compare", "--callers", "0"],
        &["experiment", "compare", "--services", "zookeeper"],
    ];
    for (name, text) in [
        ("bad.conf", "port many\n"),
        ("unknown.conf", "port 0\nnonsense yes\n"),
        ("sharded.conf", "port 0\ncluster-enabled yes\n"),
    ] {
        fs::write(shell.file(name), text).unwrap();
    }
    for words in all {
        let ended = shell.quorlock(words);
        assert_eq!(ended.code, Some(64), "{words:?}\n{}", ended.stderr);
        assert!(!ended.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn mistakes_are_usage_errors() {
    let shell = Shell::new();
    let all: [&[&str]; 19] = [
        &[],
        &["nonsense"],
        &["run"],
        &["run", "a", "-E", "256", "--", "true"],
        &["run", "a", "-E", "3", "--busy-ok", "--", "true"],
        &["acquire", "a", "--nodes", "5"],
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

#[test]
fn man_pages_are_written_to_a_folder_that_is_made() {
    let shell = Shell::new();
    shell.succeed(&["man", "made/man1"]);
    assert!(shell.file("made/man1/quorlock.1").exists());
    shell.succeed(&["man", "made/man1"]);
    let ended = shell.quorlock(&["man", "made/man1/quorlock.1"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("cannot write man pages to"));
}

#[test]
fn commands_need_no_locale() {
    let shell = cluster();
    let name = "gr\u{fc}n";
    shell.succeed(&["acquire", name, "--ttl", "10m"]);
    let help = shell.succeed(&["run", "--help"]);
    assert!(help.is_ascii());
    let locales: [&[(&str, &str)]; 4] = [
        &[],
        &[("LC_ALL", "C")],
        &[("LANG", "xx_XX.UTF-8"), ("LC_ALL", "")],
        &[("LC_ALL", "de_DE@euro")],
    ];
    for locale in locales {
        let say = |words: &[&str]| {
            let mut command = shell.command(words);
            for variable in ["LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE"] {
                command.env_remove(variable);
            }
            Ended::of(command.envs(locale.iter().copied()).output().unwrap())
        };
        assert_eq!(say(&["run", "--help"]).stdout, help, "{locale:?}");
        let held = say(&["who", name]);
        let begins = format!("'{name}' is held: 3 of 3");
        assert!(held.stdout.starts_with(&begins), "{}", held.stdout);
        let busy = say(&["run", name, "-n", "--", "true"]);
        assert_eq!(busy.code, Some(75), "{locale:?}: {}", busy.stderr);
        assert!(busy.stderr.contains(name), "{}", busy.stderr);
    }
}

/// The completions for a shell, as it reads them, and nothing is wrong with them.
fn assert_read(program: &str, flag: &str, words: &[&str]) {
    let shell = Shell::new();
    let text = shell.succeed(&["completions", program]);
    for word in words {
        assert!(text.contains(word), "{program}: {word}");
    }
    let file = shell.file(program);
    fs::write(&file, text).unwrap();
    let checked = Command::new(program).arg(flag).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.is_empty(), "{said}");
}

#[test]
fn bash_can_read_its_completions() {
    assert_read("bash", "-n", &["quorlock", "force-release", "--hold-back"]);
}

#[test]
#[ignore = "needs zsh and fish"]
fn other_shells_can_read_their_completions() {
    let words = ["quorlock", "force-release", "hold-back"];
    assert_read("zsh", "-n", &words);
    assert_read("fish", "--no-execute", &words);
}

#[test]
fn a_guessed_word_leads_on() {
    let shell = Shell::new();
    for (word, instead) in [
        ("up", "quorlock cluster up"),
        ("stop", "quorlock cluster down"),
        ("holders", "quorlock locks"),
        ("ps", "quorlock status"),
        ("info", "redis-cli -p PORT INFO"),
        ("version", "quorlock --version"),
        ("init", "quorlock node init"),
        ("bench", "redis-benchmark"),
        ("completion", "quorlock completions SHELL"),
        ("force-unlock", "quorlock release NAME TOKEN"),
        // One letter and two are all that it lacks of `lock` and `unlock`.
        ("flock", "quorlock run NAME -- COMMAND"),
        ("cron", "quorlock run NAME -- COMMAND"),
        ("once", "quorlock run NAME -- COMMAND"),
        ("semaphore", "quorlock run NAME --permits COUNT"),
        ("election", "quorlock elect NAME PROPOSAL"),
        ("watch", "quorlock locks --watch"),
    ] {
        let ended = shell.quorlock(&[word]);
        assert!(!ended.stderr.contains("similar"), "{}", ended.stderr);
        let ended = shell.quorlock(&["--json", word]);
        assert!(ended.stdout.contains(instead), "{word}: {}", ended.stdout);
        let ended = shell.quorlock(&[word, "--json"]);
        assert_eq!(ended.code, Some(64), "{word}: {}", ended.stderr);
        assert!(ended.stdout.contains(instead), "{word}: {}", ended.stdout);
        let ended = shell.quorlock(&[word]);
        assert!(ended.stderr.contains(instead), "{word}: {}", ended.stderr);
    }
    assert!(shell.succeed(&["help"]).contains("Example"));
    assert!(shell.succeed(&["help", "run"]).contains("--on-lost"));
    assert!(shell.succeed(&["lock", "--help"]).contains("--on-lost"));
    assert!(shell.succeed(&["unlock", "--help"]).contains("Example"));
}

#[test]
fn wrong_values_are_told_as_what_they_are() {
    let shell = Shell::new();
    let all: [(&[&str], &str); 9] = [
        (
            &["run", "a", "b", "--"],
            "the command to run stands after --",
        ),
        (&["acquire", "a", "--wait", "-5s"], "'-5s' is negative"),
        (&["acquire", "a", "--wait", "10"], "'10' has no unit"),
        (
            &["acquire", "a", "--ttl", "--wait"],
            "where a duration belongs",
        ),
        (&["acquire", "a", "--ttl", "366d"], "the longest is 365d"),
        (
            &["acquire", "a", "--nodes", "5"],
            "host and port are needed",
        ),
        (&["cluster", "up", "--nodes", "0"], "at least one node"),
        (&["cluster", "kill", "0"], "numbered from 1"),
        (&["cluster", "kill", "node-x"], "write 3 or node-3"),
    ];
    for (words, said) in all {
        let ended = shell.quorlock(words);
        assert_eq!(ended.code, Some(64), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    }
}
