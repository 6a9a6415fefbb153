//! What a node makes of its clocks, reading by reading.

use std::time::Duration;

use quorlock_engine::BootTime;
use quorlock_engine::control::{Boot, Ceiling, Durability};

use super::*;
use crate::clock::{Clock, SettableClock};
use crate::core::time::wall::Anchor;

const SECOND: Duration = Duration::from_secs(1);
const SECOND_NS: u64 = 1_000_000_000;
const HOUR_US: i64 = 3_600_000_000;

impl Timekeeper {
    /// The moment now, by these clocks.
    pub(crate) fn read(&mut self, clock: &dyn Clock) -> Moment {
        self.now(clock.raw(), || WallReading::now(clock))
    }
}

fn timekeeper(clock: &SettableClock) -> Timekeeper {
    timekeeper_within(clock, 10_000)
}

fn timekeeper_within(clock: &SettableClock, drift_ppm: u64) -> Timekeeper {
    Timekeeper::new(&start(clock), drift_ppm)
}

fn start(clock: &SettableClock) -> Start {
    Start {
        incarnation: 1,
        boot: Boot::default(),
        fingerprint: 0,
        durability: Durability::Always,
        base: NodeTime::from_nanos(5_000),
        raw: clock.raw(),
        wall_us: clock.wall_us(),
        boottime: clock.boottime(),
        pending: None,
        cap_ns: 60_000_000_000,
        ceiling: Ceiling::NONE,
    }
}

#[test]
fn a_wall_step_moves_no_deadline_and_is_slewed_into_time() {
    let clock = SettableClock::new();
    let mut time = timekeeper(&clock);
    let before = time.read(&clock);
    clock.step_wall(HOUR_US);
    clock.advance(SECOND);
    let after = time.read(&clock);
    assert_eq!(after.node.as_nanos() - before.node.as_nanos(), SECOND_NS);
    assert_eq!(
        after.wall_us - before.wall_us,
        1_010_000,
        "1 s and 1 % of slew"
    );
    clock.step_wall(-2 * HOUR_US);
    clock.advance(SECOND);
    assert_eq!(time.read(&clock).wall_us - after.wall_us, 990_000);
}

#[test]
fn a_suspend_moves_time_but_not_node_time() {
    let clock = SettableClock::new();
    let mut time = timekeeper(&clock);
    let before = time.read(&clock);
    clock.suspend(Duration::from_secs(60));
    clock.advance(Duration::from_millis(2));
    let after = time.read(&clock);
    assert_eq!(after.node.as_nanos() - before.node.as_nanos(), 2_000_000);
    assert_eq!(after.wall_us - before.wall_us, 60_002_000);
}

#[test]
fn node_time_never_goes_back() {
    let clock = SettableClock::new();
    let mut time = timekeeper(&clock);
    clock.advance(5 * SECOND);
    let before = time.read(&clock).node;
    clock.reboot(SECOND);
    assert_eq!(time.read(&clock).node, before);
    clock.detune_raw(-1_000_000);
    clock.advance(5 * SECOND);
    assert_eq!(time.read(&clock).node, before, "a clock that stands still");
}

#[test]
fn time_goes_on_where_boot_time_went_back() {
    let clock = SettableClock::new();
    let mut time = timekeeper(&clock);
    let before = time.read(&clock);
    clock.step_boottime(-100 * 1_000_000_000);
    clock.advance(SECOND);
    assert_eq!(time.read(&clock).wall_us - before.wall_us, 1_000_000);
    clock.advance(SECOND);
    assert_eq!(time.read(&clock).wall_us - before.wall_us, 2_000_000);
}

#[test]
fn time_never_goes_back_however_the_clocks_are_steered_set_and_read() {
    let clock = SettableClock::new();
    let mut time = timekeeper(&clock);
    let mut last = time.read(&clock).wall_us;
    for round in 0..20_000_u32 {
        match round % 1_000 {
            0 => clock.steer(if round % 2_000 == 0 { -80_000 } else { 80_000 }),
            300 => clock.step_wall(-HOUR_US),
            600 => clock.strobe_wall(i64::from(round) * 1_000),
            900 => clock.strobe_wall(0),
            _ => {}
        }
        clock.advance(Duration::from_micros(u64::from(round) % 1_700));
        let now = time.read(&clock).wall_us;
        assert!(now >= last, "round {round}: {now} after {last}");
        assert!(now - last < 3_000, "round {round}: {now} after {last}");
        last = now;
    }
}

#[test]
fn a_small_drift_bound_slews_too_also_when_read_often() {
    let clock = SettableClock::new();
    let mut time = timekeeper_within(&clock, 100);
    let before = time.read(&clock).wall_us;
    clock.step_wall(HOUR_US);
    for _ in 0..1_000 {
        clock.advance(Duration::from_millis(1));
        time.read(&clock);
    }
    assert_eq!(time.read(&clock).wall_us - before, 1_000_100, "100 ppm");
}

fn wall_off_record(time: &mut Timekeeper, clock: &SettableClock) -> Option<ControlRecord> {
    time.read(clock);
    time.wall_off_record()
}

#[test]
fn where_the_wall_clock_stands_is_recorded_only_while_it_follows_a_step() {
    let clock = SettableClock::new();
    let mut time = timekeeper(&clock);
    for ppm in [0, 80_000, -80_000] {
        clock.steer(ppm);
        clock.advance(60 * SECOND);
        clock.suspend(60 * SECOND);
        assert_eq!(
            wall_off_record(&mut time, &clock),
            None,
            "no step, no record"
        );
    }
    clock.steer(0);
    clock.step_wall(20_000);
    let mut records = 0;
    for _ in 0..10 {
        clock.advance(SECOND);
        let record = wall_off_record(&mut time, &clock);
        assert_eq!(record.is_some(), records < 2, "20 ms take 2 s");
        records += u32::from(record.is_some());
        assert_eq!(time.is_slewing(), records < 2);
    }
}

#[test]
fn a_start_goes_on_from_the_anchor_and_never_from_the_real_clock_of_the_same_boot() {
    let start = Start {
        wall_us: 1_000_000,
        boottime: BootTime::from_nanos(5 * SECOND_NS),
        ..start(&SettableClock::new())
    };
    let real_us = 77;
    let at = |wall_us, boottime_ns| Anchor {
        wall_us,
        boottime: BootTime::from_nanos(boottime_ns),
    };
    let kept = anchor(
        Some(&start),
        real_us,
        BootTime::from_nanos(7 * SECOND_NS + 1_500),
    );
    assert_eq!(kept, at(3_000_001, 7 * SECOND_NS + 1_000));
    assert_eq!(
        anchor(None, real_us, BootTime::from_nanos(9)),
        at(real_us, 9)
    );
    assert_eq!(
        anchor(Some(&start), real_us, BootTime::from_nanos(SECOND_NS)),
        at(real_us, SECOND_NS),
        "boot time went back"
    );
    let late = Start {
        wall_us: u64::MAX,
        ..start
    };
    assert_eq!(
        anchor(Some(&late), real_us, BootTime::from_nanos(7 * SECOND_NS)),
        at(real_us, 7 * SECOND_NS)
    );
}

#[test]
fn a_large_step_of_the_wall_clock_is_told_once_and_again_after_it_was_followed() {
    let clock = SettableClock::new();
    let mut time = timekeeper(&clock);
    let step = |time: &mut Timekeeper| {
        clock.advance(SECOND);
        wall_off_record(time, &clock);
        time.take_wall_step()
    };
    assert_eq!(step(&mut time), None);
    clock.step_wall(900_000);
    assert_eq!(step(&mut time), None, "not worth it");
    clock.step_wall(1_000_000);
    assert_eq!(step(&mut time), Some(1_880_000), "less 2 s of slewing");
    assert_eq!(step(&mut time), None, "told already");
    clock.advance(Duration::from_secs(200));
    assert_eq!(step(&mut time), None);
    clock.step_wall(-HOUR_US);
    assert_eq!(step(&mut time), Some(3_599_990_000));
}
