//! `quorlock log check` on directories of every kind: the exit code, where it breaks, the words.

use std::fs;

use crate::log::Logged;
use crate::shell::Shell;

/// Checks that it ends with this code and names all of this, and that a start refuses as well.
fn is_refused(logged: &Logged, kind: &str, said: &[&str]) {
    let value = logged.check();
    assert_eq!(
        (value["state"].as_str(), value["exit_code"].as_i64()),
        (Some("refused"), Some(2)),
        "{value}"
    );
    assert_eq!(value["finding"]["kind"], kind, "{value}");
    let text = logged.log("check", &[]).stdout;
    let own = ["what it means: ", "what to do: ", "refuses"];
    for part in said.iter().chain(&own) {
        assert!(text.contains(part), "'{part}' is not said:\n{text}");
    }
    assert!(!logged.refused_start().is_empty());
}

#[test]
fn a_cleanly_stopped_log_is_whole_and_the_next_start_serves_at_once() {
    let logged = Logged::stopped();
    let value = logged.check();
    assert_eq!(value["state"], "whole", "{value}");
    assert_eq!(
        (&value["running"], &value["finding"]),
        (&false.into(), &().into())
    );
    assert_eq!(value["next_start"]["last_stop"], "clean stop");
    assert_eq!(value["next_start"]["delay_ms"], 0);
    assert_eq!(value["node"].as_str().map(str::len), Some(40));
    let text = logged.log("check", &[]);
    assert_eq!(text.code, Some(0));
    assert!(text.stdout.contains("whole; "), "{}", text.stdout);
    assert!(text.stdout.contains("serves at once"), "{}", text.stdout);
}

#[test]
fn a_killed_nodes_log_is_whole_and_the_delay_is_said() {
    let shell = Shell::new();
    let mut node = quorlock_testkit::NodeProcess::start(shell.path(), "node", &[]);
    node.ask(&["SET", "lock", "token", "PX", "30000"]).unwrap();
    node.kill();
    let directory = shell.file("node");
    let check = ["log", "check", directory.to_str().unwrap(), "--json"];
    let value = shell.quorlock(&check).json();
    assert_eq!(value["next_start"]["last_stop"], "unclean stop", "{value}");
    let delay_ms = value["next_start"]["delay_ms"].as_u64().unwrap();
    assert!((30_000..31_000).contains(&delay_ms), "{value}");
}

#[test]
fn a_torn_last_frame_is_a_break_that_a_start_copes_with() {
    let mut logged = Logged::killed();
    let &(begin, end) = logged.frames(1).last().unwrap();
    logged.edit(1, |bytes| bytes[end - 9] ^= 1);
    let value = logged.check();
    assert_eq!(
        (value["state"].as_str(), value["exit_code"].as_i64()),
        (Some("broken"), Some(1)),
        "{value}"
    );
    assert_eq!(value["finding"]["kind"], "break");
    assert_eq!(value["finding"]["offset"].as_u64(), Some(begin as u64));
    let file = value["finding"]["file"].as_str().unwrap();
    assert!(file.ends_with("segment-0000000001.segment"), "{file}");
    assert!(value["next_start"]["delay_ms"].as_u64().unwrap() > 0);
    let text = logged.log("check", &[]).stdout;
    for part in [
        "checksum does not match",
        "leaves it out",
        "serves no locks for",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    logged.node.start_again();
    let reply = logged.node.ask(&["GET", "lock:0"]).unwrap();
    assert!(reply.starts_with("-RESTARTDELAY"), "{reply}");
}

#[test]
fn lost_durable_data_is_refused_with_file_and_offset() {
    let logged = Logged::killed();
    let (begin, end) = logged.frames(1)[5];
    logged.edit(1, |bytes| bytes[begin..end].fill(0));
    let location = format!("segment-0000000001.segment at offset {begin}");
    is_refused(
        &logged,
        "durable-data-lost",
        &[
            &location,
            "had been synced",
            "second time",
            "quorlock log repair",
        ],
    );
    assert_eq!(
        logged.check()["finding"]["offset"].as_u64(),
        Some(begin as u64)
    );
}

#[test]
fn what_no_crash_explains_is_refused() {
    let newer = Logged::stopped();
    newer.edit(1, |bytes| {
        bytes[8] = 99;
        bytes[520] = 99;
    });
    is_refused(&newer, "unknown-version", &["version 99", "newer program"]);

    let foreign = Logged::stopped();
    let id = foreign.directory.join("node.id");
    let text = fs::read_to_string(&id).unwrap();
    let own = text.lines().nth(1).unwrap().to_owned();
    fs::write(&id, text.replace(&own, &format!("id {}", "ab".repeat(20)))).unwrap();
    is_refused(
        &foreign,
        "foreign-node",
        &["belongs to node", &"ab".repeat(20)],
    );

    let nameless = Logged::stopped();
    fs::write(nameless.directory.join("node.id"), "nobody\n").unwrap();
    is_refused(&nameless, "bad-identity", &["node.id"]);

    let missing = Logged::stopped_with_segment_ahead();
    fs::remove_file(missing.segment(1)).unwrap();
    is_refused(
        &missing,
        "missing-segment",
        &["segment-0000000001.segment", "is missing"],
    );

    let short = Logged::stopped();
    short.edit(1, |bytes| bytes.truncate(50_000));
    is_refused(&short, "damaged", &["the file has 50000 bytes"]);

    let empty = Logged::stopped();
    empty.edit(1, Vec::clear);
    is_refused(&empty, "damaged", &["the file ends after 0 bytes"]);
}

#[test]
fn a_frame_that_is_not_understood_is_refused_with_its_place() {
    let logged = Logged::stopped();
    // Nothing but a whole frame passes the checksum, so one is sealed here as a newer program would.
    let (begin, end) = *logged.frames(1).last().unwrap();
    logged.edit(1, |bytes| {
        bytes[begin + 12] = 60;
        let salt = u64::from_le_bytes(bytes[80..88].try_into().unwrap());
        let seed = u32::try_from(salt >> 32).unwrap();
        let sum = crc32c::crc32c_append(seed, &bytes[begin + 8..end]);
        bytes[begin + 4..begin + 8].copy_from_slice(&sum.to_le_bytes());
    });
    is_refused(
        &logged,
        "not-understood",
        &["frame kind 60", "newer program"],
    );
    assert_eq!(
        logged.check()["finding"]["offset"].as_u64(),
        Some(begin as u64)
    );
}

#[test]
fn an_identity_without_a_log_is_an_emptied_directory() {
    let logged = Logged::stopped();
    fs::remove_file(logged.segment(1)).unwrap();
    let value = logged.check();
    assert_eq!(
        (
            value["finding"]["kind"].as_str(),
            value["exit_code"].as_i64()
        ),
        (Some("emptied"), Some(1)),
        "{value}"
    );
}

#[test]
fn a_log_back_at_its_beginning_is_emptied_where_something_ran() {
    let shell = Shell::new();
    shell.succeed(&["node", "init", "node"]);
    let directory = shell.file("node");
    let check = ["log", "check", directory.to_str().unwrap(), "--json"];
    let created = shell.quorlock(&check).json();
    assert_eq!(created["state"], "whole", "{created}");
    assert_eq!(created["next_start"]["last_stop"], "new node");
    fs::write(directory.join("incarnation-0000000001.stopped"), "").unwrap();
    let value = shell.quorlock(&check).json();
    assert_eq!(value["finding"]["kind"], "emptied", "{value}");
    assert_eq!(value["exit_code"], 1, "{value}");
    assert_eq!(value["next_start"]["delay_ms"], 61_210, "{value}");
}

#[test]
fn what_is_no_data_directory_ends_with_66() {
    let shell = Shell::new();
    fs::create_dir(shell.file("empty")).unwrap();
    fs::write(shell.file("file"), "").unwrap();
    for name in ["empty", "file", "missing"] {
        for action in ["check", "dump", "stats", "repair"] {
            let ended = shell.quorlock(&["log", action, name]);
            assert_eq!(ended.code, Some(66), "{action} {name}: {}", ended.stderr);
            assert!(ended.stderr.contains(name), "{}", ended.stderr);
            let value = shell.quorlock(&["log", action, name, "--json"]).json();
            assert_eq!(value["error"]["kind"], "no-input");
        }
    }
    assert!(fs::read_dir(shell.file("empty")).unwrap().next().is_none());
}

/// The node goes on writing, rotating and compacting while it is looked at.
#[test]
fn a_running_nodes_log_is_whole_at_every_look() {
    let logged = Logged::running(&["--appendfsync", "everysec"]);
    let value = "v".repeat(4000);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..6000 {
                let key = format!("lock:{}", number % 50);
                logged
                    .node
                    .ask(&["SET", &key, &value, "PX", "30000"])
                    .unwrap();
            }
        });
        let mut looks = 0;
        while !writer.is_finished() || looks == 0 {
            let value = logged.check();
            assert_eq!(value["state"], "whole", "{value}");
            assert_eq!(value["running"], true, "{value}");
            let stats = logged.log("stats", &["--json"]).json();
            assert_eq!(stats["running"], true, "{stats}");
            looks += 1;
        }
        writer.join().unwrap();
    });
    // It was only looked at: nothing of it is in the node's way.
    assert_eq!(logged.node.ask(&["GET", "lock:0"]).unwrap(), value);
}
