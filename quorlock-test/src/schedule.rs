//! Faults that are still to come, by the cluster's time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fault::ClusterFault;
use crate::random::SeededRandom;

/// A fault of a schedule: when it begins, and how long it lasts. What ends it is part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The cluster's time.
    pub at: Duration,
    /// What happens.
    pub fault: ClusterFault,
    /// How long until it ends, if it does not end at once.
    pub lasts: Duration,
}

impl std::fmt::Display for Scheduled {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.at.as_secs_f64();
        write!(formatter, "at {at:.3} s {}", self.fault)?;
        match self.fault.end() {
            Some(_) => write!(formatter, ", for {:.3} s", self.lasts.as_secs_f64()),
            None => Ok(()),
        }
    }
}

/// What is to happen, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct FaultQueue {
    coming: Mutex<Vec<(Duration, ClusterFault)>>,
}

impl FaultQueue {
    pub(crate) fn plan(&self, schedule: &[Scheduled]) {
        let mut coming = self.coming();
        for scheduled in schedule {
            coming.push((scheduled.at, scheduled.fault.clone()));
            let end = scheduled.fault.end();
            let ends_at = scheduled.at.saturating_add(scheduled.lasts);
            coming.extend(end.map(|end| (ends_at, end)));
        }
        coming.sort_by_key(|(at, _)| *at);
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        self.coming().first().map(|(at, _)| *at)
    }

    pub(crate) fn take_due(&self, now: Duration) -> Option<ClusterFault> {
        let mut coming = self.coming();
        let is_due = coming.first().is_some_and(|(at, _)| *at <= now);
        is_due.then(|| coming.remove(0).1)
    }

    fn coming(&self) -> MutexGuard<'_, Vec<(Duration, ClusterFault)>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A schedule for a cluster that a minority of nodes at most is wrong with, whatever comes together.
pub(crate) fn random(
    random: &mut SeededRandom,
    nodes: usize,
    clients: usize,
    faults_max: usize,
    horizon: Duration,
) -> Vec<Scheduled> {
    let mut sound: Vec<usize> = (0..nodes).collect();
    let minority = (nodes - 1) / 2;
    let mut ailing = Vec::new();
    for _ in 0..minority {
        let one = index(random, sound.len());
        ailing.push(sound.swap_remove(one));
    }
    let faults = 1 + index(random, faults_max);
    let horizon_ms = u64::try_from(horizon.as_millis()).unwrap_or(u64::MAX);
    let mut schedule = Vec::new();
    for _ in 0..faults {
        let at = random.below(horizon_ms.max(1));
        let lasts = LASTS_MS_MIN + random.below(LASTS_MS_MAX);
        let Some(fault) = one(random, &ailing, nodes, clients) else {
            continue;
        };
        schedule.push(Scheduled {
            at: Duration::from_millis(at),
            fault,
            lasts: Duration::from_millis(lasts),
        });
    }
    schedule.sort_by_key(|scheduled| scheduled.at);
    schedule
}

/// A fault of one of these nodes, or between a client and any.
fn one(
    random: &mut SeededRandom,
    ailing: &[usize],
    nodes: usize,
    clients: usize,
) -> Option<ClusterFault> {
    let kind = random.below(9);
    let (client, node) = (random.below(u64::MAX), random.below(u64::MAX));
    let late = Duration::from_millis(1 + random.below(SLOW_MS_MAX));
    if kind < 3 {
        let client = (clients > 0).then(|| remainder(client, clients))?;
        return Some(match kind {
            0 => ClusterFault::Cut {
                client,
                node: remainder(node, nodes),
            },
            _ => ClusterFault::CutOff(client),
        });
    }
    let node = (!ailing.is_empty()).then(|| ailing[remainder(node, ailing.len())])?;
    Some(match kind {
        3 => ClusterFault::Kill(node),
        4 => ClusterFault::LosePower(node),
        5 => ClusterFault::Pause(node),
        6 => ClusterFault::Slow(node, late),
        7 => ClusterFault::DiskFull(node),
        _ => ClusterFault::FailSync(node),
    })
}

fn index(random: &mut SeededRandom, count: usize) -> usize {
    remainder(random.below(u64::MAX), count)
}

fn remainder(number: u64, count: usize) -> usize {
    let count = u64::try_from(count).expect("64 bits count everything");
    usize::try_from(number % count).expect("it is below a usize")
}

const LASTS_MS_MIN: u64 = 100;
/// Longer than most locks are valid.
const LASTS_MS_MAX: u64 = 60_000;
const SLOW_MS_MAX: u64 = 500;
