//! What the kernel says of the node's process, for INFO, the metrics and a limit that is a part of the machine's memory.
//!
//! The node asks through functions that it is given (`runtime/process.rs` of `quorlock-server`); what decides reads no file of the system.

use std::path::Path;
use std::sync::Arc;

use crate::config::LogLevel;

/// The ways to ask.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// Resident memory.
    pub resident_bytes: fn() -> u64,
    /// How long it has kept the processors busy.
    pub cpu_seconds: fn() -> CpuSeconds,
    /// The path of the program; empty where the system does not say it.
    pub executable: fn() -> String,
    /// All memory that the machine has.
    pub machine_bytes: fn() -> u64,
    /// What a node with this directory shares with others.
    pub machine: fn(&Path) -> FailureDomain,
    /// How many of so many clients of a node that runs it may have files for. Where the process is the node's alone, its limit
    /// is raised first as far as it may.
    pub clients_max: fn(usize) -> usize,
}

/// Sets how much the process writes to its log.
pub type LogFilter = Arc<dyn Fn(LogLevel) + Send + Sync>;

impl Process {
    /// That of a simulated node: the same on every machine.
    pub(crate) const SIMULATED: Self = Self {
        id: 1,
        resident_bytes: || 0,
        cpu_seconds: || CpuSeconds {
            user: 0.0,
            system: 0.0,
        },
        executable: String::new,
        machine_bytes: || 8 << 30,
        machine: |_| FailureDomain::default(),
        clients_max: |wanted| wanted,
    };
}

/// What may fail for several nodes at once. Each is empty where the system does not say it.
#[derive(Clone, Debug, Default)]
pub struct FailureDomain {
    /// The boot id of its kernel, which containers share.
    pub boot_id: String,
    /// The number of the file system of the directory.
    pub file_system: String,
    /// What the kernel reads the time from.
    pub clock_source: String,
}

/// How long the process has kept the processors busy.
#[derive(Clone, Copy, Debug)]
pub struct CpuSeconds {
    /// In its own code.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}
