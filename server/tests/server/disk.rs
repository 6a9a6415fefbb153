//! Nodes whose disk fails or fills: what they answer, what they keep, and that they stop before
//! they would lie.

use quorlock_server::Disk;
use quorlock_testkit::eventually;

use crate::machine::{Machine, run, wire};

#[test]
fn a_failed_sync_withholds_the_reply_and_ends_the_node() {
    run(async {
        let machine = Machine::with_power_loss();
        let node = machine.start_in("always").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 10000"), "+OK");
        machine.fail_syncs();
        let reply = client.ask("SET b token NX PX 10000");
        // Another thread of the node may have met the failure first: the node then stops already.
        let is_unknown = reply.starts_with("-MISCONF") && reply.contains("unknown");
        assert!(is_unknown || reply.contains("grants no more"), "{reply}");
        assert_eq!(client.reply(), "<closed>");
        let failure = node.stopped().await.unwrap_err();
        assert!(failure.to_string().contains("not trusted"), "{failure}");
        drop(node);
        machine.kill();
        let node = machine.start_in("everysec").await;
        assert_eq!(wire(&node).info("redis_version"), "7.2.4");
    });
}

#[test]
fn a_failed_write_ends_the_node_in_everysec_and_the_next_start_waits() {
    run(async {
        let machine = Machine::with_power_loss();
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 10000"), "+OK");
        machine.disk().end_after(0);
        let reply = client.ask("SET b token NX PX 10000");
        // Another thread of the node may have met the failure first: the node then stops already.
        let is_refused = reply.starts_with("-MISCONF") || reply.contains("grants no more");
        assert!(is_refused, "{reply}");
        assert!(node.stopped().await.is_err());
        drop(node);
        machine.kill();
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
        assert!(client.ask("GET a").starts_with("-RESTARTDELAY"));
        machine.advance_ms(10_211);
        node.serving().await.unwrap();
        assert_eq!(client.ask("GET b"), "nil", "it was never acknowledged");
    });
}

/// 17 MiB were held by a node that had logged a few locks.
#[test]
fn a_node_that_logs_little_makes_no_segment_ahead() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_in("everysec").await;
        assert_eq!(wire(&node).ask("SET a token NX PX 60000"), "+OK");
        // The stop comes behind everything that the log thread was asked for.
        node.stop().await.unwrap();
        let entries = machine.disk().list().unwrap();
        let segments = entries
            .iter()
            .filter(|entry| entry.name.starts_with("segment-"));
        let names: Vec<&str> = segments.map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["segment-0000000001.segment"]);
    });
}

#[test]
fn a_segment_is_spare_again_after_each_one_that_was_filled() {
    run(async {
        let machine = Machine::new();
        let disk = machine.disk();
        let node = machine.start_in("no").await;
        let mut client = wire(&node);
        let value = "v".repeat(100_000);
        // A quarter of the first one, and then what takes the spare one.
        for (writes, newest) in [
            (3, "segment-0000000002.segment"),
            (9, "segment-0000000003.segment"),
        ] {
            for _ in 0..writes {
                assert_eq!(client.ask(&format!("SET k {value} PX 60000")), "+OK");
            }
            // No write comes meanwhile: the last one has asked for it.
            eventually(newest, || {
                let entries = disk.list().unwrap();
                entries.iter().any(|entry| entry.name == newest)
            });
        }
    });
}

#[test]
fn a_hash_written_field_by_field_is_refused_when_the_log_has_no_room_for_it() {
    run(async {
        let machine = Machine::with_space(3 << 20);
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
        let key = "k".repeat(2_000);
        let fields: String = (0..200).map(|field| format!(" {field} v")).collect();
        // A hash written field by field takes far more of the log than the request has bytes.
        let hset = format!("HSET {key}{fields}");
        let mut replies = Vec::new();
        for _ in 0..10 {
            replies.push(client.ask(&hset));
        }
        assert_eq!(replies[0], ":200");
        assert!(
            replies[9].starts_with("-MISCONF the log has no room"),
            "{}",
            replies[9]
        );
        assert_eq!(client.ask(&format!("HLEN {key}")), ":200", "the node lives");
        node.stop().await.unwrap();
    });
}

/// HDEL writes its key once per field, and half of that was not counted: the log failed.
#[test]
fn many_fields_of_a_long_key_are_deleted_or_refused_on_a_full_disk() {
    for fills in 0..8 {
        run(async move {
            let machine = Machine::with_space(3 << 20);
            let node = machine.start_in("everysec").await;
            let mut client = wire(&node);
            let key = "k".repeat(2_000);
            let fields: String = (0..200).map(|field| format!(" {field} v")).collect();
            let names: String = (0..199).map(|field| format!(" {field}")).collect();
            assert_eq!(client.ask(&format!("HSET {key}{fields}")), ":200");
            let value = "v".repeat(100_000);
            for _ in 0..fills {
                client.ask(&format!("SET fill {value} PX 60000"));
            }
            let reply = client.ask(&format!("HDEL {key}{names}"));
            let is_whole = reply == ":199" || reply.starts_with("-MISCONF the log has no room");
            assert!(is_whole, "{fills}: {reply}");
            node.stop().await.unwrap();
        });
    }
}

#[test]
fn a_full_disk_refuses_writes_and_goes_on_when_there_is_space() {
    run(async {
        let machine = Machine::with_space(3 << 20);
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
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
        machine.disk().set_capacity(None);
        // As long as those that were refused: for a short one there was room all the while.
        let after = format!("SET after {value} PX 60000");
        eventually("writes come back", || {
            // Once a second of the node's clock it looks for space.
            machine.advance_ms(1_000);
            client.ask(&after) == "+OK"
        });
        node.stop().await.unwrap();
        let node = machine.start_in("everysec").await;
        assert!(node.is_serving(), "nothing was torn");
        assert_eq!(wire(&node).ask("GET after"), value);
    });
}

#[test]
fn on_a_full_disk_scripts_read_and_release_for_as_long_as_there_is_room() {
    run(async {
        let machine = Machine::with_space(3 << 20);
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
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

/// Whoever deletes on a full disk has done what can be done: no restart and no BGREWRITEAOF is needed.
#[test]
fn on_a_full_disk_deleting_makes_room_again() {
    run(async {
        // Segments of 1 MiB and four of 8 MiB, and no sixth one.
        let machine = Machine::with_space(40 << 20);
        let node = machine.start_in("no").await;
        let mut client = wire(&node);
        // Of any size, until not even the smallest has room.
        let mut keys = 0;
        let set = "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)";
        for bytes in [100_000, 10_000, 1_000, 1] {
            let value = "v".repeat(bytes);
            while client.ask(&format!("SET k{keys} {value} PX 60000")) == "+OK" {
                keys += 1;
            }
            // Also from scripts and in transactions, which may write for as long as there is room.
            while client.ask_words(&["EVAL", set, "1", &format!("k{keys}"), &value]) == "+OK" {
                keys += 1;
            }
            loop {
                client.ask("MULTI");
                client.ask(&format!("SET k{keys} {value} PX 60000"));
                if client.ask("EXEC") != "*1 +OK" {
                    break;
                }
                keys += 1;
            }
        }
        assert!(keys > 300, "{keys} keys");
        let delete = "return redis.call('DEL', KEYS[1])";
        assert_eq!(client.ask_words(&["EVAL", delete, "1", "k0"]), ":1");
        for key in 1..keys {
            assert_eq!(client.ask(&format!("DEL k{key}")), ":1");
        }
        let large = format!("SET large {} PX 60000", "v".repeat(100_000));
        eventually("writes come back", || {
            machine.advance_ms(1_000);
            client.ask(&large) == "+OK"
        });
        assert_eq!(client.ask("DBSIZE"), ":1");
        node.crash().await;
        let node = machine.look().await;
        assert_eq!(wire(&node).ask("STRLEN large"), ":100000");
    });
}

/// Renewals may not take what a checkpoint needs: nothing would make room again, not even for no keys at all.
#[test]
fn on_a_full_disk_renewals_and_long_writes_leave_room_for_a_checkpoint() {
    run(async {
        let machine = Machine::with_space(40 << 20);
        let node = machine.start_in("no").await;
        let mut client = wire(&node);
        for lock in 0..6_000 {
            let set = format!("SET lock:{lock} 0123456789abcdef0123456789abcdef PX 604800000");
            assert_eq!(client.ask(&set), "+OK");
        }
        let value = "v".repeat(10_000);
        let mut keys = 0;
        while client.ask(&format!("SET k{keys} {value} PX 60000")) == "+OK" {
            keys += 1;
        }
        // As long as a group may be: what is kept comes on top of that.
        let mut long = vec!["MSET".to_owned()];
        for key in 0..690 {
            long.extend([format!("k{key}"), value.clone()]);
        }
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        assert!(client.ask_words(&long).starts_with("-MISCONF"));
        let mut renewals = 0;
        while client.ask("PEXPIRE lock:0 604800000") == ":1" {
            renewals += 1;
        }
        assert!(renewals > 500, "{renewals} renewals");
        // The long ones end, the locks stay: theirs is a week, for the clock moves on while the checkpoint is waited for.
        machine.advance_ms(61_000);
        let large = format!("SET large {value} PX 60000");
        eventually("writes come back", || {
            machine.advance_ms(1_000);
            client.ask(&large) == "+OK"
        });
        assert_eq!(client.ask("DBSIZE"), ":6001");
        node.crash().await;
        let node = machine.look().await;
        assert_eq!(wire(&node).ask("DBSIZE"), ":6001");
    });
}

/// Where nothing before the active segment is left to be removed, a checkpoint only takes room.
#[test]
fn on_a_full_disk_no_checkpoint_is_written_that_takes_more_than_it_gives_back() {
    run(async {
        // Segments of 1 and 8 MiB, and no third one.
        let machine = Machine::with_space(12 << 20);
        let node = machine.start_in("no").await;
        let mut client = wire(&node);
        let value = "v".repeat(10_000);
        let mut writes = 0;
        while client.ask(&format!("SET k{} {value} PX 600000", writes % 200)) == "+OK" {
            writes += 1;
            if writes % 10 == 0 {
                machine.advance_ms(1_000);
            }
        }
        assert!(writes > 850, "{writes} writes");
        assert_eq!(client.info("aof_rewrites"), "0", "2 MB for 1 MiB");
        node.stop().await.unwrap();
    });
}

#[test]
fn on_a_full_disk_no_checkpoint_is_begun_that_cannot_be_completed() {
    run(async {
        // Segments of 1 MiB and four of 8 MiB, and no sixth one.
        let machine = Machine::with_space(40 << 20);
        let directives = [("appendfsync", "no"), ("auto-aof-rewrite-min-size", "32mb")];
        let node = machine.start(&directives).await;
        let mut client = wire(&node);
        let value = "v".repeat(100_000);
        for key in 0..336 {
            assert_eq!(client.ask(&format!("SET {key} {value} PX 60000")), "+OK");
        }
        // 32 MiB were written, so a checkpoint is due; all of it is alive, so none fits.
        client.await_info("aof_last_bgrewrite_status", "err");
        assert_eq!(client.info("aof_rewrites"), "0");
        for key in 0..2 {
            assert_eq!(client.ask(&format!("SET {key} {value} PX 60000")), "+OK");
        }
        node.stop().await.unwrap();
    });
}

#[test]
fn without_a_log_of_keys_a_full_disk_ends_neither_grants_nor_the_node() {
    run(async {
        // The first segment of 1 MiB, and no second one.
        let machine = Machine::with_space(3 << 20);
        let directives = [("appendonly", "no"), ("restart-delay-max", "24h")];
        let node = machine.start(&directives).await;
        let mut client = wire(&node);
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
            client.await_info("aof_rewrite_scheduled", "0");
            client.await_info("aof_rewrite_in_progress", "0");
        }
        assert_eq!(client.info("aof_last_bgrewrite_status"), "err");
        assert_eq!(client.ask("GET kept"), "token", "volatile locks are alive");
        node.stop().await.unwrap();
        // What the last record promised covers every grant, and an orderly stop has room too.
        machine.disk().set_capacity(None);
        let node = machine.start(&[("appendonly", "no")]).await;
        assert!(!node.is_serving(), "a lock of the last run may be held");
    });
}

#[test]
fn keys_that_no_delay_covers_survive_a_power_loss_in_every_mode() {
    run(async {
        for mode in ["everysec", "no"] {
            let machine = Machine::with_power_loss();
            let node = machine.start_in(mode).await;
            let mut client = wire(&node);
            assert_eq!(client.ask("SET forever token NX"), "+OK");
            assert_eq!(client.ask("SET long token NX PX 3600000"), "+OK");
            machine.lose_power();
            node.crash().await;
            let node = machine.start_in(mode).await;
            machine.advance_ms(62_000);
            node.serving().await.unwrap();
            let mut client = wire(&node);
            assert_eq!(client.ask("GET forever"), "token", "{mode}");
            assert_eq!(client.ask("GET long"), "token", "{mode}");
        }
    });
}

#[test]
fn the_log_stays_bounded_under_steady_traffic() {
    run(async {
        let machine = Machine::new();
        let directives = [("appendfsync", "no"), ("auto-aof-rewrite-min-size", "32mb")];
        let node = machine.start(&directives).await;
        let mut client = wire(&node);
        let value = "v".repeat(100_000);
        assert_eq!(client.ask("SET kept token PX 60000"), "+OK");
        for number in 0..1_500 {
            let key = number % 10;
            assert_eq!(client.ask(&format!("SET k{key} {value} PX 60000")), "+OK");
        }
        eventually("of 150 MB that were written less than 100 are kept", || {
            client.info("aof_current_size").parse::<u64>().unwrap() < 100 << 20
        });
        node.crash().await;
        let node = machine.look().await;
        assert_eq!(wire(&node).ask("DBSIZE"), ":11", "nothing was dropped");
    });
}
