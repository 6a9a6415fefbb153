//! What the hand-overs between threads rest on: the standard library's and tokio's, or with the feature `shuttle` those
//! that try orders of threads.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic, mpsc};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic, mpsc};

#[cfg(not(feature = "shuttle"))]
pub(crate) use tokio::sync::Notify;

#[cfg(feature = "shuttle")]
pub(crate) use notify::Notify;

#[cfg(feature = "shuttle")]
mod notify {
    use std::time::Duration;

    use tokio::sync::futures::Notified;

    /// Tokio's, and before each call another thread may run.
    pub(crate) struct Notify(tokio::sync::Notify);

    /// Shuttle does not model time.
    fn switch() {
        shuttle::thread::sleep(Duration::ZERO);
    }

    impl Notify {
        pub(crate) fn new() -> Self {
            Self(tokio::sync::Notify::new())
        }

        pub(crate) fn notified(&self) -> Notified<'_> {
            switch();
            self.0.notified()
        }

        pub(crate) fn notify_waiters(&self) {
            switch();
            self.0.notify_waiters();
        }
    }
}
