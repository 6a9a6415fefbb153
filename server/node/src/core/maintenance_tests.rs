//! Maintenance step by step: what is appended, what is asked for and when it comes again, with the
//! time moved by hand and nothing written.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_engine::control::{Ceiling, Durability, Pending, Start};
use quorlock_engine::restart::Stop;
use quorlock_engine::{Caller, Command, NodeTime};
use quorlock_persistence::{LogOptions, MemoryDisk, Position};

use crate::clock::{Clock, SettableClock};
use crate::config::Config;
use crate::core::executor::room::KEPT_BACK_BYTES;
use crate::core::executor::{Executor, Phase};
use crate::core::executor_tests::{SMALL, core_on, executor};
use crate::core::maintenance::{Maintenance, MaintenanceNotice, Step, View, Wake, Work};
use crate::core::rewrites::{LogSize, Rewrites};
use crate::core::settings::NodeSettings;
use crate::core::wait::DurabilityWait;

struct Node {
    executor: Executor,
    clock: SettableClock,
    settings: NodeSettings,
    rewrites: Rewrites,
    maintenance: Maintenance,
    /// What a driver would have synced.
    synced: Position,
}

impl Node {
    /// Started, and waiting for this if anything.
    fn new(durability: Durability, delay: Option<Duration>) -> Node {
        Node::of(executor(durability), durability, delay)
    }

    fn of(
        (mut executor, clock): (Executor, SettableClock),
        durability: Durability,
        delay: Option<Duration>,
    ) -> Node {
        let now = executor.time.read(&clock).node;
        let pending = delay.map(|delay| Pending {
            until: now.saturating_add(delay),
            length_ns: u64::try_from(delay.as_nanos()).unwrap(),
            cause: Stop::Unclean,
        });
        executor.phase = Phase::Waiting(pending.map_or(NodeTime::ZERO, |delay| delay.until), "");
        let start = Start {
            incarnation: 1,
            boot: clock.boot(),
            fingerprint: 0,
            durability,
            base: now,
            raw: clock.raw(),
            wall_us: clock.wall_us(),
            boottime: clock.boottime(),
            pending,
            cap_ns: 60_000_000_000,
            ceiling: Ceiling::NONE,
        };
        Node {
            executor,
            clock,
            settings: NodeSettings::new(&Config::default()),
            rewrites: Rewrites::default(),
            maintenance: Maintenance::new(start, 64 * 1024),
            synced: Position::ZERO,
        }
    }

    /// One that serves.
    fn serving(durability: Durability) -> Node {
        Node::new(durability, None).started()
    }

    /// One whose log is short; what makes the disk full for it.
    fn serving_on_small_disk(durability: Durability) -> (Node, impl FnOnce(&Node)) {
        let disk = MemoryDisk::new();
        let sizes = LogOptions {
            first_segment_bytes: 1 << 20,
            ..SMALL
        };
        let (executor, clock, mut preparer) = core_on(&disk, durability, &sizes);
        let fill = move |node: &Node| {
            disk.set_capacity(Some(0));
            assert!(!preparer.prepare().unwrap());
            assert!(node.executor.appender.is_full());
        };
        let node = Node::of((executor, clock), durability, None);
        (node.started(), fill)
    }

    fn started(mut self) -> Node {
        let node = &mut self;
        let now = node.now();
        let step = node.maintenance.start(&mut node.executor, now);
        assert_eq!(step.work, Work::Commit, "START and SERVING in one sync");
        assert_ne!(
            node.executor.phase,
            Phase::Serving,
            "not before that is durable"
        );
        assert!(node.maintenance.is_about_to_serve());
        assert!(matches!(
            node.next().announcement,
            Some(MaintenanceNotice::Serves { .. })
        ));
        assert_eq!(node.executor.phase, Phase::Serving);
        self
    }

    fn now(&mut self) -> NodeTime {
        self.executor.time.read(&self.clock).node
    }

    fn next(&mut self) -> Step {
        let view = View {
            now: self.now(),
            settings: &self.settings,
            rewrites: &self.rewrites,
            log: LogSize::default(),
            synced: self.synced,
        };
        self.maintenance.next(&mut self.executor, view)
    }

    fn position(&self) -> u64 {
        self.executor.appender.next_position().get()
    }

    fn execute(&mut self, words: &[&[u8]]) {
        let now = self.executor.time.read(&self.clock);
        let command = Command::parse(words).unwrap();
        let mut wait = DurabilityWait::default();
        let caller = Caller::default();
        let reply = self.executor.execute(now, &caller, &command, &mut wait);
        assert!(!reply.unwrap().is_error());
    }

    /// How long the step after this one may be off.
    fn pause(&self, step: &Step) -> Duration {
        let Wake::At { raw, .. } = step.wake else {
            panic!("{step:?} names no time");
        };
        raw.saturating_since(self.clock.raw())
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_restart_delay_is_waited_out_in_slices_and_ends_with_a_synced_record() {
    let mut node = Node::new(Durability::Everysec, Some(Duration::from_millis(150)));
    let now = node.now();
    let step = node.maintenance.start(&mut node.executor, now);
    assert_eq!(step.work, Work::Commit, "START");
    assert!(!node.maintenance.is_about_to_serve());
    let step = node.next();
    assert_eq!(
        (step.work, node.pause(&step)),
        (Work::None, Duration::from_millis(100))
    );
    node.clock.advance(Duration::from_millis(100));
    let step = node.next();
    assert_eq!(node.pause(&step), Duration::from_millis(50));
    node.clock
        .advance(Duration::from_millis(50) - Duration::from_nanos(1));
    let step = node.next();
    assert_eq!(node.pause(&step), Duration::from_nanos(1));
    node.clock.advance(Duration::from_nanos(1));
    assert_eq!(node.next().work, Work::Commit, "SERVING");
    assert!(matches!(node.executor.phase, Phase::Waiting(..)));
    assert!(matches!(
        node.next().announcement,
        Some(MaintenanceNotice::Serves { .. })
    ));
    assert_eq!(node.executor.phase, Phase::Serving);
}

#[test]
fn a_node_that_is_stopped_inside_its_delay_never_serves() {
    let mut node = Node::new(Durability::Everysec, Some(SECOND));
    let now = node.now();
    node.maintenance.start(&mut node.executor, now);
    node.clock.advance(SECOND);
    assert_eq!(node.next().work, Work::Commit, "SERVING is on its way");
    let now = node.now();
    assert_eq!(
        node.maintenance.stop(&mut node.executor, now).work,
        Work::Commit
    );
    assert_eq!(node.next().announcement, None);
    assert!(matches!(node.executor.phase, Phase::Stopped(_)));
}

#[test]
fn time_is_on_record_each_second_while_a_key_with_a_ttl_lives_and_once_after() {
    let mut node = Node::serving(Durability::Everysec);
    let step = node.next();
    assert_eq!(
        (step.work, node.pause(&step)),
        (Work::None, Duration::from_secs(30))
    );
    node.execute(&[b"SET", b"a", b"1", b"PX", b"2500"]);
    assert!(
        node.executor.take_wake_request(),
        "the write ends the sleep without a timer"
    );
    let mut written = Vec::new();
    for _ in 0..60 {
        let before = node.position();
        let is_written = node.next().work == Work::Write;
        assert_eq!(
            is_written,
            node.position() > before,
            "what is appended is written"
        );
        written.push(is_written);
        node.clock.advance(Duration::from_millis(100));
    }
    let at: Vec<usize> = (0..60).filter(|step| written[*step]).collect();
    assert_eq!(at, [0, 10, 20, 25], "and then never again");
}

#[test]
fn a_key_that_ends_sooner_than_those_that_lived_is_freed_when_it_ends() {
    let mut node = Node::serving(Durability::Everysec);
    node.execute(&[b"SET", b"long", b"1", b"PX", b"3600000"]);
    let step = node.next();
    assert_eq!(node.pause(&step), SECOND);
    node.clock.advance(Duration::from_millis(100));
    node.execute(&[b"SET", b"later", b"1", b"PX", b"5000"]);
    assert!(!node.executor.take_wake_request(), "it comes back before");
    node.execute(&[b"SET", b"short", b"1", b"PX", b"300"]);
    assert!(node.executor.take_wake_request());
    let (mut passed, mut steps) = (Duration::ZERO, 0);
    loop {
        let step = node.next();
        if node.executor.engine.statistics().expired > 0 {
            break;
        }
        let pause = node.pause(&step);
        node.clock.advance(pause);
        (passed, steps) = (passed + pause, steps + 1);
    }
    let late = passed.checked_sub(Duration::from_millis(300)).unwrap();
    assert!(late < Duration::from_millis(10), "{late:?}");
    assert!(steps < 4, "{steps} wake-ups");
}

#[test]
fn time_is_on_record_after_a_key_that_came_and_went_between_two_steps_or_was_deleted() {
    let ticks = |node: &mut Node| {
        let before = node.position();
        node.next();
        node.position() - before
    };
    let mut node = Node::serving(Durability::Everysec);
    node.next();
    node.execute(&[b"SET", b"a", b"1", b"PX", b"5"]);
    node.clock.advance(Duration::from_millis(5));
    assert_eq!(ticks(&mut node), 1, "it expired");
    assert_eq!(ticks(&mut node), 0);
    node.clock.advance(SECOND);
    node.execute(&[b"SET", b"a", b"1", b"PX", b"60000"]);
    assert_eq!(ticks(&mut node), 1);
    node.execute(&[b"DEL", b"a"]);
    assert_eq!(ticks(&mut node), 1, "it was deleted");
    assert_eq!(ticks(&mut node), 0);
}

#[test]
fn on_a_full_disk_a_segment_is_asked_for_once_a_second_and_nothing_goes_on_record() {
    let (mut node, fill) = Node::serving_on_small_disk(Durability::Everysec);
    fill(&node);
    let before = node.position();
    let mut asks = Vec::new();
    for step in 0..30 {
        if node.next().prepares {
            asks.push(step);
        }
        node.clock.advance(Duration::from_millis(100));
    }
    assert_eq!(asks, [0, 10, 20]);
    assert_eq!(node.position(), before);
}

#[test]
fn a_checkpoint_that_finds_no_room_once_it_has_begun_is_announced() {
    let (mut node, fill) = Node::serving_on_small_disk(Durability::Everysec);
    // What is alive does not fit what is left.
    let value = [b'v'; 5_000];
    let mut keys = 0;
    while node.executor.appender.room() > KEPT_BACK_BYTES + 10_000 {
        node.execute(&[
            b"SET",
            format!("k{keys}").as_bytes(),
            &value,
            b"PX",
            b"60000",
        ]);
        keys += 1;
    }
    assert!(keys > 100, "{keys} keys");
    node.rewrites.is_asked.store(true, Ordering::Relaxed);
    let begun = (0..10).find(|_| node.next().work == Work::MakeSegment);
    assert!(begun.is_some());
    fill(&node);
    let told: Vec<MaintenanceNotice> = (0..10).filter_map(|_| node.next().announcement).collect();
    assert_eq!(told, [MaintenanceNotice::NoRoomForCheckpoint]);
    assert!(!node.rewrites.is_running.load(Ordering::Relaxed));
    assert_eq!(node.rewrites.completed.load(Ordering::Relaxed), 0);
}

/// A run without a log drops the keys that an earlier one has logged: it begins with a checkpoint.
#[test]
fn a_checkpoint_leaves_the_disk_to_requests_as_long_as_its_sync_took() {
    for (took_ms, rests_ms) in [(7, 7), (1_000, 50)] {
        let mut node = Node::serving(Durability::Volatile);
        assert!(node.rewrites.is_running.load(Ordering::Relaxed));
        let mut works = Vec::new();
        while works.last() != Some(&Work::Sync) {
            let step = node.next();
            assert!(works.len() < 10, "{works:?}");
            works.push(step.work);
        }
        assert_eq!(node.rewrites.completed.load(Ordering::Relaxed), 0);
        node.clock.advance(Duration::from_millis(took_ms));
        node.synced = Position::from_raw(node.position() - 1);
        let steps: Vec<Step> = (0..4).map(|_| node.next()).collect();
        let rests: Vec<&Step> = steps
            .iter()
            .filter(|step| matches!(step.wake, Wake::After(_)))
            .collect();
        assert_eq!(rests.len(), 1, "{steps:?}");
        assert_eq!(rests[0].wake, Wake::After(Duration::from_millis(rests_ms)));
        assert_eq!(
            node.rewrites.completed.load(Ordering::Relaxed),
            1,
            "{steps:?}"
        );
        assert!(steps.iter().any(|step| step.prepares), "old segments go");
    }
}

#[test]
fn a_checkpoint_whose_end_is_not_synced_is_not_complete() {
    let mut node = Node::serving(Durability::Volatile);
    for _ in 0..20 {
        node.next();
        assert!(node.rewrites.is_running.load(Ordering::Relaxed));
    }
    node.synced = Position::from_raw(node.position() - 2);
    for _ in 0..5 {
        node.next();
    }
    assert!(
        node.rewrites.is_running.load(Ordering::Relaxed),
        "END is missing"
    );
    node.synced = Position::from_raw(node.position() - 1);
    for _ in 0..5 {
        node.next();
    }
    assert_eq!(node.rewrites.completed.load(Ordering::Relaxed), 1);
}

/// A checkpoint on a slow disk takes longer than a second.
#[test]
fn time_goes_on_record_while_a_checkpoint_is_written() {
    let (mut node, _) = Node::serving_on_small_disk(Durability::Everysec);
    node.next();
    // What is left of the segment is for requests.
    while node.executor.appender.room() > KEPT_BACK_BYTES + 100_000 {
        node.execute(&[b"SET", b"a", &[b'v'; 50_000], b"PX", b"60000"]);
    }
    node.next();
    node.rewrites.is_asked.store(true, Ordering::Relaxed);
    node.clock.advance(SECOND);
    let step = node.next();
    assert_eq!(
        (step.work, step.wake),
        (Work::Write, Wake::Soon),
        "begins, and ticks"
    );
    assert!(node.rewrites.is_running.load(Ordering::Relaxed));
    let works: Vec<Work> = (0..5).map(|_| node.next().work).collect();
    assert!(
        works.contains(&Work::MakeSegment),
        "it asks for a segment: {works:?}"
    );
    assert!(!works.contains(&Work::Write), "{works:?}");
    node.clock.advance(SECOND);
    let before = node.position();
    assert_eq!(node.next().work, Work::Write, "a tick in between");
    assert_eq!(node.position(), before + 1);
    assert!(node.rewrites.is_running.load(Ordering::Relaxed));
}

/// A node that has logged little and whose segments are many: compaction is to make room, and not to take 16 MiB more.
#[test]
fn a_checkpoint_that_fits_the_segment_needs_no_other_one() {
    let mut node = Node::serving(Durability::Everysec);
    node.execute(&[b"SET", b"a", b"1", b"PX", b"60000"]);
    node.rewrites.is_asked.store(true, Ordering::Relaxed);
    let works: Vec<Work> = (0..10).map(|_| node.next().work).collect();
    assert!(works.contains(&Work::Sync), "its end: {works:?}");
    assert!(!works.contains(&Work::MakeSegment), "{works:?}");
}

#[test]
fn a_mode_that_became_stronger_is_complete_once_what_the_weaker_revealed_is_synced() {
    let mut node = Node::serving(Durability::No);
    node.next();
    node.execute(&[b"SET", b"a", b"1", b"PX", b"60000"]);
    node.next();
    let now = node.executor.time.read(&node.clock).node;
    let changed = node
        .executor
        .change_mode(now, Durability::Always, Duration::from_secs(60));
    let step = node.next();
    assert_eq!(step.work, Work::None, "nothing is synced yet");
    let after_sync = |step: &Step| {
        matches!(
            step.wake,
            Wake::At {
                after_sync: true,
                ..
            }
        )
    };
    assert!(after_sync(&step), "a sync ends the wait: {step:?}");
    node.synced = changed;
    let step = node.next();
    assert_eq!(step.work, Work::Write, "the record that says so");
    assert!(!after_sync(&step), "{step:?}");
}

fn expire(node: &mut Node, keys: usize) {
    for number in 0..keys {
        node.execute(&[b"SET", number.to_string().as_bytes(), b"v", b"PX", b"50"]);
    }
    node.clock.advance(Duration::from_millis(100));
}

#[test]
fn many_keys_that_expire_leave_the_core_to_requests_again_and_again() {
    let mut node = Node::serving(Durability::Everysec);
    node.next();
    expire(&mut node, 1_000);
    let keys = |node: &Node| node.executor.engine.count(0).keys;
    let mut wakes = Vec::new();
    for _ in 0..8 {
        let before = keys(&node);
        wakes.push(node.next().wake);
        assert!(before - keys(&node) <= 64, "a step is short");
    }
    assert!(keys(&node) <= 1_000 - 7 * 64, "{} are left", keys(&node));
    let rest = Wake::After(Duration::from_micros(200));
    let soon = Wake::Soon;
    assert_eq!(wakes, [soon, soon, soon, rest, soon, soon, soon, rest]);
}

#[test]
fn keys_that_expire_are_freed_while_a_checkpoint_is_written() {
    let mut node = Node::serving(Durability::Everysec);
    node.next();
    node.rewrites.is_asked.store(true, Ordering::Relaxed);
    node.clock.advance(SECOND);
    node.next();
    expire(&mut node, 100);
    node.next();
    node.next();
    assert!(node.rewrites.is_running.load(Ordering::Relaxed));
    assert_eq!(node.executor.engine.count(0).keys, 0);
}
