//! File descriptors: the limit is the process's, and all nodes that run in it share it.
//!
//! Invariant: the clients of all nodes together leave what the logs of all nodes need. The limit is read whenever it matters,
//! since the program may change it; it is raised only by [`raise`], which a program has to ask for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::runtime::half_closed::AT_ONCE;

/// Raises the process's limit, as far as it may, for so many clients of one more node.
pub(crate) fn raise(clients: usize) {
    let nodes = nodes().counts.len() as u64;
    let needed = (clients as u64).saturating_add(kept(nodes.saturating_add(1)));
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= needed) {
        return;
    }
    let raised = limit.maximum.map_or(needed, |hard| hard.min(needed));
    let current = Some(raised);
    // Where it stays as it is, the node takes fewer clients and says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
}

/// What one more node of this process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// How many clients at most; others' clients may leave fewer.
    pub(crate) clients: usize,
    /// How many files the process may open; `None` for no bound.
    pub(crate) available: Option<u64>,
    /// How many it has to be able to open for one client.
    pub(crate) needed: u64,
}

/// How many of so many clients fit for one more node.
pub(crate) fn fit(wanted: usize) -> Fit {
    fit_in(wanted, soft_limit(), nodes().counts.len() as u64)
}

/// How many of so many clients fit for a node that runs already.
pub(crate) fn fit_running(wanted: usize) -> usize {
    let others = (nodes().counts.len() as u64).saturating_sub(1);
    fit_in(wanted, soft_limit(), others).clients
}

/// The same once the process's limit was raised for them as far as it may.
pub(crate) fn raise_and_fit(wanted: usize) -> usize {
    raise(wanted);
    fit_running(wanted)
}

fn fit_in(wanted: usize, available: Option<u64>, others: u64) -> Fit {
    let nodes = others.saturating_add(1);
    Fit {
        clients: wanted.min(clients_of_all(available, nodes)),
        available,
        needed: kept(nodes).saturating_add(1),
    }
}

/// A node's part in what its process may open, as long as this lives.
#[derive(Debug)]
pub(crate) struct DescriptorShare(Arc<AtomicUsize>);

impl DescriptorShare {
    /// For a node whose clients are counted there.
    pub(crate) fn new(clients: Arc<AtomicUsize>) -> Arc<Self> {
        nodes().counts.push(Arc::clone(&clients));
        Arc::new(Self(clients))
    }

    /// Whether another client leaves what the logs of all nodes need.
    pub(crate) fn has_room(&self) -> bool {
        let nodes = nodes();
        let counts = nodes.counts.iter();
        let clients: usize = counts.map(|count| count.load(Ordering::Relaxed)).sum();
        clients < clients_of_all(soft_limit(), nodes.counts.len() as u64)
    }
}

impl Drop for DescriptorShare {
    fn drop(&mut self) {
        nodes().counts.retain(|count| !Arc::ptr_eq(count, &self.0));
    }
}

/// How many clients the nodes of a process may have together.
fn clients_of_all(available: Option<u64>, nodes: u64) -> usize {
    let Some(available) = available else {
        return usize::MAX;
    };
    let clients = available.saturating_sub(kept(nodes));
    usize::try_from(clients).expect("descriptors are numbered by 32 bits")
}

fn kept(nodes: u64) -> u64 {
    nodes.saturating_mul(KEPT)
}

fn soft_limit() -> Option<u64> {
    // More than a descriptor's number can say is no limit.
    let soft = getrlimit(Resource::Nofile).current;
    soft.filter(|soft| *soft <= u64::from(u32::MAX))
}

/// The clients of each node that runs in this process.
#[derive(Debug)]
struct ProcessNodes {
    counts: Vec<Arc<AtomicUsize>>,
}

static NODES: Mutex<ProcessNodes> = Mutex::new(ProcessNodes { counts: Vec::new() });

fn nodes() -> MutexGuard<'static, ProcessNodes> {
    // A list is whole whoever panicked.
    NODES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For a node's log, its listeners, half-closed connections, and what the program around the node has open.
const KEPT: u64 = 64 + AT_ONCE as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_a_process_share_its_limit() {
        let clients = |available, others| fit_in(10_000, available, others).clients;
        assert_eq!(clients(None, 4), 10_000);
        assert_eq!(clients(Some(20_000), 4), 10_000);
        assert_eq!(clients(Some(1_024), 0), 928);
        // Five nodes once took 928 each.
        assert_eq!(clients(Some(1_024), 4), 544);
        assert_eq!(clients(Some(96), 0), 0);
        assert_eq!(fit_in(1, Some(96), 0).needed, 97);
        assert_eq!(fit_in(1, Some(96), 2).needed, 289);
    }
}
