//! The rules of a lock that is held, with time moved by argument.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::acquisition::{AttemptEvent, Decision};
use crate::settings::Drift;
use crate::votes::{Ballot, Identity};

const START: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
const TTL: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_millis(100);

fn identity(node: NodeIndex) -> Identity {
    Identity {
        id: Arc::from(format!("n{node}")),
        incarnation: 1,
        cluster: None,
    }
}

fn restarted(node: NodeIndex) -> Identity {
    Identity {
        incarnation: 2,
        ..identity(node)
    }
}

/// A lock that was acquired at the start on these of five nodes.
struct Held {
    holding: Holding,
    now: ClientInstant,
}

impl Held {
    fn on(nodes: &[NodeIndex], max_lifetime: Option<Duration>) -> Self {
        Self::with_lock_delay(Duration::ZERO, nodes, max_lifetime)
    }

    fn with_lock_delay(
        lock_delay: Duration,
        nodes: &[NodeIndex],
        max_lifetime: Option<Duration>,
    ) -> Self {
        let terms = Terms {
            nodes: 5,
            spare_votes: 0,
            ttl: TTL,
            lock_delay,
            drift: Drift::default(),
            min_validity: Duration::ZERO,
            reserve: None,
        };
        let mut actions = Vec::new();
        let mut attempt = Acquisition::start(terms, START, |_| PATIENCE, &mut actions);
        for &node in nodes {
            let answer = Answer::Granted(identity(node));
            attempt.handle(
                START,
                AttemptEvent::Answered {
                    node,
                    answer,
                    fence: None,
                },
                &mut actions,
            );
        }
        let Some(Decision::Acquired { valid_until }) = attempt.decision().cloned() else {
            panic!("not acquired")
        };
        let holding = Holding::start(
            &attempt,
            terms,
            valid_until,
            START,
            true,
            max_lifetime,
            &mut Vec::new(),
        );
        Self {
            holding,
            now: START,
        }
    }

    /// The nodes that hold it, as far as is known.
    fn holders(&self) -> Ballot {
        holders(&self.holding.grants, false)
    }

    /// Takes the event in and returns the actions but timers.
    fn event(&mut self, event: HoldingEvent) -> Vec<HoldingAction> {
        let mut actions = Vec::new();
        self.holding.handle(self.now, PATIENCE, event, &mut actions);
        actions.retain(|action| !matches!(action, HoldingAction::ArmTimer(_)));
        actions
    }

    fn pass(&mut self, time: Duration) -> Vec<HoldingAction> {
        self.now = self.now.after(time);
        self.event(HoldingEvent::Timer)
    }

    fn answer(&mut self, node: NodeIndex, round: u32, answer: ExtendAnswer) -> Vec<HoldingAction> {
        self.event(HoldingEvent::Extended {
            node,
            round,
            answer,
        })
    }

    fn yes(&mut self, node: NodeIndex, round: u32) -> Vec<HoldingAction> {
        self.answer(node, round, ExtendAnswer::Extended(identity(node)))
    }
}

fn lost(loss: Loss) -> Vec<HoldingAction> {
    vec![HoldingAction::Lost(loss), HoldingAction::ReleaseEverywhere]
}

fn asks(actions: &[HoldingAction]) -> usize {
    actions
        .iter()
        .filter(|action| matches!(action, HoldingAction::Extend { .. }))
        .count()
}

const THIRD: Duration = Duration::from_secs(10);

#[test]
fn it_renews_at_a_third_of_the_lease_on_all_nodes() {
    let mut held = Held::on(&[0, 1, 2], None);
    assert_eq!(held.pass(THIRD - Duration::from_nanos(1)), []);
    assert_eq!(asks(&held.pass(Duration::from_nanos(1))), 5);
    held.yes(0, 1);
    held.yes(1, 1);
    let began = held.now;
    held.now = held.now.after(Duration::from_millis(3));
    // Validity counts from when the round began, not from when the votes came.
    let valid_until = began.after(Drift::default().validity(TTL));
    assert_eq!(held.yes(2, 1), [HoldingAction::Renewed { valid_until }]);
    assert_eq!(held.holding.valid_until(), valid_until);
    // A late fourth vote tells nothing new.
    assert_eq!(held.yes(3, 1), []);
    assert_eq!(held.holders().distinct(), 4);
}

#[test]
fn redisson_renewed_without_a_quorum_two_of_five_renew_nothing() {
    let mut held = Held::on(&[0, 1, 2], None);
    let before = held.holding.valid_until();
    held.pass(THIRD);
    held.yes(0, 1);
    held.yes(1, 1);
    for node in [2, 3] {
        assert_eq!(held.answer(node, 1, ExtendAnswer::Not(Cause::Silent)), []);
    }
    let actions = held.answer(4, 1, ExtendAnswer::Not(Cause::Silent));
    assert_eq!(actions, [HoldingAction::NotRenewed]);
    assert_eq!(held.holding.valid_until(), before);
    // It tries again soon.
    assert_eq!(asks(&held.pass(RETRY_MAX)), 5);
}

#[test]
fn a_late_answer_counts_from_when_its_round_began() {
    let mut held = Held::on(&[0, 1, 2], None);
    held.pass(THIRD);
    let first = held.now;
    held.yes(0, 1);
    assert_eq!(held.pass(PATIENCE), [HoldingAction::NotRenewed]);
    assert_eq!(asks(&held.pass(RETRY_MAX)), 5);
    let second = held.now;
    // Two of five in the first round, and one in the second.
    assert_eq!(held.yes(2, 2), []);
    let valid_until = first.after(Drift::default().validity(TTL));
    assert_eq!(held.yes(1, 1), [HoldingAction::Renewed { valid_until }]);
    // The same again is no news.
    assert_eq!(held.yes(1, 1), []);
    assert_eq!(held.yes(0, 2), []);
    // A majority in the second round says more.
    let valid_until = second.after(Drift::default().validity(TTL));
    assert_eq!(held.yes(1, 2), [HoldingAction::Renewed { valid_until }]);
    // What comes now to the first does not move it back.
    assert_eq!(held.yes(3, 1), []);
    assert_eq!(held.holding.valid_until(), valid_until);
}

#[test]
fn a_late_answer_counts_once_for_a_node_and_not_where_the_lock_is_gone_by_now() {
    let mut held = Held::on(&[0, 1, 2], None);
    held.pass(THIRD);
    held.yes(0, 1);
    held.pass(PATIENCE);
    held.pass(RETRY_MAX);
    let valid_until = held.holding.valid_until();
    // Another address of the first node.
    assert_eq!(held.answer(3, 1, ExtendAnswer::Extended(identity(0))), []);
    assert_eq!(held.yes(1, 1), []);
    // It was removed there on purpose since.
    held.answer(1, 2, ExtendAnswer::Gone(identity(1)));
    assert_eq!(held.yes(2, 1), []);
    // An answer to a round that never was is none.
    assert_eq!(held.yes(4, 77), []);
    assert_eq!(held.holding.valid_until(), valid_until);
}

#[test]
fn one_node_under_two_names_renews_once() {
    let mut held = Held::on(&[0, 1, 2], None);
    held.pass(THIRD);
    held.yes(0, 1);
    held.yes(1, 1);
    assert_eq!(held.answer(3, 1, ExtendAnswer::Extended(identity(0))), []);
}

#[test]
fn aioredlock_swallowed_errors_the_loss_is_told_before_the_end() {
    let mut held = Held::on(&[0, 1, 2, 3, 4], None);
    let valid_until = held.holding.valid_until();
    let mut told = Vec::new();
    while told.is_empty() {
        let actions = held.pass(Duration::from_millis(50));
        told.extend(
            actions
                .into_iter()
                .filter(|action| matches!(action, HoldingAction::Lost(_))),
        );
    }
    assert_eq!(told, [HoldingAction::Lost(Loss::Expired)]);
    assert!(
        !held.now.has_reached(valid_until),
        "told only after the validity had ended"
    );
    assert!(held.now.until(valid_until) <= Duration::from_millis(100));
}

#[test]
fn a_round_that_ends_after_the_old_validity_is_a_loss_for_good() {
    let mut held = Held::on(&[0, 1, 2], None);
    held.pass(THIRD);
    held.yes(0, 1);
    held.yes(1, 1);
    held.now = held.holding.valid_until();
    assert_eq!(held.yes(2, 1), lost(Loss::Late));
    // Flapping back changes nothing.
    assert_eq!(held.yes(3, 1), []);
    assert_eq!(held.event(HoldingEvent::Extend), []);
    assert_eq!(held.pass(Duration::ZERO), []);
}

#[test]
fn red_lock_net_re_created_a_vanished_key_a_vote_that_was_removed_is_not_retaken() {
    let mut held = Held::on(&[0, 1, 2, 3], None);
    held.pass(THIRD);
    assert_eq!(held.answer(0, 1, ExtendAnswer::Gone(identity(0))), []);
    // Below a majority the lock is lost at once, not when its lease ends.
    let actions = held.answer(1, 1, ExtendAnswer::Other(identity(1)));
    assert_eq!(actions, lost(Loss::BelowMajority));
}

#[test]
fn a_node_that_never_granted_is_healed_while_validity_lasts() {
    let mut held = Held::on(&[0, 1, 2], None);
    held.pass(THIRD);
    let take = [HoldingAction::Take { node: 3, round: 1 }];
    assert_eq!(held.answer(3, 1, ExtendAnswer::Gone(identity(3))), take);
    let answer = Answer::Granted(identity(3));
    held.event(HoldingEvent::Taken {
        node: 3,
        round: 1,
        answer,
    });
    assert_eq!(held.holders().distinct(), 4);
    // Taken after the round began, it counts as a renewal.
    held.yes(0, 1);
    assert!(matches!(
        held.yes(1, 1)[..],
        [HoldingAction::Renewed { .. }]
    ));
}

#[test]
fn a_node_that_restarted_empty_is_taken_again_and_one_held_by_others_is_lost() {
    let mut held = Held::on(&[0, 1, 2], None);
    held.pass(THIRD);
    let take = [HoldingAction::Take { node: 0, round: 1 }];
    assert_eq!(held.answer(0, 1, ExtendAnswer::Gone(restarted(0))), take);
    let answer = Answer::Busy {
        by: restarted(0),
        holder: None,
    };
    let actions = held.event(HoldingEvent::Taken {
        node: 0,
        round: 1,
        answer,
    });
    assert_eq!(actions, lost(Loss::BelowMajority));
}

/// What a node tells in a round of a lock with a lease of [`TTL`] that never changes hands.
struct Place {
    held_until: Duration,
    paused: Option<(Duration, Duration)>,
}

#[test]
fn pauses_of_one_node_at_a_time_never_wear_a_lock_down() {
    // Each node in turn is stopped for one and a half leases: what it held expires there.
    let stopped = TTL * 3 / 2;
    let mut held = Held::on(&[0, 1, 2, 3, 4], None);
    let mut places: Vec<Place> = (0..5_u32)
        .map(|node| Place {
            held_until: TTL,
            paused: Some((stopped * node, stopped * (node + 1))),
        })
        .collect();
    let mut time = Duration::ZERO;
    for round in 1..=60 {
        time += THIRD;
        held.pass(THIRD);
        for (node, place) in places.iter_mut().enumerate() {
            if place
                .paused
                .is_some_and(|(from, to)| (from..to).contains(&time))
            {
                let silent = ExtendAnswer::Not(Cause::Silent);
                held.answer(node, round, silent);
                continue;
            }
            if time < place.held_until {
                place.held_until = time + TTL;
                held.yes(node, round);
                continue;
            }
            let actions = held.answer(node, round, ExtendAnswer::Gone(identity(node)));
            if actions
                .iter()
                .any(|one| matches!(one, HoldingAction::Take { .. }))
            {
                place.held_until = time + TTL;
                let answer = Answer::Granted(identity(node));
                held.event(HoldingEvent::Taken {
                    node,
                    round,
                    answer,
                });
            }
        }
        assert_eq!(held.holding.ended(), None, "after {time:?}");
        if time.as_nanos().is_multiple_of(stopped.as_nanos() * 6) {
            assert_eq!(held.holders().distinct(), 5, "after {time:?}");
        }
    }
}

#[test]
fn what_somebody_removed_is_left_alone_until_it_would_have_expired() {
    let mut held = Held::on(&[0, 1, 2, 3], None);
    held.pass(THIRD);
    for node in 1..4 {
        held.yes(node, 1);
    }
    // Removed on purpose: what it granted lasts for another two thirds of a lease.
    assert_eq!(held.answer(0, 1, ExtendAnswer::Gone(identity(0))), []);
    for round in 2..=3 {
        held.pass(THIRD);
        for node in 1..4 {
            held.yes(node, round);
        }
        let told = held.answer(0, round, ExtendAnswer::Gone(identity(0)));
        let is_taken = told == [HoldingAction::Take { node: 0, round }];
        assert!(!is_taken, "in round {round}");
    }
    // A lease and the drift after its last confirmation its being gone says nothing any more.
    held.pass(THIRD);
    let take = [HoldingAction::Take { node: 0, round: 4 }];
    assert_eq!(held.answer(0, 4, ExtendAnswer::Gone(identity(0))), take);
}

#[test]
fn redis_semaphore_renewed_beside_a_release_nothing_follows_a_release() {
    let mut held = Held::on(&[0, 1, 2], None);
    held.pass(THIRD);
    assert_eq!(
        held.event(HoldingEvent::Release),
        [HoldingAction::ReleaseEverywhere]
    );
    assert_eq!(held.yes(0, 1), []);
    assert_eq!(held.answer(3, 1, ExtendAnswer::Gone(identity(3))), []);
    assert_eq!(held.pass(TTL), []);
}

#[test]
fn renewals_end_with_the_longest_lifetime() {
    let mut held = Held::on(&[0, 1, 2], Some(Duration::from_secs(35)));
    held.pass(THIRD);
    for node in 0..3 {
        held.yes(node, 1);
    }
    assert_eq!(
        held.holding.valid_until(),
        START.after(Duration::from_secs(35))
    );
    assert_eq!(held.pass(Duration::from_secs(25)), lost(Loss::MaxLifetime));
}

#[test]
fn a_suspended_machine_loses_the_lock_at_the_first_look() {
    let mut held = Held::on(&[0, 1, 2, 3, 4], None);
    held.now = ClientInstant::from_nanos(7_000_000_000 + 40_000_000_000, 3_000_000_000);
    assert_eq!(held.event(HoldingEvent::Timer), lost(Loss::Expired));
}

fn any_event() -> impl Strategy<Value = (u64, HoldingEvent)> {
    let who = |node: NodeIndex, again: bool| {
        if again {
            restarted(node)
        } else {
            identity(node)
        }
    };
    let node = || (0..5_usize, prop::bool::weighted(0.1), 0..6_u32);
    let event = prop_oneof![
        6 => node().prop_map(move |(node, again, round)| {
            HoldingEvent::Extended { node, round, answer: ExtendAnswer::Extended(who(node, again)) }
        }),
        1 => node().prop_map(move |(node, again, round)| {
            HoldingEvent::Extended { node, round, answer: ExtendAnswer::Gone(who(node, again)) }
        }),
        1 => node().prop_map(move |(node, again, round)| {
            HoldingEvent::Extended { node, round, answer: ExtendAnswer::Other(who(node, again)) }
        }),
        2 => node().prop_map(move |(node, again, round)| {
            HoldingEvent::Taken { node, round, answer: Answer::Granted(who(node, again)) }
        }),
        4 => Just(HoldingEvent::Timer),
        1 => Just(HoldingEvent::Extend),
    ];
    (0..5_000_u64, event)
}

proptest! {
    #[test]
    fn validity_only_moves_forward_and_a_loss_is_final(
        events in prop::collection::vec(any_event(), 0..80)
    ) {
        let mut held = Held::on(&[0, 1, 2], None);
        for (millis, event) in events {
            held.now = held.now.after(Duration::from_millis(millis));
            let before = held.holding.valid_until();
            let was_over = held.holding.ended().is_some();
            let actions = held.event(event);
            let after = held.holding.valid_until();
            prop_assert!(after.has_reached(before));
            if was_over {
                prop_assert!(actions.is_empty());
                prop_assert_eq!(before, after);
            }
            if before != after {
                prop_assert!(!held.now.has_reached(before), "renewed after the end");
                prop_assert!(held.now.until(after) < TTL);
            }
            let is_lost = actions.iter().any(|action| matches!(action, HoldingAction::Lost(_)));
            prop_assert_eq!(is_lost, actions.contains(&HoldingAction::ReleaseEverywhere));
        }
    }
}

#[path = "delay_tests.rs"]
mod delay_tests;
#[path = "healing_tests.rs"]
mod healing;
