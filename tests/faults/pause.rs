//! Waiting for another process: its time cannot be moved.

use std::time::Duration;

use quorlock_tests::history::observed_now;

/// Asks again and again until the answer is yes, or for at most `max`; the last answer.
pub(crate) fn wait_until(max: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = observed_now() + max;
    loop {
        if is_so() {
            return true;
        }
        if observed_now() >= end {
            return false;
        }
        pause(STEP);
    }
}

/// Lets real time pass.
#[allow(
    clippy::disallowed_methods,
    reason = "another process: its time cannot be moved"
)]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

const STEP: Duration = Duration::from_millis(2);
