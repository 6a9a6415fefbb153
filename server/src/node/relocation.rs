//! Moving a stopped node's directory to another machine or file system: the directory, the clocks and the randomness for
//! what `quorlock_node::start` does.

use std::path::Path;
use std::sync::Arc;

use quorlock_node::past::{NodeId, Receipt};
use quorlock_node::start::{self, ReleasedNode, RelocationError, RelocationScene, StartError};
use quorlock_persistence::{Disk, LogOptions};

use crate::clock::SystemClock;
use crate::node::identity::open;
use crate::node::start::system_random;

/// Releases the directory of a node that stopped cleanly, so that it can be moved without a restart delay. From then on no
/// node starts from it, or from a copy of it, before [`adopt`] was called there.
///
/// # Errors
/// When a node runs on it, its last stop was not clean, it was released before, or it cannot be read or written.
pub fn release(directory: &Path) -> Result<ReleasedNode, RelocationError> {
    start::release(&surroundings(open(directory)?))
}

/// Adopts a released directory where it is now. With the receipt of its release its next start serves as after a clean
/// stop. Without, it waits for `restart-delay-max`: that is right wherever the node may have run since its release.
///
/// To be called in one place for each release. Nothing in the files tells one copy of a released directory from another:
/// two that are both adopted with the receipt are two nodes that count as one, and can grant the same lock.
///
/// # Errors
/// When it is not released, the receipt is that of another release, or it cannot be read or written.
pub fn adopt(directory: &Path, receipt: Option<&Receipt>) -> Result<NodeId, RelocationError> {
    start::adopt(&surroundings(open(directory)?), receipt)
}

fn surroundings(disk: Arc<dyn Disk>) -> RelocationScene<'static> {
    let random: &'static dyn Fn(&mut [u8]) -> Result<(), StartError> = &system_random;
    RelocationScene {
        disk,
        sizes: LogOptions::default(),
        clock: &SystemClock,
        random,
    }
}
