//! What several test programs share that knows the packages under test: the crash states and the record of who
//! held what. What knows none of them is in `testkit/`.
//!
//! The harness itself is tested where it could hide a failure: the check of the record must see
//! two holders at once.

#[path = "../crash/mod.rs"]
pub mod crash;
pub mod history;
