//! The stream frame by frame, as far as it can be read.
//!
//! Invariant: one segment is in memory at a time, and a frame is handed on as soon as it was read. A dump judges
//! nothing: it goes on behind what is damaged, and says where something is missing.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::Path;

use quorlock_engine::control::{Record, kind};
use quorlock_engine::{Mutation, Mutations};
use quorlock_persistence::{InspectedFrame, Inspection, Position, SegmentPart};

use super::{DataDirectory, Unreadable, hash_seed};

/// Which positions are wanted, both ends included.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first.
    pub from: Position,
    /// The last.
    pub to: Position,
}

/// What a dump consists of.
#[derive(Debug)]
pub enum Line<'a> {
    /// A frame.
    Frame(Dumped<'a>),
    /// Positions before this one cannot be read, or were left out here.
    Gap {
        /// The first position that is not there.
        from: Position,
        /// The first that is there again.
        to: Position,
    },
    /// A part of the stream ends before it should, or cannot be read.
    Broken {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// Why.
        reason: String,
    },
}

/// A frame with its content decoded.
#[derive(Debug)]
pub struct Dumped<'a> {
    /// The number of the segment.
    pub segment: u64,
    /// What the log keeps.
    pub inspected: InspectedFrame<'a>,
    /// What it holds.
    pub body: Body<'a>,
}

/// What a frame holds.
#[derive(Debug)]
pub enum Body<'a> {
    /// Changes of keys.
    Mutations(Vec<Mutation<'a>>),
    /// A control record.
    Record(Record),
    /// Nothing: it completes a checkpoint.
    End,
    /// It is not understood, for this reason.
    NotUnderstood(String),
}

/// Hands the frames of a directory's log to `take`, in order, until it is interrupted.
///
/// # Errors
/// When the directory cannot be looked at, or holds no log.
pub fn dump(
    directory: &Path,
    range: Range,
    mut take: impl FnMut(Line<'_>) -> ControlFlow<()>,
) -> Result<(), Unreadable> {
    let data_directory = DataDirectory::open(directory)?;
    let inspection = data_directory.log()?;
    let parts = inspection.stream();
    let mut next: Option<Position> = None;
    for (index, part) in parts.iter().enumerate() {
        let following = parts.get(index + 1);
        if following.is_some_and(|following| following.first <= range.from) {
            continue;
        }
        if part.first > range.to {
            break;
        }
        if dump_part(&inspection, part, range, &mut next, &mut take).is_break() {
            break;
        }
    }
    Ok(())
}

fn dump_part(
    inspection: &Inspection,
    part: &SegmentPart,
    range: Range,
    next: &mut Option<Position>,
    take: &mut impl FnMut(Line<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let broken = |offset, reason| Line::Broken {
        file: inspection.file_of(part.number),
        offset,
        reason,
    };
    let content = match inspection.read(part) {
        Ok(content) => content,
        // Also a running node that has just removed it: its checkpoint comes later in the stream.
        Err(error) => return take(broken(part.begin, error.to_string())),
    };
    for inspected in content.frames() {
        let position = inspected.frame.position;
        let missing = next.filter(|next| *next < position);
        *next = Some(position.next());
        if position > range.to {
            return ControlFlow::Break(());
        }
        if position < range.from {
            continue;
        }
        if let Some(from) = missing {
            take(Line::Gap { from, to: position })?;
        }
        take(Line::Frame(Dumped {
            segment: part.number,
            body: Body::of(inspected.frame.kind, inspected.frame.payload),
            inspected,
        }))?;
    }
    match content.flaw() {
        Some(reason) => take(broken(content.end(), reason.to_owned())),
        None => ControlFlow::Continue(()),
    }
}

impl<'a> Body<'a> {
    fn of(code: u8, payload: &'a [u8]) -> Self {
        match code {
            kind::END if payload.is_empty() => Self::End,
            kind::GROUP | kind::SNAPSHOT => Mutations::of(payload, hash_seed())
                .and_then(Iterator::collect)
                .map_or_else(Self::not_understood, Self::Mutations),
            code => Record::decode(code, payload).map_or_else(Self::not_understood, Self::Record),
        }
    }

    fn not_understood(error: impl Display) -> Self {
        Self::NotUnderstood(error.to_string())
    }
}
