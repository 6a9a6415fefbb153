//! Plans for people who want an answer before they know the axes.

use std::time::Duration;

use crate::cell::{Cell, Delay, Fault, FenceCheck, FsyncMode};
use crate::plan::{Axes, Plan};
use crate::words::words;

words! {
    /// A plan with a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Preset or "preset: {all}" {
        /// Under a minute: one node loses power, with and without the restart delay.
        Quick = "quick",
        /// About ten minutes: every fault on five nodes.
        Standard = "standard",
        /// An hour and more: all axes.
        Thorough = "thorough",
    }
}

impl Preset {
    /// Its axes.
    pub fn axes(self) -> Axes {
        let modes = vec![FsyncMode::Always, FsyncMode::Everysec, FsyncMode::No];
        match self {
            Preset::Quick => Axes {
                fsync: modes,
                delay: vec![Delay::Auto, Delay::Off],
                fault: vec![Fault::PowerLossOne],
                nodes: vec![5],
                fences: vec![FenceCheck::Off],
            },
            Preset::Standard => Axes {
                fsync: FsyncMode::ALL.to_vec(),
                delay: vec![Delay::Auto, Delay::TrustFsync, Delay::Off],
                fault: faults(),
                nodes: vec![5],
                fences: vec![FenceCheck::Off],
            },
            Preset::Thorough => Axes {
                fsync: FsyncMode::ALL.to_vec(),
                delay: [Delay::Auto, Delay::TrustFsync, Delay::Off]
                    .into_iter()
                    .chain([25, 50, 75, 100, 150].map(Delay::Percent))
                    .collect(),
                fault: faults(),
                nodes: vec![1, 3, 5],
                fences: FenceCheck::ALL.to_vec(),
            },
        }
    }

    /// The plan from a seed.
    ///
    /// # Panics
    /// Never: the axes of a preset make sense, which a test holds.
    pub fn plan(self, seed: u64) -> Plan {
        let (mut cells, skipped) = self
            .axes()
            .cells()
            .expect("the axes of a preset make sense");
        if self == Preset::Standard {
            // The violation curve against the delay, where it shows most.
            for percent in [25, 50, 75, 100] {
                for fsync in [FsyncMode::Everysec, FsyncMode::No] {
                    cells.push(Cell {
                        fsync,
                        delay: Delay::Percent(percent),
                        fault: Fault::PowerLossOne,
                        nodes: 5,
                        fences: FenceCheck::Off,
                    });
                }
            }
            // Where two write, or may: what a register that refuses old holders makes of it.
            for (fsync, delay, fault) in [
                (FsyncMode::Always, Delay::Auto, Fault::ClientPause),
                (FsyncMode::Everysec, Delay::Auto, Fault::ClientPause),
                (FsyncMode::Everysec, Delay::Off, Fault::PowerLossOne),
                (FsyncMode::No, Delay::Auto, Fault::PowerLossMajority),
            ] {
                cells.push(Cell {
                    fsync,
                    delay,
                    fault,
                    nodes: 5,
                    fences: FenceCheck::On,
                });
            }
        }
        Plan {
            cells,
            skipped,
            trials: match self {
                Preset::Quick => 1,
                Preset::Standard => 2,
                Preset::Thorough => 5,
            },
            ttl: Duration::from_millis(1500),
            restart_delay_max: Duration::from_secs(2),
            load_time: Duration::from_millis(800),
            load_clients: 4,
            seed,
        }
    }
}

/// All but what our own nodes have no part in: they have no replicas.
fn faults() -> Vec<Fault> {
    let own = |fault: &Fault| *fault != Fault::Failover;
    Fault::ALL.into_iter().filter(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_can_be_carried_out() {
        for preset in Preset::ALL {
            let word = preset.word();
            let plan = preset.plan(1);
            assert_eq!(plan.check(), Ok(()), "{word}");
            assert!(!plan.cells.is_empty(), "{word}");
            assert_eq!(word.parse(), Ok(preset));
        }
    }
}
