//! `quorlock run --permits`: as many commands at once as there are permits.

use std::fs;
use std::time::Duration;

use quorlock_testkit::{Process, Wire, pause};

use crate::locks::addresses;
use crate::run::cluster;

#[test]
fn each_command_sees_a_permit_of_its_own_and_one_too_many_is_busy() {
    let shell = cluster();
    let program = quorlock_testkit::binary::quorlock();
    let program = program.display();
    let permit = "echo $QUORLOCK_PERMIT $QUORLOCK_NAME";
    // The lock of the same name is another one.
    let second = format!(
        "{permit}; {program} run a --permits 2 -n -- echo third || echo $?; {program} run a -n -- echo lock"
    );
    fs::write(shell.file("second.sh"), second).unwrap();
    let script = format!("{permit}; {program} run a --permits 2 -n -- sh second.sh");
    let ended = shell.quorlock(&["run", "a", "--permits", "2", "--", "sh", "-c", &script]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let mut seen = [lines[0], lines[1]];
    seen.sort_unstable();
    assert_eq!(seen, ["0 a:permit:0", "1 a:permit:1"], "{}", ended.stdout);
    assert_eq!(lines[2..], ["75", "lock"], "{}", ended.stdout);
    assert!(ended.stderr.contains("'a' is held by"), "{}", ended.stderr);
    // All are free again, and what is printed for a shell has the permit.
    let held = shell.quorlock(&["run", "a", "--permits", "1", "-n", "--max-hold", "300ms"]);
    assert_eq!(held.code, Some(70), "{}", held.stderr);
    assert!(
        held.stdout.contains("export QUORLOCK_PERMIT='0'"),
        "{}",
        held.stdout
    );
    assert!(
        held.stdout.contains("export QUORLOCK_NAME='a:permit:0'"),
        "{}",
        held.stdout
    );
}

/// How often the nodes together have executed these commands.
fn asked(urls: &[String], commands: &[&str]) -> u64 {
    let pages = urls
        .iter()
        .map(|url| Wire::connect(url.as_str()).ask("INFO commandstats"));
    let calls_on = |page: String| -> u64 {
        let calls = page.lines().filter_map(|line| {
            let (command, fields) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let (calls, _) = fields.split_once(',')?;
            commands
                .contains(&command)
                .then(|| calls.parse::<u64>().unwrap())
        });
        calls.sum()
    };
    pages.map(calls_on).sum()
}

/// What a call asks nodes that waits for a lock.
const FOR_LOCKS: &[&str] = &[
    "set",
    "get",
    "exists",
    "pttl",
    "eval",
    "evalsha",
    "lock.acquire",
    "lock.wait",
    "lock.unwait",
];

#[test]
fn who_waits_for_a_permit_asks_little_and_is_woken() {
    let shell = cluster();
    let urls = addresses(&shell);
    let take = |index: usize| format!("SET a:permit:{index} somebody PX 600000");
    let say = |words: &str| {
        for url in &urls {
            Wire::connect(url.as_str()).ask(words);
        }
    };
    (0..3).for_each(|index| say(&take(index)));
    let words = [
        "run",
        "a",
        "--permits",
        "3",
        "--",
        "sh",
        "-c",
        "echo permit $QUORLOCK_PERMIT",
    ];
    let mut waiting = Process::start(&mut shell.command(&words), &shell.file("run.out")).unwrap();
    waiting.await_line("waiting for 'a'");
    assert!(
        asked(&urls, &["lock.wait"]) >= 3,
        "it stands in the line of each permit"
    );
    let before = asked(&urls, FOR_LOCKS);
    pause(Duration::from_secs(4));
    let during = asked(&urls, FOR_LOCKS) - before;
    // It looks after one, three and seven seconds, with two requests each, and then seldom. A call that polls asks three
    // nodes and more eight times a second.
    assert!(during <= 10, "{during} requests in four seconds");
    say("DEL a:permit:1");
    waiting.await_line("permit 1");
    assert!(waiting.await_end().success());
}

#[test]
fn numbers_of_permits_that_cannot_be_are_wrong_usage() {
    let shell = cluster();
    for count in ["0", "1025", "-1", "many"] {
        let permits = format!("--permits={count}");
        let ended = shell.quorlock(&["run", "a", &permits, "--", "true"]);
        assert_eq!(ended.code, Some(64), "{count}: {}", ended.stderr);
        assert!(ended.stderr.contains("--permits"), "{}", ended.stderr);
    }
}
