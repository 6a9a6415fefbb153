//! A disk whose syncs wait for as long as a test likes.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use quorlock_persistence::{DirectoryEntry, File, Mapping};
use quorlock_server::{Disk, MemoryDisk};

/// A disk in memory whose syncs pass a gate.
#[derive(Debug)]
pub(crate) struct SlowDisk {
    inner: MemoryDisk,
    gate: Arc<Gate>,
}

/// While it is closed, syncs wait.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// The names of the threads whose sync waits.
    waiting: Vec<String>,
}

impl Gate {
    pub(crate) fn set_closed(&self, is_closed: bool) {
        self.state.lock().unwrap().is_closed = is_closed;
        self.changed.notify_all();
    }

    /// Waits until a sync of a thread whose name begins like this stands at the closed gate.
    pub(crate) fn await_thread(&self, name: &str) {
        let arrived = |state: &mut State| state.waiting.iter().any(|it| it.starts_with(name));
        let state = self.state.lock().unwrap();
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(10), |state| !arrived(state))
            .unwrap();
        let is_late = timeout.timed_out();
        drop(state);
        assert!(!is_late, "no sync was begun by {name:?}");
    }

    fn pass(&self) {
        let name = std::thread::current().name().unwrap_or("").to_owned();
        let mut state = self.state.lock().unwrap();
        state.waiting.push(name.clone());
        self.changed.notify_all();
        let mut state = self
            .changed
            .wait_while(state, |state| state.is_closed)
            .unwrap();
        let place = state.waiting.iter().position(|it| *it == name).unwrap();
        state.waiting.remove(place);
    }
}

/// Lets syncs pass again when a test ends, also where it fails: the node syncs when it stops.
pub(crate) struct OpenAtEnd(pub(crate) Arc<Gate>);

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        self.0.set_closed(false);
    }
}

#[derive(Debug)]
struct SlowFile {
    inner: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl SlowDisk {
    pub(crate) fn new() -> (Arc<Self>, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        let disk = Self {
            inner: MemoryDisk::new(),
            gate: Arc::clone(&gate),
        };
        (Arc::new(disk), gate)
    }

    fn slow(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SlowFile {
            inner,
            gate: Arc::clone(&self.gate),
        })
    }
}

impl Disk for SlowDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.inner.create(name).map(|file| self.slow(file))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.inner.open(name).map(|file| self.slow(file))
    }
    fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        self.inner.list()
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }
    fn random(&self) -> io::Result<u64> {
        self.inner.random()
    }
    fn describe(&self, name: &str) -> String {
        self.inner.describe(name)
    }
}

impl File for SlowFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.inner.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn map(&self) -> io::Result<Mapping> {
        self.inner.map()
    }
}
