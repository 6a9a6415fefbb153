//! A clock that tests move by hand: in tests it stands for the machine's clocks.
//!
//! It knows true time, which no process can read, and shows what the machine's clocks would make
//! of it: each runs at a rate of its own, stops, is set, or belongs to another boot. A test
//! compares what a node did with [`SettableClock::true_time`].

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::hand::Hand;
use crate::{Boot, BootTime, ClientInstant, Clock, LookAgain, Pause, RawTime, saturated_nanos};

/// A clock that tests move by hand: the clocks of one machine. Nodes and clients that are given the same `Arc` share one time,
/// which moves for all of them at once.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use quorlock_client::{Redlock, SettableClock};
/// use quorlock_server::Node;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = Arc::new(SettableClock::new());
/// let node = Node::builder().ephemeral().clock(clock.clone()).start().await?;
/// let redlock = Redlock::builder().node(node.url()).clock(clock.clone()).build()?;
/// let lease = redlock.lock("job").ttl(Duration::from_secs(10)).acquire_lease().await?;
/// clock.advance(Duration::from_secs(10)); // for the client, and for the node
/// assert!(!lease.is_valid());
/// redlock.lock("job").ttl(Duration::from_secs(10)).acquire_lease().await?;
/// # Ok(())
/// # }
/// ```
pub struct SettableClock {
    clocks: Mutex<Clocks>,
    /// Of tasks that wait for the next move.
    wakers: Mutex<Vec<Waker>>,
    /// Called at each move.
    watchers: Mutex<Vec<LookAgain>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clocks {
    true_ns: u64,
    raw: Hand,
    boottime: Hand,
    monotonic: Hand,
    wall: Hand,
    boot: Boot,
    strobe_us: i64,
    is_strobed: bool,
}

impl SettableClock {
    /// A clock some time after boot, in the year 2026, that runs right.
    pub fn new() -> Self {
        Self {
            clocks: Mutex::new(Clocks {
                true_ns: 0,
                raw: Hand::new(1_000_000_000_000, 1),
                boottime: Hand::new(1_000_000_000_000, 1),
                monotonic: Hand::new(1_000_000_000_000, 1),
                wall: Hand::new(1_790_000_000_000_000, 1_000),
                boot: Boot([7; 16]),
                strobe_us: 0,
                is_strobed: false,
            }),
            wakers: Mutex::default(),
            watchers: Mutex::default(),
        }
    }

    /// True time goes on, and every clock at its own rate.
    pub fn advance(&self, by: Duration) {
        let nanos = saturated_nanos(by);
        self.change(|clocks| {
            clocks.true_ns = clocks.true_ns.saturating_add(nanos);
            clocks.raw.run(nanos);
            clocks.boottime.run(nanos);
            clocks.monotonic.run(nanos);
            clocks.wall.run(nanos);
        });
    }

    /// Time that has truly passed, suspends included, on no clock of the machine.
    pub fn true_time(&self) -> Duration {
        Duration::from_nanos(self.read().true_ns)
    }

    /// From here on a time daemon steers all clocks but the raw one: their rates are off by this
    /// much; no clock runs backwards (below -1000000). The raw clock is out of its reach.
    pub fn steer(&self, by_ppm: i32) {
        self.change(|clocks| {
            clocks.boottime.rate_ppm = by_ppm;
            clocks.monotonic.rate_ppm = by_ppm;
            clocks.wall.rate_ppm = by_ppm;
        });
    }

    /// From here on the raw clock's rate is off by this much, as far as the hardware's crystal
    /// is; -1000000 lets it stand still.
    pub fn detune_raw(&self, by_ppm: i32) {
        self.change(|clocks| clocks.raw.rate_ppm = by_ppm);
    }

    /// The wall clock is stepped, forwards or backwards; the others are not changed.
    pub fn step_wall(&self, by_us: i64) {
        self.change(|clocks| clocks.wall.set_by(by_us));
    }

    /// The wall clock is set to this many microseconds since the epoch.
    pub fn set_wall(&self, wall_us: u64) {
        self.change(|clocks| clocks.wall.reading = wall_us);
    }

    /// From here on every second reading of the wall clock is off by this much; 0 ends it.
    pub fn strobe_wall(&self, by_us: i64) {
        self.change(|clocks| clocks.strobe_us = by_us);
    }

    /// The machine slept: boot time and wall clock went on, the raw clock did not. What a client measures
    /// counts in full.
    pub fn suspend(&self, by: Duration) {
        let nanos = saturated_nanos(by);
        self.change(|clocks| {
            clocks.true_ns = clocks.true_ns.saturating_add(nanos);
            // What was slept is measured by the machine's hardware clock, not by the steered one.
            clocks.boottime.pass(nanos, 0);
            clocks.wall.pass(nanos, 0);
        });
    }

    /// The raw clock is set forwards or backwards within the same boot, as no machine does.
    pub fn step_raw(&self, by_ns: i64) {
        self.change(|clocks| clocks.raw.set_by(by_ns));
    }

    /// Boot time is set forwards or backwards within the same boot, as no machine does.
    pub fn step_boottime(&self, by_ns: i64) {
        self.change(|clocks| clocks.boottime.set_by(by_ns));
    }

    /// The node is started in another time namespace, whose clocks are shifted.
    pub fn enter_namespace(&self, boot: Boot, raw_by_ns: i64, boottime_by_ns: i64) {
        self.change(|clocks| {
            clocks.raw.set_by(raw_by_ns);
            // One offset of the namespace is that of both.
            clocks.monotonic.set_by(raw_by_ns);
            clocks.boottime.set_by(boottime_by_ns);
            clocks.boot = boot;
        });
    }

    /// The machine restarted: another boot, clocks that count from `uptime`. True time and wall
    /// clock go on only by [`SettableClock::advance`]. No client lives through it: what one measured before means nothing after it.
    pub fn reboot(&self, uptime: Duration) {
        let nanos = saturated_nanos(uptime);
        self.change(|clocks| {
            clocks.raw.reading = nanos;
            clocks.boottime.reading = nanos;
            clocks.monotonic.reading = nanos;
            clocks.boot.0[0] = clocks.boot.0[0].wrapping_add(1);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Clocks)) {
        let mut clocks = self.lock();
        let before = *clocks;
        change(&mut clocks);
        let is_same = *clocks == before;
        drop(clocks);
        if is_same {
            return;
        }
        let wakers = mem::take(&mut *self.lock_wakers());
        wakers.into_iter().for_each(Waker::wake);
        let mut watchers = self.watchers.lock().expect("no watcher panics");
        watchers.retain(|look_again| look_again());
    }

    /// Has the next move wake this.
    fn wake_when_moved(&self, waker: &Waker) {
        let mut wakers = self.lock_wakers();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn lock_wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.wakers.lock().expect("no holder of wakers can panic")
    }

    fn read(&self) -> Clocks {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Clocks> {
        self.clocks
            .lock()
            .expect("no holder of the clocks can panic")
    }
}

impl fmt::Debug for SettableClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clocks = self.read();
        formatter
            .debug_struct("SettableClock")
            .field("clocks", &clocks)
            .finish_non_exhaustive()
    }
}

impl Default for SettableClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SettableClock {
    fn now(&self) -> ClientInstant {
        let clocks = self.read();
        ClientInstant::from_readings(
            clocks.boottime.reading,
            clocks.monotonic.reading,
            clocks.raw.reading,
        )
    }

    fn raw(&self) -> RawTime {
        RawTime::from_nanos(self.read().raw.reading)
    }

    fn boottime(&self) -> BootTime {
        BootTime::from_nanos(self.read().boottime.reading)
    }

    fn wall_us(&self) -> u64 {
        let mut clocks = self.lock();
        clocks.is_strobed = !clocks.is_strobed && clocks.strobe_us != 0;
        let strobe_us = if clocks.is_strobed {
            clocks.strobe_us
        } else {
            0
        };
        clocks.wall.reading.saturating_add_signed(strobe_us)
    }

    fn boot(&self) -> Boot {
        self.read().boot
    }

    fn when_moved(&self, look_again: LookAgain) {
        let mut watchers = self.watchers.lock().expect("no watcher panics");
        watchers.push(look_again);
    }

    /// Time passes only where a test moves it; a clock that was set back ends the pause. The last reading stands for "never":
    /// no time follows it, so what is to be done a while later would be due again at once, for ever.
    fn pause_until(&self, raw: RawTime) -> Pause<'_> {
        let began = self.raw();
        Some(Box::pin(poll_fn(move |context| {
            // Before the reading: a move that comes later wakes the task.
            self.wake_when_moved(context.waker());
            let now = self.raw();
            let is_due = now >= raw && raw != RawTime::from_nanos(u64::MAX);
            match is_due || now < began {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })))
    }

    fn sleep_towards(&self, _deadline: Option<ClientInstant>, waker: &Waker) -> bool {
        self.wake_when_moved(waker);
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn readings(clock: &SettableClock) -> (u64, u64, u64) {
        (
            clock.raw().as_nanos(),
            clock.boottime().as_nanos(),
            clock.wall_us(),
        )
    }

    fn passed(clock: &SettableClock, change: impl FnOnce()) -> (i128, i128, i128) {
        let before = readings(clock);
        change();
        let after = readings(clock);
        let difference = |before: u64, after: u64| i128::from(after) - i128::from(before);
        (
            difference(before.0, after.0),
            difference(before.1, after.1),
            difference(before.2, after.2),
        )
    }

    #[test]
    fn clocks_run_at_rates_of_their_own_and_lose_no_part() {
        let clock = SettableClock::new();
        clock.steer(80_000);
        clock.detune_raw(-10_000);
        let thirds = || (0..3000).for_each(|_| clock.advance(Duration::from_nanos(333_333)));
        assert_eq!(
            passed(&clock, thirds),
            (989_999_010, 1_079_998_920, 1_079_998)
        );
        clock.steer(-80_000);
        clock.detune_raw(-1_000_000);
        let second = || clock.advance(SECOND);
        assert_eq!(
            passed(&clock, second),
            (0, 920_000_000, 920_000),
            "the raw clock stands still"
        );
        assert_eq!(clock.true_time(), Duration::from_nanos(1_999_999_000));
    }

    #[test]
    fn a_suspend_is_true_time_that_the_raw_clock_does_not_see() {
        let clock = SettableClock::new();
        clock.steer(-80_000);
        assert_eq!(
            passed(&clock, || clock.suspend(SECOND)),
            (0, 1_000_000_000, 1_000_000)
        );
        assert_eq!(clock.true_time(), SECOND);
    }

    #[test]
    fn a_strobe_lasts_until_it_is_ended() {
        let clock = SettableClock::new();
        let wall_us = clock.wall_us();
        clock.strobe_wall(-5);
        assert_eq!([clock.wall_us(), clock.wall_us()], [wall_us - 5, wall_us]);
        assert_eq!([clock.wall_us(), clock.wall_us()], [wall_us - 5, wall_us]);
        clock.strobe_wall(0);
        assert_eq!([clock.wall_us(), clock.wall_us()], [wall_us, wall_us]);
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_move_wakes_each_task_that_waits_once() {
        let (clock, woken) = (SettableClock::new(), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut pause = clock.pause_until(clock.raw().plus_nanos(2)).unwrap();
        for passed_ns in 0..2 {
            // Twice: what is polled for another reason leaves no second waker.
            assert!(pause.as_mut().poll(&mut context).is_pending());
            assert!(pause.as_mut().poll(&mut context).is_pending());
            assert!(clock.sleep_towards(None, &waker));
            assert_eq!(woken.0.load(Ordering::SeqCst), passed_ns);
            clock.advance(Duration::from_nanos(1));
        }
        assert!(pause.as_mut().poll(&mut context).is_ready());
        let mut last = clock.pause_until(RawTime::from_nanos(u64::MAX)).unwrap();
        clock.advance(Duration::MAX);
        assert!(last.as_mut().poll(&mut context).is_pending());
        clock.step_raw(-(1 << 62));
        clock.step_raw(-(1 << 62));
        assert!(last.as_mut().poll(&mut context).is_pending());
        clock.reboot(SECOND);
        assert!(
            last.as_mut().poll(&mut context).is_ready(),
            "it was set back"
        );
    }

    #[test]
    fn clocks_stop_at_their_ends() {
        let clock = SettableClock::new();
        clock.step_raw(i64::MIN);
        clock.step_boottime(i64::MIN);
        clock.step_wall(i64::MIN);
        assert_eq!(readings(&clock), (0, 0, 0));
        clock.set_wall(u64::MAX);
        clock.step_raw(i64::MAX);
        clock.step_raw(i64::MAX);
        clock.advance(Duration::MAX);
        assert_eq!(readings(&clock), (u64::MAX, u64::MAX, u64::MAX));
    }

    const DRIFT_PPM: i32 = 10_000;

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Run { ms: u64 },
        Sleep { ms: u64 },
        Steer { ppm: i32 },
        Detune { ppm: i32 },
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            (1..5_000_u64).prop_map(|ms| Event::Run { ms }),
            (1..5_000_u64).prop_map(|ms| Event::Sleep { ms }),
            prop_oneof![Just(-83_333), Just(83_333), -83_333..83_333]
                .prop_map(|ppm| Event::Steer { ppm }),
            (-DRIFT_PPM..=DRIFT_PPM).prop_map(|ppm| Event::Detune { ppm }),
        ];
        prop::collection::vec(event, 1..30)
    }

    fn play(clock: &SettableClock, event: Event) {
        match event {
            Event::Run { ms } => clock.advance(Duration::from_millis(ms)),
            Event::Sleep { ms } => clock.suspend(Duration::from_millis(ms)),
            Event::Steer { ppm } => clock.steer(ppm),
            Event::Detune { ppm } => clock.detune_raw(ppm),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_suspend_and_no_slew_makes_a_lease_longer(before in events(), during in events()) {
            let clock = SettableClock::new();
            before.iter().for_each(|&event| play(&clock, event));
            let (start, true_start) = (clock.now(), clock.true_time());
            for event in during {
                play(&clock, event);
                let passed = clock.true_time() - true_start;
                let elapsed = clock.now().since(start);
                let least = passed.mul_f64(0.99).saturating_sub(Duration::from_micros(1));
                prop_assert!(elapsed >= least, "{elapsed:?} of {passed:?} after {event:?}");
                // A deadline so far away has come, and one beyond it has not.
                let deadline = start.after(elapsed);
                prop_assert!(clock.now().has_reached(deadline));
                prop_assert_eq!(clock.now().until(deadline), Duration::ZERO);
                let next = start.after(elapsed + Duration::from_nanos(1));
                prop_assert!(!clock.now().has_reached(next));
            }
        }
    }

    #[test]
    fn a_short_suspend_followed_by_a_slew_counts_in_full() {
        let clock = SettableClock::new();
        let start = clock.now();
        clock.suspend(Duration::from_millis(800));
        clock.steer(-80_000);
        clock.advance(Duration::from_secs(10));
        // Boot time alone has 10 s, the raw clock alone too.
        assert_eq!(clock.now().since(start), Duration::from_millis(10_800));
    }
}
