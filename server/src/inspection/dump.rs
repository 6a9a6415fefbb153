//! The stream frame by frame, as far as it can be read.
//!
//! Invariant: one segment is in memory at a time, and a frame is handed on as soon as it was read. A dump judges
//! nothing: it goes on behind what is damaged, and says where something is missing.

use std::ops::{ControlFlow, RangeInclusive};
use std::path::Path;

use quorlock_engine::control::{ControlRecord, kind};
use quorlock_engine::{Mutation, Mutations};
use quorlock_persistence::{InspectedFrame, Position};

use super::{DataDirectory, Unreadable, hash_seed};

/// What a dump consists of, in the order of the log: each is handed to the function that [`dump`] is given.
#[derive(Debug)]
pub enum Line<'a> {
    /// A frame.
    Frame {
        /// The number of the segment.
        segment: u64,
        /// What the log keeps.
        inspected: InspectedFrame<'a>,
        /// What it holds, decoded.
        body: FrameBody<'a>,
    },
    /// Positions before the next frame that cannot be read, or that the log left out.
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

/// What a frame holds, decoded as a start decodes it.
#[derive(Debug)]
pub enum FrameBody<'a> {
    /// Changes of keys.
    Mutations(Vec<Mutation<'a>>),
    /// A control record.
    Record(ControlRecord),
    /// Nothing: it completes a checkpoint.
    End,
    /// It is not understood, for this reason.
    NotUnderstood(String),
}

/// Hands the frames of a directory's log at these positions to `take`, in order, until it breaks.
///
/// # Errors
/// When the directory cannot be looked at, or holds no log.
pub fn dump(
    directory: &Path,
    positions: &RangeInclusive<Position>,
    mut take: impl FnMut(Line<'_>) -> ControlFlow<()>,
) -> Result<(), Unreadable> {
    let inspection = DataDirectory::open(directory)?.log()?;
    let parts = inspection.stream();
    let mut next: Option<Position> = None;
    let _ended_early = parts.iter().zip(1..).try_for_each(|(part, following)| {
        let following = parts.get(following).map(|following| following.first);
        if following.is_some_and(|first| first <= *positions.start())
            || part.first > *positions.end()
        {
            return ControlFlow::Continue(());
        }
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
            let expected = next.replace(position.next());
            if position > *positions.end() {
                return ControlFlow::Break(());
            }
            if position < *positions.start() {
                continue;
            }
            if let Some(from) = expected.filter(|expected| *expected < position) {
                take(Line::Gap { from, to: position })?;
            }
            take(Line::Frame {
                segment: part.number,
                body: FrameBody::of(inspected.frame.kind, inspected.frame.payload),
                inspected,
            })?;
        }
        match content.flaw() {
            Some(reason) => take(broken(content.end(), reason.to_owned())),
            None => ControlFlow::Continue(()),
        }
    });
    Ok(())
}

impl<'a> FrameBody<'a> {
    fn of(code: u8, payload: &'a [u8]) -> Self {
        match code {
            kind::END if payload.is_empty() => Self::End,
            kind::GROUP | kind::SNAPSHOT => Mutations::of(payload, hash_seed())
                .and_then(Iterator::collect)
                .map_or_else(
                    |error| Self::NotUnderstood(error.to_string()),
                    Self::Mutations,
                ),
            code => ControlRecord::decode(code, payload)
                .map_or_else(|error| Self::NotUnderstood(error.to_string()), Self::Record),
        }
    }
}
