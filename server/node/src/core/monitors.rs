//! The clients that watch all requests (MONITOR), of all workers. Where there is none, a request costs one relaxed load.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use quorlock_engine::channels::{ClientId, Subscriber};

/// See above.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    count: AtomicUsize,
    lists: Mutex<Lists>,
}

/// Each list is in the order of listeners, and is shared by all messages until a client comes or goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    /// Those that are shown short values.
    pub(crate) short: Arc<[Subscriber]>,
    /// Those that are shown all.
    pub(crate) full: Arc<[Subscriber]>,
}

impl Monitors {
    /// Whether any client watches.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// The clients that watch.
    pub(crate) fn lists(&self) -> Lists {
        self.lock().clone()
    }

    /// Adds a client, or changes what it is shown.
    pub(crate) fn add(&self, listener: Subscriber, is_full: bool) {
        let mut lists = self.lock();
        lists.remove(listener.client);
        let list = match is_full {
            true => &mut lists.full,
            false => &mut lists.short,
        };
        let mut all: Vec<Subscriber> = list.iter().copied().chain([listener]).collect();
        all.sort_unstable();
        *list = all.into();
        self.note(&lists);
    }

    /// The client watches no more.
    pub(crate) fn remove(&self, client: ClientId) {
        let mut lists = self.lock();
        lists.remove(client);
        self.note(&lists);
    }

    fn note(&self, lists: &Lists) {
        let count = lists.short.len() + lists.full.len();
        self.count.store(count, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists
            .lock()
            .expect("no holder of the monitors can panic")
    }
}

impl Lists {
    fn remove(&mut self, client: ClientId) {
        for list in [&mut self.short, &mut self.full] {
            if list.iter().any(|listener| listener.client == client) {
                let others = list.iter().filter(|listener| listener.client != client);
                *list = others.copied().collect();
            }
        }
    }
}
