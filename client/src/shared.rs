//! What all clones of a client share.

use std::sync::Arc;

use crate::clock::Clock;
use crate::runtime::handle::Handle;
use crate::settings::Settings;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) handle: Handle,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    /// The nodes' addresses without passwords.
    pub(crate) nodes: Arc<[Arc<str>]>,
}
