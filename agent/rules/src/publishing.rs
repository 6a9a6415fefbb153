//! PUBLISH: what it is on the nodes, and what is answered.
//!
//! Invariant: an answer that is no error says that a majority of the nodes has taken the message.

use bytes::Bytes;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_clock::saturated;
use quorlock_engine::Reply;

use crate::channels::PAYLOAD_BYTES_MAX;
use crate::commands::Commands;
use crate::locking::number;
use crate::next::Next;
use crate::refusal;
use crate::surroundings::Surroundings;

#[derive(Debug)]
pub(crate) struct Publishing;

impl Publishing {
    /// The channel and the message, if a request is one.
    pub(crate) fn of(commands: &Commands) -> Option<(&Bytes, &Bytes)> {
        match &commands.all[..] {
            [words] if !commands.is_transaction => match &words[..] {
                [name, channel, payload] if name.eq_ignore_ascii_case(b"PUBLISH") => {
                    Some((channel, payload))
                }
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn begin(
        channel: &Bytes,
        payload: &Bytes,
        world: &mut Surroundings<'_>,
    ) -> (Option<Self>, Next) {
        if payload.len() > PAYLOAD_BYTES_MAX || channel.len() > PAYLOAD_BYTES_MAX {
            let reason = format!(
                "a message on an agent has {PAYLOAD_BYTES_MAX} bytes at most, and so has the name of a channel. Send where the data is instead"
            );
            let refusal = refusal::not_a_lock(&reason);
            return (None, Next::Answer(Reply::Error(refusal)));
        }
        let payload = world.channels.envelop(world.now, channel, payload);
        let channel = channel.clone();
        (Some(Self), Next::Ask(Call::Publish { channel, payload }))
    }

    pub(crate) fn handle(outcome: Outcome) -> Next {
        let Outcome::Published(published) = outcome else {
            // The client has ended.
            debug_assert!(false, "{outcome:?} of a message");
            return Next::Answer(Reply::Error(refusal::TRY_AGAIN));
        };
        Next::Answer(match published {
            Ok(listeners) => number(saturated(u128::from(listeners))),
            Err(error) => Reply::Error(refusal::no_quorum(
                &error.to_string(),
                "The message may have reached some of those who listen, or all",
            )),
        })
    }
}
