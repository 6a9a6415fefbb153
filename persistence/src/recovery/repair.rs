//! Cutting a log that a start refuses, at the operator's word.
//!
//! Invariant: nothing is invented. What is kept is a prefix of what was appended, as long as it can be proven to be
//! one; what is cut off stays in a folder of its own, and no position is ever used a second time. The new segment
//! is the moment at which the repair happens: it comes into being whole, with the frame that tells of the
//! loss, and before it nothing of the log was changed.

use super::chain::{chain_from_checkpoint, continues};
use super::directory::{self, Directory, State};
use super::reopen::{clear_unused, sync_what_was_read};
use super::rewrite;
use super::scan::{Scan, is_zero};
use crate::disk::Disk;
use crate::error::{DiskError, RecoveryError, WriteError};
use crate::frame::{self, Frame, Salt};
use crate::header::{self, Header};
use crate::options::{Identity, Options};
use crate::position::{Kind, Position};
use crate::segment_name::{self, Name};
use crate::space;
use std::collections::VecDeque;
use std::sync::Arc;

/// A repair that could be made. Nothing is changed before `commit`.
#[derive(Debug)]
pub struct Repair {
    disk: Arc<dyn Disk>,
    directory: Directory,
    /// The kept part of the stream.
    run: Vec<Scan>,
    start_offset: usize,
    unusable: Vec<String>,
    /// The largest number of any file, usable or not.
    newest_number: u64,
    seen: Seen,
}

/// The largest of everything that could be read anywhere, also behind damage.
#[derive(Clone, Copy, Debug)]
struct Seen {
    position: Position,
    identity: Option<Identity>,
    node_time_ns: u64,
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
    pub fn plan(disk: Arc<dyn Disk>, options: &Options) -> Result<Repair, RecoveryError> {
        let options = options.in_blocks();
        let (directory, unusable) = Directory::read_what_is_usable(&*disk, &options)?;
        let numbers = directory
            .segments
            .keys()
            .chain(&directory.unfinished)
            .copied();
        let unusable_numbers = unusable.iter().map(|name| number_of(name));
        let newest_number = numbers.chain(unusable_numbers).max().unwrap_or(0);
        let mut repair = Repair {
            disk,
            directory,
            run: Vec::new(),
            start_offset: 0,
            unusable,
            newest_number,
            seen: Seen {
                position: Position::ZERO,
                identity: None,
                node_time_ns: 0,
            },
        };
        repair.find_what_was_seen()?;
        repair.find_what_is_kept()?;
        Ok(repair)
    }

    /// The frames that are kept, from the last complete checkpoint among them, or from the beginning.
    pub fn frames(&self) -> super::Frames<'_> {
        super::Frames::new(&self.run, self.start_offset)
    }

    /// The last position that is kept, the file in which it lies, and the offset behind it.
    pub fn cut(&self) -> Option<(Position, String, u64)> {
        let last = self.run.last()?;
        let file = segment_name::segment(last.header.number);
        Some((last.last(), self.disk.describe(&file), last.end() as u64))
    }

    /// The largest node time of any frame that can be read, in nanoseconds.
    pub fn newest_node_time_ns(&self) -> u64 {
        self.seen.node_time_ns
    }

    /// The identity in the newest header that can be read.
    pub fn newest_identity(&self) -> Option<Identity> {
        self.seen.identity
    }

    /// The directory, for people.
    pub fn describe(&self) -> String {
        self.disk.describe("")
    }

    /// The largest number of any segment, readable or not. Each start begins a segment, so no incarnation was
    /// ever larger.
    pub fn newest_number(&self) -> u64 {
        self.newest_number
    }

    /// Every whole frame anywhere in the directory, also behind damage and in what is left out.
    ///
    /// # Errors
    /// If a file cannot be read any more.
    pub fn visit(&self, mut visit: impl FnMut(&Frame<'_>)) -> Result<(), RecoveryError> {
        for &number in self.directory.segments.keys() {
            let Some(scan) = self.scan(number, None)? else {
                continue;
            };
            let mut offset = scan.begin();
            while let Some(parsed) = scan.frame_at(offset) {
                visit(&parsed.frame);
                offset = offset.saturating_add(parsed.bytes);
            }
            scan.visit_behind_end(|parsed, _| visit(&parsed.frame));
        }
        Ok(())
    }

    /// The names of the files that are moved into the folder.
    pub fn set_aside(&self) -> Vec<String> {
        let mut names = self.unusable.clone();
        let kept = self.run.last().map_or(0, |last| last.header.number);
        for (&number, segment) in &self.directory.segments {
            if number > kept && segment.state != State::Blank {
                names.push(segment_name::segment(number));
            }
        }
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
        identity: Identity,
        kind: Kind,
        node_time_ns: u64,
        payload: &[u8],
    ) -> Result<Repaired, WriteError> {
        let number = self.newest_number.saturating_add(1);
        let folder = format!("repair-{number:010}");
        let disk = Arc::clone(&self.disk);
        let failed = |operation: &'static str, name: &str| {
            let file = disk.describe(name);
            move |cause| WriteError::Segment(DiskError::new(operation, file, cause))
        };
        let set_aside = self.set_aside();
        disk.make_folder(&folder).map_err(failed("make", &folder))?;
        if let Some(last) = self.run.last() {
            let name = segment_name::segment(last.header.number);
            copy(&*disk, &format!("{folder}/{name}"), last.bytes())
                .map_err(failed("copy", &name))?;
        }
        disk.sync_folder(&folder).map_err(failed("sync", &folder))?;

        let kept = self.run.last().map_or(Position::ZERO, Scan::last);
        let end_of = |scan: &Scan| (scan.header.number, scan.end() as u64);
        let end = self.run.last().map_or((0, 0), end_of);
        self.make_durable()?;
        let position = beyond(self.seen.position);
        let salt = disk.random().map_err(failed("salt", &folder))?;
        let mut start = vec![0; header::BLOCK];
        frame::encode(&mut start, position, kind, node_time_ns, payload);
        frame::seal(&mut start[header::BLOCK..], Salt::new(salt), kept);
        let length = (start.len() as u64).next_multiple_of(header::BLOCK_BYTES);
        let header = Header {
            version: header::NEWEST,
            is_repaired: true,
            identity,
            number,
            segment_bytes: length,
            salt,
            previous_number: end.0,
            previous_cut: end.1,
            first_position: position,
            durable: kept,
        };
        start[..header::COPIES_BYTES].copy_from_slice(&header.encode());
        space::make_segment(&*disk, number, length, &start).map_err(|error| {
            if error.is_no_space() {
                WriteError::NoSpace(error)
            } else {
                WriteError::Segment(error)
            }
        })?;

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

    /// What is kept must be durable before anything says so.
    fn make_durable(&mut self) -> Result<(), WriteError> {
        let uncovered = rewrite::uncovered(&self.run);
        let numbers: Vec<u64> = self.run.iter().map(|scan| scan.header.number).collect();
        self.run.clear();
        rewrite::rewrite(&*self.disk, &self.directory, &uncovered)?;
        sync_what_was_read(&*self.disk, &self.directory, &numbers)
    }

    fn find_what_was_seen(&mut self) -> Result<(), RecoveryError> {
        let mut seen = self.seen;
        for segment in self.directory.segments.values() {
            if let Some(header) = segment.header() {
                let before = Position::from_raw(header.first_position.get().saturating_sub(1));
                seen.position = seen.position.max(before).max(header.durable);
                seen.identity = Some(header.identity);
            }
        }
        self.visit(|frame| {
            seen.position = seen.position.max(frame.position);
            seen.node_time_ns = seen.node_time_ns.max(frame.node_time_ns);
        })?;
        self.seen = seen;
        Ok(())
    }

    /// Walks back from the newest segment. Where the stream is broken, what comes after is left out and the walk
    /// begins anew with what comes before.
    fn find_what_is_kept(&mut self) -> Result<(), RecoveryError> {
        let mut run: VecDeque<Scan> = VecDeque::new();
        let mut older = self.older_than(u64::MAX)?;
        loop {
            if run.is_empty() {
                match older.take() {
                    Some(scan) => run.push_front(scan),
                    None => return Ok(()),
                }
            }
            if let Some(chain) = chain_from_checkpoint(&mut run) {
                (self.run, self.start_offset) = (chain.run, chain.start_offset);
                return Ok(());
            }
            let (header, begin) = (run[0].header, run[0].begin());
            let previous = header.previous_number;
            if previous == 0 && continues(&header, Position::ZERO.next()) {
                self.start_offset = begin;
                self.run = run.into();
                return Ok(());
            }
            match self.scan(previous, Some(&header))? {
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
        for &older in self
            .directory
            .segments
            .range(..number)
            .rev()
            .map(|(older, _)| older)
        {
            if let Some(scan) = self.scan(older, None)? {
                let is_end = number == u64::MAX && self.is_only_followed_by_zeros(older)?;
                return Ok(Some(if is_end {
                    scan
                } else {
                    scan.cut_at_own_claim()
                }));
            }
        }
        Ok(None)
    }

    fn is_only_followed_by_zeros(&self, number: u64) -> Result<bool, RecoveryError> {
        let mut next = number;
        for (&newer, segment) in self.directory.segments.range(number.saturating_add(1)..) {
            next = next.saturating_add(1);
            let is_ahead = newer == next && segment.state == State::Blank;
            if !is_ahead || !is_zero(&self.map(newer)?) {
                return Ok(false);
            }
        }
        Ok(self.unusable.iter().all(|name| number_of(name) < number))
    }

    /// Reads a segment that has a header; `None` if it has none or is not there.
    fn scan(&self, number: u64, next: Option<&Header>) -> Result<Option<Scan>, RecoveryError> {
        let segment = self.directory.segments.get(&number);
        let Some(header) = segment.and_then(directory::Segment::header) else {
            return Ok(None);
        };
        let cut = next.map(|next| next.previous_cut);
        Ok(Some(Scan::read(*header, self.map(number)?, cut)))
    }

    fn map(&self, number: u64) -> Result<crate::disk::Mapping, DiskError> {
        super::chain::map(&*self.disk, number, &self.directory.segments[&number])
    }
}

fn number_of(name: &str) -> u64 {
    match segment_name::parse(name) {
        Name::Segment(number) => number,
        _ => 0,
    }
}

/// The first position after a repair: beyond everything that was ever used, also by what cannot be read any more.
fn beyond(seen: Position) -> Position {
    let steps = (seen.get() / POSITIONS_PER_REPAIR).saturating_add(1);
    Position::from_raw(steps.saturating_mul(POSITIONS_PER_REPAIR))
}

fn copy(disk: &dyn Disk, to: &str, bytes: &[u8]) -> std::io::Result<()> {
    // A repair that was cut off may have left half a copy. Where it cannot go, no new one can be made.
    let _ = disk.remove(to);
    let file = disk.create(to)?;
    for (chunk, offset) in bytes.chunks(COPY_BYTES).zip((0..).step_by(COPY_BYTES)) {
        file.write_at(offset, chunk)?;
    }
    file.sync()
}

/// More than the frames of all segments that can be missing or unreadable.
const POSITIONS_PER_REPAIR: u64 = 1 << 32;
const COPY_BYTES: usize = 1 << 20;
