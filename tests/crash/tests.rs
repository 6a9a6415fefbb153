//! A small part of the crash states with every run of the tests, and all planted defects.

use quorlock_tests::crash::ledger::Ledger;
use quorlock_tests::crash::run::run;
use quorlock_tests::crash::{Budget, mutants};

#[test]
fn no_crash_loses_what_was_promised() {
    let budget = Budget { short: 12, long: 1 };
    let outcome = run(1, budget, 2, |states| states < 5_000);
    let failures: Vec<String> = outcome.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // The exploration must have met what it is there for.
    for (name, count) in outcome.statistics.numbers() {
        let is_rare = RARE.contains(&name);
        assert!(count > 0 || is_rare, "nothing counted: {name}");
    }
}

#[test]
fn every_planted_defect_is_noticed_and_nothing_else() {
    for caught in mutants::all() {
        if let Some(alarm) = &caught.false_alarm {
            panic!(
                "{:?}: a false alarm without the defect: {alarm}",
                caught.defect
            );
        }
        assert!(
            caught.failure.is_some(),
            "{:?} is not noticed",
            caught.defect
        );
    }
}

#[test]
fn a_ledger_adds_up_over_runs() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("ledger.json");
    let budget = Budget { short: 2, long: 1 };
    let mut states = 0;
    for _ in 0..2 {
        let mut ledger = Ledger::read(&path).expect("a ledger or none");
        assert_eq!(ledger.statistics.states(), states);
        let outcome = run(ledger.next_seed, budget, 1, |states| states == 0);
        ledger.add(&outcome, 1);
        states += outcome.statistics.states();
        ledger.write(&path).expect("the directory is there");
    }
    let ledger = Ledger::read(&path).expect("the ledger just written");
    assert_eq!(
        (ledger.next_seed, ledger.seconds, ledger.failures),
        (2, 2, 0)
    );
    assert_eq!(ledger.statistics.workloads, 2);
    std::fs::write(&path, "{}").expect("the directory is there");
    assert!(
        Ledger::read(&path).is_err(),
        "something else is not overwritten"
    );
}

/// What so few states may not meet.
const RARE: [&str; 3] = [
    "states: process end, cache dropped",
    "refused after a lying disk",
    "refused over a header of garbage",
];
