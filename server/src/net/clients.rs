//! Who is connected: what CLIENT LIST, CLIENT INFO and INFO say about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// One connected client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) address: SocketAddr,
    local: SocketAddr,
    connected_raw_ns: u64,
    active_raw_ns: AtomicU64,
    introduction: Mutex<Introduction>,
}

/// What a client says about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Introduction {
    pub(crate) name: String,
    pub(crate) library_name: String,
    pub(crate) library_version: String,
    pub(crate) database: u8,
    pub(crate) is_resp3: bool,
    pub(crate) last_command: &'static str,
}

impl Client {
    /// What the client says about itself, to read or change.
    pub(crate) fn introduction(&self) -> MutexGuard<'_, Introduction> {
        self.introduction
            .lock()
            .expect("no holder of an introduction can panic")
    }

    /// Notes that the client sent something.
    pub(crate) fn touch(&self, now_raw_ns: u64) {
        self.active_raw_ns.store(now_raw_ns, Ordering::Relaxed);
    }

    /// How long ago that was.
    pub(crate) fn idle(&self, now_raw_ns: u64) -> Duration {
        let active_raw_ns = self.active_raw_ns.load(Ordering::Relaxed);
        Duration::from_nanos(now_raw_ns.saturating_sub(active_raw_ns))
    }

    /// The line CLIENT LIST prints for it, without a line end.
    pub(crate) fn line(&self, now_raw_ns: u64) -> String {
        let introduction = self.introduction().clone();
        let seconds_since =
            |then_raw_ns: u64| now_raw_ns.saturating_sub(then_raw_ns) / 1_000_000_000;
        let mut line = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags=N db={} sub=0 psub=0 \
             ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 \
             omem=0 tot-mem=0 events=r cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local,
            introduction.name,
            seconds_since(self.connected_raw_ns),
            seconds_since(self.active_raw_ns.load(Ordering::Relaxed)),
            introduction.database,
            if introduction.last_command.is_empty() {
                "NULL"
            } else {
                introduction.last_command
            },
            if introduction.is_resp3 { 3 } else { 2 },
            introduction.library_name,
            introduction.library_version,
        );
        line
    }
}

/// All connected clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
    count: AtomicUsize,
}

impl Clients {
    /// A new client; ids count up from 1 and are never reused.
    pub(crate) fn add(
        &self,
        address: SocketAddr,
        local: SocketAddr,
        now_raw_ns: u64,
    ) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            address,
            local,
            connected_raw_ns: now_raw_ns,
            active_raw_ns: AtomicU64::new(now_raw_ns),
            introduction: Mutex::new(Introduction::default()),
        });
        self.lock().insert(client.id, Arc::clone(&client));
        self.count.fetch_add(1, Ordering::Relaxed);
        client
    }

    pub(crate) fn remove(&self, id: u64) {
        if self.lock().remove(&id).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// How many clients ever connected.
    pub(crate) fn total(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// All clients, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    /// The clients among these that are connected, oldest first.
    pub(crate) fn with_ids(&self, ids: &BTreeSet<u64>) -> Vec<Arc<Client>> {
        let by_id = self.lock();
        ids.iter().filter_map(|id| by_id.get(id).cloned()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.by_id
            .lock()
            .expect("no holder of the client list can panic")
    }
}
