//! Locks on a Redis Cluster: each name on the master of its hash slot.
//!
//! Invariants: a grant is what a master has answered to a script, which it runs as one. Nothing is read from a replica. A failover may
//! forget locks, because replication is asynchronous: who takes locks here has accepted that. There are no fences.
//!
//! The protocol and the hash slots are those of the crate redis-protocol, which the client has anyway. The crate `redis` would be 32 packages
//! more, with connections, TLS and names of its own; it keeps all requests waiting while it asks a server for the slots, and lets other requests
//! come between ASKING and the one that it is for (docs/adr/0018-own-clients-of-other-systems.md).

mod hub;
mod known_servers;
mod link;
mod order;
mod slots;
mod view;

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::page_walk::{PageStep, PageWalk};
use quorlock_client_rules::inspection::question::request;
use quorlock_client_rules::{
    ACQUIRE_ALL_SCRIPT, EXTEND_SCRIPT, RELEASE_ALL_SCRIPT, SET_END_AND_TOKEN_SCRIPT, SET_END_SCRIPT,
};
use redis_protocol::redis_keyslot;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use self::hub::{AnyStream, Connecting, Hub};
pub use self::known_servers::KnownServers;
use self::link::Driver;
use self::order::About;
use self::slots::{Redirect, Server};
use crate::connection::Gateway;
use crate::reply::Reply;
use crate::request::{Acquire, Operation, Several};
use crate::system::{Done, Holder, Page, Running, System, Taken};

/// Finds the servers of a cluster by those of the address, which `connect` makes connections to, and speaks to each when it is needed. `login`
/// is a user and a password, of which the user may be missing. No server is waited for longer than `patience`. `known` are the servers in
/// which earlier connections have taken locks: another cluster is refused.
///
/// # Errors
/// Why the cluster cannot keep locks, for each server of the address.
pub async fn connect<C, F, S>(
    connect: C,
    seeds: &[(String, u16)],
    login: (Option<&str>, Option<&str>),
    patience: Duration,
    known: KnownServers,
) -> io::Result<Gateway>
where
    C: Fn(String, u16) -> F + 'static,
    F: Future<Output = io::Result<S>> + 'static,
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let connect = move |server: &Server| -> Connecting {
        let connecting = connect(server.host.to_string(), server.port);
        Box::pin(async move {
            let stream: Box<dyn AnyStream> = Box::new(connecting.await?);
            Ok(stream)
        })
    };
    let (published, releases) = mpsc::unbounded_channel();
    let hub = Hub::new(Box::new(connect), seeds, login, patience, known, published);
    let refreshed = hub.driven(hub.refresh(None)).await;
    refreshed.map_err(|unusable| {
        let kind = match unusable.is_lasting {
            true => io::ErrorKind::InvalidData,
            false => io::ErrorKind::Other,
        };
        io::Error::new(kind, unusable.words)
    })?;
    let hub = Rc::new(hub);
    let kept = Rc::clone(&hub);
    Ok(Gateway::new(Box::new(RedisCluster {
        hub,
        upkeep: Box::pin(async move { kept.upkeep().await }),
        releases,
        watched: HashSet::new(),
        told: Vec::new(),
    })))
}

struct RedisCluster {
    hub: Rc<Hub>,
    /// What goes on without requests.
    upkeep: Driver,
    /// The channels of releases.
    releases: mpsc::UnboundedReceiver<Bytes>,
    watched: HashSet<Bytes>,
    /// Watched names whose releases may have been missed.
    told: Vec<Bytes>,
}

impl RedisCluster {
    /// Runs a script about one name on its master. Its first argument is a token. Its reply is read by the function.
    fn run<T: 'static>(
        &self,
        script: &'static [u8],
        name: Bytes,
        arguments: Vec<Bytes>,
        read: impl FnOnce(NodeReply) -> Result<T, String> + 'static,
    ) -> Running<T> {
        let hub = Rc::clone(&self.hub);
        Box::pin(async move {
            let names = vec![name];
            let question = evaluation(script, &names, &arguments);
            match hub.ask(about(names, &arguments), &question).await? {
                NodeReply::Error(words) => Err(words),
                reply => read(reply),
            }
        })
    }
}

impl System for RedisCluster {
    fn name(&self) -> &'static str {
        "Redis Cluster"
    }

    fn has_fences(&self) -> bool {
        false
    }

    fn info(&self) -> Running<String> {
        let version = self.hub.version();
        // All servers are one to the client, whoever of them is a master.
        let text = format!(
            "# Server\r\nrun_id:redis-cluster\r\nquorlock_gateway:redis-cluster {version}\r\nrole:master\r\n"
        );
        Box::pin(async move { Ok(text) })
    }

    fn acquire(&self, acquire: Acquire) -> Running<Taken> {
        let arguments = vec![acquire.token, millis(acquire.ttl)];
        self.run(
            ACQUIRE_ALL_SCRIPT,
            acquire.name,
            arguments,
            |reply| match reply {
                NodeReply::Integer(1) => Ok(Taken::Granted(NO_FENCE)),
                NodeReply::Text(holder) => Ok(Taken::Held(NO_FENCE, Bytes::from(holder))),
                other => Err(odd(&other)),
            },
        )
    }

    fn operate(&self, operation: Operation) -> Running<Done> {
        let (script, name, arguments) = match operation {
            Operation::Extend(name, token, ttl) => (EXTEND_SCRIPT, name, vec![token, millis(ttl)]),
            Operation::SetEnd(name, token, ttl, None) => {
                (SET_END_SCRIPT, name, vec![token, millis(ttl)])
            }
            Operation::SetEnd(name, token, ttl, Some(new)) => {
                let arguments = vec![token, millis(ttl), new];
                (SET_END_AND_TOKEN_SCRIPT, name, arguments)
            }
            Operation::Release(name, token) => (RELEASE_AND_PUBLISH_SCRIPT, name, vec![token]),
            Operation::Fence(..) => {
                return Box::pin(async { Err("ERR Redis Cluster has no fences".to_owned()) });
            }
        };
        self.run(script, name, arguments, |reply| match reply {
            NodeReply::Integer(1) => Ok(Done::Held),
            NodeReply::Integer(0) => Ok(Done::Free),
            NodeReply::Integer(-1) => Ok(Done::Other),
            other => Err(odd(&other)),
        })
    }

    fn run_on_all(&self, several: Several) -> Running<Reply> {
        let Several {
            script,
            names,
            arguments,
        } = several;
        let mut slots = names.iter().map(|name| redis_keyslot(name));
        let first = slots.next();
        if slots.any(|slot| Some(slot) != first) {
            // Nobody has got them.
            let is_release = script == RELEASE_ALL_SCRIPT;
            return Box::pin(async move {
                match is_release {
                    true => Ok(Reply::Number(0)),
                    false => Err(IN_DIFFERENT_SLOTS.to_owned()),
                }
            });
        }
        let script = match script {
            RELEASE_ALL_SCRIPT => RELEASE_AND_PUBLISH_SCRIPT,
            other => other,
        };
        let hub = Rc::clone(&self.hub);
        Box::pin(async move {
            let question = evaluation(script, &names, &arguments);
            match hub.ask(about(names, &arguments), &question).await? {
                NodeReply::Integer(number) => Ok(Reply::Number(number)),
                NodeReply::Text(text) => Ok(Reply::Text(text)),
                NodeReply::Error(words) => Err(words),
                other => Err(odd(&other)),
            }
        })
    }

    fn look(&self, name: Bytes) -> Running<Option<Holder>> {
        self.run(LOOK_SCRIPT, name, Vec::new(), |reply| holder(&reply))
    }

    fn watch(&mut self, name: Bytes) -> Running<Option<Holder>> {
        self.watched.insert(name.clone());
        let hub = Rc::clone(&self.hub);
        // A release before the first is seen by the second, and one after it is told.
        let look = self.look(name.clone());
        Box::pin(async move {
            hub.listen(b"SUBSCRIBE", &channel(&name)).await?;
            look.await
        })
    }

    fn unwatch(&mut self, name: &Bytes) -> Running<()> {
        if !self.watched.remove(name) {
            return Box::pin(async { Ok(()) });
        }
        let (hub, channel) = (Rc::clone(&self.hub), channel(name));
        Box::pin(async move {
            // Without a connection nothing is told any more either.
            let _stays = hub.listen(b"UNSUBSCRIBE", &channel).await;
            Ok(())
        })
    }

    fn list(&self, pattern: Bytes, _: Bytes) -> Running<Page> {
        let hub = Rc::clone(&self.hub);
        Box::pin(async move {
            // A master that is not known yet has locks as well.
            hub.refresh(None)
                .await
                .map_err(|unusable| format!("ERR {}", unusable.words))?;
            let (mut locks, mut names) = (Vec::new(), HashSet::new());
            for master in hub.masters() {
                // A page of keys that have all moved away is asked about one after the other.
                let listed = timeout(2 * LIST_PATIENCE, locks_on(&hub, &master, &pattern)).await;
                let listed = listed.map_err(|_| {
                    format!(
                        "ERR Redis Cluster: {master}: a page of its list of locks takes too long"
                    )
                })?;
                for (name, holder) in listed? {
                    // One that is on its way to another server is on both lists.
                    if names.insert(name.clone()) {
                        locks.push((name, Some(holder)));
                    }
                }
            }
            Ok(Page { locks, next: None })
        })
    }

    fn poll_released(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.hub.poll_drivers(context);
        let _goes_on = self.upkeep.as_mut().poll(context);
        if self.hub.take_lost_listener() {
            self.told.extend(self.watched.iter().cloned());
        }
        if let Some(name) = self.told.pop() {
            return Poll::Ready(Ok(name));
        }
        while let Poll::Ready(Some(channel)) = self.releases.poll_recv(context) {
            let name = channel.strip_prefix(RELEASES).unwrap_or_default();
            if let Some(name) = self.watched.get(name) {
                return Poll::Ready(Ok(name.clone()));
            }
        }
        Poll::Pending
    }
}

/// The locks on this master whose names match.
async fn locks_on(
    hub: &Hub,
    master: &Server,
    pattern: &[u8],
) -> Result<Vec<(Bytes, Holder)>, String> {
    let mut locks = Vec::new();
    let (mut walk, begun) = (PageWalk::start(LIST_PATIENCE), Instant::now());
    for _ in 0..PAGES_MAX {
        let cursor = walk.cursor();
        let scan: [&[u8]; 6] = [b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000"];
        let replies = hub.ask_server(master, request(&scan), 1).await?;
        let (next, names) = match &replies[..] {
            [NodeReply::Array(parts)] if let [next, names] = &parts[..] => (next, names),
            [NodeReply::Error(words)] => return Err(words.clone()),
            _ => return Err("ERR Redis Cluster: SCAN is answered with no names".to_owned()),
        };
        let next = next.text().unwrap_or(b"0");
        let names = names.parts().unwrap_or_default().iter();
        let names: Vec<Bytes> = names
            .filter_map(|name| name.text().map(Bytes::copy_from_slice))
            .collect();
        if names.len() > PAGE_NAMES_MAX {
            return Err(format!(
                "ERR Redis Cluster: {master}: a page of its list has more names than were asked for"
            ));
        }
        let looks = names
            .iter()
            .flat_map(|name| evaluation(LOOK_SCRIPT, std::slice::from_ref(name), &[]));
        let looks = hub.ask_server(master, looks.collect(), names.len()).await?;
        for (name, mut look) in names.into_iter().zip(looks) {
            if Redirect::of(&look, master).is_some() {
                let question = evaluation(LOOK_SCRIPT, std::slice::from_ref(&name), &[]);
                look = hub.ask(about(vec![name.clone()], &[]), &question).await?;
            }
            if let Ok(Some(holder)) = holder(&look) {
                locks.push((name, holder));
            }
        }
        match walk.read(next, begun.elapsed()) {
            PageStep::Next => {}
            PageStep::Whole => return Ok(locks),
            PageStep::Unfinished(why) => return Err(format!("ERR Redis Cluster: {master}: {why}")),
        }
    }
    Err(format!(
        "ERR Redis Cluster: {master} has too many other keys to look for locks: say how their names begin"
    ))
}

/// The holder that a look has found, if there is one.
fn holder(reply: &NodeReply) -> Result<Option<Holder>, String> {
    match reply.parts() {
        Some([NodeReply::Nil, _]) => Ok(None),
        Some([NodeReply::Text(token), left]) => Ok(Some(Holder {
            token: Bytes::copy_from_slice(token),
            fence: None,
            // Somebody else has made the key: it stays until it is deleted.
            left: left.count().map_or(FOR_EVER, Duration::from_millis),
            owner: None,
        })),
        _ => Err(match reply {
            NodeReply::Error(words) => words.clone(),
            other => odd(other),
        }),
    }
}

/// The request that runs a script, with its text: a server that was restarted or has just got the slot knows no scripts.
fn evaluation(script: &[u8], names: &[Bytes], arguments: &[Bytes]) -> Vec<u8> {
    let count = names.len().to_string();
    let mut words: Vec<&[u8]> = vec![b"EVAL", script, count.as_bytes()];
    words.extend(names.iter().chain(arguments).map(|word| &word[..]));
    request(&words)
}

/// What the order of requests goes by. Those that change a lock say its token first, and the client's scripts no other token but the one that a
/// lock gets instead.
fn about(names: Vec<Bytes>, arguments: &[Bytes]) -> About {
    let tokens = arguments.first().into_iter().chain(arguments.get(2));
    About {
        names,
        tokens: tokens.cloned().collect(),
    }
}

/// The channel on which releases of this lock are told. All servers of a cluster tell them.
fn channel(name: &[u8]) -> Vec<u8> {
    [RELEASES, name].concat()
}

fn millis(time: Duration) -> Bytes {
    Bytes::from(time.as_millis().to_string())
}

fn odd(reply: &NodeReply) -> String {
    format!("ERR Redis Cluster: {}", reply.refusal())
}

/// Frees those of the locks that are held under the token, and tells who waits: 1 if that was each of them, 0 otherwise. A user who may not
/// publish frees them all the same. A key of another type is not held, and keeps none of the others; any other error is raised.
const RELEASE_AND_PUBLISH_SCRIPT: &[u8] = b"local all = 1 for _, k in ipairs(KEYS) do \
local v = redis.pcall('GET', k) \
if type(v) == 'table' and string.sub(v.err, 1, 10) ~= 'WRONGTYPE ' then v = redis.call('GET', k) end \
if v == ARGV[1] then redis.call('DEL', k) \
redis.pcall('PUBLISH', 'quorlock:released:' .. k, '') else all = 0 end end return all";

/// The token and the time left. What is too long for a token is not read.
const LOOK_SCRIPT: &[u8] = b"local t = redis.call('TYPE', KEYS[1])['ok'] \
if t ~= 'none' and (t ~= 'string' or redis.call('STRLEN', KEYS[1]) > 1024) then \
return redis.error_reply('WRONGTYPE the key is no lock') end \
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}";

const RELEASES: &[u8] = b"quorlock:released:";
const IN_DIFFERENT_SLOTS: &str = "ERR these names are in different hash slots of Redis Cluster: give them one hash tag, as {order}:stock and {order}:mail \
have, or take several at once on Quorlock nodes";
const NO_FENCE: i64 = 0;
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Of a thousand keys each.
const PAGES_MAX: usize = 1000;
/// A server has some more where its table grows.
const PAGE_NAMES_MAX: usize = 100_000;
/// Nobody waits longer for a list: the client gives its nodes so long.
const LIST_PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
