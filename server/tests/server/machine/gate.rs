//! Syncs and direct writes that wait for as long as a test likes.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use quorlock_server::{MemoryDisk, Node};
use quorlock_testkit::Wire;

use super::{Directives, Machine, wire};

/// While it is closed, who passes it waits.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// The names of the threads that wait.
    waiting: Vec<String>,
}

/// A node whose syncs, or direct writes, pass a gate.
pub(crate) struct GatedNode {
    /// Goes first: the node syncs when it is dropped.
    _open: OpenAtEnd,
    pub(crate) node: Node,
    pub(crate) gate: Arc<Gate>,
    pub(crate) machine: Machine,
}

impl GatedNode {
    pub(crate) async fn start(directives: Directives<'_>) -> Self {
        let machine = Machine::new();
        let gate = Gate::before_syncs_of(&machine.disk());
        Self::start_on(machine, gate, directives).await
    }

    /// The same for its direct writes, where syncs take no time.
    pub(crate) async fn start_direct(directives: Directives<'_>) -> Self {
        let machine = Machine::new();
        machine.disk().set_direct_blocks(Some(4096));
        let gate = Arc::new(Gate::default());
        let hook = Arc::clone(&gate);
        machine
            .disk()
            .on_direct_write(Arc::new(move || hook.pass()));
        Self::start_on(machine, gate, directives).await
    }

    async fn start_on(machine: Machine, gate: Arc<Gate>, directives: Directives<'_>) -> Self {
        let node = machine.start(directives).await;
        Self {
            _open: OpenAtEnd(Arc::clone(&gate)),
            node,
            gate,
            machine,
        }
    }

    /// Two connections. Of two workers the first has `quorlock-1` and the second `quorlock-0`: they
    /// are dealt in turn.
    pub(crate) fn wires(&self) -> (Wire, Wire) {
        let connected = || {
            let mut wire = wire(&self.node);
            assert_eq!(wire.ask("PING"), "+PONG");
            wire
        };
        (connected(), connected())
    }

    /// Closes the gate, and sends what has a thread whose name begins like this stand at it.
    pub(crate) fn hold(&self, client: &mut Wire, line: &str, thread: &str) {
        self.gate.set_closed(true);
        client.send(format!("{line}\r\n").as_bytes());
        self.gate.await_thread(thread);
    }

    /// Opens the gate: the client's OK leaves.
    pub(crate) fn let_go(&self, client: &mut Wire) {
        self.gate.set_closed(false);
        assert_eq!(client.reply(), "+OK");
    }
}

/// Opens the gate when a test ends, also where it fails: a node does not stop before it.
pub(crate) struct OpenAtEnd(pub(crate) Arc<Gate>);

impl Gate {
    /// A gate that every sync of this disk has to pass.
    pub(crate) fn before_syncs_of(disk: &MemoryDisk) -> Arc<Self> {
        let gate = Arc::new(Self::default());
        let hook = Arc::clone(&gate);
        disk.on_sync(Arc::new(move || hook.pass()));
        gate
    }

    pub(crate) fn set_closed(&self, is_closed: bool) {
        self.state.lock().unwrap().is_closed = is_closed;
        self.changed.notify_all();
    }

    /// Waits until a thread whose name begins like this stands at the closed gate.
    pub(crate) fn await_thread(&self, name: &str) {
        let arrived = |state: &mut State| state.waiting.iter().any(|it| it.starts_with(name));
        let state = self.state.lock().unwrap();
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(10), |state| !arrived(state))
            .unwrap();
        let is_late = timeout.timed_out();
        drop(state);
        // Not locked while it panics: the node's threads still pass.
        let state = format!("{:?}", self.state.lock().unwrap());
        assert!(!is_late, "{name:?} does not come to the gate: {state}");
    }

    pub(crate) fn pass(&self) {
        let name = std::thread::current().name().unwrap_or("").to_owned();
        let mut state = self.state.lock().unwrap();
        state.waiting.push(name.clone());
        self.changed.notify_all();
        let mut state = self
            .changed
            .wait_while(state, |state| state.is_closed)
            .unwrap();
        let index = state.waiting.iter().position(|it| *it == name).unwrap();
        state.waiting.remove(index);
    }
}

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        self.0.set_closed(false);
    }
}
