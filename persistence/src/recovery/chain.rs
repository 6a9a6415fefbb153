//! Which segments make up the stream, and whether what is missing may be missing.
//!
//! Invariant: each header names the segment before it and where that one ends. The stream is read backwards
//! along these names, from the newest segment to the last complete checkpoint or the very beginning. Where
//! it is broken, what came after the break is left out, unless it claims that the lost part was durable.

use super::Break;
use super::directory::{Directory, Segment, damaged};
use super::scan::{Claim, Scan, is_zero, larger};
use crate::disk::Disk;
use crate::error::{DiskError, RecoveryError};
use crate::header::Header;
use crate::position::Position;
use crate::segment_name;
use std::collections::VecDeque;

/// The stream to replay.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) run: Vec<Scan>,
    pub(super) start_offset: usize,
    pub(super) start_position: Position,
    pub(super) starts_with_checkpoint: bool,
    pub(super) break_at: Option<Break>,
}

impl Chain {
    /// The frames to replay. A repair may have left out positions between two segments.
    pub(super) fn frames(&self) -> u64 {
        let all: u64 = self.run.iter().map(Scan::frames).sum();
        let first = self.run.first().map(|scan| scan.header.first_position);
        let skipped = first.map_or(0, |first| {
            self.start_position.get().saturating_sub(first.get())
        });
        all.saturating_sub(skipped)
    }
}

/// Whether the bytes of the segments are kept for a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// All of them, to be replayed.
    Bytes,
    /// None: a look at a log of any size needs the memory of one segment.
    Nothing,
}

/// Assembles the stream from the segments of a directory.
pub(super) fn assemble(
    disk: &dyn Disk,
    directory: &Directory,
    keep: Keep,
) -> Result<Chain, RecoveryError> {
    let break_at = break_in_unused(disk, directory)?;
    let mut assembly = Assembly {
        disk,
        directory,
        keep,
        break_at,
        claim: None,
    };
    let mut newest = directory.newest_used();
    while let Some(number) = newest {
        match assembly.run_ending_with(number)? {
            Walk::Complete(chain) => {
                assembly.refuse_if_durable(chain.run.last())?;
                return Ok(Chain {
                    break_at: assembly.break_at,
                    ..chain
                });
            }
            Walk::BrokenBefore(number) => newest = assembly.used_up_to(number),
        }
    }
    assembly.refuse_if_durable(None)?;
    Ok(Chain {
        run: Vec::new(),
        start_offset: 0,
        start_position: Position::ZERO.next(),
        starts_with_checkpoint: false,
        break_at: assembly.break_at,
    })
}

struct Assembly<'a> {
    disk: &'a dyn Disk,
    directory: &'a Directory,
    keep: Keep,
    /// The earliest break found so far.
    break_at: Option<Break>,
    /// The largest claim by what lies behind a break.
    claim: Option<Claim>,
}

/// How walking backwards ended.
enum Walk {
    /// At a checkpoint or at the beginning.
    Complete(Chain),
    /// At a break; the stream ends in this segment, or in the nearest one before it that has a header.
    BrokenBefore(u64),
}

impl Assembly<'_> {
    fn run_ending_with(&mut self, number: u64) -> Result<Walk, RecoveryError> {
        let mut newest = self.scan(number, None)?;
        if let Some(reason) = newest.flaw {
            self.note_break(number, newest.end() as u64, reason);
        }
        // Something may lie behind zeros as well, if the break is one that a newer segment told of.
        if self.break_at.is_some() {
            self.claim = newest
                .claim_behind_end()
                .into_iter()
                .chain(self.claim)
                .reduce(larger);
        }
        self.let_go(&mut newest);
        let mut run = VecDeque::from([newest]);
        loop {
            if let Some(chain) = chain_from_checkpoint(&mut run) {
                return Ok(Walk::Complete(chain));
            }
            let header = run[0].header;
            if header.previous_number == 0 {
                return self.chain_from_beginning(run);
            }
            let previous = header.previous_number;
            let Some(segment) = self.directory.segments.get(&previous) else {
                let file = self.disk.describe(&segment_name::segment(previous));
                return Err(RecoveryError::MissingSegment { file });
            };
            if segment.header().is_none() {
                self.note_break(previous, 0, HEADER_LOST);
                self.leave_out(&run);
                return Ok(Walk::BrokenBefore(previous));
            }
            let mut scan = self.scan(previous, Some(&header))?;
            self.let_go(&mut scan);
            if let Some(reason) = scan.flaw {
                self.note_break(previous, scan.end() as u64, reason);
                self.leave_out(&run);
                return Ok(Walk::BrokenBefore(previous));
            }
            if !continues(&header, scan.next()) {
                let meaning = format!(
                    "it begins with position {}, but the segment before it ends before position {}",
                    header.first_position,
                    scan.next()
                );
                return Err(damaged(
                    self.disk,
                    &segment_name::segment(header.number),
                    104,
                    meaning,
                ));
            }
            self.look_behind_cut(&run, previous)?;
            run.push_front(scan);
        }
    }

    /// A start that ended before its first frame was durable cut the segment before, and nothing
    /// tells what its verdict was. What follows the cut is still there to be judged again.
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
        if let Some(reason) = uncut.flaw {
            self.note_break(number, uncut.end() as u64, reason);
        }
        Ok(())
    }

    /// Reads a segment, up to where `next` says that it ends.
    fn scan(&self, number: u64, next: Option<&Header>) -> Result<Scan, RecoveryError> {
        let segment = &self.directory.segments[&number];
        let header = *segment
            .header()
            .expect("only segments with a header are read");
        let bytes = map(self.disk, number, segment)?;
        let cut = next.map(|next| next.previous_cut);
        Ok(Scan::read(header, bytes, cut))
    }

    fn let_go(&self, scan: &mut Scan) {
        if self.keep == Keep::Nothing {
            scan.forget_bytes();
        }
    }

    fn chain_from_beginning(&self, run: VecDeque<Scan>) -> Result<Walk, RecoveryError> {
        let first = run[0].header;
        if !continues(&first, Position::ZERO.next()) {
            let name = segment_name::segment(first.number);
            let meaning = format!(
                "the first segment begins with position {}",
                first.first_position
            );
            return Err(damaged(self.disk, &name, 104, meaning));
        }
        Ok(Walk::Complete(Chain {
            start_offset: run[0].begin(),
            start_position: first.first_position,
            run: run.into(),
            starts_with_checkpoint: false,
            break_at: None,
        }))
    }

    fn note_break(&mut self, number: u64, offset: u64, reason: &'static str) {
        let file = self.disk.describe(&segment_name::segment(number));
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

    fn refuse_if_durable(&self, newest: Option<&Scan>) -> Result<(), RecoveryError> {
        let last = newest.map_or(Position::ZERO, Scan::last);
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
            claimed_in: self.disk.describe(&segment_name::segment(claim.segment)),
            claimed_at: claim.offset as u64,
        })
    }
}

/// Whether a segment with this header follows on a stream whose next position is `next`. A repair leaves
/// out positions, so that none is ever used twice.
pub(super) fn continues(header: &Header, next: Position) -> bool {
    header.first_position == next || (header.is_repaired && header.first_position > next)
}

/// Cuts the run down to what the last complete checkpoint needs, if it holds one.
pub(super) fn chain_from_checkpoint(run: &mut VecDeque<Scan>) -> Option<Chain> {
    let marks = || {
        run.iter()
            .enumerate()
            .flat_map(|(index, scan)| scan.marks.iter().map(move |mark| (index, *mark)))
            .rev()
    };
    let mut from_end = marks().skip_while(|(_, mark)| !mark.kind.completes_checkpoint());
    let (index, mark) = from_end.find(|(_, mark)| mark.kind.opens_checkpoint())?;
    Some(Chain {
        run: run.drain(index..).collect(),
        start_offset: mark.offset,
        start_position: mark.position,
        starts_with_checkpoint: true,
        break_at: None,
    })
}

/// Looks at the segments after the newest header: made ahead, they hold nothing but zeros. Anything else was
/// written and lost its header, which a crash explains: header and frames become durable together.
fn break_in_unused(disk: &dyn Disk, directory: &Directory) -> Result<Option<Break>, RecoveryError> {
    let newest = directory.newest_used().unwrap_or(0);
    for (&number, segment) in directory.segments.range(newest.saturating_add(1)..) {
        if !is_zero(&map(disk, number, segment)?) {
            let file = disk.describe(&segment_name::segment(number));
            return Ok(Some(Break {
                file,
                offset: 0,
                reason: HEADER_LOST,
            }));
        }
    }
    Ok(None)
}

pub(super) fn map(
    disk: &dyn Disk,
    number: u64,
    segment: &Segment,
) -> Result<crate::disk::Mapping, DiskError> {
    let name = segment_name::segment(number);
    let failed = |cause| DiskError::new("read", disk.describe(&name), cause);
    let bytes = segment.file.map().map_err(failed)?;
    // The length was checked against the header. Under the directory's lock it cannot have changed since.
    if bytes.len() as u64 != segment.length {
        return Err(failed(std::io::Error::other(
            "its length changed while it was read",
        )));
    }
    Ok(bytes)
}

const HEADER_LOST: &str = "a segment whose header never reached the disk";
