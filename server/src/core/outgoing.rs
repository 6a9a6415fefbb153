//! What a command has to say to others than its own client.

use quorlock_engine::Served;
use quorlock_engine::channels::Published;

use crate::core::wait::Wait;

/// Messages and answers, each with what it has to wait for.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// For those who listen; they wait for what the publisher's reply waits for.
    pub(crate) published: Vec<(Published, Wait)>,
    /// For those who waited for an element.
    pub(crate) served: Vec<(Served, Wait)>,
}

impl Outgoing {
    pub(crate) fn is_empty(&self) -> bool {
        self.published.is_empty() && self.served.is_empty()
    }
}
