//! A started node without threads, for tests of its parts.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::RawTime;
use quorlock_persistence::{Disk, LogOptions, MemoryDisk, Preparer};

use crate::clock::{Clock, SettableClock};
use crate::config::{Config, FirstStart};
use crate::core::clients::Addresses;
use crate::core::compaction::PART_BYTES;
use crate::core::log_queue::LogEvents;
use crate::core::state::NodeState;
use crate::node::start::{Begun, Plan, Reach, begin, system_random};
use crate::runtime::process;
use crate::session::Session;

/// A node that serves; the test does the work of its log thread.
pub(crate) fn started(
    config: Config,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
) -> (Arc<NodeState>, Preparer, LogEvents) {
    started_with(config, disk, clock, LogOptions::default())
}

/// The same with a log of these sizes.
pub(crate) fn started_with(
    config: Config,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    sizes: LogOptions,
) -> (Arc<NodeState>, Preparer, LogEvents) {
    let plan = Plan {
        sizes,
        ..plan(config, disk, clock)
    };
    let begun = begun(plan);
    (begun.node, begun.preparer, begun.log_events)
}

/// What such a node starts from.
pub(crate) fn plan(mut config: Config, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Plan {
    config.first_start = FirstStart::Serve;
    Plan {
        config,
        clock,
        process: process::own(),
        disk,
        sizes: LogOptions::default(),
        part_bytes: PART_BYTES,
        random: Arc::new(system_random),
    }
}

/// All of a start.
pub(crate) fn begun(plan: Plan) -> Begun {
    let reach = Reach {
        port: 0,
        metrics: None,
    };
    begin(plan, reach).unwrap()
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
    Session::new(node.clients.add(Addresses::NONE, RawTime::ZERO, 0), node)
}
