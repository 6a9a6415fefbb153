//! When nodes that a round has missed are asked again, and when the next round comes.

use super::*;

fn extends(node: NodeIndex, round: u32) -> Vec<HoldingAction> {
    vec![HoldingAction::Extend { node, round }]
}

#[test]
fn a_node_that_was_missed_is_asked_again_long_before_the_next_renewal() {
    let mut held = Held::on(&[0, 1, 2, 3, 4], None);
    held.pass(THIRD);
    (0..4).for_each(|node| drop(held.yes(node, 1)));
    // It has not answered: what is asked already is not asked twice.
    assert_eq!(held.pass(TTL / 6), []);
    held.answer(4, 1, ExtendAnswer::Not(Cause::Silent));
    let valid_until = held.holding.valid_until();
    assert_eq!(held.pass(TTL / 12), extends(4, 1));
    assert_eq!(held.pass(Duration::from_millis(1)), []);
    // It is back and still has the lock: its vote counts in the round that began earlier.
    assert_eq!(held.yes(4, 1), []);
    assert_eq!(held.holding.valid_until(), valid_until);
    assert_eq!(held.pass(TTL / 24), []);
}

#[test]
fn a_node_that_others_ask_for_is_asked_again_soon_and_then_less_often() {
    let mut held = Held::on(&[0, 1, 2, 3], None);
    let other = || ExtendAnswer::Other(identity(4));
    held.pass(THIRD);
    (0..4).for_each(|node| drop(held.yes(node, 1)));
    held.answer(4, 1, other());
    let mut asked = Vec::new();
    for _ in 0..99 {
        let actions = held.pass(THIRD / 100);
        for _ in actions {
            asked.push(held.now);
            held.answer(4, 1, other());
        }
    }
    let pauses: Vec<_> = asked.windows(2).map(|two| two[1].since(two[0])).collect();
    assert!(asked.len() <= 6 && pauses.is_sorted(), "{pauses:?}");
    assert!(asked.len() >= 4, "{pauses:?}");
}

#[test]
fn nothing_is_healed_where_the_renewal_has_failed() {
    let mut held = Held::on(&[0, 1, 2], None);
    held.pass(THIRD);
    held.yes(0, 1);
    for node in 1..5 {
        held.answer(node, 1, ExtendAnswer::Not(Cause::Silent));
    }
    // The next round comes soon, and asks all of them.
    assert_eq!(asks(&held.pass(RETRY_MAX)), 5);
}

#[test]
fn while_silent_nodes_are_waited_for_those_are_asked_again_that_others_had() {
    let mut held = Held::on(&[0, 1, 2], None);
    held.now = held.now.after(THIRD);
    let patience = TTL / 6;
    let event = HoldingEvent::Timer;
    held.holding
        .handle(held.now, patience, event, &mut Vec::new());
    // Two are stopped, and an attempt of somebody else has the last one.
    (0..2).for_each(|node| drop(held.yes(node, 1)));
    held.answer(4, 1, ExtendAnswer::Other(identity(4)));
    assert_eq!(held.pass(TTL / 48), extends(4, 1));
    let taken = held.answer(4, 1, ExtendAnswer::Gone(identity(4)));
    assert_eq!(taken, [HoldingAction::Take { node: 4, round: 1 }]);
    let answer = Answer::Busy {
        by: identity(4),
        holder: None,
    };
    let (node, round) = (4, 1);
    let refused = HoldingEvent::Taken {
        node,
        round,
        answer,
    };
    assert_eq!(held.event(refused), []);
    // Once the round has failed, the next one asks all, and no timer is left in the past.
    held.now = START.after(THIRD + patience);
    let mut actions = Vec::new();
    held.holding
        .handle(held.now, patience, HoldingEvent::Timer, &mut actions);
    let timer = actions.iter().rev().find_map(|action| match action {
        HoldingAction::ArmTimer(at) => Some(*at),
        _ => None,
    });
    assert!(actions.contains(&HoldingAction::NotRenewed), "{actions:?}");
    let is_past = timer.is_none_or(|at| held.now.has_reached(at));
    assert!(!is_past, "{actions:?}");
}

#[test]
fn a_round_that_finds_no_majority_any_more_is_over_and_the_next_one_comes_soon() {
    let mut held = Held::on(&[0, 1, 2, 3, 4], None);
    held.pass(THIRD);
    // Their connections were lost, and the fifth node is stopped.
    let cause = || ExtendAnswer::Not(Cause::Unreachable("gone".into()));
    assert_eq!(held.answer(0, 1, cause()), []);
    assert_eq!(held.answer(1, 1, cause()), []);
    assert_eq!(held.answer(2, 1, cause()), [HoldingAction::NotRenewed]);
    assert_eq!(held.answer(3, 1, cause()), []);
    assert_eq!(asks(&held.pass(RETRY_MAX)), 5, "nobody waits for the fifth");
    // A node that somebody else has for a moment is asked again in the same round.
    let mut held = Held::on(&[0, 1, 2, 3, 4], None);
    held.pass(THIRD);
    held.answer(0, 1, cause());
    held.answer(1, 1, cause());
    let other = ExtendAnswer::Other(identity(2));
    assert_eq!(held.answer(2, 1, other), []);
}

#[test]
fn what_somebody_releases_is_not_taken_where_it_never_was() {
    // Node 4 has not granted; somebody who knows the token has released on node 0 and goes on.
    let mut held = Held::on(&[0, 1, 2, 3], None);
    held.pass(THIRD);
    assert_eq!(held.answer(0, 1, ExtendAnswer::Gone(identity(0))), []);
    assert_eq!(held.answer(4, 1, ExtendAnswer::Gone(identity(4))), []);
    (1..4).for_each(|node| drop(held.yes(node, 1)));
    // A node that has started again since has forgotten it, whatever others do.
    held.pass(THIRD);
    let take = [HoldingAction::Take { node: 3, round: 2 }];
    assert_eq!(held.answer(3, 2, ExtendAnswer::Gone(restarted(3))), take);
    assert_eq!(held.answer(4, 2, ExtendAnswer::Gone(identity(4))), []);
}

#[test]
fn with_a_spare_vote_a_bare_majority_neither_keeps_nor_renews_the_lock() {
    let with_spare = |granted: &[NodeIndex]| {
        let mut held = Held::on(granted, None);
        held.holding.terms.spare_votes = 1;
        held.pass(THIRD);
        held
    };
    let mut held = with_spare(&[0, 1, 2, 3, 4]);
    let before = held.holding.valid_until();
    (0..3).for_each(|node| drop(held.yes(node, 1)));
    assert_eq!(held.holding.valid_until(), before);
    held.yes(3, 1);
    assert!(held.holding.valid_until() != before);
    let mut held = with_spare(&[0, 1, 2, 3]);
    let lost = held.answer(0, 1, ExtendAnswer::Gone(identity(0)));
    assert_eq!(lost, super::lost(Loss::BelowMajority));
}
