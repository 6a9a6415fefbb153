//! What carries out trials: real processes, or simulated nodes.

pub(crate) mod process;
mod proxy;
pub mod real;
pub mod simulated;

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};

use crate::cell::Cell;
use crate::history::TrialHistory;
use crate::plan::Plan;

/// One way to carry out a trial of a cell.
pub trait TrialEngine {
    /// What it is called in files and reports: `real`, or the server that is tried instead of our own.
    fn name(&self) -> &str;

    /// Carries out one trial from a seed, and notes in `history` what happened.
    ///
    /// # Errors
    /// Where the trial could not be carried out: that is no verdict about the nodes.
    fn run(
        &mut self,
        cell: &Cell,
        plan: &Plan,
        seed: u64,
        history: &Arc<TrialHistory>,
        cancel: &Cancel,
    ) -> Result<Measured, EngineError>;
}

/// What an engine measured in a trial. Times that were not to be had stay empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Locks that clients were told they hold.
    pub acquired: u64,
    /// Locks that stood on the nodes that crashed when the fault began, acknowledged to their holders.
    pub standing: u64,
    /// How many of them a node had forgotten when it answered again.
    pub lost: u64,
    /// How long the load ran before the fault, and how many locks it took and gave back meanwhile.
    pub load_s: f64,
    /// Cycles of the load in that time.
    pub load_cycles: u64,
    /// How long each acquisition of the load took.
    pub acquire_us: Vec<u32>,
    /// From the start of the crashed nodes to their first answer: reading the log back included, the restart delay not.
    pub recovery_ms: Option<f64>,
    /// What the node said it waits.
    pub delay_ms: Option<f64>,
    /// From the fault to the first lock that a client was granted by a majority, or by the node that crashed.
    pub unavailable_ms: Option<f64>,
    /// From the fault until client B had the lock that client A held.
    #[serde(default)]
    pub waited_ms: Option<f64>,
    /// How long the nodes' syncs took, as they measured it.
    pub sync_us: Vec<u32>,
    /// Bytes in the nodes' logs at the end, all together.
    pub log_bytes: u64,
}

/// Why a trial has no result.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The user wants to stop.
    #[error("cancelled")]
    Cancelled,
    /// What the trial needs is not on this machine: the cell is skipped and named.
    #[error("{0}")]
    Missing(String),
    /// Something that is not under test did not work.
    #[error("{0}")]
    Failed(String),
}

impl EngineError {
    pub(crate) fn failed(what: impl Display) -> EngineError {
        EngineError::Failed(what.to_string())
    }
}

impl From<io::Error> for EngineError {
    fn from(error: io::Error) -> EngineError {
        EngineError::failed(error)
    }
}

/// The threads that clients and proxies of an engine run on.
pub(crate) fn threads() -> Result<Runtime, EngineError> {
    let mut threads = Builder::new_multi_thread();
    Ok(threads.worker_threads(2).enable_all().build()?)
}

/// Whether the user wants to stop; shared by all who take part.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Wants to stop from now on.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody wants to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// What work comes to, unless somebody wants to stop before.
    pub(crate) async fn or<T>(
        &self,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let cancelled = async {
            while !self.is_cancelled() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            outcome = work => outcome,
            () = cancelled => Err(EngineError::Cancelled),
        }
    }
}
