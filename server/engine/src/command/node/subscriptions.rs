//! The rows of the commands about channels that only a connection can send: those that subscribe and unsubscribe, and PUBSUB.

use super::row;
use crate::channels::Subscription;
use crate::command::about::{Categories, Description, KeyAccess, help, part};
use crate::command::spec::{Family, Flags, NodeCommand, Spec};

pub(super) const FAMILY: Family = &[
    &subscribe("subscribe", Subscription::Channel),
    &unsubscribe("unsubscribe", Subscription::Channel),
    &subscribe("psubscribe", Subscription::Pattern),
    &unsubscribe("punsubscribe", Subscription::Pattern),
    &subscribe("ssubscribe", Subscription::Shard).on_all(&[KeyAccess::NOT_KEY]),
    &unsubscribe("sunsubscribe", Subscription::Shard).on_all(&[KeyAccess::NOT_KEY]),
    &row("pubsub", -2, NodeCommand::PubSub)
        .divided(PARTS)
        .and(Flags::BRIEF),
];

const fn subscribe(name: &'static str, to: Subscription) -> Spec {
    row(name, -2, NodeCommand::Subscribe(to)).flags(LISTENING.with(Flags::SENDS_LATER))
}

const fn unsubscribe(name: &'static str, to: Subscription) -> Spec {
    row(name, -1, NodeCommand::Unsubscribe(to)).flags(LISTENING)
}

const QUERY: Flags = Flags::PUBSUB.with(Flags::ALWAYS);
const LISTENING: Flags = QUERY
    .with(Flags::NO_SCRIPT)
    .with(Flags::BRIEF)
    .with(Flags::WHILE_LISTENING);

const PARTS: &[Description] = &[
    part("channels", -2, QUERY),
    help(Categories::NONE),
    part("numpat", 2, QUERY),
    part("numsub", -2, QUERY),
    part("shardchannels", -2, QUERY),
    part("shardnumsub", -2, QUERY),
];
