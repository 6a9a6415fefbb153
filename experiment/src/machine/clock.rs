//! The clocks of a machine in the boot that the experiment has chosen.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quorlock_engine::control::Boot;
use quorlock_engine::{BootTime, RawTime};
use quorlock_server::clock::{ClientInstant, Clock, SystemClock};

use super::MachineControls;

/// The machine's own clocks, but for the boot and the steps of the wall clock.
#[derive(Debug)]
pub(super) struct ExperimentClock {
    machine: Arc<MachineControls>,
    boot: Boot,
}

impl ExperimentClock {
    pub(super) fn new(machine: Arc<MachineControls>, boot: u64) -> ExperimentClock {
        let mut bytes = *b"experiment......";
        bytes[8..].copy_from_slice(&boot.to_le_bytes());
        ExperimentClock {
            machine,
            boot: Boot(bytes),
        }
    }
}

impl Clock for ExperimentClock {
    fn now(&self) -> ClientInstant {
        SystemClock.now()
    }

    fn raw(&self) -> RawTime {
        SystemClock.raw()
    }

    fn boottime(&self) -> BootTime {
        SystemClock.boottime()
    }

    fn wall_us(&self) -> u64 {
        let step_ms = self.machine.wall_step_ms.load(Ordering::Relaxed);
        let step_us = step_ms.saturating_mul(1000);
        SystemClock.wall_us().saturating_add_signed(step_us)
    }

    fn boot(&self) -> Boot {
        self.boot
    }
}
