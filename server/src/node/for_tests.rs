//! A started node without threads, for tests of its parts.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quorlock_persistence::{Disk, LogOptions, Preparer};

use crate::clock::Clock;
use crate::config::Config;
use crate::node::compaction::PART_BYTES;
use crate::node::log_thread::Jobs;
use crate::node::shared::Shared;
use crate::node::start::{Plan, Reach, begin, system_random};
use crate::past::Place;
use crate::session::Session;

/// A node that serves; its log thread is whoever does the jobs.
pub(crate) fn started(
    config: Config,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
) -> (Arc<Shared>, Preparer, Jobs) {
    let plan = Plan {
        config,
        clock,
        disk,
        place: Place::named(0),
        sizes: LogOptions::default(),
        part_bytes: PART_BYTES,
        random: Box::new(system_random),
    };
    let reach = Reach {
        port: 0,
        is_remote: false,
        metrics: None,
    };
    let begun = begin(plan, reach).unwrap();
    (begun.shared, begun.preparer, begun.jobs)
}

/// A client's session with it.
pub(crate) fn session(shared: &Shared) -> Session {
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Session::new(shared.clients.add((nobody, nobody), 0, 0), shared)
}
