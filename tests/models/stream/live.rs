//! A log that runs: the production code on a disk in memory, beside what is known to be true of it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quorlock_persistence::{
    Disk, FrameBatch, FrameKind, Log, LogIdentity, LogOptions, MemoryDisk, Recovery, SyncTicket,
};

use super::crash::power_loss;
use super::seam::{Seam, is_segment};
use super::{Flaw, Mutant, Size, Step};

/// What was appended, and what the log has said of it.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Truth {
    pub(crate) frames: Vec<Appended>,
    /// Handed to the system: survives the process.
    pub(crate) written: usize,
    /// Reported durable: survives everything.
    pub(crate) durable: usize,
    incarnation: u64,
    appended: u64,
    is_checkpoint_open: bool,
}

/// One frame as it was appended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Appended {
    pub(crate) payload: Vec<u8>,
    pub(crate) mark: Mark,
}

/// What the frame is to a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mark {
    Ordinary,
    Begin,
    End,
}

impl Truth {
    /// Where a replay of the first `last` frames has to begin.
    pub(crate) fn replay_begin(&self, last: usize) -> usize {
        let known = &self.frames[..last.min(self.frames.len())];
        let end = known.iter().rposition(|frame| frame.mark == Mark::End);
        let begin = end.and_then(|end| {
            known[..end]
                .iter()
                .rposition(|frame| frame.mark == Mark::Begin)
        });
        begin.map_or(1, |index| index + 1)
    }
}

/// The log of one process.
pub(crate) struct Live {
    pub(crate) disk: MemoryDisk,
    mutant: Mutant,
    log: Log,
    ticket: Option<SyncTicket>,
    /// The checkpoint was opened in a segment that this process has rotated to.
    is_begun_later: bool,
    pub(crate) truth: Truth,
}

impl Live {
    /// Opens what the disk holds, as a node does at its start.
    pub(crate) fn open(disk: MemoryDisk, mutant: Mutant, truth: Truth) -> Result<Live, Flaw> {
        let mut truth = truth;
        let seam = Arc::new(Seam::new(disk.clone(), mutant));
        let recovery =
            Recovery::read(seam, &options()).map_err(|error| Flaw::Refused(error.to_string()))?;
        let last = usize::try_from(recovery.summary().last.get()).unwrap_or(usize::MAX);
        truth.incarnation += 1;
        let identity = LogIdentity {
            node_id: [7; 20],
            boot_id: [1; 16],
            incarnation: truth.incarnation,
        };
        let log = recovery
            .into_log(identity)
            .map_err(|error| Flaw::Failed(error.to_string()))?;
        // What is not read back is gone; what is read back counts as durable from here on.
        truth.frames.truncate(last);
        truth.written = last;
        truth.durable = last;
        truth.is_checkpoint_open = false;
        Ok(Live {
            disk,
            mutant,
            log,
            ticket: None,
            is_begun_later: false,
            truth,
        })
    }

    /// Whether the step means anything now.
    pub(crate) fn allows(&self, step: Step) -> bool {
        match step {
            Step::End => self.truth.is_checkpoint_open,
            Step::Write => self.log.appender.next_position() > self.log.writer.written().next(),
            Step::BeginSync => self.ticket.is_none() && self.truth.written > self.truth.durable,
            Step::Sync => self.truth.written > self.truth.durable,
            Step::FinishSync => self.ticket.is_some(),
            Step::Prepare => self.log.preparer.needs_preparing(),
            Step::Append(_) | Step::Begin | Step::Die | Step::LosePower(_) => true,
        }
    }

    /// The disk that the next process finds if this step ends the present one; else the same disk.
    pub(crate) fn left_by(&self, step: Step) -> MemoryDisk {
        match step {
            Step::Die => self.disk.after_process_end(),
            Step::LosePower(survivors) => power_loss(&self.disk, survivors),
            _ => self.disk.clone(),
        }
    }

    /// Takes a step other than a crash.
    pub(crate) fn take(&mut self, step: Step) -> Result<(), Flaw> {
        let failed = |error: quorlock_persistence::WriteError| Flaw::Failed(error.to_string());
        match step {
            Step::Append(size) => self.append(FrameKind::new(1), Mark::Ordinary, size),
            Step::Begin => {
                self.append(FrameKind::checkpoint_begin(2), Mark::Begin, Size::Small);
                self.truth.is_checkpoint_open = true;
                self.is_begun_later = self.log.appender.rotations() > 0;
            }
            Step::End => {
                self.append(FrameKind::checkpoint_end(3), Mark::End, Size::Small);
                self.truth.is_checkpoint_open = false;
            }
            Step::Write => {
                let mut batch = self.log.appender.take(FrameBatch::default());
                let written = self.log.writer.write(&mut batch).map_err(failed)?;
                self.truth.written = index(written.get());
                self.remove_too_early();
            }
            Step::BeginSync => self.ticket = Some(self.log.writer.begin_sync()),
            Step::FinishSync => {
                if let Some(ticket) = self.ticket.take() {
                    self.finish(ticket).map_err(failed)?;
                }
            }
            Step::Sync => {
                let ticket = self.log.writer.begin_sync();
                self.finish(ticket).map_err(failed)?;
            }
            Step::Prepare => {
                self.log.preparer.prepare().map_err(failed)?;
            }
            Step::Die | Step::LosePower(_) => {}
        }
        Ok(())
    }

    /// What of the whole system decides how it goes on, as one number.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.truth.hash(&mut hasher);
        self.ticket
            .as_ref()
            .map(|ticket| ticket.target().get())
            .hash(&mut hasher);
        self.log.preparer.needs_preparing().hash(&mut hasher);
        self.log.writer.bytes_since_checkpoint().hash(&mut hasher);
        self.log.writer.total_bytes().hash(&mut hasher);
        contents(&self.disk).hash(&mut hasher);
        contents(&self.disk.after_power_loss(false, |_, _| false)).hash(&mut hasher);
        hasher.finish()
    }

    fn append(&mut self, kind: FrameKind, mark: Mark, size: Size) {
        self.truth.appended += 1;
        // No two frames are alike, also not those that follow a crash under the same position.
        let mut payload = vec![b'.'; size.bytes()];
        payload[..8].copy_from_slice(&self.truth.appended.to_le_bytes());
        self.log.appender.append(kind, 0, &payload);
        self.truth.frames.push(Appended { payload, mark });
    }

    fn finish(&mut self, ticket: SyncTicket) -> Result<(), quorlock_persistence::WriteError> {
        let position = match self.mutant {
            Mutant::SyncNotRun => ticket.target(),
            Mutant::ClaimTooEarly => {
                ticket.run()?;
                self.log.writer.written()
            }
            _ => ticket.run()?,
        };
        self.log.writer.finish_sync(position);
        self.truth.durable = self.truth.durable.max(index(position.get()));
        Ok(())
    }

    /// A mutant removes what a checkpoint replaces before its end is durable.
    fn remove_too_early(&self) {
        let last = &self.truth.frames[..self.truth.written];
        let has_ended = last.last().is_some_and(|frame| frame.mark == Mark::End);
        let is_due = has_ended && self.is_begun_later;
        if self.mutant != Mutant::RemovedBeforeEnd || !is_due {
            return;
        }
        let entries = self.disk.list().unwrap_or_default().into_iter();
        let mut names: Vec<_> = entries.map(|entry| entry.name).collect();
        names.retain(|name| is_segment(name));
        names.sort();
        if names.len() > 1 {
            let _gone = self.disk.remove(&names[0]);
            let _synced = self.disk.sync_dir();
        }
    }
}

/// Segments of two blocks, so that few frames fill one.
pub(crate) fn options() -> LogOptions {
    LogOptions {
        first_segment_bytes: 0,
        segment_bytes: 0,
        frame_bytes_max: 4_000,
        reserve_bytes: 0,
        allows_direct: true,
        writes_direct: false,
        expected_node: None,
    }
}

/// All files with their bytes.
pub(crate) fn contents(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.list().unwrap_or_default().into_iter();
    let read = |name: String| {
        let file = disk.open(&name).ok()?;
        let mut bytes = vec![0; usize::try_from(file.len().ok()?).ok()?];
        file.read_at(0, &mut bytes).ok()?;
        Some((name, bytes))
    };
    names.filter_map(|entry| read(entry.name)).collect()
}

fn index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}
