//! The writing half of the log, carried out: writes and syncs, and tells [`Commit`] how far it came.
//!
//! Shared by the workers and the log thread. Lock order: the writer first, then the executor (briefly, to
//! take what was appended). A sync runs without either, so that writing goes on beside it.

use std::sync::Arc;

use quorlock_persistence::{FrameBatch, Position, SyncTicket, Writer};

use crate::clock::Clock;
use crate::core::commit::{Commit, Failure, Synced};
use crate::core::durable_counts::Sample;
use crate::core::executor::Executor;
use crate::core::latency::{LatencyEvent, LatencyMonitor};
use crate::core::rewrites::LogSize;
use crate::past::Belongings;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use quorlock_engine::RawTime;

/// Writes and syncs one node's log.
pub struct LogWriter {
    clock: Arc<dyn Clock>,
    commit: Arc<Commit>,
    latency: Arc<LatencyMonitor>,
    writing: Mutex<Writing>,
    /// What the directory has to keep for as long as the node runs; none while it starts or ends.
    belongings: Mutex<Option<Belongings>>,
    /// When they were last looked at, in nanoseconds of the raw clock.
    checked_raw_ns: AtomicU64,
}

struct Writing {
    writer: Writer,
    spare: FrameBatch,
    /// The databases behind the last batch that was written.
    newest: Sample,
    /// How long the last write for a commit has taken, if it waited for the device and no sync was begun since.
    write_ns: u64,
}

/// A sync that has ended well, and that nobody was told of.
#[derive(Debug)]
#[must_use = "nobody was told of it"]
pub struct EndedSync {
    position: Position,
    sample: Sample,
    write_ns: u64,
    began_raw: RawTime,
    ended_raw: RawTime,
}

/// A sync that was begun.
#[derive(Debug)]
#[must_use = "nothing is synced until it is finished"]
pub struct Syncing {
    ticket: SyncTicket,
    /// The databases behind what it syncs.
    sample: Sample,
    /// How long the write before it has waited for the device.
    write_ns: u64,
}

impl LogWriter {
    /// Goes on where recovery has ended; returns the state of the log's commits beside it.
    pub(crate) fn new(
        writer: Writer,
        (clock, now_raw): (Arc<dyn Clock>, RawTime),
        latency: Arc<LatencyMonitor>,
    ) -> (Self, Arc<Commit>) {
        let commit = Arc::new(Commit::new(
            writer.written(),
            writer.durable(),
            size(&writer),
            now_raw,
        ));
        let log_writer = Self {
            clock,
            commit: Arc::clone(&commit),
            latency,
            writing: Mutex::new(Writing {
                writer,
                spare: FrameBatch::default(),
                newest: Sample::default(),
                write_ns: 0,
            }),
            belongings: Mutex::new(None),
            checked_raw_ns: AtomicU64::new(0),
        };
        (log_writer, commit)
    }

    /// Writes everything appended so far. How long that takes says nothing about commits: part of a checkpoint, say.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub fn write(&self, executor: &Mutex<Executor>) -> Result<(), Failure> {
        let mut writing = self.lock()?;
        self.write_batch(&mut writing, executor).map(drop)
    }

    /// The same for replies that wait for it. If it waits for the device, its duration counts with that of the next
    /// sync, unless it began a segment: that may have had to be made first.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub(crate) fn write_for_commit(&self, executor: &Mutex<Executor>) -> Result<(), Failure> {
        let mut writing = self.lock()?;
        let segment = writing.writer.segment();
        let waited_ns = self.write_batch(&mut writing, executor)?;
        if writing.writer.segment() == segment {
            writing.write_ns = waited_ns.unwrap_or(writing.write_ns);
        }
        Ok(())
    }

    /// Returns how long it has waited for the device, if it did.
    fn write_batch(
        &self,
        writing: &mut Writing,
        executor: &Mutex<Executor>,
    ) -> Result<Option<u64>, Failure> {
        let spare = std::mem::take(&mut writing.spare);
        let (mut batch, sample) = match executor.lock() {
            Ok(mut executor) => executor.take(spare),
            Err(_) => {
                let why = "a thread panicked while it held the engine";
                return Err(self.commit.fail(why));
            }
        };
        let has_frames = !batch.is_empty();
        let (result, waited_ns) = match writing.writer.writes_direct() {
            // It may take as long as a sync, and under a lock.
            true => {
                let work = || writing.writer.write(&mut batch);
                let (result, began_raw, ended_raw) = self.on_device(work);
                let took_ns = ended_raw.nanos_since(began_raw);
                if has_frames {
                    self.latency.note(LatencyEvent::Write, took_ns, ended_raw);
                }
                (result, has_frames.then_some(took_ns))
            }
            false => (writing.writer.write(&mut batch), None),
        };
        writing.spare = batch;
        let written = result.map_err(|error| self.commit.fail(error))?;
        writing.newest = sample;
        self.commit.note_written(written, &sample);
        self.commit.note_size(size(&writing.writer));
        if writing.writer.needs_preparing() {
            self.commit.want_segment();
        }
        Ok(waited_ns)
    }

    /// Writes and syncs everything appended so far, on this thread.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub(crate) fn write_and_sync(&self, executor: &Mutex<Executor>) -> Result<(), Failure> {
        self.write_for_commit(executor)?;
        match self.begin_sync()? {
            Some(syncing) => self.publish(self.run_sync(syncing)?),
            None => Ok(()),
        }
    }

    /// Starts a sync of what is written; `None` when all of it is synced. It runs
    /// without a lock, so that writing goes on beside it.
    ///
    /// # Errors
    /// When the log failed before.
    pub fn begin_sync(&self) -> Result<Option<Syncing>, Failure> {
        let mut writing = self.lock()?;
        if self.commit.synced() >= self.commit.written() {
            return Ok(None);
        }
        Ok(Some(Syncing {
            ticket: writing.writer.begin_sync(),
            sample: writing.newest,
            write_ns: std::mem::take(&mut writing.write_ns),
        }))
    }

    /// Runs a sync.
    ///
    /// # Errors
    /// When the sync failed: the log is then finished.
    pub fn run_sync(&self, syncing: Syncing) -> Result<EndedSync, Failure> {
        let Syncing {
            ticket,
            sample,
            write_ns,
        } = syncing;
        let (ran, began_raw, ended_raw) = self.on_device(|| ticket.run());
        let position = ran.map_err(|error| self.commit.fail(error))?;
        let took_ns = ended_raw.nanos_since(began_raw);
        self.latency.note_sync(took_ns, ended_raw);
        self.look_at_directory(ended_raw)?;
        Ok(EndedSync {
            position,
            sample,
            write_ns,
            began_raw,
            ended_raw,
        })
    }

    /// Does what waits for the device; returns when that began and ended beside its result. It is measured where it is
    /// done: who asked for it has waited for locks as well.
    fn on_device<T>(&self, work: impl FnOnce() -> T) -> (T, RawTime, RawTime) {
        let began_raw = self.clock.raw();
        let running = self.commit.begin(began_raw);
        let result = work();
        drop(running);
        (result, began_raw, self.clock.raw())
    }

    /// From now on syncs fail where one of these was replaced. With `None` none is missed once this returns: a node that
    /// ends changes them itself.
    pub fn watch(&self, belongings: Option<Belongings>) {
        // A thread that panicked while it looked ends the node.
        if let Ok(mut watched) = self.belongings.lock() {
            *watched = belongings;
        }
    }

    /// Looks once a second: what is synced into a directory that is another one's meanwhile, or behind a segment that is
    /// gone, must not be acknowledged.
    fn look_at_directory(&self, now_raw: RawTime) -> Result<(), Failure> {
        let now_ns = now_raw.as_nanos();
        let checked_ns = self.checked_raw_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(checked_ns) < CHECK_EVERY_NS {
            return Ok(());
        }
        match self.belongings.lock().as_deref() {
            Ok(Some(belongings)) => belongings
                .check()
                .map_err(|error| self.commit.fail(error))?,
            _ => return Ok(()),
        }
        self.checked_raw_ns.store(now_ns, Ordering::Relaxed);
        let look = self.lock()?.writer.begin_look();
        look.run().map_err(|error| self.commit.fail(error))
    }

    /// Tells everybody how far a sync came.
    ///
    /// # Errors
    /// When the log failed meanwhile.
    pub(crate) fn publish(&self, ended: EndedSync) -> Result<(), Failure> {
        let newest = {
            let mut writing = self.lock()?;
            writing.writer.finish_sync(ended.position);
            // A checkpoint that is complete has made segments obsolete.
            self.commit.note_size(size(&writing.writer));
            writing.newest
        };
        self.commit.note_synced(Synced {
            began_raw: ended.began_raw,
            ended_raw: ended.ended_raw,
            write_ns: ended.write_ns,
            position: ended.position,
            sample: &ended.sample,
            newest: &newest,
        });
        Ok(())
    }

    fn lock(&self) -> Result<MutexGuard<'_, Writing>, Failure> {
        if let Some(failure) = self.commit.failure() {
            return Err(failure.clone());
        }
        self.writing
            .lock()
            .map_err(|_| self.commit.fail("a thread panicked while writing it"))
    }
}

fn size(writer: &Writer) -> LogSize {
    LogSize {
        since_checkpoint_bytes: writer.bytes_since_checkpoint(),
        total_bytes: writer.total_bytes(),
        older_bytes: writer.older_bytes(),
    }
}

const CHECK_EVERY_NS: u64 = 1_000_000_000;
