//! The machine a client runs on: clocks with a rate of their own, and sleep.

use quorlock_client::ClientInstant;

use super::network::What;
use super::world::World;

#[derive(Clone, Debug)]
pub(super) struct Machine {
    rate_ppm: i32,
    /// How long it has slept so far, in true time, and until when it sleeps.
    slept_ns: u64,
    sleeps_until_ns: u64,
}

impl Machine {
    pub(super) fn new(rate_ppm: i32) -> Machine {
        Machine {
            rate_ppm,
            slept_ns: 0,
            sleeps_until_ns: 0,
        }
    }

    /// What its clocks show. Nothing reads them while it sleeps.
    pub(super) fn now(&self, true_ns: u64) -> ClientInstant {
        let boot_ns = EPOCH_NS + self.counted(true_ns);
        let raw_ns = EPOCH_NS + self.counted(true_ns.saturating_sub(self.slept_ns));
        ClientInstant::from_nanos(boot_ns, raw_ns)
    }

    /// When its clocks show this, if it does not sleep.
    pub(super) fn true_time(&self, true_ns: u64, at: ClientInstant) -> u64 {
        let left = self.now(true_ns).until(at).as_nanos();
        let rate = u128::from(MILLION.saturating_add_signed(i64::from(self.rate_ppm)));
        let left_ns = (left * u128::from(MILLION)).div_ceil(rate);
        true_ns.saturating_add(u64::try_from(left_ns).unwrap_or(u64::MAX))
    }

    fn counted(&self, ns: u64) -> u64 {
        let rate = u128::from(MILLION.saturating_add_signed(i64::from(self.rate_ppm)));
        u64::try_from(u128::from(ns) * rate / u128::from(MILLION)).unwrap_or(u64::MAX)
    }
}

impl World {
    pub(super) fn suspend(&mut self, client: usize, until_ns: u64) {
        let machine = &mut self.machines[client];
        if machine.sleeps_until_ns <= self.now_ns {
            machine.slept_ns += until_ns - self.now_ns;
            machine.sleeps_until_ns = until_ns;
        }
    }

    /// Until when the client sleeps to whom this happens.
    pub(super) fn is_asleep(&self, what: &What) -> Option<u64> {
        let client = match what {
            What::Connected(wire)
            | What::ToClient(wire, _)
            | What::EndAtClient(wire)
            | What::Unacknowledged(wire) => wire.client,
            What::Timer(client, _) => *client,
            What::Caller(caller) => self.callers.get(*caller)?.client,
            _ => return None,
        };
        let until_ns = self.machines[client].sleeps_until_ns;
        (until_ns > self.now_ns).then_some(until_ns)
    }
}

const MILLION: u64 = 1_000_000;
/// Clocks do not begin at their zero.
const EPOCH_NS: u64 = 1 << 40;
