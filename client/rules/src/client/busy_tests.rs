//! Nodes and clients that are busy: who is slow is not silent, and a renewal does not wait behind callers.

use std::time::Duration;

use super::cluster_for_tests::{Cluster, TTL};
use super::settling::{CALLS_DUE_MAX, RENEWALS_DUE_MAX};
use crate::action::Event;
use crate::call::{AcquireCall, Call, Outcome};
use crate::outcome::AcquireError;
use crate::token::Token;
use crate::wait::Wait;

const MS: Duration = Duration::from_millis(1);

/// Nodes that are known to answer within a millisecond, and on which somebody else has a lock.
fn near() -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.round_trip = MS;
    for _ in 0..20 {
        ask_something(&mut cluster);
        cluster.pass(10 * MS);
    }
    cluster.take_away();
    cluster
}

/// A request that holds nothing up, and is answered in its turn.
fn ask_something(cluster: &mut Cluster) {
    cluster.call(Call::Release {
        held: None,
        name: "other".into(),
        token: Token::from("unknown"),
        waits_for_all: false,
        keeps_lost: false,
        lasts: None,
    });
}

fn slow(cluster: &mut Cluster, nodes: &[usize], time: Duration) {
    for node in nodes {
        cluster.nodes[*node].slow = time;
    }
}

fn is_busy(outcome: Option<&Outcome>) -> bool {
    matches!(
        outcome,
        Some(Outcome::NotAcquired(AcquireError::Busy { .. }))
    )
}

#[test]
fn a_node_that_goes_on_answering_is_waited_for_beyond_its_time() {
    let mut cluster = near();
    for millis in [150, 300] {
        slow(&mut cluster, &[0, 1, 2], millis * MS);
        ask_something(&mut cluster);
    }
    slow(&mut cluster, &[0, 1, 2], 400 * MS);
    let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
    cluster.pass(390 * MS);
    assert!(cluster.outcome(call).is_none(), "its time is 200 ms");
    cluster.pass(20 * MS);
    let outcome = cluster.outcome(call);
    assert!(is_busy(outcome.as_ref()), "{outcome:?}");
}

#[test]
fn a_node_that_answers_nothing_has_no_more_than_its_time() {
    let mut cluster = near();
    slow(&mut cluster, &[0, 1, 2], TTL);
    let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
    cluster.pass(201 * MS);
    let outcome = cluster.outcome(call);
    let is_silent = matches!(
        outcome,
        Some(Outcome::NotAcquired(AcquireError::NoQuorum { .. }))
    );
    assert!(is_silent, "{outcome:?}");
}

#[test]
fn where_a_node_has_refused_a_slow_one_is_not_taken_for_silent() {
    let mut cluster = near();
    slow(&mut cluster, &[1, 2], 100 * MS);
    let call = cluster.call(Call::Acquire(Cluster::acquisition(Wait::None)));
    // No longer in the way of others than usual.
    cluster.pass(60 * MS);
    let outcome = cluster.outcome(call);
    assert!(is_busy(outcome.as_ref()), "{outcome:?}");
}

#[test]
fn a_renewal_comes_before_callers_that_give_up_together() {
    let mut cluster = near();
    let named = |name: &'static str, wait| AcquireCall {
        name: name.into(),
        ..Cluster::acquisition(wait)
    };
    cluster.call(Call::Acquire(named("b", Wait::None)));
    let wait = Wait::For(TTL / 3);
    for _ in 0..10 * CALLS_DUE_MAX {
        cluster.call(Call::Acquire(named("a", wait)));
    }
    cluster.pass(TTL / 3 - 3 * MS);
    let mut actions = Vec::new();
    cluster.now = cluster.now.after(3 * MS);
    let now = cluster.now;
    let mut written = Vec::new();
    for _ in 0..3 {
        cluster.client.handle(now, Event::Timer, &mut actions);
        written.push(cluster.take_written(0));
    }
    assert!(written[0].contains("EVAL"), "{}", written[0].len());
    for one in written {
        let takes = one.matches("SET").count();
        assert!((1..=CALLS_DUE_MAX).contains(&takes), "{takes} at once");
    }
}

#[test]
fn of_renewals_that_are_due_together_only_so_many_are_sent_at_once() {
    let mut cluster = Cluster::new(3);
    for number in 0..2 * RENEWALS_DUE_MAX + 1 {
        let name = format!("lock{number}").into();
        let call = AcquireCall {
            name,
            ..Cluster::acquisition(Wait::None)
        };
        let held = cluster.call(Call::Acquire(call));
        assert!(matches!(
            cluster.outcome(held),
            Some(Outcome::Acquired { .. })
        ));
    }
    // Each is looked at once as the call that has acquired it.
    cluster.pass(TTL / 4);
    cluster.now = cluster.now.after(TTL / 4);
    let (now, mut actions) = (cluster.now, Vec::new());
    cluster.take_written(0);
    for expected in [RENEWALS_DUE_MAX, RENEWALS_DUE_MAX, 1, 0] {
        cluster.client.handle(now, Event::Timer, &mut actions);
        let written = cluster.take_written(0);
        assert_eq!(written.matches("EVAL").count(), expected);
        let is_due = cluster
            .client
            .next_time()
            .is_some_and(|next| now.has_reached(next));
        assert_eq!(is_due, expected == RENEWALS_DUE_MAX);
    }
}
