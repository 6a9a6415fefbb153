//! Waiting for what a node's threads do in their own time: the log thread prepares a segment, maintenance
//! completes a compaction, a worker notices that a client has gone.
//!
//! Their clock can be moved, but not the moment at which the kernel runs them. So a test looks again until
//! it is so, and fails where that takes far longer than it ever does.

#![allow(
    clippy::disallowed_methods,
    reason = "when the kernel runs another thread is decided in real time"
)]

use std::time::{Duration, Instant};

use crate::wire::Wire;

/// Waits until it is so; fails with `what` where it is not so in time.
pub(crate) fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(becomes_so(is_so), "not in time: {what}");
}

/// Whether it is so in time.
pub(crate) fn becomes_so(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(STEP);
    }
    true
}

/// Waits until a field of INFO has this value.
pub(crate) fn await_info(client: &mut Wire, field: &str, value: &str) {
    if !becomes_so(|| client.info(field) == value) {
        let (now, clients) = (client.info(field), client.ask("CLIENT LIST"));
        panic!("{field} is {now} and not {value}:\n{clients}");
    }
}

/// A busy machine runs a thread late, by seconds.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(1);
