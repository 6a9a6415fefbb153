//! A node that is killed again and again: each start adds a segment, and they do not pile up.

use std::fs;

use quorlock_testkit::eventually;

use crate::log::Logged;

/// A volume of 40 MiB was full after 39 starts, with 4 KB of frames, and the 40th start failed for good.
#[test]
fn segments_that_hold_little_do_not_pile_up() {
    let mut logged = Logged::killed();
    for _ in 0..12 {
        logged.node.start_again();
        let set = ["SET", "lock", "token", "PX", "900"];
        assert_eq!(logged.node.ask(&set).unwrap(), "+OK");
        logged.node.kill();
    }
    logged.node.start_again();
    eventually("older segments are removed", || {
        let entries = fs::read_dir(&logged.directory).unwrap();
        let bytes = entries.map(|entry| entry.unwrap().metadata().map_or(0, |it| it.len()));
        bytes.sum::<u64>() < 6 << 20
    });
    logged.node.kill();
    logged.node.start_again();
    let kept = logged.node.ask(&["GET", "lock:3"]).unwrap();
    assert!(kept.contains("token"), "{kept}");
    logged.node.stop();
    assert_eq!(logged.check()["state"], "whole");
}
