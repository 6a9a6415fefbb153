//! More locks, keys and readers than a table shows, and more tokens than holders: what `locks`, `who` and `force-release` do with them.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use quorlock_testkit::{Connection, Wire, observed_now, request};
use serde_json::Value;

use crate::locks::{addresses, five};
use crate::shell::{Ended, Shell};

/// Sends so many commands to each of the nodes, one behind the other without waiting for their replies.
fn send_all(shell: &Shell, count: usize, words: impl Fn(usize) -> Vec<String>) {
    for address in addresses(shell) {
        let mut connection = Connection::open(address.as_str()).unwrap();
        for first in (0..count).step_by(PIPELINE) {
            let numbers = first..count.min(first + PIPELINE);
            let requests: Vec<u8> = numbers
                .clone()
                .flat_map(|number| request(&words(number)))
                .collect();
            connection.send(&requests).unwrap();
            for number in numbers {
                let reply = connection.reply().unwrap().to_string();
                assert!(!reply.starts_with('-'), "{number}: {reply}");
            }
        }
    }
}

fn words(text: String) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

const PIPELINE: usize = 500;

/// Nodes name 1,000 readers, those with the least tokens.
#[test]
fn a_reader_whom_no_node_names_is_ended_by_force_all_the_same() {
    let shell = five();
    let acquire = |number| format!("LOCK.ACQUIRE doc reader-{number:04} 60000 SHARED");
    send_all(&shell, 1_100, |number| words(acquire(number)));
    let force = |token: &str| {
        let words = ["force-release", "doc", "--yes", "--token", token, "--json"];
        shell.quorlock(&words)
    };
    let ended = force("reader-1099");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = ended.json();
    assert_eq!(ended["freed"], 5);
    assert_eq!(ended["stay"], 1_099);
    let again = force("reader-1099");
    assert_eq!(again.code, Some(70), "{}", again.stderr);
    let who = shell.quorlock(&["who", "doc", "--json"]).json();
    assert_eq!(who["holder_count"], 1_099, "no other has gone");
    let shown = force("reader-0000").json();
    assert_eq!(shown["stay"], 1_098);
    let said = shell.quorlock(&["force-release", "doc", "--yes", "--token", "reader-1098"]);
    assert!(
        said.stdout.contains("1097 other readers hold it still"),
        "{}",
        said.stdout
    );
}

/// Each node names another client of a program of Redisson's. What a dead program has left looks like a part of the holder, where the thread
/// has the same number.
#[test]
fn of_what_looks_like_one_program_only_the_tokens_that_are_named_are_ended() {
    let shell = five();
    let field = |program: usize, node: usize| format!("{node:08x}-3d45-4b1e-9a37-{program:012x}:1");
    for (node, address) in addresses(&shell).iter().enumerate() {
        let field = field(if node < 3 { 1 } else { 2 }, node);
        let mut wire = Wire::connect(address.as_str());
        assert_eq!(wire.ask(&format!("HSET job {field} 1")), ":1");
        assert_eq!(wire.ask("PEXPIRE job 60000"), ":1");
    }
    let force = |tokens: &[String]| {
        let tokens = tokens.iter().flat_map(|token| ["--token", token.as_str()]);
        let words = ["force-release", "job", "--yes"].into_iter().chain(tokens);
        shell.quorlock(&words.collect::<Vec<&str>>())
    };
    let unnamed = force(&[]);
    assert_eq!(unnamed.code, Some(64), "{}", unnamed.stdout);
    assert!(unnamed.stderr.contains("--token"), "{}", unnamed.stderr);
    let one = field(2, 3);
    let ended = shell.quorlock(&["force-release", "job", "--yes", "--json", "--token", &one]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = ended.json();
    assert_eq!(ended["freed"], 1, "{ended}");
    assert_eq!(ended["under_another_token"], 4, "{ended}");
    let ended = force(&[field(2, 3), field(2, 4)]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let said = "released on 1 of 5 nodes; under another token it is on 3 of 5 nodes";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    let who = shell.quorlock(&["who", "job"]);
    assert_eq!(who.code, Some(0), "the holder keeps it: {}", who.stdout);
    let held: Vec<String> = (0..3).map(|node| field(1, node)).collect();
    let ended = force(&held);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(shell.quorlock(&["who", "job"]).code, Some(1));
}

/// Both the pages of LOCK.LIST, where most keys are no locks, and the names of more locks than are shown by default.
#[test]
fn ten_thousand_locks_among_many_other_keys_are_all_counted() {
    let shell = five();
    send_all(&shell, 20_000, |number| {
        words(format!("SET cached:{number} value"))
    });
    send_all(&shell, 10_000, |number| {
        words(format!("SET lock:{number:05} token-{number} NX PX 600000"))
    });
    let last = |ended: &Ended| -> Value {
        let line = ended.stdout.lines().last().unwrap();
        serde_json::from_str(line).unwrap()
    };
    let all = shell.quorlock(&["locks", "--json"]);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    assert_eq!(all.stdout.lines().count(), 10_001);
    let counts = last(&all);
    assert_eq!(counts["locks"], 10_000);
    assert_eq!(counts["held"], 10_000);
    assert_eq!(counts["complete"], true);
    assert_eq!(counts["without_ttl"], 20_000);
    let some = shell.quorlock(&["locks", "lock:0000*", "--json"]);
    assert_eq!(last(&some)["locks"], 10);
    let cut = shell.quorlock(&["locks", "--all", "--limit", "50", "--json"]);
    assert_eq!(last(&cut)["complete"], false);
    assert!(
        cut.stderr.contains("there are more locks"),
        "{}",
        cut.stderr
    );
}

/// The command with so much address space, and its output in a file. How many lines that has, the last one, and how long it took.
fn bounded(shell: &Shell, words: &[&str]) -> (usize, String, Duration) {
    let inner = shell.command(words);
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--as={ADDRESS_SPACE}"))
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(shell.path())
        .stdin(Stdio::null())
        .stdout(File::create(shell.file("locks.out")).unwrap());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let began = observed_now();
    let ended = Ended::of(command.output().unwrap());
    let took = observed_now() - began;
    assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
    let lines = BufReader::new(File::open(shell.file("locks.out")).unwrap()).lines();
    let (mut count, mut last) = (0, String::new());
    for line in lines {
        count += 1;
        last = line.unwrap();
    }
    eprintln!("{words:?}: {count} lines in {took:?}");
    (count, last, took)
}

/// What an operator asks at such a moment: the first of them, some by a pattern, which is looked for among all, and more than are shown.
/// A debug build on two busy cores took 10 s and 35 MiB for the first, and 29 s and 27 MiB for the second.
#[test]
#[ignore = "a measurement of some minutes, in .ci/full"]
fn a_million_locks_are_looked_at_in_bounded_time_and_memory() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0", "--ephemeral"]);
    send_all(&shell, 1_000_000, |number| {
        words(format!("SET lock:{number:06} token-{number} NX PX 7200000"))
    });
    let first = bounded(&shell, &["locks"]);
    assert!(first.1.contains("10000 locks, 10000 held"), "{}", first.1);
    assert!(first.2 < Duration::from_secs(30), "{:?}", first.2);
    let some = bounded(&shell, &["locks", "lock:12345?", "--json"]);
    assert_eq!(some.0, 11);
    assert!(some.2 < Duration::from_secs(120), "{:?}", some.2);
    let many = bounded(&shell, &["locks", "--limit", "100000", "--json"]);
    assert_eq!(many.0, 100_001);
    let counts: Value = serde_json::from_str(&many.1).unwrap();
    assert_eq!(counts["held"], 100_000);
    assert_eq!(counts["complete"], false);
    assert!(many.2 < Duration::from_secs(300), "{:?}", many.2);
}

/// Threads and their heaps reserve most of it.
const ADDRESS_SPACE: usize = 1 << 30;
