//! What is delayed, and what is not: each test runs a small subject in a process of its own.
//!
//! The subject is this test program again, with a task in its environment. It says itself how long
//! the task took. A kernel may forbid the filter: so the tests are ignored unless they are asked for.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(clippy::print_stdout, reason = "the subject reports what it saw")]

use std::fs::OpenOptions;
use std::io::{IoSlice, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use rustix::fs::{ResolveFlags, openat2};
use rustix::io::{ReadWriteFlags, dup, fcntl_dupfd_cloexec, pwritev2};
use rustix::stdio::dup2_stdout;

use super::*;

const TASK: &str = "QUORLOCK_BENCHES_SUBJECT_TASK";
const DELAY: Duration = Duration::from_millis(5);

/// What became of a task.
struct Outcome {
    took: Duration,
    delays: Vec<Duration>,
    /// What the subject left in its file.
    content: Vec<u8>,
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
        content: fs::read(folder.path().join("file")).unwrap_or_default(),
    }
}

/// Does the task it was started for.
#[test]
#[ignore = "a part of other tests, which run it"]
fn task_of_the_subject() {
    let task = std::env::var(TASK).unwrap();
    // What is opened before, and what it prints, is no part of the task.
    let mut plain = File::create("plain").unwrap();
    let mut log = OpenOptions::new();
    log.create(true).truncate(false).write(true);
    let mut log = log.custom_flags(libc::O_DSYNC).open("file").unwrap();
    let start = clock::now();
    match task.as_str() {
        "fdatasync" => plain.sync_data().unwrap(),
        "fsync" => plain.sync_all().unwrap(),
        "plain writes" => {
            plain.write_all(b"a").unwrap();
            plain.write_all_at(b"b", 1).unwrap();
            let _ = plain.write_vectored(&[IoSlice::new(b"c")]).unwrap();
            plain.try_clone().unwrap().write_all(b"d").unwrap();
            // A number of the reserved range does not make it synchronous.
            let first = first_reserved_number().cast_signed();
            let high = fcntl_dupfd_cloexec(&plain, first).unwrap();
            File::from(high).write_all(b"e").unwrap();
        }
        "write" => log.write_all(b"abc").unwrap(),
        "writev" => assert_eq!(log.write_vectored(&[IoSlice::new(b"abc")]).unwrap(), 3),
        "three times pwrite64" => {
            for (offset, byte) in [(0, b"a"), (1, b"b"), (2, b"c")] {
                log.write_all_at(byte, offset).unwrap();
            }
        }
        "pwritev2 with a flag" => {
            let (part, flag) = (IoSlice::new(b"abc"), ReadWriteFlags::DSYNC);
            assert_eq!(pwritev2(&plain, &[part], 0, flag).unwrap(), 3);
        }
        "copies" => {
            // Each writes at the offset that all share.
            log.try_clone().unwrap().write_all(b"ab").unwrap();
            File::from(dup(&log).unwrap()).write_all(b"c").unwrap();
        }
        "ways round" => {
            assert_eq!(dup2_stdout(&log), Err(Errno::PERM));
            let flags = OFlags::WRONLY | OFlags::DSYNC;
            let opened = openat2(CWD, "file", flags, Mode::empty(), ResolveFlags::empty());
            assert_eq!(opened.unwrap_err(), Errno::NOSYS);
        }
        "failing open" => {
            let flags = OFlags::WRONLY | OFlags::DSYNC;
            let opened = openat(CWD, "missing", flags, Mode::empty());
            assert_eq!(opened.unwrap_err(), Errno::NOENT);
        }
        "two threads" => thread::scope(|scope| {
            scope.spawn(|| plain.sync_data().unwrap());
            scope.spawn(|| log.write_all_at(b"abc", 0).unwrap());
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
        ("fdatasync", 1, ""),
        ("fsync", 1, ""),
        ("pwritev2 with a flag", 1, ""),
        ("write", 1, "abc"),
        ("writev", 1, "abc"),
        ("three times pwrite64", 3, "abc"),
        ("copies", 2, "abc"),
    ];
    for (task, syncs, content) in tasks {
        let outcome = run(task, DELAY);
        assert_eq!(outcome.delays.len(), syncs, "{task}");
        let least = DELAY * u32::try_from(syncs).unwrap();
        assert!(outcome.took >= least, "{task}: {:?}", outcome.took);
        assert_eq!(outcome.content, content.as_bytes(), "{task}");
    }
}

#[test]
#[ignore = "needs a kernel that lets one process answer the system calls of another"]
fn what_does_not_sync_is_not_delayed() {
    for task in ["plain writes", "failing open", "ways round"] {
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
