//! A started node without threads, for tests of its parts.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quorlock_persistence::{Disk, LogOptions, Preparer};

use crate::clock::Clock;
use crate::config::Config;
use crate::core::compaction::PART_BYTES;
use crate::core::log_queue::Jobs;
use crate::core::state::NodeState;
use crate::node::start::{Plan, Reach, begin, system_random};
use crate::past::Fingerprint;
use crate::session::Session;

/// A node that serves; the test does the jobs of its log thread.
pub(crate) fn started(
    config: Config,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
) -> (Arc<NodeState>, Preparer, Jobs) {
    started_with(config, disk, clock, LogOptions::default())
}

/// The same with a log of these sizes.
pub(crate) fn started_with(
    config: Config,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    sizes: LogOptions,
) -> (Arc<NodeState>, Preparer, Jobs) {
    let plan = Plan {
        config,
        clock,
        disk,
        fingerprint: Fingerprint::named(0),
        sizes,
        part_bytes: PART_BYTES,
        random: Box::new(system_random),
    };
    let reach = Reach {
        port: 0,
        is_remote: false,
        metrics: None,
    };
    let begun = begin(plan, reach).unwrap();
    (begun.node, begun.preparer, begun.jobs)
}

/// A client's session with it.
pub(crate) fn session(node: &NodeState) -> Session {
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Session::new(node.clients.add((nobody, nobody), 0, 0), node)
}
