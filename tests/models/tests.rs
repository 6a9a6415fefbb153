//! The models with small bounds, as tests: every model holds, and all mutants but those that take seconds are caught.
//!
//! The program itself explores everything completely and checks every mutant, which takes minutes; CI runs it.

use crate::check::Outcome;
use crate::exclusion::{self, Mutant, Size};
use crate::run::{
    check_fences, check_scope, check_sharing, check_stream, walk, walk_fences, walk_sharing,
};
use crate::{fences, report, sharing, stream};

#[test]
fn every_scope_of_exclusion_holds() {
    let mut walked = 0;
    for scope in exclusion::scopes(Size::Small) {
        if LARGE.contains(&scope.name) {
            walked += 1;
            let outcome = walk(scope.clone(), Size::Small);
            assert!(outcome.failure.is_none(), "{}", scope.name);
        } else {
            let outcome = check_scope(scope.clone(), Mutant::None, THREADS);
            assert_good(scope.name, &outcome);
            assert!(outcome.is_complete, "{}", scope.name);
        }
    }
    assert_eq!(walked, LARGE.len(), "a scope has another name");
}

#[test]
fn walks_through_five_nodes_hold() {
    let scope = exclusion::everything();
    assert_good(scope.name, &walk(scope.clone(), Size::Small));
}

#[test]
fn fences_of_a_name_grow_in_every_scope() {
    for scope in fences::scopes(Size::Small) {
        let outcome = check_fences(scope.clone(), fences::Mutant::None, THREADS);
        assert_good(scope.name, &outcome);
        assert!(outcome.is_complete, "{}", scope.name);
    }
}

#[test]
fn walks_through_fences_of_five_nodes_hold() {
    let scope = fences::everything();
    assert_good(scope.name, &walk_fences(scope.clone(), Size::Small));
}

#[test]
fn mutants_of_fences_are_caught() {
    for (mutant, scope) in fences::mutants() {
        let outcome = check_fences(scope, mutant, THREADS);
        assert!(outcome.failure.is_some(), "not caught: {}", mutant.words());
    }
}

#[test]
fn readers_and_writers_are_apart_in_every_scope() {
    for scope in sharing::scopes(Size::Small) {
        let outcome = check_sharing(scope.clone(), sharing::Mutant::None, THREADS);
        assert_good(scope.name, &outcome);
        assert!(outcome.is_complete, "{}", scope.name);
    }
}

#[test]
fn walks_through_readers_of_five_nodes_hold() {
    let scope = sharing::everything();
    assert_good(scope.name, &walk_sharing(scope.clone(), Size::Small));
}

#[test]
fn mutants_of_shared_locks_are_caught() {
    for (mutant, scope) in sharing::mutants() {
        let outcome = check_sharing(scope, mutant, THREADS);
        assert!(outcome.failure.is_some(), "not caught: {}", mutant.words());
    }
}

#[test]
fn the_log_holds() {
    for (name, _, bounds) in stream::runs(Size::Small) {
        let (outcome, crash_states) = check_stream(bounds, stream::Mutant::None, THREADS);
        assert_good(name, &outcome);
        assert!(crash_states > 1_000, "{name}: {crash_states}");
    }
}

#[test]
fn mutants_of_exclusion_are_caught() {
    let slow = [Mutant::RecoveredCappedByToday, Mutant::NoDriftAllowance];
    let quick = |(mutant, _): &(Mutant, _)| !slow.contains(mutant);
    for (mutant, scope) in exclusion::mutants().into_iter().filter(quick) {
        let outcome = check_scope(scope, mutant, THREADS);
        assert!(outcome.failure.is_some(), "not caught: {}", mutant.words());
    }
}

#[test]
fn mutants_of_the_log_are_caught() {
    use stream::Mutant::{ClaimTooEarly, RemovedBeforeEnd, TailReused};
    let slow = [ClaimTooEarly, RemovedBeforeEnd, TailReused];
    let quick = |mutant: &stream::Mutant| !slow.contains(mutant);
    for mutant in stream::Mutant::ALL.into_iter().filter(quick) {
        let (_, bounds) = stream::catching(mutant);
        let (outcome, _) = check_stream(bounds, mutant, THREADS);
        assert!(outcome.failure.is_some(), "not caught: {}", mutant.words());
    }
}

fn assert_good(name: &str, outcome: &Outcome) {
    if let Some(failure) = &outcome.failure {
        panic!("{name}\n{}", report::steps(failure));
    }
    assert_eq!(outcome.unseen, [""; 0], "{name}: never seen");
}

/// Hundreds of thousands of states and more: random walks look at some of them here.
const LARGE: [&str; 8] = [
    "amnesia",
    "caps",
    "clean stop",
    "crash loop",
    "extension",
    "log dropped",
    "modes",
    "no log",
];

/// The tests run beside each other.
const THREADS: usize = 1;
