//! Publishing: PUBLISH and SPUBLISH, by clients, scripts and transactions.

use crate::channels::Subscription;
use crate::command::about::{Categories, KeyAccess};
use crate::command::spec::{Family, Flags, KeyPositions, Spec};
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

pub(super) const FAMILY: Family = &[&PUBLISH, &SPUBLISH];

const PUBLISH: Spec = Spec::on_keys("publish", 3, |context, arguments| {
    publish(context, Subscription::Channel, arguments)
})
.flags(Flags::FAST.with(Flags::MAY_REPLICATE))
.and(Flags::PUBSUB.with(Flags::ALWAYS))
.and(Flags::SIMPLE)
.about(Categories::NONE, &[]);

const SPUBLISH: Spec = PUBLISH
    .variant("spublish", |context, arguments| {
        publish(context, Subscription::Shard, arguments)
    })
    .keys(KeyPositions::ONE)
    .about(Categories::NONE, &[KeyAccess::NOT_KEY]);

fn publish(
    context: &mut CommandContext<'_>,
    to: Subscription,
    arguments: &[&[u8]],
) -> Result<Reply, ErrorReply> {
    let (channel, payload) = (arguments[1], arguments[2]);
    Ok(Reply::count(context.publish(to, channel, payload)?))
}
