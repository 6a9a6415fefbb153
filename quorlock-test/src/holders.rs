//! Who holds a lock, as the nodes and the guards have it.
//!
//! Invariant: nothing here is taken from one of the two alone. Nodes know tokens and not whether their holder still believes
//! in them; guards know what a client believes and not whether a majority agrees.

use std::fmt;
use std::sync::Arc;

use crate::cluster::{RunningCluster, TestCluster};
use crate::history::{Believed, shown};

/// The holder of a lock, as a majority of the nodes has it, by [`TestCluster::holder`](crate::TestCluster::holder).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The token under which the nodes hold the lock.
    pub token: String,
    /// The nodes that do, of those that are up and out of their restart delay.
    pub nodes: Vec<usize>,
    /// The number of the cluster's client that has a valid guard with this token. None where it has no guard, as for a lease, has
    /// lost its lock, or is not one of the cluster's.
    pub client: Option<usize>,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.client {
            Some(client) => write!(formatter, "client {client}")?,
            None => formatter.write_str("a holder without a valid guard")?,
        }
        write!(
            formatter,
            " (token {}, on nodes {:?})",
            self.token, self.nodes
        )
    }
}

impl TestCluster {
    /// The holder of a lock: the token that a majority of all nodes has, if there is one. The nodes are asked directly, past cuts and pauses.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = quorlock_test::TestCluster::three().await;
    /// assert_eq!(cluster.holder("job").await, None);
    /// let guard = cluster.client().lock("job").acquire().await?;
    /// let holder = cluster.holder("job").await.ok_or("nobody")?;
    /// assert_eq!((holder.client, holder.token), (Some(0), guard.token().to_string()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn holder(&self, name: impl AsRef<[u8]>) -> Option<Holder> {
        let name = name.as_ref().to_vec();
        self.settle().await;
        self.change(|cluster| async move { cluster.holder(&name).await })
            .await
    }

    /// Asserts that no majority holds a lock and no guard believes that it does: also once all that was due is done.
    ///
    /// # Panics
    /// If it is held.
    pub async fn assert_free(&self, name: impl AsRef<[u8]>) {
        let name = name.as_ref();
        let holder = self.holder(name).await;
        let believed = self.cluster().history.believed(name);
        let (shown, history) = (shown(name), self.history());
        if let Some(holder) = holder {
            panic!("lock '{shown}' is not free: {holder} holds it\n{history}");
        }
        if let Some(believed) = believed.first() {
            let client = believed.client;
            panic!(
                "lock '{shown}' is not free: the guard of client {client} is valid, and no majority holds it\n{history}"
            );
        }
    }

    /// Asserts that no lock has, or ever had, two holders at one moment: no two guards of the cluster's clients were valid at once, and
    /// none is valid now while a majority holds another's token.
    ///
    /// # Panics
    /// If one had two.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = quorlock_test::TestCluster::three().await;
    /// let (first, second) = (cluster.client(), cluster.client());
    /// let guard = first.lock("job").acquire().await?;
    /// assert!(guard.release().await.released());
    /// let _guard = second.lock("job").acquire().await?;
    /// cluster.assert_at_most_one_holder().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn assert_at_most_one_holder(&self) {
        self.settle().await;
        let mut found = self.cluster().history.overlaps();
        found.extend(
            self.change(|cluster| async move { cluster.contradictions().await })
                .await,
        );
        if !found.is_empty() {
            let (found, history) = (found.join("\n"), self.history());
            panic!("a lock had two holders:\n{found}\n\nWhat happened:\n{history}");
        }
    }
}

impl RunningCluster {
    async fn holder(self: &Arc<Self>, name: &[u8]) -> Option<Holder> {
        let mut tokens: Vec<(String, Vec<usize>)> = Vec::new();
        for (node, member) in self.members.iter().enumerate() {
            let value = member.ask(&[b"GET", name]).await;
            let Some(token) = value.as_ref().and_then(|value| value.as_bytes()) else {
                continue;
            };
            let token = String::from_utf8_lossy(token).into_owned();
            match tokens.iter_mut().find(|(other, _)| *other == token) {
                Some((_, nodes)) => nodes.push(node),
                None => tokens.push((token, vec![node])),
            }
        }
        let majority = self.members.len() / 2 + 1;
        let (token, nodes) = tokens
            .into_iter()
            .find(|(_, nodes)| nodes.len() >= majority)?;
        let believed = self.history.believed(name);
        let believed = believed.iter().find(|believed| believed.token == token);
        let client = believed.map(|believed| believed.client);
        Some(Holder {
            token,
            nodes,
            client,
        })
    }

    /// Guards that are valid while the nodes have another's token, and those of one lock that are valid at once.
    async fn contradictions(self: Arc<Self>) -> Vec<String> {
        let mut found = Vec::new();
        for name in self.history.names() {
            let holder = self.holder(&name).await;
            let believed = self.history.believed(&name);
            let of_another = |believed: &&Believed| {
                let holder = holder.as_ref();
                holder.is_some_and(|holder| holder.token != believed.token)
            };
            if let (Some(other), Some(holder)) = (believed.iter().find(of_another), &holder) {
                let (name, client) = (shown(&name), other.client);
                found.push(format!(
                    "the guard of client {client} for '{name}' is valid (token {}) while {holder} holds it",
                    other.token
                ));
            }
        }
        found
    }
}
