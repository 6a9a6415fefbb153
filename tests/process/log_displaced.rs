//! Hands on the directory of a running node: what makes it the node's own is removed, moved or replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use quorlock_testkit::eventually;

use crate::log::Logged;

/// The node ends with a reason, and neither it nor another one grants what is granted already.
fn ends(deed: fn(&Path), said: &str) {
    ends_from(Logged::running(&[]), deed, said);
}

fn ends_from(mut logged: Logged, deed: fn(&Path), said: &str) {
    deed(&logged.directory);
    eventually("the node ends", || {
        let set = ["SET", "after", "token", "PX", "30000"];
        logged.node.ask(&set).is_err()
    });
    // A reply that comes late on a busy machine is an error as well.
    eventually(&format!("{said} is in the log"), || {
        logged.node.log().contains(said)
    });
    logged.node.kill();
}

#[test]
fn a_second_node_is_refused_though_the_lock_file_was_removed() {
    let logged = Logged::running(&[]);
    fs::remove_file(logged.directory.join("quorlock.lock")).unwrap();
    let refused = logged.refused_start();
    assert!(
        refused.contains("is in use by another process"),
        "{refused}"
    );
}

#[test]
fn a_node_whose_lock_was_removed_or_replaced_ends() {
    let deeds: [fn(&Path); 4] = [
        |data| fs::remove_file(data.join("quorlock.lock")).unwrap(),
        |data| {
            fs::write(data.join("other"), "1\n").unwrap();
            fs::rename(data.join("other"), data.join("quorlock.lock")).unwrap();
        },
        |data| {
            fs::remove_file(data.join("quorlock.lock")).unwrap();
            fs::create_dir(data.join("quorlock.lock")).unwrap();
        },
        |data| {
            fs::remove_file(data.join("quorlock.lock")).unwrap();
            symlink("node.id", data.join("quorlock.lock")).unwrap();
        },
    ];
    for deed in deeds {
        ends(deed, "quorlock.lock was removed, renamed or replaced");
    }
}

#[test]
fn a_node_whose_identity_or_marker_was_removed_or_replaced_ends() {
    ends(
        |data| fs::remove_file(data.join("node.id")).unwrap(),
        "node.id was removed, renamed or replaced",
    );
    ends(
        |data| {
            // The same bytes in another file: what a backup puts back.
            fs::copy(data.join("node.id"), data.join("copy")).unwrap();
            fs::rename(data.join("copy"), data.join("node.id")).unwrap();
        },
        "node.id was removed, renamed or replaced",
    );
    ends(
        |data| fs::remove_file(data.join("incarnation-0000000001")).unwrap(),
        "incarnation-0000000001 was removed, renamed or replaced",
    );
}

#[test]
fn a_node_whose_directory_was_renamed_or_replaced_ends() {
    ends(
        |data| fs::rename(data, data.with_extension("moved")).unwrap(),
        "was removed, renamed or replaced",
    );
    ends(
        |data| {
            fs::rename(data, data.with_extension("moved")).unwrap();
            fs::create_dir(data).unwrap();
        },
        "was removed, renamed or replaced",
    );
}

/// Renamed and back before the node has looked: nothing is missing.
#[test]
fn a_directory_that_is_back_ends_nobody() {
    let mut logged = Logged::running(&[]);
    let moved = logged.directory.with_extension("moved");
    fs::rename(&logged.directory, &moved).unwrap();
    fs::rename(&moved, &logged.directory).unwrap();
    let set = ["SET", "after", "token", "PX", "30000"];
    assert_eq!(logged.node.ask(&set).unwrap(), "+OK");
    logged.node.stop();
    assert_eq!(logged.check()["state"], "whole");
}

#[test]
fn a_live_segment_that_is_cut_moved_or_made_longer_ends_the_node() {
    ends_at_once(|path| resize(path, 0), "and no longer 1048576");
    ends_at_once(|path| resize(path, 2 << 20), "has 2097152 bytes");
    ends_at_once(
        |path| fs::rename(path, path.with_extension("gone")).unwrap(),
        "was removed or renamed while the node was using it",
    );
}

/// The next grant is not acknowledged.
fn ends_at_once(deed: fn(&Path), said: &str) {
    let mut logged = Logged::running(&[]);
    deed(&logged.segment(1));
    let set = ["SET", "after", "token", "PX", "30000"];
    let reply = logged.node.ask(&set);
    assert!(!reply.is_ok_and(|reply| reply == "+OK"), "{said}");
    logged.node.kill();
    let log = logged.node.log();
    assert!(log.contains(said), "{said} is not in:\n{log}");
}

fn resize(path: &Path, bytes: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
}

/// What was synced before is needed as much as what is synced now.
#[test]
fn a_node_whose_older_segment_was_removed_or_cut_ends() {
    type Deed = fn(&Path);
    let deeds: [(Deed, &str); 2] = [
        (
            |data| fs::remove_file(data.join(OLDER)).unwrap(),
            "was removed or renamed",
        ),
        (
            |data| fs::write(data.join(OLDER), "").unwrap(),
            "has 0 bytes and no longer",
        ),
    ];
    for (deed, said) in deeds {
        let logged = Logged::running(&[]);
        // Another mode begins another segment.
        let mode = ["CONFIG", "SET", "appendfsync", "everysec"];
        assert_eq!(logged.node.ask(&mode).unwrap(), "+OK");
        let newer = logged.directory.join("segment-0000000002.segment");
        eventually("a second segment", || {
            let set = ["SET", "another", "token", "PX", "30000"];
            logged.node.ask(&set).unwrap();
            newer.exists()
        });
        ends_from(logged, deed, &format!("{OLDER} {said}"));
    }
}

const OLDER: &str = "segment-0000000001.segment";
