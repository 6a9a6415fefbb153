//! `quorlock run --reentrant`: a command within a run that holds its lock, and what is no such run.

use std::fs;
use std::process::Command;

use quorlock_testkit::binary;

use crate::run::cluster;
use crate::shell::{Ended, Shell};

/// Runs a script under these words of `run`. In it `$q` is the program.
fn under(shell: &Shell, words: &[&str], script: &str) -> Ended {
    fs::write(shell.file("inner.sh"), script).unwrap();
    let mut command = shell.command(&["run"]);
    command.args(words).args(["--", "sh", "inner.sh"]);
    Ended::of(command.env("q", binary::quorlock()).output().unwrap())
}

#[test]
fn a_command_within_a_run_has_its_lock_at_once_and_the_outer_run_frees_it() {
    let shell = cluster();
    // It takes no second lock, becomes the command, and others are kept out meanwhile.
    let script = "
        $q run a --reentrant --hold-at-least 1h -- sh -c 'echo $QUORLOCK_NAME $QUORLOCK_TOKEN; exit 7'
        echo $? $QUORLOCK_TOKEN
        $q run a -n -- echo writes || echo $?
        exec $q run a --reentrant -- $q run a --reentrant -n -- sh -c 'exit 3'";
    let ended = under(&shell, &["a"], script);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    let token = words[1];
    assert_eq!(words, ["a", token, "7", token, "75"], "{}", ended.stderr);
    // It is free, although the inner one was to hold it for longer: that is for the outer one to say.
    let next = shell.quorlock(&["run", "a", "-n", "--reentrant", "--", "true"]);
    assert_eq!(next.code, Some(0), "{}", next.stderr);
}

#[test]
fn locks_of_several_runs_around_a_command_count_together_and_a_part_is_refused() {
    let shell = cluster();
    let script = "
        $q run c -- sh -c '
            $q run b c a --reentrant -n -- echo all
            $q run a d --reentrant -n -- echo some || echo $?
            $q run d --reentrant -n -- sh -c \"echo \\$QUORLOCK_NAME\"'";
    let ended = under(&shell, &["a", "b"], script);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "all\n64\nd\n", "{}", ended.stderr);
    let said = "the run around this command holds 'a' and not 'd'";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

/// Nothing ends the work when these are lost.
#[test]
fn a_lease_a_reader_and_a_run_that_has_lost_its_lock_are_not_run_under() {
    let shell = cluster();
    let asks = "$q run a --reentrant -n -- echo runs || echo $?";
    let leased = format!("eval \"$($q acquire a --export)\"; {asks}");
    let ended = under(&shell, &["b"], &leased);
    assert_eq!(ended.stdout, "75\n", "{}", ended.stderr);

    let shell = cluster();
    let ended = under(&shell, &["a", "--shared"], asks);
    assert_eq!(ended.stdout, "75\n", "{}", ended.stderr);

    let lost = format!("$q release a $QUORLOCK_TOKEN >out; $q acquire a >out; {asks}");
    let ended = under(&shell, &["a"], &lost);
    assert_eq!(ended.stdout, "75\n", "{}", ended.stderr);
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
}

/// As `QUORLOCK_RUNS` has it: number, start, namespace and boot of a process.
fn identity(process: u32) -> [String; 4] {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = line.rsplit_once(')').unwrap().1;
    let started = fields.split_whitespace().nth(19).unwrap();
    let namespace = fs::read_link(format!("/proc/{process}/ns/pid")).unwrap();
    let namespace = namespace.to_str().unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    [
        process.to_string(),
        started.to_owned(),
        namespace.replace("pid:[", "").replace(']', ""),
        boot.trim_end().to_owned(),
    ]
}

/// What a command ends with under that variable, where the lock is held under a lease.
fn code_under(shell: &Shell, runs: &str) -> Option<i32> {
    let words = ["run", "a", "--reentrant", "-n", "--", "echo", "runs"];
    let mut command = shell.command(&words);
    let ended = Ended::of(command.env("QUORLOCK_RUNS", runs).output().unwrap());
    assert_eq!(ended.code == Some(0), ended.stdout == "runs\n", "{runs}");
    ended.code
}

#[test]
fn a_variable_that_names_a_process_which_is_not_above_counts_for_nothing() {
    let shell = cluster();
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    let token = token.trim();
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let (own, other_one) = (
        identity(std::process::id()).join("."),
        identity(other.id()).join("."),
    );
    for runs in [
        format!("{other_one}.30000:{token}"),
        format!("{own}.30000:"),
        format!("{own}:{token} {own}.x:{token} {own}.30000{token}"),
        format!(" :{token} x:y 0:{token} .30000:{token}"),
    ] {
        assert_eq!(code_under(&shell, &runs), Some(75), "{runs}");
    }
    other.kill().unwrap();
    other.wait().unwrap();
}

/// The number alone is no name: each container has a process 1, and on each machine init is above all others.
#[test]
fn a_run_of_another_start_namespace_or_boot_is_none_that_is_around_the_command() {
    let shell = cluster();
    let token = shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    let runs = |parts: &[String; 4]| format!("{}.30000:{}", parts.join("."), token.trim());
    let right = identity(std::process::id());
    for part in 1..right.len() {
        let mut wrong = right.clone();
        // The last digit, so that the rest of it is right.
        let last = if wrong[part].ends_with('0') { "1" } else { "0" };
        wrong[part].pop();
        wrong[part].push_str(last);
        let runs = runs(&wrong);
        assert_eq!(code_under(&shell, &runs), Some(75), "{runs}");
    }
    let number = format!("{}:{}", std::process::id(), token.trim());
    assert_eq!(code_under(&shell, &number), Some(75), "{number}");
    assert_eq!(code_under(&shell, &runs(&right)), Some(0), "all are right");
}

/// If the machine dies now, the lock is free again one ttl of the outer run later.
#[test]
fn an_inner_run_leaves_the_lease_as_long_as_the_outer_one_has_it() {
    let shell = cluster();
    for (outer, inner, left_ms) in [
        ("1m", "1h", 0..=60_000),
        ("1h", "10s", 3_000_000..=3_600_000),
    ] {
        let script = format!("$q run a --reentrant --ttl {inner} -n -- true && $q --json who a");
        let ended = under(&shell, &["a", "--ttl", outer], &script);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let shown: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let left = shown["holders"][0]["left_ms"].as_u64().unwrap();
        assert!(left_ms.contains(&left), "{outer}, {inner}: {left}");
    }
}

#[test]
fn a_wait_for_the_run_around_the_command_is_named() {
    let shell = cluster();
    let said = "that is the run around this command";
    for (wait, said) in [
        ("-n", format!("\n  {said}")),
        ("-w 6s", format!("; {said}")),
    ] {
        let script = format!("$q run a {wait} -- echo runs || echo $?");
        let ended = under(&shell, &["a"], &script);
        assert_eq!(ended.stdout, "75\n", "{}", ended.stderr);
        assert!(ended.stderr.contains(&said), "{wait}: {}", ended.stderr);
    }
    for option in [
        "--fence",
        "--shared",
        "--permits=2",
        "--lock-delay=1s",
        "--textfile=a.prom",
    ] {
        let words = ["run", "a", "--reentrant", option, "--", "true"];
        let refused = shell.quorlock(&words);
        assert_eq!(refused.code, Some(64), "{option}: {}", refused.stderr);
    }
}
