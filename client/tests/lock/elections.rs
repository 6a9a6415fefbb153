//! Elections on nodes of this process: what observers make up for, and what is refused. Where time decides, it is moved:
//! those tests are `quorlock-test`'s.

use std::time::Duration;

use quorlock_client::{
    AcquireError, Election, Leadership, Observed, Observer, Redlock, Wait, blocking,
};

use crate::in_process::{Embedded, listed};

const TTL: Duration = Duration::from_millis(900);

fn election(redlock: &Redlock) -> Election {
    redlock.election("primary").ttl(TTL)
}

async fn lead(redlock: &Redlock, proposal: &str) -> Leadership {
    let election = election(redlock).proposal(proposal).fenced();
    election.campaign().await.unwrap()
}

/// Waits until this is observed, whatever is observed before.
async fn observes(observer: &mut Observer, is_it: impl Fn(&Observed) -> bool) {
    let observing = async { while !is_it(&observer.next().await.unwrap()) {} };
    let in_time = tokio::time::timeout(Duration::from_secs(10), observing).await;
    assert!(in_time.is_ok(), "{observer:?}");
}

/// Whether this is what an observer is told of this leader.
fn leads(leadership: &Leadership, proposal: &str) -> impl Fn(&Observed) -> bool + use<> {
    let (token, fence) = (leadership.token().clone(), leadership.fence());
    let proposal = proposal.to_owned();
    move |observed| match observed {
        Observed::Leader(leader) => {
            leader.token == token
                && leader.fence == fence
                && leader.proposal.as_deref() == Some(&*proposal)
        }
        _ => false,
    }
}

#[tokio::test]
async fn an_observer_that_has_lost_its_connections_learns_what_has_changed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let [anna, ben, third] = [(); 3].map(|()| listed(&nodes).build().unwrap());
    let first = lead(&anna, "anna").await;
    let mut observer = election(&third).observe();
    observes(&mut observer, leads(&first, "anna")).await;
    for node in &nodes {
        node.call(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        node.call(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    }
    drop(first);
    let second = lead(&ben, "ben").await;
    observes(&mut observer, leads(&second, "ben")).await;
    // Two nodes are away, and a majority tells.
    nodes[0].stop().await;
    nodes[1].stop().await;
    assert!(second.resign().await.is_free());
    observes(&mut observer, |it| *it == Observed::Vacant).await;
    nodes[2].stop().await;
    observes(&mut observer, |it| *it == Observed::Unknown).await;
    for node in &nodes[..3] {
        node.restart().await;
    }
    observes(&mut observer, |it| *it == Observed::Vacant).await;
}

#[tokio::test]
async fn observers_of_names_that_begin_alike_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let [candidate, third] = [(); 2].map(|()| listed(&nodes).build().unwrap());
    let mut long = third.election("primary:1").observe();
    assert_eq!(long.next().await, Some(Observed::Vacant));
    let mut short = third.election("primary").observe();
    assert_eq!(short.next().await, Some(Observed::Vacant));
    let is_leader = |it: &Observed| matches!(it, Observed::Leader(_));
    let of_long = candidate.election("primary:1").campaign().await.unwrap();
    observes(&mut long, is_leader).await;
    drop(short);
    assert!(of_long.resign().await.is_free());
    observes(&mut long, |it| *it == Observed::Vacant).await;
    let _leadership = candidate.election("primary:1").campaign().await.unwrap();
    observes(&mut long, is_leader).await;
}

#[test]
fn elections_work_without_a_runtime_and_refuse_what_no_node_takes() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let nodes = runtime.block_on(Embedded::five(&folder));
    let redlock = blocking::Redlock::from(listed(&nodes).build().unwrap());
    let election = redlock.election("primary").ttl(TTL);
    let mut observer = election.observe();
    assert_eq!(observer.next(), Some(Observed::Vacant));
    let leadership = election.clone().proposal("anna").campaign().unwrap();
    assert!(matches!(observer.next(), Some(Observed::Leader(_))));
    assert!(leadership.is_valid() && leadership.fence().is_none());
    let busy = election.clone().wait(Wait::None).campaign();
    assert!(matches!(busy, Err(AcquireError::Busy { .. })));
    assert!(leadership.resign().is_free());
    for odd in ["", "a\nb", &"x".repeat(257)] {
        let refused = election.clone().proposal(odd).campaign();
        assert!(
            matches!(refused, Err(AcquireError::Invalid { .. })),
            "{odd:?}"
        );
    }
    assert_eq!(redlock.election("").observe().next(), None);
}
