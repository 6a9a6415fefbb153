//! What holders read and write of a register, whatever holds the registers.

/// The row of a lock; zeros where it was never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RegisterRow {
    /// Which write of the trial it holds; no two are alike.
    pub(super) write: u64,
    /// How many updates it counts.
    pub(super) count: u64,
}
