//! The clocks a node reads, and nothing else: the only place in the server that asks the
//! machine for the time.
//!
//! Node time rests on the raw monotonic clock, which no time daemon steers. The boot-time and
//! wall clocks serve TIME and absolute expiries only. [`SettableClock`] is the twin for tests:
//! it moves when told to.

use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use quorlock_engine::control::Boot;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

/// Readings of the machine's clocks.
pub trait Clock: Send + Sync + 'static {
    /// `CLOCK_MONOTONIC_RAW` in nanoseconds: not steered, stops while the machine is suspended.
    fn raw_ns(&self) -> u64;
    /// `CLOCK_BOOTTIME` in nanoseconds: goes on while the machine is suspended.
    fn boottime_ns(&self) -> u64;
    /// The wall clock, in microseconds since the epoch.
    fn wall_us(&self) -> u64;
    /// Which boot, and which time namespace, these readings belong to.
    fn boot(&self) -> Boot;
    /// Resolves when [`Clock::raw_ns`] has about this reading: a timer for maintenance, not for
    /// validity. To be called with a reading that was taken before what it depends on.
    fn pause_until(&self, raw_ns: u64) -> Pause<'_> {
        let left_ns = raw_ns.saturating_sub(self.raw_ns());
        Box::pin(tokio::time::sleep(Duration::from_nanos(left_ns)))
    }
}

/// What [`Clock::pause_until`] returns.
pub type Pause<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn raw_ns(&self) -> u64 {
        nanoseconds(ClockId::MonotonicRaw)
    }

    fn boottime_ns(&self) -> u64 {
        nanoseconds(ClockId::Boottime)
    }

    fn wall_us(&self) -> u64 {
        nanoseconds(ClockId::Realtime) / 1_000
    }

    fn boot(&self) -> Boot {
        let mut boot = [0; 16];
        let Ok(text) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else {
            // An unknown boot is never the same as another one. Without randomness either, the
            // value differs at least by the time.
            if getrandom::fill(&mut boot).is_err() {
                boot[..8].copy_from_slice(&self.wall_us().to_le_bytes());
            }
            return Boot(boot);
        };
        let digits = text
            .bytes()
            .filter_map(|byte| char::from(byte).to_digit(16));
        for (index, digit) in digits.take(32).enumerate() {
            boot[index / 2] = (boot[index / 2] << 4) | u8::try_from(digit).unwrap_or(0);
        }
        // A time namespace shifts the clocks: the same boot id with another namespace is not
        // the same clock.
        let namespace = std::fs::read_link("/proc/self/ns/time")
            .map(|target| target.to_string_lossy().bytes().fold(0_u64, mix))
            .unwrap_or(0);
        for (byte, shift) in boot[8..].iter_mut().zip((0..64).step_by(8)) {
            *byte ^= namespace.to_le_bytes()[shift / 8];
        }
        Boot(boot)
    }
}

fn mix(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// A clock that tests move by hand. Clones of the `Arc` around it share one time.
#[derive(Debug)]
pub struct SettableClock {
    readings: Mutex<Readings>,
    /// Rung at each move.
    moved: Notify,
}

#[derive(Clone, Copy, Debug)]
struct Readings {
    raw_ns: u64,
    boottime_ns: u64,
    wall_us: u64,
    boot: Boot,
}

impl SettableClock {
    /// A clock some time after boot, in the year 2026.
    pub fn new() -> Self {
        Self {
            readings: Mutex::new(Readings {
                raw_ns: 1_000_000_000_000,
                boottime_ns: 1_000_000_000_000,
                wall_us: 1_790_000_000_000_000,
                boot: Boot([7; 16]),
            }),
            moved: Notify::new(),
        }
    }

    /// Time goes on for everybody.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.change(|readings| {
            readings.raw_ns += nanos;
            readings.boottime_ns += nanos;
            readings.wall_us += nanos / 1_000;
        });
    }

    /// The wall clock is stepped, forwards or backwards; the others know nothing of it.
    pub fn step_wall(&self, by_us: i64) {
        self.change(|readings| readings.wall_us = readings.wall_us.saturating_add_signed(by_us));
    }

    /// The machine slept: boot time and wall clock went on, the raw clock did not.
    pub fn suspend(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.change(|readings| {
            readings.boottime_ns += nanos;
            readings.wall_us += nanos / 1_000;
        });
    }

    /// The machine restarted: another boot, clocks that count from `uptime`.
    pub fn reboot(&self, uptime: Duration) {
        let nanos = u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX);
        self.change(|readings| {
            readings.raw_ns = nanos;
            readings.boottime_ns = nanos;
            readings.boot.0[0] = readings.boot.0[0].wrapping_add(1);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Readings)) {
        change(
            &mut self
                .readings
                .lock()
                .expect("no holder of the readings can panic"),
        );
        self.moved.notify_waiters();
    }

    fn read(&self) -> Readings {
        *self
            .readings
            .lock()
            .expect("no holder of the readings can panic")
    }
}

impl Default for SettableClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SettableClock {
    fn raw_ns(&self) -> u64 {
        self.read().raw_ns
    }

    fn boottime_ns(&self) -> u64 {
        self.read().boottime_ns
    }

    fn wall_us(&self) -> u64 {
        self.read().wall_us
    }

    fn boot(&self) -> Boot {
        self.read().boot
    }

    /// Time passes only where a test moves it; a clock that was set back ends the pause.
    fn pause_until(&self, raw_ns: u64) -> Pause<'_> {
        let began_ns = self.raw_ns();
        Box::pin(async move {
            loop {
                let mut moved = std::pin::pin!(self.moved.notified());
                moved.as_mut().enable();
                let now_ns = self.raw_ns();
                if now_ns >= raw_ns || now_ns < began_ns {
                    return;
                }
                moved.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clocks_run_and_the_boot_is_stable() {
        let clock = SystemClock;
        assert!(clock.raw_ns() > 0 && clock.boottime_ns() > 0);
        assert!(clock.raw_ns() <= clock.raw_ns());
        assert_eq!(clock.boot(), clock.boot());
        assert_ne!(clock.boot(), Boot::default());
    }
}
