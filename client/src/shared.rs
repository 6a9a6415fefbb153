//! What all clones of a client share.

use std::sync::Arc;

use quorlock_client_rules::clock::Clock;
use quorlock_client_rules::settings::Settings;

use crate::runtime::handle::Handle;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) handle: Handle,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    /// The nodes' addresses without passwords.
    pub(crate) nodes: Arc<[Arc<str>]>,
}
