//! A worker: one thread that waits for the sockets of its own connections and drives their event loop.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use quorlock_engine::RawTime;
use rustix::fd::AsRawFd;
use rustix::thread::{Timespec, nanosleep, set_current_timer_slack};

use crate::runtime::alarm::Alarm;
use crate::runtime::client_stream::ClientStream;
use crate::runtime::half_closed::HalfClosed;
use crate::runtime::inbox::{Handover, Inbox, InboxItem};
use quorlock_node::core::commit::PollError;
use quorlock_node::core::state::NodeState;
use quorlock_node::event_loop::EventLoop;
use quorlock_node::event_loop::coalescing::SLEEP;
use quorlock_node::event_loop::message::Message;
use quorlock_node::sync::channel::Receiver;

/// One worker.
pub(crate) struct Worker {
    node: Arc<NodeState>,
    poll: Poll,
    inbox: Inbox,
    incoming: Receiver<InboxItem>,
    event_loop: EventLoop<ClientStream>,
    half_closed: HalfClosed,
}

impl Worker {
    /// A worker that serves nobody yet; each has a number of its own.
    ///
    /// # Errors
    /// When the system has no descriptors to give.
    pub(crate) fn new(
        node: Arc<NodeState>,
        number: usize,
        half_closed: HalfClosed,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let (inbox, incoming) = Inbox::new(poll.registry(), INBOX)?;
        let told = inbox.clone();
        let wake = move || {
            // A worker that has ended serves nobody.
            let _ = told.send(InboxItem::Message(Message::Published));
        };
        node.deliveries.wake_with(number, Box::new(wake));
        let told = inbox.clone();
        node.clock.when_moved(Box::new(move || {
            told.send(InboxItem::Message(Message::TimeMoved))
        }));
        Ok(Self {
            event_loop: EventLoop::new(Arc::clone(&node), number),
            node,
            poll,
            inbox,
            incoming,
            half_closed,
        })
    }

    pub(crate) fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// Serves until it is told to stop, and then until the replies have left.
    pub(crate) fn run(mut self) {
        // Else the system adds up to 50 us to a sleep. Where it refuses this, sleeps are longer.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let node = Arc::clone(&self.node);
        let _alarm = Alarm::new(&node, "a worker");
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let now_raw = node.clock.raw();
            if self.event_loop.has_ended(now_raw) {
                break;
            }
            if let Err(error) = self.step(&mut events, now_raw) {
                self.node.fail(&self.node.commit.fail(PollError(error)));
                break;
            }
        }
        self.event_loop.close_all();
        self.event_loop.hand_over_tasks(&self.inbox);
    }

    /// Waits for something to do, and does it.
    fn step(&mut self, events: &mut Events, now_raw: RawTime) -> io::Result<()> {
        self.wait(events, now_raw)?;
        let now_raw = self.node.clock.raw();
        let mut has_incoming = false;
        for event in &*events {
            match event.token() {
                INBOX => has_incoming = true,
                Token(slot) => {
                    let is_ending = event.is_read_closed() || event.is_error();
                    self.event_loop
                        .note_ready(slot, event.is_readable(), is_ending, now_raw);
                }
            }
        }
        if has_incoming {
            self.take_incoming(now_raw);
        }
        self.event_loop.iterate(now_raw);
        self.event_loop.hand_over_tasks(&self.inbox);
        self.close_half();
        Ok(())
    }

    /// Waits for events, where it coalesces wake-ups after a sleep. While clients are expected to share the next sync,
    /// it does so as well: each of them would have to wake it. Elsewhere not while replies wait for the log.
    fn wait(&mut self, events: &mut Events, now_raw: RawTime) -> io::Result<()> {
        if self.event_loop.gathering.is_waiting() {
            sleep(SLEEP);
            return self.poll(events, Some(Duration::ZERO));
        }
        let pause = self.event_loop.pause(now_raw);
        let coalesces =
            self.event_loop.is_committed() && self.event_loop.coalescing.is_worthwhile();
        let next_commit = &self.node.log_queue.next_commit;
        let may_sleep = coalesces || next_commit.is_lingering(now_raw);
        if may_sleep && pause != Some(Duration::ZERO) {
            self.poll(events, Some(Duration::ZERO))?;
            if events.is_empty() {
                sleep(SLEEP);
                self.poll(events, Some(Duration::ZERO))?;
                if coalesces {
                    self.event_loop.coalescing.note_sleep(events.iter().count());
                }
            }
            // The poll tells of each arrival once.
            if !events.is_empty() {
                return Ok(());
            }
        }
        self.poll(events, pause)
    }

    fn poll(&mut self, events: &mut Events, pause: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(events, pause) {
            // Then there are no events.
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn take_incoming(&mut self, now_raw: RawTime) {
        while let Ok(incoming) = self.incoming.try_recv() {
            match incoming {
                InboxItem::Connection(handover) => self.open(handover, now_raw),
                InboxItem::Message(message) => self.event_loop.receive(message, now_raw),
                InboxItem::Question(answer) => {
                    // Who asked may have given up.
                    let _ = answer.send(());
                }
            }
        }
    }

    fn open(&mut self, Handover { stream, client }: Handover, now_raw: RawTime) {
        let registered = self.poll.registry().register(
            &mut SourceFd(&stream.as_raw_fd()),
            Token(self.event_loop.next_slot()),
            Interest::READABLE | Interest::WRITABLE,
        );
        match registered {
            Ok(()) => self.event_loop.open(stream, client, now_raw),
            Err(error) => {
                tracing::warn!("cannot serve a client: {error}");
                self.node.clients.remove(client.id);
            }
        }
    }

    fn close_half(&mut self) {
        for stream in self.event_loop.take_half_closed() {
            // Another poll tells of it from here on.
            if (self.poll.registry())
                .deregister(&mut SourceFd(&stream.as_raw_fd()))
                .is_ok()
                && let Ok(descriptor) = stream.into_descriptor()
            {
                self.half_closed.add(descriptor);
            }
        }
    }
}

/// Sleeps whatever comes, or less after a signal.
fn sleep(pause: Duration) {
    let tv_nsec = i64::from(pause.subsec_nanos());
    let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec });
}

const INBOX: Token = Token(usize::MAX);
const EVENTS: usize = 1024;
