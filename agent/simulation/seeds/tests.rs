//! Some seeds of agents, and what holds for all of them.

use crate::plan::Plan;
use crate::world::{Report, run};

#[test]
fn no_lock_of_an_agent_has_two_holders_or_is_lost_while_a_majority_keeps_it() {
    let mut all = Report::default();
    for seed in 0..SEEDS {
        let report = run(&Plan::of(seed), false).unwrap_or_else(|violation| {
            panic!("seed {seed}: {violation}\nshow it with: agent-seeds --seed {seed}")
        });
        all.add(&report);
    }
    // What was not exercised is not shown.
    assert!(all.acquired > SEEDS * 5, "{all:?}");
    assert!(all.extended > SEEDS * 2, "{all:?}");
    assert!(all.fences > SEEDS / 3, "{all:?}");
    assert!(
        all.published > SEEDS * 20 && all.delivered > all.published,
        "{all:?}"
    );
    assert!(all.died > SEEDS / 2, "{all:?}");
    assert!(all.faults.len() >= 11, "{all:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let plan = Plan::of(1);
    assert_eq!(run(&plan, false), run(&plan, false));
}

const SEEDS: u64 = 30;
