//! Compaction: what it answers, that it bounds the disk under steady traffic, that nothing is
//! lost by it, and how long it holds up requests.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the measurement times requests from outside and prints what it found"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quorlock_engine::control::kind;
use quorlock_server::{Disk, MemoryDisk, Node};
use quorlock_testkit::{Wire, eventually};

use crate::machine::gate::{Gate, OpenAtEnd};
use crate::machine::{Directives, Machine, run, wire};

fn bytes_of(disk: &MemoryDisk) -> u64 {
    let files = disk.list().unwrap();
    // A segment may be removed between the two calls.
    files
        .iter()
        .filter_map(|entry| disk.open(&entry.name).ok())
        .map(|file| file.len().unwrap())
        .sum()
}

/// Waits until so many compactions have been completed.
fn await_rewrites(client: &mut Wire, count: u64) {
    client.await_info("aof_rewrites", &count.to_string());
}

const NO: Directives<'static> = &[("appendfsync", "no")];

#[test]
fn the_disk_stays_bounded_under_steady_lock_traffic() {
    run(async {
        let machine = Machine::new();
        let disk = machine.disk();
        let directives = [NO[0], ("auto-aof-rewrite-min-size", "4mb")];
        let node = machine.start(&directives).await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET kept token PX 60000"), "+OK");
        // The configured size; the active segment, the one ahead, and two that are about to be
        // removed, of 16 MiB each; and the first one of the start.
        let bound = (4 << 20) + 4 * (16 << 20) + (1 << 20);
        let value = "v".repeat(100_000);
        let mut largest = 0;
        let mut written = 0;
        // Locks come and go: take, extend, release.
        for number in 0..1_600 {
            let key = number % 7;
            assert_eq!(
                client.ask(&format!("SET lock{key} {value} PX 60000")),
                "+OK"
            );
            assert_eq!(client.ask(&format!("PEXPIRE lock{key} 50000")), ":1");
            assert_eq!(client.ask(&format!("DEL lock{key}")), ":1");
            written += value.len() as u64;
            if number % 10 == 0 {
                largest = largest.max(bytes_of(&disk));
            }
        }
        assert!(written > 2 * bound, "{written} bytes prove little");
        assert!(largest <= bound, "{largest} bytes on disk, {bound} allowed");
        assert!(client.info("aof_rewrites").parse::<u64>().unwrap() > 5);
        node.crash().await;
        let node = machine.look().await;
        let mut client = wire(&node);
        assert_eq!(client.ask("GET kept"), "token");
        assert_eq!(client.ask("DBSIZE"), ":1");
    });
}

#[test]
fn bgrewriteaof_answers_like_redis_and_info_tells_of_it() {
    run(async {
        let machine = Machine::new();
        let gate = Gate::before_syncs_of(&machine.disk());
        let node = machine.start(NO).await;
        let _open = OpenAtEnd(Arc::clone(&gate));
        let mut client = wire(&node);
        assert_eq!(client.info("aof_last_rewrite_time_sec"), "-1");
        for key in 0..1_000 {
            assert_eq!(client.ask(&format!("SET {key} token PX 60000")), "+OK");
        }
        // Nothing is complete while no sync ends.
        gate.set_closed(true);
        client.send(b"BGREWRITEAOF\r\nBGREWRITEAOF\r\n");
        assert_eq!(
            client.reply(),
            "+Background append only file rewriting started"
        );
        assert_eq!(
            client.reply(),
            "-ERR Background append only file rewriting already in progress"
        );
        gate.set_closed(false);
        await_rewrites(&mut client, 1);
        assert_eq!(client.info("aof_rewrite_in_progress"), "0");
        assert_eq!(client.info("aof_rewrite_scheduled"), "0");
        assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
        assert_eq!(client.info("aof_last_rewrite_time_sec"), "0");
        let base: u64 = client.info("aof_base_size").parse().unwrap();
        assert!(base > 10_000, "{base} bytes hold no 1000 keys");
        assert_eq!(client.ask("DEL 0 1 2"), ":3");
        node.crash().await;
        // Asked for in the restart delay, it follows it.
        let node = machine.start(NO).await;
        let mut client = wire(&node);
        assert_eq!(
            client.ask("BGREWRITEAOF"),
            "+Background append only file rewriting scheduled"
        );
        assert_eq!(client.info("aof_rewrite_scheduled"), "1");
        machine.advance_ms(62_000);
        node.serving().await.unwrap();
        await_rewrites(&mut client, 1);
        node.stop().await.unwrap();
        let node = machine.start(NO).await;
        assert!(node.is_serving());
        // All have expired; the log says so without having been told.
        assert_eq!(wire(&node).ask("GET 5"), "nil");
    });
}

#[test]
fn what_changes_while_the_log_is_compacted_is_kept() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(NO).await;
        let mut client = wire(&node);
        for key in 0..20_000 {
            assert_eq!(client.ask(&format!("SET {key} 0 PX 60000")), "+OK");
        }
        let mut operator = wire(&node);
        for round in 1..=3_u64 {
            assert!(operator.ask("BGREWRITEAOF").starts_with('+'));
            while operator.info("aof_rewrites").parse::<u64>().unwrap() < round {
                for key in (0..20_000).step_by(617) {
                    assert_eq!(client.ask(&format!("SET {key} {round} PX 60000")), "+OK");
                }
            }
            assert_eq!(client.ask(&format!("DEL {round}")), ":1");
        }
        let count = client.ask("DBSIZE");
        node.crash().await;
        let node = machine.look().await;
        let mut client = wire(&node);
        assert_eq!(client.ask("DBSIZE"), count);
        assert_eq!(client.ask("GET 617"), "3");
        assert_eq!(client.ask("GET 616"), "0");
        for round in 1..=3 {
            assert_eq!(client.ask(&format!("EXISTS {round}")), ":0");
        }
    });
}

/// Three of each type, of 4 MiB each: sixty parts of a checkpoint.
fn fill(client: &mut Wire) {
    for number in 0..3 {
        for first in (0..40).step_by(8) {
            let parts: Vec<String> = (first..first + 8).map(long).collect();
            let each = |made: fn(usize, &String) -> String| {
                let parts = parts.iter().zip(first..);
                let parts = parts.map(|(part, index)| made(index, part));
                parts.collect::<Vec<_>>().join(" ")
            };
            let (plain, scored) = (
                parts.join(" "),
                each(|index, part| format!("{index} {part}")),
            );
            for (line, reply) in [
                (format!("RPUSH list{number} {plain}"), first + 8),
                (format!("SADD set{number} {plain}"), 8),
                (format!("ZADD zset{number} {scored}"), 8),
                (format!("HSET hash{number} {scored}"), 8),
            ] {
                assert_eq!(client.ask(&line), format!(":{reply}"));
            }
        }
        // Else each change of them would be synced.
        for name in ["list", "set", "zset", "hash"] {
            assert_eq!(client.ask(&format!("PEXPIRE {name}{number} 60000")), ":1");
        }
    }
}

fn long(number: usize) -> String {
    format!("{number}{}", "x".repeat(104_000))
}

/// What is there after [`fill`] and the changes behind it.
fn is_full(client: &mut Wire) {
    for number in 0..3 {
        // Each has lost its first part and got a short one.
        for (line, reply) in [
            (format!("LLEN list{number}"), ":40".to_owned()),
            (format!("LINDEX list{number} 0"), long(1)),
            (format!("LINDEX list{number} -2"), long(39)),
            (format!("LINDEX list{number} -1"), "short".to_owned()),
            (format!("SCARD set{number}"), ":40".to_owned()),
            (
                format!("SISMEMBER set{number} {}", long(0)),
                ":0".to_owned(),
            ),
            (
                format!("SISMEMBER set{number} {}", long(39)),
                ":1".to_owned(),
            ),
            (format!("ZCARD zset{number}"), ":40".to_owned()),
            (format!("ZSCORE zset{number} {}", long(39)), "39".to_owned()),
            (format!("ZRANK zset{number} short"), ":39".to_owned()),
            (format!("HLEN hash{number}"), ":40".to_owned()),
            (format!("HGET hash{number} 39"), long(39)),
        ] {
            let name = &line[..line.len().min(40)];
            assert!(client.ask(&line) == reply, "{name}");
        }
    }
}

/// Each goes out element by element, and changes between two of them.
#[test]
fn large_collections_outlive_a_compaction_and_a_crash_between_their_pieces() {
    run(async {
        let machine = Machine::new();
        let gate = Gate::before_syncs_of(&machine.disk());
        let node = machine.start(NO).await;
        let _open = OpenAtEnd(Arc::clone(&gate));
        let mut client = wire(&node);
        fill(&mut client);
        // The first part waits for its sync.
        gate.set_closed(true);
        assert!(client.ask("BGREWRITEAOF").starts_with('+'));
        eventually("a part", || machine.frames_of(kind::SNAPSHOT) > 0);
        for number in 0..3 {
            for line in [
                format!("LPOP list{number} 1"),
                format!("RPUSH list{number} short"),
                format!("SREM set{number} {}", long(0)),
                format!("SADD set{number} short"),
                format!("ZREM zset{number} {}", long(0)),
                format!("ZADD zset{number} 99 short"),
                format!("HDEL hash{number} 0"),
                format!("HSET hash{number} short short"),
            ] {
                assert!(!client.ask(&line).starts_with('-'));
            }
        }
        let killed = Machine::rebooted_on(machine.disk().after_process_end());
        assert!(killed.frames_of(kind::SNAPSHOT) < 12, "parts are missing");
        gate.set_closed(false);
        await_rewrites(&mut client, 1);
        is_full(&mut client);
        node.crash().await;
        for machine in [killed, machine] {
            let node = machine.look().await;
            is_full(&mut wire(&node));
            node.crash().await;
        }
    });
}

/// Request latencies of a steady client, in microseconds.
fn traffic(address: std::net::SocketAddr, is_over: &AtomicBool) -> Vec<u64> {
    let mut client = Wire::connect(address);
    let mut latencies = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        let key = latencies.len() % 1_000;
        let begun = Instant::now();
        assert_eq!(
            client.ask(&format!("SET steady{key} token PX 60000")),
            "+OK"
        );
        latencies.push(u64::try_from(begun.elapsed().as_micros()).unwrap());
    }
    latencies.sort_unstable();
    latencies
}

fn report(what: &str, mode: &str, latencies: &[u64]) {
    let at = |share: usize| latencies[(latencies.len() - 1) * share / 1_000];
    println!(
        "{mode:>8} {what:<20} {:>7} requests, p50 {:>5} us, p99 {:>6} us, p99.9 {:>6} us, worst {:>7} us",
        latencies.len(),
        at(500),
        at(990),
        at(999),
        at(1_000),
    );
}

/// Prints the worst pause with and without a compaction of a million keys, on a real directory:
/// `cargo test --release -p quorlock-server --test server compaction -- --ignored --nocapture`, with
/// QUORLOCK_KEYS for another number of keys and TMPDIR for another disk.
#[test]
#[ignore = "a measurement of about a minute, for a release build on a quiet machine"]
fn worst_pause_of_a_compaction() {
    let keys: usize = std::env::var("QUORLOCK_KEYS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000_000);
    for mode in ["no", "everysec", "always"] {
        let directory = std::env::temp_dir().join(format!("quorlock-pause-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        run(async {
            let node = Node::builder()
                .directive("bind", &["127.0.0.1"])
                .directive("first-start", &["serve"])
                .port(0)
                .dir(&directory)
                .directive("appendfsync", &[mode])
                .directive("auto-aof-rewrite-percentage", &["0"]);
            let node = node.start().await.unwrap();
            load(&node, keys);
            let mut operator = wire(&node);
            let is_over = Arc::new(AtomicBool::new(false));
            let address = node.address();
            let steady = |is_over: &Arc<AtomicBool>| {
                let is_over = Arc::clone(is_over);
                std::thread::spawn(move || traffic(address, &is_over))
            };
            let quiet = steady(&is_over);
            tokio::time::sleep(Duration::from_secs(3)).await;
            is_over.store(true, Ordering::Release);
            report("without compaction", mode, &quiet.join().unwrap());
            is_over.store(false, Ordering::Release);
            let busy = steady(&is_over);
            let begun = Instant::now();
            let mut rewrites = 0;
            while begun.elapsed() < Duration::from_secs(3) {
                rewrites += 1;
                operator.ask("BGREWRITEAOF");
                await_rewrites(&mut operator, rewrites);
            }
            let took = begun.elapsed();
            is_over.store(true, Ordering::Release);
            report("with compaction", mode, &busy.join().unwrap());
            println!(
                "{mode:>8} {rewrites} compactions of {keys} keys in {:.1} s, {} bytes each; the \
                 engine's lock was held for {} us at most",
                took.as_secs_f64(),
                operator.info("aof_base_size"),
                operator.info("quorlock_compaction_part_usec_max"),
            );
            node.stop().await.unwrap();
        });
        let _ = std::fs::remove_dir_all(&directory);
    }
}

/// Loads so many keys, in deep pipelines.
fn load(node: &Node, keys: usize) {
    let mut client = wire(node);
    let all: Vec<usize> = (0..keys).collect();
    for chunk in all.chunks(1_000) {
        let mut bytes = Vec::new();
        for key in chunk {
            let name = format!("lock:{key:010}");
            bytes.extend_from_slice(
                format!("*5\r\n$3\r\nSET\r\n$15\r\n{name}\r\n$20\r\n{key:020}\r\n$2\r\nPX\r\n$8\r\n50000000\r\n")
                    .as_bytes(),
            );
        }
        client.send(&bytes);
        for _ in chunk {
            assert_eq!(client.reply(), "+OK");
        }
    }
}
