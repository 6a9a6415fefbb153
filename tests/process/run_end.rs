//! The end of a lock under `quorlock run`: what the command and its descendants get, and when.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

use quorlock_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};

use crate::run::{cluster, take_away};
use crate::shell::{Ended, Shell, await_end, lives};

/// A running `quorlock run lost ...` whose command writes into files.
pub(crate) struct Running {
    pub(crate) child: Child,
    output: PathBuf,
    errors: PathBuf,
}

impl Running {
    pub(crate) fn start(shell: &Shell, options: &[&str], script: &str) -> Self {
        let mut words = vec!["run", "lost"];
        words.extend(options);
        words.extend(["--", "sh", "-c", script]);
        Self::spawn(shell, shell.command(&words))
    }

    pub(crate) fn spawn(shell: &Shell, mut command: Command) -> Self {
        let (output, errors) = (shell.file("out"), shell.file("err"));
        let file = fs::File::create(&output).unwrap();
        // Files: a pipe would be held open by what is left to go on.
        command
            .stdout(file)
            .stderr(fs::File::create(&errors).unwrap());
        let child = command.spawn().unwrap();
        Self {
            child,
            output,
            errors,
        }
    }

    fn printed(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    pub(crate) fn has_printed(&self, text: &str) {
        eventually(text, || self.printed().contains(text));
    }

    /// The process ids among what it printed, once there are so many.
    pub(crate) fn pids(&self, count: usize) -> Vec<u64> {
        let pids = || -> Vec<u64> {
            let printed = self.printed();
            let whole = printed.rsplit_once('\n').map_or("", |(lines, _)| lines);
            whole.lines().filter_map(|line| line.parse().ok()).collect()
        };
        eventually("they have started", || pids().len() == count);
        pids()
    }

    pub(crate) fn ended(mut self) -> (Ended, String) {
        let status = await_end(&mut self.child);
        let ended = Ended {
            code: status.code(),
            stdout: self.printed(),
            stderr: fs::read_to_string(&self.errors).unwrap(),
        };
        let printed = self.printed();
        (ended, printed)
    }
}

impl Drop for Running {
    /// A failed test leaves nothing running.
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// In its own group (as coreutils' `timeout` and job control do), and in its own session.
const ELSEWHERE: &str = "timeout 1000 sh -c 'echo $$; while :; do sleep 0.01; done' & \
    setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.01; done' & \
    (setsid sleep 1000 & echo $!) & ";

#[test]
fn descendants_outside_the_group_end_with_a_lost_lock() {
    let shell = cluster();
    // They are killed a whole lease's rest before its end, so that a busy machine changes nothing.
    let options = ["--ttl", "3s", "--grace", "100ms"];
    let running = Running::start(&shell, &options, &format!("{ELSEWHERE} wait"));
    let pids = running.pids(3);
    assert!(pids.iter().all(|pid| lives(*pid)));
    take_away(&shell, "lost", 3);
    let (ended, _) = running.ended();
    assert!(!pids.iter().any(|pid| lives(*pid)), "{pids:?}");
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    let said = "was killed, before the lease was over";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn what_a_command_leaves_behind_ends_before_the_release() {
    let shell = cluster();
    let script = format!("{ELSEWHERE} while ! [ -e go ]; do sleep 0.01; done; exit 3");
    let running = Running::start(&shell, &["--grace", "100ms"], &script);
    let pids = running.pids(3);
    fs::write(shell.file("go"), "").unwrap();
    let (ended, _) = running.ended();
    assert!(!pids.iter().any(|pid| lives(*pid)), "{pids:?}");
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    for part in ["processes behind", "without the lock", "(sleep)"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }

    let running = Running::start(&shell, &["--leave-orphans"], "setsid sleep 1000 & echo $!");
    let pids = running.pids(1);
    let (ended, _) = running.ended();
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(0), ""),
        "left alone when asked to"
    );
    assert!(lives(pids[0]));
    let left = Pid::from_raw(i32::try_from(pids[0]).unwrap()).unwrap();
    kill_process(left, Signal::KILL).unwrap();
}

#[test]
fn a_worker_has_its_grace_even_if_its_shell_ends_at_once() {
    let shell = cluster();
    let worker = "trap 'sleep 0.2; echo cleaned; exit' TERM; echo started; \
                  while :; do sleep 0.01; done";
    let script = format!("(setsid sh -c \"{worker}\") & trap 'exit 1' TERM; wait");
    let running = Running::start(&shell, &["--ttl", "6s"], &script);
    running.has_printed("started");
    take_away(&shell, "lost", 3);
    let (ended, printed) = running.ended();
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    assert!(printed.contains("cleaned"), "{printed}");
    assert!(ended.stderr.contains("asked to end"), "{}", ended.stderr);
}

#[test]
fn the_grace_begins_while_renewals_fail() {
    let mut shell = cluster();
    // The loop ends by SIGKILL; each of its lines is a hundredth of a second or more.
    let script = "trap 'echo asked' TERM; echo started; while :; do sleep 0.01; echo on; done";
    let options = ["--ttl", "6s", "--grace", "1s"];
    let running = Running::start(&shell, &options, script);
    running.has_printed("started");
    // All nodes fall silent; nobody takes the lock away.
    shell.supervisor().signal(Signal::STOP);
    let (ended, printed) = running.ended();
    shell.supervisor().signal(Signal::CONT);
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    for part in [
        "no majority of the nodes renews the lock, which is held for another",
        "no majority of the nodes has renewed it",
        "before the lease was over",
    ] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    let (_, after) = printed.split_once("asked").expect("it was asked to end");
    let lines = after.lines().count();
    assert!(lines > 10, "it had time to clean up, {lines} lines of it");
}

#[test]
fn failing_renewals_are_told_every_time_they_begin() {
    let mut shell = cluster();
    let script = "echo started; while ! [ -e go ]; do sleep 0.01; done";
    let running = Running::start(&shell, &["--ttl", "6s"], script);
    running.has_printed("started");
    let count = |part: &str| {
        let errors = fs::read_to_string(&running.errors).unwrap();
        errors.matches(part).count()
    };
    for times in 1..=2 {
        shell.supervisor().signal(Signal::STOP);
        eventually("it is told that renewals fail", || {
            count("no majority of the nodes renews the lock, which is held for") == times
        });
        shell.supervisor().signal(Signal::CONT);
        eventually("it is told that they do no more", || {
            count("a majority of the nodes renews the lock again") == times
        });
    }
    fs::write(shell.file("go"), "").unwrap();
    let (ended, _) = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn the_command_gets_on_loss_what_was_asked_for() {
    let shell = cluster();
    let script = "trap 'echo term; exit' TERM; trap 'echo int; exit' INT; echo started; \
                  while ! [ -e go ]; do sleep 0.01; done; echo done";
    for (on_lost, printed, said) in [
        ("term", "term", "asked to end"),
        ("signal:INT", "int", "asked to end"),
        ("kill", "started", "was killed"),
        ("ignore", "done", "went on without it"),
    ] {
        let running = Running::start(&shell, &["--ttl", "1s", "--on-lost", on_lost], script);
        running.has_printed("started");
        take_away(&shell, "lost", 3);
        if on_lost == "ignore" {
            eventually("the loss is told at once", || {
                fs::read_to_string(&running.errors)
                    .unwrap()
                    .contains("goes on")
            });
            fs::write(shell.file("go"), "").unwrap();
        }
        let (ended, output) = running.ended();
        assert_eq!(ended.code, Some(70), "{on_lost}: {}", ended.stderr);
        assert_eq!(output.lines().last(), Some(printed), "{on_lost}");
        assert!(ended.stderr.contains(said), "{on_lost}: {}", ended.stderr);
        let _none = shell.quorlock(&["release", "lost", "other"]);
    }
}

#[test]
fn no_lock_is_held_longer_than_the_longest_time() {
    let shell = cluster();
    let script = "trap 'echo asked; exit' TERM; echo started; while :; do sleep 0.01; done";
    let running = Running::start(&shell, &["--max-hold", "500ms"], script);
    let (ended, printed) = running.ended();
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    assert_eq!(printed, "started\nasked\n");
    for part in [
        "the longest time it may be held is over",
        "before the lease was over",
    ] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    assert_eq!(
        shell.quorlock(&["run", "lost", "-n", "--", "true"]).code,
        Some(0)
    );
}

#[test]
fn flags_about_the_end_of_the_lock_are_checked() {
    let shell = cluster();
    for (options, said) in [
        (["--grace", "11s"], "a third of --ttl"),
        (["--grace", "-1s"], "-1s"),
        (["--on-lost", "stop"], "term, kill, ignore or signal:NAME"),
        (["--on-lost", "signal:STOP"], "names no signal"),
        (["--max-hold", "0"], "at least 1ms"),
    ] {
        let words = ["run", "a", options[0], options[1], "--", "true"];
        let ended = shell.quorlock(&words);
        assert_eq!(ended.code, Some(64), "{options:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{options:?}: {}", ended.stderr);
    }
}

#[test]
fn a_node_that_is_down_makes_no_success_noisy() {
    let shell = cluster();
    let program = quorlock_testkit::binary::quorlock();
    let kills = format!("{} cluster kill 3 >kill.out", program.display());
    let first = ["run", "a", "--ttl", "7s", "--", "sh", "-c", &kills];
    let words: [&[&str]; 3] = [
        &first,
        &["run", "a", "--", "sh", "-c", "exit 5"],
        &["run", "a", "--json", "--", "true"],
    ];
    for (words, code) in words.into_iter().zip([0, 5, 0]) {
        let ended = shell.quorlock(words);
        let said = (&*ended.stdout, &*ended.stderr);
        assert_eq!((ended.code, said), (Some(code), ("", "")), "{words:?}");
    }
    let ended = shell.quorlock(&["run", "a", "-v", "--ttl", "7s", "--", "true"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let [held, free] = lines[..] else {
        panic!("{}", ended.stderr);
    };
    assert!(
        held.starts_with("quorlock: 'a' is held for another 6."),
        "{held}"
    );
    let start = "quorlock: 'a' is free; where it was not released it ends within 7 s: redis://";
    assert!(free.starts_with(start), "{free}");
    assert!(free.contains("unreachable"), "{free}");

    // What is not free yet is no such success.
    let kills = format!("{} cluster kill 2 >kill.out", program.display());
    let ended = shell.quorlock(&["run", "a", "--ttl", "7s", "--", "sh", "-c", &kills]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let said = "'a' is not free yet; where it was not released it ends within 7 s:\n";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("redis://").count(), 2);
}
