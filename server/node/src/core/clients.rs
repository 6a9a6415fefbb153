//! Who is connected: what CLIENT LIST, CLIENT INFO and INFO say about it.

mod introduction;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use quorlock_engine::channels::Subscriber;
use quorlock_engine::{ClientDescription, NodeTime, RawTime, WatchedKey};

pub use crate::core::address::{Address, Endpoints};
pub(crate) use crate::core::clients::introduction::{Introduction, Listening, TrackingShown};
use crate::core::departed::Departed;
use crate::sync::Notify;

/// One connected client.
#[derive(Debug)]
pub struct Client {
    /// The number that CLIENT ID shows.
    pub id: u64,
    pub(crate) address: Address,
    /// The node's end of the connection.
    pub(crate) local: Address,
    connected_raw: RawTime,
    active_raw_ns: AtomicU64,
    /// The worker that serves it, and its number there once it does.
    pub worker: usize,
    connection: AtomicUsize,
    /// What stayed in its buffers after the last iteration of its worker's event loop.
    input_bytes: AtomicUsize,
    output_bytes: AtomicUsize,
    /// What of the first are bytes of requests, and what of their buffer is free.
    query_bytes: AtomicUsize,
    query_free_bytes: AtomicUsize,
    is_spared: AtomicBool,
    /// It has tracked, or another client has had it told in its place (CLIENT TRACKING REDIRECT).
    may_be_told: AtomicBool,
    is_killed: AtomicBool,
    /// It has sent a write.
    may_hold_locks: AtomicBool,
    waiting: AtomicU8,
    /// It is among the clients that INFO shows as blocked.
    counts_as_blocked: AtomicBool,
    introduction: Mutex<Introduction>,
    watched: Mutex<Vec<WatchedKey>>,
}

/// What a client waits for with a request that has no reply yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitState {
    /// For nothing.
    None,
    /// For the end of a pause.
    Paused,
    /// For something with a reply of its own when time is up, or when somebody ends it.
    Blocked,
    /// For an element of a key, until it is off the engine's list.
    Element,
    /// For its worker: it was served, or somebody has ended its wait, and the worker has not answered yet.
    Unblocked,
}

impl Client {
    /// What the client says about itself, to read or change.
    pub(crate) fn introduction(&self) -> MutexGuard<'_, Introduction> {
        self.introduction
            .lock()
            .expect("no holder of an introduction can panic")
    }

    /// The keys that it watches, which are to be given back to the engine.
    pub(crate) fn watched(&self) -> MutexGuard<'_, Vec<WatchedKey>> {
        self.watched
            .lock()
            .expect("no holder of watched keys can panic")
    }

    /// Whether a key that it watches has changed, so that EXEC will fail.
    pub(crate) fn is_dirty(&self, now: NodeTime) -> bool {
        self.watched().iter().any(|one| one.has_changed(now))
    }

    /// When it connected.
    pub(crate) fn connected_raw(&self) -> RawTime {
        self.connected_raw
    }

    /// Its number at its worker; a number that no connection has before it is served.
    pub(crate) fn connection(&self) -> usize {
        self.connection.load(Ordering::Relaxed)
    }

    /// Whether it is part of the program that the node is in, which may do what it likes.
    pub(crate) fn is_in_process(&self) -> bool {
        matches!(self.address, Address::InProcess)
    }

    /// Where messages for it go.
    pub(crate) fn listener(&self) -> Subscriber {
        Subscriber {
            worker: self.worker,
            connection: self.connection(),
            client: self.id,
        }
    }

    pub(crate) fn note_connection(&self, connection: usize) {
        self.connection.store(connection, Ordering::Relaxed);
    }

    /// Notes what stays in its buffers.
    pub(crate) fn note_buffers(&self, input_bytes: usize, output_bytes: usize) {
        self.input_bytes.store(input_bytes, Ordering::Relaxed);
        self.output_bytes.store(output_bytes, Ordering::Relaxed);
    }

    /// Notes how many bytes of requests stay, and how many more their buffer takes.
    pub(crate) fn note_query(&self, (bytes, free_bytes): (usize, usize)) {
        self.query_bytes.store(bytes, Ordering::Relaxed);
        self.query_free_bytes.store(free_bytes, Ordering::Relaxed);
    }

    /// The same to be shown.
    pub(crate) fn query(&self) -> (usize, usize) {
        let bytes = self.query_bytes.load(Ordering::Relaxed);
        (bytes, self.query_free_bytes.load(Ordering::Relaxed))
    }

    /// Whether it may be told of changes of keys: also once it tracks no more, of what it has changed before that.
    pub(crate) fn may_be_told(&self) -> bool {
        self.may_be_told.load(Ordering::SeqCst)
    }

    /// Notes that from now on. To be called before it tracks, or another client in its place, so that no change comes
    /// between.
    pub(crate) fn note_may_be_told(&self) {
        self.may_be_told.store(true, Ordering::SeqCst);
    }

    /// CLIENT NO-EVICT: whether it goes after all others when clients hold too much.
    pub(crate) fn is_spared(&self) -> bool {
        self.is_spared.load(Ordering::Relaxed)
    }

    pub(crate) fn spare(&self, is_spared: bool) {
        self.is_spared.store(is_spared, Ordering::Relaxed);
    }

    /// Notes that it has sent a write: a lock of its own may outlive it.
    #[inline]
    pub(crate) fn note_may_hold_locks(&self) {
        if !self.may_hold_locks.load(Ordering::Relaxed) {
            self.may_hold_locks.store(true, Ordering::Relaxed);
        }
    }

    /// What LOCK.INFO says of it.
    fn description(&self) -> ClientDescription {
        let introduction = self.introduction();
        ClientDescription {
            name: introduction.name.clone(),
            address: self.address.to_string(),
            library_name: introduction.library_name.clone(),
            library_version: introduction.library_version.clone(),
            is_connected: true,
        }
    }

    /// Who it is, for people: its name, its address and its library.
    pub(crate) fn caller(&self) -> String {
        let introduction = self.introduction();
        let mut caller = introduction.name.clone();
        let space = if caller.is_empty() { "" } else { " " };
        let _ = write!(caller, "{space}{}", self.address);
        if !introduction.library_name.is_empty() {
            let _ = write!(caller, " ({})", introduction.library_name);
        }
        caller
    }

    /// Notes that somebody wants it closed: it executes nothing from now on, and a worker that does not serve it yet will
    /// close it. To be called while the engine is locked, so that none of its requests is under way.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    /// Adds it to the blocked clients, once.
    pub(crate) fn count_as_blocked(&self, blocked: &AtomicUsize) {
        if !self.counts_as_blocked.swap(true, Ordering::SeqCst) {
            blocked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes it out of them, once.
    pub(crate) fn discount_as_blocked(&self, blocked: &AtomicUsize) {
        if self.counts_as_blocked.swap(false, Ordering::SeqCst) {
            blocked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Notes what it waits for, if for anything.
    pub(crate) fn note_waiting(&self, waiting: WaitState) {
        self.waiting.store(waiting as u8, Ordering::SeqCst);
    }

    /// Takes the end of a wait: only one of those who would end it may.
    pub(crate) fn claim_wait(&self, then: WaitState) -> bool {
        let (blocked, then) = (WaitState::Blocked as u8, then as u8);
        self.waiting
            .compare_exchange(blocked, then, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// When the client last sent something.
    pub(crate) fn active_raw(&self) -> RawTime {
        RawTime::from_nanos(self.active_raw_ns.load(Ordering::Relaxed))
    }

    /// Notes that the client sent something.
    pub(crate) fn touch(&self, now_raw: RawTime) {
        self.active_raw_ns
            .store(now_raw.as_nanos(), Ordering::Relaxed);
    }

    /// The line CLIENT LIST prints for it, without a line end. `query`: what it has of requests.
    pub(crate) fn line(&self, now: NodeTime, now_raw: RawTime, query: (usize, usize)) -> String {
        let (query_bytes, query_free_bytes) = query;
        let introduction = self.introduction().clone();
        let seconds_since = |then_raw: RawTime| now_raw.nanos_since(then_raw) / 1_000_000_000;
        let input_bytes = self.input_bytes.load(Ordering::Relaxed);
        let output_bytes = self.output_bytes.load(Ordering::Relaxed);
        let queued_bytes = introduction.queued_bytes;
        let total_bytes = CLIENT_BYTES + input_bytes + output_bytes;
        let multi = introduction
            .queued
            .map_or("-1".to_owned(), |queued| queued.to_string());
        let Listening {
            channels,
            patterns,
            shards,
        } = introduction.listening;
        let waiting = self.waiting.load(Ordering::SeqCst);
        let is_unblocked = waiting == WaitState::Unblocked as u8;
        let tracking = introduction.tracking;
        let flags = [
            ('O', introduction.is_monitor),
            ('P', introduction.listening.is_any()),
            ('x', introduction.queued.is_some()),
            ('b', waiting != WaitState::None as u8 && !is_unblocked),
            ('t', tracking.is_on),
            ('R', tracking.is_broken),
            ('B', tracking.broadcasts),
            ('d', self.is_dirty(now)),
            ('u', is_unblocked),
            ('U', matches!(self.address, Address::Unix(_))),
            ('e', self.is_spared()),
            ('T', introduction.is_untouching),
        ];
        let flags = flags.iter().filter(|(_, is_set)| *is_set);
        let mut flags: String = flags.map(|(letter, _)| *letter).collect();
        if flags.is_empty() {
            flags.push('N');
        }
        let command = match introduction.last_command {
            ("", _) => "NULL".to_owned(),
            (command, "") => command.to_owned(),
            (command, part) => format!("{command}|{part}"),
        };
        let mut line = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={channels} psub={patterns} \
             ssub={shards} multi={multi} qbuf={query_bytes} qbuf-free={query_free_bytes} argv-mem=0 multi-mem={queued_bytes} rbs=0 rbp=0 obl=0 \
             oll={} omem={output_bytes} tot-mem={total_bytes} events=r cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local,
            introduction.name,
            seconds_since(self.connected_raw),
            seconds_since(self.active_raw()),
            introduction.database,
            u8::from(output_bytes > 0),
            command,
            String::from_utf8_lossy(introduction.user_name()),
            tracking.redirection(),
            if introduction.is_resp3 { 3 } else { 2 },
            introduction.library_name,
            introduction.library_version,
        );
        line
    }
}

/// All connected clients.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Those of them that have not sent the password, where there is one.
    unauthenticated: Mutex<BTreeMap<u64, Arc<Client>>>,
    departed: Mutex<Departed>,
    last_id: AtomicU64,
    count: AtomicUsize,
    /// Those of them that have a socket.
    sockets: Arc<AtomicUsize>,
    /// What stays in the buffers of all of them, without what they share.
    pub(crate) buffer_bytes: AtomicUsize,
    /// Messages that are on their way to any number of them.
    pub(crate) shared_bytes: Arc<AtomicUsize>,
    /// What of that is only being freed, and may have been counted for several.
    pub(crate) discarded_bytes: AtomicUsize,
    /// Notified when a worker was asked to make room for another connection, and has or could not.
    pub room: Notify,
}

impl Clients {
    /// A new client; ids count up from 1 and are never reused.
    pub fn add(&self, addresses: Endpoints, now_raw: RawTime, worker: usize) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            address: addresses.client,
            local: addresses.node,
            connected_raw: now_raw,
            active_raw_ns: AtomicU64::new(now_raw.as_nanos()),
            worker,
            connection: AtomicUsize::new(usize::MAX),
            input_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            query_bytes: AtomicUsize::new(0),
            query_free_bytes: AtomicUsize::new(0),
            is_spared: AtomicBool::new(false),
            may_be_told: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            may_hold_locks: AtomicBool::new(false),
            waiting: AtomicU8::new(WaitState::None as u8),
            counts_as_blocked: AtomicBool::new(false),
            introduction: Mutex::new(Introduction::default()),
            watched: Mutex::default(),
        });
        lock(&self.by_id).insert(client.id, Arc::clone(&client));
        self.count.fetch_add(1, Ordering::Relaxed);
        if !client.is_in_process() {
            self.sockets.fetch_add(1, Ordering::Relaxed);
        }
        client
    }

    /// It is shown no more. False if it was not.
    pub fn remove(&self, id: u64) -> bool {
        let mut by_id = lock(&self.by_id);
        let removed = by_id.remove(&id);
        // Within the lock: whoever does not find it there any more finds it among the departed.
        removed.iter().for_each(|client| self.note_departed(client));
        drop(by_id);
        if let Some(client) = &removed {
            self.count.fetch_sub(1, Ordering::Relaxed);
            if !client.is_in_process() {
                self.sockets.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.note_authenticated(id);
        removed.is_some()
    }

    fn note_departed(&self, client: &Client) {
        if client.may_hold_locks.load(Ordering::Relaxed) {
            let description = ClientDescription {
                is_connected: false,
                ..client.description()
            };
            lock(&self.departed).add(client.id, description);
        }
    }

    /// What LOCK.INFO says of a client, also of one that has gone, as long as that is remembered.
    pub(crate) fn describe(&self, id: u64) -> Option<ClientDescription> {
        let client = lock(&self.by_id).get(&id).cloned();
        let connected = client.map(|client| client.description());
        connected.or_else(|| lock(&self.departed).of(id))
    }

    /// Notes a client that has to send the password.
    pub fn note_unauthenticated(&self, client: &Arc<Client>) {
        lock(&self.unauthenticated).insert(client.id, Arc::clone(client));
    }

    /// Notes that it has.
    pub(crate) fn note_authenticated(&self, id: u64) {
        lock(&self.unauthenticated).remove(&id);
    }

    /// The one that connected first of those that have not sent the password.
    pub fn oldest_unauthenticated(&self) -> Option<Arc<Client>> {
        let clients = lock(&self.unauthenticated);
        clients
            .first_key_value()
            .map(|(_, client)| Arc::clone(client))
    }

    pub(crate) fn unauthenticated_count(&self) -> usize {
        lock(&self.unauthenticated).len()
    }

    /// What all of them cost, in their buffers and beside them.
    pub(crate) fn memory(&self) -> usize {
        let shared = self.shared_bytes.load(Ordering::Relaxed);
        self.buffer_bytes.load(Ordering::Relaxed) + shared + self.count() * CLIENT_BYTES
    }

    /// What they cost in their buffers, without what is being freed.
    pub(crate) fn held_bytes(&self) -> usize {
        let discarded = self.discarded_bytes.load(Ordering::Relaxed);
        let shared = self.shared_bytes.load(Ordering::Relaxed);
        self.buffer_bytes.load(Ordering::Relaxed) + shared.saturating_sub(discarded)
    }

    /// How many are connected.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// How many of them have a socket, where that is counted.
    pub fn sockets(&self) -> &Arc<AtomicUsize> {
        &self.sockets
    }

    /// How many clients ever connected.
    pub(crate) fn total(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// All clients, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        lock(&self.by_id).values().cloned().collect()
    }

    /// Those of these, in their order, that are connected.
    pub(crate) fn with_ids_in(&self, ids: &[u64]) -> Vec<Arc<Client>> {
        let by_id = lock(&self.by_id);
        ids.iter().filter_map(|id| by_id.get(id).cloned()).collect()
    }
}

fn lock<T>(clients: &Mutex<T>) -> MutexGuard<'_, T> {
    clients
        .lock()
        .expect("no holder of the client list can panic")
}

/// What a connection costs beside its buffers: its state and its entries in lists, rounded up.
pub(crate) const CLIENT_BYTES: usize = 2 * 1024;
