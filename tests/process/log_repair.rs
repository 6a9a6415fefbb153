//! `quorlock log repair`: what it explains, what it cuts, and what the node does afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::log::Logged;

/// A killed node's log in which the sixth of its frames is lost though it was durable.
fn damaged() -> (Logged, u64) {
    let logged = Logged::killed();
    let (begin, end) = logged.frames(1)[5];
    logged.edit(1, |bytes| bytes[begin..end].fill(0));
    (logged, begin as u64)
}

/// Every file below a directory with its content; the lock holds the id of whoever had it last.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(directory)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name != "quorlock.lock" {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn without_the_operators_flag_it_explains_and_changes_nothing() {
    let (logged, begin) = damaged();
    let before = files(&logged.directory);
    let ended = logged.log("repair", &[]);
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    for part in [
        &format!("segment-0000000001.segment at offset {begin}"),
        "kept would be everything up to position 5",
        "serves no locks for at least 60 s",
        "Locks without TTL",
        "Nothing was changed",
        "--accept-lost-locks",
    ] {
        assert!(
            ended.stdout.contains(part),
            "'{part}' in:\n{}",
            ended.stdout
        );
    }
    let value = logged.log("repair", &["--json"]).json();
    assert_eq!(value["repaired"], false);
    assert_eq!(value["kept_position"], 5);
    assert_eq!(value["cut_offset"].as_u64(), Some(begin));
    assert_eq!(files(&logged.directory), before);
    assert_eq!(logged.check()["state"], "refused");
}

#[test]
fn a_repaired_node_waits_the_cap_and_says_why() {
    let (mut logged, _) = damaged();
    let before = files(&logged.directory);
    let value = logged
        .log("repair", &["--accept-lost-locks", "--json"])
        .json();
    assert_eq!(value["repaired"], true, "{value}");
    let folder = value["folder"].as_str().unwrap();
    let kept = fs::read(Path::new(folder).join("segment-0000000001.segment")).unwrap();
    assert_eq!(&kept, &before["segment-0000000001.segment"]);

    let found = logged.check();
    assert_eq!(found["state"], "whole", "{found}");
    let reason = "the log was repaired: durable data was lost";
    assert_eq!(found["next_start"]["last_stop"], reason);
    let again = logged.log("repair", &["--accept-lost-locks"]);
    assert_eq!(again.code, Some(0));
    assert!(
        again.stdout.contains("nothing to repair"),
        "{}",
        again.stdout
    );

    // Every grant was for 30 s, and the kept promise says so. The cap counts, and nothing shorter, whatever
    // the configuration says now; a crash and a clean stop in the delay do not end it.
    for stop in [true, false, true] {
        logged.node.start_again();
        let reply = logged
            .node
            .ask(&["SET", "lock:1", "mine", "NX", "PX", "1000"])
            .unwrap();
        assert!(reply.starts_with("-RESTARTDELAY"), "{reply}");
        assert!(reply.contains(reason), "{reply}");
        let field = reply.split(' ').nth(1);
        let left_ms: u64 = field.and_then(|field| field.parse().ok()).unwrap();
        assert!((45_000..=61_300).contains(&left_ms), "{reply}");
        if stop {
            logged.node.stop();
        } else {
            logged.node.kill();
        }
    }
    let log = logged.node.log();
    assert!(log.contains(reason), "{log}");
}

#[test]
fn incarnations_and_positions_go_on_behind_everything_that_was_cut() {
    let (mut logged, _) = damaged();
    // The header of the only segment goes as well: nothing at all can be kept.
    logged.edit(1, |bytes| {
        bytes[20] ^= 1;
        bytes[532] ^= 1;
    });
    let value = logged
        .log("repair", &["--accept-lost-locks", "--json"])
        .json();
    assert_eq!(value["repaired"], true, "{value}");
    assert_eq!(value["kept_position"], serde_json::Value::Null);
    logged.node.start_again();
    let incarnation: u64 = logged
        .node
        .info("quorlock_incarnation")
        .unwrap()
        .parse()
        .unwrap();
    assert!(incarnation > 1, "the first one was used: {incarnation}");
    logged.node.stop();
    let dump = logged.log("dump", &["--json", "--limit", "1"]).json();
    assert_eq!(
        (&dump["kind"], dump["position"].as_u64()),
        (&"LOST".into(), Some(1 << 32))
    );
    assert_eq!(dump["record"]["lost_ns"].as_u64(), Some(60_000_000_000));
}

#[test]
fn what_cannot_be_mended_by_a_cut_is_left_alone() {
    let whole = Logged::stopped();
    let before = files(&whole.directory);
    let ended = whole.log("repair", &["--accept-lost-locks"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("nothing to repair"),
        "{}",
        ended.stdout
    );
    assert_eq!(files(&whole.directory), before);

    let newer = Logged::stopped();
    newer.edit(1, |bytes| {
        bytes[8] = 99;
        bytes[520] = 99;
    });
    let before = files(&newer.directory);
    let ended = newer.log("repair", &["--accept-lost-locks"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stderr.contains("newer program"), "{}", ended.stderr);
    assert_eq!(files(&newer.directory), before);

    let running = Logged::running(&[]);
    let ended = running.log("repair", &["--accept-lost-locks"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(
        ended.stderr.contains("in use by another process"),
        "{}",
        ended.stderr
    );
    assert_eq!(running.node.ask(&["GET", "lock:1"]).unwrap(), "token");
}
