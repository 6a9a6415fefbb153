//! What `quorlock run` says and does while it waits, when the lock is busy, and without a command;
//! and what becomes of signals that its caller has ignored or blocked.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use quorlock_testkit::{Wire, becomes_so, binary, eventually};
use rustix::process::Signal;

use crate::run::{addresses, catches_sigterm, cluster};
use crate::shell::{Ended, Shell, await_end, send};

const SHORT: std::time::Duration = std::time::Duration::from_millis(300);

/// `env` of coreutils with these flags before `quorlock`.
fn env(shell: &Shell, flags: &str, words: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg(flags).arg(binary::quorlock()).args(words);
    command
        .current_dir(shell.path())
        .env_remove("QUORLOCK_NODES");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_wait_says_who_holds_the_lock_and_how_long_still() {
    let shell = cluster();
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    let errors = shell.file("err");
    let mut command = shell.command(&["run", "a", "--", "true"]);
    command.stderr(fs::File::create(&errors).unwrap());
    let mut child = command.spawn().unwrap();
    let holder = format!(
        "held by another owner (token {}...) for another",
        &token[..6]
    );
    eventually("it says who holds it", || text(&errors).contains(&holder));
    eventually("it says so again", || {
        text(&errors).matches(&holder).count() == 2
    });
    assert!(!text(&errors).contains(token.trim()), "not the whole token");
    shell.succeed(&["release", "a", token.trim()]);
    assert!(await_end(&mut child).success());
}

#[test]
fn a_busy_lock_is_shown_with_the_text_of_its_holder_and_since_when() {
    let shell = cluster();
    let mut held = shell.command(&["run", "a", "--", "sleep", "1000"]);
    let mut held = held.spawn().unwrap();
    let program = format!(", pid {}: sleep", held.id());
    eventually("it is held", || {
        shell.quorlock(&["who", "a"]).stdout.contains(&program)
    });
    let busy = shell.quorlock(&["acquire", "a", "--no-wait"]);
    assert_eq!(busy.code, Some(75), "{}", busy.stderr);
    let line = busy.stderr.lines().next().unwrap();
    assert!(
        line.contains("the holder of 'a' is ") && line.contains(&program),
        "{line}"
    );
    assert!(line.ends_with(" so far"), "since when: {line}");
    let quiet = shell.quorlock(&["acquire", "a", "--no-wait", "--quiet"]);
    assert!(!quiet.stderr.contains(&program), "{}", quiet.stderr);
    let errors = shell.file("err");
    let mut waits = shell.command(&["run", "a", "--", "true"]);
    waits.stderr(fs::File::create(&errors).unwrap());
    let mut waits = waits.spawn().unwrap();
    eventually("it says whom it waits for", || {
        let said = text(&errors);
        let mut lines = said.lines().filter(|line| line.contains("waiting"));
        lines.any(|line| line.contains(&program))
    });
    let shown = shell.quorlock(&["who", "a"]).stdout;
    assert!(shown.contains("  waiting:    1 client\n"), "{shown}");
    send(&held, Signal::TERM);
    await_end(&mut held);
    assert!(await_end(&mut waits).success());
}

#[test]
fn a_holder_is_named_while_a_node_hangs_and_only_where_it_holds_what_is_wanted() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0"]);
    shell.succeed(&["acquire", "a", "--owner", "the-holder"]);
    shell.succeed(&["cluster", "pause", "1"]);
    let busy = shell.quorlock(&["run", "a", "--no-wait", "--", "true"]);
    assert!(
        busy.stderr.contains("the holder of 'a' is the-holder"),
        "{}",
        busy.stderr
    );
    shell.succeed(&["cluster", "resume", "1"]);
    // A permit of this name is another lock.
    let mut permit = shell.command(&["run", "a", "--permits", "1", "--", "sleep", "1000"]);
    let mut permit = permit.spawn().unwrap();
    eventually("the permit is held", || {
        let shown = shell.quorlock(&["who", "a:permit:0"]);
        shown.code == Some(0)
    });
    let busy = shell.quorlock(&["run", "a", "--permits", "1", "--no-wait", "--", "true"]);
    assert_eq!(busy.code, Some(75), "{}", busy.stderr);
    assert!(!busy.stderr.contains("the-holder"), "{}", busy.stderr);
    send(&permit, Signal::TERM);
    await_end(&mut permit);
    // Two nodes of three name others.
    let addresses = addresses(&shell);
    for (node, owner) in addresses.iter().zip(["first", "second"]) {
        let granted =
            Wire::connect(node).ask(&format!("LOCK.ACQUIRE split t-{owner} 60000 OWNER {owner}"));
        assert!(granted.contains('1'), "{granted}");
    }
    let busy = shell.quorlock(&["run", "split", "--no-wait", "--", "true"]);
    assert!(!busy.stderr.contains("the holder of"), "{}", busy.stderr);
}

#[test]
fn a_holder_says_what_it_is_told_to_say_or_nothing() {
    let shell = cluster();
    shell.succeed(&["acquire", "a", "--owner", "nightly, rack 4"]);
    let shown = shell.succeed(&["who", "a"]);
    assert!(shown.contains("nightly, rack 4 (token"), "{shown}");
    shell.succeed(&["acquire", "b", "--owner", ""]);
    let shown = shell.succeed(&["who", "b"]);
    assert!(
        shown.contains("quorlock@"),
        "the connection's name: {shown}"
    );
    // What no node takes is not sent, and is not repeated on a terminal.
    let hostile = format!("\u{1b}[2J\u{7}{}", "x".repeat(100_000));
    for text in [&*"x".repeat(257), "a\nb", "\u{9b}31m", &hostile] {
        for words in [
            &["acquire", "c", "--owner", text][..],
            &["run", "c", "--owner", text, "--", "true"],
            &["elect", "c", text],
        ] {
            let ended = shell.quorlock(words);
            assert_eq!(ended.code, Some(64), "{}: {}", words[0], ended.stderr);
            let said = "has 1 to 256 bytes and no control characters";
            assert!(ended.stderr.contains(said), "{}", ended.stderr);
            assert!(ended.stderr.len() < 500, "{}", ended.stderr.len());
        }
    }
    assert_eq!(
        shell.quorlock(&["run", "c", "-n", "--", "true"]).code,
        Some(0)
    );
}

#[test]
fn a_wait_says_at_once_that_there_is_no_quorum() {
    let shell = Shell::new();
    let errors = shell.file("err");
    let words = [
        "run",
        "a",
        "--nodes",
        "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        "--",
        "true",
    ];
    let mut command = shell.command(&words);
    let mut child = command
        .stderr(fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let said = "of 3 nodes cannot vote and 2 must";
    eventually("it says so", || text(&errors).contains(said));
    assert!(
        !text(&errors).contains("so far"),
        "at once: {}",
        text(&errors)
    );
    let causes = text(&errors).matches("unreachable").count();
    assert!(causes >= 2, "{}", text(&errors));
    send(&child, Signal::TERM);
    assert_eq!(await_end(&mut child).code(), Some(143));

    let ended = shell.quorlock(&[
        "run", "a", "--nodes", words[3], "--wait", "1500ms", "--", "true",
    ]);
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("after 1."),
        "the whole wait: {}",
        ended.stderr
    );
}

#[test]
fn the_code_for_busy_can_be_chosen() {
    let shell = cluster();
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    for (flags, code, is_silent) in [
        (&["-E", "3"][..], 3, false),
        (&["-E", "0"][..], 0, false),
        (&["--busy-ok"][..], 0, true),
    ] {
        let words = [&["run", "a", "-n"], flags, &["--", "echo", "ran"]].concat();
        let ended = shell.quorlock(&words);
        assert_eq!(ended.code, Some(code), "{flags:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
        assert_eq!(ended.stderr.is_empty(), is_silent, "{}", ended.stderr);
    }
    let json = shell.quorlock(&["run", "a", "-n", "-E", "3", "--json", "--", "true"]);
    let error = &json.json()["error"];
    assert_eq!(
        (&error["kind"], &error["exit_code"]),
        (&"busy".into(), &3.into())
    );
    shell.succeed(&["release", "a", token.trim()]);
    let free = shell.quorlock(&["run", "a", "-n", "-E", "3", "--", "sh", "-c", "exit 5"]);
    assert_eq!(free.code, Some(5), "{}", free.stderr);
}

#[test]
fn without_a_command_the_lock_is_held_until_a_signal() {
    let shell = cluster();
    for signal in [Signal::INT, Signal::TERM] {
        let output = shell.file("out");
        let mut command = shell.command(&["run", "a", "--ttl", "1s"]);
        let mut child = command
            .stdout(fs::File::create(&output).unwrap())
            .spawn()
            .unwrap();
        eventually("it prints", || text(&output).matches('\n').count() == 4);
        let printed = text(&output);
        for part in [
            "export QUORLOCK_NAME='a'",
            "QUORLOCK_TOKEN='",
            "QUORLOCK_DEADLINE='",
            "export QUORLOCK_PREFIX=''",
        ] {
            assert!(printed.contains(part), "{printed}");
        }
        // Longer than a lease: it is renewed.
        assert_eq!(
            shell.quorlock(&["acquire", "a", "--wait", "1500ms"]).code,
            Some(75)
        );
        send(&child, signal);
        assert_eq!(await_end(&mut child).code(), Some(0));
        assert_eq!(
            shell.quorlock(&["run", "a", "-n", "--", "true"]).code,
            Some(0)
        );
    }
    let mut command = shell.command(&["run", "a", "--json"]);
    let output = shell.file("json");
    let mut child = command
        .stdout(fs::File::create(&output).unwrap())
        .spawn()
        .unwrap();
    eventually("it prints", || text(&output).ends_with('\n'));
    let value: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(value["token"].as_str().unwrap().len(), 32);
    assert!(value["deadline_ms"].as_u64().unwrap() > 1_700_000_000_000);
    send(&child, Signal::TERM);
    assert_eq!(await_end(&mut child).code(), Some(0));
}

#[test]
fn ignored_signals_stay_ignored() {
    let shell = cluster();
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    let script = "grep SigIgn /proc/self/status";
    let words = ["run", "a", "--", "sh", "-c", script];
    let child = env(&shell, "--ignore-signal=HUP,INT", &words)
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    eventually("it listens to SIGTERM", || catches_sigterm(&status));
    send(&child, Signal::HUP);
    send(&child, Signal::INT);
    assert!(
        !becomes_so(SHORT, || !catches_sigterm(&status)),
        "it waits on"
    );
    shell.succeed(&["release", "a", token.trim()]);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mask = ended.stdout.trim().rsplit('\t').next().unwrap().to_owned();
    let mask = u64::from_str_radix(&mask, 16).unwrap();
    assert_eq!(mask & 0b11, 0b11, "HUP and INT, for the command too");
}

#[test]
fn blocked_signals_make_nothing_endless() {
    let shell = cluster();
    let words = ["run", "a", "--", "true"];
    let mut child = env(&shell, "--block-signal=CHLD,TERM", &words)
        .spawn()
        .unwrap();
    assert_eq!(await_end(&mut child).code(), Some(0));
    let words = ["run", "a", "--", "sleep", "1000"];
    let mut child = env(&shell, "--block-signal=CHLD,TERM", &words)
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    eventually("it listens to SIGTERM", || catches_sigterm(&status));
    eventually("the lock is taken", || {
        shell.quorlock(&["run", "a", "-n", "--", "true"]).code == Some(75)
    });
    send(&child, Signal::TERM);
    assert_eq!(await_end(&mut child).code(), Some(143));
}
