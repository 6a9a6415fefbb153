//! Waiting for what happens in real time: another process, or a thread that the kernel runs when it likes.
//!
//! Where something can be asked for, ask again until it is so; [`pause`] is for tests whose subject is that
//! real time goes by.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How long tests wait for what takes far less: a busy machine runs a process or a thread late, by seconds.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until it is so.
///
/// # Panics
///
/// If it is not so in [`PATIENCE`]: no test can go on.
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(becomes_so(PATIENCE, is_so), "not in time: {what}");
}

/// Asks again and again until the answer is yes, or for at most `max`; the last answer.
pub fn becomes_so(max: Duration, mut is_so: impl FnMut() -> bool) -> bool {
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
    reason = "another process, or when the kernel runs another thread: its time cannot be moved"
)]
pub fn pause(duration: Duration) {
    thread::sleep(duration);
}

/// The observer's clock, which nothing steers: time since an arbitrary moment.
pub fn observed_now() -> Duration {
    let time = clock_gettime(ClockId::MonotonicRaw);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Waits on this thread for what another one finishes: for examples of packages that know no runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unparked(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// Wakes the thread that waits.
struct Unparked(Thread);

impl Wake for Unparked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

const STEP: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_so_is_seen_and_what_does_not_is_given_up() {
        let mut asked = 0;
        eventually("the third answer is yes", || {
            asked += 1;
            asked == 3
        });
        assert_eq!(asked, 3);
        assert!(!becomes_so(Duration::from_millis(5), || false));
    }
}
