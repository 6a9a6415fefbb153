//! The machine's clocks: the only place in the server that asks it for the time.

mod boot;
mod system;

pub use quorlock_node::clock::{Boot, BootTime, Clock, LookAgain, Pause, RawTime, SettableClock};
pub(crate) use quorlock_node::clock::{Reading, saturated_nanos};
pub use system::SystemClock;
