//! File descriptors: enough for the clients that are allowed, and some kept for the log.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::node::error::StartError;
use crate::runtime::half_closed::AT_ONCE;

/// Raises the process's limit as far as it may, and returns how many clients fit under it.
///
/// Clients must never use up what the log needs for its next segment.
///
/// # Errors
/// When not one client fits.
pub(crate) fn clients_max(wanted: usize) -> Result<usize, StartError> {
    let needed = (wanted as u64).saturating_add(KEPT);
    let limit = getrlimit(Resource::Nofile);
    let Some(soft) = limit.current else {
        return Ok(wanted);
    };
    if soft >= needed {
        return Ok(wanted);
    }
    let raised = limit.maximum.map_or(needed, |hard| hard.min(needed));
    let limit = Rlimit {
        current: Some(raised),
        ..limit
    };
    let available = if setrlimit(Resource::Nofile, limit).is_ok() {
        raised
    } else {
        soft
    };
    let clients = usize::try_from(available.saturating_sub(KEPT).min(wanted as u64))
        .expect("no more than what was wanted");
    if clients == 0 {
        let needed = KEPT.saturating_add(1);
        return Err(StartError::Descriptors { available, needed });
    }
    if clients < wanted {
        tracing::warn!(
            "maxclients is {clients} instead of {wanted}: the process may open {available} files; \
             raise the limit (ulimit -n) for more clients"
        );
    }
    Ok(clients)
}

/// For the log, the listeners, what the program around the node has open, and half-closed connections.
const KEPT: u64 = 64 + AT_ONCE as u64;
