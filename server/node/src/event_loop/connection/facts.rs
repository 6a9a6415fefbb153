//! What limits have to know of a connection, and what it holds.

use crate::core::clients::CLIENT_BYTES;
use crate::core::state::NodeState;
use crate::event_loop::connection::{Connection, Stage};
use crate::event_loop::limits::{Activity, Facts};
use crate::event_loop::memory::Held;
use crate::event_loop::stream::Stream;
use quorlock_engine::RawTime;

impl<S: Stream> Connection<S> {
    /// What the limits have to know.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            activity: match self.stage {
                // What has arrived is executed first.
                Stage::Reading if self.is_queued => Activity::Busy,
                Stage::Reading => Activity::Reading,
                Stage::Sending => Activity::Sending {
                    since: self.sending_since,
                },
                Stage::Held | Stage::Pending(_) | Stage::Closed => Activity::Busy,
            },
            unauthenticated_since: self.unauthenticated_since(),
            is_handshaking: self.is_handshaking,
            active_at: self.session.client.active_raw(),
            request_began: self.query.request_began,
            has_work: self.has_work(),
            output_bytes: self.output_bytes(),
            is_listening: self.session.is_listening(),
            is_told: self.session.is_tracking() || self.session.has_waited(),
        }
    }

    /// Since when its client has neither said the password, where one is needed, nor agreed on how to speak.
    fn unauthenticated_since(&self) -> Option<RawTime> {
        let client = &self.session.client;
        let handshaking = self.is_handshaking.then(|| client.connected_raw());
        handshaking.or_else(|| self.session.unauthenticated_since())
    }

    /// Whether its client has authenticated was noted when it was accepted. Since then a password may have been set, or taken away.
    pub(crate) fn note_login(&self, node: &NodeState) {
        let client = &self.session.client;
        match self.session.is_trusted() {
            true if self.is_handshaking => {}
            true => node.clients.note_authenticated(client.id),
            false => node.clients.note_unauthenticated(client),
        }
    }

    /// The handshake is complete, where one was under way. Says whether that is so.
    pub(crate) fn note_handshake(&mut self, node: &NodeState) {
        if self.is_handshaking && !self.stream.is_handshaking() {
            self.is_handshaking = false;
            if self.session.is_trusted() {
                node.clients.note_authenticated(self.session.client.id);
            }
        }
    }

    /// What it holds now, to be counted. What an idle connection keeps does not.
    pub(crate) fn held(&self) -> Held {
        let is_idle = self.query.is_idle() && !self.has_replies();
        let (mut input_bytes, mut output_bytes) = (0, 0);
        let (mut query_bytes, mut query_free_bytes) = (0, 0);
        let mut shared_bytes = self.messages.shared_bytes();
        let mut charged_bytes = self.messages.charged_bytes();
        if !is_idle {
            (query_bytes, query_free_bytes) = self.query.bytes();
            input_bytes = self.query.memory();
            if self.has_replies() {
                output_bytes = self.replies.memory();
                shared_bytes += self.replies.charged();
                charged_bytes += self.replies.charged();
            }
        }
        // What is between MULTI and EXEC, and what it listens to, stays, however idle the connection is.
        input_bytes += self.session.kept_bytes();
        output_bytes += self.messages.bytes();
        let mut unauthenticated_bytes = 0;
        if !self.is_trusted() {
            let buffers = self.query.buffer_memory() + self.replies.memory();
            unauthenticated_bytes = CLIENT_BYTES + buffers + self.stream.memory();
        }
        Held {
            input_bytes,
            query_bytes,
            query_free_bytes,
            output_bytes,
            shared_bytes,
            charged_bytes,
            unauthenticated_bytes,
        }
    }
}
