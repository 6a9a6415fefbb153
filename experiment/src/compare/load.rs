//! The load of a round: callers with a lock of their own each, then callers that want the same lock.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::caller::ServiceCaller;
use super::plan::ComparisonPlan;
use super::running::RunningService;
use super::service::Service;
use super::{ComparisonRound, InstalledServices};
use crate::engine::EngineError;
use crate::statistics::quantile;

/// What a load came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// How long it went on.
    pub seconds: f64,
    /// Locks that were taken and given back.
    pub cycles: u64,
    /// From the request to the lock: p50 and p99.
    pub acquire_us: Option<[f64; 2]>,
    /// Locks that were not to be had, or calls that failed.
    pub failed: u64,
    /// The words of the first failure.
    pub first_failure: Option<String>,
    /// How often a caller was given a lock that another one had not given back yet.
    pub overlaps: u64,
    /// Where all want the same lock: how often it went to the caller that had asked first.
    #[serde(default)]
    pub in_order: u64,
    /// There, the longest wait for the lock, in turns: the time in which all callers have the lock once.
    #[serde(default)]
    pub longest_turns: Option<f64>,
}

/// What one caller came to.
#[derive(Default)]
struct Own {
    acquire_us: Vec<f64>,
    failed: u64,
    first_failure: Option<String>,
    overlaps: u64,
    in_order: u64,
}

/// What the callers that want the same lock share.
#[derive(Default)]
struct Shared {
    inside: AtomicU32,
    line: Mutex<Line>,
}

/// Who waits for the lock, by the order of the requests.
#[derive(Default)]
struct Line {
    requests: u64,
    waiting: BTreeSet<u64>,
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn join(&mut self) -> u64 {
        self.requests += 1;
        self.waiting.insert(self.requests);
        self.requests
    }

    /// Whether nobody in the line has asked before.
    fn leave(&mut self, request: u64) -> bool {
        let is_first = self.waiting.first() == Some(&request);
        self.waiting.remove(&request);
        is_first
    }
}

/// Starts a service, loads it in both ways, and ends it.
pub(super) async fn round(
    service: Service,
    number: u32,
    plan: &ComparisonPlan,
    found: &InstalledServices,
    directory: &Path,
) -> Result<ComparisonRound, EngineError> {
    let running = RunningService::start(service, found, TTL, directory).await?;
    let apart = load(&running, plan.callers, plan.round, false).await?;
    let together = load(&running, plan.contenders, plan.round, true).await?;
    Ok(ComparisonRound {
        service,
        number,
        apart,
        together,
    })
}

async fn load(
    running: &RunningService,
    callers: u32,
    time: Duration,
    is_shared: bool,
) -> Result<Load, EngineError> {
    let shared = Arc::new(Shared::default());
    // One more than the callers: this one, which reads the clock when all are connected.
    let ready = Arc::new(Barrier::new(callers as usize + 1));
    let mut calling = JoinSet::new();
    for number in 0..callers as usize {
        let mut caller = running.caller(number).await?;
        let (ready, shared) = (Arc::clone(&ready), Arc::clone(&shared));
        let name = match is_shared {
            true => "shared".to_owned(),
            false => format!("own-{number}"),
        };
        calling.spawn(async move {
            let mut own = Own::default();
            // The first lock connects and finds its way, which is not what is measured.
            cycle(&mut caller, &format!("first-{number}"), None, &mut own).await;
            own.acquire_us.clear();
            ready.wait().await;
            let end = Instant::now() + time;
            while Instant::now() < end {
                let before = own.failed;
                cycle(&mut caller, &name, is_shared.then_some(&shared), &mut own).await;
                if own.failed > before {
                    // A service that refuses at once is not asked in a tight circle.
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
            own
        });
    }
    ready.wait().await;
    let start = Instant::now();
    let mut load = Load::default();
    let mut times = Vec::new();
    while let Some(own) = calling.join_next().await {
        let own = own.map_err(EngineError::failed)?;
        load.failed += own.failed;
        load.overlaps += own.overlaps;
        load.in_order += own.in_order;
        load.first_failure = load.first_failure.or(own.first_failure);
        times.extend(own.acquire_us);
    }
    load.seconds = start.elapsed().as_secs_f64();
    load.cycles = times.len() as u64;
    load.acquire_us = quantile(&mut times, 0.5)
        .zip(quantile(&mut times, 0.99))
        .map(<[f64; 2]>::from);
    if is_shared && let Some(longest) = quantile(&mut times, 1.0) {
        let turn_us = load.seconds * 1e6 / load.cycles as f64 * f64::from(callers);
        load.longest_turns = Some(longest / turn_us);
    }
    match (load.cycles, &load.first_failure) {
        (0, Some(why)) => Err(EngineError::Failed(format!("no lock was to be had: {why}"))),
        _ => Ok(load),
    }
}

/// Takes a lock and gives it back.
async fn cycle(
    caller: &mut ServiceCaller,
    name: &str,
    shared: Option<&Arc<Shared>>,
    own: &mut Own,
) {
    let request = shared.map(|shared| shared.line().join());
    let before = Instant::now();
    let outcome = caller.acquire(name, TTL, PATIENCE).await;
    let micros = before.elapsed().as_secs_f64() * 1e6;
    let is_first = shared
        .zip(request)
        .is_some_and(|(shared, request)| shared.line().leave(request));
    let failure = match outcome {
        Ok(Some(granted)) => {
            own.in_order += u64::from(is_first);
            if let Some(Shared { inside, .. }) = shared.map(Arc::as_ref) {
                own.overlaps += u64::from(inside.fetch_add(1, Ordering::AcqRel) > 0);
                // Whoever was given the same lock runs now.
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::AcqRel);
            }
            let released = caller.release(granted).await;
            own.acquire_us.push(micros);
            released.err().map(|error| error.to_string())
        }
        Ok(None) => Some(format!("not to be had within {} s", PATIENCE.as_secs())),
        Err(error) => Some(error.to_string()),
    };
    if let Some(failure) = failure {
        own.failed += 1;
        own.first_failure.get_or_insert(failure);
    }
}

/// Longer than any round, so that no lock of it expires.
const TTL: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(10);
const AFTER_FAILURE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_first_if_nobody_in_the_line_asked_before() {
        let mut line = Line::default();
        let [one, two, three] = [line.join(), line.join(), line.join()];
        assert!(!line.leave(two));
        assert!(line.leave(one));
        assert!(line.leave(three));
        let four = line.join();
        assert!(line.leave(four));
    }
}
