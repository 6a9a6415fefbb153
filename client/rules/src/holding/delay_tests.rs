//! A lock that others have to wait for after an end that was not a release.

use super::*;

const DELAY: Duration = Duration::from_secs(5);

fn held(max_lifetime: Option<Duration>) -> Held {
    Held::with_lock_delay(DELAY, &[0, 1, 2, 3, 4], max_lifetime)
}

fn kept(loss: Loss) -> Vec<HoldingAction> {
    vec![HoldingAction::Lost(loss)]
}

#[test]
fn a_release_frees_it_at_once_and_a_loss_leaves_it_on_the_nodes() {
    let released = held(None).event(HoldingEvent::Release);
    assert_eq!(released, [HoldingAction::ReleaseEverywhere]);
    let mut expired = held(None);
    let validity = Drift::default().validity(TTL);
    assert_eq!(expired.pass(validity), kept(Loss::Expired));
    assert_eq!(expired.event(HoldingEvent::Release), []);
    let mut over = held(Some(THIRD / 2));
    assert_eq!(over.pass(THIRD / 2), kept(Loss::MaxLifetime));
    let mut taken = held(None);
    taken.answer(0, 0, ExtendAnswer::Gone(identity(0)));
    taken.answer(1, 0, ExtendAnswer::Other(identity(1)));
    let below = taken.answer(2, 0, ExtendAnswer::Gone(identity(2)));
    assert_eq!(below, kept(Loss::BelowMajority));
}

#[test]
fn a_release_that_comes_after_the_validity_is_a_loss_and_a_moment_before_is_none() {
    let valid_until = held(None).holding.valid_until();
    for (before_ns, expected) in [
        (1, vec![HoldingAction::ReleaseEverywhere]),
        (0, kept(Loss::Expired)),
    ] {
        let mut held = held(None);
        held.now = valid_until.before(Duration::from_nanos(before_ns));
        assert_eq!(held.event(HoldingEvent::Release), expected);
    }
    // Without a delay others may have it already, and what is left is freed.
    let mut held = Held::on(&[0, 1, 2], None);
    held.now = valid_until;
    let released = held.event(HoldingEvent::Release);
    assert_eq!(released, [HoldingAction::ReleaseEverywhere]);
}

#[test]
fn a_node_that_has_freed_it_early_is_not_taken_again_before_it_would_have_expired() {
    let mut held = held(None);
    held.pass(THIRD);
    (0..4).for_each(|node| drop(held.yes(node, 1)));
    held.answer(4, 1, ExtendAnswer::Gone(identity(4)));
    let until = START.after(held.holding.lease());
    assert!(held.holding.lease() >= TTL + DELAY);
    let withdrawn = GrantState::Withdrawn {
        identity: identity(4),
        until,
    };
    assert_eq!(held.holding.grants[4], withdrawn);
}

#[test]
fn its_holder_counts_with_the_ttl_alone() {
    let (delayed, plain) = (held(None).holding, Held::on(&[0, 1, 2], None).holding);
    assert_eq!(delayed.valid_until(), plain.valid_until());
    assert_eq!(delayed.next_time(), plain.next_time());
}
