//! A started node without threads, for tests of its parts.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::RawTime;
use quorlock_persistence::{Disk, MemoryDisk, Preparer};

use crate::clock::{Clock, SettableClock};
use crate::config::{Config, FirstStart};
use crate::core::clients::Endpoints;
use crate::core::log_queue::LogEvents;
use crate::core::state::NodeState;
use crate::session::Session;
use crate::simulation::Setup;
use crate::start::{ListenInfo, begin};

/// A node that serves; the test does the work of its log thread.
pub(crate) fn started(
    mut config: Config,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
) -> (Arc<NodeState>, Preparer, LogEvents) {
    config.first_start = FirstStart::Serve;
    let plan = Setup::new(config).plan(disk, clock);
    let begun = begin(plan, ListenInfo::NOWHERE).unwrap();
    (begun.node, begun.preparer, begun.log_events)
}

/// One with `appendfsync always` on a disk whose direct writes take so long and whose syncs have nothing left to do.
pub(crate) fn with_slow_direct_writes(write: Duration) -> (Arc<NodeState>, Preparer, LogEvents) {
    let (disk, clock) = (MemoryDisk::new(), Arc::new(SettableClock::new()));
    disk.set_direct_blocks(Some(4096));
    let mut config = Config::default();
    config.set("appendfsync", &["always"]).unwrap();
    let started = started(config, Arc::new(disk.clone()), clock.clone());
    disk.on_direct_write(Arc::new(move || clock.advance(write)));
    started
}

/// A client's session with it.
pub(crate) fn session(node: &NodeState) -> Session {
    Session::new(node.clients.add(Endpoints::NONE, RawTime::ZERO, 0), node)
}
