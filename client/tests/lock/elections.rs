//! Elections on nodes of this process: candidates in turn, and observers who are told of them.

use std::future::ready;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
async fn candidates_lead_in_turn_and_observers_are_told_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let [anna, ben, third] = [(); 3].map(|()| listed(&nodes).build().unwrap());
    let mut observers = [election(&third).observe(), election(&anna).observe()];
    for observer in &mut observers {
        assert_eq!(observer.next().await, Some(Observed::Vacant));
    }
    let first = lead(&anna, "anna").await;
    for observer in &mut observers {
        observes(observer, leads(&first, "anna")).await;
    }
    let waiting = tokio::spawn(async move { lead(&ben, "ben").await });
    tokio::time::sleep(TTL).await;
    assert!(first.is_valid() && !waiting.is_finished());
    assert!(first.resign().await.is_free());
    let second = waiting.await.unwrap();
    for observer in &mut observers {
        observes(observer, leads(&second, "ben")).await;
    }
    // One that vanishes without a word is gone with its lease.
    let _left_on_the_nodes = second.into_guard().into_lease();
    for observer in &mut observers {
        observes(observer, |observed| *observed == Observed::Vacant).await;
    }
}

#[tokio::test]
async fn while_nothing_changes_nodes_are_asked_once_for_each_renewal() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let [candidate, other] = [(); 2].map(|()| listed(&nodes).build().unwrap());
    let _leadership = lead(&candidate, "anna").await;
    let mut observer = election(&other).observe();
    observes(&mut observer, |it| matches!(it, Observed::Leader(_))).await;
    tokio::time::sleep(TTL).await;
    let before = looks(&nodes).await;
    tokio::time::sleep(5 * TTL).await;
    let looks = looks(&nodes).await - before;
    assert!((10..=20).contains(&looks), "{looks} looks for 15 renewals");
}

async fn looks(nodes: &[Embedded]) -> u64 {
    let mut looks = 0;
    for node in nodes {
        looks += node.count("lock.info").await;
    }
    looks
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

/// It reaches two of the five nodes still.
#[tokio::test]
async fn a_leader_that_is_cut_off_leads_no_longer_when_another_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Embedded::five(&folder).await;
    let is_cut = Arc::new(AtomicBool::new(false));
    let listed_nodes = nodes.iter().cloned().enumerate();
    let anna = listed_nodes.fold(Redlock::builder(), |builder, (number, node)| {
        let is_cut = Arc::clone(&is_cut);
        builder.node_through(&format!("node{}", number + 1), move || {
            ready(match number < 3 && is_cut.load(Ordering::SeqCst) {
                true => Err(io::Error::from(io::ErrorKind::NotConnected)),
                false => node.connect(),
            })
        })
    });
    let anna = anna.build().unwrap();
    let [ben, third] = [(); 2].map(|()| listed(&nodes).build().unwrap());
    let first = lead(&anna, "anna").await;
    let mut observer = election(&third).observe();
    observes(&mut observer, leads(&first, "anna")).await;
    is_cut.store(true, Ordering::SeqCst);
    for node in &nodes[..3] {
        for kind in ["normal", "pubsub"] {
            node.call(&["CLIENT", "KILL", "TYPE", kind]).await;
        }
    }
    let second = lead(&ben, "ben").await;
    assert!(!first.is_valid(), "two lead");
    assert!(first.fence() < second.fence(), "{second:?}");
    let told = tokio::time::timeout(Duration::from_secs(10), first.lost()).await;
    assert!(told.is_ok(), "{first:?}");
    observes(&mut observer, leads(&second, "ben")).await;
    // It is back, and what it gives up is not the next one's.
    is_cut.store(false, Ordering::SeqCst);
    drop(first);
    anna.probe().await;
    assert!(second.is_valid());
    assert!(!second.resign().await.was_lost());
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
