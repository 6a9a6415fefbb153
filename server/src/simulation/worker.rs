//! A worker of a simulated node: the event loop of a real one, on connections in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::core::clients::Addresses;
use crate::core::log_queue::LogEvent;
use crate::core::next_commit::Done;
use crate::core::state::NodeState;
use crate::event_loop::EventLoop;
use crate::event_loop::message::{Message, Task};
use crate::event_loop::pipe::{Pipe, PipeStream};

/// One event loop, its connections, and what it was told and has asked for.
pub(crate) struct Worker {
    node: Arc<NodeState>,
    number: usize,
    event_loop: EventLoop<PipeStream>,
    inbox: Inbox,
    /// By slot.
    pipes: BTreeMap<usize, Pipe>,
}

/// What a real worker's inbox holds.
type Inbox = Arc<Mutex<VecDeque<Message>>>;

impl Worker {
    pub(crate) fn new(node: Arc<NodeState>, number: usize) -> Worker {
        let inbox = Inbox::default();
        let told = Arc::clone(&inbox);
        let wake = move || send(&told, Message::Published);
        node.deliveries.wake_with(number, Box::new(wake));
        Worker {
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
        let client = clients.add(Addresses::NONE, now_raw, self.number);
        if self.node.config.requirepass.is_some() {
            clients.note_unauthenticated(&client);
        }
        let slot = self.event_loop.next_slot();
        self.event_loop.open(pipe.stream(), client, now_raw);
        self.pipes.insert(slot, pipe.clone());
    }

    /// Tells the event loop something.
    pub(crate) fn tell(&self, message: Message) {
        send(&self.inbox, message);
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
        while let Some(message) = take(&self.inbox) {
            self.event_loop.receive(message, now_raw);
        }
        self.event_loop.iterate(now_raw);
        self.pipes.retain(|_, pipe| !pipe.is_closed());
        self.hand_over_tasks();
        let has_changed = self.pipes.values().any(Pipe::has_changed);
        has_changed || self.event_loop.pause(now_raw) == Some(Duration::ZERO)
    }

    /// Whether it was told to stop, and has nothing to do any more.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.event_loop.has_ended(self.node.clock.raw())
    }

    fn hand_over_tasks(&mut self) {
        // Nothing that was sent is lost here when a stream is closed.
        self.event_loop.take_half_closed().for_each(drop);
        for task in self.event_loop.take_tasks() {
            let told = |message| {
                let told = ToldOnDrop(Arc::clone(&self.inbox), Some(message));
                Box::new(move || drop(told)) as Done
            };
            let log_thread = &self.node.log_queue;
            match task {
                Task::Commit(request) => {
                    log_thread.commit_for(self.number, request, || told(Message::Synced));
                }
                Task::MakeSegment => {
                    log_thread.send(LogEvent::Prepare(Some(told(Message::SegmentMade))));
                }
            }
        }
    }
}

/// Says that a job has ended, whether it was done or dropped.
struct ToldOnDrop(Inbox, Option<Message>);

impl Drop for ToldOnDrop {
    fn drop(&mut self) {
        if let Some(message) = self.1.take() {
            send(&self.0, message);
        }
    }
}

fn send(inbox: &Inbox, message: Message) {
    let mut messages = inbox.lock().expect("no holder of an inbox can panic");
    messages.push_back(message);
}

fn take(inbox: &Inbox) -> Option<Message> {
    let mut messages = inbox.lock().expect("no holder of an inbox can panic");
    messages.pop_front()
}
