//! Nodes whose disk fails or fills: what they answer, what they keep, and that they stop before
//! they would lie.

use std::sync::Arc;
use std::time::Duration;

use crate::wire::Wire;
use quorlock_server::clock::SettableClock;
use quorlock_server::{Disk, MemoryDisk, Node, NodeBuilder};

const EIO: i32 = 5;

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

fn node_on(disk: &Arc<MemoryDisk>, clock: &Arc<SettableClock>, mode: &str) -> NodeBuilder {
    Node::builder()
        .ephemeral()
        .directive("appendfsync", &[mode])
        .disk(disk.clone())
        .clock(clock.clone())
}

#[test]
fn a_failed_sync_withholds_the_reply_and_ends_the_node() {
    run(async {
        let disk = Arc::new(MemoryDisk::with_power_loss());
        let clock = Arc::new(SettableClock::new());
        let node = node_on(&disk, &clock, "always").start().await.unwrap();
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("SET a token NX PX 10000"), "+OK");
        // The segment ahead may be synced at any moment: fail every sync from now on.
        for _ in 0..4 {
            disk.fail_sync_after(0, EIO);
        }
        let reply = client.ask("SET b token NX PX 10000");
        assert!(reply.starts_with("-MISCONF"), "{reply}");
        assert!(reply.contains("unknown"), "{reply}");
        assert_eq!(client.reply(), "<closed>");
        let failure = node.stopped().await.unwrap_err();
        assert!(failure.to_string().contains("not trusted"), "{failure}");
        drop(node);
        let disk = Arc::new(disk.after_process_end());
        let node = node_on(&disk, &clock, "everysec").start().await.unwrap();
        assert_eq!(Wire::connect(node.address()).info("redis_version"), "7.2.4");
    });
}

#[test]
fn a_failed_write_ends_the_node_in_everysec_and_the_next_start_waits() {
    run(async {
        let disk = Arc::new(MemoryDisk::with_power_loss());
        let clock = Arc::new(SettableClock::new());
        let node = node_on(&disk, &clock, "everysec").start().await.unwrap();
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("SET a token NX PX 10000"), "+OK");
        disk.end_after(0);
        let reply = client.ask("SET b token NX PX 10000");
        // Another thread of the node may have met the failure first: the node then stops already.
        let is_refused = reply.starts_with("-MISCONF") || reply.contains("grants no more");
        assert!(is_refused, "{reply}");
        assert!(node.stopped().await.is_err());
        drop(node);
        let disk = Arc::new(disk.after_process_end());
        let node = node_on(&disk, &clock, "everysec").start().await.unwrap();
        let mut client = Wire::connect(node.address());
        assert!(client.ask("GET a").starts_with("-RESTARTDELAY"));
        clock.advance(Duration::from_millis(10_211));
        node.serving().await;
        assert_eq!(client.ask("GET b"), "nil", "it was never acknowledged");
    });
}

#[test]
fn a_segment_is_spare_again_after_each_one_that_was_filled() {
    run(async {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(SettableClock::new());
        let node = node_on(&disk, &clock, "no").start().await.unwrap();
        let mut client = Wire::connect(node.address());
        let value = "v".repeat(100_000);
        let mut written = 0;
        for newest in ["segment-0000000002.log", "segment-0000000003.log"] {
            // No write comes meanwhile: the write that took the spare one asked for the next.
            let mut tries = 0;
            while !disk
                .list()
                .unwrap()
                .iter()
                .any(|entry| entry.name == newest)
            {
                tries += 1;
                assert!(tries < 500, "{newest} is not made after {written} writes");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            for _ in 0..11 {
                written += 1;
                assert_eq!(client.ask(&format!("SET k {value} PX 60000")), "+OK");
            }
        }
    });
}

#[test]
fn a_hash_written_field_by_field_is_refused_when_the_log_has_no_room_for_it() {
    run(async {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(SettableClock::new());
        disk.set_capacity(Some(3 << 20));
        let node = node_on(&disk, &clock, "everysec").start().await.unwrap();
        let mut client = Wire::connect(node.address());
        let key = "k".repeat(2_000);
        let fields: String = (0..400).map(|field| format!(" {field} v")).collect();
        // A hash written field by field takes far more of the log than the request has bytes.
        let hset = format!("HSET {key}{fields}");
        let mut replies = Vec::new();
        for _ in 0..10 {
            replies.push(client.ask(&hset));
        }
        assert_eq!(replies[0], ":400");
        assert!(
            replies[9].starts_with("-MISCONF the log has no room"),
            "{}",
            replies[9]
        );
        assert_eq!(client.ask(&format!("HLEN {key}")), ":400", "the node lives");
        node.stop().await.unwrap();
    });
}

/// HDEL writes its key once per field, and half of that was not counted: the log failed.
#[test]
fn many_fields_of_a_long_key_are_deleted_or_refused_on_a_full_disk() {
    for fills in 0..8 {
        run(async move {
            let disk = Arc::new(MemoryDisk::new());
            let clock = Arc::new(SettableClock::new());
            disk.set_capacity(Some(3 << 20));
            let node = node_on(&disk, &clock, "everysec").start().await.unwrap();
            let mut client = Wire::connect(node.address());
            let key = "k".repeat(2_000);
            let fields: String = (0..400).map(|field| format!(" {field} v")).collect();
            let names: String = (0..399).map(|field| format!(" {field}")).collect();
            assert_eq!(client.ask(&format!("HSET {key}{fields}")), ":400");
            let value = "v".repeat(100_000);
            for _ in 0..fills {
                client.ask(&format!("SET fill {value} PX 60000"));
            }
            let reply = client.ask(&format!("HDEL {key}{names}"));
            let is_whole = reply == ":399" || reply.starts_with("-MISCONF the log has no room");
            assert!(is_whole, "{fills}: {reply}");
            node.stop().await.unwrap();
        });
    }
}

#[test]
fn a_full_disk_refuses_writes_and_goes_on_when_there_is_space() {
    run(async {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(SettableClock::new());
        disk.set_capacity(Some(3 << 20));
        let node = node_on(&disk, &clock, "everysec").start().await.unwrap();
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("SET lock token NX PX 60000"), "+OK");
        let value = "v".repeat(60_000);
        let mut refusals = 0;
        for number in 0..100 {
            let reply = client.ask(&format!("SET k{number} {value} PX 60000"));
            refusals += usize::from(reply.starts_with("-MISCONF the log has no room"));
        }
        assert!(refusals > 50, "{refusals} of 100 were refused");
        assert_eq!(client.ask("GET lock"), "token", "reads go on");
        assert_eq!(client.info("aof_last_write_status"), "err");
        disk.set_capacity(None);
        let mut tries = 0;
        while client.ask("SET after token NX PX 60000") != "+OK" {
            tries += 1;
            assert!(tries < 1_000, "writes do not come back");
            // Once a second of the node's clock it looks for space.
            clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        node.stop().await.unwrap();
        let node = node_on(&disk, &clock, "everysec").start().await.unwrap();
        assert!(node.is_serving(), "nothing was torn");
        assert_eq!(Wire::connect(node.address()).ask("GET after"), "token");
    });
}

#[test]
fn on_a_full_disk_scripts_read_and_release_for_as_long_as_there_is_room() {
    run(async {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(SettableClock::new());
        disk.set_capacity(Some(3 << 20));
        let node = node_on(&disk, &clock, "everysec").start().await.unwrap();
        let mut client = Wire::connect(node.address());
        let release = "return redis.call('del',KEYS[1])";
        let fill = "for i=1,40 do redis.call('set',i,string.rep('x',100000),'px',60000) end";
        assert_eq!(client.ask("SET a token NX PX 60000"), "+OK");
        assert_eq!(client.ask("SET b token NX PX 60000"), "+OK");
        assert_eq!(client.ask_words(&["EVAL", release, "1", "a"]), ":1");
        // It writes more than the log has prepared, which cannot be known beforehand.
        let reply = client.ask_words(&["EVAL", fill, "0"]);
        assert!(reply.starts_with("-MISCONF the log has no room"), "{reply}");
        assert_eq!(client.ask("EXISTS 1"), ":0", "no half of it stays");
        let value = "v".repeat(10_000);
        while client.ask(&format!("SET k {value} PX 60000")) == "+OK" {}
        while client.ask("SET k v PX 60000") == "+OK" {}
        let read = "return redis.call('get',KEYS[1])";
        assert_eq!(client.ask_words(&["EVAL", read, "1", "b"]), "token");
        assert_eq!(client.ask_words(&["EVAL", release, "1", "b"]), ":1");
        assert_eq!(client.ask("GET b"), "nil");
        node.stop().await.unwrap();
    });
}

#[test]
fn on_a_full_disk_no_checkpoint_is_begun_that_cannot_be_completed() {
    run(async {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(SettableClock::new());
        // Segments of 1, 16 and 16 MiB, and no fourth one.
        disk.set_capacity(Some(40 << 20));
        let node = node_on(&disk, &clock, "no");
        let node = node.directive("auto-aof-rewrite-min-size", &["32mb"]);
        let node = node.start().await.unwrap();
        let mut client = Wire::connect(node.address());
        let value = "v".repeat(100_000);
        for key in 0..338 {
            assert_eq!(client.ask(&format!("SET {key} {value} PX 60000")), "+OK");
        }
        // 32 MiB were written, so a checkpoint is due; all of it is alive, so none fits.
        let mut tries = 0;
        while client.info("aof_last_bgrewrite_status") != "err" {
            tries += 1;
            assert!(tries < 1_000, "no checkpoint was given up");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(client.info("aof_rewrites"), "0");
        for key in 0..4 {
            assert_eq!(client.ask(&format!("SET {key} {value} PX 60000")), "+OK");
        }
        node.stop().await.unwrap();
    });
}

#[test]
fn without_a_log_of_keys_a_full_disk_ends_neither_grants_nor_the_node() {
    run(async {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(SettableClock::new());
        // The first segment of 1 MiB, and no second one.
        disk.set_capacity(Some(3 << 20));
        let node = node_on(&disk, &clock, "no")
            .directive("appendonly", &["no"])
            .directive("restart-delay-max", &["24h"]);
        let node = node.start().await.unwrap();
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("SET kept token PX 60000"), "+OK");
        // Every second more is a record of its own, as long as there is room for records.
        for first in (1..35_000_u64).step_by(1_000) {
            let mut requests = String::new();
            for seconds in first..first + 1_000 {
                requests += &format!("SET lock token PX {}\r\n", seconds * 1_000);
            }
            client.send(requests.as_bytes());
            for _ in 0..1_000 {
                assert_eq!(client.reply(), "+OK", "after {first} seconds");
            }
        }
        // Nor does a checkpoint that nothing has room for.
        for number in 0..600 {
            let reply = client.ask("BGREWRITEAOF");
            assert!(reply.starts_with("+Background"), "{reply} at {number}");
            // In this order: one that begins between the two questions is in progress.
            while client.info("aof_rewrite_scheduled") != "0"
                || client.info("aof_rewrite_in_progress") != "0"
            {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(client.info("aof_last_bgrewrite_status"), "err");
        assert_eq!(client.ask("GET kept"), "token", "volatile locks are alive");
        node.stop().await.unwrap();
        // What the last record promised covers every grant, and an orderly stop has room too.
        let node = node_on(&disk, &clock, "no").directive("appendonly", &["no"]);
        disk.set_capacity(None);
        let node = node.start().await.unwrap();
        assert!(!node.is_serving(), "a lock of the last run may be held");
    });
}

#[test]
fn keys_that_no_delay_covers_survive_a_power_loss_in_every_mode() {
    run(async {
        for mode in ["everysec", "no"] {
            let disk = Arc::new(MemoryDisk::with_power_loss());
            let clock = Arc::new(SettableClock::new());
            let node = node_on(&disk, &clock, mode).start().await.unwrap();
            let mut client = Wire::connect(node.address());
            assert_eq!(client.ask("SET forever token NX"), "+OK");
            assert_eq!(client.ask("SET long token NX PX 3600000"), "+OK");
            let lost = Arc::new(disk.after_power_loss(false, |_: &str, _: u64| false));
            node.crash().await;
            clock.reboot(Duration::from_secs(1));
            let node = node_on(&lost, &clock, mode).start().await.unwrap();
            clock.advance(Duration::from_secs(62));
            node.serving().await;
            let mut client = Wire::connect(node.address());
            assert_eq!(client.ask("GET forever"), "token", "{mode}");
            assert_eq!(client.ask("GET long"), "token", "{mode}");
        }
    });
}

#[test]
fn the_log_stays_bounded_under_steady_traffic() {
    run(async {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(SettableClock::new());
        let node = node_on(&disk, &clock, "no");
        let node = node.directive("auto-aof-rewrite-min-size", &["32mb"]);
        let node = node.start().await.unwrap();
        let mut client = Wire::connect(node.address());
        let value = "v".repeat(100_000);
        assert_eq!(client.ask("SET kept token PX 60000"), "+OK");
        for number in 0..1_500 {
            let key = number % 10;
            assert_eq!(client.ask(&format!("SET k{key} {value} PX 60000")), "+OK");
        }
        let mut tries = 0;
        loop {
            let bytes: u64 = client.info("aof_current_size").parse().unwrap();
            if bytes < 100 << 20 {
                break;
            }
            tries += 1;
            assert!(
                tries < 500,
                "150 MB were written and {bytes} bytes are kept"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        node.crash().await;
        let node = node_on(&disk, &clock, "no").directive("restart-delay", &["off"]);
        let node = node.start().await.unwrap();
        assert_eq!(
            Wire::connect(node.address()).ask("DBSIZE"),
            ":11",
            "nothing was dropped"
        );
    });
}
