//! What a server says of its cluster: who has which slots, whether the cluster works, and which servers are in it.
//!
//! Invariant: two views are of one cluster if they share the id of a server. A cluster may replace all its servers, but not at once.

use std::collections::HashSet;

use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::question::request;

use super::slots::{Server, Slots};

/// What a server says of its cluster.
#[derive(Debug)]
pub(super) struct View {
    by: Server,
    pub(super) slots: Slots,
    pub(super) version: String,
    is_down: bool,
}

impl View {
    /// The requests that a view is read from.
    pub(super) fn questions() -> (Vec<u8>, usize) {
        let words: [&[&[u8]]; 3] = [
            &[b"CLUSTER", b"SLOTS"],
            &[b"CLUSTER", b"INFO"],
            &[b"INFO", b"server"],
        ];
        (words.map(request).concat(), words.len())
    }

    /// Reads the replies of this server.
    ///
    /// # Errors
    /// Its words, where it does not tell.
    pub(super) fn read(replies: &[NodeReply], by: &Server) -> Result<Self, String> {
        let text = |reply: &NodeReply| {
            String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned()
        };
        let slots =
            Slots::read(&replies[0], by).map_err(|words| format!("{by}: {}", remedied(words)))?;
        let info = text(&replies[2]);
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let version = field("valkey_version:").or(field("redis_version:"));
        Ok(Self {
            by: by.clone(),
            slots,
            version: version.unwrap_or("?").to_owned(),
            is_down: text(&replies[1]).contains("cluster_state:fail"),
        })
    }

    /// Why no locks are taken by this view, for a client that has taken them in the cluster of these servers.
    pub(super) fn objection(&self, known: &HashSet<Vec<u8>>) -> Option<String> {
        let by = &self.by;
        if is_of_another_cluster(&self.slots, known) {
            Some(format!("{by}: {ANOTHER_CLUSTER}"))
        } else if self.is_down {
            Some(format!(
                "{by}: CLUSTERDOWN the cluster is down, as it says: see redis-cli --cluster check"
            ))
        } else {
            None
        }
    }
}

/// Whether these slots are those of another cluster than the one of these servers. One that tells no ids, or has no slots, may be any.
pub(super) fn is_of_another_cluster(slots: &Slots, known: &HashSet<Vec<u8>>) -> bool {
    !known.is_empty() && !slots.ids().is_empty() && slots.ids().is_disjoint(known)
}

/// Why servers of the address cannot be used together, where their views are of two clusters. Also one that is down at present counts: it will
/// be up again.
pub(super) fn of_two_clusters(views: &[View]) -> Option<String> {
    let mut others: Vec<&View> = views.iter().collect();
    others.retain(|view| !view.slots.ids().is_empty());
    let first = others.first()?.by.clone();
    let mut ids = others.first()?.slots.ids().clone();
    // What one server does not know any more, another one may.
    while let Some(at) = others
        .iter()
        .position(|view| !view.slots.ids().is_disjoint(&ids))
    {
        ids.extend(others.swap_remove(at).slots.ids().iter().cloned());
    }
    let other = &others.first()?.by;
    Some(format!(
        "{first} and {other} {TWO_CLUSTERS}, and a lock could have a holder in each of them: list servers of one cluster alone"
    ))
}

/// Why no server tells its slots.
#[derive(Clone, Debug)]
pub(super) struct Unusable {
    pub(super) words: String,
    /// Whether asking again does not mend it.
    pub(super) is_lasting: bool,
}

impl Unusable {
    /// What asking again does not mend is told as such where it holds for all.
    pub(super) fn new(refusals: Vec<String>) -> Self {
        let is_lasting = |words: &String| LASTING.iter().any(|lasting| words.contains(lasting));
        let is_lasting = !refusals.is_empty() && refusals.iter().all(is_lasting);
        let mut each: Vec<String> = Vec::new();
        for words in refusals {
            let words = words.strip_prefix("ERR Redis Cluster: ").unwrap_or(&words);
            if !each.iter().any(|other| other == words) {
                each.push(words.to_owned());
            }
        }
        let words = format!("Redis Cluster: {}", each.join("; "));
        Self { words, is_lasting }
    }
}

/// A server's words, and what to do about them.
pub(super) fn remedied(words: String) -> String {
    let remedy = if words.contains("cluster support disabled") {
        ": it is no server of a Redis Cluster, write redis://HOST:PORT for one of its own"
    } else if words.starts_with("NOAUTH") {
        ": the cluster has a password and the address has none, write redis-cluster://:PASSWORD@HOST:PORT"
    } else if words.contains("without any password configured") {
        ": the cluster has no password, write redis-cluster://HOST:PORT without one"
    } else if words.starts_with("WRONGPASS") || words.starts_with("ERR AUTH") {
        ": the user or password in the address is not the cluster's"
    } else {
        ""
    };
    format!("{words}{remedy}")
}

pub(super) const ANOTHER_CLUSTER: &str = "it names no server of the cluster in which this program has taken locks, so it is in another one, where a lock could have a second \
holder: correct the address, or start the program again if all servers were replaced";
const TWO_CLUSTERS: &str = "are in two clusters";
/// Words that the same question gets again.
const LASTING: [&str; 7] = [
    "cluster support disabled",
    TWO_CLUSTERS,
    "NOAUTH",
    "WRONGPASS",
    "ERR AUTH",
    "NOPERM",
    "does not speak Redis's protocol",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_login_is_said_and_lasts() {
        for (words, remedy) in [
            ("NOAUTH Authentication required.", "the address has none"),
            (
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                "the cluster has no password",
            ),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                "is not the cluster's",
            ),
        ] {
            let told = remedied(words.to_owned());
            assert!(told.starts_with(words) && told.contains(remedy), "{told}");
            assert!(Unusable::new(vec![told]).is_lasting);
        }
    }
}
