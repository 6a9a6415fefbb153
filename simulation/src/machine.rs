//! The machine a client runs on: clocks with a rate of their own, and sleep, which clocks count or not.

use quorlock_client::{ClientInstant, SystemClock};
use rustix::time::ClockId;

/// A machine.
#[derive(Clone, Debug, Default)]
pub struct ClientMachine {
    rate_ppm: i32,
    /// How much slower the clocks run that a time daemon steers.
    steered_ppm: i32,
    /// How long it has slept so far, in true time, and until when it sleeps.
    slept_ns: u64,
    sleeps_until_ns: u64,
    /// How long it has stood still so far, in true time, as no clock of it shows.
    stood_ns: u64,
    stands_until_ns: u64,
}

impl ClientMachine {
    /// A machine whose clocks run at this rate, those that are steered slower by so much.
    pub fn new(rate_ppm: i32, steered_ppm: i32) -> ClientMachine {
        ClientMachine {
            rate_ppm,
            steered_ppm,
            ..ClientMachine::default()
        }
    }

    /// What the client makes of its clocks. Nothing reads them while it sleeps.
    pub fn now(&self, true_ns: u64) -> ClientInstant {
        let slept_ns = counted(self.slept_ns, self.rate_ppm);
        let away_ns = self.slept_ns + self.stood_ns;
        let raw_ns = counted(true_ns.saturating_sub(away_ns), self.rate_ppm);
        let steered_ns = counted(raw_ns, -self.steered_ppm);
        SystemClock::now_on(|clock| match clock {
            ClockId::Boottime => EPOCH_NS + slept_ns + steered_ns,
            ClockId::Monotonic => EPOCH_NS + steered_ns,
            _ => EPOCH_NS + raw_ns,
        })
    }

    /// It sleeps from now on, unless it does so already.
    pub fn sleep(&mut self, now_ns: u64, until_ns: u64) {
        if self.woken_ns() <= now_ns {
            self.slept_ns += until_ns.saturating_sub(now_ns);
            self.sleeps_until_ns = until_ns;
        }
    }

    /// It stands still from now on, and so do all its clocks: a hypervisor has paused it. Says whether it does: not while
    /// it sleeps.
    pub fn stand_still(&mut self, now_ns: u64, until_ns: u64) -> bool {
        let is_awake = self.woken_ns() <= now_ns;
        if is_awake {
            self.stood_ns += until_ns.saturating_sub(now_ns);
            self.stands_until_ns = until_ns;
        }
        is_awake
    }

    /// When it has woken the last time, or will.
    pub fn woken_ns(&self) -> u64 {
        self.sleeps_until_ns.max(self.stands_until_ns)
    }

    /// When its clocks went on the last time after they had stood still, or will.
    pub fn stood_until_ns(&self) -> u64 {
        self.stands_until_ns
    }

    /// How long its clocks have stood still so far.
    pub fn stood_ns(&self) -> u64 {
        self.stood_ns
    }

    /// When its clocks show this, if it does not sleep. The clock that nobody steers, with what was slept, is the first
    /// to reach a deadline.
    pub fn true_time(&self, true_ns: u64, at: ClientInstant) -> u64 {
        let left = self.now(true_ns).until(at).as_nanos();
        let left_ns = (left * u128::from(MILLION)).div_ceil(rate_of(self.rate_ppm));
        true_ns.saturating_add(u64::try_from(left_ns).unwrap_or(u64::MAX))
    }
}

/// What a clock with this rate counts while so much passes.
fn counted(ns: u64, rate_ppm: i32) -> u64 {
    u64::try_from(u128::from(ns) * rate_of(rate_ppm) / u128::from(MILLION)).unwrap_or(u64::MAX)
}

fn rate_of(ppm: i32) -> u128 {
    u128::from(MILLION.saturating_add_signed(i64::from(ppm)))
}

const MILLION: u64 = 1_000_000;
/// Clocks do not begin at their zero.
const EPOCH_NS: u64 = 1 << 40;
