//! Connections are made first, so that the lease of what is asked for on them begins when they stand.
//!
//! Invariant: this ends as soon as a majority can be asked, when it cannot be had any more, or when the nodes have had
//! their time. Nothing is asked for here, so there is nothing to undo.

use std::time::Duration;

use crate::answer::Content;
use crate::clock::ClientInstant;
use crate::context::Context;
use crate::step::Input;
use crate::votes::NodeSet;

#[derive(Debug)]
pub(super) struct Connecting {
    awaited: NodeSet,
    /// How many more nodes must be ready.
    missing: usize,
    pub(super) deadline: ClientInstant,
}

impl Connecting {
    /// Begins to connect, and is waited for no longer than `limit`. Nothing is to be waited for where a majority can be
    /// asked now, or could not be if all these connections stood. The `first` attempt of a call that would fail because of
    /// nodes that were not reached a moment ago tries those again: it may be the only one, and they may be back.
    pub(super) fn start(limit: Duration, first: bool, context: &mut Context<'_>) -> Option<Self> {
        let (now, operation) = (context.now, context.operation);
        let ready = context.links.iter().filter(|link| link.is_ready(now));
        let missing = context.quorum().saturating_sub(ready.count());
        if missing == 0 {
            return None;
        }
        let mut awaited = NodeSet::default();
        for (node, link) in context.links.iter_mut().enumerate() {
            if link.connect(now, operation) {
                awaited.insert(node);
            }
        }
        if first && awaited.len() < missing {
            for (node, link) in context.links.iter_mut().enumerate() {
                if !awaited.contains(node) && link.connect_again(now, operation) {
                    awaited.insert(node);
                }
            }
        }
        // A connect and a login, each with a deadline of its own.
        let patience = context.settings.node_deadline_max.saturating_mul(2);
        let connecting = Self {
            awaited,
            missing,
            deadline: now.after(patience.min(limit)),
        };
        (!connecting.is_over(now)).then_some(connecting)
    }

    /// Takes an event in. Says whether nothing is to be waited for any more.
    pub(super) fn handle(&mut self, input: Input, now: ClientInstant) -> bool {
        if let Input::Reply(reply) = input
            && let Content::Connected(is_ready) = reply.content
            && self.awaited.contains(reply.node)
        {
            self.awaited.remove(reply.node);
            self.missing = self.missing.saturating_sub(usize::from(is_ready));
        }
        self.is_over(now)
    }

    fn is_over(&self, now: ClientInstant) -> bool {
        self.missing == 0 || self.awaited.len() < self.missing || now.has_reached(self.deadline)
    }
}
