//! Which permit is asked for next, and about which nodes are asked.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

const NOW: ClientInstant = ClientInstant::from_nanos(7_000_000_000, 3_000_000_000);

fn choice(permits: u32, seed: u64) -> PermitChoice {
    let mut random = StdRng::seed_from_u64(seed);
    PermitChoice::start(Bytes::from_static(b"a"), permits, &mut random)
}

#[test]
fn each_permit_is_asked_for_once_before_any_is_asked_for_again() {
    for permits in [1, 2, 3, 4, 6, 30, 1_024] {
        for seed in 0..20 {
            let mut choice = choice(permits, seed);
            for _ in 0..2 {
                let mut asked = BTreeSet::from([choice.index()]);
                for _ in 1..permits {
                    choice.choose(NOW);
                    asked.insert(choice.index());
                }
                assert!(asked.iter().copied().eq(0..permits), "{permits}: {asked:?}");
                assert!(!choice.has_untried());
                choice.choose(NOW);
            }
        }
    }
}

#[test]
fn lines_are_bounded_and_those_of_all_permits_come_one_after_the_other() {
    for (permits, lines, each) in [(1, 1, 1), (128, 128, 1), (129, 128, 2), (1_024, 128, 8)] {
        let mut choice = choice(permits, 7);
        assert_eq!(choice.for_each_line(), each, "{permits}");
        let mut all = BTreeSet::new();
        for _ in 0..permits {
            let now: BTreeSet<_> = choice.in_lines().collect();
            assert_eq!(now.len(), lines, "{permits}");
            assert!(now.contains(&choice.index()));
            assert!(now.iter().all(|index| choice.keeps_line(*index)));
            let kept = (0..permits).filter(|index| choice.keeps_line(*index));
            assert_eq!(kept.count(), lines);
            all.extend(now);
            choice.choose(NOW);
        }
        assert!(all.into_iter().eq(0..permits), "{permits}");
    }
}

#[test]
fn nodes_are_asked_about_all_permits_a_part_at_a_time() {
    for (permits, semaphore_bytes, at_once) in [
        (2, 1, 2),
        (128, 1, 128),
        (1_024, 1, 128),
        (1_024, 992, 64),
        (3, 60_000, 2),
    ] {
        let mut random = StdRng::seed_from_u64(3);
        let semaphore = Bytes::from(vec![b'a'; semaphore_bytes]);
        let mut choice = PermitChoice::start(semaphore, permits, &mut random);
        let mut all = BTreeSet::new();
        for _ in 0..permits.div_ceil(at_once) {
            let names = choice.begin_survey().expect("no other is under way");
            assert_eq!(names.len(), at_once as usize, "{permits}");
            assert_eq!(choice.begin_survey(), None, "one at a time");
            let free = choice.end_survey(0, &vec![true; names.len()]);
            let of_names = free.iter().map(|index| choice.names().nth(*index as usize));
            assert!(of_names.eq(names.into_iter().map(Some)));
            all.extend(free);
        }
        assert!(all.into_iter().eq(0..permits), "{permits}");
    }
    assert_eq!(choice(1, 1).begin_survey(), None, "a lock");
}

#[test]
fn of_many_permits_the_walk_passes_over_those_that_enough_nodes_have() {
    let mut choice = choice(300, 5);
    let mut asked = BTreeSet::from([choice.index()]);
    let mut tried = BTreeSet::new();
    while let Some(next) = choice.next_of_walk(NOW) {
        assert!(next.len() <= 128 && choice.walked() as usize + next.len() <= 300);
        // One node has all but those that 7 divides, and another all but those that 5 divides.
        let lacks = |by: u32| next.iter().map(|index| index % by == 0).collect::<Vec<_>>();
        let (first, second) = (lacks(7), lacks(5));
        choice.note_walk_survey(&next, &[(0, &first[..]), (2, &second[..])], 2);
        asked.extend(&next);
        assert_eq!(
            choice.next_of_walk(NOW),
            None,
            "those that may be free come first"
        );
        while !choice.candidates.is_empty() {
            choice.choose(NOW);
            tried.insert(choice.index());
        }
    }
    assert!(asked.into_iter().eq(0..300) && !choice.has_untried());
    let may_be_free = (0..300).filter(|index| index % 7 == 0 || index % 5 == 0);
    let missed: Vec<u32> = may_be_free.filter(|index| !tried.contains(index)).collect();
    assert!(missed.len() <= 1, "{missed:?}: the walk began with one");
    assert!(tried.iter().all(|index| index % 7 == 0 || index % 5 == 0));
}

#[test]
fn a_permit_that_a_node_alone_does_not_have_is_not_free_there() {
    let mut choice = choice(3, 1);
    let mut others = NodeSet::default();
    others.insert(2);
    choice.note_others(others);
    for (node, free) in [(1, 3), (2, 2)] {
        assert!(choice.begin_survey().is_some());
        assert_eq!(choice.end_survey(node, &[true; 3]).len(), free);
    }
    assert!(choice.begin_survey().is_some());
    assert_eq!(choice.end_survey(1, &[]), [0; 0], "it has not answered");
    assert_eq!(choice.end_survey(1, &[true; 3]), [0; 0], "nor was it asked");
}

#[test]
fn callers_begin_apart() {
    let starts: BTreeSet<_> = (0..100).map(|seed| choice(8, seed).index()).collect();
    assert_eq!(starts.len(), 8);
}

#[test]
fn a_permit_that_is_free_comes_first_and_is_asked_for_once() {
    let mut choice = choice(4, 1);
    let later = NOW.after(Duration::from_secs(1));
    choice.told(Some(later));
    let held = choice.index();
    choice.choose(NOW);
    let second = choice.index();
    assert!(held != second && choice.free_name(NOW).is_none());
    assert_eq!(choice.first_free_at(NOW), Some(later));
    choice.choose(later);
    assert_eq!(choice.index(), held);
    choice.choose(later);
    assert_ne!(choice.index(), held);
    choice.released(second);
    assert_eq!(choice.free_name(later), Some(permit_name(b"a", second)));
    choice.choose(later);
    assert_eq!(choice.index(), second);
    // One that is none of these is of a caller that has said that there are more.
    choice.released(4);
    assert_eq!(choice.free_name(later), None);
}

#[test]
fn a_permit_has_changed_hands_where_another_holder_refuses_it() {
    let mut choice = choice(2, 1);
    let [one, other] = ["one", "other"].map(Token::from);
    assert!(!choice.refused(Some(&one)));
    assert!(!choice.refused(Some(&one)));
    assert!(choice.refused(Some(&other)));
    choice.choose(NOW);
    assert!(!choice.refused(Some(&one)));
}
