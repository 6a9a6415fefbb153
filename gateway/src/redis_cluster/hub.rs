//! The servers of a cluster: a connection to each that is asked, who has which hash slot, and the way of a request to the master of its
//! name.
//!
//! Invariants: a request that a server may have carried out is not sent again: the caller decides. One that was not sent, or that a server
//! has refused because another one has the slot, goes there. No replica is ever asked to read, so what it is asked it refuses with the
//! master's address. A server that does not answer in time is not asked for as long again, so it holds up nobody for long.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::question::request;
use redis_protocol::redis_keyslot;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep, timeout};

use super::link::{Driver, Link, Unanswered};
use super::slots::{Redirect, Server, Slots};

/// Makes a connection to a server.
pub(super) type Connect = Box<dyn Fn(&Server) -> Connecting>;
pub(super) type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn AnyStream>>>>>;

pub(super) trait AnyStream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> AnyStream for S {}

/// A connection to a server, once it is made.
type Place = Rc<Mutex<Option<Link>>>;

pub(super) struct Hub {
    connect: Connect,
    /// The servers of the address.
    seeds: Vec<Server>,
    /// The request that logs in, where there is one.
    login: Option<Vec<u8>>,
    /// How long a server is waited for.
    patience: Duration,
    links: RefCell<HashMap<Server, Place>>,
    /// The connection on which servers tell of releases.
    listener: Place,
    published: mpsc::UnboundedSender<Bytes>,
    has_lost_listener: Rc<Cell<bool>>,
    /// The servers that did not answer in time, and when that was.
    silent: RefCell<HashMap<Server, Instant>>,
    slots: RefCell<Slots>,
    version: RefCell<String>,
    refreshed: Mutex<Option<Instant>>,
    drivers: RefCell<Vec<Driver>>,
    waker: RefCell<Option<Waker>>,
}

/// Why a server has not answered.
struct Failed {
    words: String,
    may_have_run: bool,
}

impl Hub {
    pub(super) fn new(
        connect: Connect,
        seeds: &[(String, u16)],
        (user, password): (Option<&str>, Option<&str>),
        patience: Duration,
        published: mpsc::UnboundedSender<Bytes>,
    ) -> Self {
        let login = password.map(|password| {
            let words = [Some("AUTH"), user, Some(password)];
            let words: Vec<&[u8]> = words.into_iter().flatten().map(str::as_bytes).collect();
            request(&words)
        });
        let seeds = seeds.iter().map(|(host, port)| Server::new(host, *port));
        Self {
            connect,
            seeds: seeds.collect(),
            login,
            patience,
            links: RefCell::default(),
            listener: Place::default(),
            published,
            has_lost_listener: Rc::default(),
            silent: RefCell::default(),
            slots: RefCell::default(),
            version: RefCell::default(),
            refreshed: Mutex::new(None),
            drivers: RefCell::default(),
            waker: RefCell::default(),
        }
    }

    /// Moves all connections on.
    pub(super) fn poll_drivers(&self, context: &mut Context<'_>) {
        *self.waker.borrow_mut() = Some(context.waker().clone());
        let is_open = |driver: &mut Driver| driver.as_mut().poll(context).is_pending();
        self.drivers.borrow_mut().retain_mut(is_open);
    }

    /// Does this while the connections move on.
    pub(super) async fn driven<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.poll_drivers(context);
            work.as_mut().poll(context)
        })
        .await
    }

    /// The version of the servers, as the one says that was asked last.
    pub(super) fn version(&self) -> String {
        self.version.borrow().clone()
    }

    pub(super) fn masters(&self) -> Vec<Server> {
        self.slots.borrow().masters()
    }

    /// Asks the master of this name.
    pub(super) async fn ask(&self, name: &[u8], question: &[u8]) -> Result<NodeReply, String> {
        let slot = redis_keyslot(name);
        let mut server = self.master(slot).await?;
        let mut is_asking = false;
        for _ in 0..HOPS_MAX {
            let asked = match is_asking {
                true => self.ask_all(&server, [ASKING, question].concat(), 2).await,
                false => self.ask_all(&server, question.to_vec(), 1).await,
            };
            let reply = match asked {
                Ok(mut replies) => {
                    let reply = replies.pop().expect("each request has a reply");
                    // A user may lack the right to `ASKING`. The server hands its request back then, for ever.
                    match replies.pop() {
                        Some(refused @ NodeReply::Error(_)) => return Ok(refused),
                        _ => reply,
                    }
                }
                Err(failed) => {
                    // Another server may have its slots by now.
                    let _stays = self.refresh(Some(&server)).await;
                    let master = self.slots.borrow().master(slot).cloned();
                    let other = master.filter(|master| *master != server && !failed.may_have_run);
                    server = other.ok_or(failed.words)?;
                    is_asking = false;
                    continue;
                }
            };
            match Redirect::of(&reply, &server) {
                None => return Ok(reply),
                Some(Redirect::TryAgain) => sleep(TRY_AGAIN_AFTER).await,
                Some(Redirect::Moved(master)) => {
                    self.slots.borrow_mut().move_to(slot, master.clone());
                    (server, is_asking) = (master, false);
                }
                Some(Redirect::Ask(next)) => (server, is_asking) = (next, true),
            }
        }
        Err(format!(
            "ERR Redis Cluster: hash slot {slot} changes hands, ask again"
        ))
    }

    /// Asks this server for whatever names it has.
    pub(super) async fn ask_server(
        &self,
        server: &Server,
        bytes: Vec<u8>,
        count: usize,
    ) -> Result<Vec<NodeReply>, String> {
        let asked = self.ask_all(server, bytes, count).await;
        asked.map_err(|failed| failed.words)
    }

    async fn master(&self, slot: u16) -> Result<Server, String> {
        let known = self.slots.borrow().master(slot).cloned();
        if let Some(master) = known {
            return Ok(master);
        }
        let refreshed = self.refresh(None).await;
        refreshed.map_err(|error| format!("ERR {error}"))?;
        let known = self.slots.borrow().master(slot).cloned();
        known.ok_or_else(|| {
            format!("CLUSTERDOWN no server of the Redis Cluster has hash slot {slot}: see redis-cli --cluster check")
        })
    }

    /// Asks all servers that are known who has which slots, and believes the first that is in a cluster that works. Not so soon again.
    pub(super) async fn refresh(&self, without: Option<&Server>) -> io::Result<()> {
        let mut refreshed = self.refreshed.lock().await;
        if refreshed.is_some_and(|at| at.elapsed() < REFRESH_EVERY) {
            return Ok(());
        }
        let mut servers = self.masters();
        let seeds = self.seeds.iter().filter(|seed| !servers.contains(seed));
        let seeds: Vec<Server> = seeds.cloned().collect();
        servers.extend(seeds);
        let others = servers.iter().filter(|server| Some(*server) != without);
        let mut asking: Vec<_> = others
            .map(|server| Box::pin(self.slots_of(server)))
            .collect();
        let mut refusals = Vec::new();
        let first = poll_fn(|context| {
            let mut first = None;
            asking.retain_mut(|asking| match asking.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(Ok(slots)) => {
                    first = Some(slots);
                    false
                }
                Poll::Ready(Err(words)) => {
                    refusals.push(words);
                    false
                }
            });
            match first.is_some() || asking.is_empty() {
                true => Poll::Ready(first),
                false => Poll::Pending,
            }
        });
        let Some((slots, version)) = first.await else {
            return Err(unusable(refusals));
        };
        *self.slots.borrow_mut() = slots;
        *self.version.borrow_mut() = version;
        *refreshed = Some(Instant::now());
        Ok(())
    }

    /// Who has which slots, and the version, as this server says, if its cluster works.
    async fn slots_of(&self, server: &Server) -> Result<(Slots, String), String> {
        let words: [&[&[u8]]; 3] = [
            &[b"CLUSTER", b"SLOTS"],
            &[b"CLUSTER", b"INFO"],
            &[b"INFO", b"server"],
        ];
        let question = words.map(request).concat();
        let replies = self.ask_server(server, question, 3).await?;
        let at = |words: String| format!("{server}: {}", remedied(words));
        let slots = Slots::read(&replies[0], server).map_err(at)?;
        let text = |reply: &NodeReply| {
            String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned()
        };
        if text(&replies[1]).contains("cluster_state:fail") {
            let words =
                "CLUSTERDOWN the cluster is down, as it says: see redis-cli --cluster check";
            return Err(at(words.to_owned()));
        }
        let info = text(&replies[2]);
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let version = field("valkey_version:").or(field("redis_version:"));
        Ok((slots, version.unwrap_or("?").to_owned()))
    }

    async fn ask_all(
        &self,
        server: &Server,
        bytes: Vec<u8>,
        count: usize,
    ) -> Result<Vec<NodeReply>, Failed> {
        let failed = |words: &str, may_have_run| Failed {
            words: format!("ERR Redis Cluster: {server}: {words}"),
            may_have_run,
        };
        let silent = self.silent.borrow().get(server).copied();
        if silent.is_some_and(|at| at.elapsed() < self.patience) {
            return Err(failed("has not answered in time", false));
        }
        let asking = async {
            let link = self.link(server).await.map_err(Unanswered::NotSent)?;
            link.ask(bytes, count).await
        };
        match timeout(self.patience, asking).await {
            Ok(Ok(replies)) => {
                self.silent.borrow_mut().remove(server);
                Ok(replies)
            }
            Ok(Err(Unanswered::NotSent(words))) => Err(failed(&words, false)),
            Ok(Err(Unanswered::Lost(words))) => Err(failed(&words, true)),
            Err(_) => {
                // What it still answers is for nobody.
                self.links.borrow_mut().remove(server);
                let now = Instant::now();
                self.silent.borrow_mut().insert(server.clone(), now);
                Err(failed("does not answer in time", true))
            }
        }
    }

    /// The connection to this server. Those who wait for it get it in their order.
    async fn link(&self, server: &Server) -> Result<Link, String> {
        let place = Rc::clone(self.links.borrow_mut().entry(server.clone()).or_default());
        let mut place = place.lock().await;
        if let Some(link) = place.as_ref().filter(|link| link.is_open()) {
            return Ok(link.clone());
        }
        let (link, driver) = self.open(server).await?;
        self.drive(driver);
        self.log_in(&link).await?;
        *place = Some(link.clone());
        Ok(link)
    }

    async fn open(&self, server: &Server) -> Result<(Link, Driver), String> {
        let connected = (self.connect)(server).await;
        let stream = connected.map_err(|error| error.to_string())?;
        Ok(Link::start(stream, self.published.clone()))
    }

    async fn log_in(&self, link: &Link) -> Result<(), String> {
        let Some(login) = &self.login else {
            return Ok(());
        };
        match link.ask(login.clone(), 1).await {
            Ok(replies) => match &replies[..] {
                [NodeReply::Error(words)] => Err(remedied(words.clone())),
                _ => Ok(()),
            },
            Err(Unanswered::NotSent(words) | Unanswered::Lost(words)) => Err(words),
        }
    }

    fn drive(&self, driver: Driver) {
        self.drivers.borrow_mut().push(driver);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Has servers tell from now on, or no more, what is published on this channel. Any server of the cluster does.
    pub(super) async fn listen(&self, command: &[u8], channel: &[u8]) -> Result<(), String> {
        let mut listener = self.listener.lock().await;
        let link = match listener.as_ref().filter(|link| link.is_open()) {
            Some(link) => link.clone(),
            None => {
                let opening = timeout(self.patience, self.open_listener());
                let link = opening.await.map_err(|_| said("no answer in time"))??;
                *listener = Some(link.clone());
                link
            }
        };
        let asked = link.ask(request(&[command, channel]), 1);
        match timeout(self.patience, asked).await {
            Ok(Ok(replies)) => match &replies[..] {
                [NodeReply::Error(words)] => Err(words.clone()),
                _ => Ok(()),
            },
            Ok(Err(Unanswered::NotSent(words) | Unanswered::Lost(words))) => Err(said(words)),
            Err(_) => {
                // Another server may tell.
                *listener = None;
                Err(said("no answer in time"))
            }
        }
    }

    /// The first connection to a master that can be made.
    async fn open_listener(&self) -> Result<Link, String> {
        let mut reason = said("no master is known");
        for server in self.masters() {
            if self.silent.borrow().contains_key(&server) {
                continue;
            }
            match self.open(&server).await {
                Err(words) => reason = said(format_args!("{server}: {words}")),
                Ok((link, driver)) => {
                    let has_lost = Rc::clone(&self.has_lost_listener);
                    self.drive(Box::pin(async move {
                        driver.await;
                        has_lost.set(true);
                    }));
                    self.log_in(&link).await.map_err(said)?;
                    return Ok(link);
                }
            }
        }
        Err(reason)
    }

    /// Whether a connection has ended on which servers told of releases, since this was last asked.
    pub(super) fn take_lost_listener(&self) -> bool {
        self.has_lost_listener.take()
    }
}

/// Why no server tells its slots. What asking again does not mend is told as such where it holds for all.
fn unusable(refusals: Vec<String>) -> io::Error {
    let is_lasting = |words: &String| LASTING.iter().any(|lasting| words.contains(lasting));
    let kind = match !refusals.is_empty() && refusals.iter().all(is_lasting) {
        true => io::ErrorKind::InvalidData,
        false => io::ErrorKind::Other,
    };
    let mut each: Vec<String> = Vec::new();
    for words in refusals {
        let words = words.strip_prefix("ERR Redis Cluster: ").unwrap_or(&words);
        if !each.iter().any(|other| other == words) {
            each.push(words.to_owned());
        }
    }
    io::Error::new(kind, format!("Redis Cluster: {}", each.join("; ")))
}

/// A server's words, and what to do about them.
fn remedied(words: String) -> String {
    let remedy = if words.contains("cluster support disabled") {
        ": it is no server of a Redis Cluster, write redis://HOST:PORT for one of its own"
    } else if words.starts_with("NOAUTH") {
        ": write redis-cluster://:PASSWORD@HOST:PORT"
    } else if words.starts_with("WRONGPASS") || words.starts_with("ERR AUTH") {
        ": the user or password in the address is not the cluster's"
    } else {
        ""
    };
    format!("{words}{remedy}")
}

fn said(words: impl std::fmt::Display) -> String {
    format!("ERR Redis Cluster: {words}")
}

const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
/// A request goes on so often: to another server, or to the same one again.
const HOPS_MAX: usize = 8;
/// Until the rest of several names has been moved.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);
const REFRESH_EVERY: Duration = Duration::from_millis(100);
/// Words that the same question gets again.
const LASTING: [&str; 6] = [
    "cluster support disabled",
    "NOAUTH",
    "WRONGPASS",
    "ERR AUTH",
    "NOPERM",
    "does not speak Redis's protocol",
];
