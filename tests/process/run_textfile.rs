//! `quorlock run --textfile`: the metrics that a run leaves behind.

use std::fs;

use crate::run::cluster;

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
        let name = format!("quorlock_run_runs_total{{name=\"job\",outcome=\"{outcome}\"}}");
        metric(text, &name)
    };
    let (code, text) = run(&["--", "sleep", "0.2"]);
    assert_eq!((code, count(&text, "done")), (0, 1.0), "{text}");
    assert!(
        metric(&text, "quorlock_run_last_hold_seconds{name=\"job\"}") >= 0.2,
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
fn a_file_of_something_else_is_not_overwritten_and_one_that_cannot_be_written_changes_no_run() {
    let shell = cluster();
    let precious = shell.file("backup.sh");
    fs::write(&precious, "echo precious\n").unwrap();
    let run = |path: &str| shell.quorlock(&["run", "job", "--textfile", path, "--", "true"]);
    let refused = run(precious.to_str().unwrap());
    assert_eq!(refused.code, Some(64), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("nothing was sent"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_to_string(&precious).unwrap(), "echo precious\n");
    let nowhere = run("no/such/folder/job.prom");
    assert_eq!(nowhere.code, Some(0), "{}", nowhere.stderr);
    assert!(
        nowhere.stderr.contains("cannot write the textfile"),
        "{}",
        nowhere.stderr
    );
}
