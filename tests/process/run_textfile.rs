//! `quorlock run --textfile`: the metrics that a run leaves behind.

use std::fs;

use quorlock_testkit::{binary, eventually};

use crate::run::cluster;
use crate::shell::await_end;

#[test]
fn runs_are_counted_by_what_they_came_to_from_one_process_to_the_next() {
    let shell = cluster();
    let file = shell.file("job.prom");
    let path = file.to_str().unwrap();
    let run = |words: &[&str]| {
        let ended = shell.quorlock(&[&["run", "job", "--textfile", path], words].concat());
        let text = fs::read_to_string(&file).unwrap();
        (ended.code.unwrap(), text)
    };
    let metric = |text: &str, name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value
            .unwrap_or_else(|| panic!("{name}: {text}"))
            .parse()
            .unwrap()
    };
    let count = |text: &str, outcome: &str| {
        let name =
            format!("quorlock_run_runs_total{{run=\"job\",name=\"job\",outcome=\"{outcome}\"}}");
        metric(text, &name)
    };
    let (code, text) = run(&["--", "sleep", "0.2"]);
    assert_eq!((code, count(&text, "done")), (0, 1.0), "{text}");
    assert!(
        metric(
            &text,
            "quorlock_run_last_hold_seconds{run=\"job\",name=\"job\"}"
        ) >= 0.2,
        "{text}"
    );
    let success = metric(&text, "quorlock_run_last_success_timestamp_seconds");
    let (code, text) = run(&["--", "sh", "-c", "exit 3"]);
    assert_eq!((code, count(&text, "failed")), (3, 1.0), "{text}");
    assert_eq!(metric(&text, "quorlock_run_last_exit_code"), 3.0);
    assert_eq!(
        metric(&text, "quorlock_run_last_success_timestamp_seconds"),
        success
    );
    shell.succeed(&["acquire", "job", "--ttl", "1h"]);
    let (code, text) = run(&["--no-wait", "--busy-ok", "--", "true"]);
    assert_eq!((code, count(&text, "busy")), (0, 1.0), "{text}");
    let (code, text) = run(&["--no-wait", "-E", "9", "--", "true"]);
    assert_eq!(
        (code, count(&text, "busy"), count(&text, "done")),
        (9, 2.0, 1.0),
        "{text}"
    );
    assert_eq!(metric(&text, "quorlock_run_last_exit_code"), 9.0);
    assert_eq!(metric(&text, "quorlock_run_last_hold_seconds"), 0.0);
}

#[test]
fn runs_that_wait_for_each_other_are_all_counted_and_the_last_success_stays() {
    let shell = cluster();
    let file = shell.file("job.prom");
    let path = file.to_str().unwrap();
    let run = |rest: &[&str]| shell.command(&[&["run", "job", "--textfile", path], rest].concat());
    let mut first = run(&["--", "sleep", "1"]).spawn().unwrap();
    eventually("it holds the lock", || {
        shell.quorlock(&["who", "job"]).stdout.contains(": sleep")
    });
    // It began before the first one has ended, and ends behind it.
    let mut second = run(&["--", "sh", "-c", "exit 1"]).spawn().unwrap();
    let busy = run(&["--no-wait", "--busy-ok", "--", "true"])
        .status()
        .unwrap();
    assert!(busy.success());
    assert!(await_end(&mut first).success());
    await_end(&mut second);
    let text = fs::read_to_string(&file).unwrap();
    for outcome in ["done", "busy", "failed"] {
        let line = format!("{{run=\"job\",name=\"job\",outcome=\"{outcome}\"}} 1\n");
        assert!(text.contains(&line), "{outcome}: {text}");
    }
    assert!(
        text.contains("quorlock_run_last_success_timestamp_seconds{"),
        "{text}"
    );
}

#[test]
fn nothing_but_a_file_of_runs_is_overwritten() {
    let shell = cluster();
    let run = |path: &str| shell.quorlock(&["run", "job", "--textfile", path, "--", "true"]);
    let at = |name: &str| shell.file(name);
    fs::write(at("precious.prom"), "echo precious\n").unwrap();
    std::os::unix::fs::symlink(at("precious.prom"), at("link.prom")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("pipe.prom"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    fs::create_dir(at("folder.prom")).unwrap();
    for name in [
        "precious.prom",
        "link.prom",
        "pipe.prom",
        "folder.prom",
        "none/a.prom",
        "a.txt",
    ] {
        let refused = run(at(name).to_str().unwrap());
        assert_eq!(refused.code, Some(64), "{name}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("nothing was sent"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(
        fs::read_to_string(at("precious.prom")).unwrap(),
        "echo precious\n"
    );
}

#[test]
fn a_draft_that_is_a_link_leads_to_no_other_file() {
    let shell = cluster();
    fs::write(shell.file("victim"), "precious").unwrap();
    // Another user of the folder guesses the name of the draft.
    let script = "ln -s victim job.prom.$$; exec \"$0\" run job --textfile job.prom -- true";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).arg(binary::quorlock());
    command
        .current_dir(shell.path())
        .env_remove("QUORLOCK_NODES");
    assert!(command.status().unwrap().success());
    assert_eq!(
        fs::read_to_string(shell.file("victim")).unwrap(),
        "precious"
    );
    assert!(
        fs::symlink_metadata(shell.file("job.prom"))
            .unwrap()
            .is_file()
    );
}
