//! The clocks that a node of a program can be given: the machine's, unless the program chooses another.

pub use quorlock_node::clock::{
    Boot, BootTime, ClientInstant, Clock, LookAgain, Pause, RawTime, SettableClock,
};
pub(crate) use quorlock_node::clock::{Reading, saturated_nanos};
pub use quorlock_system_clock::SystemClock;
