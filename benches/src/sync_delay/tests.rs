//! What is delayed, and what is not: each test runs a small subject in a process of its own.
//!
//! The subject is this test program again, with a task in its environment. It says itself how long
//! the task took. A kernel may forbid the filter: so the tests are ignored unless they are asked for.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(clippy::print_stdout, reason = "the subject reports what it saw")]

use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::AsFd;
use std::process::Stdio;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{ReadWriteFlags, pwritev2};

use super::*;

const TASK: &str = "QUORLOCK_BENCHES_SUBJECT_TASK";
const DELAY: Duration = Duration::from_millis(5);

/// What became of a task.
struct Outcome {
    took: Duration,
    delays: Vec<Duration>,
}

/// Runs one task of the subject.
fn run(task: &str, delay: Duration) -> Outcome {
    SyncDelay::probe().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "sync_delay::tests::task_of_the_subject",
            "--ignored",
            "--nocapture",
        ])
        .env(TASK, task)
        .current_dir(folder.path())
        .stdout(Stdio::piped());
    let (child, sync_delay) =
        SyncDelay::start(&mut command, delay, Cores::choose().unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{task}: {text}");
    let took = text.lines().find_map(|line| line.split_once("took_ns="));
    let took = took.unwrap_or_else(|| panic!("{task}: {text}")).1;
    Outcome {
        took: Duration::from_nanos(took.trim().parse().unwrap()),
        delays: sync_delay.take_seen(),
    }
}

/// Does the task it was started for.
#[test]
#[ignore = "a part of other tests, which run it"]
fn task_of_the_subject() {
    let task = std::env::var(TASK).unwrap();
    // What is opened before, and what it prints, is no part of the task.
    let mut file = File::create("file").unwrap();
    let range = |flags| kernel::sync_file_range(file.as_fd(), flags).unwrap();
    let start = clock::now();
    match task.as_str() {
        "fdatasync" => file.sync_data().unwrap(),
        "fsync" => file.sync_all().unwrap(),
        "sync_file_range" => range(libc::SYNC_FILE_RANGE_WAIT_AFTER),
        "sync" => rustix::fs::sync(),
        "pwritev2 with a flag" => {
            let (part, flag) = (IoSlice::new(b"abc"), ReadWriteFlags::DSYNC);
            assert_eq!(pwritev2(&file, &[part], 0, flag).unwrap(), 3);
        }
        "three syncs" => (0..3).for_each(|_| file.sync_data().unwrap()),
        "plain writes" => {
            range(libc::SYNC_FILE_RANGE_WRITE);
            file.write_all(b"a").unwrap();
            let _ = file.write_vectored(&[IoSlice::new(b"b")]).unwrap();
            let (part, flag) = (IoSlice::new(b"c"), ReadWriteFlags::empty());
            assert_eq!(pwritev2(&file, &[part], 0, flag).unwrap(), 1);
        }
        "ways round" => {
            for flag in [OFlags::DSYNC, OFlags::SYNC] {
                let opened = openat(CWD, "file", OFlags::WRONLY | flag, Mode::empty());
                assert_eq!(opened.unwrap_err(), Errno::OPNOTSUPP);
            }
            let flags = OFlags::WRONLY | OFlags::DSYNC;
            let opened = openat2(CWD, "file", flags, Mode::empty(), ResolveFlags::empty());
            assert_eq!(opened.unwrap_err(), Errno::NOSYS);
        }
        "two threads" => thread::scope(|scope| {
            scope.spawn(|| file.sync_data().unwrap());
            scope.spawn(|| file.sync_all().unwrap());
        }),
        _ => panic!("no such task: {task}"),
    }
    let took = clock::now().saturating_sub(start);
    println!("\ntook_ns={}", took.as_nanos());
}

#[test]
#[ignore = "needs a kernel that lets one process answer the system calls of another"]
fn every_way_to_sync_is_delayed() {
    let tasks = [
        ("fdatasync", 1),
        ("fsync", 1),
        ("sync_file_range", 1),
        ("sync", 1),
        ("pwritev2 with a flag", 1),
        ("three syncs", 3),
    ];
    for (task, syncs) in tasks {
        let outcome = run(task, DELAY);
        assert_eq!(outcome.delays.len(), syncs, "{task}");
        let least = DELAY * u32::try_from(syncs).unwrap();
        assert!(outcome.took >= least, "{task}: {:?}", outcome.took);
    }
}

#[test]
#[ignore = "needs a kernel that lets one process answer the system calls of another"]
fn what_does_not_sync_is_not_delayed() {
    for task in ["plain writes", "ways round"] {
        let outcome = run(task, DELAY);
        assert!(outcome.delays.is_empty(), "{task}");
    }
}

#[test]
#[ignore = "needs a kernel that lets one process answer the system calls of another"]
fn syncs_of_two_threads_run_side_by_side() {
    // So long that a loaded machine does not pass for the second delay.
    let delay = Duration::from_secs(1);
    let outcome = run("two threads", delay);
    assert_eq!(outcome.delays.len(), 2);
    let took = outcome.took;
    assert!(took >= delay && took < 2 * delay, "{took:?}");
}
