//! All listed nodes, asked at once.
//!
//! A node that cannot be asked keeps its place in the list, with the reason why.

use std::time::Duration;

use quorlock_client::Dialer;
use quorlock_client_rules::address::{Endpoint, NodeAddress};
use quorlock_client_rules::inspection::cluster_view::{ClusterView, NodeState, counted_identities};
use quorlock_client_rules::inspection::lock_view::{LockView, NodeView};
use quorlock_client_rules::inspection::node_facts::NodeFacts;
use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::question;
use quorlock_client_rules::inspection::sight::Sight;
use quorlock_client_rules::votes::{Identity, majority};
use tokio::time::timeout;

use super::node_link::{NodeLink, over_tls};
use super::shown;
use crate::clock::Asked;
use crate::clusters::NodeList;
use crate::exit_code::{Failure, NO_QUORUM};
use crate::lock_options::NodeOptions;
use crate::no_quorum;
use crate::node_address;
use crate::runtime::{all_of, most_of};

/// The nodes of the list, in its order.
pub(super) struct Nodes {
    pub(super) all: Vec<ListedNode>,
    /// What names begin with on the nodes, before those that are said and shown.
    prefix: Vec<u8>,
    votes_by_address: bool,
}

/// One of them.
pub(super) struct ListedNode {
    /// Its address without the password.
    pub(super) label: String,
    /// Where it is.
    pub(super) endpoint: Endpoint,
    /// The connection and what the node says of itself, or why it cannot be asked.
    pub(super) asked: Result<AskedNode, String>,
}

/// A node that answers.
pub(super) struct AskedNode {
    pub(super) link: NodeLink,
    pub(super) facts: NodeFacts,
    /// The shortest time that its INFO took, on the way there and back.
    pub(super) round_trip: Duration,
    /// How far its wall clock is ahead of this machine's, in milliseconds, give or take half a round trip.
    pub(super) ahead_ms: Option<i128>,
}

impl Nodes {
    /// Connects to the nodes of a cluster, as the lock commands do.
    pub(super) async fn connect(options: &NodeOptions, list: &NodeList) -> Result<Self, Failure> {
        let (nodes, tls) = options.with_tls(list);
        tls.remark_on_plain(&nodes);
        Self::open(options, list, Duration::MAX).await
    }

    /// The same, and one node more behind them.
    pub(super) async fn connect_with(
        options: &NodeOptions,
        mut list: NodeList,
        more: &str,
    ) -> Result<Self, Failure> {
        list.nodes.push(node_address::complete(more.to_owned())?);
        Self::connect(options, &list).await
    }

    /// The same without a remark. Each node gets so much time to say who it is, and no more for each later answer.
    pub(super) async fn open(
        options: &NodeOptions,
        list: &NodeList,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let (nodes, tls) = options.with_tls(list);
        let addresses = nodes.iter().map(|node| NodeAddress::parse(node));
        let addresses: Vec<NodeAddress> = addresses
            .collect::<Result<_, _>>()
            .map_err(Failure::usage)?;
        let dialer = Dialer::new(&addresses, tls.options()?).map_err(Failure::usage)?;
        let open = addresses.iter().map(async |address| {
            let opened = AskedNode::open(address, &dialer, patience);
            let opened = timeout(patience, opened).await;
            opened.unwrap_or_else(|_| late(address))
        });
        let opened = most_of(open, majority(addresses.len()), LATE_AFTER).await;
        let all = addresses.iter().zip(opened);
        Ok(Self {
            all: all
                .map(|(address, asked)| ListedNode {
                    label: address.to_string(),
                    endpoint: address.endpoint.clone(),
                    asked: asked.unwrap_or_else(|| late(address)),
                })
                .collect(),
            prefix: list.prefix.clone().into_bytes(),
            votes_by_address: options.votes_by_address || list.votes_by_address,
        })
    }

    /// The same where locks are to be seen: fails at once where no node answers.
    pub(super) async fn connect_to_some(
        options: &NodeOptions,
        list: &NodeList,
    ) -> Result<Self, Failure> {
        let nodes = Self::connect(options, list).await?;
        match nodes.silent().count() < nodes.all.len() {
            true => Ok(nodes),
            false => {
                let what = format!(
                    "none of {} nodes{} can be asked:{}",
                    nodes.all.len(),
                    of_cluster(list),
                    nodes.silent_lines()
                );
                let away = nodes.all.iter().map(|node| node.label.as_str());
                let failure = Failure::new(NO_QUORUM, what).remedy(
                    "list all nodes of one cluster, each once, in --nodes or QUORLOCK_NODES",
                );
                Err(no_quorum::with_start_of(failure, away))
            }
        }
    }

    /// Their addresses, without passwords.
    pub(super) fn labels(&self) -> Vec<&str> {
        self.all.iter().map(|node| node.label.as_str()).collect()
    }

    /// Those that cannot be asked, each on a line of its own.
    pub(super) fn silent_lines(&self) -> String {
        let lines = self
            .silent()
            .map(|(label, why)| format!("\n  {label}: {why}"));
        lines.collect()
    }

    /// Those that cannot be asked, or whose answers do not count, and why.
    pub(super) fn silent(&self) -> impl Iterator<Item = (&str, String)> {
        let nodes = self.all.iter().zip(self.identities());
        nodes.filter_map(|(node, identity)| Some((&*node.label, identity.err()?)))
    }

    /// The addresses of the others.
    pub(super) fn answering(&self) -> impl Iterator<Item = &str> {
        let nodes = self.all.iter().zip(self.identities());
        nodes.filter_map(|(node, identity)| identity.ok().map(|_| &*node.label))
    }

    /// Those that do not belong into one list, and why: no node is away then, the list itself is wrong.
    pub(super) fn wrongly_listed(&self) -> Vec<String> {
        let states = self.view().states;
        let wrong = self.all.iter().zip(&states).filter_map(|(node, state)| {
            let why = match state {
                NodeState::SameNode(other) => {
                    let other = self.all.get(*other).map_or("another", |other| &other.label);
                    format!("the same node as {other}")
                }
                NodeState::OtherCluster(cluster) => {
                    format!("of the cluster {}", shown::words(cluster))
                }
                NodeState::MixedClusters(Some(cluster)) => {
                    format!("of the cluster {}", shown::words(cluster))
                }
                NodeState::MixedClusters(None) => "of no cluster".to_owned(),
                NodeState::OtherSize(size) => format!(
                    "its cluster has {size} nodes, and {} are listed",
                    self.all.len()
                ),
                NodeState::Agent => "an agent and no node".to_owned(),
                _ => return None,
            };
            Some(format!("{}: {why}", node.label))
        });
        wrong.collect()
    }

    /// Who the nodes are whose answers count, and why those of the others do not.
    fn identities(&self) -> Vec<Result<Identity, String>> {
        let asked = self.all.iter().map(|node| node.asked.as_ref());
        let facts = asked.map(|asked| asked.ok().map(|asked| &asked.facts));
        let counted = counted_identities(&facts.collect::<Vec<_>>(), self.votes_by_address);
        let nodes = self.all.iter().zip(counted);
        let identities = nodes.map(|(node, counted)| {
            let asked = node.asked.as_ref().map_err(Clone::clone)?;
            let failure = asked.link.failure();
            failure.map_or(counted, |why| Err(why.to_owned()))
        });
        identities.collect()
    }

    /// What all of them come to.
    pub(super) fn view(&self) -> ClusterView {
        let facts = self.all.iter().map(|node| match &node.asked {
            Ok(asked) => Ok(asked.facts.clone()),
            Err(why) => Err(why.clone()),
        });
        ClusterView::of(&facts.collect::<Vec<_>>(), self.votes_by_address)
    }

    /// These directives of each node and their values, as far as the nodes tell them.
    pub(super) async fn settings(&mut self, directives: &[&str]) -> Vec<Vec<(String, String)>> {
        let question = |name: &&str| question::request(&[b"CONFIG", b"GET", name.as_bytes()]);
        let questions: Vec<_> = directives.iter().map(question).collect();
        let asked = self.all.iter_mut().map(async |node| {
            let Ok(node) = &mut node.asked else {
                return Vec::new();
            };
            let replies = node.link.ask(&questions).await.unwrap_or_default();
            let named = directives.iter().zip(&replies);
            let value = |(name, reply): (&&str, &NodeReply)| {
                let value = reply.fact(name)?.text()?;
                Some((
                    (*name).to_owned(),
                    String::from_utf8_lossy(value).into_owned(),
                ))
            };
            named.filter_map(value).collect()
        });
        all_of(asked).await
    }

    /// The name on the nodes.
    fn full_name(&self, name: &[u8]) -> Vec<u8> {
        [&self.prefix, name].concat()
    }

    /// The pattern of names on the nodes, and how long what they begin with is.
    pub(super) fn full_pattern(&self, pattern: &[u8]) -> (Vec<u8>, usize) {
        let special = |byte: &u8| b"*?[\\".contains(byte);
        let escaped = |byte: &u8| match special(byte) {
            true => vec![b'\\', *byte],
            false => vec![*byte],
        };
        let prefix = self.prefix.iter().flat_map(escaped);
        (
            prefix.chain(pattern.iter().copied()).collect(),
            self.prefix.len(),
        )
    }

    /// How each of these locks is held.
    pub(super) async fn look(&mut self, names: &[&[u8]], old_after: Duration) -> Vec<LockView> {
        let full: Vec<Vec<u8>> = names.iter().map(|name| self.full_name(name)).collect();
        let full: Vec<&[u8]> = full.iter().map(Vec::as_slice).collect();
        let identities = self.identities();
        let looks = self.all.iter_mut().zip(&identities);
        let looks = looks.map(async |(node, identity)| node.look(&full, identity).await);
        let mut columns: Vec<_> = all_of(looks)
            .await
            .into_iter()
            .map(Vec::into_iter)
            .collect();
        let row = |_: &&[u8]| {
            let next = |column: &mut std::vec::IntoIter<NodeView>| {
                column.next().expect("each node has a view of each name")
            };
            let views: Vec<NodeView> = columns.iter_mut().map(next).collect();
            LockView::merge(&views, old_after)
        };
        names.iter().map(row).collect()
    }

    /// What each node says to the end of this lock by force, under its one of these tokens. A node whose answers do not count is not asked: what
    /// it has may be a lock of another cluster.
    pub(super) async fn force_release(
        &mut self,
        name: &[u8],
        tokens: &[&[u8]],
    ) -> Vec<Result<bool, String>> {
        let name = self.full_name(name);
        let identities = self.identities();
        let asked = self.all.iter_mut().zip(&identities).zip(tokens);
        let asked = asked.map(async |((node, identity), token)| {
            let node = node.asked.as_mut().map_err(|why| why.clone())?;
            if let Err(why) = identity {
                return Err(format!("nothing was asked of it: {why}"));
            }
            let question = question::force_release(&name, token, node.facts.dialect);
            match node.link.ask_one(question).await? {
                NodeReply::Integer(count) => Ok(count > 0),
                other => Err(other.refusal()),
            }
        });
        all_of(asked).await
    }
}

impl ListedNode {
    async fn look(
        &mut self,
        names: &[&[u8]],
        identity: &Result<Identity, String>,
    ) -> Vec<NodeView> {
        let identity = match identity {
            Ok(identity) => identity,
            Err(why) => return vec![Err(why.clone()); names.len()],
        };
        let node = match &mut self.asked {
            Ok(node) => node,
            Err(why) => return vec![Err(why.clone()); names.len()],
        };
        let dialect = node.facts.dialect;
        let questions = names.iter().map(|name| question::look(name, dialect));
        let questions: Vec<_> = questions.collect();
        match node.link.ask(&questions).await {
            Ok(replies) => {
                let sights = replies.iter().map(|reply| Sight::read(reply, dialect));
                sights.map(|sight| Ok((identity.clone(), sight?))).collect()
            }
            Err(why) => vec![Err(why); names.len()],
        }
    }
}

impl AskedNode {
    async fn open(
        address: &NodeAddress,
        dialer: &Dialer,
        patience: Duration,
    ) -> Result<Self, String> {
        let mut link = NodeLink::open(address, dialer, patience).await?;
        let mut best: Option<(Duration, NodeFacts, Option<i128>)> = None;
        for _ in 0..PROBES {
            let asked = Asked::at_once();
            let info = link.ask_one(question::request(&[b"INFO"])).await?;
            let round_trip = asked.round_trip();
            let facts = NodeFacts::read(&info)?;
            if facts.is_replica && address.endpoint.fails_over() {
                return Err("is a replica now, and the Sentinels take it for the master: a failover is under way".to_owned());
            }
            let ahead_ms = facts.wall.map(|there| asked.ahead_ms(there, round_trip));
            if best
                .as_ref()
                .is_none_or(|(shortest, ..)| round_trip < *shortest)
            {
                best = Some((round_trip, facts, ahead_ms));
            }
            if round_trip > FAR {
                break;
            }
        }
        let (round_trip, facts, ahead_ms) = best.expect("it was asked");
        Ok(Self {
            link,
            facts,
            round_trip,
            ahead_ms,
        })
    }
}

/// Which cluster the nodes are of, where there are several.
fn of_cluster(list: &NodeList) -> String {
    let cluster = list.cluster.as_ref();
    cluster.map_or_else(String::new, |name| format!(" of cluster '{name}'"))
}

fn late<T>(address: &NodeAddress) -> Result<T, String> {
    Err(format!("does not answer in time{}", over_tls(address)))
}

/// A node that hangs holds up no answer for longer where a majority has answered: the most that a node needs whose round trips
/// last 375 ms, with TLS.
const LATE_AFTER: Duration = Duration::from_millis(1_500);
/// The first one finds the node's caches cold.
const PROBES: usize = 2;
/// Cold caches are no part of this that matters.
const FAR: Duration = Duration::from_millis(50);
