//! What the kernel says of the node's process, for INFO, the metrics and a limit that is a part of the machine's memory.
//!
//! The node asks through functions that it is given (`runtime/process.rs`); what decides reads no file of the system.

/// The ways to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) id: u32,
    /// Resident memory: the node does not count its allocations.
    pub(crate) resident_bytes: fn() -> u64,
    pub(crate) cpu_seconds: fn() -> CpuSeconds,
    /// All memory that the machine has.
    pub(crate) machine_bytes: fn() -> u64,
}

/// How long the process has kept the processors busy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuSeconds {
    /// In its own code.
    pub(crate) user: f64,
    /// In the kernel.
    pub(crate) system: f64,
}
