//! Publishing: PUBLISH and SPUBLISH, by clients, scripts and transactions.

use crate::channels::Subscription;
use crate::command::about::{Categories, Docs, KeyAccess};
use crate::command::spec::{Family, Flags, Handler, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&PUBLISH, &SPUBLISH];

const PUBLISH: Spec = Spec {
    name: "publish",
    about: Docs::new("2.0.0", Categories::NONE, &[]),
    arity: 3,
    flags: Flags::FAST
        .with(Flags::MAY_REPLICATE)
        .with(Flags::PUBSUB)
        .with(Flags::ALWAYS)
        .with(Flags::SIMPLE),
    keys: KeyPositions::NONE,
    summary: "Sends a message to those who listen to a channel; returns how many they are",
    syntax: "channel message",
    handler: Handler::Keys(|context, arguments| publish(context, Subscription::Channel, arguments)),
};

const SPUBLISH: Spec = Spec {
    name: "spublish",
    keys: KeyPositions::ONE,
    about: Docs::new("7.0.0", Categories::NONE, &[KeyAccess::NOT_KEY]),
    summary: "Sends a message to those who listen to a sharded channel; returns how many they are",
    syntax: "shardchannel message",
    handler: Handler::Keys(|context, arguments| publish(context, Subscription::Shard, arguments)),
    ..PUBLISH
};

fn publish(
    context: &mut CommandContext<'_>,
    to: Subscription,
    arguments: &[&[u8]],
) -> Result<Reply, ErrorReply> {
    let (channel, payload) = (arguments[1], arguments[2]);
    Ok(Reply::count(context.publish(to, channel, payload)?))
}
