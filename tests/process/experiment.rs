//! `quorlock experiment`: what it tries, what it refuses, and what is left when it is interrupted.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use quorlock_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::shell::{Ended, Shell};

const SHORT: [&str; 6] = [
    "--ttl",
    "600ms",
    "--restart-delay-max",
    "800ms",
    "--dir",
    "experiments",
];

fn crash_recovery(shell: &Shell, words: &[&str]) -> Ended {
    let mut all = vec!["experiment", "crash-recovery"];
    all.extend(SHORT);
    all.extend(words);
    shell.quorlock(&all)
}

fn latest(shell: &Shell) -> PathBuf {
    let link = shell.file("experiments/latest");
    link.canonicalize().unwrap()
}

fn summary(directory: &Path) -> Value {
    let text = fs::read_to_string(directory.join("summary.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_power_cut_gives_a_lock_to_two_holders_unless_the_node_waits() {
    let shell = Shell::new();
    // The second holder must have the lock while the first still believes in it: on a busy machine a node that starts
    // again, and a client that goes through three of them, take longer than `SHORT` leaves.
    let ended = shell.quorlock(&[
        "experiment",
        "crash-recovery",
        "--ttl",
        "4s",
        "--restart-delay-max",
        "5s",
        "--dir",
        "experiments",
        "--cell",
        "no/off/power-loss-one/3",
        "--cell",
        "no/auto/power-loss-one/3",
        "--cell",
        "no/off/process-kill/3",
    ]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let directory = latest(&shell);
    let summary = summary(&directory);
    assert_eq!(
        (&summary["format"], &summary["is_complete"]),
        (&1.into(), &true.into())
    );
    let figures = |index: usize| {
        let cell = &summary["cells"][index];
        let figure = |name: &str| cell[name].as_u64().unwrap();
        (figure("violated"), figure("lost"), figure("stuck"))
    };
    // What was not synced is gone in both; only without the delay that makes a second holder.
    assert_eq!(
        (figures(0), figures(1)),
        ((1, 20, 0), (0, 20, 0)),
        "{summary:#}"
    );
    // The page cache survives `kill -9`.
    assert_eq!(figures(2), (0, 0, 0), "{summary:#}");
    for (name, part) in [
        ("report.html", "class=\"overlap\""),
        ("repro.txt", "--cell no/off/power-loss-one/3 --trials 1"),
        ("trials.csv", "no,off,power-loss-one,3,1,"),
        ("history.jsonl", "\"event\":\"power-lost\""),
        ("svg/overlap.svg", "</svg>"),
    ] {
        let text = fs::read_to_string(directory.join(name)).unwrap();
        assert!(text.contains(part), "{name} does not say {part}");
    }
    assert!(!directory.join("nodes").exists());
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_starts() {
    let shell = Shell::new();
    for (words, code, said) in [
        (&["--fault", "meteor"][..], 64, "power-loss-one"),
        (&["--fault", "partition", "--nodes", "1"], 64, "no minority"),
        (&["--nodes", "4"], 64, "1, 3 or 5"),
        (&["--ttl", "5s"], 64, "cannot be used multiple times"),
        (&["--trials", "0"], 64, "number of trials"),
        (&["--baseline", "nowhere"], 2, "nowhere/summary.json"),
        (
            &["--cell", "no/50%/partition/5"],
            64,
            "no node starts again",
        ),
    ] {
        let ended = crash_recovery(&shell, words);
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    }
    assert!(!shell.file("experiments").exists());
    let ended = shell.quorlock(&["experiment", "crash-recovery", "--ttl", "5s"]);
    assert!(ended.code == Some(64) && ended.stderr.contains("restart-delay-max"));
    // What cannot be tried is found out cell by cell; a run of nothing else has tried nothing.
    let ended = crash_recovery(&shell, &["--cell", "always/auto/failover/1"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("nothing was tried"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("no asynchronous replicas"),
        "{}",
        ended.stderr
    );
    let ended = shell.quorlock(&["experiment", "crash-recovery", "--resume", "nowhere"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("nowhere/plan.json"));
}

#[test]
fn nobody_gets_a_disk_that_forgets_but_an_experiment() {
    let shell = Shell::new();
    let ended = shell.quorlock(&["__experiment-node", "1", "1", "--port", "0"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("quorlock server"), "{}", ended.stderr);
}

#[test]
fn an_interrupted_run_keeps_what_was_tried_and_goes_on() {
    let shell = Shell::new();
    let mut words = vec![
        "experiment",
        "crash-recovery",
        "--json-lines",
        "--trials",
        "2",
    ];
    words.extend(SHORT);
    words.extend([
        "--cell",
        "no/off/process-kill/1",
        "--cell",
        "always/off/process-kill/1",
    ]);
    let mut run = shell.command(&words).spawn().unwrap();
    let trials = || {
        let link = shell.file("experiments/latest/trials.jsonl");
        fs::read_to_string(link).unwrap_or_default().lines().count()
    };
    eventually("a trial is on disk", || trials() > 0);
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let ended = Ended::of({
        let _status = run.wait().unwrap();
        run.wait_with_output().unwrap()
    });
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("--resume"), "{}", ended.stderr);
    // Progress as JSON, and nothing else: the last object is the summary.
    let objects: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects[0]["event"], "begins");
    assert_eq!(objects.last().unwrap()["is_complete"], false);
    let directory = latest(&shell);
    assert_eq!(summary(&directory)["is_complete"], false);
    let before = trials();
    assert!((1..4).contains(&before));

    let directory = directory.to_str().unwrap();
    let ended = shell.quorlock(&[
        "experiment",
        "crash-recovery",
        "--quiet",
        "--resume",
        directory,
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(trials(), 4);
    assert_eq!(summary(Path::new(directory))["is_complete"], true);
}

/// The runs wait for the baseline, a pipe that nobody has written to yet: nothing is made by then.
#[test]
fn a_run_that_is_interrupted_before_it_begins_says_so_and_makes_nothing() {
    let shell = Shell::new();
    let baseline = shell.file("summary.json");
    let made = Command::new("mkfifo").arg(&baseline).status().unwrap();
    assert!(made.success());
    for (experiment, signal) in [
        ("crash-recovery", Signal::INT),
        ("crash-recovery", Signal::TERM),
        ("compare", Signal::INT),
        ("compare", Signal::HUP),
    ] {
        let words = ["experiment", experiment, "--baseline", ".", "--json"];
        let mut run = shell.command(&words).spawn().unwrap();
        // Opened as soon as the other side is: the run has come as far as that.
        let mut pipe = OpenOptions::new().write(true).open(&baseline).unwrap();
        kill_process(Pid::from_child(&run), signal).unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(run.stderr.take().unwrap());
        stderr.read_line(&mut said).unwrap();
        assert!(said.contains("ending; what was tried is kept"), "{said}");
        pipe.write_all(baseline_of(experiment).as_bytes()).unwrap();
        drop(pipe);
        let ended = Ended::of(run.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(2), "{experiment}: {}", ended.stdout);
        let said = "interrupted before anything was tried; nothing was made";
        assert!(ended.stdout.contains(said), "{}", ended.stdout);
        assert!(!shell.file("experiments").exists(), "{experiment}");
    }
}

/// The summary of a run that the book shows.
fn baseline_of(experiment: &str) -> String {
    let name = match experiment {
        "compare" => "compare.json",
        _ => "summary.json",
    };
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/experiments");
    fs::read_to_string(book.join(name)).unwrap()
}

#[test]
fn stories_are_listed_told_and_replayed() {
    let shell = Shell::new();
    let list = shell.succeed(&["experiment", "list"]);
    assert!(list.contains("everysec-power-loss") && list.contains("client-pause"));
    let told = shell.succeed(&["experiment", "show", "client-pause", "--no-replay"]);
    assert!(told.contains("What breaks:") && told.contains("--cell always/auto/client-pause/5"));
    let replayed = shell.succeed(&["experiment", "show", "no-persistence"]);
    assert!(replayed.contains("!!!") && replayed.contains("two clients held the lock"));
    // The database itself shows that an update is gone, which fences would prevent.
    let replayed = shell.succeed(&["experiment", "show", "client-pause"]);
    assert!(replayed.contains("never two holders. 1 update of what the lock protects was lost."));
    assert!(replayed.contains("'directed'") && replayed.contains("holds 1: 1 update is missing."));
    let replayed = shell.succeed(&["experiment", "show", "fenced-pause"]);
    assert!(replayed.contains("never two holders. A write with an old fence was refused."));
    assert!(replayed.contains("acknowledged: 1. It holds 1: none is missing."));
    let ended = shell.quorlock(&["experiment", "show", "moon"]);
    assert!(ended.code == Some(64) && ended.stderr.contains("delayed-restart"));
}
