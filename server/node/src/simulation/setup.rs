//! What a simulated node starts from, and how its disk is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_persistence::{Disk, LogOptions, Recovery};

use crate::clock::Clock;
use crate::config::Config;
use crate::core::compaction::PART_BYTES;
use crate::core::process::Process;
use crate::core::upstream::Upstream;
use crate::past::NodeIdentity;
use crate::start::{self, Begun, ListenInfo, StartError, StartPlan, begin};

/// What a simulated node starts from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The node's configuration. Addresses and the directory have no meaning here; 0 workers are one.
    pub config: Config,
    /// The sizes of the log; small ones make it rotate often.
    pub sizes: LogOptions,
    /// Bytes of one part of a checkpoint.
    pub part_bytes: usize,
    /// Where random bytes come from: identities and hash functions are the same for the same seed.
    pub seed: u64,
    /// What executes commands on keys in place of the node's engine.
    pub upstream: Option<Arc<dyn Upstream>>,
}

impl Setup {
    /// A node with this configuration and a log of the usual sizes.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            sizes: LogOptions::default(),
            part_bytes: PART_BYTES,
            seed: 1,
            upstream: None,
        }
    }

    /// A start on this disk, for who does the rest: the log thread's work and maintenance.
    ///
    /// # Errors
    /// As a real node, except for those of sockets and threads.
    pub fn begin(&self, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Result<Begun, StartError> {
        begin(self.plan(disk, clock), ListenInfo::NOWHERE)
    }

    /// What its start begins from, on this disk.
    pub(crate) fn plan(&self, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> StartPlan {
        let random = AtomicU64::new(self.seed);
        let mut config = self.config.clone();
        config.workers = config.workers.max(1);
        StartPlan {
            config,
            clock,
            process: Process::SIMULATED,
            disk,
            sizes: self.sizes,
            part_bytes: self.part_bytes,
            random: Arc::new(move |bytes| {
                bytes.fill_with(|| next_byte(&random));
                Ok(())
            }),
            files: None,
            cores: 1,
            upstream: self.upstream.clone(),
            certificates: None,
            metrics: None,
            log_filter: None,
        }
    }
}

/// Creates a node on an empty disk, as `quorlock node init` does in an empty directory.
///
/// # Errors
/// When the disk fails, or is not empty.
pub fn init(disk: Arc<dyn Disk>, setup: &Setup) -> Result<(), StartError> {
    let recovery = Recovery::read(Arc::clone(&disk), &setup.sizes).map_err(StartError::Log)?;
    let seed = AtomicU64::new(setup.seed);
    let identity = NodeIdentity::known(
        std::array::from_fn(|_| next_byte(&seed)),
        &Config::default(),
    );
    start::create(&*disk, &identity, recovery)
}

/// SplitMix64, a byte at a time.
fn next_byte(state: &AtomicU64) -> u8 {
    let add = 0x9e37_79b9_7f4a_7c15_u64;
    let number = state.fetch_add(add, Ordering::Relaxed).wrapping_add(add);
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).to_le_bytes()[0]
}
