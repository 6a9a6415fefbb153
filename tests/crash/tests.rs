//! A small part of the crash states with every run of the tests.

mod full_disk;
mod pieces;

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::control::kind;
use quorlock_node::clock::SettableClock;
use quorlock_node::config::Config;
use quorlock_node::simulation::{Client, Node, Setup, request_bytes};
use quorlock_persistence::{DiskFault, DiskOperation, LogOptions, MemoryDisk, Recovery};
use quorlock_tests::crash::ledger::Ledger;
use quorlock_tests::crash::relocation::{Case, relocate};
use quorlock_tests::crash::run::run;
use quorlock_tests::crash::{Budget, Vary};

#[test]
fn no_crash_loses_what_was_promised() {
    let budget = Budget {
        short: 12,
        long: 1,
        vary: Vary::Everything,
    };
    let outcome = run(1, budget, 2, |states, _| states < 40_000);
    let failures: Vec<String> = outcome.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // The exploration must have met what it is there for.
    for (name, count) in outcome.statistics.numbers() {
        let is_rare = RARE.contains(&name);
        assert!(count > 0 || is_rare, "nothing counted: {name}");
    }
}

#[test]
fn a_ledger_adds_up_over_runs() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("ledger.json");
    let budget = Budget {
        short: 2,
        long: 1,
        vary: Vary::Everything,
    };
    let mut states = 0;
    for _ in 0..2 {
        let mut ledger = Ledger::read(&path).expect("a ledger or none");
        assert_eq!(ledger.statistics.states(), states);
        let outcome = run(ledger.next_seed, budget, 1, |states, _| states == 0);
        ledger.add(&outcome, 1);
        states += outcome.statistics.states();
        ledger.write(&path).expect("the directory is there");
    }
    let ledger = Ledger::read(&path).expect("the ledger just written");
    assert_eq!(
        (ledger.next_seed, ledger.seconds, ledger.failures),
        (2, 2, 0)
    );
    assert_eq!(ledger.statistics.workloads, 2);
    std::fs::write(&path, "{}").expect("the directory is there");
    assert!(
        Ledger::read(&path).is_err(),
        "something else is not overwritten"
    );
}

/// `quorlock node release` and `adopt`, and every crash on the way.
#[test]
fn a_directory_that_is_moved_starts_in_one_place_and_knows_its_locks_there() {
    for mode in ["always", "everysec", "no"] {
        for (is_full, seed) in [(false, 1), (false, 2), (true, 3)] {
            let seen = relocate(Case {
                mode,
                is_full,
                seed,
            });
            let seen = seen.unwrap_or_else(|what| panic!("{what}"));
            for count in [seen.released, seen.clean, seen.complete_points] {
                assert!(count > 10, "{mode}, full: {is_full}: {seen:?}");
            }
        }
    }
}

/// What so few states may not meet.
const RARE: [&str; 3] = [
    "states: process end, cache dropped",
    "refused after a lying disk",
    "refused over a header of garbage",
];

/// Otherwise the time after it would be given back to the keys of the next start, as if it had not passed.
#[test]
fn a_key_that_comes_and_expires_between_two_turns_leaves_a_tick() {
    let disk = Arc::new(MemoryDisk::new());
    let clock = Arc::new(SettableClock::new());
    let setup = setup(&[]);
    let mut node = Node::start(disk.clone(), clock.clone(), &setup).expect("an empty disk");
    let ticks = || {
        let left = Arc::new(disk.after_process_end());
        let records = Recovery::read(left, &LogOptions::default()).expect("a whole log");
        let frames = records.frames().collect().expect("a disk without faults");
        frames
            .iter()
            .filter(|frame| frame.kind == kind::TICK)
            .count()
    };
    node.maintain().expect("a disk without faults");
    let reply = node.execute(&[b"SET", b"a", b"token", b"PX", b"1000"]);
    assert_eq!(reply, b"+OK\r\n");
    clock.advance(Duration::from_secs(10));
    assert_eq!(ticks(), 0);
    for _ in 0..2 {
        node.maintain().expect("a disk without faults");
        assert_eq!(ticks(), 1, "one, and no more while nothing happens");
        clock.advance(Duration::from_secs(10));
    }
}

/// The record that opens a second checkpoint was written, and the one behind it that repeats what is owed was not: the
/// next start granted a lock that its holder had for another 30 s.
#[test]
fn a_second_checkpoint_that_is_cut_off_forgets_no_recovered_lock() {
    for written in (0..260).step_by(3) {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(SettableClock::new());
        let start = |directives| Node::start(disk.clone(), clock.clone(), &setup(directives));
        let mut node = start(&[("appendfsync", "always")]).expect("an empty disk");
        let reply = node.execute(&[b"SET", b"lock", b"A", b"NX", b"PX", b"50000"]);
        assert_eq!(reply, b"+OK\r\n");
        node.stop().expect("a disk without faults");
        let unlogged = [("appendonly", "no"), ("restart-delay-max", "5s")];
        let mut node = start(&unlogged).expect("a whole log");
        while node.compact().expect("a disk without faults") {}
        node.work_on_log().expect("a disk without faults");
        clock.advance(Duration::from_secs(20));
        disk.plan_fault(&[DiskOperation::Write], 0, DiskFault::Short(written, 5));
        while node.compact().is_ok_and(|is_more| is_more) {}
        drop(node);
        let node = start(&[]).expect("a log that was cut off");
        let left = node.delay_left().expect("a disk without faults");
        assert!(
            left.is_some_and(|left| left >= Duration::from_secs(30)),
            "{written} bytes: {left:?}"
        );
    }
}

/// A disk that no longer takes direct writes refuses the next one.
#[test]
fn the_log_goes_past_the_page_cache_while_every_write_is_synced() {
    let always = ("appendfsync", "always");
    let everysec = ("appendfsync", "everysec");
    let cases: [(&[_], &[&[u8]], bool); 7] = [
        (&[always], &[], true),
        (&[everysec], &[], false),
        (&[always, ("log-direct-io", "no")], &[], false),
        (&[always, ("appendonly", "no")], &[], false),
        (&[always], &[b"everysec"], false),
        (&[everysec], &[b"always"], true),
        (&[always], &[b"no", b"always"], true),
    ];
    for (directives, changes, is_direct) in cases {
        let disk = Arc::new(MemoryDisk::new());
        disk.set_direct_blocks(Some(4096));
        let clock = Arc::new(SettableClock::new());
        let mut node = Node::start(disk.clone(), clock, &setup(directives)).expect("an empty disk");
        let set: &[&[u8]] = &[b"SET", b"a", b"1", b"PX", b"9000"];
        for mode in changes {
            assert_eq!(node.execute(set), b"+OK\r\n");
            node.work_on_log().expect("a disk without faults");
            let set_mode: &[&[u8]] = &[b"CONFIG", b"SET", b"appendfsync", mode];
            assert_eq!(node.execute(set_mode), b"+OK\r\n");
            // The segment that is written in the other way.
            node.work_on_log().expect("a disk without faults");
        }
        disk.set_direct_blocks(None);
        let reply = String::from_utf8_lossy(&node.execute(set)).into_owned();
        let is_refused = reply.starts_with("-MISCONF");
        assert_eq!(is_refused, is_direct, "{directives:?} {changes:?}: {reply}");
    }
}

/// A node with `appendfsync always` on a disk whose syncs take 4 ms, and twenty clients: ten have been answered by a
/// sync, during which the other ten have asked.
fn two_halves(clock: &Arc<SettableClock>) -> (Node, Vec<Client>, Vec<Client>) {
    let (mut node, mut first) = on_slow_disk(clock, 20, &[("appendfsync", "always")]);
    let second = first.split_off(10);
    ask_all(&mut node, &first);
    assert!(begins_to_sync(&mut node), "long syncs are the log thread's");
    ask_all(&mut node, &second);
    node.finish_sync().expect("a disk without faults");
    assert_eq!(answered(&mut node, &first), 10);
    (node, first, second)
}

/// A node on a disk whose syncs take 4 ms, and its clients.
fn on_slow_disk(
    clock: &Arc<SettableClock>,
    clients: usize,
    directives: &[(&str, &str)],
) -> (Node, Vec<Client>) {
    let disk = Arc::new(MemoryDisk::new());
    let slow = Arc::clone(clock);
    disk.on_sync(Arc::new(move || slow.advance(Duration::from_millis(4))));
    let setup = setup(directives);
    let mut node = Node::start(disk, clock.clone(), &setup).expect("an empty disk");
    let clients = (0..clients).map(|_| node.connect(usize::MAX, None));
    let clients = clients.collect();
    (node, clients)
}

fn ask_all(node: &mut Node, clients: &[Client]) {
    for client in clients {
        node.send(*client, &set());
    }
    iterate(node);
}

fn set() -> Vec<u8> {
    request_bytes(&[b"SET", b"a", b"1", b"PX", b"9000"])
}

/// All workers go on until nothing more has come.
fn iterate(node: &mut Node) {
    for worker in 0..node.workers() {
        while node.iterate(worker) {}
    }
}

/// How many of these clients have got their reply.
fn answered(node: &mut Node, clients: &[Client]) -> usize {
    iterate(node);
    let has_reply = |client: &&Client| node.take_received(**client) == b"+OK\r\n";
    clients.iter().filter(has_reply).count()
}

/// Whether the next long sync begins now.
fn begins_to_sync(node: &mut Node) -> bool {
    iterate(node);
    begin_to_sync(node);
    node.is_syncing()
}

/// The log thread begins what it may.
fn begin_to_sync(node: &mut Node) {
    for _ in 0..3 {
        node.begin_log_work().expect("a disk without faults");
    }
}

#[test]
fn the_next_long_sync_waits_for_those_whom_the_last_one_has_answered() {
    let (mut node, first, second) = two_halves(&Arc::new(SettableClock::new()));
    assert!(
        !begins_to_sync(&mut node),
        "half of the clients are on their way"
    );
    ask_all(&mut node, &first[1..]);
    assert!(!begins_to_sync(&mut node), "one is missing");
    ask_all(&mut node, &first[..1]);
    assert!(begins_to_sync(&mut node));
    node.finish_sync().expect("a disk without faults");
    assert_eq!(answered(&mut node, &first), 10);
    assert_eq!(answered(&mut node, &second), 10, "all share one sync");
}

#[test]
fn it_waits_for_the_first_half_a_sync_and_a_quarter_more_for_the_others() {
    let clock = Arc::new(SettableClock::new());
    let (mut node, _, second) = two_halves(&clock);
    clock.advance(Duration::from_micros(1_999));
    assert!(!begins_to_sync(&mut node));
    clock.advance(Duration::from_micros(1));
    assert!(begins_to_sync(&mut node), "nobody has come");
    node.finish_sync().expect("a disk without faults");
    assert_eq!(answered(&mut node, &second), 10);

    let (mut node, first, second) = two_halves(&clock);
    clock.advance(Duration::from_micros(1_500));
    ask_all(&mut node, &first[..1]);
    assert!(!begins_to_sync(&mut node));
    clock.advance(Duration::from_micros(999));
    assert!(!begins_to_sync(&mut node), "one has come");
    clock.advance(Duration::from_micros(1));
    assert!(begins_to_sync(&mut node));
    node.finish_sync().expect("a disk without faults");
    assert_eq!(answered(&mut node, &first[..1]), 1);
    assert_eq!(answered(&mut node, &second), 10);
}

#[test]
fn it_waits_for_nobody_with_what_is_urgent() {
    let clock = Arc::new(SettableClock::new());
    // A record that everybody depends on, and WAITAOF.
    let urgent: [&[&[&[u8]]]; 4] = [
        &[&[b"CONFIG", b"SET", b"appendfsync", b"everysec"]],
        &[&[b"CONFIG", b"SET", b"restart-delay-max", b"700s"]],
        &[&[b"SET", b"a", b"1", b"PX", b"20000"]],
        &[
            &[b"SET", b"a", b"1", b"PX", b"9000"],
            &[b"WAITAOF", b"1", b"0", b"0"],
        ],
    ];
    for requests in urgent {
        let (mut node, first, _) = two_halves(&clock);
        assert!(!begins_to_sync(&mut node));
        let bytes: Vec<u8> = requests.iter().flat_map(|it| request_bytes(it)).collect();
        node.send(first[0], &bytes);
        assert!(begins_to_sync(&mut node), "{requests:?}");
    }
    // And a stop.
    let (mut node, _, second) = two_halves(&clock);
    node.stop().expect("a disk without faults");
    node.drain();
    assert_eq!(answered(&mut node, &second), 10);
}

/// The change back to the strictest mode found it in force, and waited for clients.
#[test]
fn a_change_to_always_waits_for_no_clients() {
    let clock = Arc::new(SettableClock::new());
    let (mut node, clients) = on_slow_disk(&clock, 3, &[("appendfsync", "everysec")]);
    // They wait for the record of the bound on all TTLs.
    ask_all(&mut node, &clients[1..]);
    assert!(begins_to_sync(&mut node));
    node.finish_sync().expect("a disk without faults");
    assert_eq!(answered(&mut node, &clients), 2);
    let change: &[&[u8]] = &[b"CONFIG", b"SET", b"appendfsync", b"always"];
    node.send(clients[0], &request_bytes(change));
    assert!(begins_to_sync(&mut node));
    node.finish_sync().expect("a disk without faults");
    assert_eq!(answered(&mut node, &clients[..1]), 1);
}

/// Each worker had its own commits, one after the other: with four workers a reply took four syncs.
#[test]
fn with_long_syncs_each_one_answers_the_clients_of_all_workers() {
    for workers in [1, 2, 4] {
        let clock = Arc::new(SettableClock::new());
        let number = workers.to_string();
        let directives = [("appendfsync", "always"), ("workers", &number)];
        let (mut node, clients) = on_slow_disk(&clock, 5 * workers, &directives);
        let mut answered_by = Vec::new();
        for _ in 0..20 {
            let mut answered = 0;
            for worker in 0..workers {
                // The log thread loses no time: its next commit begins as soon as it may.
                begin_to_sync(&mut node);
                while node.iterate(worker) {}
                for client in clients[worker..].iter().step_by(workers) {
                    let is_answered = node.take_received(*client) == b"+OK\r\n";
                    answered += usize::from(is_answered);
                    if is_answered || answered_by.is_empty() {
                        node.send(*client, &set());
                    }
                }
                while node.iterate(worker) {}
            }
            begin_to_sync(&mut node);
            assert!(node.is_syncing(), "{workers} workers: all have asked");
            node.finish_sync().expect("a disk without faults");
            answered_by.push(answered);
        }
        assert_eq!(answered_by[10..], [clients.len(); 10], "{workers} workers");
    }
}

#[test]
fn waitaof_is_answered_when_the_sync_has_ended_that_covers_it() {
    let disk = Arc::new(MemoryDisk::new());
    let clock = Arc::new(SettableClock::new());
    let setup = setup(&[("appendfsync", "everysec"), ("workers", "2")]);
    let mut node = Node::start(disk, clock, &setup).expect("an empty disk");
    let (writer, other) = (node.connect(3, None), node.connect(usize::MAX, None));
    // The first grant waits for a sync anyway: it raises the bound of all TTLs.
    node.send(
        writer,
        &request_bytes(&[b"SET", b"a", b"1", b"PX", b"9000"]),
    );
    while node.iterate(0) {}
    assert_eq!(node.take_received(writer), b"+OK\r\n");
    node.send(
        writer,
        &request_bytes(&[b"SET", b"b", b"2", b"PX", b"9000"]),
    );
    node.send(writer, &request_bytes(&[b"WAITAOF", b"1", b"0", b"0"]));
    while node.iterate(0) {}
    assert_eq!(node.take_received(writer), b"+OK\r\n");
    while !node.is_syncing() {
        node.begin_log_work().expect("a disk without faults");
    }
    node.send(other, &request_bytes(&[b"GET", b"b"]));
    for worker in [0, 1] {
        while node.iterate(worker) {}
    }
    assert_eq!(node.take_received(other), b"$1\r\n2\r\n");
    assert_eq!(node.take_received(writer), b"", "the sync has not ended");
    node.finish_sync().expect("a disk without faults");
    while node.iterate(0) {}
    assert_eq!(node.take_received(writer), b"*2\r\n:1\r\n:0\r\n");
}

/// It got no reply, unlike after every other command.
#[test]
fn waitaof_is_answered_to_a_client_that_sends_no_more_and_not_to_one_that_has_gone() {
    let setup = setup(&[("appendfsync", "everysec")]);
    let clock = Arc::new(SettableClock::new());
    let mut node = Node::start(Arc::new(MemoryDisk::new()), clock, &setup).expect("an empty disk");
    assert_eq!(
        node.execute(&[b"SET", b"a", b"1", b"PX", b"9000"]),
        b"+OK\r\n"
    );
    let (ended, gone) = (node.connect(usize::MAX, None), node.connect(7, None));
    for client in [ended, gone] {
        node.send(
            client,
            &request_bytes(&[b"SET", b"b", b"2", b"PX", b"9000"]),
        );
        node.send(client, &request_bytes(&[b"WAITAOF", b"1", b"0", b"0"]));
        node.send(client, &request_bytes(&[b"GET", b"b"]));
    }
    node.end(ended);
    while node.iterate(0) {}
    assert_eq!(node.take_received(ended), b"+OK\r\n");
    assert!(!node.is_closed(ended) && !node.is_closed(gone));
    node.reset(gone);
    while node.iterate(0) {}
    assert!(node.is_closed(gone));
    assert!(!node.is_closed(ended), "the sync has not ended");
    node.work_on_log().expect("a disk without faults");
    while node.iterate(0) {}
    assert_eq!(node.take_received(ended), b"*2\r\n:1\r\n:0\r\n$1\r\n2\r\n");
    assert!(node.is_closed(ended));
}

fn setup(directives: &[(&str, &str)]) -> Setup {
    let mut config = Config::default();
    for (name, value) in [&[("first-start", "serve")], directives].concat() {
        config.set(name, &[value]).expect("a directive");
    }
    Setup {
        part_bytes: 256,
        ..Setup::new(config)
    }
}
