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

use quorlock_engine::RawTime;
use quorlock_persistence::{
    DiskFault, DiskOperation, FrameKind, LogOptions, MemoryDisk, Position, PowerLoss, Recovery,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::{JoinHandle, sleep, spawn};
use shuttle::{Config as Shuttle, Runner};

use crate::clock::SettableClock;
use crate::config::{Config, FirstStart};
use crate::runtime::inbox::{Inbox, InboxItem, WorkerWaker};
use quorlock_node::core::clients::{Clients, Endpoints};
use quorlock_node::core::commit_queue::{CommitPlan, CommitQueue};
use quorlock_node::core::log_queue::{LogEvent, LogEvents, LogQueue};
use quorlock_node::core::log_schedule::{LogSchedule, LongSync, Ready};
use quorlock_node::core::log_work::LogWork;
use quorlock_node::core::next_commit::{CommitRequest, Done};
use quorlock_node::core::state::NodeState;
use quorlock_node::core::wait::DurabilityWait;
use quorlock_node::event_loop::message::{Mailbox, Message};
use quorlock_node::simulation::Setup;
use quorlock_node::start::Begun;

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
struct WakeUp {
    has_come: Mutex<bool>,
    comes: Condvar,
}

impl WorkerWaker for WakeUp {
    fn wake(&self) -> io::Result<()> {
        *self.has_come.lock().unwrap() = true;
        self.comes.notify_one();
        Ok(())
    }
}

impl WakeUp {
    fn wait(&self) {
        let mut has_come = self.has_come.lock().unwrap();
        while !*has_come {
            has_come = self.comes.wait(has_come).unwrap();
        }
        *has_come = false;
    }
}

/// A message that is known by a number.
fn message(number: u64) -> Message {
    let clients = Clients::default();
    let add = |_| clients.add(Endpoints::NONE, RawTime::ZERO, 0);
    Message::MakeRoom((0..=number).map(add).last().unwrap())
}

fn number(incoming: InboxItem) -> u64 {
    match incoming {
        InboxItem::Message(Message::MakeRoom(client)) => client.id,
        other => panic!("nobody sent {other:?}"),
    }
}

/// Two send three messages each, one of them with a job that is dropped.
fn senders(inbox: &Inbox<WakeUp>) -> Vec<JoinHandle<u64>> {
    let sender = |first: u64| {
        let inbox = inbox.clone();
        spawn(move || {
            let send = |id| u64::from(inbox.send(InboxItem::Message(message(id))));
            let dropped = inbox.send_on_drop(message(first));
            let taken = send(first + 1);
            drop(dropped);
            taken + send(first + 2)
        })
    };
    vec![sender(0), sender(3)]
}

/// Planted: wakes the worker before it sends.
#[test]
fn nothing_stays_in_an_inbox_while_its_worker_sleeps() {
    explore(|| {
        let wake_up = Arc::new(WakeUp::default());
        let (inbox, incoming) = Inbox::waking(Arc::clone(&wake_up));
        let senders = senders(&inbox);
        let mut seen = BTreeSet::new();
        while seen.len() < 6 {
            wake_up.wait();
            while let Ok(incoming) = incoming.try_recv() {
                assert!(seen.insert(number(incoming)), "sent once");
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
        let wake_up = Arc::new(WakeUp::default());
        let (inbox, incoming) = Inbox::waking(Arc::clone(&wake_up));
        let senders = senders(&inbox);
        wake_up.wait();
        drop(incoming);
        for sender in senders {
            sender.join().unwrap();
        }
        assert!(!inbox.send(InboxItem::Message(message(6))));
        drop(inbox.send_on_drop(message(7)));
    });
}

/// A node on a disk in memory, and what its log thread does. Its threads run in rounds, because a start takes longer
/// than a round.
struct World {
    node: Arc<NodeState>,
    disk: MemoryDisk,
    log_thread: Option<(LogWork, LogEvents)>,
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
        config.first_start = FirstStart::Serve;
        let setup = Setup {
            sizes,
            ..Setup::new(config)
        };
        let Begun {
            node,
            preparer,
            log_events: events,
            ..
        } = setup.begin(on_disk, clock.clone()).unwrap();
        disk.on_sync(Arc::new(move || {
            clock.advance(sync_takes);
            // Others go on meanwhile.
            sleep(sync_takes);
        }));
        World {
            log_thread: Some((LogWork::new(Arc::clone(&node), preparer), events)),
            node,
            disk,
        }
    }

    /// Runs these threads beside the log thread, until all of them have ended and it has done what is left.
    fn run(&mut self, threads: Vec<Thread>) {
        let (work, events) = self.log_thread.take().unwrap();
        let log_thread = spawn(move || work_on_log(work, events));
        let run = |thread: Thread| {
            let (node, disk) = (Arc::clone(&self.node), self.disk.clone());
            spawn(move || thread(&node, &disk))
        };
        let threads: Vec<_> = threads.into_iter().map(run).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        self.node.log_queue.send(LogEvent::Stop);
        self.log_thread = Some(log_thread.join().unwrap());
        assert_synced(&self.node, &self.disk, &mut Position::default());
    }

    fn last_position(&self) -> Position {
        let executor = self.node.lock().unwrap();
        Position::from_raw(executor.appender.next_position().get() - 1)
    }
}

type Thread = fn(&Arc<NodeState>, &MemoryDisk);

/// The log thread. What waits for a time begins at any time: the sync of a second, and a commit that is put off.
fn work_on_log(mut work: LogWork, events: LogEvents) -> (LogWork, LogEvents) {
    let mut is_stopping = false;
    loop {
        while let Some(event) = events.take() {
            work.receive(event);
        }
        let is_over = is_stopping || thread_rng().gen_bool(0.5);
        let now_raw = RawTime::from_nanos(if is_over { u64::MAX } else { 0 });
        match work.ready(now_raw) {
            // Before it ends it does what is left: it may have asked itself, for a segment.
            Ready::Stop => is_stopping = true,
            Ready::Wait(None) if is_stopping => return (work, events),
            Ready::Wait(None) => work.receive(events.wait(None).unwrap()),
            Ready::Wait(Some(_)) => sleep(Duration::ZERO),
            ready => {
                let mut begun = work.begin(ready, now_raw);
                let _ = work.finish(&mut begun);
            }
        }
    }
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
    let frames = recovery.frames().collect().unwrap();
    frames.last().map_or(Position::ZERO, |frame| frame.position)
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
    node.after_write(RawTime::ZERO);
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
                node.log_queue.ask_for_commit(CommitRequest::default());
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
    let wake_up = Arc::new(WakeUp::default());
    let (inbox, incoming) = Inbox::waking(Arc::clone(&wake_up));
    let (number, may_linger) = (thread_rng().r#gen(), thread_rng().r#gen());
    let (mut queue, mut released, mut synced) =
        (CommitQueue::default(), Vec::new(), Position::ZERO);
    let position = append(node);
    let wait = DurabilityWait {
        written: position,
        synced: position,
        ..DurabilityWait::default()
    };
    queue.push(0, wait);
    loop {
        let now_raw = node.clock.raw();
        let plan = queue.plan(&node.commit, may_linger, now_raw);
        node.carry_out(plan, now_raw);
        queue.release(&node.commit, &mut released);
        if let CommitPlan::HandOver(request) | CommitPlan::WriteAndHandOver(request) = plan {
            let told = inbox.send_on_drop(Message::Synced);
            let done = || Box::new(move || drop(told)) as Done;
            node.log_queue.commit_for(number, request, done);
        }
        if let Some(released) = released.pop() {
            assert_synced(node, disk, &mut synced);
            assert!(released.is_withheld || synced >= position);
            return;
        }
        wake_up.wait();
        while incoming.try_recv().is_ok() {}
        assert_synced(node, disk, &mut synced);
    }
}

/// A worker with a client that waits for a sync, as with WAITAOF: it asks for a commit once.
fn wait_for_sync(node: &Arc<NodeState>, disk: &MemoryDisk) {
    let position = append(node);
    let wake_up = Arc::new(WakeUp::default());
    let (inbox, _incoming) = Inbox::waking(Arc::clone(&wake_up));
    let told = inbox.send_on_drop(Message::Synced);
    let done = || Box::new(move || drop(told)) as Done;
    let number = thread_rng().r#gen();
    node.log_queue
        .commit_for(number, CommitRequest::URGENT, done);
    wake_up.wait();
    let mut synced = Position::ZERO;
    assert_synced(node, disk, &mut synced);
    assert!(synced >= position || node.commit.failure().is_some());
}

/// Planted, one at a time: what is written when a sync ends counts as synced; a sync that ends late sets the position
/// back.
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
        let (after, error) = (thread_rng().gen_range(0..20), DiskFault::Error(5));
        world.disk.plan_fault(&[DiskOperation::Sync], after, error);
        while world.node.commit.failure().is_none() {
            world.run(vec![work, work, wait_for_sync]);
        }
    });
}

/// Planted: nobody looks whether the log thread has ended; it ends without telling those who wait.
#[test]
fn nobody_waits_for_a_commit_of_a_log_thread_that_has_ended() {
    explore(|| {
        let (queue, events) = LogQueue::new();
        let queue = Arc::new(queue);
        let asks = |worker: usize| {
            let queue = Arc::clone(&queue);
            spawn(move || {
                let wake_up = Arc::new(WakeUp::default());
                let (inbox, incoming) = Inbox::waking(Arc::clone(&wake_up));
                for _ in 0..2 {
                    let told = inbox.send_on_drop(Message::Synced);
                    let done = || Box::new(move || drop(told)) as Done;
                    queue.commit_for(worker, CommitRequest::default(), done);
                    wake_up.wait();
                    assert!(incoming.try_recv().is_ok());
                }
            })
        };
        let workers = [asks(0), asks(1), asks(1)];
        for _ in 0..thread_rng().gen_range(0..3) {
            if events.take().is_some() {
                drop(queue.next_commit.take());
            }
        }
        drop(events);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Shuttle knows no time: the log thread would wait without end. Planted: who asks does not say that all are back.
#[test]
fn a_commit_that_is_put_off_begins_when_the_last_client_is_back_and_for_who_is_urgent() {
    explore(|| {
        let (queue, events) = LogQueue::new();
        let queue = Arc::new(queue);
        let mut schedule = LogSchedule::default();
        schedule.note_long_sync(LongSync {
            answered: 3,
            ahead: 0,
            ended_raw: RawTime::ZERO,
            sync_ns: 1_000_000,
        });
        let is_urgent = thread_rng().gen_bool(0.5);
        let asks = |request: CommitRequest| {
            let queue = Arc::clone(&queue);
            spawn(move || queue.ask_for_commit(request))
        };
        let replies = |replies| CommitRequest {
            replies,
            ..CommitRequest::default()
        };
        let last = match is_urgent {
            true => CommitRequest::URGENT,
            false => replies(1),
        };
        let workers = [asks(replies(2)), asks(last)];
        let mut ready = || schedule.ready(&mut queue.next_commit.lock(), RawTime::ZERO);
        while !matches!(ready(), Ready::Commit) {
            // Shuttle's never ends by the time.
            events.wait(None);
        }
        assert!(is_urgent || queue.next_commit.take().replies == 3);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

const ORDERS: usize = 4000;
/// Of the threads of one node.
const ROUNDS: usize = 8;
