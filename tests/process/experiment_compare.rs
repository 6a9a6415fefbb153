//! `quorlock experiment compare`: what it measures, what it skips and refuses, and what is left when it is interrupted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use quorlock_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::shell::{Ended, Shell};

const SHORT: [&str; 8] = [
    "experiment",
    "compare",
    "--rounds",
    "1",
    "--round",
    "100ms",
    "--dir",
    "runs",
];

fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.iter().chain(more).copied().collect()
}

fn latest(shell: &Shell) -> PathBuf {
    shell.file("runs/latest-compare").canonicalize().unwrap()
}

fn summary(shell: &Shell) -> Value {
    let text = fs::read_to_string(latest(shell).join("summary.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// How many processes are in this directory.
fn processes_of(shell: &Shell) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let places = entries.filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok());
    places
        .filter(|place| place.starts_with(shell.path()))
        .count()
}

#[test]
fn quorlock_gives_locks_to_one_holder_whatever_strikes_and_leaves_nothing_running() {
    let shell = Shell::new();
    let ended = shell.quorlock(&words(&["--services", "quorlock", "--fsync", "no"]));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let summary = summary(&shell);
    for (name, expected) in [
        ("kind", Value::from("compare")),
        ("format", 1.into()),
        ("is_complete", true.into()),
    ] {
        assert_eq!(summary[name], expected, "{name}");
    }
    let row = &summary["services"][0];
    assert_eq!(row["service"], "quorlock/no");
    for load in ["apart", "together"] {
        assert!(row[load]["cycles"].as_u64().unwrap() > 0, "{load}");
        assert_eq!(row[load]["overlaps"], 0, "{load}");
    }
    let outcomes: Vec<(&str, &str)> = row["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            (
                it["blow"].as_str().unwrap(),
                it["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    let faults = [
        "process-kill",
        "process-kill-worst-case",
        "power-loss-worst-case",
        "holder-gone",
    ];
    assert_eq!(outcomes, faults.map(|fault| (fault, "one-holder")));
    // A holder that is gone keeps others out until its ttl of 3 s is over, and no longer.
    let waited = row["faults"][3]["waited_ms"].as_f64().unwrap();
    assert!((2_500.0..5_000.0).contains(&waited), "{waited}");
    for (name, part) in [
        ("report.html", "What survives which fault"),
        ("rounds.csv", "quorlock/no,1,apart,"),
        ("svg/apart.svg", "</svg>"),
    ] {
        let text = fs::read_to_string(latest(&shell).join(name)).unwrap();
        assert!(text.contains(part), "{name} does not say {part}");
    }
    assert!(ended.stdout.contains("Only 1 of at least five rounds"));
    assert!(!latest(&shell).join("services").exists());
    assert_eq!(processes_of(&shell), 0);
}

#[test]
#[ignore = "needs etcd"]
fn a_lock_of_etcd_outlives_its_leader_and_ends_with_the_lease_of_a_holder_that_is_gone() {
    let shell = Shell::new();
    let ended = shell.quorlock(&words(&["--services", "etcd"]));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let summary = summary(&shell);
    for (index, members) in [(0, "etcd/1"), (1, "etcd/3")] {
        let row = &summary["services"][index];
        assert_eq!(row["service"], members);
        let fault = |index: usize, name: &str| row["faults"][index][name].clone();
        assert_eq!(fault(0, "outcome"), "one-holder", "{row:#}");
        assert!(fault(0, "no_locks_ms").as_f64().is_some(), "{row:#}");
        for worst_case in [1, 2] {
            assert_eq!(fault(worst_case, "outcome"), "not-tried");
            assert!(fault(worst_case, "reason").is_string());
        }
        let waited = fault(3, "waited_ms").as_f64().unwrap();
        assert!((2_500.0..8_000.0).contains(&waited), "{waited}");
    }
    assert_eq!(processes_of(&shell), 0);
}

/// What is not installed is named and counted; so the test holds wherever it runs.
#[test]
fn every_service_is_measured_or_named_with_what_would_bring_it_here() {
    let shell = Shell::new();
    let ended = shell.quorlock(&words(&["--fsync", "no", "--fault-trials", "0"]));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let summary = summary(&shell);
    let (there, skipped) = (&summary["services"], &summary["skipped"]);
    let number = there.as_array().unwrap().len() + skipped.as_array().unwrap().len();
    assert_eq!(number, 10, "{summary:#}");
    for row in there.as_array().unwrap() {
        assert!(row["apart"]["cycles"].as_u64().unwrap() > 0, "{row:#}");
        assert_eq!(row["together"]["overlaps"], 0, "{row:#}");
    }
    for skipped in skipped.as_array().unwrap() {
        let reason = skipped["reason"].as_str().unwrap();
        assert!(reason.contains("apt-get install"), "{reason}");
    }
    assert_eq!(processes_of(&shell), 0);

    let mut command = shell.command(&words(&["--fsync", "no", "--fault-trials", "0"]));
    let ended = Ended::of(command.env("PATH", shell.path()).output().unwrap());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.contains("Skipped: 9 of 10."),
        "{}",
        ended.stdout
    );
    for part in [
        "redis-server/no",
        "valkey-server/no",
        "etcd/1, etcd/3",
        "postgresql",
        "client/sentinel",
        "client/redis-cluster",
        "client/etcd",
        "client/postgresql",
    ] {
        let line = format!("skipped {part}: ");
        assert!(ended.stdout.contains(&line), "{part}: {}", ended.stdout);
    }
}

/// A service that does not start is named, and the others are measured.
#[test]
fn what_fails_is_named_with_its_last_words_and_keeps_its_log() {
    let shell = Shell::new();
    let program = shell.file("etcd");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exec echo 'etcd Version: 9.9'\necho 'the moon is full'\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let more = [
        "--services",
        "etcd,quorlock",
        "--fsync",
        "no",
        "--fault-trials",
        "0",
    ];
    let mut command = shell.command(&words(&more));
    let path = format!("{}:/usr/bin:/bin", shell.path().display());
    let ended = Ended::of(command.env("PATH", path).output().unwrap());
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("2 of 3 services"), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("failed etcd/1, etcd/3: "),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("the moon is full"),
        "{}",
        ended.stdout
    );
    let summary = summary(&shell);
    assert_eq!(summary["is_complete"], false);
    assert_eq!(summary["services"][0]["service"], "quorlock/no");
    let log = latest(&shell).join("services/failed-etcd-1/member-1.log");
    assert!(
        fs::read_to_string(log)
            .unwrap()
            .contains("the moon is full")
    );
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_starts() {
    let shell = Shell::new();
    for (more, code, said) in [
        (&["--services", "moon"][..], 64, "redis-server"),
        (&["--fsync", "sometimes"], 64, "no fsync mode"),
        (&["--contenders", "1"], 64, "of contenders from 2"),
        (&["--callers", "0"], 64, "number of callers"),
        (&["--fault-trials", "1000"], 64, "up to 100 times"),
        (&["--postgresql", "moon://x"], 64, "no PostgreSQL URL"),
        (&["--baseline", "nowhere"], 2, "nowhere/summary.json"),
        (&["--services", "postgresql"], 2, "nothing was compared"),
        (
            // Port 1 is nobody's.
            &[
                "--services",
                "postgresql",
                "--postgresql",
                "postgresql://me:secret@127.0.0.1:1/x",
            ],
            2,
            "127.0.0.1:1 cannot be used",
        ),
        (
            &["--system", "redis://me:secret@127.0.0.1:1"],
            64,
            "is a node and no other system",
        ),
        (
            &["--system", "etcd://127.0.0.1:1 etcd://127.0.0.1:2"],
            64,
            "two of etcd",
        ),
        (
            &[
                "--services",
                "client",
                "--system",
                "redis-cluster://me:secret@127.0.0.1:1",
            ],
            2,
            "nothing was compared",
        ),
        (
            &[
                "--services",
                "client",
                "--system",
                "redis+sentinel://me:secret@127.0.0.1:1/m",
                "--tls",
                "--cacert",
                "nowhere.pem",
            ],
            2,
            "cannot read nowhere.pem",
        ),
    ] {
        let ended = shell.quorlock(&words(more));
        assert_eq!(ended.code, Some(code), "{more:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{more:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    }
    assert!(!shell.file("runs").exists());
}

#[test]
fn an_interrupted_comparison_keeps_what_was_measured_ends_what_it_started_and_goes_on() {
    let shell = Shell::new();
    let mut run = shell.command(&OF_SIX_ROUNDS).spawn().unwrap();
    eventually("a round is on disk", || !rounds(&shell).is_empty());
    // A request to end is as good as Ctrl-C.
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    let ended = Ended::of({
        let _status = run.wait().unwrap();
        run.wait_with_output().unwrap()
    });
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    for said in [
        "interrupted",
        "go on with: quorlock experiment compare --resume",
    ] {
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
    assert!(ended.stdout.contains("NOT COMPLETE"), "{}", ended.stdout);
    assert_eq!(summary(&shell)["is_complete"], false);
    let before = rounds(&shell);
    assert!((1..6).contains(&before.len()), "{before:?}");
    assert!(!latest(&shell).join("services").exists());
    assert_eq!(processes_of(&shell), 0);

    // A disk may have less than was written, never something else.
    let steps = latest(&shell).join("steps.jsonl");
    let written = fs::read_to_string(&steps).unwrap();
    fs::write(&steps, format!("{}x\n{written}", &written[..30])).unwrap();
    let ended = shell.quorlock(&RESUME);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    for said in [
        "steps.jsonl, line 1: ",
        "The run cannot go on from a damaged file",
    ] {
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }

    // What was cut off is measured once more; the rest stays as it was.
    fs::write(&steps, format!("{written}{}", &written[..30])).unwrap();
    let ended = shell.quorlock(&RESUME);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let after = rounds(&shell);
    assert_eq!(after[..before.len()], before);
    let mut names: Vec<String> = after.iter().map(|row| name_of(row)).collect();
    names.sort();
    let all = ["quorlock/no", "quorlock/none"];
    let all = all.map(|service| [1, 2, 3].map(|number| format!("{service},{number}")));
    assert_eq!(names, all.concat());
    let summary = summary(&shell);
    assert_eq!(summary["is_complete"], true);
    for row in summary["services"].as_array().unwrap() {
        assert_eq!(row["rounds"], 3, "{row:#}");
    }
    // The report tells that its figures are of two moments.
    let page = fs::read_to_string(latest(&shell).join("report.html")).unwrap();
    assert!(page.contains("<dt>resumed</dt>"), "{page}");
}

#[test]
fn a_comparison_goes_on_with_its_own_settings_programs_and_machine() {
    let shell = Shell::new();
    let words = words(&[
        "--services",
        "quorlock",
        "--fsync",
        "none",
        "--fault-trials",
        "0",
    ]);
    let ended = shell.quorlock(&words);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    for more in [
        &["--rounds", "1"][..],
        &["--round", "2s"],
        &["--services", "etcd"],
        &["--fsync", "no"],
        &["--callers", "3"],
        &["--contenders", "3"],
        &["--fault-trials", "1"],
        &["--dir", "elsewhere"],
    ] {
        let ended = shell.quorlock(&[&RESUME, more].concat());
        assert_eq!(ended.code, Some(64), "{more:?}: {}", ended.stderr);
        for said in ["cannot be used with", "'--resume <DIR>'", more[0]] {
            assert!(ended.stderr.contains(said), "{}", ended.stderr);
        }
    }
    let plan = latest(&shell).join("compare-plan.json");
    let written = fs::read_to_string(&plan).unwrap();
    let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
    for (part, instead, said) in [
        (
            version.as_str(),
            "\"0.0.1\"",
            "quorlock/none was version \"0.0.1\"",
        ),
        (
            "\"processor\",",
            "\"another\",",
            "processor was \"\", and is",
        ),
    ] {
        let other = written.replacen(part, instead, 1);
        assert_ne!(other, written, "{part}");
        fs::write(&plan, other).unwrap();
        let ended = shell.quorlock(&RESUME);
        assert_eq!(ended.code, Some(2), "{}", ended.stdout);
        for said in [said, "begin another without --resume"] {
            assert!(ended.stderr.contains(said), "{}", ended.stderr);
        }
    }
    fs::write(&plan, written).unwrap();
    let ended = shell.quorlock(&RESUME);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(rounds(&shell).len(), 1);
    let facts = summary(&shell)["environment"].to_string();
    assert!(!facts.contains("resumed"), "nothing was left: {facts}");
    let ended = shell.quorlock(&["experiment", "compare", "--resume", "nowhere"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("nowhere/compare-plan.json"));
}

/// A round's rows, which stand one below the other.
fn rounds(shell: &Shell) -> Vec<String> {
    let table = shell.file("runs/latest-compare/rounds.csv");
    let text = fs::read_to_string(table).unwrap_or_default();
    let rows: Vec<&str> = text.lines().skip(1).collect();
    rows.chunks(2).map(|loads| loads.join("\n")).collect()
}

/// The service and the number of a round.
fn name_of(row: &str) -> String {
    row.split(',').take(2).collect::<Vec<_>>().join(",")
}

const RESUME: [&str; 4] = ["experiment", "compare", "--resume", "runs/latest-compare"];
const OF_SIX_ROUNDS: [&str; 14] = [
    "experiment",
    "compare",
    "--services",
    "quorlock",
    "--fsync",
    "no,none",
    "--rounds",
    "3",
    "--round",
    "100ms",
    "--fault-trials",
    "0",
    "--dir",
    "runs",
];
