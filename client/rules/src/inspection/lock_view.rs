//! One lock as all nodes show it together.
//!
//! Invariant: votes are counted over distinct nodes of one cluster. A lock is held where one token has a majority, or the clients of one
//! program have, which are joined as [`clients`] says; and not held only where the nodes that have not answered, and those that have more readers than they name, could give no token a majority.

mod clients;

use std::time::Duration;

use super::sight::{About, HolderSight, LockKind, Sight};
use crate::votes::{Ballot, Identity, NodeIndex, majority};

/// What a node says of a lock, and who the node is; or why it says nothing.
pub type NodeView = Result<(Identity, Sight), String>;

/// A lock, put together from the answers of all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    /// Whether somebody holds it.
    pub state: LockState,
    /// How the most nodes store it.
    pub kind: LockKind,
    /// Those whom a node names as holders, the one with the most votes first.
    pub holders: Vec<HolderView>,
    /// How many more hold it, at least, by what a majority of the nodes says, whom no node names: nodes name 1,000 readers.
    pub unshown: u64,
    /// How many distinct nodes have answered.
    pub answered: usize,
    /// How many nodes are listed.
    pub nodes: usize,
    /// The nodes that have said nothing about it, by their place in the list, and why.
    pub silent: Vec<(usize, String)>,
    /// What is unusual about it.
    pub marks: Vec<Mark>,
    /// How many clients wait for it, each of them in line on one node. None where no node tells it.
    pub waiters: Option<u64>,
}

/// Whether a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// A majority of the nodes names the same holder.
    Held,
    /// Too few nodes have answered, or named all its readers, to say whether it is held.
    Unknown,
    /// Nobody has a majority, and some nodes name a holder: a lock that is being taken or released, or what is left of one.
    Minority,
    /// No node names a holder.
    Free,
}

impl LockState {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Unknown => "unknown",
            Self::Minority => "minority",
            Self::Free => "free",
        }
    }
}

/// One token that nodes name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderView {
    /// The token, or the field of a hash; the first of them where nodes name several clients of one program.
    pub token: Vec<u8>,
    /// How many distinct nodes name it.
    pub votes: usize,
    /// Which nodes name it, by their place in the list.
    pub nodes: Vec<usize>,
    /// What each of these nodes names, where that is several clients of one program; else nothing.
    pub clients: Vec<Vec<u8>>,
    /// How long it still has a majority, or, where it has none, how long a node still names it. None is without a deadline.
    pub left: Option<Duration>,
    /// What the nodes remember of it. The fence is there where a majority has taken it; since when it holds the lock and how often that was
    /// extended are what most of the nodes that say so say at least.
    pub about: About,
}

impl HolderView {
    /// Whether a node names it by this token.
    #[must_use]
    pub fn is_named(&self, token: &[u8]) -> bool {
        self.token == token || self.clients.iter().any(|client| client == token)
    }

    /// The token that this node names.
    #[must_use]
    pub fn token_on(&self, node: usize) -> &[u8] {
        let at = self.nodes.iter().position(|other| *other == node);
        let client = at.and_then(|at| self.clients.get(at));
        client.unwrap_or(&self.token)
    }
}

/// What is unusual about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A node keeps it without a deadline: it stays when its holder is gone.
    NoTtl,
    /// It has been held for longer than most are.
    Old,
    /// Nodes name different holders.
    VotesDiffer,
    /// Nodes name clients of Redisson with different ids and one thread, which count as one holder.
    IdsDiffer,
    /// A node has something else under this name.
    NoLock,
}

impl Mark {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoTtl => "no-ttl",
            Self::Old => "old",
            Self::VotesDiffer => "votes-differ",
            Self::IdsDiffer => "ids-differ",
            Self::NoLock => "not-a-lock",
        }
    }
}

impl LockView {
    /// Puts the answers together, one of each node in the order of the list. A lock counts as old that is held for longer
    /// than `old_after`.
    #[must_use]
    pub fn merge(views: &[NodeView], old_after: Duration) -> Self {
        let quorum = majority(views.len());
        let answered = distinct(views, |_| true);
        let holders = holders(views, quorum);
        let most = holders.first().map_or(0, |holder| holder.votes);
        let unheard = views.len().saturating_sub(answered);
        let cut = distinct(
            views,
            |sight| matches!(sight, Sight::Lock(lock) if lock.unshown > 0),
        );
        let state = match most {
            _ if most >= quorum => LockState::Held,
            _ if most + unheard + cut >= quorum => LockState::Unknown,
            0 => LockState::Free,
            _ => LockState::Minority,
        };
        Self {
            state,
            kind: kind(views),
            marks: marks(views, &holders, old_after),
            unshown: unshown(views, &holders, quorum),
            holders,
            answered,
            nodes: views.len(),
            waiters: waiters(views),
            silent: silent(views),
        }
    }

    /// How many hold it, or are named as holders where no majority names one.
    #[must_use]
    pub fn holder_count(&self) -> u64 {
        let named = match self.state {
            LockState::Held => self.held_by().count(),
            _ => self.holders.len(),
        };
        self.unshown.saturating_add(named as u64)
    }

    /// How many more there are than these, of those whom a node names and of those who hold it.
    #[must_use]
    pub fn more_than(&self, shown: usize) -> u64 {
        let all = self.holder_count().max(self.holders.len() as u64);
        all.saturating_sub(shown as u64)
    }

    /// Those who hold it: one, or several readers. Nobody where no majority says so.
    pub fn held_by(&self) -> impl Iterator<Item = &HolderView> {
        let quorum = majority(self.nodes);
        self.holders.iter().filter(move |one| one.votes >= quorum)
    }
}

/// Of readers whom no node names: as many as the most nodes that are a majority have at least.
fn unshown(views: &[NodeView], holders: &[HolderView], quorum: usize) -> u64 {
    let locks = views.iter().filter_map(|view| match view {
        Ok((_, Sight::Lock(lock))) => Some(lock),
        _ => None,
    });
    let mut counts: Vec<u64> = locks
        .map(|lock| lock.unshown.saturating_add(lock.holders.len() as u64))
        .collect();
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    let held = holders.iter().filter(|one| one.votes >= quorum).count();
    let named = if held > 0 { held } else { holders.len() };
    let count = counts.get(quorum.saturating_sub(1)).copied().unwrap_or(0);
    let is_cut = views
        .iter()
        .any(|view| matches!(view, Ok((_, Sight::Lock(lock))) if lock.unshown > 0));
    match is_cut {
        true => count.saturating_sub(named as u64),
        false => 0,
    }
}

fn waiters(views: &[NodeView]) -> Option<u64> {
    let told = views.iter().filter_map(|view| match view {
        Ok((_, Sight::Lock(lock))) => lock.waiters,
        _ => None,
    });
    // A line is at one node, and a writer behind readers stands at the others as well.
    told.max()
}

/// Which nodes name a token, and what each says of it.
type Sights<'v> = Vec<(NodeIndex, &'v HolderSight)>;

fn silent(views: &[NodeView]) -> Vec<(usize, String)> {
    let views = views.iter().enumerate();
    let silent = views.filter_map(|(node, view)| Some((node, view.as_ref().err()?.clone())));
    silent.collect()
}

/// How many distinct nodes of one cluster say this.
fn distinct(views: &[NodeView], says: impl Fn(&Sight) -> bool) -> usize {
    let mut ballot = Ballot::default();
    for (node, view) in views.iter().enumerate() {
        if let Ok((identity, sight)) = view
            && says(sight)
        {
            ballot.add(node, identity.clone());
        }
    }
    ballot.distinct()
}

fn holders(views: &[NodeView], quorum: usize) -> Vec<HolderView> {
    let mut named: Vec<(&[u8], Sights<'_>)> = Vec::new();
    for (node, view) in views.iter().enumerate() {
        let Ok((_, Sight::Lock(lock))) = view else {
            continue;
        };
        for holder in &lock.holders {
            match named.iter_mut().find(|(token, _)| *token == holder.token) {
                Some((_, sights)) => sights.push((node, holder)),
                None => named.push((&holder.token, vec![(node, holder)])),
            }
        }
    }
    let named = clients::join(named, views);
    let together = |(token, sights): (&[u8], Sights<'_>)| together(token, &sights, views, quorum);
    let mut holders: Vec<HolderView> = named.into_iter().map(together).collect();
    // Stable: of several with as many votes the one that the first node names comes first.
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.votes));
    holders
}

/// What nodes say of one token.
fn together(
    token: &[u8],
    sights: &[(NodeIndex, &HolderSight)],
    views: &[NodeView],
    quorum: usize,
) -> HolderView {
    let mut ballot = Ballot::default();
    for (node, _) in sights {
        if let Ok((identity, _)) = &views[*node] {
            ballot.add(*node, identity.clone());
        }
    }
    let votes = ballot.distinct();
    let mut left: Vec<Option<Duration>> = sights.iter().map(|(_, sight)| sight.left).collect();
    // The longest first, and before that what has no deadline.
    left.sort_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
    let decides = if votes >= quorum { quorum } else { 1 };
    let abouts = || sights.iter().map(|(_, sight)| &sight.about);
    let has_fence =
        |fence: u64| abouts().filter(|about| about.fence == Some(fence)).count() >= quorum;
    let about = About {
        held: at_least_for_most(abouts().filter_map(|about| about.held)),
        extensions: at_least_for_most(abouts().filter_map(|about| about.extensions)),
        owner: abouts().find_map(|about| about.owner.clone()),
        client_name: abouts().find_map(|about| about.client_name.clone()),
        client_address: abouts().find_map(|about| about.client_address.clone()),
        is_connected: abouts().filter_map(|about| about.is_connected).max(),
        library: abouts().find_map(|about| about.library.clone()),
        fence: abouts()
            .filter_map(|about| about.fence)
            .find(|fence| has_fence(*fence)),
    };
    let are_several = sights.iter().any(|(_, sight)| sight.token != token);
    let clients = sights.iter().map(|(_, sight)| sight.token.clone());
    HolderView {
        token: token.to_vec(),
        votes,
        nodes: sights.iter().map(|(node, _)| *node).collect(),
        clients: clients.filter(|_| are_several).collect(),
        left: left.get(decides - 1).copied().flatten(),
        about,
    }
}

/// What most of those that say a number say at least: a few that have missed something do not lower it, and a few that are wrong do not
/// raise it.
fn at_least_for_most<T: Copy + Ord>(said: impl Iterator<Item = T>) -> Option<T> {
    let mut said: Vec<T> = said.collect();
    said.sort_unstable_by_key(|one| std::cmp::Reverse(*one));
    said.get(said.len() / 2).copied()
}

/// The kind that the most nodes store.
fn kind(views: &[NodeView]) -> LockKind {
    let kinds = [LockKind::String, LockKind::Hash, LockKind::Shared];
    let count = |kind: LockKind| {
        let is_it =
            |view: &&NodeView| matches!(view, Ok((_, Sight::Lock(lock))) if lock.kind == kind);
        views.iter().filter(is_it).count()
    };
    let most = kinds.into_iter().rev().max_by_key(|kind| count(*kind));
    most.unwrap_or(LockKind::String)
}

fn marks(views: &[NodeView], holders: &[HolderView], old_after: Duration) -> Vec<Mark> {
    let locks = || {
        views.iter().filter_map(|view| match view {
            Ok((_, Sight::Lock(lock))) => Some(lock),
            _ => None,
        })
    };
    let has_no_ttl =
        |lock: &super::sight::LockSight| lock.holders.iter().any(|one| one.left.is_none());
    let is_old = |holder: &HolderView| holder.about.held.is_some_and(|held| held >= old_after);
    let mut kinds = locks().map(|lock| lock.kind);
    let first = kinds.next();
    let is_exclusive = first == Some(LockKind::String);
    let differ = kinds.any(|kind| Some(kind) != first) || (is_exclusive && holders.len() > 1);
    let have_ids = holders.iter().any(|holder| !holder.clients.is_empty());
    let is_other = |view: &NodeView| matches!(view, Ok((_, Sight::NoLock)));
    [
        (Mark::NoTtl, locks().any(has_no_ttl)),
        (Mark::Old, holders.iter().any(is_old)),
        (Mark::VotesDiffer, differ),
        (Mark::IdsDiffer, have_ids),
        (Mark::NoLock, views.iter().any(is_other)),
    ]
    .into_iter()
    .filter_map(|(mark, is_there)| is_there.then_some(mark))
    .collect()
}

#[cfg(test)]
mod tests;
