//! What a command, a script or a transaction publishes: collected with its effects, sent when its reply may leave.

use crate::channels::Subscription;
use crate::context::CommandContext;
use crate::error::ErrorReply;

impl CommandContext<'_> {
    /// Publishes a message; returns how many get it.
    pub(crate) fn publish(
        &mut self,
        to: Subscription,
        channel: &[u8],
        payload: &[u8],
    ) -> Result<usize, ErrorReply> {
        let published = self.keyspace.channels.publish(to, channel, payload);
        let receivers = published.iter().map(|one| one.receivers.len());
        let receivers = receivers.fold(0, usize::saturating_add);
        let bytes = channel
            .len()
            .saturating_add(payload.len())
            .saturating_add(PUBLISHED_OVERHEAD_BYTES);
        let effects = &mut self.effects;
        let sum = bytes
            .saturating_mul(published.len())
            .saturating_add(receivers.saturating_mul(RECEIVER_BYTES))
            .saturating_add(effects.published_bytes);
        let is_first = effects.published.is_empty();
        if !is_first && sum > PUBLISHED_BYTES_MAX {
            return Err(PUBLISHES_TOO_MUCH);
        }
        effects.published_bytes = sum;
        effects.published.extend(published);
        Ok(receivers)
    }
}

/// What one script or transaction may publish, in bytes; one message may always be.
const PUBLISHED_BYTES_MAX: usize = 8 << 20;
const PUBLISHED_OVERHEAD_BYTES: usize = 256;
const RECEIVER_BYTES: usize = 8;

const PUBLISHES_TOO_MUCH: ErrorReply = ErrorReply::fixed(
    "ERR this script or transaction publishes more than 8 MiB. This message was not published, earlier ones are",
);
