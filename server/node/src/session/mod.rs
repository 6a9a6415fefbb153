//! What a node remembers of one connection, and the path of one request through it: who may
//! ask, and where its command runs.
//!
//! Commands on keys go to the engine. Commands about the connection and the node are here.

mod about;
mod acl;
mod answered;
mod batch;
#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod book_tests;
mod client;
mod client_kill;
mod client_replies;
mod command_statistics;
mod config;
mod debug;
mod dispatch;
mod executed;
mod execution;
#[cfg(fuzzing)]
pub mod fuzzing;
mod greeting;
pub(crate) mod info;
mod info_constants;
mod info_facts;
mod introspection;
mod latency;
mod latency_graph;
#[cfg(test)]
mod latency_tests;
mod made_once;
mod members;
mod memory;
#[cfg(test)]
mod memory_tests;
mod monitor;
#[cfg(test)]
mod monitor_tests;
mod named_request;
mod node_changes;
mod node_commands;
mod oversized;
mod pending;
mod place;
mod prepared_change;
mod request_keys;
mod rights;
#[cfg(test)]
mod rights_tests;
mod shown;
mod slow_log;
#[cfg(test)]
mod slow_log_tests;
mod subscriptions;
mod syntax;
mod tracking;
mod transaction;
mod upstream;
#[cfg(test)]
mod upstream_tests;
mod waitaof;

use std::sync::Arc;

use bytes::Bytes;
use quorlock_engine::channels::Subscription;
use quorlock_engine::{Caller, Protocol, RawTime, Reply};
use quorlock_persistence::Position;

pub(crate) use batch::Batch;
pub(crate) use config::follow;
pub(crate) use pending::{Condition, Next, Outcome, Pending};

use crate::core::clients::{Client, Listening};
use crate::core::state::NodeState;
use crate::protocol::Limits;
use crate::session::monitor::ScriptCalls;
use crate::session::rights::Rights;
use crate::session::tracking::Tracks;
use crate::session::transaction::Transaction;

/// One connection's state.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    caller: Caller,
    is_authenticated: bool,
    rights: Rights,
    unauthenticated_since: RawTime,
    /// How many bytes of requests are here, this one included, and how many more their buffer takes.
    pub(crate) query: (usize, usize),
    limits: Limits,
    limits_changed: bool,
    /// Of the settings that the limits were taken from.
    settings_version: u64,
    /// With its subcommand.
    last_command: (&'static str, &'static str),
    /// The last position of the log that this connection wrote or was told of.
    position: Position,
    /// What was queued since MULTI.
    transaction: Option<Transaction>,
    /// Memory of the keys that it watches.
    watched_bytes: usize,
    listening: Listening,
    /// It watches all requests.
    is_monitor: bool,
    /// What its scripts have called while there were monitors.
    script_calls: Arc<ScriptCalls>,
    /// What it waits to listen to, and replies that come before the one to that.
    subscribing: Option<(Subscription, Vec<Bytes>)>,
    confirmations: Vec<Reply>,
    /// Memory of the names it listens to.
    listening_bytes: usize,
    /// Memory of the command with which it waits for an element, if it does.
    waiting_bytes: Option<usize>,
    replies: client_replies::ReplyMode,
    /// How often AUTH has failed since the last one that has not.
    failed_logins: u32,
    /// It has published something, and since then not found that little is to be handed out.
    has_published: bool,
    /// An upstream has a request of it that waits, which others can see.
    has_awaited: bool,
    /// How it is told of changes of keys, if it is.
    tracking: Option<Box<Tracks>>,
    /// It was told of them at some time: the engine may remember what it has read.
    has_tracked: bool,
    /// It waited for locks at some time: the engine may have it in their queues, and send it messages.
    has_waited: bool,
}

impl Session {
    /// A new connection: RESP2, database 0, authenticated if there is no password, or if it is of the node's own process.
    pub(crate) fn new(client: Arc<Client>, node: &NodeState) -> Self {
        let mut session = Self {
            caller: Caller {
                client_id: client.id,
                ..Caller::default()
            },
            unauthenticated_since: client.connected_raw(),
            client,
            is_authenticated: false,
            rights: Rights::of_default(&node.access),
            query: (0, 0),
            limits: Limits::UNAUTHENTICATED,
            limits_changed: false,
            settings_version: 0,
            last_command: ("", ""),
            position: Position::ZERO,
            transaction: None,
            watched_bytes: 0,
            listening: Listening::default(),
            is_monitor: false,
            script_calls: Arc::default(),
            subscribing: None,
            confirmations: Vec::new(),
            listening_bytes: 0,
            waiting_bytes: None,
            replies: client_replies::ReplyMode::default(),
            failed_logins: 0,
            has_published: false,
            has_awaited: false,
            tracking: None,
            has_tracked: false,
            has_waited: false,
        };
        if node.access.is_open() || session.client.is_in_process() {
            session.trust(node);
        }
        session
    }

    /// Limits for the requests of this connection, as it stands.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether AUTH changed the limits since the last call.
    pub(crate) fn take_limits_changed(&mut self) -> bool {
        std::mem::take(&mut self.limits_changed)
    }

    /// When it connected, or gave up its password by RESET, if it has not authenticated.
    pub(crate) fn unauthenticated_since(&self) -> Option<RawTime> {
        (!self.is_authenticated).then_some(self.unauthenticated_since)
    }

    /// Whether its requests have the limits of a client that said the password, or needs none.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_authenticated
    }

    /// The number of its client.
    pub(crate) fn client_id(&self) -> u64 {
        self.caller.client_id
    }

    /// The protocol in which this connection wants its replies.
    pub(crate) fn protocol(&self) -> Protocol {
        self.caller.protocol
    }

    fn authenticate(&mut self, node: &NodeState) {
        node.clients.note_authenticated(self.client.id);
        self.trust(node);
    }

    fn trust(&mut self, node: &NodeState) {
        self.is_authenticated = true;
        self.failed_logins = 0;
        self.take_limits(node);
        self.limits_changed = true;
    }

    fn take_limits(&mut self, node: &NodeState) {
        self.settings_version = node.settings.version();
        let config = node.settings.config();
        self.limits =
            Limits::authenticated(config.proto_max_bulk_len, config.client_query_buffer_limit);
    }

    /// Takes over what CONFIG SET has changed about requests; says whether it may have changed anything.
    pub(crate) fn follow_settings(&mut self, node: &NodeState) -> bool {
        let is_new = self.is_authenticated && self.settings_version != node.settings.version();
        if is_new {
            self.take_limits(node);
        }
        is_new
    }

    /// Back to the state of a new connection (RESET), whose transaction, subscriptions and tracking have ended.
    fn reset(&mut self, node: &NodeState, now_raw: RawTime) {
        self.caller = Caller {
            client_id: self.client.id,
            ..Caller::default()
        };
        self.reset_replies();
        let was_authenticated = std::mem::take(&mut self.is_authenticated);
        self.forget_user(&node.access);
        if node.access.is_open() || self.client.is_in_process() {
            self.authenticate(node);
        } else {
            // Who never had authenticated gains no time by this.
            if was_authenticated {
                self.unauthenticated_since = now_raw;
                node.clients.note_unauthenticated(&self.client);
            }
            self.limits = Limits::UNAUTHENTICATED;
            self.limits_changed = true;
        }
        let mut introduction = self.client.introduction();
        introduction.name.clear();
        introduction.database = 0;
        introduction.is_resp3 = false;
        introduction.is_untouching = false;
        drop(introduction);
        self.client.spare(false);
    }

    /// Whether it has waited for locks, so that messages may come at any time.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// The connection goes: what the engine keeps of it goes as well. Not to be called while the engine is locked.
    pub(crate) fn leave(&mut self, node: &NodeState) {
        if self.is_monitor {
            node.monitors.remove(self.client.id);
        }
        let is_kept = self.is_listening() || self.has_tracked || self.has_waited;
        if self.watched_bytes == 0 && self.waiting_bytes.is_none() && !is_kept {
            return;
        }
        // A node whose lock is poisoned stops.
        if let Ok(mut executor) = node.lock() {
            executor.forget_client(&self.client);
            if executor.engine.tracking().has_departed() || executor.take_wake_request() {
                node.signals.activity.notify_all();
            }
        }
    }

    /// It has what it waited for, or waits no longer. `position`: what its answer reveals.
    pub(crate) fn end_wait(&mut self, position: Position) {
        if self.waiting_bytes.take().is_some() && self.has_awaited {
            self.has_awaited = false;
            self.client.introduction().awaited = Vec::new();
        }
        self.position = self.position.max(position);
    }

    /// Memory of what it keeps from request to request: what is queued, watched and listened to.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.transaction_bytes()
            + self.listening_bytes
            + self.waiting_bytes.unwrap_or_default()
            + self.tracking_bytes()
    }

    fn select(&mut self, database: u8) {
        self.caller.database = database;
        self.client.introduction().database = database;
    }

    fn speak(&mut self, protocol: Protocol) {
        self.caller.protocol = protocol;
        self.client.introduction().is_resp3 = protocol == Protocol::Resp3;
    }
}
