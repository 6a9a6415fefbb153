//! Calls of one owner for a lock that it has: what they cost, who is told of what, and when the lock is free.

use std::time::Duration;

use super::cluster_for_tests::{Cluster, Conduct, TTL};
use crate::OperationId;
use crate::action::Event;
use crate::call::{AcquireCall, Call, Outcome};
use crate::outcome::{AcquireError, Release};
use crate::token::Token;
use crate::wait::Wait;

const MS: Duration = Duration::from_millis(1);

fn ask(cluster: &mut Cluster, owner: &'static str, wait: Wait) -> OperationId {
    let call = AcquireCall {
        owner: Some(owner.as_bytes().into()),
        ..Cluster::acquisition(wait)
    };
    cluster.call(Call::Acquire(call))
}

pub(super) fn had(cluster: &mut Cluster, call: OperationId) -> Token {
    match cluster.outcome(call) {
        Some(Outcome::Acquired { token, .. }) => token,
        other => panic!("{other:?}"),
    }
}

fn release(cluster: &mut Cluster, held: OperationId, token: &Token) -> Release {
    let call = cluster.call(Call::Release {
        held: Some(held),
        name: "a".into(),
        token: token.clone(),
        waits_for_all: false,
        keeps_lost: false,
        lasts: None,
    });
    match cluster.outcome(call) {
        Some(Outcome::Released(release)) => release,
        other => panic!("{other:?}"),
    }
}

fn is_held(cluster: &Cluster) -> bool {
    cluster.nodes.iter().any(|node| node.keys.contains_key("a"))
}

#[test]
fn a_lock_that_its_owner_has_is_had_at_once_and_freed_by_the_last_guard() {
    // Whichever of them ends last.
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut cluster = Cluster::new(3);
        let first = ask(&mut cluster, "me", Wait::None);
        let token = had(&mut cluster, first);
        let takes = cluster.nodes[0].takes;
        let mut guards = vec![first];
        for wait in [Wait::None, Wait::Forever] {
            let call = ask(&mut cluster, "me", wait);
            assert_eq!(had(&mut cluster, call), token);
            guards.push(call);
        }
        assert_eq!(cluster.nodes[0].takes, takes, "no node was asked");
        let other = ask(&mut cluster, "you", Wait::None);
        let nobody = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
        for call in [other, nobody] {
            let outcome = cluster.outcome(call);
            let is_busy = matches!(
                outcome,
                Some(Outcome::NotAcquired(AcquireError::Busy { .. }))
            );
            assert!(is_busy, "{outcome:?}");
        }
        for guard in &order[..2] {
            assert!(release(&mut cluster, guards[*guard], &token).is_shared());
            assert_eq!(
                cluster.lost.pop(),
                Some(guards[*guard]),
                "this guard has ended"
            );
            assert!(is_held(&cluster));
            // It is renewed beyond its lease.
            cluster.pass(TTL * 2);
            assert!(is_held(&cluster) && cluster.lost.is_empty());
        }
        assert!(release(&mut cluster, guards[order[2]], &token).released());
        assert!(!is_held(&cluster));
        assert_eq!(cluster.lost, [guards[order[2]]]);
        assert_eq!(
            cluster.client.size().of_calls(),
            0,
            "{:?}",
            cluster.client.size()
        );
        // What follows is another lock.
        let next = ask(&mut cluster, "me", Wait::None);
        assert_ne!(had(&mut cluster, next), token);
    }
}

#[test]
fn guards_that_are_dropped_count_as_well() {
    let mut cluster = Cluster::new(3);
    let guards = [0; 3].map(|_| ask(&mut cluster, "me", Wait::None));
    let token = had(&mut cluster, guards[0]);
    for guard in &guards[..2] {
        cluster.happens(Event::Gone(*guard));
        // A program that ends waits no longer for it.
        let told = cluster.outcome(guard.undoing());
        assert!(matches!(told, Some(Outcome::Settled)), "{told:?}");
        assert!(is_held(&cluster));
    }
    // A guard that has ended ends nothing any more.
    cluster.happens(Event::Gone(guards[0]));
    assert!(is_held(&cluster));
    cluster.call(Call::Detach { held: guards[2] });
    assert!(is_held(&cluster));
    assert!(release(&mut cluster, guards[2], &token).released());
    assert!(!is_held(&cluster));
}

#[test]
fn a_loss_reaches_all_guards_and_the_owner_begins_anew() {
    let mut cluster = Cluster::new(3);
    let mut guards = [0; 3].map(|_| ask(&mut cluster, "me", Wait::None)).to_vec();
    let token = had(&mut cluster, guards[1]);
    // The one that has acquired it is gone.
    cluster.happens(Event::Gone(guards.remove(0)));
    cluster.lost.clear();
    cluster.take_away();
    cluster.pass(TTL);
    assert_eq!(cluster.lost, guards);
    let again = ask(&mut cluster, "me", Wait::None);
    let outcome = cluster.outcome(again);
    assert!(
        matches!(outcome, Some(Outcome::NotAcquired(_))),
        "{outcome:?}"
    );
    for guard in guards {
        assert!(release(&mut cluster, guard, &token).was_lost());
    }
    assert!(is_held(&cluster), "by somebody else");
    assert_eq!(cluster.client.size().owned, 0);
}

#[test]
fn calls_of_an_owner_that_wait_have_the_lock_together_and_before_others() {
    let mut cluster = Cluster::new(3);
    cluster.take_away();
    let calls = ["me", "you", "me"].map(|owner| ask(&mut cluster, owner, Wait::Forever));
    cluster.pass(500 * MS);
    for node in &mut cluster.nodes {
        node.keys.clear();
    }
    cluster.pass(500 * MS);
    let token = had(&mut cluster, calls[0]);
    assert_eq!(had(&mut cluster, calls[2]), token);
    assert!(cluster.outcome(calls[1]).is_none());
    assert!(release(&mut cluster, calls[0], &token).is_shared());
    cluster.pass(500 * MS);
    assert!(cluster.outcome(calls[1]).is_none());
    assert!(release(&mut cluster, calls[2], &token).released());
    cluster.pass(500 * MS);
    assert_ne!(had(&mut cluster, calls[1]), token);
}

#[test]
fn every_guard_may_renew_the_lock_and_learns_of_it() {
    let mut cluster = Cluster::new(3);
    let guards = [0; 2].map(|_| ask(&mut cluster, "me", Wait::None));
    cluster.pass(TTL / 10);
    for guard in guards {
        let renewal = cluster.call(Call::Renew { held: guard });
        let outcome = cluster.outcome(renewal);
        assert!(
            matches!(outcome, Some(Outcome::Extended(Ok(_)))),
            "{outcome:?}"
        );
    }
    assert_eq!(cluster.client.size().owned, 4);
    // Where no majority answers all of them are lost in the end.
    for node in [0, 1] {
        cluster.conduct(node, Conduct::IsAway);
    }
    cluster.pass(TTL);
    assert_eq!(cluster.lost, guards);
}
