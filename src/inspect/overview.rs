//! Nodes and locks at one moment, for a page that shows them again and again.
//!
//! Bounded: each node has a short time to answer, a whole look has a longer one, and so many locks are looked at. Tokens are cut,
//! since who sees a whole one can release the lock.

use std::time::Duration;

use quorlock_client_rules::inspection::lock_view::{HolderView, LockState, LockView};
use quorlock_client_rules::votes::majority;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::names::{self, Wanted};
use super::nodes::Nodes;
use super::{shown, status};
use crate::clusters::NodeList;
use crate::duration::whole_ms;
use crate::exit_code::Failure;
use crate::lock_options::NodeOptions;

/// The nodes that are looked at.
#[derive(Debug)]
pub(crate) struct OverviewSource {
    options: NodeOptions,
    list: NodeList,
}

impl OverviewSource {
    /// The nodes that these options lead to.
    ///
    /// # Errors
    /// When none are named.
    pub(crate) fn of(options: NodeOptions) -> Result<Self, Failure> {
        let list = options.clusters()?.only("the page")?;
        Ok(Self { options, list })
    }

    /// Whether they can be asked at all: what names them may be wrong.
    ///
    /// # Errors
    /// When an address or a file of TLS cannot be used.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        Nodes::open(&self.options, &self.list, PATIENCE)
            .await
            .map(drop)
    }

    /// These nodes.
    pub(crate) fn of_list(list: NodeList) -> Self {
        let options = NodeOptions::default();
        Self { options, list }
    }

    /// What they say now: the nodes and their locks, or why that cannot be seen.
    pub(crate) async fn overview(&self) -> Value {
        let look = async {
            let nodes = Nodes::open(&self.options, &self.list, PATIENCE).await?;
            Ok::<_, Failure>(overview(nodes).await)
        };
        match timeout(LOOK_PATIENCE, look).await {
            Ok(Ok(value)) => value,
            Ok(Err(failure)) => json!({ "error": failure.what }),
            Err(_) => json!({ "error": TOO_LONG }),
        }
    }
}

async fn overview(mut nodes: Nodes) -> Value {
    let view = nodes.view();
    let rows = nodes.all.iter().zip(&view.states);
    let described = rows.map(|(node, state)| {
        let mut value = status::value(node, state);
        value["words"] = status::words(state, &nodes).into();
        value
    });
    let described: Vec<Value> = described.collect();
    let wanted = Wanted {
        pattern: b"*",
        is_all: false,
        count_max: LOCKS_MAX,
        patience: PATIENCE,
    };
    let found = names::find(&mut nodes, &wanted).await;
    // A lock is on one node at least of any majority. Of a shorter list it may be missing, and be held.
    let all = nodes.all.len();
    let is_listed = all - nodes.silent().count() >= majority(all);
    let names: Vec<&[u8]> = found.names.iter().map(Vec::as_slice).collect();
    let views = nodes.look(&names, OLD_AFTER).await;
    let locks = names.iter().zip(&views);
    let locks = locks.filter(|(_, view)| view.state != LockState::Free);
    let locks: Vec<Value> = locks.map(|(name, view)| lock(name, view)).collect();
    json!({
        "verdict": status::verdict(&view), "can_lock": view.has_quorum(), "votes": view.votes, "quorum": view.quorum,
        "nodes": described, "locks": locks, "listed": is_listed,
        "complete": is_listed && found.is_whole(),
    })
}

fn lock(name: &[u8], view: &LockView) -> Value {
    let marks: Vec<&str> = view.marks.iter().map(|mark| mark.name()).collect();
    let holders: Vec<Value> = view.holders.iter().take(HOLDERS_MAX).map(holder).collect();
    json!({
        "name": shown::name(name), "state": view.state.name(), "nodes": view.nodes, "marks": marks,
        "waiters": view.waiters, "holders": holders, "holder_count": view.holder_count(),
    })
}

fn holder(holder: &HolderView) -> Value {
    let about = &holder.about;
    json!({
        "token": shown::token(&holder.token), "who": shown::holder_words(holder), "on": holder.nodes,
        "left_ms": holder.left.map(whole_ms), "held_ms": about.held.map(whole_ms), "fence": about.fence,
        "extensions": about.extensions,
    })
}

/// For each node, so that one that hangs holds up no look for long: four round trips of 375 ms, with TLS.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// For all that is asked: a connection to the page lasts for 5 s (`serve_http`). Long names are asked about in many batches, each with its
/// own patience.
const LOOK_PATIENCE: Duration = Duration::from_millis(4_500);
const TOO_LONG: &str = "the nodes are too far away, or their locks have names too long, for a look in time: \
                        quorlock status and quorlock locks wait longer";
const LOCKS_MAX: usize = 500;
/// Of a lock that many read.
const HOLDERS_MAX: usize = 16;
const OLD_AFTER: Duration = Duration::from_secs(3600);
