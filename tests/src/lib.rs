//! What several test programs share: the program under test, nodes as processes, and the record
//! of who held what.
//!
//! The harness itself is tested where it could hide a failure: the check of the record must see
//! two holders at once.

pub mod binary;
#[path = "../crash/mod.rs"]
pub mod crash;
pub mod history;
pub mod node_process;
pub mod waiting;
