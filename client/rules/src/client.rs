//! The whole client without threads and sockets: all calls under way, all locks in hand, and the
//! nodes' links.
//!
//! Invariant: the same events at the same times with the same random numbers give the same actions and the
//! same bytes. A call is told its outcome once, and a lock's loss before its validity ends, if the client is called in time.

mod asking;
#[cfg(test)]
mod behind_readers_tests;
#[cfg(test)]
mod busy_tests;
#[cfg(test)]
mod changes_tests;
#[cfg(test)]
mod cluster_for_tests;
#[cfg(test)]
mod delay_tests;
#[cfg(test)]
mod distance_tests;
mod ending;
mod extensions;
#[cfg(test)]
mod fence_tests;
#[cfg(test)]
mod line_tests;
mod listening;
#[cfg(test)]
mod many_permits_tests;
#[cfg(test)]
mod mixed_tests;
#[cfg(test)]
mod observer_tests;
mod observers;
#[cfg(test)]
mod owner_tests;
#[cfg(test)]
mod permit_tests;
#[cfg(test)]
mod reader_churn_tests;
#[cfg(test)]
mod reading_tests;
mod settling;
#[cfg(test)]
mod several_tests;
mod sharing;
#[cfg(test)]
mod syncing_tests;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use rand::Rng;

use self::listening::Listening;
use self::settling::Settling;
use crate::OperationId;
use crate::action::{Action, Event};
use crate::address::NodeAddress;
use crate::call::{Call, Outcome};
use crate::clock::{ClientInstant, Timers};
use crate::context::Context;
use crate::counting::Counting;
use crate::fences::KnownFences;
use crate::lines::Lines;
use crate::link::{ConnectionId, Link, LinkReply, Surroundings};
use crate::observing::Listener;
use crate::operation::{Next, Operation};
use crate::outcome::Release;
use crate::overlaps::Overlaps;
use crate::owners::Owners;
use crate::refusals::Refusals;
use crate::register::Register;
use crate::releasing::WaitsFor;
use crate::settings::Settings;
use crate::step::Input;
use crate::token::Token;
use crate::votes::NodeIndex;
use crate::waiters::Waiters;

pub mod size;
#[cfg(test)]
mod tests;
mod turns;

/// A client.
pub struct Client {
    settings: Settings,
    labels: Arc<[Arc<str>]>,
    links: Vec<Link>,
    register: Register,
    operations: HashMap<OperationId, Operation>,
    timers: Timers<OperationId>,
    /// Of locks that are held: none of them is behind those of callers.
    watchdogs: Timers<OperationId>,
    waiters: Waiters,
    overlaps: Overlaps,
    refusals: Refusals,
    fences: KnownFences,
    lines: Lines,
    observers: Vec<(Bytes, OperationId)>,
    /// How many names nodes may still tell of that are observed no more.
    names_left: usize,
    settling: Vec<Settling>,
    /// Locks that were handed over to their tokens.
    handed_over: HashMap<Token, OperationId>,
    owners: Owners,
    known: VecDeque<LinkReply>,
    counting: Counting,
    random: Box<dyn Rng>,
    listening: Listening,
}

impl Client {
    /// A client of these nodes. No connection is made yet.
    #[must_use]
    pub fn new(addresses: Vec<NodeAddress>, settings: Settings, random: Box<dyn Rng>) -> Self {
        let addresses_of_streams = addresses.clone();
        let links: Vec<Link> = addresses
            .into_iter()
            .enumerate()
            .map(|(index, address)| Link::new(index, address, &settings))
            .collect();
        let register = Register::new(links.len(), settings.cluster_id.clone());
        let labels: Arc<[Arc<str>]> = links.iter().map(|link| Arc::clone(&link.label)).collect();
        Self {
            listening: Listening::new(&addresses_of_streams, &settings),
            counting: Counting::of(&labels),
            labels,
            settings,
            links,
            register,
            operations: HashMap::new(),
            timers: Timers::new(),
            watchdogs: Timers::new(),
            waiters: Waiters::new(),
            overlaps: Overlaps::default(),
            refusals: Refusals::default(),
            fences: KnownFences::default(),
            lines: Lines::default(),
            observers: Vec::new(),
            names_left: 0,
            settling: Vec::new(),
            handed_over: HashMap::new(),
            owners: Owners::default(),
            known: VecDeque::new(),
            random,
        }
    }

    /// Takes an event in. `now` must be read after the event happened, and before anything that
    /// follows from it is sent.
    pub fn handle(&mut self, now: ClientInstant, event: Event<'_>, actions: &mut Vec<Action>) {
        // What has arrived is looked at before any deadline: whoever calls tells it before the time, so that a
        // client that was not scheduled for a while finds its answers first.
        let is_time = matches!(event, Event::Timer);
        let told_before = actions.len();
        self.counting.event(&event);
        match event {
            Event::Call(operation, call) => {
                let call = call.behind(&self.settings.prefix);
                if let Some(call) = self.of_lock(operation, call, actions) {
                    self.call(now, operation, call, actions);
                }
            }
            Event::Gone(operation) => self.gone(now, operation, actions),
            event if listening::is_of_stream(&event) => self.of_stream(now, event),
            Event::Connected(id, peer) => {
                if let Some(link) = self.links.get_mut(id.node) {
                    link.connected(id, peer, now);
                }
            }
            Event::Received(id, bytes) => {
                self.with_link(id.node, now, |link, world| link.received(id, bytes, world));
            }
            Event::Closed(id, cause) => {
                self.with_link(id.node, now, |link, world| link.closed(id, &cause, world));
            }
            Event::Timer => {}
        }
        self.settle(now, is_time, actions);
        self.counting.actions(&actions[told_before..]);
        self.tell_guards(told_before, actions);
    }

    /// When [`Event::Timer`] is to be told.
    #[must_use]
    pub fn next_time(&self) -> Option<ClientInstant> {
        let links = self.links.iter().filter_map(Link::next_time);
        let settling = self.settling.iter().map(|settling| settling.until);
        let all = links.chain(settling).chain(self.timers.next());
        let all = all.chain(self.watchdogs.next());
        let all = all.chain(self.waiters.next_time());
        let all = all.chain(self.listening.next_time());
        all.reduce(ClientInstant::earlier)
    }

    /// What is to be sent on a connection; whoever sends it takes it out.
    pub fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        match listening::is_stream(id) {
            true => self.listening.output(id),
            false => self.links.get_mut(id.node)?.output(id),
        }
    }

    /// Whether nothing is under way, held, or owed to a node. What was handed over is nobody's concern here.
    #[must_use]
    pub fn is_idle(&self, now: ClientInstant) -> bool {
        let is_over = |one: &Operation| matches!(one, Operation::Detached { .. });
        self.operations.values().all(is_over) && !self.links.iter().any(|link| link.owes(now))
    }

    /// The address of a node, as it is shown.
    #[must_use]
    pub fn label(&self, node: NodeIndex) -> Arc<str> {
        Arc::clone(&self.labels[node])
    }

    /// Whether a release is owed to a node that can be reached.
    #[must_use]
    pub fn can_pay(&self, now: ClientInstant) -> bool {
        self.links.iter().any(|link| link.can_pay(now))
    }

    fn call(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        call: Call,
        actions: &mut Vec<Action>,
    ) {
        match call {
            Call::Acquire(call) => return self.acquire(now, operation, call, false, actions),
            Call::AcquireTelling(call) => return self.acquire(now, operation, call, true, actions),
            Call::Renew { held } => return self.renew(now, operation, held, actions),
            Call::Detach { held } => return self.detach(held),
            Call::Settle => {
                let until = now.after(self.settings.node_deadline_max);
                self.settling.push(Settling { operation, until });
                return;
            }
            Call::Observe { name } => {
                return self.observe(now, operation, name, Listener::Observer, actions);
            }
            Call::Watch { name } => {
                return self.observe(now, operation, name, Listener::Watch(None), actions);
            }
            Call::Listen => return self.listening.begin(operation),
            Call::ListenTo { add, remove } => return self.listen_to(now, &add, &remove),
            Call::Publish { channel, payload } => {
                self.publish(now, operation, channel, payload, actions);
            }
            Call::List { pattern, cursor } => self.list(now, operation, pattern, cursor, actions),
            Call::Statistics => return actions.push(Action::Tell(operation, self.statistics())),
            Call::Extend { .. } | Call::SetEnd { .. } => self.extend(now, operation, call, actions),
            Call::Read { name } => self.read(now, operation, name, false, actions),
            Call::Look { name } => self.read(now, operation, name, true, actions),
            Call::Release {
                held,
                name,
                token,
                waits_for_all,
                keeps_lost,
                lasts,
            } => {
                let lock = (name, token, lasts);
                let Some(subject) = self.end_for_release(now, held, lock, keeps_lost, actions)
                else {
                    let kept = Release::kept(&self.labels);
                    actions.push(Action::Tell(operation, Outcome::Released(kept)));
                    return;
                };
                let waits_for = match waits_for_all {
                    true => WaitsFor::All,
                    false => WaitsFor::Majority,
                };
                self.release(now, operation, &subject, waits_for, actions);
                return self.pass_on(now, &subject, actions);
            }
            Call::SyncFences { trusts_disks } => {
                self.sync_fences(now, operation, trusts_disks, actions);
            }
            Call::Probe => self.probe(now, operation, actions),
        }
        self.arm(operation);
    }

    /// A lock that is held is its token's from now on.
    fn detach(&mut self, held: OperationId) {
        if let Some(Operation::Held(lock)) = self.operations.get(&held) {
            let (subject, until) = (Rc::clone(&lock.subject), lock.valid_until());
            let tokens = vec![subject.token.clone()];
            self.handed_over.insert(subject.token.clone(), held);
            let detached = Operation::Detached {
                subject,
                tokens,
                until,
            };
            self.operations.insert(held, detached);
            self.arm(held);
        }
    }

    fn statistics(&self) -> Outcome {
        let is_held = |one: &&Operation| matches!(one, Operation::Held(_));
        let held = self.operations.values().filter(is_held).count();
        Outcome::Statistics(self.counting.snapshot(&self.links, held))
    }

    fn input(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        input: Input,
        actions: &mut Vec<Action>,
    ) {
        // A call that has ended swallows what still arrives for it.
        let Some(mut taken) = self.operations.remove(&operation) else {
            return;
        };
        let next = taken.handle(input, &mut self.context(now, operation, actions));
        self.operations.insert(operation, taken);
        self.follow(now, operation, next, actions);
    }

    fn follow(
        &mut self,
        now: ClientInstant,
        operation: OperationId,
        next: Next,
        actions: &mut Vec<Action>,
    ) {
        let before = match next {
            Next::GoesOn => None,
            Next::Becomes(next) => self.operations.insert(operation, next),
            Next::Ended => self.operations.remove(&operation),
        };
        match before {
            Some(Operation::Acquiring(acquiring)) => {
                self.acquired_for_owner(now, operation, &acquiring, actions);
                self.leave_queue(now, &acquiring, operation, actions);
            }
            Some(Operation::Held(lock)) => self.pass_on(now, &lock.subject, actions),
            Some(Operation::Detached { tokens, .. }) => self.forget_handed_over(&tokens),
            _ => {}
        }
        self.arm(operation);
    }

    fn arm(&mut self, operation: OperationId) {
        let armed = self.operations.get(&operation);
        match armed.map(|armed| (armed, armed.next_time())) {
            // What was armed for the call that has acquired it comes first, and is good for this: it costs a lock that is
            // released at once nothing.
            Some((Operation::Held(_) | Operation::Detached { .. }, Some(at)))
                if !self.timers.is_armed(operation) =>
            {
                self.watchdogs.arm(operation, at);
            }
            Some((_, Some(at))) => self.timers.arm(operation, at),
            Some((_, None)) => self.timers.disarm(operation),
            None => self.disarm(operation),
        }
    }

    fn disarm(&mut self, operation: OperationId) {
        self.timers.disarm(operation);
        self.watchdogs.disarm(operation);
    }

    fn with_link(
        &mut self,
        node: usize,
        now: ClientInstant,
        act: impl FnOnce(&mut Link, &mut Surroundings<'_>),
    ) {
        let operations = &self.operations;
        let mut world = Surroundings {
            now,
            register: &mut self.register,
            random: &mut *self.random,
            is_wanted: &|operation| operations.contains_key(&operation),
        };
        if let Some(link) = self.links.get_mut(node) {
            act(link, &mut world);
        }
    }

    fn context<'a>(
        &'a mut self,
        now: ClientInstant,
        operation: OperationId,
        actions: &'a mut Vec<Action>,
    ) -> Context<'a> {
        Context {
            now,
            operation,
            settings: &self.settings,
            labels: &self.labels,
            links: &mut self.links,
            register: &self.register,
            refusals: &mut self.refusals,
            fences: &mut self.fences,
            lines: &mut self.lines,
            random: &mut *self.random,
            actions,
            known: &mut self.known,
            counting: &mut self.counting,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Client")
            .field("nodes", &self.labels)
            .field("operations", &self.operations.len())
            .finish_non_exhaustive()
    }
}
