//! A worker of a simulated node: the event loop of a real one, on connections in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::core::clients::Endpoints;
use crate::core::state::NodeState;
use crate::event_loop::EventLoop;
use crate::event_loop::message::{Mailbox, Message};
use crate::event_loop::pipe::{Pipe, PipeStream};

/// One event loop, its connections, and what it was told and has asked for.
pub(crate) struct SimulatedWorker {
    node: Arc<NodeState>,
    number: usize,
    event_loop: EventLoop<PipeStream>,
    inbox: WorkerInbox,
    /// By slot.
    pipes: BTreeMap<usize, Pipe>,
}

impl SimulatedWorker {
    pub(crate) fn new(node: Arc<NodeState>, number: usize) -> SimulatedWorker {
        let inbox = WorkerInbox::default();
        let sender = inbox.clone();
        let wake = move || sender.send_message(Message::Published);
        node.deliveries.wake_with(number, Box::new(wake));
        SimulatedWorker {
            event_loop: EventLoop::new(Arc::clone(&node), number),
            node,
            number,
            inbox,
            pipes: BTreeMap::new(),
        }
    }

    /// Serves a client, as one that the listener has handed over.
    pub(crate) fn open(&mut self, pipe: &Pipe) {
        let now_raw = self.node.clock.raw();
        let clients = &self.node.clients;
        let client = clients.add(Endpoints::NONE, now_raw, self.number);
        if !self.node.access.is_open() {
            clients.note_unauthenticated(&client);
        }
        let slot = self.event_loop.next_slot();
        self.event_loop.open(pipe.stream(), client, now_raw);
        self.pipes.insert(slot, pipe.clone());
    }

    /// Tells the event loop something.
    pub(crate) fn tell(&self, message: Message) {
        self.inbox.send_message(message);
    }

    /// One iteration with all that has come. Returns whether the next one is to follow at once.
    pub(crate) fn iterate(&mut self) -> bool {
        let now_raw = self.node.clock.raw();
        for (slot, pipe) in &self.pipes {
            if let Some(ready) = pipe.take_readiness() {
                self.event_loop
                    .note_ready(*slot, ready.is_readable, ready.is_ending, now_raw);
            }
        }
        while let Some(message) = self.inbox.take() {
            self.event_loop.receive(message, now_raw);
        }
        self.event_loop.iterate(now_raw);
        self.pipes.retain(|_, pipe| !pipe.is_closed());
        // Nothing that was sent is lost here when a stream is closed.
        self.event_loop.take_half_closed().for_each(drop);
        self.event_loop.hand_over_tasks(&self.inbox);
        let has_changed = self.pipes.values().any(Pipe::has_changed);
        has_changed || self.event_loop.pause(now_raw) == Some(Duration::ZERO)
    }

    /// Whether it was told to stop, and has nothing to do any more.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.event_loop.has_ended(self.node.clock.raw())
    }
}

/// What a real worker's inbox holds.
#[derive(Clone, Default)]
struct WorkerInbox(Arc<Mutex<VecDeque<Message>>>);

impl WorkerInbox {
    fn take(&self) -> Option<Message> {
        self.messages().pop_front()
    }

    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.0.lock().expect("no holder of an inbox can panic")
    }
}

impl Mailbox for WorkerInbox {
    fn send_message(&self, message: Message) {
        self.messages().push_back(message);
    }
}
