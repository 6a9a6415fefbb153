//! Which segments make up the stream, and whether what is missing may be missing.
//!
//! Invariant: each header names the segment before it and where that one ends. The stream is read backwards
//! along these names, from the newest segment to the last complete checkpoint or the very beginning. Where
//! it is broken, what came after the break is left out, unless it claims that the lost part was durable.

use super::chain::{Break, Chain, continues};
use super::directory::{LogDirectory, damaged};
use super::scan::{Claim, Scan, larger};
use crate::disk::Disk;
use crate::error::{DiskError, RecoveryError};
use crate::header::SegmentHeader;
use crate::position::Position;
use crate::segment_name;
use std::collections::VecDeque;

/// Assembles the stream from the segments of a directory.
pub(super) fn assemble(disk: &dyn Disk, directory: &LogDirectory) -> Result<Chain, RecoveryError> {
    let mut assembly = Assembly {
        disk,
        directory,
        break_at: None,
        claim: None,
    };
    assembly.look_at_unused()?;
    let mut newest = directory.newest_used();
    let mut chain = Chain::default();
    while let Some(number) = newest {
        match assembly.run_ending_with(number)? {
            WalkEnd::Complete(complete) => {
                chain = complete;
                break;
            }
            WalkEnd::BrokenBefore(number) => newest = assembly.used_up_to(number),
        }
    }
    assembly.refuse_if_durable(chain.last())?;
    chain.break_at = assembly.break_at;
    Ok(chain)
}

struct Assembly<'a> {
    disk: &'a dyn Disk,
    directory: &'a LogDirectory,
    /// The earliest break found so far.
    break_at: Option<Break>,
    /// The largest claim by what lies behind a break.
    claim: Option<Claim>,
}

/// How walking backwards ended.
enum WalkEnd {
    /// At a checkpoint or at the beginning.
    Complete(Chain),
    /// At a break; the stream ends in this segment, or in the nearest one before it that has a header.
    BrokenBefore(u64),
}

impl Assembly<'_> {
    /// Looks at the segments after the newest header: made ahead, they hold nothing but zeros. Anything else was
    /// written and lost its header, which a crash explains: header and frames become durable together.
    fn look_at_unused(&mut self) -> Result<(), RecoveryError> {
        let newest = self.directory.newest_used().unwrap_or(0);
        for &number in self.directory.segments.keys() {
            if number > newest && !self.directory.is_blank(self.disk, number)? {
                self.note_break(number, 0, HEADER_LOST);
                break;
            }
        }
        Ok(())
    }

    fn run_ending_with(&mut self, number: u64) -> Result<WalkEnd, RecoveryError> {
        let newest = self.scan(number, None)?;
        if let Some(reason) = newest.flaw {
            self.note_break(number, newest.end() as u64, reason);
        }
        // Something may lie behind zeros as well, if the break is one that a newer segment told of.
        if self.break_at.is_some() {
            let behind = self.directory.window(number);
            let behind = behind.and_then(|mut window| newest.claim_behind_end(&mut window));
            let behind = behind.map_err(DiskError::at(
                self.disk,
                "read",
                &self.directory.name_of(number),
            ))?;
            self.claim = behind.into_iter().chain(self.claim).reduce(larger);
        }
        let mut run = VecDeque::from([newest]);
        loop {
            if let Some(chain) = Chain::from_checkpoint(&mut run) {
                return Ok(WalkEnd::Complete(chain));
            }
            let header = run[0].header;
            let previous = header.previous.segment;
            if previous == 0 {
                return self.chain_from_beginning(run);
            }
            let Some(segment) = self.directory.segments.get(&previous) else {
                let file = self.disk.describe(&segment_name::segment(previous));
                return Err(RecoveryError::MissingSegment { file });
            };
            if segment.header().is_none() {
                self.note_break(previous, 0, HEADER_LOST);
                self.leave_out(&run);
                return Ok(WalkEnd::BrokenBefore(previous));
            }
            let scan = self.scan(previous, Some(&header))?;
            if let Some(reason) = scan.flaw {
                self.note_break(previous, scan.end() as u64, reason);
                self.leave_out(&run);
                return Ok(WalkEnd::BrokenBefore(previous));
            }
            if !continues(&header, scan.next()) {
                let meaning = format!(
                    "it begins with position {}, but the segment before it ends before position {}",
                    header.first_position,
                    scan.next()
                );
                return Err(damaged(
                    self.disk,
                    &self.directory.name_of(header.number),
                    104,
                    meaning,
                ));
            }
            self.look_behind_cut(&run, previous)?;
            run.push_front(scan);
        }
    }

    /// A start that ended before its first frame was durable cut the segment before, and nothing
    /// tells what its verdict was. What follows the cut is still there to be judged again, also where
    /// only a segment that this start left out says that something followed.
    fn look_behind_cut(
        &mut self,
        newer: &VecDeque<Scan>,
        number: u64,
    ) -> Result<(), RecoveryError> {
        let is_empty = |scan: &Scan| scan.next() == scan.header.first_position;
        if !newer.iter().all(is_empty) {
            return Ok(());
        }
        let uncut = self.scan(number, None)?;
        let follower = newer.front().map_or(number, |scan| scan.header.number);
        let mut left_out = self
            .directory
            .segments
            .range(number.saturating_add(1)..follower);
        if left_out.next().is_some() {
            self.note_break(number, uncut.end() as u64, LEFT_OUT);
        }
        if let Some(reason) = uncut.flaw {
            self.note_break(number, uncut.end() as u64, reason);
        }
        Ok(())
    }

    /// Reads a segment, up to where `next` says that it ends.
    fn scan(&self, number: u64, next: Option<&SegmentHeader>) -> Result<Scan, RecoveryError> {
        let header = *self.directory.segments[&number]
            .header()
            .expect("only segments with a header are read");
        let cut = next.map(|next| next.previous.offset);
        let window = self.directory.window(number);
        let scanned = window.and_then(|mut window| Scan::read(header, &mut window, cut));
        Ok(scanned.map_err(DiskError::at(
            self.disk,
            "read",
            &self.directory.name_of(number),
        ))?)
    }

    fn chain_from_beginning(&self, run: VecDeque<Scan>) -> Result<WalkEnd, RecoveryError> {
        let first = run[0].header;
        if !continues(&first, Position::ZERO.next()) {
            let meaning = format!(
                "the first segment begins with position {}",
                first.first_position
            );
            return Err(damaged(
                self.disk,
                &self.directory.name_of(first.number),
                104,
                meaning,
            ));
        }
        Ok(WalkEnd::Complete(Chain::from_beginning(run)))
    }

    fn note_break(&mut self, number: u64, offset: u64, reason: &'static str) {
        let file = self.disk.describe(&self.directory.name_of(number));
        self.break_at = Some(Break {
            file,
            offset,
            reason,
        });
    }

    /// These segments lie behind a break; what they claim still counts.
    fn leave_out(&mut self, run: &VecDeque<Scan>) {
        let claims = run.iter().map(|scan| scan.claim);
        self.claim = claims.chain(self.claim).reduce(larger);
    }

    fn used_up_to(&self, number: u64) -> Option<u64> {
        let mut older = self.directory.segments.range(..=number).rev();
        older.find_map(|(number, segment)| segment.header().map(|_| *number))
    }

    /// A break is refused if anything says that more than what is left, up to `last`, had been durable.
    fn refuse_if_durable(&self, last: Position) -> Result<(), RecoveryError> {
        let (Some(claim), Some(break_at)) = (self.claim, &self.break_at) else {
            return Ok(());
        };
        if claim.durable <= last {
            return Ok(());
        }
        Err(RecoveryError::DurableDataLost {
            file: break_at.file.clone(),
            offset: break_at.offset,
            lost: last.next(),
            claimed: claim.durable,
            claimed_in: self.disk.describe(&self.directory.name_of(claim.segment)),
            claimed_at: claim.offset as u64,
        })
    }
}

const LEFT_OUT: &str = "zeros where a frame should be, and a later segment that is left out";
const HEADER_LOST: &str = "a segment whose header never reached the disk";
