//! `quorlock acquire`, `extend` and `release` as scripts use them: what they print, where it goes,
//! and what the exit code tells.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use quorlock_testkit::{binary, eventually};

use crate::run::cluster;
use crate::shell::{Ended, Shell};

fn is_free(shell: &Shell, name: &str) -> bool {
    shell.quorlock(&["run", name, "-n", "--", "true"]).code == Some(0)
}

#[test]
fn a_token_that_cannot_be_printed_is_released() {
    let shell = cluster();
    for export in [false, true] {
        let mut words = vec!["acquire", "a", "--ttl", "1h", "-n"];
        if export {
            words.push("--export");
        }
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = shell.command(&words);
        let ended = Ended::of(command.stdout(full).output().unwrap());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        for part in ["could not be printed", "released again"] {
            assert!(ended.stderr.contains(part), "{}", ended.stderr);
        }
        assert!(is_free(&shell, "a"));
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = shell.command(&["acquire", "a", "--ttl", "1h", "-n"]);
    let ended = Ended::of(command.stdout(writer).output().unwrap());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(is_free(&shell, "a"));

    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = shell.command(&["run", "a", "--ttl", "1h", "-n"]);
    let ended = Ended::of(command.stdout(full).output().unwrap());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(is_free(&shell, "a"));
}

#[test]
fn a_shell_takes_over_what_is_exported() {
    let shell = cluster();
    let script = r#"exports=$("$Q" acquire "$N" --export --ttl 1h) || exit 1; eval "$exports"
        [ "$QUORLOCK_NAME" = "$N" ] || exit 2
        [ "$QUORLOCK_DEADLINE" -gt 1700000000000 ] || exit 3
        printf '%s\n' "$QUORLOCK_TOKEN" | "$Q" extend "$QUORLOCK_NAME" - --ttl 2h || exit 4
        printf %s "$QUORLOCK_TOKEN" | "$Q" release "$QUORLOCK_NAME" - || exit 5
        "$Q" release "$QUORLOCK_NAME" "$QUORLOCK_TOKEN"; [ $? = 70 ] || exit 6"#;
    for name in ["plain", "it's $(touch bad) `touch bad`; \"two\"\nlines"] {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(shell.path());
        command.env("Q", binary::quorlock()).env("N", name);
        let ended = Ended::of(command.env_remove("QUORLOCK_NODES").output().unwrap());
        assert_eq!(ended.code, Some(0), "{name}: {}", ended.stderr);
    }
    assert!(!shell.file("bad").exists());
    let both = shell.quorlock(&["acquire", "a", "--export", "--json"]);
    assert_eq!(both.code, Some(64), "{}", both.stdout);
}

#[test]
fn a_token_from_standard_input_must_be_there() {
    let shell = cluster();
    for typed in ["", "\n", "  \n"] {
        let mut command = shell.command(&["release", "a", "-"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(typed.as_bytes())
            .unwrap();
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(64), "{typed:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("is empty"), "{}", ended.stderr);
    }
}

#[test]
fn a_release_by_a_majority_is_a_success_and_one_by_all_is_asked_for() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0", "--ephemeral"]);
    let acquire = |name| {
        let ended = shell.quorlock(&["acquire", name, "--ttl", "1h"]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{name}");
        ended.stdout.trim().to_owned()
    };
    let (all, two, one) = (acquire("all"), acquire("two"), acquire("one"));
    let release = |name, token: &str| shell.quorlock(&["release", name, token]);
    let ended = shell.quorlock(&["release", "all", &all, "-v", "--require-all"]);
    let said = (&*ended.stdout, &*ended.stderr);
    assert_eq!((ended.code, said), (Some(0), ("'all' is free\n", "")));

    shell.succeed(&["cluster", "pause", "node-3"]);
    let extended = shell.quorlock(&["extend", "two", &two, "--ttl", "2h"]);
    let said = (extended.code, &*extended.stderr);
    assert_eq!(said, (Some(0), ""), "an extension is as quiet");
    let ended = release("two", &two);
    let said = (&*ended.stdout, &*ended.stderr);
    assert_eq!((ended.code, said), (Some(0), ("'two' is free\n", "")));
    let ended = shell.quorlock(&["release", "verbose", &acquire("verbose"), "--verbose"]);
    let said = (ended.code, &*ended.stdout);
    assert_eq!(said, (Some(0), "'verbose' is free\n"), "{}", ended.stderr);
    let start = "quorlock: 'verbose' is free; where it was not released it ends by its ttl: redis:";
    assert!(ended.stderr.starts_with(start), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let json = shell.quorlock(&["release", "json", &acquire("json"), "--json"]);
    assert_eq!((json.code, &*json.stderr), (Some(0), ""));
    assert_eq!(json.json()["freed"], 2);
    assert_eq!(json.json()["unanswered"].as_array().unwrap().len(), 1);
    let ended = shell.quorlock(&["release", "strict", &acquire("strict"), "--require-all"]);
    assert_eq!(ended.code, Some(74), "{}", ended.stderr);
    let said = "'strict' is free, 2 of 3";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let named = ended.stderr.matches("redis://").count();
    assert_eq!(named, 1, "{}", ended.stderr);

    shell.succeed(&["cluster", "pause", "2"]);
    let ended = release("one", &one);
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("not free yet: only 1 of 3"),
        "{}",
        ended.stderr
    );
    let json = shell.quorlock(&["release", "one", &one, "--json"]).json();
    assert_eq!(json["error"]["kind"], "no-quorum");
    shell.succeed(&["cluster", "resume", "2"]);
    shell.succeed(&["cluster", "resume", "3"]);
    eventually("it is released on all", || {
        let words = ["release", "one", &one, "--require-all"];
        shell.quorlock(&words).code == Some(0)
    });
    assert!(is_free(&shell, "one"));
}

#[test]
fn a_foreign_token_is_not_called_ours() {
    let shell = cluster();
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    for words in [
        ["extend", "a", "wrong"],
        ["release", "a", "wrong"],
        ["extend", "never", "x"],
    ] {
        let ended = shell.quorlock(&words);
        assert_eq!(ended.code, Some(70), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("never taken with it"),
            "{}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("for us"), "{}", ended.stderr);
        let json = shell.quorlock(&[&words[..], &["--json"]].concat());
        assert_eq!(json.json()["error"]["kind"], "not-held");
    }
    let said = shell.succeed(&["extend", "a", token.trim(), "--ttl", "1s"]);
    for part in [
        "is not shortened",
        "keep it for another 59 min",
        "the 1 s asked for",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let said = shell.succeed(&["extend", "a", token.trim(), "--ttl", "2h"]);
    assert!(said.contains("held for at least another 11"), "{said}");
    let json = shell.succeed(&["extend", "a", token.trim(), "--ttl", "1s", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["kept_ms"].as_u64() > Some(7_000_000), "{json}");
    assert!(json["validity_ms"].as_u64() <= Some(1_000), "{json}");
    assert!(!is_free(&shell, "a"));
    shell.succeed(&["unlock", "a", token.trim()]);
}

#[test]
fn quiet_and_verbose_mean_the_same_for_acquire_run_and_release() {
    let shell = cluster();
    let held = shell.quorlock(&["acquire", "a", "--ttl", "1h", "-v"]);
    let start = "quorlock: 'a' is held for another ";
    assert!(held.stderr.starts_with(start), "{}", held.stderr);
    let token = held.stdout.trim();
    let said = |words: &[&str]| {
        let ended = shell.quorlock(&[words, &["a", "--wait", "3s"]].concat());
        assert_eq!(ended.code, Some(75), "{words:?}: {}", ended.stderr);
        ended.stderr.lines().count()
    };
    std::thread::scope(|scope| {
        for (words, is_quiet) in [
            (&["acquire"][..], false),
            (&["acquire", "-q"], true),
            (&["run", "--quiet"], true),
        ] {
            let said = &said;
            scope.spawn(move || {
                // Of the failure there is one line; who holds the lock comes before it.
                assert_eq!(said(words) == 1, is_quiet, "{words:?}");
            });
        }
    });
    let both = shell.quorlock(&["acquire", "a", "-q", "-v"]);
    assert_eq!(both.code, Some(64), "{}", both.stderr);
    let ended = shell.quorlock(&["release", "a", token, "--quiet"]);
    let said = (ended.code, &*ended.stdout, &*ended.stderr);
    assert_eq!(said, (Some(0), "", ""));
    let ran = shell.quorlock(&["run", "a", "-v", "--", "true"]);
    assert!(ran.stderr.starts_with(start), "{}", ran.stderr);
}
