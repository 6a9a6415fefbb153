//! What holders do with their locks: they read and write the register that the lock protects, look whether the lock is
//! still valid, and give it back; and the load, of which nothing is recorded but how long it took.

use std::time::Duration;

use quorlock_client::Wait;

use super::cluster::nanos;
use super::schedule::{CONTENDED, LOOK_NS, SimulatedTrial};
use super::step::{CallPurpose, Held, ScheduledStep, WORK_NS};
use crate::history::Occurrence;

impl SimulatedTrial<'_> {
    /// The holder reads the register of its lock.
    pub(super) fn read(&mut self, held: &Held) {
        let register = self.registers.entry(held.lock.clone()).or_default();
        let (lock, hold) = (held.lock.clone(), held.hold);
        let what = match register.takes(held.fence) {
            true => Occurrence::Read {
                lock,
                hold,
                value: register.value,
            },
            false => Occurrence::Stale { lock, hold },
        };
        self.note_client(held.client, what);
    }

    /// The holder writes it; every write of a trial has a value of its own.
    pub(super) fn write(&mut self, held: &Held) {
        let register = self.registers.entry(held.lock.clone()).or_default();
        let (lock, hold) = (held.lock.clone(), held.hold);
        let what = match register.takes(held.fence) {
            true => {
                self.writes += 1;
                let value = self.writes;
                register.value = value;
                Occurrence::Wrote { lock, hold, value }
            }
            false => Occurrence::Stale { lock, hold },
        };
        self.note_client(held.client, what);
    }

    /// The holder looks at its lock.
    pub(super) fn sees_valid(&self, held: &Held) -> bool {
        let is_valid = held.until_ns > self.cluster.now_ns;
        if is_valid {
            let (lock, hold) = (held.lock.clone(), held.hold);
            self.note_client(held.client, Occurrence::SeenValid { lock, hold });
        }
        is_valid
    }

    /// A works for as long as its lock is valid, nearly; then it writes and gives the lock back.
    pub(super) fn look(&mut self, held: Held) {
        let now_ns = self.cluster.now_ns;
        if !self.sees_valid(&held) {
            self.a_is_over = true;
        } else if held.until_ns > now_ns + LAST_MOMENT_NS {
            self.cluster.at(now_ns + LOOK_NS, ScheduledStep::Look(held));
        } else {
            self.write(&held);
            self.release(held);
            self.a_is_over = true;
        }
    }

    /// A has not looked at its lock since it was stopped, and writes.
    pub(super) fn resume(&mut self, held: &Held) {
        self.note_client(held.client, Occurrence::Resumed);
        self.write(held);
        self.a_is_over = true;
    }

    /// B has done its work, and keeps its lock.
    pub(super) fn b_works(&mut self, held: &Held) {
        if self.sees_valid(held) {
            self.write(held);
        }
        self.b_is_over = true;
    }

    pub(super) fn contend(&mut self, client: usize) {
        if !self.is_ending() {
            self.ask(client, CONTENDED, PATIENCE, CallPurpose::Contend);
        }
    }

    pub(super) fn contend_next(&mut self, client: usize) {
        let at_ns = self.cluster.now_ns + PAUSE_NS;
        self.cluster.at(at_ns, ScheduledStep::Contend(client));
    }

    pub(super) fn contend_acquired(&mut self, held: Held) {
        self.read(&held);
        let at_ns = self.cluster.now_ns + WORK_NS;
        self.cluster.at(at_ns, ScheduledStep::ContendEnds(held));
    }

    pub(super) fn contend_ends(&mut self, held: Held) {
        if self.sees_valid(&held) {
            self.write(&held);
        }
        self.release(held);
    }

    /// A cycle of the load: one of a few names, held for a short while.
    pub(super) fn load(&mut self, client: usize) {
        let now_ns = self.cluster.now_ns;
        if now_ns >= nanos(self.plan.load_time) {
            return;
        }
        let lock = format!("load-{client}");
        let is_fenced = self.cell.fences.are_on();
        let operation = self
            .cluster
            .acquire(client, &lock, self.plan.ttl, Wait::None, is_fenced);
        let purpose = CallPurpose::Load { asked_ns: now_ns };
        self.calls.insert((client, operation), purpose);
    }

    pub(super) fn load_acquired(&mut self, mut held: Held, asked_ns: u64) {
        let now_ns = self.cluster.now_ns;
        // The first one connects, which is not what is measured.
        if asked_ns > LOOK_NS {
            let micros = (now_ns - asked_ns) / 1_000;
            let micros = u32::try_from(micros).unwrap_or(u32::MAX);
            self.measured.acquire_us.push(micros);
        }
        held.lock = format!("load-{}", held.client);
        let at_ns = now_ns + self.random.below(HOLD_NS);
        self.cluster
            .at(at_ns, ScheduledStep::LoadEnds(held.client, held));
    }

    pub(super) fn load_ends(&mut self, client: usize, held: &Held) {
        let operation = self.cluster.release(client, &held.lock, held.token.clone());
        self.calls
            .insert((client, operation), CallPurpose::LoadRelease);
    }

    pub(super) fn load_next(&mut self, client: usize) {
        self.measured.load_cycles += 1;
        self.load(client);
    }
}

const LAST_MOMENT_NS: u64 = 60_000_000;
const PATIENCE: Duration = Duration::from_millis(300);
const PAUSE_NS: u64 = 40_000_000;
/// The load holds its locks for less than this.
const HOLD_NS: u64 = 40_000_000;
