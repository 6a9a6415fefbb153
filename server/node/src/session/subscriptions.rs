//! SUBSCRIBE and its kin, and PUBSUB.
//!
//! A connection with RESP2 that listens may do nothing else: what it is sent could not be told from replies.

use quorlock_engine::channels::Subscription;
use quorlock_engine::{
    ErrorReply, Flags, GlobBudget, PATTERN_BYTES_MAX, PATTERN_TOO_EXPENSIVE, PATTERN_TOO_LONG,
    Protocol, Reply, ReplyTooLarge,
};

use bytes::Bytes;

use crate::core::clients::Listening;
use crate::core::executor::Executor;
use crate::core::state::NodeState;
use crate::core::upstream::UNANSWERED;
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::named_request::{NamedRequest, try_help};

impl Session {
    /// Whether it listens, so that messages may come at any time.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening.is_any() || self.is_monitor
    }

    /// Whether a command is refused of a connection that listens.
    pub(super) fn refuses_while_listening(&self, request: NamedRequest<'_>) -> bool {
        self.listening.is_any()
            && self.caller.protocol == Protocol::Resp2
            && (request.spec).is_some_and(|spec| !spec.flags.contains(Flags::WHILE_LISTENING))
    }

    /// Ends all subscriptions.
    pub(super) fn stop_listening(&mut self, executor: &mut Executor) {
        if std::mem::take(&mut self.listening).is_any() {
            self.listening_bytes = 0;
            self.client.introduction().listening = Listening::default();
            executor.engine.channels().leave(self.client.id);
        }
    }

    fn note_listening(&mut self, executor: &mut Executor) {
        let id = self.client.id;
        let channels = executor.engine.channels();
        let [in_channels, in_patterns, in_shards] =
            Subscription::ALL.map(|to| channels.count_of(id, to));
        self.listening = Listening {
            channels: in_channels,
            patterns: in_patterns,
            shards: in_shards,
        };
        self.client.introduction().listening = self.listening;
    }

    /// What it listens to of this kind, for the node's upstream.
    pub(super) fn heard_names(&self, executor: &mut Executor, to: Subscription) -> Vec<Bytes> {
        let names = executor.engine.channels().names_of(self.client.id, to);
        names
            .iter()
            .map(|name| Bytes::copy_from_slice(name))
            .collect()
    }

    /// The upstream has answered what this connection waits for: if that is a subscription, it listens from now on. The last of
    /// the replies is returned, and the others come before it.
    pub(crate) fn finish_subscription(&mut self, node: &NodeState, reply: Reply) -> Reply {
        let Some((to, names)) = self.subscribing.take() else {
            return reply;
        };
        if reply.is_error() {
            return reply;
        }
        // A node whose lock is poisoned stops.
        let Ok(mut executor) = node.lock() else {
            return Reply::Error(UNANSWERED);
        };
        let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let mut replies = self.register(&mut executor, to, &names);
        let last = replies.pop();
        self.confirmations = replies;
        last.unwrap_or(reply)
    }

    /// Replies that come before the one that a request waits for.
    pub(crate) fn take_confirmations(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.confirmations)
    }

    /// From now on it is sent these messages.
    fn register(
        &mut self,
        executor: &mut Executor,
        to: Subscription,
        names: &[&[u8]],
    ) -> Vec<Reply> {
        let listener = self.client.listener();
        let channels = executor.engine.channels();
        let mut replies = Vec::with_capacity(names.len());
        for name in names {
            if channels.subscribe(listener, to, name) {
                self.listening_bytes += name.len() + NAME_BYTES;
            }
            let count = Self::count_shown(channels, listener.client, to);
            replies.push(told(words(to).0, Some(name), count));
        }
        self.note_listening(executor);
        replies
    }

    /// What replies to SUBSCRIBE count: sharded channels apart from the others.
    fn count_shown(
        channels: &quorlock_engine::channels::Channels,
        id: u64,
        to: Subscription,
    ) -> Reply {
        Reply::count(match to {
            Subscription::Shard => channels.count_of(id, to),
            _ => {
                channels.count_of(id, Subscription::Channel)
                    + channels.count_of(id, Subscription::Pattern)
            }
        })
    }
}

pub(super) fn subscribe(
    session: &mut Session,
    batch: &mut Batch<'_>,
    to: Subscription,
    arguments: &[&[u8]],
) -> Answered {
    let names = &arguments[1..];
    let is_long = |name: &&[u8]| name.len() > PATTERN_BYTES_MAX;
    if to == Subscription::Pattern && names.iter().any(is_long) {
        return Err(PATTERN_TOO_LONG.into());
    }
    let bytes = names
        .iter()
        .map(|name| name.len() + NAME_BYTES)
        .sum::<usize>();
    if session.listening_bytes + bytes > LISTENING_BYTES_MAX {
        return Err(TOO_MANY.into());
    }
    if batch.has_upstream() {
        return Ok(batch.listen_upstream(session, to, names)?);
    }
    let (executor, _) = batch.executor()?;
    Ok(Answer::Many(session.register(executor, to, names)))
}

pub(super) fn unsubscribe(
    session: &mut Session,
    batch: &mut Batch<'_>,
    to: Subscription,
    arguments: &[&[u8]],
) -> Answered {
    let id = session.client.id;
    let (executor, _) = batch.executor()?;
    let channels = executor.engine.channels();
    let all = channels.names_of(id, to);
    let names: Vec<&[u8]> = match &arguments[1..] {
        [] => all.iter().map(AsRef::as_ref).collect(),
        named => named.to_vec(),
    };
    let mut replies = Vec::with_capacity(names.len().max(1));
    let mut ended = Vec::new();
    for name in &names {
        if channels.unsubscribe(id, to, name) {
            session.listening_bytes -= name.len() + NAME_BYTES;
            ended.push(Bytes::copy_from_slice(name));
        }
        let count = Session::count_shown(channels, id, to);
        replies.push(told(words(to).1, Some(name), count));
    }
    if names.is_empty() {
        let count = Session::count_shown(channels, id, to);
        replies.push(told(words(to).1, None, count));
    }
    session.note_listening(executor);
    batch.unlisten_upstream(session, to, ended);
    Ok(Answer::Many(replies))
}

fn told(what: &'static str, name: Option<&[u8]>, count: Reply) -> Reply {
    let name = name.map_or(Reply::Nil, Reply::bulk);
    Reply::Push(vec![Reply::bulk(what), name, count])
}

fn words(to: Subscription) -> (&'static str, &'static str) {
    match to {
        Subscription::Channel => ("subscribe", "unsubscribe"),
        Subscription::Pattern => ("psubscribe", "punsubscribe"),
        Subscription::Shard => ("ssubscribe", "sunsubscribe"),
    }
}

pub(super) fn pubsub(_: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    let request = NamedRequest::of(arguments);
    request.check()?;
    let mut budget = batch.node.settings.reply_budget();
    let (executor, _) = batch.executor()?;
    let channels = executor.engine.channels();
    let kind = match request.names().1 {
        "shardchannels" | "shardnumsub" => Subscription::Shard,
        _ => Subscription::Channel,
    };
    let mut replies = Vec::new();
    match (request.names().1, &arguments[2..]) {
        ("channels" | "shardchannels", [] | [_]) => {
            let pattern = arguments.get(2);
            if pattern.is_some_and(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
                return Err(PATTERN_TOO_LONG.into());
            }
            let mut steps = GlobBudget::default();
            for name in channels.names(kind) {
                match pattern.map(|pattern| steps.matches(pattern, name)) {
                    Some(Ok(false)) => continue,
                    Some(Ok(true)) | None => {}
                    Some(Err(_)) => return Err(PATTERN_TOO_EXPENSIVE.into()),
                }
                let charged = budget.charge(name.len());
                charged.map_err(ReplyTooLarge::of_command)?;
                replies.push(Reply::bulk(name));
            }
        }
        ("numsub" | "shardnumsub", names) => {
            for name in names {
                let charged = budget.charge(name.len() + NAME_BYTES);
                charged.map_err(ReplyTooLarge::of_command)?;
                replies.push(Reply::bulk(name));
                replies.push(Reply::count(channels.listeners(kind, name)));
            }
        }
        ("numpat", _) => {
            let patterns = channels.len(Subscription::Pattern);
            return Ok(Answer::Reply(Reply::count(patterns)));
        }
        ("help", _) => return Ok(Answer::Reply(Reply::help("PUBSUB", HELP))),
        _ => return Err(try_help("PUBSUB", arguments[1]).into()),
    }
    Ok(Answer::Reply(Reply::Array(replies)))
}

const HELP: &[&str] = &[
    "CHANNELS [<pattern>]",
    "    The channels that somebody listens to.",
    "NUMPAT",
    "    The number of patterns that somebody listens to.",
    "NUMSUB [<channel> ...]",
    "    How many listen to each channel, those with patterns left out.",
    "SHARDCHANNELS [<pattern>]",
    "    The sharded channels that somebody listens to.",
    "SHARDNUMSUB [<channel> ...]",
    "    How many listen to each sharded channel.",
];

/// What one connection may listen to, in bytes.
const LISTENING_BYTES_MAX: usize = 24 << 20;

/// Memory of a name beside its bytes, in the tables of names and of connections.
const NAME_BYTES: usize = 224;

const TOO_MANY: ErrorReply = ErrorReply::fixed(
    "ERR a connection may listen to channels and patterns whose names take 24 MiB, 224 bytes for each \
     included. None of these is subscribed",
);
