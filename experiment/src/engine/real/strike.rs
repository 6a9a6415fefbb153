//! The fault of a trial: what it does to the nodes, and how it ends.

use std::ops::Range;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::client::Held;
use super::directed::note_forgotten;
use super::stage::Stage;
use crate::cell::Cell;
use crate::effect::{BEYOND, Effect, SLOW_SYNC_MS, WALL_STEP_MS};
use crate::engine::{EngineError, Measured};
use crate::history::Occurrence;
use crate::plan::Plan;

/// A fault that has struck.
pub(super) struct ActiveFault {
    nodes: Range<usize>,
    began: Instant,
    /// Asks each of the nodes for a lock, and comes to the time that passed until all of them had granted one.
    granting: JoinSet<Option<Duration>>,
}

/// Strikes. Nodes that start again answer when this returns, be it with a refusal.
pub(super) async fn strike(
    stage: &mut Stage,
    cell: &Cell,
    plan: &Plan,
    standing: &[Held],
    directed: &Held,
    measured: &mut Measured,
) -> Result<ActiveFault, EngineError> {
    let mut struck = ActiveFault {
        nodes: stage.struck(cell),
        began: Instant::now(),
        granting: JoinSet::new(),
    };
    let mut disks: Vec<(usize, Vec<Vec<u8>>)> = Vec::new();
    begin(stage, cell, &struck.nodes).await?;
    if cell.fault.restarted(cell.nodes) > 0 {
        configure(stage, cell, plan, &struck.nodes);
        measured.standing = standing.len() as u64 * struck.nodes.len() as u64;
        let nodes = struck.nodes.clone();
        disks.extend(nodes.map(|index| (index, stage.nodes[index].disk())));
        start_again(stage, &struck.nodes, measured).await?;
    }
    for index in struck.nodes.clone() {
        let grants = stage.grants_again(index);
        let began = struck.began;
        struck
            .granting
            .spawn(async move { grants.await.then(|| began.elapsed()) });
    }
    for (index, disk) in disks {
        measured.lost += note_forgotten(stage, index, &disk, standing);
        note_forgotten(stage, index, &disk, std::slice::from_ref(directed));
    }
    Ok(struck)
}

impl ActiveFault {
    /// Ends the fault, and waits until the nodes grant locks again.
    pub(super) async fn heal(
        mut self,
        stage: &mut Stage,
        cell: &Cell,
        plan: &Plan,
        measured: &mut Measured,
    ) -> Result<(), EngineError> {
        let effect = cell.fault.effect();
        if effect == Effect::Pause {
            // Longer than the lease, whenever B had its lock.
            sleep_until(self.began + plan.ttl + BEYOND).await;
        }
        if let Some(ending) = effect.ending() {
            for index in self.nodes.clone() {
                let node = &mut stage.nodes[index];
                match effect {
                    Effect::Pause => node.resume(),
                    Effect::DelaySyncs => node.delay_syncs(0)?,
                    _ => node.order("disk-full no")?,
                }
                stage.note_node(index, ending.clone());
            }
        }
        stage.join(usize::from(cell.quorum()));
        let mut longest = Duration::ZERO;
        while let Some(outcome) = self.granting.join_next().await {
            let Ok(Some(time)) = outcome else {
                return Err(EngineError::failed("a node grants no locks any more"));
            };
            longest = longest.max(time);
        }
        measured.unavailable_ms = Some(ms(longest));
        Ok(())
    }
}

/// The effect begins on each node.
async fn begin(stage: &mut Stage, cell: &Cell, nodes: &Range<usize>) -> Result<(), EngineError> {
    let effect = cell.fault.effect();
    for index in nodes.clone() {
        let node = &mut stage.nodes[index];
        match effect {
            Effect::Stop => node.stop().await?,
            Effect::Kill => node.kill(),
            Effect::LosePower | Effect::LoseUnsynced => node.lose_power()?,
            Effect::Pause => node.pause(),
            Effect::StepWall => node.step_wall(WALL_STEP_MS)?,
            Effect::DelaySyncs => node.delay_syncs(SLOW_SYNC_MS)?,
            Effect::FillDisk => {
                node.order("disk-full yes")?;
                node.use_up_space().await?;
            }
            Effect::Partition => stage.cut_from(usize::from(cell.quorum())),
            Effect::FailOver => stage.fail_over().await?,
            Effect::None => {}
        }
        if let Some(beginning) = effect.beginning() {
            stage.note_node(index, beginning);
        }
    }
    Ok(())
}

/// What the operator changes while the nodes are down.
fn configure(stage: &mut Stage, cell: &Cell, plan: &Plan, nodes: &Range<usize>) {
    for index in nodes.clone() {
        for (name, value) in cell.changed_directives(plan.ttl) {
            let text = format!("its next start has {name} {value}");
            stage.nodes[index].configure(name, value);
            stage.note_node(index, Occurrence::Said { text });
        }
    }
}

async fn start_again(
    stage: &mut Stage,
    nodes: &Range<usize>,
    measured: &mut Measured,
) -> Result<(), EngineError> {
    let start = Instant::now();
    for index in nodes.clone() {
        stage.nodes[index].start()?;
        stage.note_node(index, Occurrence::Started);
    }
    for index in nodes.clone() {
        stage.nodes[index].await_answer().await?;
        measured.recovery_ms.get_or_insert(ms(start.elapsed()));
        let left_ms = stage.nodes[index].info("restart_delay_remaining_ms").await;
        let left_ms = left_ms.unwrap_or(0.0);
        let longest = measured.delay_ms.get_or_insert(left_ms);
        *longest = longest.max(left_ms);
        let what = match left_ms > 0.0 {
            true => Occurrence::Waiting {
                ms: u64::from(super::whole(left_ms)),
            },
            false => Occurrence::Serving,
        };
        stage.note_node(index, what);
    }
    Ok(())
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
