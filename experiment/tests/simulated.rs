//! Every cell of the standard plan on simulated nodes: what a cell is expected to show it shows, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use quorlock_experiment::cell::{Cell, Delay, Expectation, Fault, FenceCheck, FsyncMode};
use quorlock_experiment::checks::judge;
use quorlock_experiment::engine::simulated::SimulatedEngine;
use quorlock_experiment::engine::{Cancel, TrialEngine as _};
use quorlock_experiment::history::{TrialHistory, TrialRecord};
use quorlock_experiment::plan::Plan;
use quorlock_experiment::preset::Preset;
use quorlock_experiment::summary::CellSummary;
use quorlock_experiment::trial::Trial;

fn carry_out(plan: &Plan, cell: &Cell, number: u32) -> (Trial, Vec<TrialRecord>) {
    let history = Arc::new(TrialHistory::default());
    let seed = plan.seed_of(cell, number);
    let measured = SimulatedEngine
        .run(cell, plan, seed, &history, &Cancel::default())
        .unwrap_or_else(|error| panic!("{cell}, trial {number}: {error}"));
    let records = history.records();
    let trial = Trial {
        cell: *cell,
        number,
        seed,
        engine: SimulatedEngine.name().to_owned(),
        measured,
        verdict: judge(&records),
    };
    (trial, records)
}

fn summary(plan: &Plan, cell: &Cell, trials: u32) -> CellSummary {
    let trials: Vec<Trial> = (1..=trials)
        .map(|number| carry_out(plan, cell, number).0)
        .collect();
    CellSummary::of(*cell, &trials.iter().collect::<Vec<_>>())
}

#[test]
fn every_cell_shows_what_is_expected_of_it_and_nothing_else() {
    let plan = Preset::Standard.plan(1);
    let mut problems = Vec::new();
    for cell in &plan.cells {
        let row = summary(&plan, cell, TRIALS);
        let most = match row.expected {
            Expectation::None => row.violated == 0,
            Expectation::Some => row.violated * 10 >= row.trials * 7,
            Expectation::Open => true,
        };
        if !most || row.stuck > 0 || row.broken_fences > 0 {
            problems.push(format!(
                "{cell}: {} violations in {} trials, expected {:?}; stuck: {}; fences broken in {}",
                row.violated, row.trials, row.expected, row.stuck, row.broken_fences
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_late_write_loses_an_update_unless_locks_have_fences() {
    let plan = Preset::Standard.plan(1);
    for (fences, loses) in [(FenceCheck::Off, true), (FenceCheck::On, false)] {
        let cell = Cell {
            fsync: FsyncMode::Everysec,
            delay: Delay::Auto,
            fault: Fault::ClientPause,
            nodes: 5,
            fences,
        };
        let row = summary(&plan, &cell, TRIALS);
        assert_eq!(row.lost_updates >= u64::from(TRIALS), loses, "{row:?}");
        assert_eq!(row.lost_updates == 0, !loses, "{row:?}");
        assert_eq!(row.refused_holders >= u64::from(TRIALS), !loses, "{row:?}");
        assert!(row.is_as_expected(), "{row:?}");
    }
}

/// Two holders at once, as the restart delay is off: fences and the register keep every update all the same.
#[test]
fn fences_protect_where_two_hold_the_lock() {
    let plan = Preset::Standard.plan(1);
    for fault in [
        Fault::PowerLossOne,
        Fault::PowerLossMajority,
        Fault::PowerLossAll,
    ] {
        let cell = Cell {
            fsync: FsyncMode::Everysec,
            delay: Delay::Off,
            fault,
            nodes: 5,
            fences: FenceCheck::On,
        };
        let row = summary(&plan, &cell, TRIALS);
        assert!(row.violated > 0, "{row:?}");
        assert_eq!((row.broken_fences, row.lost_updates), (0, 0), "{row:?}");
    }
}

#[test]
fn overlaps_shrink_as_the_delay_grows_to_what_is_needed() {
    let plan = Preset::Standard.plan(1);
    for fsync in [FsyncMode::Everysec, FsyncMode::No] {
        let overlap_ms = |delay: Delay| {
            let cell = Cell {
                fsync,
                delay,
                fault: Fault::PowerLossOne,
                nodes: 5,
                fences: FenceCheck::Off,
            };
            summary(&plan, &cell, CURVE_TRIALS).overlap_ms_max
        };
        let curve: Vec<f64> = [Delay::Off]
            .into_iter()
            .chain([25, 50, 75, 100].map(Delay::Percent))
            .map(overlap_ms)
            .collect();
        assert!(curve.is_sorted_by(|one, next| one > next), "{curve:?}");
        assert_eq!(curve.last(), Some(&0.0));
    }
}

#[test]
fn the_same_seed_is_the_same_trial() {
    let plan = Preset::Standard.plan(1);
    for cell in plan.cells.iter().step_by(7) {
        let (trial, records) = carry_out(&plan, cell, 1);
        assert_eq!(
            carry_out(&plan, cell, 1),
            (trial, records.clone()),
            "{cell}"
        );
        assert_ne!(carry_out(&plan, cell, 2).1, records, "{cell}");
    }
}

#[test]
fn fewer_nodes_and_other_lengths_of_locks_work_as_well() {
    let mut plan = Preset::Thorough.plan(1);
    plan.ttl = Duration::from_millis(400);
    plan.restart_delay_max = Duration::from_secs(3);
    assert_eq!(plan.check(), Ok(()));
    let small = plan.cells.iter().filter(|cell| cell.nodes < 5);
    for cell in small.step_by(3) {
        let row = summary(&plan, cell, 1);
        let is_allowed = row.expected != Expectation::None || row.violated == 0;
        assert!(is_allowed && row.stuck == 0, "{cell}: {row:?}");
    }
}

/// Without optimization a trial takes a fifth of a second.
const TRIALS: u32 = if cfg!(debug_assertions) { 2 } else { 20 };
const CURVE_TRIALS: u32 = if cfg!(debug_assertions) { 2 } else { 5 };
