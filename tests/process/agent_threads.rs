//! The threads of `quorlock agent`.

use std::fs;

use crate::agent::agent;
use crate::run::cluster;

/// The names of a process's threads.
fn threads(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap();
    tasks
        .map(|task| name(task.unwrap()).trim_end().to_owned())
        .collect()
}

/// So no other thread is woken between a request and its reply.
#[test]
fn callers_are_served_on_the_thread_that_asks_the_nodes() {
    let shell = cluster();
    let count =
        |names: &[String], name: &str| names.iter().filter(|it| it.starts_with(name)).count();
    for (directives, workers) in [(&[][..], 0), (&["--", "--workers", "2"], 2)] {
        let (agent, mut wire) = agent(&shell, directives, "agent.log");
        assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
        let names = threads(agent.id());
        let of_workers = count(&names, "quorlock-0") + count(&names, "quorlock-1");
        assert_eq!(of_workers, workers, "{names:?}");
        assert_eq!(count(&names, "quorlock-client"), 1, "{names:?}");
        assert_eq!(wire.ask("DEL job"), ":1");
    }
}
