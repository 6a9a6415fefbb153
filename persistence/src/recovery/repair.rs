//! Cutting a log that a start refuses, when the operator asks for it.
//!
//! Invariant: nothing is invented. What is kept is a prefix of what was appended, as long as it can be proven to be
//! one; what is cut off stays in a folder of its own, and no position is ever used a second time. The new segment
//! is the moment at which the repair happens: it comes into being whole, with the frame that tells of the
//! loss, and before it nothing of the log was changed.

use super::chain::{Chain, Frames, continues};
use super::directory::{LogDirectory, Segment, SegmentState};
use super::reopen::{clear_unused, make_durable};
use super::scan::Scan;
use super::window::Window;
use crate::disk::Disk;
use crate::error::{DiskError, RecoveryError, WriteError};
use crate::frame::{self, Frame, Salt};
use crate::header::{self, LogIdentity, SegmentHeader};
use crate::options::LogOptions;
use crate::position::{FrameKind, Position};
use crate::space;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A repair that could be made. Nothing is changed before `commit`.
#[derive(Debug)]
pub struct Repair {
    disk: Arc<dyn Disk>,
    directory: LogDirectory,
    /// The kept part of the stream.
    kept: Chain,
    highest: Highest,
}

/// The largest of everything that could be read anywhere, also behind damage.
#[derive(Clone, Copy, Debug, Default)]
struct Highest {
    position: Position,
    identity: Option<LogIdentity>,
    node_time_ns: u64,
}

/// Where a log is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairCut {
    /// The last position that is kept.
    pub position: Position,
    /// The file in which it lies.
    pub file: String,
    /// The offset behind it.
    pub offset: u64,
}

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The folder in which everything lies that was cut off.
    pub folder: String,
    /// The last position that was kept; `ZERO` if nothing was.
    pub kept: Position,
    /// The position of the frame that tells of the loss.
    pub position: Position,
}

impl Repair {
    /// Finds what can be kept. Changes nothing.
    ///
    /// # Errors
    /// If the log is of a newer version or of another node, which is no damage, or cannot be read at all.
    pub fn plan(disk: Arc<dyn Disk>, options: &LogOptions) -> Result<Repair, RecoveryError> {
        let directory = LogDirectory::read_what_is_usable(&*disk, &options.in_blocks())?;
        let mut repair = Repair {
            disk,
            directory,
            kept: Chain::default(),
            highest: Highest::default(),
        };
        repair.highest = repair.find_highest()?;
        repair.kept = repair.find_what_is_kept()?;
        Ok(repair)
    }

    /// The frames that are kept, from the last complete checkpoint among them, or from the beginning.
    pub fn frames(&self) -> Frames<'_> {
        self.kept.frames(&*self.disk, &self.directory)
    }

    /// Where the log is cut; `None` if nothing is kept.
    pub fn cut(&self) -> Option<RepairCut> {
        let end = (!self.kept.run.is_empty()).then(|| self.kept.end())?;
        Some(RepairCut {
            position: self.kept.last(),
            file: self.disk.describe(&self.directory.name_of(end.segment)),
            offset: end.offset,
        })
    }

    /// The largest node time of any frame that can be read, in nanoseconds.
    pub fn newest_node_time_ns(&self) -> u64 {
        self.highest.node_time_ns
    }

    /// The identity in the newest header that can be read.
    pub fn newest_identity(&self) -> Option<LogIdentity> {
        self.highest.identity
    }

    /// The directory, for people.
    pub fn describe(&self) -> String {
        self.disk.describe("")
    }

    /// The largest number of any segment, readable or not.
    pub fn newest_number(&self) -> u64 {
        self.directory.newest_number()
    }

    /// Every whole frame anywhere in the directory, also behind damage and in what is left out.
    ///
    /// # Errors
    /// If a file cannot be read any more.
    pub fn visit(&self, mut visit: impl FnMut(&Frame<'_>)) -> Result<(), RecoveryError> {
        for &number in self.directory.segments.keys() {
            let Some((scan, mut window)) = self.scan(number, None)? else {
                continue;
            };
            let mut visit_all = || {
                let mut offset = scan.begin();
                while let Some(parsed) = scan.frame_at(&mut window, offset)? {
                    visit(&parsed.frame);
                    offset = offset.saturating_add(parsed.bytes);
                }
                scan.visit_behind_end(&mut window, |parsed, _| visit(&parsed.frame))
            };
            visit_all().map_err(DiskError::at(
                &*self.disk,
                "read",
                &self.directory.name_of(number),
            ))?;
        }
        Ok(())
    }

    /// The names of the files that are moved into the folder.
    pub fn set_aside(&self) -> Vec<String> {
        let kept = self.kept.end().segment;
        let segments = self.directory.segments.iter();
        let left_out = segments
            .filter(|(number, segment)| **number > kept && segment.state != SegmentState::Blank);
        let left_out = left_out.map(|(_, segment)| segment.name.clone());
        let unusable = self.directory.unusable.iter().map(|file| file.name.clone());
        let mut names: Vec<_> = unusable.chain(left_out).collect();
        names.sort();
        names
    }

    /// Cuts the log: makes durable what is kept, copies the segment in which the cut lies, begins a new segment with
    /// the frame that tells of the loss, and then moves what is left out into a folder.
    ///
    /// # Errors
    /// The first that comes up. Before the new segment has its name the log is as it was; after that,
    /// the repair counts, and another one finishes what is left to move.
    pub fn commit(
        mut self,
        identity: LogIdentity,
        kind: FrameKind,
        node_time_ns: u64,
        payload: &[u8],
    ) -> Result<Repaired, WriteError> {
        let number = self.newest_number().saturating_add(1);
        let folder = format!("repair-{number:010}");
        let disk = Arc::clone(&self.disk);
        let failed = |operation: &'static str, name: &str| {
            let name = name.to_owned();
            let disk = &*disk;
            move |cause| WriteError::Segment(DiskError::at(disk, operation, &name)(cause))
        };
        let set_aside = self.set_aside();
        disk.make_folder(&folder).map_err(failed("make", &folder))?;
        if let Some(last) = self.kept.run.last() {
            let number = last.header.number;
            let name = self.directory.name_of(number);
            let segment = &self.directory.segments[&number];
            let to = format!("{folder}/{name}");
            copy(&*disk, segment, &to).map_err(failed("copy", &name))?;
        }
        disk.sync_folder(&folder).map_err(failed("sync", &folder))?;

        let (end, kept) = (self.kept.end(), self.kept.last());
        // What is kept must be durable before anything says so.
        make_durable(&*disk, &self.directory, &self.kept)?;
        let position = beyond(self.highest.position);
        let salt = disk.random().map_err(failed("salt", &folder))?;
        let mut start = vec![0; header::BLOCK];
        frame::encode(&mut start, position, kind, node_time_ns, payload);
        frame::seal(&mut start[header::BLOCK..], Salt::new(salt), kept);
        let length = (start.len() as u64).next_multiple_of(header::BLOCK_BYTES);
        let header = SegmentHeader {
            version: header::NEWEST,
            is_repaired: true,
            identity,
            number,
            segment_bytes: length,
            salt,
            previous: end,
            first_position: position,
            durable: kept,
        };
        start[..header::BLOCK].copy_from_slice(&header.encode());
        space::make_segment(&*disk, number, length, &start, false)
            .map_err(|error| WriteError::full_or(error, WriteError::Segment))?;

        // The cut counts from here on; before, a start would have taken what is kept for all there was.
        for name in &set_aside {
            let to = format!("{folder}/{name}");
            disk.rename(name, &to).map_err(failed("set aside", name))?;
            self.directory.forget(name);
        }
        disk.sync_folder(&folder).map_err(failed("sync", &folder))?;
        disk.sync_dir().map_err(failed("sync", ""))?;
        clear_unused(&*disk, &mut self.directory)?;
        Ok(Repaired {
            folder: disk.describe(&folder),
            kept,
            position,
        })
    }

    fn find_highest(&self) -> Result<Highest, RecoveryError> {
        let mut highest = Highest::default();
        for header in self.directory.segments.values().filter_map(Segment::header) {
            let before = header.first_position.previous();
            highest.position = highest.position.max(before).max(header.durable);
            highest.identity = Some(header.identity);
        }
        self.visit(|frame| {
            highest.position = highest.position.max(frame.position);
            highest.node_time_ns = highest.node_time_ns.max(frame.node_time_ns);
        })?;
        Ok(highest)
    }

    /// Walks back from the newest segment. Where the stream is broken, what comes after is left out and the walk
    /// begins anew with what comes before.
    fn find_what_is_kept(&self) -> Result<Chain, RecoveryError> {
        let mut run: VecDeque<Scan> = VecDeque::new();
        let mut older = self.older_than(u64::MAX)?;
        loop {
            if run.is_empty() {
                match older.take() {
                    Some(scan) => run.push_front(scan),
                    None => return Ok(Chain::default()),
                }
            }
            if let Some(chain) = Chain::from_checkpoint(&mut run) {
                return Ok(chain);
            }
            let header = run[0].header;
            let previous = header.previous.segment;
            if previous == 0 && continues(&header, Position::ZERO.next()) {
                return Ok(Chain::from_beginning(run));
            }
            match self.scan(previous, Some(&header))?.map(|(scan, _)| scan) {
                // Whole up to the cut that the newer segment tells of, and that one goes on from there.
                Some(scan) if scan.flaw.is_none() && continues(&header, scan.next()) => {
                    run.push_front(scan);
                }
                // The cut lies behind the break, so what is whole before the break is in the stream.
                Some(scan) => run = VecDeque::from([scan]),
                None => {
                    run.clear();
                    older = self.older_than(header.number)?;
                }
            }
        }
    }

    /// The newest segment before this one that can be read. Whether the one after it cut it short is not
    /// known, unless there never was one; so it is taken as far as it says itself that it was durable, for what
    /// was durable was never cut.
    fn older_than(&self, number: u64) -> Result<Option<Scan>, RecoveryError> {
        for (&older, _) in self.directory.segments.range(..number).rev() {
            if let Some((scan, mut window)) = self.scan(older, None)? {
                if number == u64::MAX && self.is_only_followed_by_zeros(older)? {
                    return Ok(Some(scan));
                }
                let cut = scan.cut_at_own_claim(&mut window);
                let name = self.directory.name_of(older);
                let cut = cut.map_err(DiskError::at(&*self.disk, "read", &name))?;
                return Ok(Some(cut));
            }
        }
        Ok(None)
    }

    fn is_only_followed_by_zeros(&self, number: u64) -> Result<bool, RecoveryError> {
        let mut next = number;
        for (&newer, segment) in self.directory.segments.range(number.saturating_add(1)..) {
            next = next.saturating_add(1);
            let is_ahead = newer == next && segment.state == SegmentState::Blank;
            if !is_ahead || !self.directory.is_blank(&*self.disk, newer)? {
                return Ok(false);
            }
        }
        let unusable = &self.directory.unusable;
        Ok(unusable.iter().all(|file| file.number < number))
    }

    /// Reads a segment that has a header; `None` if it has none or is not there.
    fn scan(
        &self,
        number: u64,
        next: Option<&SegmentHeader>,
    ) -> Result<Option<(Scan, Window<'_>)>, RecoveryError> {
        let segment = self.directory.segments.get(&number);
        let Some(header) = segment.and_then(Segment::header) else {
            return Ok(None);
        };
        let cut = next.map(|next| next.previous.offset);
        let scanned = self.directory.window(number).and_then(|mut window| {
            let scan = Scan::read(*header, &mut window, cut)?;
            Ok((scan, window))
        });
        let name = self.directory.name_of(number);
        let scanned = scanned.map_err(DiskError::at(&*self.disk, "read", &name))?;
        Ok(Some(scanned))
    }
}

/// The first position after a repair: beyond everything that was ever used, also by what cannot be read any more.
fn beyond(seen: Position) -> Position {
    let steps = (seen.get() / POSITIONS_PER_REPAIR).saturating_add(1);
    Position::from_raw(steps.saturating_mul(POSITIONS_PER_REPAIR))
}

fn copy(disk: &dyn Disk, segment: &Segment, to: &str) -> io::Result<()> {
    // A repair that was cut off may have left half a copy. Where it cannot go, no new one can be made.
    let _ = disk.remove(to);
    let file = disk.create(to)?;
    let mut window = Window::of(&*segment.file, segment.length)?;
    let mut offset = 0;
    while offset < window.length() {
        let bytes = window.bytes(offset, offset.saturating_add(1))?;
        file.write_at(offset as u64, bytes)?;
        offset = offset.saturating_add(bytes.len());
    }
    file.sync()
}

/// More than the frames of all segments that can be missing or unreadable.
const POSITIONS_PER_REPAIR: u64 = 1 << 32;
