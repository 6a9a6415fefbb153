//! A lock with a lock delay: what nodes are asked for, and what a guard that has lost it still releases.

use std::time::Duration;

use super::cluster_for_tests::{Cluster, Conduct, TTL};
use crate::OperationId;
use crate::action::Event;
use crate::call::{AcquireCall, Call, Outcome};
use crate::outcome::{NodeRelease, Release};
use crate::token::Token;
use crate::wait::Wait;

const DELAY: Duration = Duration::from_secs(5);

/// A lock that three nodes hold, and its token.
fn held(cluster: &mut Cluster) -> (OperationId, Token) {
    let held = cluster.call(Call::Acquire(AcquireCall {
        lock_delay: DELAY,
        ..Cluster::acquisition(Wait::None)
    }));
    let Some(Outcome::Acquired { token, .. }) = cluster.outcome(held) else {
        panic!("not acquired")
    };
    (held, token)
}

fn release(cluster: &mut Cluster, held: Option<OperationId>, token: Token) -> Release {
    let release = cluster.call(Call::Release {
        held,
        name: "a".into(),
        token,
        waits_for_all: false,
        keeps_lost: held.is_some(),
        lasts: None,
    });
    // A connection may have to be made.
    if held.is_none() {
        cluster.pass(TTL);
    }
    match cluster.outcome(release) {
        Some(Outcome::Released(release)) => release,
        other => panic!("{other:?}"),
    }
}

/// The lock is lost because no majority renews it; then the nodes are back.
fn lose(cluster: &mut Cluster) {
    (0..3).for_each(|node| cluster.conduct(node, Conduct::IsAway));
    cluster.pass(TTL);
    assert_eq!(cluster.lost.len(), 1);
    (0..3).for_each(|node| cluster.conduct(node, Conduct::Serves));
    cluster.pass(TTL);
}

fn holders(cluster: &Cluster) -> usize {
    let nodes = cluster.nodes.iter();
    nodes.filter(|node| node.keys.contains_key("a")).count()
}

#[test]
fn nodes_are_asked_to_keep_it_for_the_delay_behind_the_ttl() {
    let mut cluster = Cluster::new(3);
    held(&mut cluster);
    for node in &cluster.nodes {
        assert_eq!(node.kept_ms, (TTL + DELAY).as_millis().to_string());
    }
    let mut other = Cluster::new(3);
    other.held();
    assert_eq!(other.nodes[0].kept_ms, TTL.as_millis().to_string());
}

#[test]
fn a_guard_that_is_valid_frees_it_at_once_whether_it_is_released_or_dropped() {
    let mut cluster = Cluster::new(3);
    let (first, token) = held(&mut cluster);
    assert!(release(&mut cluster, Some(first), token).is_free());
    assert_eq!(holders(&cluster), 0);
    let (second, _) = held(&mut cluster);
    cluster.happens(Event::Gone(second));
    assert_eq!(holders(&cluster), 0);
}

#[test]
fn what_was_lost_is_freed_only_by_its_token() {
    for is_dropped in [false, true] {
        let mut cluster = Cluster::new(3);
        let (held, token) = held(&mut cluster);
        lose(&mut cluster);
        if is_dropped {
            cluster.happens(Event::Gone(held));
        } else {
            let kept = release(&mut cluster, Some(held), token.clone());
            assert!(kept.was_lost() && !kept.is_free());
            assert_eq!(kept.nodes[0].1, NodeRelease::Kept);
        }
        cluster.pass(TTL);
        assert_eq!(holders(&cluster), 3, "{is_dropped}");
        assert!(release(&mut cluster, None, token).is_free());
        assert_eq!(holders(&cluster), 0);
    }
}

#[test]
fn without_a_delay_what_was_lost_is_freed_as_soon_as_nodes_can_be_reached() {
    let mut cluster = Cluster::new(3);
    cluster.held();
    lose(&mut cluster);
    assert_eq!(holders(&cluster), 0);
}

#[test]
fn an_attempt_that_fails_leaves_nothing_behind_for_the_delay() {
    let mut cluster = Cluster::new(3);
    for node in [1, 2] {
        cluster.nodes[node].keys.insert("a".into(), "other".into());
    }
    let call = cluster.call(Call::Acquire(AcquireCall {
        lock_delay: DELAY,
        ..Cluster::acquisition(Wait::None)
    }));
    assert!(matches!(
        cluster.outcome(call),
        Some(Outcome::NotAcquired(_))
    ));
    assert!(cluster.nodes[0].keys.is_empty());
}
