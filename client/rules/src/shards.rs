//! Names of locks that are shared out among several clusters: each name is on one of them.
//!
//! Invariant: the cluster of a name depends on the name and the names of the clusters alone, neither on their order nor on
//! their nodes. Clients with two lists, of which one is the other in its change, never take a name on different clusters.
//!
//! The hash is a part of the interface: other languages compute it (docs/book/sharding.md). It never changes.

use std::sync::Arc;

use quorlock_clock::fnv;
use thiserror::Error;

use crate::name::shown;
use crate::permits::permit_of;
use bytes::Bytes;

/// The clusters of a list, and those of the next list where the list is being changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    clusters: Vec<Arc<str>>,
    next: Option<Vec<Arc<str>>>,
}

/// Why names of locks cannot be shared out.
///
/// # Example
/// ```
/// use quorlock_client::{Redlock, ShardError, ShardedRedlock};
///
/// let east = Redlock::builder().node("redis://db1:7001").build()?;
/// let west = Redlock::builder().node("redis://db2:7001").build()?;
/// let sharded = ShardedRedlock::new([("east", east), ("west", west)])?;
/// let apart = sharded.locks(["backup", "report"]);
/// assert!(matches!(apart, Err(ShardError::Apart { .. })));
/// assert!(sharded.locks(["backup {nightly}", "report {nightly}"]).is_ok()); // what is in braces decides
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShardError {
    /// The list names no cluster.
    #[error("no cluster is named, and names of locks are shared out among one at least")]
    NoClusters,
    /// The list names too many clusters.
    #[error("{0} clusters are named, and {CLUSTERS_MAX} are possible")]
    TooManyClusters(usize),
    /// A cluster has no name.
    #[error("a cluster has an empty name: its name decides which locks it has")]
    Unnamed,
    /// Two clusters have one name.
    #[error("two clusters are called '{0}': each needs a name of its own")]
    TwiceNamed(Arc<str>),
    /// A node is listed in two clusters, or twice in one.
    #[error("{0} is listed twice: each cluster has nodes of its own")]
    NodeTwice(Arc<str>),
    /// The clients of two clusters put different prefixes before names.
    #[error(
        "the clients of '{0}' and '{1}' have different prefixes: a name is one lock with one prefix"
    )]
    Prefixes(Arc<str>, Arc<str>),
    /// Names that are to be locked together are on several clusters.
    #[error(
        "these names are on several clusters, and no lock is on two: {}; not acquired. Names with the same text in braces are on \
         one cluster: {{order 7}}:stock and {{order 7}}:invoice",
        placed(names)
    )]
    #[non_exhaustive]
    Apart {
        /// Each name, and the cluster that has it.
        names: Vec<(Arc<str>, Arc<str>)>,
    },
    /// The list of clusters is being changed, and this name is on another cluster afterwards: nobody takes it meanwhile.
    #[error(
        "'{name}' moves from cluster '{from}' to '{to}': nobody takes it until all clients have the next list of clusters; not \
         acquired. Try again when the change is over"
    )]
    #[non_exhaustive]
    Moves {
        /// The lock's name.
        name: Arc<str>,
        /// The cluster that has it by the present list.
        from: Arc<str>,
        /// The cluster that has it by the next list.
        to: Arc<str>,
    },
}

impl Shards {
    /// These clusters, by their names.
    ///
    /// # Errors
    /// When there is none or too many of them, or two have one name.
    pub fn new<C: Into<Arc<str>>>(
        clusters: impl IntoIterator<Item = C>,
    ) -> Result<Self, ShardError> {
        let clusters = checked(clusters)?;
        Ok(Self {
            clusters,
            next: None,
        })
    }

    /// The same while clients are given the next list: names that are on another cluster by that list rest.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn changing_to<C: Into<Arc<str>>>(
        self,
        next: impl IntoIterator<Item = C>,
    ) -> Result<Self, ShardError> {
        let next = Some(checked(next)?);
        Ok(Self { next, ..self })
    }

    /// The names of the clusters, in the order of the list.
    #[must_use]
    pub fn clusters(&self) -> &[Arc<str>] {
        &self.clusters
    }

    /// The names of the clusters that come next; none where the list is not being changed.
    #[must_use]
    pub fn next_clusters(&self) -> &[Arc<str>] {
        self.next.as_deref().unwrap_or_default()
    }

    /// Whether the list is being changed.
    #[must_use]
    pub fn are_changing(&self) -> bool {
        self.next.is_some()
    }

    /// Where in the list the cluster is that has this name now: it is looked at, extended and released there. With the prefix.
    #[must_use]
    pub fn of(&self, name: &[u8]) -> usize {
        highest(&self.clusters, name)
    }

    /// The cluster that has this name by the next list, if that is another one.
    #[must_use]
    pub fn moves_to(&self, name: &[u8]) -> Option<&Arc<str>> {
        let next = self.next.as_ref()?;
        let next = &next[highest(next, name)];
        (*next != self.clusters[self.of(name)]).then_some(next)
    }

    /// Where in the list the cluster is on which these names are taken together. With the prefix.
    ///
    /// # Errors
    /// When they are on several clusters, or one of them moves.
    pub fn take<N: AsRef<[u8]>>(&self, names: &[N]) -> Result<usize, ShardError> {
        let cluster = |name: &[u8]| &self.clusters[self.of(name)];
        let mut names = names.iter().map(AsRef::as_ref);
        let first = names.clone().next().map_or(0, |name| self.of(name));
        if names.clone().any(|name| self.of(name) != first) {
            let names = names.map(|name| (shown(name), Arc::clone(cluster(name))));
            return Err(ShardError::Apart {
                names: names.collect(),
            });
        }
        match names.find_map(|name| Some((name, self.moves_to(name)?))) {
            None => Ok(first),
            Some((name, to)) => Err(ShardError::Moves {
                name: shown(name),
                from: Arc::clone(cluster(name)),
                to: Arc::clone(to),
            }),
        }
    }
}

fn checked<C: Into<Arc<str>>>(
    clusters: impl IntoIterator<Item = C>,
) -> Result<Vec<Arc<str>>, ShardError> {
    let clusters: Vec<Arc<str>> = clusters.into_iter().map(Into::into).collect();
    match clusters.len() {
        0 => return Err(ShardError::NoClusters),
        1..=CLUSTERS_MAX => {}
        count => return Err(ShardError::TooManyClusters(count)),
    }
    for (at, cluster) in clusters.iter().enumerate() {
        if cluster.is_empty() {
            return Err(ShardError::Unnamed);
        }
        if clusters[..at].contains(cluster) {
            return Err(ShardError::TwiceNamed(Arc::clone(cluster)));
        }
    }
    Ok(clusters)
}

/// The cluster with the highest score: one that joins or leaves moves no name between two others.
fn highest(clusters: &[Arc<str>], name: &[u8]) -> usize {
    let name = Bytes::copy_from_slice(name);
    let part = decisive(&name);
    let scores = clusters.iter().enumerate();
    let scores = scores.map(|(at, cluster)| (score(&part, cluster), cluster, at));
    scores.max().map_or(0, |(_, _, at)| at)
}

/// The part of a name that decides: what is between the first `{` and the next `}`, as in Redis Cluster; else the whole name, and of
/// a permit the name of its semaphore, which may be named like a permit itself: what is left has no index.
fn decisive(name: &Bytes) -> Bytes {
    if let Some(open) = name.iter().position(|byte| *byte == b'{') {
        let tag = name.slice(open + 1..);
        match tag.iter().position(|byte| *byte == b'}') {
            None | Some(0) => {}
            Some(close) => return tag.slice(..close),
        }
    }
    let mut part = name.clone();
    while let Some((semaphore, _)) = permit_of(&part).filter(|(name, _)| !name.is_empty()) {
        part = semaphore;
    }
    part
}

/// FNV-1a of 64 bits over name, a zero byte and cluster, and then the last step of MurmurHash3, without which clusters whose names
/// differ in one letter would share names out unevenly.
fn score(name: &[u8], cluster: &str) -> u64 {
    let bytes = name.iter().chain(&[0]).chain(cluster.as_bytes());
    let mut hash = fnv(bytes.copied());
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

fn placed(names: &[(Arc<str>, Arc<str>)]) -> String {
    let all = names.iter().take(NAMES_SHOWN);
    let mut all: Vec<String> = all
        .map(|(name, cluster)| format!("'{name}' on '{cluster}'"))
        .collect();
    if names.len() > NAMES_SHOWN {
        all.push(format!("and {} more", names.len() - NAMES_SHOWN));
    }
    all.join(", ")
}

/// Each name is compared with each of them.
pub const CLUSTERS_MAX: usize = 64;
const NAMES_SHOWN: usize = 8;

#[cfg(test)]
mod tests;
