//! The client's own thread: connections, locks in hand, and what is still owed to the nodes.
//!
//! Invariant: everything that outlives a call lives here, on one thread with a runtime of its own,
//! so it outlives the caller's future, guard and runtime. The thread ends when no handle and no
//! guard is left and nothing is owed any more.

mod attempt;
mod keeper;
mod link;
mod mailbox;
mod node;
mod queue;
mod release;
mod round_trip;
mod single;
mod stream;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use self::mailbox::Mailbox;
use self::node::Node;
use self::queue::{Form, Kind, Request};
use crate::address::NodeAddress;
use crate::clock::ClientInstant;
use crate::orders::Order;
use crate::outcome::{BuildError, Cause};
use crate::settings::Settings;
use crate::token::Token;
use crate::votes::{NodeIndex, NodeSet, Register};

/// What all tasks of the thread share.
#[derive(Debug)]
struct Shared {
    nodes: Vec<Rc<Node>>,
    labels: Arc<[Arc<str>]>,
    settings: Settings,
    register: RefCell<Register>,
    active: Cell<usize>,
}

/// The lock a request is about.
#[derive(Clone, Debug)]
struct Subject {
    name: Bytes,
    token: Token,
    ttl: Duration,
    asked: Rc<Cell<NodeSet>>,
}

impl Subject {
    fn new(name: Bytes, token: Token, ttl: Duration) -> Self {
        Self {
            name,
            token,
            ttl,
            asked: Rc::default(),
        }
    }
}

impl Shared {
    fn now(&self) -> ClientInstant {
        self.settings.clock.now()
    }

    /// The longest that any node is waited for in a round about a lease of `ttl`.
    fn patience(&self, ttl: Duration) -> Duration {
        let nodes = self.nodes.iter();
        nodes
            .map(|node| node.patience(ttl))
            .max()
            .unwrap_or(Duration::ZERO)
    }

    fn submit(
        &self,
        node: NodeIndex,
        kind: Kind,
        subject: &Subject,
        round: u32,
        mailbox: Option<Rc<Mailbox>>,
        now: ClientInstant,
    ) -> Result<(), Cause> {
        let lasts = match kind {
            // What a lost release would leave behind is gone after the ttl.
            Kind::Release => subject.ttl.saturating_add(RELEASE_SLACK),
            // Half of a lease is the least that makes taking a node worth while.
            _ => subject.ttl / 2,
        };
        self.nodes[node].submit(Request {
            kind,
            name: subject.name.clone(),
            token: subject.token.clone(),
            ttl: subject.ttl,
            round,
            mailbox,
            since: now,
            until: now.after(lasts),
            form: Form::Short,
            asked: Rc::clone(&subject.asked),
        })
    }

    /// Releases on every node, behind whatever was sent there before, and lets the nodes' queues
    /// see to it.
    fn release_everywhere(&self, subject: &Subject) {
        let now = self.now();
        for node in 0..self.nodes.len() {
            if let Err(cause) = self.submit(node, Kind::Release, subject, 0, None, now) {
                tracing::debug!(node = %self.labels[node], %cause, "a release was not queued");
            }
        }
    }

    fn can_pay(&self) -> bool {
        let now = self.now();
        self.nodes.iter().any(|node| node.can_pay(now))
    }

    fn owes(&self) -> bool {
        let now = self.now();
        self.nodes.iter().any(|node| node.owes(now))
    }
}

/// Counts a task that holds or takes something while it lives.
#[derive(Debug)]
struct Active(Rc<Shared>);

impl Active {
    fn new(shared: &Rc<Shared>) -> Self {
        shared.active.set(shared.active.get() + 1);
        Self(Rc::clone(shared))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.set(self.0.active.get() - 1);
    }
}

/// Starts the thread.
pub(crate) fn start(
    nodes: Vec<NodeAddress>,
    settings: Settings,
) -> Result<mpsc::UnboundedSender<Order>, BuildError> {
    let failed = |error: std::io::Error| BuildError::Thread(Arc::from(error.to_string()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let (orders, received) = mpsc::unbounded_channel();
    let thread = std::thread::Builder::new().name("quorlock-client".to_owned());
    thread
        .spawn(move || LocalSet::new().block_on(&runtime, run(nodes, settings, received)))
        .map_err(failed)?;
    Ok(orders)
}

async fn run(
    addresses: Vec<NodeAddress>,
    settings: Settings,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let labels: Arc<[Arc<str>]> = addresses
        .iter()
        .map(|address| Arc::from(address.to_string()))
        .collect();
    let nodes = labels.iter().enumerate().map(|(index, label)| {
        let clock = Arc::clone(&settings.clock);
        Rc::new(Node::new(
            index,
            Arc::clone(label),
            clock,
            settings.node_deadline_max,
        ))
    });
    let nodes = nodes.collect();
    let register = RefCell::new(Register::default());
    let shared = Rc::new(Shared {
        nodes,
        labels,
        settings,
        register,
        active: Cell::new(0),
    });
    for (node, address) in shared.nodes.iter().zip(addresses) {
        spawn_local(link::run(Rc::clone(node), address, Rc::clone(&shared)));
    }
    while let Some(order) = orders.recv().await {
        let active = Active::new(&shared);
        let shared = Rc::clone(&shared);
        match order {
            Order::Acquire(order) => drop(spawn_local(keeper::keep(shared, active, order))),
            Order::Extend(order) => drop(spawn_local(single::extend(shared, active, order))),
            Order::Release(order) => drop(spawn_local(single::release(shared, active, order))),
            Order::Probe(reply) => drop(spawn_local(single::probe(shared, active, reply))),
            Order::Settle(reply) => drop(spawn_local(async move {
                drop(active);
                // Guards that were dropped just before are noticed by their tasks first.
                sleep(SETTLE_CHECK_EVERY).await;
                let until = shared.now().after(shared.settings.node_deadline_max);
                while shared.can_pay() && !shared.now().has_reached(until) {
                    sleep(SETTLE_CHECK_EVERY).await;
                }
                // Nobody may be waiting any more.
                let _gone = reply.send(());
            })),
        }
    }
    while shared.active.get() > 0 || shared.owes() {
        sleep(END_CHECK_EVERY).await;
    }
}

const RELEASE_SLACK: Duration = Duration::from_secs(1);
const SETTLE_CHECK_EVERY: Duration = Duration::from_millis(2);
const END_CHECK_EVERY: Duration = Duration::from_millis(50);
