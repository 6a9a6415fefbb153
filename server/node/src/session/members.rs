//! A change of the number of nodes in the cluster while clients take locks; [`ClusterSize`] says which may be made.
//!
//! Our client asks a node for that number once for each connection. So clients whose list gets no vote any more are
//! disconnected: they ask again.
//!
//! Invariant: a client changes the number only as it has been since it connected, or as it has set it itself. So a command that has
//! looked at all nodes changes none where another one came between, even where that has set what was so already.
//!
//! [`ClusterSize`]: crate::config::ClusterSize

use std::time::Duration;

use quorlock_engine::RawTime;

use super::client_kill;
use crate::config::{Config, SizeChange};
use crate::core::commit::Failure;
use crate::core::state::NodeState;
use crate::past;
use crate::session::Session;
use crate::session::batch::Batch;

/// What a change of the configuration is for the members; why it may not be made.
pub(super) fn judge(
    session: &Session,
    node: &NodeState,
    now_raw: RawTime,
    before: &Config,
    after: &Config,
) -> Result<SizeChange, String> {
    let (size, wanted) = (&before.cluster_size, &after.cluster_size);
    let change = size.change(wanted, quiet(node, now_raw), lock_max(node))?;
    if change != SizeChange::None && node.settings.has_size_set_since(session.client.id) {
        return Err(
            "another client has set it since this one connected: connect again, and look at it first".to_owned(),
        );
    }
    Ok(change)
}

/// How long locks of clients with another list may last.
pub(super) fn wait(node: &NodeState, now_raw: RawTime) -> Duration {
    lock_max(node).saturating_sub(quiet(node, now_raw))
}

/// For how long the members are what they are, as far as this node knows.
fn quiet(node: &NodeState, now_raw: RawTime) -> Duration {
    let last_raw = (node.settings.size_changed_raw()).max(node.facts.started_raw);
    Duration::from_nanos(now_raw.nanos_since(last_raw))
}

/// How long a lock lasts that this node takes part in, by the clock of any node.
fn lock_max(node: &NodeState) -> Duration {
    let longest_ns = node.settings.longest_cap_ns();
    Duration::from_nanos(past::policy(&node.config).stretch(longest_ns))
}

/// Carries it out, once the configuration is in force.
pub(super) fn carry_out(
    session: &Session,
    batch: &mut Batch<'_>,
    change: SizeChange,
    words: &[&[u8]],
) -> Result<(), Failure> {
    let (node, caller) = (batch.node, session.client.id);
    let mut names = words.iter().step_by(2);
    if names.any(|name| name.eq_ignore_ascii_case(b"cluster-size")) {
        node.settings.note_size_set(caller, node.clients.total());
    }
    if change != SizeChange::Disconnects {
        return Ok(());
    }
    node.settings.note_size_change(batch.raw());
    let mut others = node.clients.all();
    others.retain(|client| client.id != caller);
    client_kill::close(session, batch, others).map(drop)
}
