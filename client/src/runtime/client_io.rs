//! One client on its thread: its rules, its sockets and its callers.
//!
//! Invariant: each pass takes a bounded part of what callers want and of what nodes have answered, so that nobody's renewal
//! waits behind callers. A deadline counts as missed only when the sockets were read after it. Nothing here is shared with
//! another client but what [`Equipment`] has.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quorlock_client_rules::action::{Action, Event, broken};
use quorlock_client_rules::address::NodeAddress;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::client::Client;
use quorlock_client_rules::clock::slice;
use quorlock_client_rules::log_line::{LogLine, News};
use quorlock_client_rules::outcome::Cause;
use quorlock_client_rules::settings::Settings;
use quorlock_client_rules::{ConnectionId, OperationId};
use quorlock_clock::{ClientInstant, Clock};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, Sleep, sleep};

use super::connector::Connector;
use super::dial::{Addresses, dial};
use super::dropped::Dropped;
use super::handle::{Acquired, ClientCommand, LeaseState, ReplyTo};
use super::log::Log;
use super::socket::ClientSocket;
use super::stream::Stream;
use super::tls::Tls;

/// What the clients of a thread use one after the other.
pub(super) struct Equipment {
    /// What was read last.
    buffer: Vec<u8>,
    log: Log,
}

impl Equipment {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; READ_BYTES],
            log: Log::default(),
        }
    }
}

/// What a client begins with, on its way to the thread.
pub(super) struct Arrival {
    pub(super) nodes: Vec<NodeAddress>,
    /// Of each node to which the program makes the connections itself.
    pub(super) connectors: Vec<Option<Connector>>,
    /// What TLS is spoken with, where a node speaks it.
    pub(super) tls: Option<Tls>,
    pub(super) settings: Settings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) commands: mpsc::UnboundedReceiver<ClientCommand>,
    pub(super) dropped: Arc<Dropped>,
}

pub(super) struct ClientIo {
    client: Client,
    clock: Arc<dyn Clock>,
    commands: mpsc::UnboundedReceiver<ClientCommand>,
    dropped: Arc<Dropped>,
    nodes: Vec<NodeAddress>,
    connectors: Vec<Option<Connector>>,
    /// Of each node that speaks TLS.
    tls: Vec<Option<Tls>>,
    addresses: Vec<Addresses>,
    connect_deadline: Duration,
    dialled: mpsc::UnboundedReceiver<Dialled>,
    dialling: mpsc::UnboundedSender<Dialled>,
    sockets: Vec<ClientSocket>,
    replies: HashMap<OperationId, ReplyTo>,
    leases: HashMap<OperationId, watch::Sender<LeaseState>>,
    actions: Vec<Action>,
    sleep: Pin<Box<Sleep>>,
    /// What the sleep is on its way to.
    asleep_until: Option<ClientInstant>,
    /// When a deadline was seen to have come: what arrived before is read first.
    due_at: Option<ClientInstant>,
    /// How many passes have read since then and left something.
    unread_passes: usize,
}

/// What is left of the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commands {
    /// More may be there at once.
    More,
    NoneNow,
    /// None can come any more.
    Closed,
}

/// How making a connection went.
struct Dialled {
    id: ConnectionId,
    result: io::Result<Stream>,
}

impl ClientIo {
    pub(super) fn new(arrival: Arrival) -> Self {
        let Arrival {
            nodes,
            connectors,
            tls,
            settings,
            clock,
            commands,
            dropped,
        } = arrival;
        let (dialling, dialled) = mpsc::unbounded_channel();
        let speaks = |node: &NodeAddress| tls.clone().filter(|_| node.speaks_tls);
        let tls = nodes.iter().map(speaks).collect();
        Self {
            clock,
            connect_deadline: settings.node_deadline_max,
            client: Client::new(nodes.clone(), settings, Box::new(rand::rng())),
            commands,
            dropped,
            addresses: nodes.iter().map(|_| Addresses::default()).collect(),
            nodes,
            connectors,
            tls,
            dialled,
            dialling,
            sockets: Vec::new(),
            replies: HashMap::new(),
            leases: HashMap::new(),
            actions: Vec::new(),
            sleep: Box::pin(sleep(Duration::ZERO)),
            asleep_until: None,
            due_at: None,
            unread_passes: 0,
        }
    }

    /// Does what there is to do, in so many passes at most; ready when nothing will be to do any more. A client that has more
    /// to do wakes itself. Its runtime looks at the sockets before it is polled again.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        equipment: &mut Equipment,
        passes: usize,
    ) -> Poll<()> {
        // The runtime has looked at the sockets just before: what it has not seen by then is late.
        if let Some(due_at) = self.due_at {
            self.tell_time(context, &mut equipment.buffer, due_at);
        }
        for _ in 0..passes {
            let commands = self.take_commands(context);
            self.take_dialled(context);
            let is_read = self.read_all(context, &mut equipment.buffer);
            self.act(&mut equipment.log);
            let is_written = self.write_all(context);
            let is_closed = commands == Commands::Closed;
            if is_closed && self.client.is_idle(self.clock.now()) {
                return Poll::Ready(());
            }
            let is_done = is_read && is_written && commands != Commands::More;
            let is_asleep = self.is_asleep(context, is_closed);
            if self.due_at.is_some() {
                break;
            }
            if is_done && is_asleep {
                return Poll::Pending;
            }
        }
        // However much is due: the runtime looks at the sockets in between.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Tells the rules that this time has come, once everything was read that had arrived by then. A node that never stops
    /// talking does not keep the time from them.
    fn tell_time(&mut self, context: &mut Context<'_>, buffer: &mut [u8], due_at: ClientInstant) {
        let is_read = self.read_all(context, buffer);
        self.unread_passes += usize::from(!is_read);
        if is_read || self.unread_passes >= UNREAD_PASSES_MAX {
            self.client.handle(due_at, Event::Timer, &mut self.actions);
            self.due_at = None;
            self.unread_passes = 0;
        }
    }

    fn take_commands(&mut self, context: &mut Context<'_>) -> Commands {
        for _ in 0..COMMANDS_PER_PASS {
            let command = match self.commands.poll_recv(context) {
                Poll::Ready(Some(command)) => command,
                Poll::Ready(None) => return Commands::Closed,
                Poll::Pending => return Commands::NoneNow,
            };
            let event = match command {
                ClientCommand::Call(operation, call, reply) => {
                    match &call {
                        Call::Detach { held } => drop(self.leases.remove(held)),
                        Call::ListenTo { .. } => {}
                        _ => drop(self.replies.insert(operation, reply)),
                    }
                    Event::Call(operation, call)
                }
                ClientCommand::Gone(operation) => {
                    self.replies.remove(&operation);
                    Event::Gone(operation)
                }
            };
            // Read before anything is sent: what the nodes grant begins later.
            self.client
                .handle(self.clock.now(), event, &mut self.actions);
        }
        Commands::More
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

    /// Says whether nothing is left to read.
    fn read_all(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> bool {
        let (mut place, mut reads, mut is_read) = (0, 0, true);
        while place < self.sockets.len() {
            if reads == READS_PER_PASS {
                (place, reads, is_read) = (place + 1, 0, false);
                continue;
            }
            let socket = &mut self.sockets[place];
            let id = socket.id;
            let event = match socket.poll_read(context, buffer) {
                Poll::Pending => {
                    (place, reads) = (place + 1, 0);
                    continue;
                }
                Poll::Ready(Ok(0)) => Event::Closed(id, Cause::Unreachable(ended().into())),
                Poll::Ready(Ok(bytes)) => Event::Received(id, &buffer[..bytes]),
                Poll::Ready(Err(error)) => Event::Closed(id, broken("reading", error)),
            };
            reads += 1;
            if matches!(event, Event::Closed(..)) {
                self.sockets.swap_remove(place).closed();
                reads = 0;
            }
            // Read after the bytes were.
            let now = self.clock.now();
            self.client.handle(now, event, &mut self.actions);
        }
        is_read
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
            let cause = broken("writing", error);
            let now = self.clock.now();
            self.client
                .handle(now, Event::Closed(id, cause), &mut self.actions);
        }
        is_done
    }

    /// Sleeps towards the next deadline. Says no if it has come, which is told once the sockets were read.
    fn is_asleep(&mut self, context: &mut Context<'_>, is_closed: bool) -> bool {
        loop {
            let next = self.client.next_time();
            if self.clock.sleep_towards(next, context.waker()) {
                // Read after the waker was handed over: a later move wakes this thread.
                let now = self.clock.now();
                self.due_at = next
                    .is_some_and(|next| now.has_reached(next))
                    .then_some(now);
                self.asleep_until = None;
                return self.due_at.is_none();
            }
            if next.is_none() && !is_closed {
                self.asleep_until = None;
                return true;
            }
            if next.is_none() || next != self.asleep_until || self.sleep.is_elapsed() {
                let now = self.clock.now();
                let left = next.map_or(Duration::MAX, |next| now.until(next));
                if left.is_zero() {
                    self.due_at = Some(now);
                    return false;
                }
                let longest = if is_closed {
                    END_CHECK_EVERY
                } else {
                    Duration::MAX
                };
                let pause = slice(left).min(longest);
                self.sleep.as_mut().reset(Instant::now() + pause);
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

    fn act(&mut self, log: &mut Log) {
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Open(id) => self.open(id),
                Action::Close(id) => self.sockets.retain(|socket| socket.id != id),
                Action::LimitUnacknowledged(id, limit) => {
                    let mut sockets = self.sockets.iter();
                    if let Some(socket) = sockets.find(|socket| socket.id == id)
                        && let Err(error) = socket.limit_unacknowledged(limit)
                    {
                        let node = self.client.label(id.node);
                        let news = News::NotLimited(error.into());
                        log.write(LogLine { node, news });
                    }
                }
                Action::Log(line) => log.write(line),
                Action::Tell(operation, outcome) => self.tell(operation, outcome),
                Action::Waiting(operation, waiting) => {
                    if let Some(ReplyTo::Acquire(_, Some(news))) = self.replies.get(&operation) {
                        news.send_replace(Some(waiting));
                    }
                }
                Action::Observed(operation, observed) => {
                    if let Some(ReplyTo::Observe(news)) = self.replies.get(&operation) {
                        news.send_replace(Some(observed));
                    }
                }
                Action::Watched(operation, holder) => {
                    if let Some(ReplyTo::Watch(report)) = self.replies.get(&operation) {
                        (report.0)(holder);
                    }
                }
                Action::Heard(operation, heard) => {
                    if let Some(ReplyTo::Listen(report)) = self.replies.get(&operation) {
                        (report.0)(heard);
                    }
                }
                Action::Renewed { held, valid_until } => {
                    if let Some(lease) = self.leases.get(&held) {
                        lease.send_modify(|state| {
                            debug_assert!(
                                state.valid_until.earlier(valid_until) == state.valid_until,
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
        let node = self.nodes[id.node].clone();
        let connector = self.connectors[id.node].clone();
        let tls = self.tls[id.node].clone();
        let addresses = self.addresses[id.node].clone();
        let known = addresses.clone();
        let (done, deadline) = (self.dialling.clone(), self.connect_deadline);
        let task = spawn_local(async move {
            let result = dial(node, connector, tls, known, deadline).await;
            // The client may have ended.
            let _ended = done.send(Dialled { id, result });
        });
        self.sockets
            .push(ClientSocket::dialling(id, task.abort_handle(), addresses));
    }

    /// Tells a caller; one that has stopped waiting needs no answer.
    fn tell(&mut self, operation: OperationId, outcome: Outcome) {
        let Some(reply) = self.replies.remove(&operation) else {
            if matches!(outcome, Outcome::Released(_) | Outcome::Settled) {
                self.dropped.undone(operation.undone());
            }
            return;
        };
        if let ReplyTo::Whole(told) = reply {
            return (told.0)(outcome);
        }
        match (outcome, reply) {
            (
                Outcome::Acquired {
                    token,
                    valid_until,
                    fence,
                    permit,
                },
                ReplyTo::Acquire(reply, _),
            ) => {
                let (lease, watched) = watch::channel(LeaseState {
                    valid_until,
                    is_renewal_failing: false,
                    loss: None,
                });
                self.leases.insert(operation, lease);
                let acquired = Acquired {
                    token,
                    fence,
                    lease: watched,
                    permit,
                };
                let _gone = reply.send(Ok(acquired));
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
            (Outcome::FencesSynced(nodes), ReplyTo::SyncFences(reply)) => {
                let _gone = reply.send(nodes);
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

/// Nobody waits for a client that has ended, for whatever reason.
impl Drop for ClientIo {
    fn drop(&mut self) {
        self.dropped.all_undone();
    }
}

fn ended() -> io::Error {
    let text = "the node closed the connection";
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

const COMMANDS_PER_PASS: usize = 128;
/// Of each socket.
const READS_PER_PASS: usize = 4;
const UNREAD_PASSES_MAX: usize = 16;
const READ_BYTES: usize = 64 * 1024;
const END_CHECK_EVERY: Duration = Duration::from_millis(50);
