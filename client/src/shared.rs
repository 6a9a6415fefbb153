//! What all clones of a client share.

use std::sync::Arc;

use quorlock_client_rules::settings::Settings;
use quorlock_clock::Clock;

use crate::guard::Guard;
use crate::lock_event::OnEvent;
use crate::opaque::Opaque;
use crate::runtime::handle::Handle;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) handle: Handle,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    /// The nodes' addresses without passwords.
    pub(crate) nodes: Arc<[Arc<str>]>,
    pub(crate) on_acquired: Option<OnAcquired>,
    pub(crate) on_event: Option<OnEvent>,
}

/// What is called with each lock that was acquired, before its caller has it; `true` where the client goes on to renew it.
pub(crate) type OnAcquired = Opaque<Arc<dyn Fn(&Guard, bool) + Send + Sync>>;
