//! One segment, read from its first frame to where it ends or breaks.
//!
//! Invariant: every byte between `begin` and `end` belongs to a verified frame, and positions are consecutive
//! from the header's first position on. What a break means for the log is judged by the chain.

use crate::disk::Mapping;
use crate::frame::{self, Flaw, Parsed, Salt};
use crate::header::{self, SegmentHeader};
use crate::position::{FrameKind, Position};

/// A segment whose frames were verified.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) header: SegmentHeader,
    bytes: Mapping,
    end: usize,
    next: Position,
    pub(super) newest_time_ns: u64,
    /// The largest durable position that a verified frame here (or the header) speaks of.
    pub(super) claim: Claim,
    /// The checkpoint marks in order.
    pub(super) marks: Vec<Mark>,
    /// Why reading stopped; `None` if it reached its end.
    pub(super) flaw: Option<&'static str>,
}

/// A frame that opens or completes a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
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
    pub(super) fn read(header: SegmentHeader, bytes: Mapping, cut: Option<u64>) -> Scan {
        let claim = Claim {
            durable: header.durable,
            segment: header.number,
            offset: 0,
        };
        let mut scan = Scan {
            header,
            bytes,
            end: header::BLOCK,
            next: header.first_position,
            newest_time_ns: 0,
            claim,
            marks: Vec::new(),
            flaw: None,
        };
        // A cut that no address reaches is behind the file's end as well.
        let limit = cut.map_or(Ok(scan.bytes.len()), usize::try_from);
        scan.flaw = loop {
            if limit == Ok(scan.end) {
                break None;
            }
            let rest = limit.map(|limit| scan.bytes.get(scan.end..limit));
            let Ok(Some(rest)) = rest else {
                break Some("the next segment says that this one goes on");
            };
            match frame::parse(rest, scan.salt()) {
                Ok(parsed) if parsed.frame.position == scan.next => {
                    let (kind, position) = (parsed.kind, parsed.frame.position);
                    if kind.opens_checkpoint() || kind.completes_checkpoint() {
                        scan.marks.push(Mark {
                            kind,
                            position,
                            offset: scan.end,
                        });
                    }
                    scan.newest_time_ns = scan.newest_time_ns.max(parsed.frame.node_time_ns);
                    let claim = scan.claim_of(&parsed, scan.end);
                    let bytes = parsed.bytes;
                    scan.claim = larger(scan.claim, claim);
                    scan.next = position.next();
                    scan.end = scan.end.saturating_add(bytes);
                }
                Ok(_) => break Some("a frame is out of order"),
                Err(_) if cut.is_none() && is_zero(rest) => break None,
                Err(flaw) => break Some(describe(flaw, rest)),
            }
        };
        scan
    }

    /// The largest claim of a valid frame anywhere behind the end.
    pub(super) fn claim_behind_end(&self) -> Option<Claim> {
        let mut found: Option<Claim> = None;
        self.visit_behind_end(|parsed, offset| {
            let claim = self.claim_of(parsed, offset);
            found = Some(found.map_or(claim, |found| larger(found, claim)));
        });
        found
    }

    /// Every valid frame anywhere behind the end. Frames are aligned and carry a secret mark, so neither a
    /// payload nor an old segment's remains pass for one.
    pub(super) fn visit_behind_end(&self, mut visit: impl FnMut(&Parsed<'_>, usize)) {
        let mut offset = self.end;
        while let Some(rest) = self.bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            match frame::parse(rest, self.salt()) {
                Ok(parsed) => {
                    visit(&parsed, offset);
                    offset = offset.saturating_add(parsed.bytes);
                }
                Err(_) => offset = offset.saturating_add(frame::ALIGNMENT),
            }
        }
    }

    /// The same segment, cut behind the last frame that its own claim covers.
    pub(super) fn cut_at_own_claim(self) -> Scan {
        let mut end = self.begin();
        while let Some(parsed) = self.frame_at(end) {
            if parsed.frame.position > self.claim.durable {
                break;
            }
            end = end.saturating_add(parsed.bytes);
        }
        Scan::read(self.header, self.bytes, Some(end as u64))
    }

    /// Frees the content. What was found out stays; no frame can be asked for any more.
    pub(super) fn forget_bytes(&mut self) {
        self.bytes = Mapping::copied(Vec::new());
    }

    /// The whole file.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
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

    /// The frame at `offset`; `None` at the end.
    pub(super) fn frame_at(&self, offset: usize) -> Option<Parsed<'_>> {
        if offset == self.end {
            return None;
        }
        let parsed = frame::parse(&self.bytes[offset..self.end], self.salt());
        Some(parsed.expect("the frame was verified before, and nobody else has the directory"))
    }

    fn salt(&self) -> Salt {
        Salt::new(self.header.salt)
    }

    fn claim_of(&self, parsed: &Parsed<'_>, offset: usize) -> Claim {
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

/// Compares block by block: a segment made ahead is looked at as a whole at every start.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes
        .chunks(header::BLOCK)
        .all(|chunk| *chunk == ZEROS[..chunk.len()])
}

fn describe(flaw: Flaw, rest: &[u8]) -> &'static str {
    match flaw {
        Flaw::NoMark if is_zero(&rest[..frame::HEADER_BYTES]) => "zeros where a frame should be",
        Flaw::NoMark => "bytes that are not a frame of this segment",
        Flaw::CutShort => "a frame that reaches beyond the end",
        Flaw::Checksum => "a frame whose checksum does not match",
    }
}

static ZEROS: [u8; header::BLOCK] = [0; header::BLOCK];
