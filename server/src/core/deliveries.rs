//! Messages that were published, on their way to the workers of those who listen.
//!
//! Invariant: they are queued while the engine is locked, so each connection has them in the order in which they were
//! published, and who locks the engine next finds them here.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock_engine::channels::{Message, Published};

use crate::core::clients::{Client, Clients};
use crate::core::executor::Executor;
use crate::core::wait::Wait;
use crate::sync::Mutex;

/// A message for one connection.
pub(crate) struct Delivery {
    pub(crate) client_id: u64,
    pub(crate) message: Message,
    /// What the publisher's reply waits for, and so the message.
    pub(crate) wait: Wait,
}

/// A queue for each worker.
pub(crate) struct Deliveries {
    queues: Vec<Queue>,
}

#[derive(Default)]
struct Queue {
    /// By connection.
    deliveries: Mutex<BTreeMap<usize, Vec<Delivery>>>,
    /// Something was queued and the worker was not woken.
    is_unwoken: AtomicBool,
    wake: OnceLock<Wake>,
}

/// Makes a worker look into its queue.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

impl Deliveries {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            queues: (0..workers).map(|_| Queue::default()).collect(),
        }
    }

    /// How a worker is woken; said once, before it serves anybody.
    pub(crate) fn wake_with(&self, worker: usize, wake: Wake) {
        // A second one is another node's worker in a test, and is not needed.
        let _ = self.queues[worker].wake.set(wake);
    }

    /// Queues what was published, for those who listen. Says whether there was anything: then workers are to be
    /// woken once the engine is released.
    pub(crate) fn publish(&self, executor: &mut Executor, clients: &Clients) -> bool {
        let published = executor.take_published();
        let has_any = !published.is_empty();
        self.queue(published, clients);
        has_any
    }

    fn queue(&self, published: Vec<(Published, Wait)>, clients: &Clients) {
        for (Published { message, receivers }, wait) in published {
            let connected = clients.with_ids_in(&receivers);
            if let (Message::Redirected { owner, .. }, []) = (&message, &*connected) {
                for owner in clients.with_ids_in(&[*owner]) {
                    owner.introduction().tracking.is_broken = true;
                    let target = receivers[0];
                    self.queue_one(&owner, Message::RedirectionBroken { target }, wait);
                }
            }
            for client in connected {
                self.queue_one(&client, message.clone(), wait);
            }
        }
    }

    fn queue_one(&self, client: &Client, message: Message, wait: Wait) {
        let Some(queue) = self.queues.get(client.worker) else {
            return;
        };
        let mut deliveries = queue.lock();
        let of_connection = deliveries.entry(client.connection()).or_default();
        of_connection.push(Delivery {
            client_id: client.id,
            message,
            wait,
        });
        queue.is_unwoken.store(true, Ordering::Release);
    }

    /// Wakes the workers for whom something was queued. Called once the engine is released.
    pub(crate) fn wake(&self) {
        for queue in &self.queues {
            if queue.is_unwoken.swap(false, Ordering::AcqRel)
                && let Some(wake) = queue.wake.get()
            {
                wake();
            }
        }
    }

    /// Takes what is there for a worker's connections.
    pub(crate) fn take(&self, worker: usize) -> BTreeMap<usize, Vec<Delivery>> {
        let queue = self.queues.get(worker);
        queue.map_or_else(BTreeMap::new, |queue| std::mem::take(&mut *queue.lock()))
    }

    /// Takes what is there for one connection.
    pub(crate) fn take_of(&self, client: &Client) -> Vec<Delivery> {
        let queue = self.queues.get(client.worker);
        let taken = queue.and_then(|queue| queue.lock().remove(&client.connection()));
        taken.unwrap_or_default()
    }
}

impl Queue {
    fn lock(&self) -> crate::sync::MutexGuard<'_, BTreeMap<usize, Vec<Delivery>>> {
        self.deliveries
            .lock()
            .expect("no holder of a queue can panic")
    }
}
