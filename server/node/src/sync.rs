//! What the hand-overs between threads rest on: the locks of the standard library, the channels of crossbeam and the
//! events of `event-listener`, or with the feature `shuttle` those that try orders of threads.

use event_listener::{Event, EventListener};

#[cfg(feature = "shuttle")]
pub use shuttle::sync::{Mutex, MutexGuard, atomic, mpsc as channel};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(not(feature = "shuttle"))]
pub use crossbeam_channel as channel;

/// A channel that takes any number of messages.
pub fn unbounded<T>() -> (channel::Sender<T>, channel::Receiver<T>) {
    #[cfg(feature = "shuttle")]
    return channel::channel();
    #[cfg(not(feature = "shuttle"))]
    return channel::unbounded();
}

/// What async code waits for, on any runtime. No thread sleeps here.
#[derive(Debug, Default)]
pub struct Notify(Event);

impl Notify {
    /// Resolves at the next notification after this call: ask for it first, then look at what it is about.
    pub fn listen(&self) -> EventListener {
        switch();
        self.0.listen()
    }

    /// Notifies the one that has listened for longest and was not notified yet.
    pub(crate) fn notify_one(&self) {
        switch();
        self.0.notify_additional(1);
    }

    /// Notifies all that listen. It costs a look where nobody does, or all were notified already.
    pub(crate) fn notify_all(&self) {
        switch();
        self.0.notify(usize::MAX);
    }
}

/// A fact that comes true once and stays so.
#[derive(Debug, Default)]
pub struct Latch {
    is_set: atomic::AtomicBool,
    changed: Notify,
}

impl Latch {
    /// Whether it has come true.
    pub fn is_set(&self) -> bool {
        self.is_set.load(atomic::Ordering::SeqCst)
    }

    /// Returns whether it was set before.
    pub fn set(&self) -> bool {
        let was_set = self.is_set.swap(true, atomic::Ordering::SeqCst);
        self.changed.notify_all();
        was_set
    }

    /// Resolves once it is set; at once if it is.
    pub async fn wait(&self) {
        while !self.is_set() {
            let changed = self.changed.listen();
            if !self.is_set() {
                changed.await;
            }
        }
    }
}

/// Before each call another thread may run. Shuttle does not model time.
#[cfg(feature = "shuttle")]
fn switch() {
    shuttle::thread::sleep(std::time::Duration::ZERO);
}

#[cfg(not(feature = "shuttle"))]
fn switch() {}
