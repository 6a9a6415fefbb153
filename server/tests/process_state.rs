//! What a node touches of what its program shares: nothing but threads of its own. A program by itself, whose threads are all
//! known, and without a runtime.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::env;
use std::fs;

use quorlock_server::Node;
use quorlock_testkit::{block_on, eventually};

/// The names of all threads, in order. One that ends meanwhile has none.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    let mut names: Vec<String> = names.map(|name| name.trim_end().to_owned()).collect();
    names.sort();
    names
}

/// How signals are treated, the umask, the current directory and the environment.
fn shared() -> Vec<String> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let is_shared = |line: &&str| line.starts_with("Sig") || line.starts_with("Umask");
    // How many signals are queued changes by itself.
    let lines = status.lines().filter(is_shared);
    let lines = lines.filter(|line| !line.starts_with("SigQ"));
    let mut all: Vec<String> = lines.map(str::to_owned).collect();
    assert!(all.len() > 3, "{all:?}");
    all.push(format!("{:?}", env::current_dir().unwrap()));
    all.extend(env::vars_os().map(|variable| format!("{variable:?}")));
    all
}

#[test]
fn a_node_has_threads_of_its_own_and_touches_nothing_that_its_program_shares() {
    let (before, others) = (shared(), threads());
    let builder = Node::builder().ephemeral().directive("workers", &["2"]);
    let node = block_on(builder.start()).unwrap();
    block_on(node.call(["PING"])).unwrap();
    let own = [
        "quorlock-0",
        "quorlock-1",
        "quorlock-local",
        "quorlock-log",
        "quorlock-node",
    ];
    // A thread has its name once it runs.
    eventually("these are its threads", || {
        let all = threads();
        let named = all.iter().filter(|name| name.starts_with("quorlock-"));
        all.len() == others.len() + own.len() && named.eq(own.iter())
    });
    assert_eq!(shared(), before);
    block_on(node.stop()).unwrap();
    eventually("its threads end", || threads() == others);
    assert_eq!(shared(), before);
}
