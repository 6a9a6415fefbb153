//! One segment, read from its first frame to where it ends or breaks.
//!
//! Invariant: every byte between `begin` and `end` belonged to a verified frame, and positions are consecutive
//! from the header's first position on. The bytes are not kept: they may be others when the file is read again. What
//! a break means for the log is judged by the chain.

use super::window::Window;
use crate::frame::{self, Flaw, ParsedFrame, Salt};
use crate::header::{self, SegmentHeader};
use crate::position::{FrameKind, Position};
use std::io;

/// A segment whose frames were verified.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) header: SegmentHeader,
    end: usize,
    next: Position,
    pub(super) newest_time_ns: u64,
    /// The largest durable position that a verified frame here (or the header) speaks of.
    pub(super) claim: Claim,
    /// The checkpoint marks in order.
    pub(super) marks: Vec<CheckpointMark>,
    /// Why reading stopped; `None` if it reached its end.
    pub(super) flaw: Option<&'static str>,
}

/// A frame that opens or completes a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckpointMark {
    pub(super) kind: FrameKind,
    pub(super) position: Position,
    pub(super) offset: usize,
}

/// What a frame or a header says of everything before it: up to this position it was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) durable: Position,
    pub(super) segment: u64,
    pub(super) offset: usize,
}

impl Scan {
    /// Reads frames up to `cut`, where the next segment says that this one ends, or, in the last segment,
    /// up to the first thing that is not the next frame.
    pub(super) fn read(
        header: SegmentHeader,
        window: &mut Window<'_>,
        cut: Option<u64>,
    ) -> io::Result<Scan> {
        let claim = Claim {
            durable: header.durable,
            segment: header.number,
            offset: 0,
        };
        let mut scan = Scan {
            header,
            end: header::BLOCK,
            next: header.first_position,
            newest_time_ns: 0,
            claim,
            marks: Vec::new(),
            flaw: None,
        };
        // A cut that no address reaches is behind the file's end as well.
        let limit = cut.map_or(Ok(window.length()), usize::try_from);
        let limit = limit.unwrap_or(usize::MAX);
        scan.flaw = loop {
            if limit == scan.end {
                break None;
            }
            if limit < scan.end || limit > window.length() {
                break Some("the next segment says that this one goes on");
            }
            match window.frame_at(scan.end, limit, scan.salt())? {
                Ok(parsed) if parsed.frame.position == scan.next => scan.note(&parsed),
                Ok(_) => break Some("a frame is out of order"),
                Err(flaw) => {
                    if cut.is_none() && window.is_zero(scan.end, limit)? {
                        break None;
                    }
                    let head_end = scan.end.saturating_add(frame::HEADER_BYTES);
                    break Some(describe(flaw, window.is_zero(scan.end, head_end)?));
                }
            }
        };
        Ok(scan)
    }

    /// The frame that follows on what was read so far.
    fn note(&mut self, parsed: &ParsedFrame<'_>) {
        let (kind, position) = (parsed.kind, parsed.frame.position);
        if kind.opens_checkpoint() || kind.completes_checkpoint() {
            self.marks.push(CheckpointMark {
                kind,
                position,
                offset: self.end,
            });
        }
        self.newest_time_ns = self.newest_time_ns.max(parsed.frame.node_time_ns);
        self.claim = larger(self.claim, self.claim_of(parsed, self.end));
        self.next = position.next();
        self.end = self.end.saturating_add(parsed.bytes);
    }

    /// The largest claim of a valid frame anywhere behind the end.
    pub(super) fn claim_behind_end(&self, window: &mut Window<'_>) -> io::Result<Option<Claim>> {
        let mut found: Option<Claim> = None;
        self.visit_behind_end(window, |parsed, offset| {
            let claim = self.claim_of(parsed, offset);
            found = Some(found.map_or(claim, |found| larger(found, claim)));
        })?;
        Ok(found)
    }

    /// Every valid frame anywhere behind the end. Frames are aligned and carry a secret mark, so neither a
    /// payload nor an old segment's remains pass for one.
    pub(super) fn visit_behind_end(
        &self,
        window: &mut Window<'_>,
        mut visit: impl FnMut(&ParsedFrame<'_>, usize),
    ) -> io::Result<()> {
        let mut offset = self.end;
        while offset < window.length() {
            let step = match window.frame_at(offset, window.length(), self.salt())? {
                Ok(parsed) => {
                    visit(&parsed, offset);
                    parsed.bytes
                }
                Err(_) => frame::ALIGNMENT,
            };
            offset = offset.saturating_add(step);
        }
        Ok(())
    }

    /// The same segment, cut behind the last frame that its own claim covers.
    pub(super) fn cut_at_own_claim(self, window: &mut Window<'_>) -> io::Result<Scan> {
        let mut end = self.begin();
        while let Some(parsed) = self.frame_at(window, end)?
            && parsed.frame.position <= self.claim.durable
        {
            end = end.saturating_add(parsed.bytes);
        }
        Scan::read(self.header, window, Some(end as u64))
    }

    /// Where the first frame begins.
    pub(super) fn begin(&self) -> usize {
        header::BLOCK
    }

    /// The offset behind the last frame.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// The bytes of all frames here.
    pub(super) fn frame_bytes(&self) -> usize {
        self.end.saturating_sub(self.begin())
    }

    /// The position of the last frame here or before.
    pub(super) fn last(&self) -> Position {
        self.next.previous()
    }

    /// The position after the last frame here.
    pub(super) fn next(&self) -> Position {
        self.next
    }

    /// The frame at `offset`, which was verified before; `None` at the end.
    pub(super) fn frame_at<'w>(
        &self,
        window: &'w mut Window<'_>,
        offset: usize,
    ) -> io::Result<Option<ParsedFrame<'w>>> {
        if offset >= self.end {
            return Ok(None);
        }
        match window.frame_at(offset, self.end, self.salt())? {
            Ok(parsed) => Ok(Some(parsed)),
            Err(_) => Err(changed()),
        }
    }

    /// The frame at `offset` of the very bytes that were scanned; `None` at the end.
    pub(super) fn frame_in<'b>(&self, bytes: &'b [u8], offset: usize) -> Option<ParsedFrame<'b>> {
        let rest = bytes.get(offset..self.end)?;
        frame::parse(rest, self.salt()).ok()
    }

    fn salt(&self) -> Salt {
        Salt::new(self.header.salt)
    }

    fn claim_of(&self, parsed: &ParsedFrame<'_>, offset: usize) -> Claim {
        Claim {
            durable: parsed.durable,
            segment: self.header.number,
            offset,
        }
    }
}

pub(super) fn larger(one: Claim, other: Claim) -> Claim {
    if other.durable > one.durable {
        other
    } else {
        one
    }
}

/// A page that was called clean may have left memory since it was verified, and come back from the disk as it was
/// before the write that failed; or another program has changed it.
pub(super) fn changed() -> io::Error {
    io::Error::other("it is not what it was a moment ago")
}

fn describe(flaw: Flaw, is_zero: bool) -> &'static str {
    match flaw {
        Flaw::NoMark if is_zero => "zeros where a frame should be",
        Flaw::NoMark => "bytes that are not a frame of this segment",
        Flaw::CutShort => "a frame that reaches beyond the end",
        Flaw::Checksum => "a frame whose checksum does not match",
    }
}
