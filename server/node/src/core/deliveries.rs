//! Messages that were published, answers to clients that waited, and orders of one client about another (CLIENT
//! KILL, CLIENT UNBLOCK), on their way to the workers of those whom they are for.
//!
//! The path of a message: the engine collects it with the effects of its command. `core/outbox.rs` adds what the command's
//! reply waits for, and the message waits for that as well. From here the worker of each listener takes it, into
//! `event_loop/posts.rs`; an iteration hands out a bounded part. Messages for many listeners may wait for short sleeps of
//! the worker (`event_loop/gathering.rs`, ADR 11). A message exists once, with the list of its listeners, and is rendered
//! once for each protocol (`core/shared_message.rs`). While much is left to be handed out, `session/dispatch.rs` lets
//! clients that publish wait.
//!
//! Invariant: messages are queued while the engine is locked, so each connection has them in the order in which they were
//! published, and who locks the engine next finds them here.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use quorlock_engine::channels::{ClientIds, Published, PushMessage, Receivers, Subscriber};
use quorlock_engine::{Reply, Served};

use crate::core::clients::{Client, Clients, WaitState};
use crate::core::executor::{Executor, ServedBehind};
use crate::core::shared_message::{RECEIVER_COST, SharedMessage};
use crate::core::upstream::LateReply;
use crate::core::wait::DurabilityWait;
use crate::sync::{Mutex, MutexGuard};

/// A message for connections of one worker.
pub(crate) struct Post {
    pub(crate) message: Arc<SharedMessage>,
    /// What the publisher's reply waits for, and so the message.
    pub(crate) wait: DurabilityWait,
    /// All whom it is for, in their order; those of other workers as well.
    pub(crate) receivers: Arc<[Subscriber]>,
    /// Which of them are this worker's: one at least.
    pub(crate) here: Range<usize>,
}

/// What a client waited for.
pub(crate) struct UnblockedReply {
    pub(crate) connection: usize,
    pub(crate) client_id: u64,
    pub(crate) reply: LateReply,
    /// What has to be on record before it leaves.
    pub(crate) wait: DurabilityWait,
    /// How many posts of its worker come before it.
    pub(crate) behind: u64,
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
    /// Close it, and say why: a message for it was not made.
    CloseMissed,
    /// End what it waits for, which was claimed for this: as if its time were up, or with an error.
    Unblock { is_error: bool },
}

/// A queue for each worker.
pub struct Deliveries {
    queues: Vec<DeliveryQueue>,
    /// What all posts cost that workers have yet to hand out.
    cost: AtomicUsize,
}

#[derive(Default)]
struct DeliveryQueue {
    posts: Mutex<Vec<Post>>,
    /// How many were ever queued; it grows while the engine is locked.
    posted: AtomicU64,
    answers: Mutex<Vec<UnblockedReply>>,
    orders: Mutex<Vec<Order>>,
    /// Something was queued and the worker was not woken.
    is_unwoken: AtomicBool,
    /// The worker is to be woken once enough is handed out.
    awaits_less: AtomicBool,
    wake: OnceLock<Wake>,
}

/// Makes a worker look into its queue.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

impl Deliveries {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            queues: (0..workers).map(|_| DeliveryQueue::default()).collect(),
            cost: AtomicUsize::new(0),
        }
    }

    /// How a worker is woken; said once, before it serves anybody.
    pub fn wake_with(&self, worker: usize, wake: Wake) {
        // A second one is another node's worker in a test, and is not needed.
        let _ = self.queues[worker].wake.set(wake);
    }

    /// Queues what was published, for those who listen, and answers for those who waited. Says whether there was
    /// anything: then workers are to be woken once the engine is released.
    pub(crate) fn publish(&self, executor: &mut Executor, clients: &Clients) -> bool {
        let (published, served) = (executor.take_published(), executor.take_served());
        let has_any = !published.is_empty() || !served.is_empty();
        let (mut published, mut count) = (published.into_iter(), 0);
        for ServedBehind {
            served,
            wait,
            published: before,
        } in served
        {
            self.queue(published.by_ref().take(before - count), clients);
            count = before;
            self.queue_answer(served, wait, clients);
        }
        self.queue(published, clients);
        has_any | self.disconnect_missed(executor, clients)
    }

    /// Queues what was published by no command of the engine.
    pub(crate) fn publish_now(
        &self,
        executor: &mut Executor,
        published: Vec<Published>,
        clients: &Clients,
    ) {
        let published = published.into_iter();
        self.queue(
            published.map(|one| (one, DurabilityWait::default())),
            clients,
        );
        self.disconnect_missed(executor, clients);
    }

    /// Whom messages have missed must learn of it: its connection ends.
    fn disconnect_missed(&self, executor: &mut Executor, clients: &Clients) -> bool {
        let missed = executor.engine.channels().take_missed();
        let ids: ClientIds = missed.iter().map(|listener| listener.client).collect();
        for client in clients.with_ids_in(&ids) {
            self.order(&client, What::CloseMissed);
        }
        !missed.is_empty()
    }

    fn queue_answer(&self, served: Served, wait: DurabilityWait, clients: &Clients) {
        let Some(client) = clients.with_ids_in(&[served.client]).pop() else {
            return;
        };
        let Some(queue) = self.queues.get(client.worker) else {
            return;
        };
        client.note_waiting(WaitState::Unblocked);
        let answer = queue.answer(&client, LateReply::Made(served.reply), wait);
        queue.push(&queue.answers, answer);
    }

    /// Queues the answer of the node's upstream for this client, and wakes its worker. Called on any thread.
    pub(crate) fn answer(&self, client: &Client, reply: LateReply) {
        let Some(queue) = self.queues.get(client.worker) else {
            return;
        };
        let answer = queue.answer(client, reply, DurabilityWait::default());
        let mut answers = lock(&queue.answers);
        let is_first = answers.is_empty();
        answers.push(answer);
        drop(answers);
        // The worker takes all, and whoever has queued the first one wakes it.
        if is_first {
            self.wake_worker(client.worker);
        }
    }

    /// Takes the answers for a worker's connections.
    pub(crate) fn take_answers(&self, worker: usize) -> Vec<UnblockedReply> {
        self.take_from(worker, |queue| &queue.answers)
    }

    fn queue(
        &self,
        published: impl Iterator<Item = (Published, DurabilityWait)>,
        clients: &Clients,
    ) {
        let shared = |message| SharedMessage::new(message, &clients.shared_bytes);
        // Messages in a row to the same clients share the list of them, so that they are handed out together.
        let mut last: (ClientIds, Arc<[Subscriber]>) = Default::default();
        for (Published { message, receivers }, wait) in published {
            let receivers = match receivers {
                Receivers::Listeners(listeners) => listeners,
                Receivers::Clients(ids) => {
                    if last.0 != ids {
                        let connected = listeners(&clients.with_ids_in(&ids));
                        last = (ids, connected);
                    }
                    Arc::clone(&last.1)
                }
            };
            match message {
                PushMessage::Redirected { owner, .. } if receivers.is_empty() => {
                    self.post_that_it_is_broken(owner, last.0[0], wait, clients);
                }
                message => self.post(shared(message), wait, &receivers),
            }
        }
    }

    /// Tells a client that the one who was to be told in its place, the target, has gone.
    fn post_that_it_is_broken(
        &self,
        owner: u64,
        target: u64,
        wait: DurabilityWait,
        clients: &Clients,
    ) {
        let owners = clients.with_ids_in(&[owner]);
        for owner in &owners {
            owner.introduction().tracking.is_broken = true;
        }
        let broken = PushMessage::RedirectionBroken { target };
        let broken = SharedMessage::new(broken, &clients.shared_bytes);
        self.post(broken, wait, &listeners(&owners));
    }

    /// Queues the line of a request for these monitors, in their order. To be called while the engine is locked.
    pub(crate) fn post_monitored(
        &self,
        line: Vec<u8>,
        monitors: &Arc<[Subscriber]>,
        clients: &Clients,
    ) {
        let message = PushMessage::Monitored(Arc::new(Reply::Status(line.into())));
        // It reveals no state of a key, so that it waits for no write.
        let message = SharedMessage::new(message, &clients.shared_bytes);
        self.post(message, DurabilityWait::default(), monitors);
    }

    /// Queues a message for the workers of those whom it is for, who are in the order of these.
    fn post(&self, message: SharedMessage, wait: DurabilityWait, receivers: &Arc<[Subscriber]>) {
        let message = Arc::new(message);
        let mut here = 0..0;
        while let Some(first) = receivers.get(here.end) {
            let rest = &receivers[here.end..];
            let count = rest.partition_point(|one| one.worker == first.worker);
            here = here.end..here.end + count;
            // A client without a worker of this node is one of a test.
            let Some(queue) = self.queues.get(first.worker) else {
                return;
            };
            let post = Post {
                message: Arc::clone(&message),
                wait,
                receivers: Arc::clone(receivers),
                here: here.clone(),
            };
            self.cost.fetch_add(post.cost(), Ordering::Relaxed);
            queue.push(&queue.posts, post);
            queue.posted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the posts cost that are not handed out.
    pub(crate) fn cost(&self) -> usize {
        self.cost.load(Ordering::Relaxed)
    }

    /// Whether so much is not handed out that what comes from elsewhere is not taken.
    pub(crate) fn is_full(&self) -> bool {
        self.cost() > 4 * PUBLISHED_COST_MAX
    }

    /// Notes that a worker has handed out a post. Those who wait for less are woken when half of what may be there is
    /// reached.
    pub(crate) fn note_handed_out(&self, post: &Post) {
        let cost = post.cost();
        let before = self.cost.fetch_sub(cost, Ordering::SeqCst);
        if !is_little(before) && is_little(before - cost) {
            for queue in &self.queues {
                if queue.awaits_less.swap(false, Ordering::SeqCst)
                    && let Some(wake) = queue.wake.get()
                {
                    wake();
                }
            }
        }
    }

    /// Whether so little is not handed out that those go on who were held back for it.
    pub(crate) fn is_below(&self) -> bool {
        is_little(self.cost.load(Ordering::SeqCst))
    }

    /// Wakes this worker once that is so. Who asks looks afterwards whether it is so already.
    pub(crate) fn await_less(&self, worker: usize) {
        if let Some(queue) = self.queues.get(worker) {
            queue.awaits_less.store(true, Ordering::SeqCst);
        }
    }

    /// Wakes the workers for whom something was queued. Called once the engine is released.
    pub(crate) fn wake(&self) {
        self.wake_all_but(None);
    }

    /// The same without the worker that calls this and is about to look.
    pub(crate) fn wake_all_but(&self, caller: Option<usize>) {
        for (worker, queue) in self.queues.iter().enumerate() {
            if caller != Some(worker)
                && queue.is_unwoken.swap(false, Ordering::AcqRel)
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
        queue.push(&queue.orders, order);
    }

    /// Takes the orders for a worker.
    pub(crate) fn take_orders(&self, worker: usize) -> Vec<Order> {
        self.take_from(worker, |queue| &queue.orders)
    }

    /// Wakes all workers: something that concerns each of them has changed.
    pub(crate) fn wake_all(&self) {
        for queue in &self.queues {
            queue.is_unwoken.store(true, Ordering::Release);
        }
        self.wake();
    }

    /// Wakes a worker: something that concerns it has changed.
    pub(crate) fn wake_worker(&self, worker: usize) {
        if let Some(wake) = self.queues.get(worker).and_then(|queue| queue.wake.get()) {
            wake();
        }
    }

    /// Takes what is there for a worker's connections.
    pub(crate) fn take(&self, worker: usize) -> Vec<Post> {
        self.take_from(worker, |queue| &queue.posts)
    }

    fn take_from<T>(
        &self,
        worker: usize,
        list: impl Fn(&DeliveryQueue) -> &Mutex<Vec<T>>,
    ) -> Vec<T> {
        let queue = self.queues.get(worker);
        queue.map_or_else(Vec::new, |queue| std::mem::take(&mut *lock(list(queue))))
    }
}

impl DeliveryQueue {
    /// Adds to one of the lists; the worker is to be woken.
    fn push<T>(&self, list: &Mutex<Vec<T>>, one: T) {
        lock(list).push(one);
        self.is_unwoken.store(true, Ordering::Release);
    }

    /// Behind all that was posted until now.
    fn answer(&self, client: &Client, reply: LateReply, wait: DurabilityWait) -> UnblockedReply {
        UnblockedReply {
            connection: client.connection(),
            client_id: client.id,
            reply,
            wait,
            behind: self.posted.load(Ordering::Relaxed),
        }
    }
}

fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock().expect("no holder of a queue can panic")
}

impl Post {
    /// What it takes until it is handed out, in bytes and in time, as bytes.
    fn cost(&self) -> usize {
        self.message.bytes() + self.here.len() * RECEIVER_COST
    }

    /// Whether it is for this connection of the worker.
    pub(crate) fn is_for(&self, listener: Subscriber) -> bool {
        self.receivers[self.here.clone()]
            .binary_search(&listener)
            .is_ok()
    }
}

fn is_little(cost: usize) -> bool {
    cost <= PUBLISHED_COST_MAX / 2
}

/// Beyond this cost of what is published and not handed out, those who have published wait: as bytes of messages, 64 for
/// each receiver of each.
pub(crate) const PUBLISHED_COST_MAX: usize = 16 << 20;

/// In the order that [`Deliveries::post`] asks for.
fn listeners(clients: &[Arc<Client>]) -> Arc<[Subscriber]> {
    let mut listeners: Vec<Subscriber> = clients.iter().map(|client| client.listener()).collect();
    listeners.sort_unstable();
    listeners.into()
}
