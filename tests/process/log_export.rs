//! `quorlock log export`: the append-only files that are made of a log, and what is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use quorlock_testkit::{NodeProcess, eventually};

use crate::append_only::{Imported, ask, commands, exported, in_future};
use crate::log::Logged;
use crate::shell::{Ended, Shell};

/// A node that runs in a directory of its own.
fn node(lines: &[&str]) -> (Shell, NodeProcess) {
    let shell = Shell::in_memory();
    let node = NodeProcess::start(shell.path(), "node", &["--appendfsync", "always"]);
    for line in lines {
        let reply = ask(&node, line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    (shell, node)
}

fn export(shell: &Shell, options: &[&str]) -> Ended {
    let (directory, target) = (shell.file("node"), shell.file("redis"));
    let mut words = vec!["log", "export", directory.to_str().unwrap()];
    words.push(target.to_str().unwrap());
    words.extend(options);
    shell.quorlock(&words)
}

fn is_refused(shell: &Shell, code: i32, said: &[&str]) {
    let ended = export(shell, &[]);
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
    for part in said {
        assert!(
            ended.stderr.contains(part),
            "'{part}' is not said:\n{}",
            ended.stderr
        );
    }
    assert!(!shell.file("redis").exists(), "nothing was made");
}

#[test]
fn each_kind_of_key_becomes_the_commands_that_redis_writes() {
    for (line, expected) in [
        ("SET key value", "SET key value"),
        ("RPUSH key a b c", "RPUSH key a b c"),
        ("SADD key m", "SADD key m"),
        ("HSET key f 1", "HMSET key f 1"),
        ("ZADD key 1.5 m -inf n", "ZADD key -inf n 1.5 m"),
    ] {
        let (shell, mut node) = node(&[line]);
        node.stop();
        let ended = export(&shell, &[]);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains("holds 1 keys"), "{}", ended.stdout);
        assert!(!ended.stdout.contains("serve no locks"), "{}", ended.stdout);
        let bytes = exported(&shell.file("redis"));
        assert_eq!(bytes, commands(&["SELECT 0", expected]), "{line}");
        // Who reads a token can release its lock.
        let folder = shell.file("redis/appendonlydir");
        for entry in fs::read_dir(&folder).unwrap() {
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

#[test]
fn elements_are_in_commands_of_64_and_times_are_those_of_the_wall_clock() {
    let elements: Vec<String> = (0..130).map(|number| number.to_string()).collect();
    let all = format!("RPUSH list {}", elements.join(" "));
    let (shell, mut node) = node(&[&all, "PEXPIRE list 30000", "SET ended token PX 1"]);
    let end = in_future(Duration::from_secs(30));
    ask(&node, "SELECT 0");
    eventually("the key ends", || ask(&node, "EXISTS ended") == ":0");
    node.stop();
    let report = export(&shell, &["--json"]).json();
    assert_eq!(
        (&report["keys"], &report["same_boot"]),
        (&1.into(), &true.into()),
        "{report}"
    );
    let bytes = String::from_utf8(exported(&shell.file("redis"))).unwrap();
    let mut expected = commands(&["SELECT 0"]);
    for part in elements.chunks(64) {
        expected.extend(commands(&[&format!("RPUSH list {}", part.join(" "))]));
    }
    let expected = String::from_utf8(expected).unwrap();
    let rest = bytes.strip_prefix(&expected).unwrap();
    let end_ms: u128 = rest.lines().last().unwrap().parse().unwrap();
    assert!(rest.contains("PEXPIREAT"), "{rest}");
    assert!(end_ms.abs_diff(end) < 3000, "{end_ms} and {end}");
}

#[test]
fn what_is_exported_and_imported_again_is_the_same() {
    let (shell, mut node) = node(&[
        "SET string value",
        "SET lock token PX 60000",
        "HSET hash f 1 g 2",
        "ZADD ranks 0.1 m 1e300 n",
        "SADD set a b c",
        "RPUSH list z y x",
    ]);
    let asked = [
        "GET string",
        "GET lock",
        "HGETALL hash",
        "ZRANGE ranks 0 -1 WITHSCORES",
        "LRANGE list 0 -1",
        "SCARD set",
        "DBSIZE",
    ];
    let before: Vec<String> = asked.iter().map(|line| ask(&node, line)).collect();
    node.stop();
    assert_eq!(export(&shell, &[]).code, Some(0));
    let imported = Imported::new();
    let bytes = exported(&shell.file("redis"));
    fs::remove_dir(imported.source().join("appendonlydir")).unwrap();
    fs::write(imported.source().join("appendonly.aof"), bytes).unwrap();
    let again = imported.served(&[]);
    let after: Vec<String> = asked.iter().map(|line| ask(&again, line)).collect();
    assert_eq!(before, after);
    let left_ms: u64 = ask(&again, "PTTL lock")[1..].parse().unwrap();
    assert!((30_000..=60_000).contains(&left_ms), "{left_ms}");
}

#[test]
fn what_redis_has_no_form_for_is_refused_or_left_out_on_request() {
    let (shell, mut shared) = node(&["SET key value", "LOCK.ACQUIRE lock token 30000 SHARED"]);
    shared.stop();
    is_refused(
        &shell,
        2,
        &[
            "the key lock in database 0",
            "held shared",
            "--skip-unsupported",
        ],
    );
    let report = export(&shell, &["--skip-unsupported", "--json"]).json();
    assert_eq!(
        (&report["keys"], &report["shared_locks"]),
        (&1.into(), &1.into()),
        "{report}"
    );

    let (shell, mut fenced) = node(&["LOCK.ACQUIRE lock token 30000", "LOCK.FENCE lock token 7"]);
    fenced.stop();
    is_refused(&shell, 2, &["fences up to ", "--skip-unsupported"]);
    let ended = export(&shell, &["--skip-unsupported"]);
    assert!(
        ended.stdout.contains("fences were left out"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn a_node_that_runs_a_log_that_is_refused_and_a_target_that_is_not_empty_are_refused() {
    let (shell, mut running) = node(&["SET key value"]);
    is_refused(&shell, 1, &["a node runs", "Stop it first"]);
    running.kill();
    // It was killed: what it may have forgotten has to be waited out, and Redis does not do that.
    let report = export(&shell, &["--json"]).json();
    assert_eq!(report["keys"], 1, "{report}");
    let ended = export(&shell, &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stderr.contains("is not empty"), "{}", ended.stderr);

    let logged = Logged::killed();
    let (begin, end) = logged.frames(1)[5];
    logged.edit(1, |bytes| bytes[begin..end].fill(0));
    let refused = export(&logged.shell, &[]);
    assert_eq!(
        refused.code,
        Some(2),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
    assert!(
        refused.stderr.contains("a start refuses this log"),
        "{}",
        refused.stderr
    );
    assert!(!logged.shell.file("redis").exists());

    let shell = Shell::in_memory();
    fs::create_dir(shell.file("node")).unwrap();
    is_refused(&shell, 66, &["holds no log"]);
}

#[test]
fn the_delay_that_redis_does_not_wait_is_said() {
    let shell = Shell::in_memory();
    let mut node = NodeProcess::start(shell.path(), "node", &["--appendfsync", "everysec"]);
    assert_eq!(ask(&node, "SET lock token PX 20000"), "+OK");
    node.kill();
    let ended = export(&shell, &[]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    for part in ["the node itself would serve no locks for ", "unclean stop"] {
        assert!(
            ended.stdout.contains(part),
            "'{part}' is not said:\n{}",
            ended.stdout
        );
    }
}
