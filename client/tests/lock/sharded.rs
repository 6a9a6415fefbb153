//! Names of locks that are shared out among clusters of Quorlock's nodes in this process.

use std::time::Duration;

use quorlock_client::{AcquireError, Observed, Redlock, ShardError, ShardedRedlock, Wait};
use quorlock_server::{Node, Value};

use crate::TTL;

/// Two clusters of three nodes each.
struct Clusters {
    nodes: Vec<Node>,
}

impl Clusters {
    async fn start() -> Self {
        let mut nodes = Vec::new();
        for _ in 0..6 {
            nodes.push(Node::builder().ephemeral().start().await.unwrap());
        }
        Self { nodes }
    }

    fn redlock(&self, cluster: usize) -> Redlock {
        let nodes = self.nodes[cluster * 3..][..3].iter().map(Node::url);
        Redlock::builder().nodes(nodes).build().unwrap()
    }

    fn client(&self) -> ShardedRedlock {
        let all = [("east", self.redlock(0)), ("west", self.redlock(1))];
        ShardedRedlock::new(all).unwrap()
    }

    /// How many nodes of each cluster have this key.
    async fn holders(&self, name: &str) -> [usize; 2] {
        let mut counts = [0, 0];
        for (at, node) in self.nodes.iter().enumerate() {
            let reply = node.call(["EXISTS", name]).await.unwrap();
            counts[at / 3] += usize::from(reply == Value::Integer(1));
        }
        counts
    }
}

async fn assert_busy(client: &ShardedRedlock, name: &'static str) {
    let refused = client.lock(name).unwrap().wait(Wait::None).acquire().await;
    assert!(
        matches!(refused, Err(AcquireError::Busy { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn clients_exclude_each_other_on_the_cluster_of_the_name_whatever_the_order_of_their_lists() {
    let clusters = Clusters::start().await;
    let first = clusters.client();
    let others = [("west", clusters.redlock(1)), ("east", clusters.redlock(0))];
    let second = ShardedRedlock::new(others).unwrap();
    let on = |name: &'static str| first.cluster_of(name).0.to_owned();
    assert_eq!([on("backup"), on("report")], ["east", "west"]);
    for (name, own) in [("backup", 0), ("report", 1)] {
        let guard = first.lock(name).unwrap().ttl(TTL).acquire().await.unwrap();
        assert_busy(&second, name).await;
        let held = clusters.holders(name).await;
        assert!(held[own] >= 2 && held[1 - own] == 0, "{held:?}");
        assert!(guard.release().await.is_free());
        let again = second.lock(name).unwrap().wait(Wait::None).acquire().await;
        assert!(again.is_ok(), "{again:?}");
    }
}

#[tokio::test]
async fn leases_several_names_permits_and_elections_are_on_the_cluster_of_their_name() {
    let clusters = Clusters::start().await;
    let (first, second) = (clusters.client(), clusters.client());
    let lease = first
        .lock("report")
        .unwrap()
        .ttl(TTL)
        .acquire_lease()
        .await
        .unwrap();
    assert!(second.extend("report", lease.token(), TTL).await.is_ok());
    assert!(second.release("report", lease.token()).await.is_free());

    let apart = first.locks(["backup", "report"]).unwrap_err();
    assert!(
        matches!(&apart, ShardError::Apart { names, .. } if names.len() == 2),
        "{apart}"
    );
    let together = first.locks(["backup {report}", "{report} 2"]).unwrap();
    let guard = together.acquire().await.unwrap();
    assert_busy(&second, "{report} 2").await;
    drop(guard);

    // The name under which a permit is extended leads to the same cluster.
    let permit = first
        .semaphore("report", 3)
        .unwrap()
        .acquire()
        .await
        .unwrap();
    assert_eq!(second.cluster_of(permit.name()).0, "west");
    let lease = permit.into_lease();
    assert!(
        second
            .extend(lease.name(), lease.token(), TTL)
            .await
            .is_ok()
    );

    let leader = first
        .election("report")
        .unwrap()
        .proposal("here")
        .campaign()
        .await
        .unwrap();
    let (_, cluster) = second.cluster_of("report");
    let mut observer = cluster.election("report").observe();
    let deadline = Duration::from_secs(20);
    let seen = async {
        while let Some(observed) = observer.next().await {
            if matches!(&observed, Observed::Leader(it) if it.token == *leader.token()) {
                return;
            }
        }
        panic!("nobody leads");
    };
    tokio::time::timeout(deadline, seen).await.unwrap();
}

#[tokio::test]
async fn a_name_that_moves_rests_until_all_have_the_next_list_and_the_others_go_on() {
    let clusters = Clusters::start().await;
    let before = ShardedRedlock::new([("east", clusters.redlock(0))]).unwrap();
    let meanwhile = before.clone().changing_to(["east", "west"]).unwrap();
    let after = clusters.client();

    // Held by the old list: it is extended and released where it is.
    let lease = before
        .lock("report")
        .unwrap()
        .ttl(TTL)
        .acquire_lease()
        .await
        .unwrap();
    let moves = meanwhile.lock("report").unwrap_err();
    assert!(matches!(moves, ShardError::Moves { .. }), "{moves}");
    for refused in [
        meanwhile.semaphore("report", 2).map(drop),
        meanwhile.election("report").map(drop),
        meanwhile.locks(["{report}", "report"]).map(drop),
    ] {
        assert!(
            matches!(refused, Err(ShardError::Moves { .. })),
            "{refused:?}"
        );
    }
    assert!(meanwhile.extend("report", lease.token(), TTL).await.is_ok());
    assert!(meanwhile.release("report", lease.token()).await.is_free());

    // One that stays excludes all three.
    let guard = before
        .lock("backup")
        .unwrap()
        .ttl(TTL)
        .acquire()
        .await
        .unwrap();
    for other in [&meanwhile, &after] {
        assert_busy(other, "backup").await;
    }
    drop(guard);
    assert!(after.lock("report").unwrap().acquire().await.is_ok());
}

#[test]
fn a_node_is_in_one_cluster_and_all_clusters_have_one_prefix() {
    let of = |node: &str, prefix: &str| {
        let builder = Redlock::builder().node(format!("redis://{node}:1"));
        builder.prefix(prefix).build().unwrap()
    };
    let twice = ShardedRedlock::new([("a", of("h1", "")), ("b", of("h1", ""))]);
    assert!(matches!(twice, Err(ShardError::NodeTwice(node)) if &*node == "redis://h1:1"));
    let prefixes = ShardedRedlock::new([("a", of("h1", "x:")), ("b", of("h2", "y:"))]);
    assert!(matches!(prefixes, Err(ShardError::Prefixes(_, _))));
    // The prefix is a part of the name: programs with and without one mean the same lock.
    let behind =
        ShardedRedlock::new([("east", of("h1", "app:")), ("west", of("h2", "app:"))]).unwrap();
    let whole = ShardedRedlock::new([("east", of("h1", "")), ("west", of("h2", ""))]).unwrap();
    for name in ["backup", "report", "a", "b", "c", "d"] {
        let said = whole.cluster_of(format!("app:{name}")).0;
        assert_eq!(behind.cluster_of(name).0, said, "{name}");
    }
    assert_eq!(behind.cluster_of("backup").0, "west");
}
