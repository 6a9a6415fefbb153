//! Messages that were published, answers to clients that waited, and orders of one client about another (CLIENT
//! KILL, CLIENT UNBLOCK), on their way to the workers of those whom they are for.
//!
//! Invariant: messages are queued while the engine is locked, so each connection has them in the order in which they were
//! published, and who locks the engine next finds them here.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use quorlock_engine::channels::{Message, Published};
use quorlock_engine::{Reply, Served};

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

/// What a client waited for.
pub(crate) struct Answer {
    pub(crate) connection: usize,
    pub(crate) client_id: u64,
    pub(crate) reply: Reply,
    /// What has to be on record before it leaves.
    pub(crate) wait: Wait,
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
    /// By connection.
    deliveries: Mutex<BTreeMap<usize, Vec<Delivery>>>,
    answers: Mutex<Vec<Answer>>,
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

    /// Queues what was published, for those who listen, and answers for those who waited. Says whether there was
    /// anything: then workers are to be woken once the engine is released.
    pub(crate) fn publish(&self, executor: &mut Executor, clients: &Clients) -> bool {
        let (published, served) = (executor.take_published(), executor.take_served());
        let has_any = !published.is_empty() || !served.is_empty();
        self.queue(published, clients);
        for (served, wait) in served {
            self.queue_answer(served, wait, clients);
        }
        has_any
    }

    fn queue_answer(&self, served: Served, wait: Wait, clients: &Clients) {
        let Some(client) = clients.with_ids_in(&[served.client]).pop() else {
            return;
        };
        let Some(queue) = self.queues.get(client.worker) else {
            return;
        };
        let answer = Answer {
            connection: client.connection(),
            client_id: client.id,
            reply: served.reply,
            wait,
        };
        let mut answers = queue
            .answers
            .lock()
            .expect("no holder of a queue can panic");
        answers.push(answer);
        queue.is_unwoken.store(true, Ordering::Release);
    }

    /// Takes the answers for a worker's connections.
    pub(crate) fn take_answers(&self, worker: usize) -> Vec<Answer> {
        self.queues.get(worker).map_or_else(Vec::new, |queue| {
            let mut answers = queue
                .answers
                .lock()
                .expect("no holder of a queue can panic");
            std::mem::take(&mut *answers)
        })
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
