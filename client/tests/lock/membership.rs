//! Nodes of another cluster among those that are listed, and one node that is listed twice.

use quorlock_client::{AcquireError, Cause, NodeAnswer, NodeReport, NodeState, Redlock, VotesBy};
use quorlock_testkit::eventually;

use crate::fake_node::{FakeNode, Mood};
use crate::{acquire, client, holders, probes, refused};

/// A node of each of these clusters.
fn nodes_of(clusters: &[&str]) -> Vec<FakeNode> {
    let nodes = FakeNode::five();
    for (node, cluster) in nodes.iter().zip(clusters) {
        let line = format!("quorlock_cluster_id:{cluster}\r\n");
        node.state().info.push_str(&line);
    }
    nodes
}

fn is_outsider(cause: &Cause) -> bool {
    matches!(cause, Cause::OtherCluster { cluster, expected, .. }
        if &**cluster == "red" && &**expected == "blue")
}

#[tokio::test]
async fn one_node_of_another_cluster_does_not_keep_the_others_from_voting() {
    // Whichever of them connects first.
    let nodes = nodes_of(&["red", "blue", "blue", "blue", "blue"]);
    let redlock = client(&nodes);
    probes(&redlock, |statuses| {
        let votes: Vec<bool> = statuses.iter().map(|status| status.votes()).collect();
        votes == [false, true, true, true, true]
    })
    .await;
    let statuses = redlock.probe().await;
    let NodeState::DoesNotVote(cause) = &statuses[0].state else {
        panic!("{}", statuses[0])
    };
    assert!(is_outsider(cause), "{cause}");
    let guard = acquire(&redlock, "a").await;
    eventually("the others hold it", || holders(&nodes, "a") == 4);
    assert_eq!(
        nodes[0].count("SET a"),
        0,
        "it may be somebody else's there"
    );
    assert!(guard.release().await.released());
}

#[tokio::test]
async fn nodes_of_two_clusters_are_no_majority_together() {
    let nodes = nodes_of(&["blue", "blue", "red", "red", "blue"]);
    nodes[4].set_mood(Mood::Refuses("ERR broken"));
    let error = refused(&client(&nodes), "a").await;
    let AcquireError::NoQuorum { nodes: reports, .. } = &error else {
        panic!("{error}")
    };
    let not = |at: usize| match &reports[at].answer {
        NodeAnswer::Not(cause) => is_outsider(cause),
        _ => false,
    };
    assert!(not(2) && not(3), "{error}");
    let own = &reports[0].answer;
    let is_own = matches!(
        own,
        NodeAnswer::Granted | NodeAnswer::Not(Cause::NotWaitedFor)
    );
    assert!(is_own, "{error}");
    eventually("nothing is left", || holders(&nodes, "a") == 0);
}

#[tokio::test]
async fn a_node_that_may_decide_between_two_clusters_is_waited_for_and_the_others_are_named() {
    let nodes = nodes_of(&["blue", "blue", "red", "red", ""]);
    nodes[4].state().info = "-LOADING the node is loading its data\r\n".into();
    let error = refused(&client(&nodes), "a").await;
    let AcquireError::NoQuorum { nodes: reports, .. } = &error else {
        panic!("{error}")
    };
    let named = ["blue", "blue", "red", "red", ""].map(str::to_owned);
    assert_eq!(mixed(reports), named, "{error}");
    let passes = |report: &NodeReport| match &report.answer {
        NodeAnswer::Not(cause) => !cause.is_permanent(),
        _ => false,
    };
    assert!(reports.iter().all(passes), "{error}");
    eventually("nothing is left", || holders(&nodes, "a") == 0);
}

/// The cluster of each node that does not vote because none has a majority.
fn mixed(reports: &[NodeReport]) -> Vec<String> {
    let cluster = |report: &NodeReport| match &report.answer {
        NodeAnswer::Not(Cause::MixedClusters { cluster, .. }) => {
            cluster.as_deref().unwrap_or("none").to_owned()
        }
        _ => String::new(),
    };
    reports.iter().map(cluster).collect()
}

#[tokio::test]
async fn nodes_of_clusters_without_a_majority_are_not_asked_and_each_is_named_with_its_own() {
    for (clusters, last) in [
        (["red", "red", "blue", "blue", "green"], "green"),
        // One that names none, as Redis does, belongs to neither.
        (["red", "red", "blue", "blue", ""], "none"),
    ] {
        let nodes = nodes_of(&clusters);
        let redlock = client(&nodes);
        probes(&redlock, |statuses| {
            statuses.iter().all(|status| status.identity.is_some())
        })
        .await;
        let error = refused(&redlock, "a").await;
        let AcquireError::NoQuorum { nodes: reports, .. } = &error else {
            panic!("{error}")
        };
        let named = ["red", "red", "blue", "blue", last].map(str::to_owned);
        assert_eq!(mixed(reports), named, "{error}");
        let lasts = |report: &NodeReport| match &report.answer {
            NodeAnswer::Not(cause) => cause.is_permanent(),
            _ => false,
        };
        assert!(reports.iter().all(lasts), "{error}");
        let text = error.to_string();
        assert!(text.contains("it belongs to the cluster red"), "{text}");
        for node in &nodes {
            assert_eq!(node.count("SET a"), 0, "it may be somebody else's there");
        }
    }
}

#[tokio::test]
async fn a_socket_that_two_paths_lead_to_is_one_vote() {
    let directory = tempfile::tempdir().unwrap();
    let [socket, link] = ["n.sock", "link.sock"].map(|name| directory.path().join(name));
    let node = FakeNode::start("0000");
    node.listen_at(&socket);
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    let other = FakeNode::start("0000");
    other.set_mood(Mood::Refuses("ERR broken"));
    let redlock = Redlock::builder()
        .nodes([&socket, &link].map(|path| format!("unix://{}", path.display())))
        .node(other.url())
        .votes_by(VotesBy::Address)
        .build()
        .unwrap();
    let error = refused(&redlock, "a").await;
    let AcquireError::NoQuorum { nodes, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(nodes[0].answer, NodeAnswer::Granted);
    let twin = &nodes[1].answer;
    assert!(
        matches!(twin, NodeAnswer::Not(Cause::SameNode(_))),
        "{error}"
    );
    other.set_mood(Mood::Serves);
    let guard = acquire(&redlock, "a").await;
    assert!(guard.release().await.released());
}
