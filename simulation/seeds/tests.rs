//! Some seeds of whole clusters, and what holds for all of them.

use crate::plan::Plan;
use crate::silent_writers;
use crate::world::{SeedReport, run};

/// What comes of a plan whose checks pass. With these options `cluster-seeds` has the same plan.
fn passes(plan: &Plan, options: &str) -> SeedReport {
    run(plan, false).unwrap_or_else(|violation| {
        let seed = plan.seed;
        panic!("seed {seed}: {violation}\nshow it with: cluster-seeds {options} --seed {seed}")
    })
}

#[test]
fn no_lock_has_two_holders_or_is_lost_while_a_majority_is_well() {
    let (mut acquired, mut renewed, mut faults, mut heard) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let report = passes(&Plan::of(seed), "");
        acquired += report.acquired;
        renewed += report.renewed;
        heard += report.heard;
        faults += report.faults.values().sum::<u64>();
    }
    // What was not exercised is not shown.
    assert!(acquired > SEEDS * 8, "{acquired} acquisitions");
    assert!(renewed > SEEDS * 20, "{renewed} renewals");
    assert!(faults > SEEDS, "{faults} faults");
    assert!(heard > SEEDS * 50, "{heard} numbers heard");
}

#[test]
fn a_spare_vote_keeps_locks_apart_where_nodes_forget() {
    for seed in FORGETFUL {
        let bare = run(&Plan::forgetful(seed, 0), false);
        let violation = bare.expect_err("a node that forgets is one too many for a bare majority");
        assert!(violation.contains("is held by"), "{violation}");
        let report = passes(&Plan::forgetful(seed, 1), "--forgetful 1");
        assert!(report.acquired > 0);
    }
}

#[test]
fn a_node_that_is_put_back_to_an_image_makes_no_second_holder() {
    for seed in ROLLED_BACK {
        let report = passes(&Plan::rolled_back(seed), "--rolled-back");
        assert!(report.acquired > 0);
    }
}

#[test]
fn who_stood_still_with_all_clocks_learns_of_the_loss_by_the_next_renewal() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let report = passes(&Plan::stopped_clocks(seed), "--stopped-clocks");
        lost += report.lost;
    }
    assert!(lost > SEEDS, "{lost} locks lost");
}

#[test]
fn a_lock_outlives_connections_that_are_given_up_while_answers_to_a_renewal_are_under_way() {
    let mut renewed = 0;
    let plans = (0..SEEDS).map(|seed| (Plan::silence(seed), "--silence"));
    for (plan, options) in plans.chain(SILENCE.map(|seed| (Plan::of(seed), ""))) {
        let report = passes(&plan, options);
        renewed += report.renewed;
    }
    assert!(renewed > SEEDS * 20, "{renewed} renewals");
}

#[test]
fn nobody_has_a_lock_before_the_lock_delay_of_a_holder_that_died_is_over() {
    let mut delayed = 0;
    for seed in 0..2 * SEEDS {
        let report = passes(&Plan::of(seed).delayed(), "--lock-delay");
        delayed += report.delayed;
    }
    assert!(delayed > SEEDS * 8, "{delayed} ends without a release");
}

#[test]
fn no_more_callers_hold_a_permit_than_there_are_permits() {
    let (mut acquired, mut turns, mut faults) = (0, 0, 0);
    for seed in 0..2 * SEEDS {
        for permits in [1, 2, 3] {
            let report = passes(
                &Plan::of(seed).of_permits(permits),
                &format!("--permits {permits}"),
            );
            acquired += report.acquired;
            turns += report.turns_ms.len();
            faults += report.faults.values().sum::<u64>();
        }
    }
    assert!(turns > 0, "nobody waited for a permit where nothing failed");
    assert!(acquired > SEEDS * 50, "{acquired} acquisitions");
    assert!(faults > SEEDS, "{faults} faults");
}

#[test]
fn no_writer_holds_a_lock_beside_readers_and_none_is_starved() {
    let (mut read, mut written, mut turns, mut faults) = (0, 0, 0, 0);
    for seed in 0..3 * SEEDS {
        let report = passes(&Plan::of(seed).with_readers(), "--readers");
        read += report.read;
        written += report.acquired - report.read;
        turns += report.turns_ms.len();
        faults += report.faults.values().sum::<u64>();
    }
    assert!(
        read > SEEDS * 20 && written > SEEDS * 10,
        "{read} reads, {written} writes"
    );
    assert!(turns > 0, "nobody waited where nothing failed");
    assert!(faults > SEEDS, "{faults} faults");
}

#[test]
fn a_reader_passes_a_writer_in_line_that_has_vanished_within_seconds_and_none_that_waits() {
    let (mut passed, mut written) = (0, 0);
    for seed in 0..3 * SEEDS {
        let report = silent_writers::run(seed, false).unwrap_or_else(|violation| {
            panic!("seed {seed}: {violation}\nshow it with: cluster-seeds --silent-writers --seed {seed}")
        });
        passed += report.read;
        written += report.acquired - report.read;
    }
    assert!(passed > SEEDS && written > SEEDS / 4, "{passed}, {written}");
}

#[test]
fn guards_of_an_owner_hold_a_lock_together_and_the_last_one_frees_it() {
    let (mut joined, mut kept, mut faults) = (0, 0, 0);
    for seed in 0..2 * SEEDS {
        let report = passes(&Plan::of(seed).owned(), "--owners");
        joined += report.joined;
        kept += report.kept_by_others;
        faults += report.faults.values().sum::<u64>();
    }
    assert!(joined > SEEDS * 4, "{joined} calls have joined a lock");
    assert!(kept > SEEDS, "{kept} releases while others kept the lock");
    assert!(faults > SEEDS, "{faults} faults");
}

#[test]
fn of_locks_that_have_a_name_in_common_one_is_held_and_each_caller_has_its_turn() {
    let (mut acquired, mut renewed, mut faults) = (0, 0, 0);
    for seed in 0..2 * SEEDS {
        let report = passes(&Plan::of(seed).of_several(), "--several");
        acquired += report.acquired;
        renewed += report.renewed;
        faults += report.faults.values().sum::<u64>();
    }
    assert!(acquired > SEEDS * 16, "{acquired} acquisitions");
    assert!(renewed > SEEDS * 40, "{renewed} renewals");
    assert!(faults > SEEDS, "{faults} faults");
}

#[test]
fn who_stands_in_line_has_a_free_lock_soon_whatever_becomes_of_a_node() {
    let (mut acquired, mut turns, mut faults) = (0, Vec::new(), 0);
    for seed in 0..2 * SEEDS {
        let report = passes(&Plan::of(seed).waiting(), "--waiters");
        acquired += report.acquired;
        faults += report.faults.values().sum::<u64>();
        turns.extend(report.turns_ms);
    }
    assert!(acquired > SEEDS * 20, "{acquired} acquisitions");
    assert!(faults > SEEDS, "{faults} faults");
    assert!(turns.len() as u64 > SEEDS, "{} turns", turns.len());
}

#[test]
fn who_waits_for_word_of_changes_has_a_free_lock_soon() {
    let (mut acquired, mut turns) = (0, Vec::new());
    for seed in 0..2 * SEEDS {
        let report = passes(&Plan::of(seed).waiting_for_word(), "--told");
        acquired += report.acquired;
        turns.extend(report.turns_ms);
    }
    assert!(acquired > SEEDS * 20, "{acquired} acquisitions");
    assert!(turns.len() as u64 > SEEDS, "{} turns", turns.len());
}

#[test]
fn who_stands_in_line_far_away_has_its_share_beside_near_callers() {
    let mut waits_ms = Vec::new();
    for seed in 0..SEEDS / 2 {
        let report = passes(&Plan::far(seed), "--far");
        waits_ms.extend(report.far_ms);
    }
    // A hold takes it half a second, with the ways there and back.
    waits_ms.sort_unstable();
    let median_ms = waits_ms.get(waits_ms.len() / 2).copied();
    assert!(waits_ms.len() > 400, "{} holds", waits_ms.len());
    assert!(median_ms < Some(2_000), "{median_ms:?}");
}

#[test]
fn observers_of_an_election_are_told_what_a_majority_holds_and_no_fence_goes_down() {
    let (mut acquired, mut observed, mut faults) = (0, 0, 0);
    for seed in 0..3 * SEEDS {
        let report = passes(&Plan::of(seed).electing(), "--election");
        acquired += report.acquired;
        observed += report.observed;
        faults += report.faults.values().sum::<u64>();
    }
    assert!(acquired > SEEDS * 20, "{acquired} acquisitions");
    assert!(observed > SEEDS * 40, "{observed} observations");
    assert!(faults > SEEDS, "{faults} faults");
}

#[test]
fn clients_with_lists_of_different_lengths_never_hold_a_lock_together_while_members_are_added() {
    let (mut acquired, mut resized, mut faults) = (0, 0, 0);
    for seed in 0..3 * SEEDS {
        let report = passes(&Plan::of(seed).with_changing_members(), "--members");
        acquired += report.acquired;
        resized += report.resized;
        faults += report.faults.values().sum::<u64>();
    }
    assert!(acquired > SEEDS * 20, "{acquired} acquisitions");
    assert!(resized > SEEDS * 10, "{resized} changes");
    assert!(faults > SEEDS, "{faults} faults");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..4 {
        let plan = Plan::of(seed);
        assert_eq!(run(&plan, false), run(&plan, true), "seed {seed}");
    }
}

const SEEDS: u64 = 16;
/// A lock was lost in these although a majority was well.
const SILENCE: [u64; 1] = [1_021_834];
/// Two holders are found with these: others where the client's rules or the simulation change, by `cluster-seeds --forgetful 0`.
const FORGETFUL: [u64; 2] = [282, 862];
/// Two holders are found with these where clients let a node vote that has gone back.
const ROLLED_BACK: [u64; 3] = [97, 393, 1199];

#[test]
fn fences_grow_with_each_acquisition_whatever_fails() {
    let (mut fenced, mut adopted, mut refenced) = (0, 0, 0);
    for seed in 0..2 * SEEDS {
        let report = passes(&Plan::of(seed).fenced(), "--fences");
        fenced += report.fenced;
        adopted += report.adopted;
        refenced += report.refenced;
    }
    assert!(fenced > SEEDS * 8, "{fenced} locks with fences");
    assert!(adopted > 0, "no node was told what others took");
    assert!(refenced > 0, "no node has taken a fence later than others");
}

#[test]
fn a_forced_release_ends_a_lock_for_good_and_the_fences_tell_its_holder_from_the_next() {
    let (mut forced, mut overlapped) = (0, 0);
    for seed in 0..SEEDS / 2 {
        for (plan, options) in [
            (Plan::of(seed).fenced(), "--forced --fences"),
            (Plan::of(seed).with_readers(), "--forced --readers"),
        ] {
            let report = passes(&plan.with_forced_releases(), options);
            forced += report.forced;
            overlapped += report.overlapped;
        }
    }
    assert!(forced > SEEDS, "{forced} locks ended by force");
    assert!(overlapped > 0, "{overlapped} holders beside the next");
}
