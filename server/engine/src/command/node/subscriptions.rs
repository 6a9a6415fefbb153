//! The rows of the commands about channels that only a connection can send: those that subscribe and unsubscribe, and PUBSUB.

use super::row;
use crate::channels::Subscription;
use crate::command::about::{Categories, Description, KeyAccess, help, part};
use crate::command::spec::{Family, Flags, NodeCommand, Spec};

pub(super) const FAMILY: Family = &[
    &subscribe("subscribe", Subscription::Channel)
        .since("2.0.0", "Listens to channels")
        .syntax("channel [channel ...]"),
    &unsubscribe("unsubscribe", Subscription::Channel)
        .since("2.0.0", "Listens to channels no more")
        .syntax("[channel [channel ...]]"),
    &subscribe("psubscribe", Subscription::Pattern)
        .since("2.0.0", "Listens to all channels that match patterns")
        .syntax("pattern [pattern ...]"),
    &unsubscribe("punsubscribe", Subscription::Pattern)
        .since("2.0.0", "Listens to patterns no more")
        .syntax("[pattern [pattern ...]]"),
    &subscribe("ssubscribe", Subscription::Shard)
        .on_all(&[KeyAccess::NOT_KEY])
        .since("7.0.0", "Listens to sharded channels")
        .syntax("shardchannel [shardchannel ...]"),
    &unsubscribe("sunsubscribe", Subscription::Shard)
        .on_all(&[KeyAccess::NOT_KEY])
        .since("7.0.0", "Listens to sharded channels no more")
        .syntax("[shardchannel [shardchannel ...]]"),
    &row("pubsub", -2, NodeCommand::PubSub)
        .divided(PARTS)
        .and(Flags::BRIEF)
        .since("2.8.0", "Tells who listens"),
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
    part("channels", -2, QUERY)
        .since("2.8.0", "Tells the channels that somebody listens to")
        .syntax("[pattern]"),
    help("6.2.0", Categories::NONE),
    part("numpat", 2, QUERY).since("2.8.0", "Counts the patterns"),
    part("numsub", -2, QUERY)
        .since("2.8.0", "Counts who listens to channels")
        .syntax("[channel [channel ...]]"),
    part("shardchannels", -2, QUERY)
        .since("7.0.0", "The same for sharded channels")
        .syntax("[pattern]"),
    part("shardnumsub", -2, QUERY)
        .since("7.0.0", "Counts who listens to sharded channels")
        .syntax("[shardchannel [shardchannel ...]]"),
];
