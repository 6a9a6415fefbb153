//! The loop of the client's thread.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, Sleep, sleep};

use super::dial::{Addresses, dial};
use super::dropped::Dropped;
use super::handle::{Acquired, Command, LeaseState, ReplyTo};
use super::socket::Socket;
use super::stream::Stream;
use crate::address::{Endpoint, NodeAddress};
use crate::clock::{ClientInstant, Clock, slice};
use crate::outcome::{Cause, ConnectionError};
use crate::rules::OperationId;
use crate::rules::action::{Action, Event};
use crate::rules::call::{Call, Outcome};
use crate::rules::client::Client;
use crate::rules::link::ConnectionId;
use crate::settings::Settings;

pub(super) struct Thread {
    client: Client,
    clock: Arc<dyn Clock>,
    commands: mpsc::UnboundedReceiver<Command>,
    dropped: Arc<Dropped>,
    endpoints: Vec<Endpoint>,
    addresses: Vec<Addresses>,
    connect_deadline: Duration,
    dialled: mpsc::UnboundedReceiver<Dialled>,
    dialling: mpsc::UnboundedSender<Dialled>,
    sockets: Vec<Socket>,
    replies: HashMap<OperationId, ReplyTo>,
    leases: HashMap<OperationId, watch::Sender<LeaseState>>,
    actions: Vec<Action>,
    buffer: Vec<u8>,
    sleep: Pin<Box<Sleep>>,
    /// What the sleep is on its way to.
    asleep_until: Option<ClientInstant>,
}

/// How making a connection went.
struct Dialled {
    id: ConnectionId,
    result: io::Result<Stream>,
}

impl Thread {
    pub(super) fn new(
        nodes: Vec<NodeAddress>,
        settings: Settings,
        commands: mpsc::UnboundedReceiver<Command>,
        dropped: Arc<Dropped>,
    ) -> Self {
        let (dialling, dialled) = mpsc::unbounded_channel();
        let endpoints: Vec<_> = nodes.iter().map(|node| node.endpoint.clone()).collect();
        Self {
            clock: Arc::clone(&settings.clock),
            connect_deadline: settings.node_deadline_max,
            client: Client::new(nodes, settings, Box::new(rand::rng())),
            commands,
            dropped,
            addresses: endpoints.iter().map(|_| Addresses::default()).collect(),
            endpoints,
            dialled,
            dialling,
            sockets: Vec::new(),
            replies: HashMap::new(),
            leases: HashMap::new(),
            actions: Vec::new(),
            buffer: vec![0; READ_BYTES],
            sleep: Box::pin(sleep(Duration::ZERO)),
            asleep_until: None,
        }
    }

    /// Does all there is to do; ready when the thread has nothing to do any more.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..PASSES {
            let is_closed = self.take_commands(context);
            self.take_dialled(context);
            self.read_all(context);
            self.act();
            let has_written = self.write_all(context);
            if is_closed && self.client.is_idle(self.clock.now()) {
                return Poll::Ready(());
            }
            if has_written && self.is_asleep(context, is_closed) {
                return Poll::Pending;
            }
        }
        // However much is due: the runtime looks at the sockets in between.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Says whether no command can come any more.
    fn take_commands(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            let command = match self.commands.poll_recv(context) {
                Poll::Ready(Some(command)) => command,
                Poll::Ready(None) => return true,
                Poll::Pending => return false,
            };
            let event = match command {
                Command::Call(operation, call, reply) => {
                    match &call {
                        Call::Detach { held } => drop(self.leases.remove(held)),
                        _ => drop(self.replies.insert(operation, reply)),
                    }
                    Event::Call(operation, call)
                }
                Command::Gone(operation) => {
                    self.replies.remove(&operation);
                    Event::Gone(operation)
                }
            };
            // Read before anything is sent: what the nodes grant begins later.
            self.client
                .handle(self.clock.now(), event, &mut self.actions);
        }
    }

    fn take_dialled(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(Dialled { id, result })) = self.dialled.poll_recv(context) {
            let place = self.sockets.iter().position(|socket| socket.id == id);
            let Some(place) = place else { continue };
            let peer;
            let event = match result {
                Ok(stream) => {
                    peer = stream.peer();
                    self.sockets[place].connected(stream, self.connect_deadline);
                    Event::Connected(id, &peer)
                }
                Err(error) => {
                    self.sockets.swap_remove(place);
                    Event::Closed(id, Cause::Unreachable(error.into()))
                }
            };
            self.client
                .handle(self.clock.now(), event, &mut self.actions);
        }
    }

    fn read_all(&mut self, context: &mut Context<'_>) {
        let mut place = 0;
        while place < self.sockets.len() {
            let socket = &mut self.sockets[place];
            let id = socket.id;
            let event = match socket.poll_read(context, &mut self.buffer) {
                Poll::Pending => {
                    place += 1;
                    continue;
                }
                Poll::Ready(Ok(0)) => Event::Closed(id, Cause::Unreachable(ended().into())),
                Poll::Ready(Ok(bytes)) => Event::Received(id, &self.buffer[..bytes]),
                Poll::Ready(Err(error)) => {
                    let error = ConnectionError::while_doing("reading", error);
                    Event::Closed(id, Cause::Unreachable(error))
                }
            };
            if matches!(event, Event::Closed(..)) {
                self.sockets.swap_remove(place).closed();
            }
            // Read after the bytes were.
            let now = self.clock.now();
            self.client.handle(now, event, &mut self.actions);
        }
    }

    /// Hands what the rules have written over to the sockets. Says whether nothing new followed.
    fn write_all(&mut self, context: &mut Context<'_>) -> bool {
        let mut failed = Vec::new();
        for socket in &mut self.sockets {
            if let Some(output) = self.client.output(socket.id)
                && !output.is_empty()
            {
                socket.take(output);
            }
            if let Poll::Ready(Err(error)) = socket.poll_write(context) {
                failed.push((socket.id, error));
            }
        }
        let is_done = failed.is_empty();
        for (id, error) in failed {
            self.sockets.retain(|socket| socket.id != id);
            let error = ConnectionError::while_doing("writing", error);
            let cause = Cause::Unreachable(error);
            let now = self.clock.now();
            self.client
                .handle(now, Event::Closed(id, cause), &mut self.actions);
        }
        is_done
    }

    /// Sleeps towards the next deadline. Says no if it has come.
    fn is_asleep(&mut self, context: &mut Context<'_>, is_closed: bool) -> bool {
        loop {
            let next = self.client.next_time();
            if next.is_none() && !is_closed {
                self.asleep_until = None;
                return true;
            }
            if next.is_none() || next != self.asleep_until || self.sleep.is_elapsed() {
                let now = self.clock.now();
                let left = next.map_or(Duration::MAX, |next| now.until(next));
                if left.is_zero() {
                    self.client.handle(now, Event::Timer, &mut self.actions);
                    return false;
                }
                let left = if is_closed {
                    left.min(END_CHECK_EVERY)
                } else {
                    left
                };
                self.sleep.as_mut().reset(Instant::now() + slice(left));
                self.asleep_until = next;
            }
            if self.sleep.as_mut().poll(context).is_pending() {
                return true;
            }
            if is_closed {
                return false;
            }
        }
    }

    fn act(&mut self) {
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Open(id) => self.open(id),
                Action::Close(id) => self.sockets.retain(|socket| socket.id != id),
                Action::LimitUnacknowledged(id, limit) => {
                    let mut sockets = self.sockets.iter();
                    if let Some(socket) = sockets.find(|socket| socket.id == id)
                        && let Err(error) = socket.limit_unacknowledged(limit)
                    {
                        tracing::debug!(%error, "TCP_USER_TIMEOUT was refused");
                    }
                }
                Action::Tell(operation, outcome) => self.tell(operation, outcome),
                Action::Waiting(operation, waiting) => {
                    if let Some(ReplyTo::Acquire(_, Some(news))) = self.replies.get(&operation) {
                        news.send_replace(Some(waiting));
                    }
                }
                Action::Renewed { held, valid_until } => {
                    if let Some(lease) = self.leases.get(&held) {
                        lease.send_modify(|state| {
                            debug_assert!(
                                valid_until.is_at_or_behind(state.valid_until),
                                "the validity only moves forward"
                            );
                            state.valid_until = valid_until;
                            state.is_renewal_failing = false;
                        });
                    }
                }
                Action::RenewalFailing { held } => {
                    if let Some(lease) = self.leases.get(&held) {
                        lease.send_modify(|state| state.is_renewal_failing = true);
                    }
                }
                Action::Lost { held, loss } => {
                    if let Some(lease) = self.leases.remove(&held) {
                        lease.send_modify(|state| state.loss = Some(loss));
                    }
                }
            }
        }
    }

    fn open(&mut self, id: ConnectionId) {
        let endpoint = self.endpoints[id.node].clone();
        let addresses = self.addresses[id.node].clone();
        let known = addresses.clone();
        let (done, deadline) = (self.dialling.clone(), self.connect_deadline);
        let task = spawn_local(async move {
            let result = dial(endpoint, known, deadline).await;
            // The thread may have ended.
            let _ended = done.send(Dialled { id, result });
        });
        self.sockets
            .push(Socket::dialling(id, task.abort_handle(), addresses));
    }

    /// Tells a caller; one that has stopped waiting needs no answer.
    fn tell(&mut self, operation: OperationId, outcome: Outcome) {
        let Some(reply) = self.replies.remove(&operation) else {
            if matches!(outcome, Outcome::Released(_) | Outcome::Settled) {
                self.dropped.undone(operation.undone());
            }
            return;
        };
        match (outcome, reply) {
            (Outcome::Acquired { token, valid_until }, ReplyTo::Acquire(reply, _)) => {
                let (lease, watched) = watch::channel(LeaseState {
                    valid_until,
                    is_renewal_failing: false,
                    loss: None,
                });
                self.leases.insert(operation, lease);
                let lease = watched;
                let _gone = reply.send(Ok(Acquired { token, lease }));
            }
            (Outcome::NotAcquired(error), ReplyTo::Acquire(reply, _)) => {
                let _gone = reply.send(Err(error));
            }
            (Outcome::Extended(result), ReplyTo::Extend(reply)) => {
                let _gone = reply.send(result);
            }
            (Outcome::Released(release), ReplyTo::Release(reply)) => {
                let _gone = reply.send(release);
            }
            (Outcome::Probed(statuses), ReplyTo::Probe(reply)) => {
                let _gone = reply.send(statuses);
            }
            (Outcome::Statistics(statistics), ReplyTo::Statistics(reply)) => {
                let _gone = reply.send(statistics);
            }
            (Outcome::Settled, ReplyTo::Settle(reply)) => {
                let _gone = reply.send(());
            }
            (outcome, reply) => {
                debug_assert!(false, "{outcome:?} is no outcome for {reply:?}");
            }
        }
    }
}

/// Nobody waits for a thread that has ended, for whatever reason.
impl Drop for Thread {
    fn drop(&mut self) {
        self.dropped.all_undone();
    }
}

fn ended() -> io::Error {
    let text = "the node closed the connection";
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

const PASSES: usize = 4;
const READ_BYTES: usize = 64 * 1024;
const END_CHECK_EVERY: Duration = Duration::from_millis(50);
