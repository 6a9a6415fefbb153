//! The rules of one attempt, with time moved by argument.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::outcome::Cause;
use crate::votes::Identity;

const START: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);
const TTL: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_millis(100);

fn terms() -> Terms {
    let min_validity = Duration::ZERO;
    Terms {
        nodes: 5,
        spare_votes: 0,
        ttl: TTL,
        lock_delay: Duration::ZERO,
        drift: Drift::default(),
        min_validity,
        reserve: None,
    }
}

fn identity(node: NodeIndex) -> Identity {
    Identity {
        id: Arc::from(format!("n{node}")),
        incarnation: 1,
        cluster: None,
    }
}

fn granted(node: NodeIndex) -> AttemptEvent {
    AttemptEvent::Answered {
        node,
        answer: Answer::Granted(identity(node)),
        fence: None,
    }
}

fn busy(node: NodeIndex) -> AttemptEvent {
    let holder = Some(Token::from("other"));
    AttemptEvent::Answered {
        node,
        answer: Answer::Busy {
            by: identity(node),
            holder,
        },
        fence: None,
    }
}

fn down(node: NodeIndex) -> AttemptEvent {
    AttemptEvent::Answered {
        node,
        answer: Answer::Not(Cause::Silent),
        fence: None,
    }
}

fn begin(terms: Terms) -> (Acquisition, Vec<AttemptAction>) {
    let mut actions = Vec::new();
    let attempt = Acquisition::start(terms, START, |_| PATIENCE, &mut actions);
    (attempt, actions)
}

/// Feeds the events at the start and returns the actions but timers.
fn play(
    attempt: &mut Acquisition,
    at: ClientInstant,
    events: Vec<AttemptEvent>,
) -> Vec<AttemptAction> {
    let mut actions = Vec::new();
    for event in events {
        attempt.handle(at, event, &mut actions);
    }
    actions.retain(|action| !matches!(action, AttemptAction::ArmTimer(_)));
    actions
}

fn failed(decision: Decision) -> Vec<AttemptAction> {
    vec![
        AttemptAction::Decide(decision),
        AttemptAction::ReleaseEverywhere,
    ]
}

#[test]
fn redisson_asked_one_node_after_the_other_all_are_asked_at_once() {
    let (_, actions) = begin(terms());
    let sends = actions
        .iter()
        .filter(|action| matches!(action, AttemptAction::Send { .. }));
    assert_eq!(sends.count(), 5);
}

#[test]
fn the_third_yes_of_five_decides() {
    let (mut attempt, _) = begin(terms());
    assert_eq!(play(&mut attempt, START, vec![granted(4), granted(0)]), []);
    let valid_until = START.after(Drift::default().validity(TTL));
    let decided = vec![AttemptAction::Decide(Decision::Acquired { valid_until })];
    assert_eq!(play(&mut attempt, START, vec![granted(2)]), decided);
    // A later yes is one more vote and decides nothing.
    assert_eq!(play(&mut attempt, START, vec![granted(1)]), []);
    assert_eq!(attempt.ballot().distinct(), 4);
}

#[test]
fn the_third_no_of_five_decides() {
    let (mut attempt, _) = begin(terms());
    let actions = play(
        &mut attempt,
        START,
        vec![busy(0), granted(1), busy(2), busy(3)],
    );
    assert_eq!(
        actions,
        failed(Decision::Busy {
            holder: Some(Token::from("other"))
        })
    );
    // The fifth grants after all: it alone is released again.
    assert_eq!(
        play(&mut attempt, START, vec![granted(4)]),
        [AttemptAction::Release { node: 4 }]
    );
}

#[test]
fn busy_and_no_quorum_are_told_apart() {
    let (mut attempt, _) = begin(terms());
    let actions = play(&mut attempt, START, vec![down(0), down(1), down(2)]);
    assert_eq!(actions, failed(Decision::NoQuorum));
    // Votes are split and the rest is down: working nodes are a majority, so it is busy.
    let (mut attempt, _) = begin(terms());
    let events = vec![down(0), granted(1), granted(2), down(3), busy(4)];
    let actions = play(&mut attempt, START, events);
    assert_eq!(
        actions,
        failed(Decision::Busy {
            holder: Some(Token::from("other"))
        })
    );
}

#[test]
fn one_node_under_two_names_votes_once() {
    let (mut attempt, _) = begin(Terms {
        nodes: 3,
        ..terms()
    });
    let twin = AttemptEvent::Answered {
        node: 1,
        answer: Answer::Granted(identity(0)),
        fence: None,
    };
    assert_eq!(play(&mut attempt, START, vec![granted(0), twin]), []);
    assert_eq!(attempt.ballot().twin(1), Some(0));
    assert_eq!(
        play(&mut attempt, START, vec![down(2)]),
        failed(Decision::NoQuorum)
    );
}

#[test]
fn redlock_py_raised_while_holding_an_error_beside_a_majority_is_no_failure() {
    let (mut attempt, _) = begin(terms());
    let events = vec![down(0), granted(1), down(2), granted(3), granted(4)];
    let actions = play(&mut attempt, START, events);
    assert!(matches!(
        actions[..],
        [AttemptAction::Decide(Decision::Acquired { .. })]
    ));
}

#[test]
fn a_silent_node_is_waited_for_no_longer_than_its_deadline() {
    let (mut attempt, actions) = begin(terms());
    let deadline = START.after(PATIENCE);
    assert!(actions.contains(&AttemptAction::ArmTimer(deadline)));
    play(
        &mut attempt,
        START,
        vec![granted(0), granted(1), busy(2), busy(3)],
    );
    let early = deadline.before(Duration::from_nanos(1));
    assert_eq!(play(&mut attempt, early, vec![AttemptEvent::Timer]), []);
    let actions = play(&mut attempt, deadline, vec![AttemptEvent::Timer]);
    assert_eq!(
        actions,
        failed(Decision::Busy {
            holder: Some(Token::from("other"))
        })
    );
}

#[test]
fn node_redlock_returned_an_expired_lock_a_late_majority_is_timed_out() {
    let validity = Drift::default().validity(TTL);
    for (at, is_acquired) in [(1, true), (0, false)] {
        let (mut attempt, _) = begin(terms());
        play(&mut attempt, START, vec![granted(0), granted(1)]);
        let now = START.after(validity).before(Duration::from_nanos(at));
        let actions = play(&mut attempt, now, vec![granted(2)]);
        if is_acquired {
            assert!(matches!(
                actions[..],
                [AttemptAction::Decide(Decision::Acquired { .. })]
            ));
        } else {
            assert_eq!(actions, failed(Decision::TimedOut));
        }
    }
}

#[test]
fn suspend_between_request_and_reply_counts() {
    let (mut attempt, _) = begin(terms());
    play(&mut attempt, START, vec![granted(0), granted(1)]);
    // Only CLOCK_BOOTTIME went on.
    let now = ClientInstant::from_nanos(7_000_000_000 + 10_000_000_000, 3_000_000_000);
    assert_eq!(
        play(&mut attempt, now, vec![granted(2)]),
        failed(Decision::TimedOut)
    );
}

#[test]
fn less_than_the_least_validity_is_not_handed_out() {
    let min_validity = Duration::from_secs(9);
    let (mut attempt, _) = begin(Terms {
        min_validity,
        ..terms()
    });
    let now = START.after(Duration::from_secs(1));
    let events = vec![granted(0), granted(1), granted(2)];
    assert_eq!(
        play(&mut attempt, now, events)[..2],
        failed(Decision::TimedOut)
    );
}

#[test]
fn a_cancelled_attempt_releases_everywhere_once() {
    let (mut attempt, _) = begin(terms());
    play(&mut attempt, START, vec![granted(0)]);
    let actions = play(
        &mut attempt,
        START,
        vec![
            AttemptEvent::Cancel,
            AttemptEvent::Cancel,
            AttemptEvent::Timer,
        ],
    );
    assert_eq!(actions, failed(Decision::Cancelled));
}

fn any_event() -> impl Strategy<Value = (u64, AttemptEvent)> {
    let node = 0..5_usize;
    let event = prop_oneof![
        5 => (node.clone(), 0..5_usize).prop_map(|(node, who)| {
            AttemptEvent::Answered { node, answer: Answer::Granted(identity(who)), fence: None }
        }),
        2 => node.clone().prop_map(busy),
        2 => node.prop_map(down),
        2 => Just(AttemptEvent::Timer),
        1 => Just(AttemptEvent::Cancel),
    ];
    (0..4_000_u64, event)
}

proptest! {
    #[test]
    fn whatever_happens_the_decision_is_single_and_sound(
        events in prop::collection::vec(any_event(), 0..40)
    ) {
        let (mut attempt, _) = begin(terms());
        let mut now = START;
        let mut decisions = 0;
        let mut voters: Vec<(NodeIndex, Identity)> = Vec::new();
        for (millis, event) in events {
            now = now.after(Duration::from_millis(millis));
            if let AttemptEvent::Answered { node, answer: Answer::Granted(by), .. } = &event {
                voters.retain(|(place, _)| place != node);
                voters.push((*node, by.clone()));
            }
            let mut actions = Vec::new();
            attempt.handle(now, event, &mut actions);
            let released = actions.contains(&AttemptAction::ReleaseEverywhere);
            for action in &actions {
                if let AttemptAction::Decide(decision) = action {
                    decisions += 1;
                    let is_acquired = matches!(decision, Decision::Acquired { .. });
                    prop_assert_eq!(released, !is_acquired);
                    if let Decision::Acquired { valid_until } = decision {
                        let mut ids: Vec<_> = voters.iter().map(|(_, by)| by.clone()).collect();
                        ids.sort();
                        ids.dedup();
                        prop_assert!(ids.len() >= 3);
                        prop_assert!(!now.has_reached(*valid_until));
                        prop_assert!(now.until(*valid_until) < TTL);
                    }
                }
            }
        }
        prop_assert!(decisions <= 1);
        // Once every deadline is over the attempt is over too.
        let mut actions = Vec::new();
        attempt.handle(now.after(TTL), AttemptEvent::Timer, &mut actions);
        prop_assert!(attempt.decision().is_some());
    }
}

#[test]
fn with_exactly_the_least_validity_left_it_does_not_ask_for_a_time_that_has_come() {
    let min_validity = Duration::from_secs(2);
    let (mut attempt, _) = begin(Terms {
        min_validity,
        ..terms()
    });
    let now = attempt.valid_until().before(min_validity);
    // One node is still awaited by then.
    attempt.votes[0] = Vote::Awaited(now.after(PATIENCE));
    attempt.votes[1] = Vote::Awaited(now.after(PATIENCE));
    attempt.votes[2] = Vote::Awaited(now.after(PATIENCE));
    let mut actions = Vec::new();
    attempt.handle(now, AttemptEvent::Timer, &mut actions);
    let next = actions.iter().find_map(|action| match action {
        AttemptAction::ArmTimer(at) => Some(*at),
        _ => None,
    });
    assert!(
        next.is_some_and(|next| !now.has_reached(next)),
        "{actions:?}"
    );
}

/// An attempt that asks these nodes first, and waits for one that another has refused for 10 ms.
fn begin_at(first: &[NodeIndex]) -> (Acquisition, Vec<AttemptAction>) {
    let mut actions = Vec::new();
    let is_first = |node| first.contains(&node);
    let patience = |_| Patience {
        most: PATIENCE,
        contended: PATIENCE / 10,
    };
    let attempt = Acquisition::start_with(terms(), START, is_first, patience, &mut actions);
    actions.retain(|action| !matches!(action, AttemptAction::ArmTimer(_)));
    (attempt, actions)
}

fn sends(nodes: &[NodeIndex]) -> Vec<AttemptAction> {
    let send = |&node| AttemptAction::Send { node };
    nodes.iter().map(send).collect()
}

#[test]
fn free_nodes_of_a_held_lock_are_left_alone_until_one_that_blocks_has_granted() {
    let (mut attempt, _) = begin(terms());
    let events = vec![granted(3), granted(4), busy(0), busy(1), busy(2)];
    play(&mut attempt, START, events);
    let blocking = attempt.blocking().unwrap();
    assert_eq!(
        [0, 1, 2, 3, 4].map(|node| blocking.contains(node)),
        [true, true, true, false, false]
    );
    let (mut next, asked) = begin_at(&[0, 1, 2]);
    assert_eq!(asked, sends(&[0, 1, 2]));
    // Refused again, and told so by nodes that answered: the free ones were not disturbed.
    assert_eq!(play(&mut next, START, vec![busy(0), busy(1)]), []);
    let holder = Some(Token::from("other"));
    let refused = play(&mut next, START, vec![busy(2)]);
    assert_eq!(refused, failed(Decision::Busy { holder }));
    let free = |node| !next.blocking().unwrap().contains(node);
    assert!(free(3) && free(4));
    // Released: the free ones are asked with the first grant.
    let (mut next, _) = begin_at(&[0, 1, 2]);
    assert_eq!(play(&mut next, START, vec![granted(1)]), sends(&[3, 4]));
    let decided = play(&mut next, START, vec![granted(3), granted(4)]);
    assert!(matches!(
        decided[..],
        [AttemptAction::Decide(Decision::Acquired { .. })]
    ));
}

#[test]
fn no_node_blocks_a_lock_that_only_came_too_late() {
    let (mut attempt, _) = begin(terms());
    play(&mut attempt, START, vec![granted(0)]);
    let late = START.after(terms().ttl);
    let decided = play(&mut attempt, late, vec![granted(1), granted(2), down(3)]);
    assert!(decided.contains(&AttemptAction::Decide(Decision::TimedOut)));
    assert!(attempt.blocking().is_none());
    // Nor does one that was asked alone and is away: the others may be free.
    let (mut next, _) = begin_at(&[3]);
    let refused = play(&mut next, START, vec![down(3)]);
    assert_eq!(refused, failed(Decision::NoQuorum));
    assert!(next.blocking().is_none());
}

#[test]
fn a_holder_with_a_node_that_is_away_blocks_and_others_that_ask_do_not() {
    let (mut attempt, _) = begin(terms());
    let other = AttemptEvent::Answered {
        node: 3,
        answer: Answer::Busy {
            by: identity(3),
            holder: Some(Token::from("asks too")),
        },
        fence: None,
    };
    let events = vec![granted(4), busy(1), busy(2), other, down(0)];
    play(&mut attempt, START, events);
    let blocking = attempt.blocking().unwrap();
    assert_eq!(
        [0, 1, 2, 3, 4].map(|node| blocking.contains(node)),
        [true, true, true, false, false]
    );
}

#[test]
fn nothing_is_waited_for_where_none_of_the_first_has_granted() {
    // One node under three names had granted alone.
    let (mut attempt, _) = begin_at(&[0, 1]);
    let refused = play(&mut attempt, START, vec![down(0), down(1)]);
    assert_eq!(refused, failed(Decision::NoQuorum));
}

#[test]
fn once_a_node_has_refused_a_silent_one_is_waited_for_no_longer_than_usual() {
    let (mut attempt, _) = begin_at(&[0, 1, 2, 3, 4]);
    let events = vec![granted(0), granted(1), busy(2), busy(3)];
    assert_eq!(play(&mut attempt, START, events), []);
    let at = START.after(PATIENCE / 10);
    let holder = Some(Token::from("other"));
    let given_up = play(&mut attempt, at, vec![AttemptEvent::Timer]);
    assert_eq!(given_up, failed(Decision::Busy { holder }));
    // Nobody has refused: all of the patience.
    let (mut attempt, _) = begin_at(&[0, 1, 2, 3, 4]);
    play(&mut attempt, START, vec![granted(0), granted(1)]);
    assert_eq!(play(&mut attempt, at, vec![AttemptEvent::Timer]), []);
}

#[test]
fn a_node_whose_vote_was_taken_back_counts_neither_for_the_lock_nor_for_its_fence() {
    let grant = |node, fence, is_guess| AttemptEvent::Answered {
        node,
        answer: Answer::Granted(identity(node)),
        fence: Some(NodeFence { fence, is_guess }),
    };
    let taken = |node| AttemptEvent::Fenced {
        node,
        fence: 8,
        answer: FenceAnswer::Taken(identity(node)),
    };
    for is_guessed in [true, false] {
        let (mut attempt, _) = begin(terms());
        attempt.ask_fence(is_guessed.then_some(8));
        if is_guessed {
            let first = vec![grant(0, 8, true), grant(2, 8, true)];
            assert_eq!(play(&mut attempt, START, first), []);
        } else {
            let first = [0, 1, 2].map(|node| grant(node, 7, false));
            let asked = play(&mut attempt, START, Vec::from(first));
            assert_eq!(asked.len(), 3, "{asked:?}");
        }
        attempt.take_back(|node, _| (node == 2).then_some(Cause::Silent));
        let then = match is_guessed {
            true => vec![grant(1, 8, true)],
            false => Vec::from([0, 1, 2].map(taken)),
        };
        assert_eq!(play(&mut attempt, START, then), []);
        assert_eq!(attempt.ballot().distinct(), 2);
        let asked = vec![AttemptAction::Fence { node: 3, fence: 8 }];
        let third = vec![grant(3, 7, false)];
        assert_eq!(play(&mut attempt, START, third), asked);
        let valid_until = START.after(Drift::default().validity(TTL));
        let decided = vec![AttemptAction::Decide(Decision::Acquired { valid_until })];
        assert_eq!(play(&mut attempt, START, vec![taken(3)]), decided);
    }
}
