//! The machine that a node in memory believes to run on: a disk that can lose power, and clocks that can be advanced.
//!
//! Invariant: it outlives the node, from one start to the next, and its clocks never run backwards. Time passes on it as
//! on the real machine; what it was advanced by comes on top.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorlock_server::MemoryDisk;
use quorlock_server::clock::{
    Boot, BootTime, ClientInstant, Clock, LookAgain, Pause, RawTime, SystemClock,
};
use tokio::sync::watch;

/// Such a machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) disk: MemoryDisk,
    pub(super) clock: Arc<MachineClock>,
    is_full: bool,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self {
            disk: MemoryDisk::with_power_loss(),
            clock: Arc::new(MachineClock::new(SystemClock.boot())),
            is_full: false,
        }
    }

    /// Whether the disk has room for nothing but small files.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Leaves the disk no room beside what is on it, or ends that. Small files, as each start of a node makes, still fit.
    pub(super) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
        match is_full {
            true => self.disk.leave_room(SMALL_FILES_BYTES),
            false => self.disk.set_capacity(None),
        }
    }

    /// What is left where the power is lost at this moment: what is synced.
    pub(super) fn synced(&self) -> MemoryDisk {
        self.disk.after_power_loss(false, |_, _| false)
    }

    /// Begins another boot, with what the power cut has left. The node must have ended.
    pub(super) fn boot_from(&mut self, left: MemoryDisk) {
        self.disk = left;
        self.set_full(self.is_full);
        self.clock.boots.fetch_add(1, Ordering::Relaxed);
    }
}

/// The real machine's clocks, and how far they were advanced.
pub(super) struct MachineClock {
    first_boot: Boot,
    /// How often the machine has lost its power.
    boots: AtomicU64,
    ahead: watch::Sender<Duration>,
    /// Called at each advance.
    watchers: Mutex<Vec<LookAgain>>,
}

impl MachineClock {
    fn new(first_boot: Boot) -> Self {
        Self {
            first_boot,
            boots: AtomicU64::new(0),
            ahead: watch::Sender::new(Duration::ZERO),
            watchers: Mutex::default(),
        }
    }

    /// How far the clocks are ahead of the real ones.
    pub(super) fn ahead(&self) -> Duration {
        *self.ahead.borrow()
    }

    /// How far they would be ahead; nothing where that is further than they go.
    pub(super) fn ahead_after(&self, by: Duration) -> Option<Duration> {
        let ahead = self.ahead().checked_add(by);
        ahead.filter(|ahead| *ahead <= AHEAD_MAX)
    }

    /// Sets how far they are ahead, and has the node look at what is due by then.
    pub(super) fn set_ahead(&self, ahead: Duration) {
        self.ahead.send_replace(ahead);
        self.watchers().retain(|look_again| look_again());
    }

    fn watchers(&self) -> MutexGuard<'_, Vec<LookAgain>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ahead_ns(&self) -> u64 {
        u64::try_from(self.ahead().as_nanos()).expect("AHEAD_MAX is below 584 years")
    }
}

impl Clock for MachineClock {
    fn now(&self) -> ClientInstant {
        SystemClock.now().after(self.ahead())
    }

    fn raw(&self) -> RawTime {
        let real = SystemClock.raw().as_nanos();
        RawTime::from_nanos(real.saturating_add(self.ahead_ns()))
    }

    fn stopwatch(&self) -> RawTime {
        SystemClock.stopwatch()
    }

    fn boottime(&self) -> BootTime {
        let real = SystemClock.boottime().as_nanos();
        BootTime::from_nanos(real.saturating_add(self.ahead_ns()))
    }

    fn wall_us(&self) -> u64 {
        SystemClock
            .wall_us()
            .saturating_add(self.ahead_ns() / 1_000)
    }

    fn boot(&self) -> Boot {
        let boots = self.boots.load(Ordering::Relaxed).to_le_bytes();
        let mut boot = self.first_boot;
        for (byte, count) in boot.0.iter_mut().zip(boots) {
            *byte ^= count;
        }
        boot
    }

    /// Time passes by itself here, and an advance may end the pause.
    fn pause_until(&self, raw: RawTime) -> Pause<'_> {
        Some(Box::pin(async move {
            let mut ahead = self.ahead.subscribe();
            loop {
                ahead.mark_unchanged();
                let left = raw.saturating_since(self.raw());
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    _ = ahead.changed() => {}
                }
            }
        }))
    }

    fn when_moved(&self, look_again: LookAgain) {
        let mut watchers = self.watchers();
        // Those of a node that has ended.
        watchers.retain(|look_again| look_again());
        watchers.push(look_again);
    }
}

impl fmt::Debug for MachineClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MachineClock")
            .field("boots", &self.boots)
            .field("ahead", &self.ahead())
            .finish_non_exhaustive()
    }
}

const SMALL_FILES_BYTES: u64 = 64 << 10;

/// All clocks stay far from the ends of their 64 bits.
const AHEAD_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

#[cfg(test)]
mod tests {
    use quorlock_server::Disk as _;

    use super::*;

    #[test]
    fn an_advance_moves_all_clocks_and_stays_in_reach() {
        let clock = Machine::new().clock;
        let before = (clock.raw(), clock.boottime(), clock.wall_us());
        let hour = Duration::from_secs(3_600);
        clock.set_ahead(clock.ahead_after(hour).expect("it is not far"));
        assert!(clock.raw().saturating_since(before.0) >= hour);
        assert!(clock.boottime().as_nanos() - before.1.as_nanos() >= 3_600_000_000_000);
        assert!(clock.wall_us() - before.2 >= 3_599_000_000);
        assert_eq!(clock.ahead_after(AHEAD_MAX), None);
        assert_eq!(clock.ahead_after(Duration::MAX), None);
        assert_eq!(clock.ahead_after(AHEAD_MAX - hour), Some(AHEAD_MAX));
    }

    #[test]
    fn a_full_disk_takes_small_files_and_no_segment_and_stays_full_over_a_power_cut() {
        let mut machine = Machine::new();
        let write = |machine: &Machine, name: &str, bytes: usize| {
            let file = machine.disk.create(name)?;
            file.write_at(0, &vec![1; bytes])
        };
        write(&machine, "segment-1", 1 << 20).expect("it has room");
        machine.set_full(true);
        assert!(write(&machine, "segment-2", 1 << 20).is_err());
        machine.boot_from(machine.synced());
        assert!(machine.is_full());
        assert!(write(&machine, "segment-3", 1 << 20).is_err());
        write(&machine, "marker", 1_000).expect("it is small");
        machine.set_full(false);
        write(&machine, "segment-4", 1 << 20).expect("it has room again");
    }

    #[test]
    fn a_machine_that_lost_its_power_is_in_another_boot() {
        let mut machine = Machine::new();
        let first = machine.clock.boot();
        machine.boot_from(machine.synced());
        let second = machine.clock.boot();
        machine.boot_from(machine.synced());
        assert!(first != second && second != machine.clock.boot() && first != machine.clock.boot());
    }

    #[tokio::test]
    async fn an_advance_ends_a_pause() {
        let clock = Machine::new().clock;
        let hour = Duration::from_secs(3_600);
        let due = RawTime::from_nanos(clock.raw().as_nanos() + 3_600_000_000_000);
        let pause = clock.pause_until(due).expect("it has its own");
        tokio::join!(pause, async { clock.set_ahead(hour) });
        assert!(clock.raw() >= due);
    }
}
