//! Makes the log as durable as replies need it to be.
//!
//! Invariant: `written` and `synced` only grow, and only to positions that a write or a sync
//! has confirmed. The first failure is final: nothing is retried, every waiter learns of it.
//!
//! Lock order: the writer first, then the core (briefly, to take the pending batch).

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use quorlock_persistence::{Batch, Position, SyncTicket, Writer};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::Clock;
use crate::node::core::{Core, Wait};
use crate::node::durable_counts::{Counts, DurableCounts, Sample};
use crate::node::rewrites::LogSize;
use crate::node::statistics::SyncDurations;

/// The writing half of the log, shared by workers and the log thread.
pub(crate) struct Commit {
    clock: Arc<dyn Clock>,
    writing: Mutex<Writing>,
    written: AtomicU64,
    synced: AtomicU64,
    /// Locked while either of the two grows.
    counts: Mutex<DurableCounts>,
    /// Smoothed duration of a sync, in nanoseconds: decides who syncs.
    sync_ns: AtomicU64,
    /// For the metrics.
    pub(crate) syncs: SyncDurations,
    last_sync_raw_ns: AtomicU64,
    syncs_running: AtomicUsize,
    needs_segment: AtomicBool,
    bytes_since_checkpoint: AtomicU64,
    total_bytes: AtomicU64,
    failure: OnceLock<Failure>,
    /// Rung after each sync and at the failure.
    progress: Notify,
}

struct Writing {
    writer: Writer,
    spare: Batch,
    /// The databases behind the last batch that was written.
    newest: Sample,
}

/// A sync that was begun.
#[derive(Debug)]
#[must_use = "nothing is synced until it is finished"]
pub(crate) struct Syncing {
    ticket: SyncTicket,
    /// The databases behind what it syncs.
    sample: Sample,
}

/// Why the log can be trusted no more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the log failed and is not trusted any more: {0}")]
pub struct Failure(pub(crate) String);

impl Commit {
    pub(crate) fn new(writer: Writer, clock: Arc<dyn Clock>) -> Self {
        Self {
            written: AtomicU64::new(writer.written().get()),
            synced: AtomicU64::new(writer.durable().get()),
            counts: Mutex::default(),
            sync_ns: AtomicU64::new(0),
            syncs: SyncDurations::default(),
            last_sync_raw_ns: AtomicU64::new(clock.raw_ns()),
            syncs_running: AtomicUsize::new(0),
            needs_segment: AtomicBool::new(true),
            bytes_since_checkpoint: AtomicU64::new(writer.bytes_since_checkpoint()),
            total_bytes: AtomicU64::new(writer.total_bytes()),
            failure: OnceLock::new(),
            progress: Notify::new(),
            writing: Mutex::new(Writing {
                writer,
                spare: Batch::default(),
                newest: Sample::default(),
            }),
            clock,
        }
    }

    /// Whether replies that wait for this may leave.
    pub(crate) fn is_met(&self, wait: Wait) -> bool {
        wait.written <= self.written.load(Ordering::Acquire)
            && wait.synced <= self.synced.load(Ordering::Acquire)
    }

    /// How many keys each database holds, as far as it may be revealed now, by a reply that waits
    /// for `owed` anyway. It waits for no write and no sync.
    pub(crate) fn counts_shown(&self, core: &Core, owed: Wait) -> Counts {
        let live = core.sample();
        if self.is_met(live.wait.beyond(owed)) {
            return live.counts;
        }
        *self.counts().shown(|released| {
            let mut wait = released.wait;
            wait.raise(core.mode.reach(released.position));
            self.is_met(wait)
        })
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, DurableCounts> {
        self.counts
            .lock()
            .expect("no holder of the counts can panic")
    }

    /// Whether a sync, not only a write, is what `wait` lacks.
    pub(crate) fn lacks_sync(&self, wait: Wait) -> bool {
        wait.synced > self.synced.load(Ordering::Acquire)
    }

    /// Writes everything appended so far.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub(crate) fn write(&self, core: &Mutex<Core>) -> Result<(), Failure> {
        let mut writing = self.lock()?;
        self.write_locked(&mut writing, core)
    }

    /// Writes and syncs everything appended so far, on this thread.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub(crate) fn write_and_sync(&self, core: &Mutex<Core>) -> Result<(), Failure> {
        self.write(core)?;
        match self.begin_sync()? {
            Some(syncing) => self.finish_sync(syncing),
            None => Ok(()),
        }
    }

    /// Whether a sync runs now. Who begins another one waits for its end.
    pub(crate) fn is_syncing(&self) -> bool {
        self.syncs_running.load(Ordering::Acquire) > 0
    }

    /// Starts a sync of what is written; `None` when all of it is synced. It runs
    /// without a lock, so that writing goes on beside it.
    ///
    /// # Errors
    /// When the log failed before.
    pub(crate) fn begin_sync(&self) -> Result<Option<Syncing>, Failure> {
        let mut writing = self.lock()?;
        if self.synced.load(Ordering::Acquire) >= self.written.load(Ordering::Acquire) {
            return Ok(None);
        }
        Ok(Some(Syncing {
            ticket: writing.writer.begin_sync(),
            sample: writing.newest,
        }))
    }

    /// Runs a sync and publishes how far it came.
    ///
    /// # Errors
    /// When the sync failed: the log is then finished.
    pub(crate) fn finish_sync(&self, syncing: Syncing) -> Result<(), Failure> {
        let Syncing { ticket, sample } = syncing;
        let began = self.clock.raw_ns();
        self.syncs_running.fetch_add(1, Ordering::AcqRel);
        let ran = ticket.run();
        self.syncs_running.fetch_sub(1, Ordering::AcqRel);
        let synced = ran.map_err(|error| self.fail(&error))?;
        let newest = {
            let mut writing = self.lock()?;
            writing.writer.finish_sync(synced);
            writing.newest
        };
        self.note_sync(began, synced, &sample, &newest);
        Ok(())
    }

    /// Marks the log as failed and returns the first failure.
    pub(crate) fn fail(&self, error: &dyn std::fmt::Display) -> Failure {
        let failure = self
            .failure
            .get_or_init(|| Failure(error.to_string()))
            .clone();
        self.progress.notify_waiters();
        failure
    }

    /// Resolves after the next sync, or when the log has failed, counted from this call: ask for
    /// it first and look at the position then.
    pub(crate) fn progress(&self) -> Pin<Box<Notified<'_>>> {
        let mut progress = Box::pin(self.progress.notified());
        progress.as_mut().enable();
        progress
    }

    /// The failure, if there was one.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    /// Smoothed duration of a sync in nanoseconds; 0 before the first.
    pub(crate) fn sync_ns(&self) -> u64 {
        self.sync_ns.load(Ordering::Relaxed)
    }

    /// Raw-clock reading when the last sync ended, in nanoseconds.
    pub(crate) fn last_sync_raw_ns(&self) -> u64 {
        self.last_sync_raw_ns.load(Ordering::Relaxed)
    }

    /// Position up to which the log is synced.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Position up to which the log is written.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// How long the log is. Kept beside the writer, because whoever asks may hold the core.
    pub(crate) fn size(&self) -> LogSize {
        LogSize {
            since_checkpoint_bytes: self.bytes_since_checkpoint.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether the log thread should make the next segment; asking clears the wish.
    pub(crate) fn take_segment_wish(&self) -> bool {
        self.needs_segment.swap(false, Ordering::AcqRel)
    }

    fn lock(&self) -> Result<std::sync::MutexGuard<'_, Writing>, Failure> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        self.writing
            .lock()
            .map_err(|_| self.fail(&"a thread panicked while writing it"))
    }

    fn write_locked(&self, writing: &mut Writing, core: &Mutex<Core>) -> Result<(), Failure> {
        let spare = std::mem::take(&mut writing.spare);
        let (mut batch, sample) = match core.lock() {
            Ok(mut core) => core.take(spare),
            Err(_) => return Err(self.fail(&"a thread panicked while it held the engine")),
        };
        let result = writing.writer.write(&mut batch);
        writing.spare = batch;
        let written = result.map_err(|error| self.fail(&error))?;
        writing.newest = sample;
        {
            let mut counts = self.counts();
            self.written.fetch_max(written.get(), Ordering::AcqRel);
            if self.is_met(sample.wait) {
                counts.note_released(&sample);
            }
        }
        if writing.writer.needs_preparing() {
            self.needs_segment.store(true, Ordering::Release);
        }
        self.bytes_since_checkpoint
            .store(writing.writer.bytes_since_checkpoint(), Ordering::Relaxed);
        self.total_bytes
            .store(writing.writer.total_bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// `sample` is synced, and `newest` may need nothing else.
    fn note_sync(&self, began_raw_ns: u64, synced: Position, sample: &Sample, newest: &Sample) {
        let now = self.clock.raw_ns();
        let took = now.saturating_sub(began_raw_ns);
        self.syncs.note(took);
        let smoothed = match self.sync_ns.load(Ordering::Relaxed) {
            0 => took,
            old => old - old / SMOOTHING + took / SMOOTHING,
        };
        self.sync_ns.store(smoothed, Ordering::Relaxed);
        self.last_sync_raw_ns.store(now, Ordering::Relaxed);
        {
            let mut counts = self.counts();
            self.synced.fetch_max(synced.get(), Ordering::AcqRel);
            counts.note_synced(sample);
            if self.is_met(newest.wait) {
                counts.note_released(newest);
            }
        }
        self.progress.notify_waiters();
    }
}

/// One in so many of a new measurement enters the average.
const SMOOTHING: u64 = 8;
