//! Between the node that has the connections, the rules of the agent, and the client that asks the nodes.
//!
//! Requests come on the threads of the node, outcomes on that of the client. Both go on right there: a request that the rules
//! answer at once, or turn into one call, wakes no further thread.
//!
//! Invariant: what the rules want done is done in their order, under the lock. Replies are sent behind it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;

use bytes::Bytes;
use quorlock_agent_rules::{
    Action, Agent, Commands, Event, Expiring, RequestId, Step, waits_for_lock,
};
use quorlock_client::{Hearing, LockWatch, Redlock};
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::Call;
use quorlock_client_rules::channels::Topic;
use quorlock_client_rules::name::LockName;
use quorlock_client_rules::owner_text;
use quorlock_clock::ClientInstant;
use quorlock_engine::{Caller, Reply};
use quorlock_server::{
    PendingAnswer, Publish, Upstream, UpstreamCaller, UpstreamReport, UpstreamRequest,
    UpstreamSubscription,
};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::monitor::{About, Monitor};
use crate::options::Options;

/// The upstream of an agent's node.
pub(crate) struct Bridge {
    shared: Arc<Shared>,
    /// Requests may be held back, and are of no use then to a client that has gone.
    holds_back: bool,
}

struct Shared {
    redlock: Redlock,
    /// What this machine is called.
    host: String,
    monitor: Arc<Monitor>,
    state: Mutex<State>,
    /// The way to callers who listen, and who uses it: one at a time, so that messages keep their order. It is taken before the state.
    publish: OnceLock<Publish>,
    handing_out: Mutex<()>,
    /// The thread that tells the rules the time.
    timer: thread::Thread,
}

struct State {
    agent: Agent,
    /// Requests without a reply, each with the last call that was made for it.
    requests: HashMap<RequestId, Pending>,
    /// Callers who wait until they listen to something.
    subscribing: HashMap<RequestId, PendingAnswer>,
    watches: HashMap<Bytes, LockWatch>,
    /// What listens on the nodes, once a caller has listened to something.
    hearing: Option<Hearing>,
    /// Those that wait no longer.
    answers: Vec<(PendingAnswer, Reply)>,
    /// Messages on their way to callers, in their order.
    messages: VecDeque<(Bytes, Bytes)>,
    count: u64,
    /// When the timer's thread comes by itself.
    wakes_at: Option<ClientInstant>,
}

struct Pending {
    answer: PendingAnswer,
    about: About,
    /// Who its client is, for people.
    caller: UpstreamCaller,
    /// What its last call has come to.
    step: Option<Step>,
    operation: Option<OperationId>,
}

/// Requests that are over, each with its reply; none where its client has gone.
type Replies = Vec<(Pending, Option<Reply>, Option<Expiring>)>;

/// A lock whose caller has not got it yet. Dropped with it, it is released.
struct Granted {
    shared: Arc<Shared>,
    undo: Option<Call>,
}

impl Bridge {
    pub(crate) fn new(redlock: Redlock, options: &Options) -> Self {
        let random = Box::new(StdRng::from_rng(&mut rand::rng()));
        let agent = Agent::new(redlock.drift(), random)
            .holding_back(options.hold_back)
            .of_nodes(redlock.nodes().to_vec(), redlock.quorum());
        let agent = match options.releases_on_disconnect {
            true => agent.with_sessions(),
            false => agent,
        };
        let (sender, receiver) = std::sync::mpsc::channel::<Weak<Shared>>();
        let timer = thread::Builder::new().name("quorlock-agent".to_owned());
        let timer = timer.spawn(move || {
            if let Ok(shared) = receiver.recv() {
                keep_time(&shared);
            }
        });
        let timer = timer
            .expect("the process can start a thread")
            .thread()
            .clone();
        let shared = Arc::new(Shared {
            monitor: Monitor::begin(redlock.clone()),
            redlock,
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            publish: OnceLock::new(),
            handing_out: Mutex::new(()),
            state: Mutex::new(State {
                agent,
                requests: HashMap::new(),
                subscribing: HashMap::new(),
                watches: HashMap::new(),
                hearing: None,
                answers: Vec::new(),
                messages: VecDeque::new(),
                count: 0,
                wakes_at: None,
            }),
            timer,
        });
        let _ended = sender.send(Arc::downgrade(&shared));
        Self {
            shared,
            holds_back: !options.hold_back.is_zero(),
        }
    }
}

impl Upstream for Bridge {
    fn execute(&self, request: UpstreamRequest) -> bool {
        let caller = Caller {
            database: request.database,
            client_id: request.client,
            ..Caller::default()
        };
        let mut words = request.commands.first().into_iter().flatten().cloned();
        let command = words.next().unwrap_or_default();
        let is_set = command.eq_ignore_ascii_case(b"set");
        let names = words.next().filter(|_| is_set).map(LockName::from);
        let since = self.shared.redlock.now();
        let waits = self.holds_back || waits_for_lock(&request.commands);
        let commands = Commands {
            all: request.commands,
            is_transaction: request.is_transaction,
            script_guard: request.script_guard,
        };
        self.shared.monitor.request();
        let mut state = self.shared.lock();
        let is_in_session = state.agent.is_in_session(request.client);
        state.count += 1;
        let id = RequestId(state.count);
        let about = About {
            command,
            names,
            own: None,
            since,
        };
        let pending = Pending {
            answer: request.answer,
            about,
            caller: request.caller,
            step: None,
            operation: None,
        };
        state.requests.insert(id, pending);
        self.shared
            .happens(state, Event::Request(id, caller, commands));
        waits || is_in_session
    }

    fn count_locks_by(&self, patterns: &[String]) {
        self.shared.monitor.count_locks_by(patterns);
    }

    fn begin(&self, publish: Publish) {
        // A second one would be another node's.
        let _ = self.shared.publish.set(publish);
    }

    fn listen(&self, subscription: UpstreamSubscription) {
        let UpstreamSubscription {
            client,
            is_pattern,
            names,
            answer,
        } = subscription;
        let topics = topics(is_pattern, names);
        let mut state = self.shared.lock();
        state.count += 1;
        let id = RequestId(state.count);
        state.subscribing.insert(id, answer);
        self.shared
            .happens(state, Event::Listen(id, client, topics));
    }

    fn unlisten(&self, client: u64, is_pattern: bool, names: Vec<Bytes>) {
        let event = Event::Unlisten(client, topics(is_pattern, names));
        self.shared.happens(self.shared.lock(), event);
    }

    fn report(&self) -> UpstreamReport {
        let under_way = self.shared.lock().requests.len();
        self.shared.monitor.report(under_way)
    }

    fn left(&self, client: u64) {
        self.shared.happens(self.shared.lock(), Event::Left(client));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under it has ended the node, or the client.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happens, and what follows from it is done.
    fn happens(self: &Arc<Self>, mut state: MutexGuard<'_, State>, event: Event) {
        let (mut actions, mut replies) = (Vec::new(), Replies::new());
        let now = self.redlock.now();
        let wall_us = self.redlock.wall_us();
        state.agent.handle(now, wall_us, event, &mut actions);
        for action in actions {
            self.carry_out(&mut state, action, &mut replies);
        }
        let next = state.agent.next_time();
        let is_sooner = next.is_some() && next != state.wakes_at;
        state.wakes_at = next;
        let has_messages = !state.messages.is_empty();
        let answers = std::mem::take(&mut state.answers);
        drop(state);
        if is_sooner {
            self.timer.unpark();
        }
        for (answer, reply) in answers {
            answer.send(reply);
        }
        if has_messages {
            self.hand_out();
        }
        for (pending, reply, expiring) in replies {
            let Pending {
                answer,
                about,
                step,
                ..
            } = pending;
            let Some(reply) = reply else {
                continue;
            };
            match expiring {
                None => {
                    self.monitor.reply(&about, now, step, &reply);
                    answer.send(reply);
                }
                Some(mut expiring) => {
                    let (shared, undo) = (Arc::clone(self), expiring.undo.take());
                    let granted = Granted { shared, undo };
                    answer.send_made(move || {
                        let shared = Arc::clone(&granted.shared);
                        let now = shared.redlock.now();
                        let reply = match expiring.is_over(now) {
                            true => expiring.instead,
                            false => {
                                granted.keep();
                                reply
                            }
                        };
                        shared.monitor.reply(&about, now, step, &reply);
                        reply
                    });
                }
            }
        }
    }

    /// Sends what there is for callers who listen. No lock is held that a caller's thread may wait for while it has the node's.
    fn hand_out(&self) {
        let Some(publish) = self.publish.get() else {
            return;
        };
        let _one = (self.handing_out.lock()).unwrap_or_else(PoisonError::into_inner);
        loop {
            let messages = std::mem::take(&mut self.lock().messages);
            if messages.is_empty() {
                return;
            }
            for (channel, payload) in messages {
                publish.send(&channel, &payload);
            }
        }
    }

    fn listen_to(self: &Arc<Self>, state: &mut State, add: Vec<Topic>, remove: Vec<Topic>) {
        let shared = Arc::downgrade(self);
        let hearing = state.hearing.get_or_insert_with(|| {
            self.redlock.listen(move |heard| {
                if let Some(shared) = shared.upgrade() {
                    shared.happens(shared.lock(), Event::Heard(heard));
                }
            })
        });
        hearing.listen_to(add, remove);
    }

    fn watch(self: &Arc<Self>, state: &mut State, name: Bytes) {
        let (shared, watched) = (Arc::downgrade(self), name.clone());
        let watch = self.redlock.watch(name.clone(), move |holder| {
            if let Some(shared) = shared.upgrade() {
                let event = Event::Watched(watched.clone(), holder);
                shared.happens(shared.lock(), event);
            }
        });
        state.watches.insert(name, watch);
    }

    fn carry_out(self: &Arc<Self>, state: &mut State, action: Action, replies: &mut Replies) {
        match action {
            Action::Ask(id, mut call) => {
                let shared = Arc::downgrade(self);
                let pending = state.requests.get(&id);
                if let (Call::Acquire(call), Some(pending)) = (&mut call, pending) {
                    let text = || format!("{}, agent on {}", pending.caller.shown(), self.host);
                    let text = || Arc::from(owner_text::fitted(&text()));
                    call.text.get_or_insert_with(text);
                }
                let (names, own) = (names_of(&call), own_token(&call));
                let operation = self.redlock.submit(call, move |outcome| {
                    if let Some(shared) = shared.upgrade() {
                        let mut state = shared.lock();
                        if let Some(pending) = state.requests.get_mut(&id) {
                            pending.step = Step::of(&outcome).or(pending.step);
                        }
                        shared.happens(state, Event::Outcome(id, outcome));
                    }
                });
                if let Some(pending) = state.requests.get_mut(&id) {
                    pending.operation = Some(operation);
                    let about = &mut pending.about;
                    about.names = names.or(about.names.take());
                    about.own = own.or(about.own.take());
                }
            }
            Action::HandOver(id) => {
                let pending = state.requests.get(&id);
                if let Some(held) = pending.and_then(|pending| pending.operation) {
                    self.redlock.submit(Call::Detach { held }, drop);
                }
            }
            Action::ListenTo(add, remove) => self.listen_to(state, add, remove),
            Action::Deliver(channel, payload) => state.messages.push_back((channel, payload)),
            Action::Cancel(id) => {
                // Its client has gone.
                state.subscribing.remove(&id);
                if let Some(pending) = state.requests.remove(&id) {
                    if let Some(operation) = pending.operation {
                        self.redlock.cancel(operation);
                    }
                    replies.push((pending, None, None));
                }
            }
            Action::Undo(call) => {
                self.redlock.submit(call, drop);
            }
            Action::Watch(name) => self.watch(state, name),
            Action::Unwatch(name) => {
                state.watches.remove(&name);
            }
            Action::Reply(id, reply) => {
                if let Some(answer) = state.subscribing.remove(&id) {
                    state.answers.push((answer, reply));
                    return;
                }
                if let Some(pending) = state.requests.remove(&id) {
                    replies.push((pending, Some(reply), None));
                }
            }
            Action::ReplyBefore(id, reply, expiring) => {
                if let Some(pending) = state.requests.remove(&id) {
                    replies.push((pending, Some(reply), Some(expiring)));
                }
            }
        }
    }
}

impl Granted {
    /// Its caller gets it.
    fn keep(mut self) {
        self.undo = None;
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let Some(undo) = self.undo.take() else {
            return;
        };
        if let Call::Release { name, .. } = &undo {
            self.shared.lock().agent.forget(name);
        }
        self.shared.redlock.submit(undo, drop);
    }
}

/// The locks that a call takes a step with.
fn names_of(call: &Call) -> Option<LockName> {
    match call {
        Call::Acquire(call) | Call::AcquireTelling(call) => Some(call.name.clone()),
        Call::SetEnd { name, .. } | Call::Release { name, .. } => Some(name.clone()),
        Call::Extend { name, .. } => Some(name.clone().into()),
        _ => None,
    }
}

/// The own token of who takes locks with a call, or releases them.
fn own_token(call: &Call) -> Option<Bytes> {
    match call {
        Call::Acquire(call) | Call::AcquireTelling(call) => call.own_token.clone(),
        Call::Release { token, .. } => Some(Bytes::copy_from_slice(token.without_attempt())),
        _ => None,
    }
}

fn topics(is_pattern: bool, names: Vec<Bytes>) -> Vec<Topic> {
    let topic = |name| Topic { is_pattern, name };
    names.into_iter().map(topic).collect()
}

/// Tells the rules the time when they want to know it, until their agent is gone.
fn keep_time(shared: &Weak<Shared>) {
    while let Some(running) = shared.upgrade() {
        let wait = {
            let mut state = running.lock();
            let now = running.redlock.now();
            state.agent.next_time().map(|at| now.until(at))
        };
        match wait {
            Some(wait) if wait.is_zero() => running.happens(running.lock(), Event::Timer),
            Some(wait) => {
                drop(running);
                thread::park_timeout(wait);
            }
            None => {
                drop(running);
                thread::park();
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.timer.unpark();
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bridge").finish_non_exhaustive()
    }
}
