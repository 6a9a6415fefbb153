//! Elections while the time is moved: candidates in turn, and observers who are told of them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::time::Duration;

use quorlock_client::{Election, Leadership, Observed, Observer, Redlock};
use quorlock_test::TestCluster;
use quorlock_testkit::Wire;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(6);
/// Between two looks at what has become of something.
const STEP: Duration = Duration::from_millis(500);

fn election(redlock: &Redlock) -> Election {
    redlock.election("primary").ttl(TTL)
}

async fn campaign(redlock: &Redlock, proposal: &str) -> Leadership {
    let election = election(redlock).proposal(proposal).fenced();
    election.campaign().await.unwrap()
}

/// Leads within a second.
async fn lead(cluster: &TestCluster, redlock: &Redlock, proposal: &str) -> Leadership {
    let campaign = campaign(redlock, proposal);
    let (leadership, ()) = tokio::join!(campaign, cluster.advance(SECOND));
    leadership
}

/// Moves the time on until this is so, and says by how much.
async fn passes_until(cluster: &TestCluster, is_so: impl Fn() -> bool) -> Duration {
    let began = cluster.now();
    while !is_so() {
        let passed = cluster.now() - began;
        assert!(passed < 2 * TTL, "not so after {passed:?}");
        cluster.advance(STEP).await;
    }
    cluster.now() - began
}

/// Moves the time on until all of them observe this, and says by how much.
async fn all_observe(
    cluster: &TestCluster,
    observers: &[Observer],
    is_it: impl Fn(&Observed) -> bool,
) -> Duration {
    let observes = |observer: &Observer| observer.current().as_ref().is_some_and(&is_it);
    passes_until(cluster, || observers.iter().all(observes)).await
}

fn is_vacant(observed: &Observed) -> bool {
    *observed == Observed::Vacant
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
async fn candidates_lead_in_turn_and_observers_are_told_of_each() {
    let cluster = TestCluster::five().await;
    let [anna, ben, third] = [(); 3].map(|()| cluster.client());
    let observers = [election(&third).observe(), election(&anna).observe()];
    all_observe(&cluster, &observers, is_vacant).await;
    let first = lead(&cluster, &anna, "anna").await;
    all_observe(&cluster, &observers, leads(&first, "anna")).await;
    let waiting = tokio::spawn(async move { campaign(&ben, "ben").await });
    cluster.advance(3 * TTL).await;
    assert!(first.is_valid() && !waiting.is_finished());
    let turn = passes_until(&cluster, || waiting.is_finished());
    let (release, turn) = tokio::join!(first.resign(), turn);
    assert!(release.is_free(), "{release}");
    // It was called: at the nodes the lease had some seconds to go.
    assert!(turn <= SECOND, "{turn:?}");
    let second = waiting.await.unwrap();
    all_observe(&cluster, &observers, leads(&second, "ben")).await;
    // One that vanishes without a word is gone with its lease, which was renewed a third of it ago at most.
    let _left_on_the_nodes = second.into_guard().into_lease();
    let gone = all_observe(&cluster, &observers, is_vacant).await;
    assert!((TTL / 2..=TTL + SECOND).contains(&gone), "{gone:?}");
}

#[tokio::test]
async fn while_nothing_changes_nodes_are_asked_once_for_each_renewal() {
    let cluster = TestCluster::five().await;
    let [candidate, other] = [(); 2].map(|()| cluster.client());
    let _leadership = lead(&cluster, &candidate, "anna").await;
    let observer = [election(&other).observe()];
    all_observe(&cluster, &observer, |it| matches!(it, Observed::Leader(_))).await;
    cluster.advance(TTL).await;
    let before = looks(&cluster);
    // In less than the minute after which all are asked.
    cluster.advance(5 * TTL).await;
    let looks = looks(&cluster) - before;
    assert!((10..=20).contains(&looks), "{looks} looks for 15 renewals");
}

/// How often the nodes were asked about a lock.
fn looks(cluster: &TestCluster) -> u64 {
    let looks = (0..cluster.len()).map(|node| {
        let address = cluster.url(node).strip_prefix("redis://").unwrap();
        let text = Wire::connect(address).ask("INFO commandstats");
        let looks = text.split("cmdstat_lock.info:calls=").nth(1);
        looks.map_or(0, |it| {
            it.split(',').next().unwrap().parse::<u64>().unwrap()
        })
    });
    looks.sum()
}

/// It reaches two of the five nodes still.
#[tokio::test]
async fn a_leader_that_is_cut_off_leads_no_longer_when_another_one_does() {
    let cluster = TestCluster::five().await;
    let [anna, ben, third] = [(); 3].map(|()| cluster.client());
    let first = lead(&cluster, &anna, "anna").await;
    let observer = [election(&third).observe()];
    all_observe(&cluster, &observer, leads(&first, "anna")).await;
    for node in 0..3 {
        cluster.cut(0, node).await;
    }
    let watch = first.watch();
    let waiting = tokio::spawn(async move {
        let leadership = campaign(&ben, "ben").await;
        (leadership, watch.is_valid())
    });
    passes_until(&cluster, || waiting.is_finished()).await;
    let (second, first_leads) = waiting.await.unwrap();
    assert!(!first_leads, "two lead");
    assert!(first.fence() < second.fence(), "{second:?}");
    let _loss = tokio::join!(first.lost(), cluster.advance(SECOND));
    all_observe(&cluster, &observer, leads(&second, "ben")).await;
    // It is back, and neither what it has sent late nor what it gives up is the next one's.
    drop(first);
    cluster.reconnect(0).await;
    cluster.advance(TTL).await;
    assert!(second.is_valid(), "{}", cluster.history());
    let (release, ()) = tokio::join!(second.resign(), cluster.advance(SECOND));
    assert!(!release.was_lost(), "{release}");
}
