//! The servers of a cluster: a connection to each that is asked, who has which hash slot, and the way of a request to the master of its
//! name.
//!
//! Invariants: a request that a server may have carried out is not sent again: the caller decides. One that was not sent, or that a server
//! has refused because another one has the slot, goes there. No replica is ever asked to read, so what it is asked it refuses with the
//! master's address. A server that does not answer in time is not asked for as long again, so it holds up nobody for long. A request that is
//! handed back is not asked again behind a later one about the same lock.

mod listener;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
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

use self::listener::Listener;
use super::known_servers::{KnownServers, SILENT_SEED_FOR};
use super::link::{Driver, Link, Unanswered};
use super::order::{About, Order, UnderWay};
use super::slots::{Redirect, Server, Slots};
use super::view::{self, Unusable, View};

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
    listener: Mutex<Option<Listener>>,
    published: mpsc::UnboundedSender<Bytes>,
    has_lost_listener: Cell<bool>,
    /// The requests about locks.
    order: Order,
    slots: RefCell<Slots>,
    /// The servers of the cluster, as this connection and those before it have come to know them.
    known: KnownServers,
    /// The servers that a connection was made to.
    met: RefCell<HashSet<Server>>,
    version: RefCell<String>,
    /// When the servers were asked who has which slots, a moment ago.
    refreshed: Mutex<Vec<Refreshed>>,
    drivers: RefCell<Vec<Driver>>,
    waker: RefCell<Option<Waker>>,
}

/// The servers were asked who has which slots.
struct Refreshed {
    at: Instant,
    /// The one that was left out.
    without: Option<Server>,
    outcome: Result<(), Unusable>,
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
        known: KnownServers,
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
            listener: Mutex::default(),
            published,
            has_lost_listener: Cell::default(),
            order: Order::default(),
            slots: RefCell::default(),
            known,
            met: RefCell::default(),
            version: RefCell::default(),
            refreshed: Mutex::default(),
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

    /// Asks the master of these names, which have one slot. Requests stand in the order in which they are polled first.
    pub(super) async fn ask(&self, about: About, question: &[u8]) -> Result<NodeReply, String> {
        let request = self.order.begin(about);
        let slot = redis_keyslot(&request.names()[0]);
        let mut server = self.master(slot).await?;
        let mut is_asking = false;
        // A server gets half of the caller's time.
        let until = Instant::now() + self.patience * 2;
        for _ in 0..HOPS_MAX {
            let asked = self.ask_until(&server, question, is_asking, &request, until);
            let reply = match asked.await {
                Ok(reply) => reply,
                Err(failed) => {
                    let other = self.other_master(slot, &server).await;
                    let may_go_on = !failed.may_have_run && !request.is_passed();
                    server = other.filter(|_| may_go_on).ok_or(failed.words)?;
                    is_asking = false;
                    continue;
                }
            };
            (server, is_asking) = match Redirect::of(&reply, &server) {
                None if serves_nothing(&reply) => match self.other_master(slot, &server).await {
                    Some(master) if !request.is_passed() => (master, false),
                    _ => return Ok(reply),
                },
                None | Some(Redirect::TryAgain) => return Ok(reply),
                Some(Redirect::Moved(master)) => {
                    self.slots.borrow_mut().move_to(slot, master.clone());
                    (master, false)
                }
                Some(Redirect::Ask(next)) => (next, true),
            };
        }
        Err(format!(
            "ERR Redis Cluster: hash slot {slot} changes hands, ask again"
        ))
    }

    /// Asks this server, until then also while it waits for the rest of several names to come to it. A later request about these names ends
    /// that: a release would be executed before the acquisition that it is for, or after the next one.
    async fn ask_until(
        &self,
        server: &Server,
        question: &[u8],
        is_asking: bool,
        request: &UnderWay,
        until: Instant,
    ) -> Result<NodeReply, Failed> {
        loop {
            let mut replies = match is_asking {
                true => self.ask_all(server, [ASKING, question].concat(), 2).await?,
                false => self.ask_all(server, question.to_vec(), 1).await?,
            };
            let reply = replies.pop().expect("each request has a reply");
            let redirect = Redirect::of(&reply, server);
            // A user may lack the right to `ASKING`. The server hands its request back then, for ever.
            if let Some(refused @ NodeReply::Error(_)) = replies.pop()
                && redirect.is_some()
            {
                return Ok(refused);
            }
            let is_again = redirect == Some(Redirect::TryAgain);
            if !is_again || Instant::now() + TRY_AGAIN_AFTER >= until {
                return Ok(reply);
            }
            sleep(TRY_AGAIN_AFTER).await;
            if request.is_passed() {
                return Ok(reply);
            }
        }
    }

    /// The master of a slot whose master of before fails, if the others know of another one by now.
    async fn other_master(&self, slot: u16, failed: &Server) -> Option<Server> {
        let _stays = self.refresh(Some(failed)).await;
        let master = self.slots.borrow().master(slot).cloned();
        master.filter(|master| master != failed)
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
        refreshed.map_err(|unusable| format!("ERR {}", unusable.words))?;
        let known = self.slots.borrow().master(slot).cloned();
        known.ok_or_else(|| {
            format!("CLUSTERDOWN no server of the Redis Cluster has hash slot {slot}: see redis-cli --cluster check")
        })
    }

    /// Asks all servers that are known who has which slots. The first is believed that is in a cluster that works, and in the same one as
    /// before. A list of servers is believed only once none of those that answer is in another cluster than the others. Not so soon again, but
    /// an error says nothing of a server that was not asked.
    pub(super) async fn refresh(&self, without: Option<&Server>) -> Result<(), Unusable> {
        let mut refreshed = self.refreshed.lock().await;
        refreshed.retain(|earlier| earlier.at.elapsed() < REFRESH_EVERY);
        let holds = |earlier: &&Refreshed| {
            let left_out = earlier.without.as_ref();
            earlier.outcome.is_ok() || left_out.is_none() || left_out == without
        };
        if let Some(earlier) = refreshed.iter().rev().find(holds) {
            return earlier.outcome.clone();
        }
        let outcome = self.look_again(without).await;
        refreshed.push(Refreshed {
            at: Instant::now(),
            without: without.cloned(),
            outcome: outcome.clone(),
        });
        outcome
    }

    async fn look_again(&self, without: Option<&Server>) -> Result<(), Unusable> {
        let known = self.known.ids().clone();
        let mut servers = self.masters();
        let is_first = servers.is_empty();
        let seeds = self.seeds.iter().filter(|seed| !servers.contains(seed));
        let seeds: Vec<Server> = seeds.cloned().collect();
        servers.extend(seeds);
        let others = servers.iter().filter(|server| Some(*server) != without);
        let mut asking: Vec<_> = others
            .map(|server| {
                let was_silent = self.known.is_silent(server, SILENT_SEED_FOR);
                (Box::pin(self.view_of(server)), was_silent)
            })
            .collect();
        let (mut views, mut refusals): (Vec<View>, Vec<String>) = Default::default();
        poll_fn(|context| {
            asking.retain_mut(|(asking, _)| match asking.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(view) => {
                    match view {
                        Ok(view) => views.push(view),
                        Err(words) => refusals.push(words),
                    }
                    false
                }
            });
            let is_told = views.iter().any(|view| view.objection(&known).is_none());
            let is_enough = !is_first || asking.iter().all(|(_, was_silent)| *was_silent);
            match asking.is_empty() || is_told && is_enough {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        if is_first && let Some(words) = view::of_two_clusters(&views) {
            return Err(Unusable::new(vec![words]));
        }
        refusals.extend(views.iter().filter_map(|view| view.objection(&known)));
        let mut usable = views
            .into_iter()
            .filter(|view| view.objection(&known).is_none());
        let Some(view) = usable.next() else {
            return Err(Unusable::new(refusals));
        };
        self.known.set_ids(view.slots.ids());
        *self.slots.borrow_mut() = view.slots;
        *self.version.borrow_mut() = view.version;
        Ok(())
    }

    async fn view_of(&self, server: &Server) -> Result<View, String> {
        let (questions, count) = View::questions();
        let replies = self.ask_server(server, questions, count).await?;
        View::read(&replies, server)
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
        if self.is_silent(server) {
            return Err(failed("has not answered in time", false));
        }
        let asking = async {
            let link = self.link(server).await.map_err(Unanswered::NotSent)?;
            link.ask(bytes, count).await
        };
        match timeout(self.patience, asking).await {
            Ok(Ok(replies)) => {
                self.known.remove_silent(server);
                Ok(replies)
            }
            Ok(Err(Unanswered::NotSent(words))) => Err(failed(&words, false)),
            Ok(Err(Unanswered::Lost(words))) => Err(failed(&words, true)),
            Err(_) => {
                // What it still answers is for nobody.
                self.links.borrow_mut().remove(server);
                self.known.add_silent(server);
                Err(failed("does not answer in time", true))
            }
        }
    }

    /// Whether a server did not answer in time, a moment ago.
    fn is_silent(&self, server: &Server) -> bool {
        self.known.is_silent(server, self.patience)
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
        if !self.met.borrow_mut().insert(server.clone()) {
            self.recognize(&link, server).await?;
        }
        *place = Some(link.clone());
        Ok(link)
    }

    /// Makes sure that the server at an address that was connected to before is still one of the cluster: addresses are given to others.
    async fn recognize(&self, link: &Link, server: &Server) -> Result<(), String> {
        let question = request(&[b"CLUSTER", b"SLOTS"]);
        let replies = link.ask(question, 1).await.map_err(Unanswered::words)?;
        let slots = Slots::read(&replies[0], server)?;
        match view::is_of_another_cluster(&slots, &self.known.ids()) {
            true => Err(view::ANOTHER_CLUSTER.to_owned()),
            false => Ok(()),
        }
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
                [NodeReply::Error(words)] => Err(view::remedied(words.clone())),
                _ => Ok(()),
            },
            Err(unanswered) => Err(unanswered.words()),
        }
    }

    fn drive(&self, driver: Driver) {
        self.drivers.borrow_mut().push(driver);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// Whether the server serves no locks at present, so that its replica may be the master by now. It has done nothing then.
fn serves_nothing(reply: &NodeReply) -> bool {
    let NodeReply::Error(words) = reply else {
        return false;
    };
    let codes = ["CLUSTERDOWN", "LOADING", "READONLY"];
    codes.iter().any(|code| words.starts_with(code))
}

fn said(words: impl std::fmt::Display) -> String {
    format!("ERR Redis Cluster: {words}")
}

const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
/// A request goes on to another server so often.
const HOPS_MAX: usize = 8;
/// Until the rest of several names has been moved.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);
const REFRESH_EVERY: Duration = Duration::from_millis(100);
