//! The hand-overs between threads under many orders of threads: inboxes, jobs of the log thread, tickets of syncs.
//!
//! Shuttle runs the threads of a test one at a time and decides at every lock, atomic and message who goes on. It
//! sees orders of statements, not those of memory. What runs is production code; only the sockets, the waiting for
//! them and the timer of a second are played here. A thread that waits and is never woken is a deadlock, which
//! shuttle reports.
//!
//! `cargo test -p quorlock-server --lib --features shuttle hand_over`; `ORDERS` says how many orders are tried.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorlock_persistence::{
    Fault, FrameKind, LogOptions, MemoryDisk, Operation, Position, PowerLoss, Recovery,
};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::{JoinHandle, sleep, spawn};
use shuttle::{Config as Shuttle, Runner};

use crate::clock::SettableClock;
use crate::config::Config;
use crate::core::commit_queue::{CommitQueue, Plan};
use crate::core::log_queue::{Job, Jobs};
use crate::core::log_work::LogWork;
use crate::core::state::NodeState;
use crate::core::wait::Wait;
use crate::event_loop::message::Message;
use crate::node::for_tests;
use crate::runtime::inbox::{Inbox, Incoming, Wake};
use crate::session::Blocked;

/// Runs a test in many orders of its threads: all of them random, and with few switches.
fn explore(test: fn()) {
    let orders = std::env::var("ORDERS").map_or(ORDERS, |orders| orders.parse().unwrap());
    let mut shuttle = Shuttle::new();
    shuttle.stack_size = 1 << 20;
    shuttle.silence_warnings = true;
    Runner::new(RandomScheduler::new(orders / 2), shuttle.clone()).run(test);
    Runner::new(PctScheduler::new(3, orders / 2), shuttle).run(test);
}

/// What mio's waker is to a poll: a wake-up is kept until the next sleep.
#[derive(Debug, Default)]
struct Bell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Wake for Bell {
    fn wake(&self) -> io::Result<()> {
        *self.is_rung.lock().unwrap() = true;
        self.rung.notify_one();
        Ok(())
    }
}

impl Bell {
    fn wait(&self) {
        let mut is_rung = self.is_rung.lock().unwrap();
        while !*is_rung {
            is_rung = self.rung.wait(is_rung).unwrap();
        }
        *is_rung = false;
    }
}

fn message(client_id: u64) -> Message {
    let blocked = Blocked {
        position: Position::ZERO,
        until_raw_ns: None,
    };
    Message::Unblocked {
        connection: 0,
        client_id,
        blocked,
    }
}

fn client_id(incoming: Incoming) -> u64 {
    match incoming {
        Incoming::Message(Message::Unblocked { client_id, .. }) => client_id,
        other => panic!("nobody sent {other:?}"),
    }
}

/// Two send three messages each, one of them with a job that is dropped.
fn senders(inbox: &Inbox<Bell>) -> Vec<JoinHandle<u64>> {
    let sender = |first: u64| {
        let inbox = inbox.clone();
        spawn(move || {
            let send = |id| u64::from(inbox.send(Incoming::Message(message(id))));
            let dropped = inbox.told_on_drop(message(first));
            let taken = send(first + 1);
            drop(dropped);
            taken + send(first + 2)
        })
    };
    vec![sender(0), sender(3)]
}

/// Planted: wakes the worker before it sends.
#[test]
fn nothing_is_left_lying_in_an_inbox_while_its_worker_sleeps() {
    explore(|| {
        let bell = Arc::new(Bell::default());
        let (inbox, incoming) = Inbox::waking(Arc::clone(&bell));
        let senders = senders(&inbox);
        let mut seen = BTreeSet::new();
        while seen.len() < 6 {
            bell.wait();
            while let Ok(incoming) = incoming.try_recv() {
                assert!(seen.insert(client_id(incoming)), "sent once");
            }
        }
        assert_eq!(
            senders
                .into_iter()
                .map(|it| it.join().unwrap())
                .sum::<u64>(),
            4
        );
    });
}

/// Planted: says that everything was taken.
#[test]
fn who_sends_to_a_worker_that_has_ended_is_told_so() {
    explore(|| {
        let bell = Arc::new(Bell::default());
        let (inbox, incoming) = Inbox::waking(Arc::clone(&bell));
        let senders = senders(&inbox);
        bell.wait();
        drop(incoming);
        for sender in senders {
            sender.join().unwrap();
        }
        assert!(!inbox.send(Incoming::Message(message(6))));
        drop(inbox.told_on_drop(message(7)));
    });
}

/// A node on a disk in memory, and what its log thread does. Its threads run in rounds, because a start takes longer
/// than a round.
struct World {
    node: Arc<NodeState>,
    disk: MemoryDisk,
    log_thread: Option<(LogWork, Jobs)>,
}

impl World {
    /// Each sync takes this long. The log begins a new segment every other frame of [`append`].
    fn new(mode: &str, sync_takes: Duration) -> World {
        let disk = MemoryDisk::with_power_loss();
        let clock = Arc::new(SettableClock::new());
        let mut config = Config::default();
        config.set("appendfsync", &[mode]).unwrap();
        let sizes = LogOptions {
            first_segment_bytes: 8 << 10,
            segment_bytes: 8 << 10,
            frame_bytes_max: 4 << 10,
            reserve_bytes: 0,
            ..LogOptions::default()
        };
        let on_disk = Arc::new(disk.clone());
        let (node, preparer, jobs) = for_tests::started_with(config, on_disk, clock.clone(), sizes);
        disk.on_sync(Arc::new(move || {
            clock.advance(sync_takes);
            // Others go on meanwhile.
            sleep(sync_takes);
        }));
        World {
            log_thread: Some((LogWork::new(Arc::clone(&node), preparer), jobs)),
            node,
            disk,
        }
    }

    /// Runs these threads beside the log thread, until all of them have ended and it has done what is left.
    fn run(&mut self, threads: Vec<Thread>) {
        let (work, jobs) = self.log_thread.take().unwrap();
        let log_thread = spawn(move || work_on_log(work, jobs));
        let run = |thread: Thread| {
            let (node, disk) = (Arc::clone(&self.node), self.disk.clone());
            spawn(move || thread(&node, &disk))
        };
        let threads: Vec<_> = threads.into_iter().map(run).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        self.node.log_queue.send(Job::Stop);
        self.log_thread = Some(log_thread.join().unwrap());
        assert_synced(&self.node, &self.disk, &mut Position::default());
    }

    fn last_position(&self) -> Position {
        let executor = self.node.lock().unwrap();
        Position::from_raw(executor.appender.next_position().get() - 1)
    }
}

type Thread = fn(&Arc<NodeState>, &MemoryDisk);

/// The log thread: jobs in their order, and the sync of a second at any time once it was asked for.
fn work_on_log(mut work: LogWork, mut jobs: Jobs) -> (LogWork, Jobs) {
    loop {
        let is_over = work.sync_due_raw_ns().is_some() && thread_rng().gen_bool(0.5);
        let mut begun = if is_over {
            work.begin_sync_of_second()
        } else {
            match block_on(jobs.recv()) {
                None | Some(Job::Stop) => break,
                Some(job) => work.begin(job),
            }
        };
        let _ = work.finish(&mut begun);
    }
    if work.sync_due_raw_ns().is_some() {
        let mut begun = work.begin_sync_of_second();
        let _ = work.finish(&mut begun);
    }
    (work, jobs)
}

/// Appends a frame; returns its position.
fn append(node: &NodeState) -> Position {
    let mut executor = node.lock().unwrap();
    let kind = FrameKind::new(9);
    executor.appender.append(kind, 0, &[0; 3 << 10])
}

/// How far the log comes that a power loss leaves now.
fn durable(disk: &MemoryDisk) -> Position {
    let left = disk
        .after_loss_of_names(&[])
        .after_loss(&PowerLoss::default());
    let recovery = Recovery::read(Arc::new(left), &LogOptions::default()).unwrap();
    recovery
        .frames()
        .last()
        .map_or(Position::ZERO, |frame| frame.position)
}

/// What is said to be synced is, and it never goes back.
fn assert_synced(node: &NodeState, disk: &MemoryDisk, before: &mut Position) {
    let synced = node.commit.synced();
    assert!(synced >= *before, "{synced} after {before}");
    assert!(synced <= durable(disk), "{synced} is not on the disk");
    *before = synced;
}

/// Writes what is appended, as a worker does.
fn write(node: &NodeState) {
    node.log_writer.write(&node.executor).unwrap();
    node.after_write();
}

/// Planted, one at a time: the log thread notes that a commit has begun after it has written; that the sync of a
/// second has begun after it has; it does not look whether it has to make another segment.
#[test]
fn nothing_that_somebody_asked_for_is_left_undone_by_the_log_thread() {
    explore(|| {
        let (mode, thread): (_, Thread) = if thread_rng().gen_bool(0.5) {
            ("everysec", |node, _| {
                append(node);
                write(node);
            })
        } else {
            ("no", |node, _| {
                append(node);
                node.log_queue.ask_for_sync();
                write(node);
            })
        };
        let mut world = World::new(mode, Duration::ZERO);
        for _ in 0..ROUNDS {
            world.run(vec![thread; thread_rng().gen_range(1..=3)]);
            let last = world.last_position();
            assert_eq!(world.node.commit.synced(), last, "a sync was not made");
            let executor = world.node.lock().unwrap();
            assert!(executor.appender.has_spare(), "a segment was not made");
        }
    });
}

/// A worker, with one reply that waits for a sync.
fn work(node: &Arc<NodeState>, disk: &MemoryDisk) {
    let bell = Arc::new(Bell::default());
    let (inbox, incoming) = Inbox::waking(Arc::clone(&bell));
    let (mut queue, mut released, mut synced) =
        (CommitQueue::default(), Vec::new(), Position::ZERO);
    let position = append(node);
    let wait = Wait {
        written: position,
        synced: position,
    };
    queue.push(0, wait);
    loop {
        let plan = queue.plan(&node.commit, false, || 0);
        let ran = match plan {
            Plan::Nothing | Plan::HandOver | Plan::Linger(_) => Ok(()),
            Plan::Write | Plan::WriteAndHandOver => node.log_writer.write(&node.executor),
            Plan::Commit => node.log_writer.write_and_sync(&node.executor),
        };
        if let Err(failure) = ran {
            node.fail(&failure);
        }
        node.after_write();
        queue.release(&node.commit, &mut released);
        if matches!(plan, Plan::HandOver | Plan::WriteAndHandOver) {
            let told = inbox.told_on_drop(Message::Synced);
            let done = Box::new(move || drop(told));
            node.log_queue.send(Job::CommitNow(done));
        }
        if let Some(released) = released.pop() {
            assert_synced(node, disk, &mut synced);
            assert!(released.is_withheld || synced >= position);
            return;
        }
        bell.wait();
        while let Ok(Incoming::Message(Message::Synced)) = incoming.try_recv() {
            queue.note_synced();
        }
        assert_synced(node, disk, &mut synced);
    }
}

/// A client that waits for a sync, as with WAITAOF.
fn wait_for_sync(node: &Arc<NodeState>, disk: &MemoryDisk) {
    let position = append(node);
    node.log_queue.ask_for_sync();
    let blocked = Blocked {
        position,
        until_raw_ns: None,
    };
    block_on(blocked.over(node));
    let mut synced = Position::ZERO;
    assert_synced(node, disk, &mut synced);
    assert!(synced >= position || node.commit.failure().is_some());
}

/// Planted, one at a time: what is written when a sync ends counts as synced; a sync that ends late sets the position
/// back; who waits for a sync looks first and asks to be told then.
#[test]
fn nobody_is_told_of_a_sync_that_has_not_covered_what_they_wait_for() {
    explore(|| {
        let takes = [Duration::ZERO, Duration::from_millis(1)];
        let mut world = World::new("always", takes[thread_rng().gen_range(0..2)]);
        for _ in 0..ROUNDS {
            let pick = |_| [work as Thread, wait_for_sync][thread_rng().gen_range(0..2)];
            let threads = thread_rng().gen_range(1..=3);
            world.run((0..threads).map(pick).collect());
        }
    });
}

/// The system reports a lost page to one sync only. Planted: two syncs run at once.
#[test]
fn nobody_is_told_of_a_sync_beside_one_that_has_failed() {
    explore(|| {
        let mut world = World::new("always", Duration::ZERO);
        let (after, error) = (thread_rng().gen_range(0..20), Fault::Error(5));
        world.disk.plan_fault(&[Operation::Sync], after, error);
        while world.node.commit.failure().is_none() {
            world.run(vec![work, work, wait_for_sync]);
        }
    });
}

const ORDERS: usize = 2000;
/// Of the threads of one node.
const ROUNDS: usize = 8;
