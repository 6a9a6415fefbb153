//! How far the log has come, and so which replies may leave.
//!
//! Invariant: `written` and `synced` only grow, and only to positions that a write or a sync
//! has confirmed. The first failure is final: nothing is retried, every waiter learns of it.
//!
//! What has happened to the log is told here ([`Commit::note_written`], [`Commit::note_synced`],
//! [`Commit::fail`]); nothing here writes, syncs or reads a clock. Positions are atomics, because the
//! workers read them without a lock.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use crossbeam_utils::CachePadded;
use event_listener::EventListener;
use quorlock_persistence::{DiskError, Position, WriteError};

use crate::core::durable_counts::{Counts, DurableCounts, Sample};
use crate::core::executor::Executor;
use crate::core::rewrites::LogSize;
use crate::core::statistics::SyncDurations;
use crate::core::wait::DurabilityWait;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, Notify};
use quorlock_engine::RawTime;

/// The state of the log's commits, as everybody sees it.
pub struct Commit {
    // Each on a cache line of its own: one thread writes them while all others read them.
    written: CachePadded<AtomicU64>,
    synced: CachePadded<AtomicU64>,
    /// Locked while either of the two grows.
    counts: Mutex<DurableCounts>,
    /// Smoothed duration of a sync and the direct write before it, in nanoseconds: decides who does both.
    sync_ns: AtomicU64,
    /// For the metrics.
    pub syncs: SyncDurations,
    last_sync_raw_ns: AtomicU64,
    syncs_running: AtomicUsize,
    /// When each [`RunningWork`] has begun, in nanoseconds of the raw clock; 0 where a cell is free.
    device_since_raw_ns: [AtomicU64; DEVICE_WORK_NOTED_MAX],
    needs_segment: AtomicBool,
    bytes_since_checkpoint: AtomicU64,
    total_bytes: AtomicU64,
    older_bytes: AtomicU64,
    failure: OnceLock<Failure>,
    /// Notified after each sync and at the failure.
    progress: Notify,
}

/// A sync that has ended well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Synced<'a> {
    pub(crate) began_raw: RawTime,
    pub(crate) ended_raw: RawTime,
    /// How long the write before it has waited for the device.
    pub(crate) write_ns: u64,
    pub(crate) position: Position,
    /// The databases behind that position.
    pub(crate) sample: &'a Sample,
    /// Those behind what was written meanwhile, which may need nothing else.
    pub(crate) newest: &'a Sample,
}

/// Why the log can be trusted no more. The error that was first is its source.
#[derive(Clone, Debug)]
pub struct Failure(Arc<dyn Error + Send + Sync>);

impl Failure {
    /// With its first cause: an error, or words.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }

    /// What the system answered, where a call to it failed. Its number tells a full disk (ENOSPC), which needs
    /// space, from a broken one (EIO), which needs a repair.
    pub fn io_error(&self) -> Option<&io::Error> {
        let of_disk = match self.0.downcast_ref::<WriteError>() {
            Some(
                WriteError::Write(error)
                | WriteError::Sync(error)
                | WriteError::Segment(error)
                | WriteError::NoSpace(error)
                | WriteError::NoFiles(error),
            ) => Some(error),
            _ => self.0.downcast_ref::<DiskError>(),
        };
        let mut next: Option<&(dyn Error + 'static)> = Some(&*self.0);
        let mut sources = std::iter::from_fn(|| {
            let error = next?;
            next = error.source();
            Some(error)
        });
        of_disk
            .map(|error| &*error.cause)
            .or_else(|| sources.find_map(|error| error.downcast_ref()))
    }
}

/// Why a worker can serve its clients no more.
#[derive(Debug, thiserror::Error)]
#[error("a worker cannot poll its sockets: {0}")]
pub struct PollError(#[source] pub io::Error);

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = &self.0;
        write!(
            formatter,
            "the log failed and is not trusted any more: {cause}"
        )
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl Commit {
    /// For a log that is written and synced up to these positions.
    pub(crate) fn new(
        written: Position,
        synced: Position,
        size: LogSize,
        now_raw: RawTime,
    ) -> Self {
        Self {
            written: CachePadded::new(AtomicU64::new(written.get())),
            synced: CachePadded::new(AtomicU64::new(synced.get())),
            counts: Mutex::default(),
            sync_ns: AtomicU64::new(0),
            syncs: SyncDurations::default(),
            last_sync_raw_ns: AtomicU64::new(now_raw.as_nanos()),
            syncs_running: AtomicUsize::new(0),
            device_since_raw_ns: std::array::from_fn(|_| AtomicU64::new(0)),
            needs_segment: AtomicBool::new(false),
            bytes_since_checkpoint: AtomicU64::new(size.since_checkpoint_bytes),
            total_bytes: AtomicU64::new(size.total_bytes),
            older_bytes: AtomicU64::new(size.older_bytes),
            failure: OnceLock::new(),
            progress: Notify::default(),
        }
    }

    /// Whether replies that wait for this may leave.
    pub(crate) fn is_met(&self, wait: DurabilityWait) -> bool {
        wait.written <= self.written() && wait.synced <= self.synced()
    }

    /// How many keys each database holds, as far as it may be revealed now, by a reply that waits
    /// for `owed` anyway. It waits for no write and no sync.
    pub fn counts_shown(&self, executor: &Executor, owed: DurabilityWait) -> Counts {
        let live = executor.sample();
        if self.is_met(live.wait.beyond(owed)) {
            return live.counts;
        }
        *self.counts().shown(|released| {
            let mut wait = released.wait;
            wait.raise(executor.reach(released.position));
            self.is_met(wait)
        })
    }

    fn counts(&self) -> MutexGuard<'_, DurableCounts> {
        self.counts
            .lock()
            .expect("no holder of the counts can panic")
    }

    /// Whether a sync, not only a write, is what `wait` lacks.
    pub(crate) fn lacks_sync(&self, wait: DurabilityWait) -> bool {
        wait.synced > self.synced()
    }

    /// Whether what `wait` lacks must not be put off.
    pub(crate) fn is_urgent(&self, wait: DurabilityWait) -> bool {
        wait.urgent > self.synced()
    }

    /// Whether a sync or a direct write runs now. Who begins another one waits for its end.
    pub(crate) fn is_syncing(&self) -> bool {
        self.syncs_running.load(Ordering::Acquire) > 0
    }

    /// Whether a write and a sync would hold up whoever does them: they are long, or one is under way.
    pub(crate) fn is_slow(&self) -> bool {
        self.takes_long() || self.is_syncing()
    }

    /// Whether syncs are too long for a thread that serves clients.
    pub(crate) fn takes_long(&self) -> bool {
        self.sync_ns() > INLINE_SYNC_NS_MAX
    }

    /// Work of the device begins; it ends with the result's end.
    pub(crate) fn begin(&self, now_raw: RawTime) -> RunningWork<'_> {
        let began_ns = now_raw.as_nanos().max(1);
        let note = |cell: &AtomicU64| {
            cell.compare_exchange(0, began_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        let cell = self.device_since_raw_ns.iter().position(note);
        self.syncs_running.fetch_add(1, Ordering::AcqRel);
        RunningWork { commit: self, cell }
    }

    /// How long the device has taken for what is under way; 0 where nothing is.
    pub fn device_wait_ns(&self, now_raw: RawTime) -> u64 {
        let waits_ns =
            self.device_since_raw_ns
                .iter()
                .map(|since| match since.load(Ordering::Relaxed) {
                    0 => 0,
                    since_ns => now_raw.as_nanos().saturating_sub(since_ns),
                });
        waits_ns.fold(0, u64::max)
    }

    /// Everything up to this position is written, and this is what it reveals.
    pub(crate) fn note_written(&self, position: Position, sample: &Sample) {
        let mut counts = self.counts();
        self.written.fetch_max(position.get(), Ordering::AcqRel);
        if self.is_met(sample.wait) {
            counts.note_released(sample);
        }
    }

    /// The log is so long now.
    pub(crate) fn note_size(&self, size: LogSize) {
        self.bytes_since_checkpoint
            .store(size.since_checkpoint_bytes, Ordering::Relaxed);
        self.total_bytes.store(size.total_bytes, Ordering::Relaxed);
        self.older_bytes.store(size.older_bytes, Ordering::Relaxed);
    }

    /// The log has no segment ahead.
    pub(crate) fn want_segment(&self) {
        self.needs_segment.store(true, Ordering::Release);
    }

    /// A sync has ended well.
    pub(crate) fn note_synced(&self, ended: Synced<'_>) {
        let took = ended.ended_raw.nanos_since(ended.began_raw);
        // Replies wait for both.
        let took = took.saturating_add(ended.write_ns);
        self.syncs.note(took);
        let smoothed = match self.sync_ns.load(Ordering::Relaxed) {
            0 => took,
            old => old - old / SMOOTHING + took / SMOOTHING,
        };
        self.sync_ns.store(smoothed, Ordering::Relaxed);
        self.last_sync_raw_ns
            .store(ended.ended_raw.as_nanos(), Ordering::Relaxed);
        {
            let mut counts = self.counts();
            debug_assert!(
                ended.position <= self.written(),
                "what is synced was written"
            );
            self.synced
                .fetch_max(ended.position.get(), Ordering::AcqRel);
            counts.note_synced(ended.sample);
            if self.is_met(ended.newest.wait) {
                counts.note_released(ended.newest);
            }
        }
        self.progress.notify_all();
    }

    /// Marks the log as failed and returns the first failure.
    pub fn fail(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        let failure = self.failure.get_or_init(|| Failure::new(error)).clone();
        self.progress.notify_all();
        failure
    }

    /// Resolves after the next sync, or when the log has failed, counted from this call: ask for
    /// it first and look at the position then.
    pub fn progress(&self) -> EventListener {
        self.progress.listen()
    }

    /// The failure, if there was one.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    /// Smoothed duration of a sync and the direct write before it, in nanoseconds; 0 before the first.
    pub(crate) fn sync_ns(&self) -> u64 {
        self.sync_ns.load(Ordering::Relaxed)
    }

    /// Raw-clock reading when the last sync ended, in nanoseconds.
    pub(crate) fn last_sync_raw(&self) -> RawTime {
        RawTime::from_nanos(self.last_sync_raw_ns.load(Ordering::Relaxed))
    }

    /// Position up to which the log is synced.
    pub fn synced(&self) -> Position {
        Position::from_raw(self.synced.load(Ordering::Acquire))
    }

    /// Position up to which the log is written.
    pub fn written(&self) -> Position {
        Position::from_raw(self.written.load(Ordering::Acquire))
    }

    /// How long the log is. Kept beside the writer, because the reader may hold the executor.
    pub fn size(&self) -> LogSize {
        LogSize {
            since_checkpoint_bytes: self.bytes_since_checkpoint.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            older_bytes: self.older_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether the log thread should make the next segment; asking withdraws the request.
    pub(crate) fn take_segment_request(&self) -> bool {
        self.needs_segment.swap(false, Ordering::AcqRel)
    }
}

/// A sync that runs, or a write past the page cache. Several may: of the log thread, of workers, and that of the end.
#[derive(Debug)]
#[must_use = "the work counts as running for as long as this lives"]
pub(crate) struct RunningWork<'a> {
    commit: &'a Commit,
    /// Where its beginning is noted. None where all cells are taken, by work that has begun earlier.
    cell: Option<usize>,
}

impl Drop for RunningWork<'_> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell {
            self.commit.device_since_raw_ns[cell].store(0, Ordering::Relaxed);
        }
        self.commit.syncs_running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Commit({} of {})", self.synced(), self.written())
    }
}

/// Up to this duration a worker syncs itself: handing over costs two wake-ups of 10 to 50 us
/// and splits closed-loop clients into two halves.
const INLINE_SYNC_NS_MAX: u64 = 600_000;

/// Work that overlaps and is noted for the metrics.
const DEVICE_WORK_NOTED_MAX: usize = 8;

/// One in so many of a new measurement enters the average.
const SMOOTHING: u64 = 8;
