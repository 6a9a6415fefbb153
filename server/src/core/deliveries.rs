//! Messages that were published, answers to clients that waited, and orders of one client about another (CLIENT
//! KILL, CLIENT UNBLOCK), on their way to the workers of those whom they are for.
//!
//! Invariant: messages are queued while the engine is locked, so each worker has them in the order in which they were
//! published.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use quorlock_engine::channels::Published;
use quorlock_engine::{Reply, Served};

use crate::core::clients::{Client, Clients};
use crate::core::outgoing::Outgoing;
use crate::core::wait::Wait;
use crate::sync::Mutex;

/// A message or an answer for one connection.
pub(crate) struct Delivery {
    pub(crate) connection: usize,
    pub(crate) client_id: u64,
    pub(crate) content: Content,
    /// What has to be on record before it leaves.
    pub(crate) wait: Wait,
}

/// What a connection is sent.
pub(crate) enum Content {
    /// It listens to what was published.
    Message(Arc<Reply>),
    /// It waited for this.
    Answer(Reply),
}

/// What a worker is to do with one of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) connection: usize,
    pub(crate) client_id: u64,
    pub(crate) what: What,
}

/// What one client may ask for about another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Close it.
    Close,
    /// End what it waits for, which was claimed for this: as if its time were up, or with an error.
    Unblock { is_error: bool },
}

/// A queue for each worker.
pub(crate) struct Deliveries {
    queues: Vec<Queue>,
}

#[derive(Default)]
struct Queue {
    deliveries: Mutex<Vec<Delivery>>,
    orders: Mutex<Vec<Order>>,
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

    /// Queues messages and answers for those they are for. Called while the engine is locked.
    pub(crate) fn queue(&self, outgoing: Outgoing, clients: &Clients) {
        for (Published { message, receivers }, wait) in outgoing.published {
            for client in clients.with_ids_in(&receivers) {
                let message = Content::Message(Arc::clone(&message));
                self.queue_one(&client, message, wait);
            }
        }
        for (Served { client, reply }, wait) in outgoing.served {
            for client in clients.with_ids_in(&[client]) {
                self.queue_one(&client, Content::Answer(reply.clone()), wait);
            }
        }
    }

    fn queue_one(&self, client: &Client, content: Content, wait: Wait) {
        let Some(queue) = self.queues.get(client.worker) else {
            return;
        };
        queue.lock().push(Delivery {
            connection: client.connection(),
            client_id: client.id,
            content,
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

    /// Queues an order for the worker of this client. [`Deliveries::wake`] is to follow.
    pub(crate) fn order(&self, client: &Client, what: What) {
        // A client without a worker of this node is one of a test.
        let Some(queue) = self.queues.get(client.worker) else {
            return;
        };
        let order = Order {
            connection: client.connection(),
            client_id: client.id,
            what,
        };
        queue
            .orders
            .lock()
            .expect("no holder of a queue can panic")
            .push(order);
        queue.is_unwoken.store(true, Ordering::Release);
    }

    /// Takes the orders for a worker.
    pub(crate) fn take_orders(&self, worker: usize) -> Vec<Order> {
        self.queues.get(worker).map_or_else(Vec::new, |queue| {
            let mut orders = queue.orders.lock().expect("no holder of a queue can panic");
            std::mem::take(&mut *orders)
        })
    }

    /// Wakes all workers: something that concerns each of them has changed.
    pub(crate) fn wake_all(&self) {
        for queue in &self.queues {
            queue.is_unwoken.store(true, Ordering::Release);
        }
        self.wake();
    }

    /// Takes what is there for a worker.
    pub(crate) fn take(&self, worker: usize) -> Vec<Delivery> {
        let queue = self.queues.get(worker);
        queue.map_or_else(Vec::new, |queue| std::mem::take(&mut *queue.lock()))
    }
}

impl Queue {
    fn lock(&self) -> crate::sync::MutexGuard<'_, Vec<Delivery>> {
        self.deliveries
            .lock()
            .expect("no holder of a queue can panic")
    }
}
