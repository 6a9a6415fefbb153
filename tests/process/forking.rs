//! A real fork of a program that holds a lock: the child's calls fail at once, and the parent's lock is left alone.
//!
//! The program is this test again, in a process of its own: what a fork copies of other tests' locks and threads must not
//! decide it. The child calls what a program would call, and says with its exit code what was wrong.

#![allow(
    unsafe_code,
    reason = "fork has no safe form: the child has a copy of locks whose holders stayed behind"
)]

use std::process::Command;
use std::time::Duration;

use quorlock_client::{AcquireError, ExtendError, Redlock, Token, blocking};
use quorlock_testkit::becomes_so;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::run::{addresses, cluster};
use crate::shell::Shell;

/// The nodes, for the process that forks.
const INSIDE: &str = "QUORLOCK_TEST_FORKS";

#[test]
fn a_child_of_a_fork_fails_at_once_and_leaves_its_parents_lock_alone() {
    let this = "forking::a_child_of_a_fork_fails_at_once_and_leaves_its_parents_lock_alone";
    if let Ok(nodes) = std::env::var(INSIDE) {
        return hold_and_fork(&nodes);
    }
    let shell: Shell = cluster();
    let mut inside = Command::new(std::env::current_exe().unwrap());
    inside.args(["--exact", this, "--test-threads=1"]);
    let output = inside.env(INSIDE, addresses(&shell).join(",")).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

fn hold_and_fork(nodes: &str) {
    let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
    let nodes: Vec<String> = nodes.collect();
    let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
    let redlock = blocking::Redlock::from(redlock);
    let ttl = Duration::from_secs(30);
    let guard = redlock.lock("forked").ttl(ttl).acquire().unwrap();
    let token = guard.token().clone();
    // SAFETY: the child runs in a copy of the one thread that calls. It calls the client, which refuses it before it waits
    // for the thread that stayed behind, builds one of its own, and ends the process. glibc hands it an allocator that no other thread holds.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let wrong = first_wrong(&nodes, &redlock, guard, &token);
        // SAFETY: nothing of the parent's runs at the end of this copy.
        unsafe { libc::_exit(wrong) };
    }
    let child = Pid::from_raw(child).unwrap();
    let mut ended = None;
    let is_quick = becomes_so(Duration::from_secs(10), || {
        ended = waitpid(Some(child), WaitOptions::NOHANG).unwrap();
        ended.is_some()
    });
    if !is_quick {
        kill_process(child, Signal::KILL).unwrap();
        panic!("the child waits for a thread that it has not");
    }
    let (_, status) = ended.unwrap();
    assert_eq!(status.exit_status(), Some(0), "see `first_wrong`");
    assert!(guard.is_valid());
    guard.extend().unwrap();
    let other = redlock.lock("forked").wait(quorlock_client::Wait::None);
    assert!(matches!(other.acquire(), Err(AcquireError::Busy { .. })));
    let release = guard.release_everywhere();
    assert!(release.is_free() && !release.was_lost(), "{release}");
}

/// What the child sees: zero where all is as it should be, else the number of the first thing that is not.
fn first_wrong(
    nodes: &[String],
    redlock: &blocking::Redlock,
    guard: blocking::Guard,
    token: &Token,
) -> i32 {
    let ttl = Duration::from_secs(30);
    let is_refused = |name: &str| {
        matches!(
            redlock.lock(name).acquire(),
            Err(AcquireError::Invalid { .. })
        )
    };
    if !is_refused("forked") || !is_refused("another") {
        return 1;
    }
    if guard.is_valid() || guard.loss().is_none() {
        return 2;
    }
    let extended = redlock.extend("forked", token, ttl);
    if !matches!(extended, Err(ExtendError::Invalid { .. })) || guard.extend().is_ok() {
        return 3;
    }
    let release = redlock.release("forked", token);
    if release.is_free() {
        return 4;
    }
    // Dropped, and nothing is released: the parent looks.
    drop(guard);
    redlock.settle();
    redlock.clone().close();
    // A client that is built after the fork has a thread here.
    let built = Redlock::builder().nodes(nodes).build();
    let Ok(built) = built.map(blocking::Redlock::from) else {
        return 5;
    };
    let guard = built.lock("child").ttl(ttl).acquire();
    if !guard.is_ok_and(|guard| guard.extend().is_ok() && guard.release().released()) {
        return 6;
    }
    built.close();
    0
}
