//! What an attempt asks nodes to take, by what they have told.

use std::sync::Arc;

use super::*;
use crate::outcome::Cause;

const NOW: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);

fn by(node: NodeIndex) -> Identity {
    Identity {
        id: Arc::from(format!("n{node}")),
        incarnation: 1,
        cluster: None,
    }
}

/// Of five nodes the first so many have granted the lock, with these fences.
fn granted(guess: Option<u64>, told: &[u64]) -> Fencing {
    let mut fencing = Fencing::start(5, guess);
    for (node, fence) in told.iter().enumerate() {
        fencing.note(node, *fence);
        let took = guess.filter(|guess| guess == fence);
        fencing.granted(node, by(node), took);
    }
    fencing
}

/// Goes on with a quorum of three: what is next, and who is asked for what.
fn go_on(fencing: &mut Fencing) -> (Next, Vec<(NodeIndex, u64)>) {
    let mut asked = Vec::new();
    let until = |_| NOW.after(std::time::Duration::from_millis(5));
    let next = fencing.go_on(3, until, |node, fence| asked.push((node, fence)));
    (next, asked)
}

fn taken(node: NodeIndex) -> FenceAnswer {
    FenceAnswer::Taken(by(node))
}

#[test]
fn one_more_than_the_largest_is_the_fence_once_a_majority_has_taken_it() {
    let mut fencing = granted(None, &[4, 9, 7]);
    assert_eq!(
        go_on(&mut fencing),
        (Next::Wait, vec![(0, 10), (1, 10), (2, 10)])
    );
    assert_eq!(go_on(&mut fencing), (Next::Wait, vec![]));
    fencing.answered(0, 10, &taken(0));
    fencing.answered(1, 10, &taken(1));
    assert_eq!((go_on(&mut fencing).0, fencing.fence()), (Next::Wait, None));
    fencing.answered(2, 10, &taken(2));
    assert_eq!(
        (go_on(&mut fencing).0, fencing.fence()),
        (Next::Done, Some(10))
    );
    // That is what the name has now.
    assert_eq!(fencing.known(3), Some(10));
}

#[test]
fn a_guess_that_a_majority_has_taken_with_the_lock_costs_no_round() {
    let mut fencing = granted(Some(10), &[10, 10, 10]);
    assert_eq!(go_on(&mut fencing), (Next::Done, vec![]));
    assert_eq!(fencing.fence(), Some(10));
    // One that has a larger one is not asked for this one, and the others are asked for a larger one.
    let mut fencing = granted(Some(10), &[10, 10, 12]);
    let (next, asked) = go_on(&mut fencing);
    assert_eq!((next, asked), (Next::Wait, vec![(2, 10)]));
    fencing.answered(2, 10, &FenceAnswer::Refused(12));
    assert_eq!(
        go_on(&mut fencing),
        (Next::Wait, vec![(0, 13), (1, 13), (2, 13)])
    );
}

#[test]
fn who_refused_the_lock_tells_its_fence_too() {
    let mut fencing = granted(None, &[1, 1, 1]);
    fencing.note(3, 5);
    assert_eq!(go_on(&mut fencing).1, [(0, 6), (1, 6), (2, 6)]);
    // A node that grants later is asked as well, and stands in for one that is silent.
    fencing.granted(4, by(4), None);
    assert_eq!(go_on(&mut fencing).1, [(4, 6)]);
    fencing.answered(0, 6, &taken(0));
    fencing.answered(4, 6, &taken(4));
    fencing.answered(1, 6, &FenceAnswer::Not(Cause::Silent));
    assert_eq!(go_on(&mut fencing).0, Next::Wait);
    fencing.answered(2, 6, &taken(2));
    assert_eq!(
        (go_on(&mut fencing).0, fencing.fence()),
        (Next::Done, Some(6))
    );
}

#[test]
fn a_number_is_not_had_from_fewer_than_a_majority_that_holds_the_lock() {
    for lost in [FenceAnswer::WithoutLock, FenceAnswer::Not(Cause::Silent)] {
        let mut fencing = granted(None, &[1, 1, 1]);
        go_on(&mut fencing);
        fencing.answered(0, 2, &lost);
        fencing.answered(1, 2, &taken(1));
        fencing.answered(2, 2, &taken(2));
        assert_eq!((go_on(&mut fencing).0, fencing.fence()), (Next::Fail, None));
    }
    // Nor in time from one that does not answer; what it answers late still counts.
    let mut fencing = granted(None, &[1, 1, 1]);
    go_on(&mut fencing);
    fencing.answered(1, 2, &taken(1));
    fencing.answered(2, 2, &taken(2));
    fencing.tick(NOW.after(std::time::Duration::from_millis(4)));
    assert_eq!(go_on(&mut fencing).0, Next::Wait);
    let late = fencing.next_time().expect("one is waited for");
    fencing.tick(late);
    assert_eq!(go_on(&mut fencing).0, Next::Fail);
    fencing.answered(0, 2, &taken(0));
    assert_eq!(go_on(&mut fencing).0, Next::Done);
}

#[test]
fn answers_to_an_earlier_number_say_nothing_of_this_one() {
    let mut fencing = granted(Some(3), &[3, 5, 5]);
    assert_eq!(go_on(&mut fencing).1, [(1, 3), (2, 3)]);
    fencing.answered(1, 3, &FenceAnswer::Refused(5));
    assert_eq!(go_on(&mut fencing).1, [(0, 6), (1, 6), (2, 6)]);
    fencing.answered(0, 3, &taken(0));
    fencing.answered(2, 3, &taken(2));
    fencing.answered(1, 6, &taken(1));
    assert_eq!((go_on(&mut fencing).0, fencing.fence()), (Next::Wait, None));
}

#[test]
fn one_node_under_two_entries_is_one() {
    let mut fencing = granted(Some(3), &[3, 3]);
    fencing.note(2, 3);
    fencing.granted(2, by(1), Some(3));
    assert_eq!((go_on(&mut fencing).0, fencing.fence()), (Next::Fail, None));
}

#[test]
fn a_node_that_is_far_ahead_is_left_out_and_numbers_end() {
    let far = 1 << 41;
    let mut fencing = granted(None, &[1, 2, 3]);
    fencing.note(3, far);
    assert_eq!(go_on(&mut fencing).1[0], (0, 4));
    assert_eq!(fencing.known(3), Some(3));
    // Where a majority is there, that is where the numbers are.
    let mut fencing = granted(None, &[far, 2, far, far]);
    assert_eq!(go_on(&mut fencing).1[0], (0, far + 1));
    let last = i64::MAX.unsigned_abs();
    let mut fencing = granted(None, &[last, last, last]);
    assert_eq!(go_on(&mut fencing), (Next::Fail, vec![]));
    assert!(fencing.has_no_next(3) && fencing.told_by(2) == Some(last));
    let mut fencing = granted(None, &[last - 1, last - 1, last - 1]);
    assert_eq!(go_on(&mut fencing).1[0], (0, last));
    assert!(!fencing.has_no_next(3), "this one is left");
}

#[test]
fn rounds_end() {
    let mut fencing = granted(None, &[0, 0, 0]);
    let mut rounds = 0;
    loop {
        let (next, asked) = go_on(&mut fencing);
        if next == Next::Fail {
            break;
        }
        rounds += 1;
        for (node, fence) in asked {
            fencing.answered(node, fence, &FenceAnswer::Refused(fence));
        }
    }
    assert_eq!(rounds, 8);
    assert!(!fencing.has_no_next(3), "others were faster");
}

#[test]
fn one_node_far_ahead_among_the_first_is_left_out_when_others_have_told() {
    let far = 1 << 62;
    let mut fencing = granted(None, &[0, 0, far]);
    assert_eq!(go_on(&mut fencing).1[0], (0, far + 1));
    fencing.answered(0, far + 1, &FenceAnswer::TooHigh);
    fencing.answered(1, far + 1, &FenceAnswer::TooHigh);
    fencing.answered(2, far + 1, &taken(2));
    assert_eq!(go_on(&mut fencing), (Next::Fail, vec![]));
    assert!(fencing.has_no_next(3), "of these three");
    fencing.note(3, 0);
    fencing.granted(3, by(3), None);
    let (next, asked) = go_on(&mut fencing);
    assert_eq!((next, &asked[..2]), (Next::Wait, &[(0, 1), (1, 1)][..]));
    for node in [0, 1, 3] {
        fencing.answered(node, 1, &taken(node));
    }
    assert_eq!(
        (go_on(&mut fencing).0, fencing.fence()),
        (Next::Done, Some(1))
    );
}
