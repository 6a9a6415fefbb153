//! What the hand-overs between threads rest on: the locks of the standard library, the channels of crossbeam and the
//! notifications of tokio, or with the feature `shuttle` those that try orders of threads.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic, mpsc as channel};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(not(feature = "shuttle"))]
pub(crate) use crossbeam_channel as channel;

/// A channel that takes any number of messages.
pub(crate) fn unbounded<T>() -> (channel::Sender<T>, channel::Receiver<T>) {
    #[cfg(feature = "shuttle")]
    return channel::channel();
    #[cfg(not(feature = "shuttle"))]
    return channel::unbounded();
}

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
