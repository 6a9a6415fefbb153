//! The position of a frame in the stream, and the kind a caller gives it.
//!
//! Invariant: positions are consecutive; the first frame of a log has position 1.

use std::fmt;

/// The consecutive number of a frame. `Position::ZERO` lies before every frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Before everything: the position of an empty log.
    pub const ZERO: Position = Position(0);

    /// The position with this number.
    pub const fn from_raw(number: u64) -> Position {
        Position(number)
    }

    /// The number of this position.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position of the frame after this one.
    pub const fn next(self) -> Position {
        // 2^64 frames cannot be written; saturating keeps the order total all the same.
        Position(self.0.saturating_add(1))
    }

    /// The position of the frame before this one; `ZERO` has none before it.
    pub(crate) const fn previous(self) -> Position {
        Position(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a frame is: the caller's code, and whether it opens or closes a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameKind {
    code: u8,
    mark: u8,
}

impl FrameKind {
    /// The largest code a caller may use.
    pub const CODE_MAX: u8 = 63;

    /// An ordinary frame with the caller's code, 1 to `CODE_MAX`.
    ///
    /// # Panics
    /// If the code is out of range. Codes are constants, so this shows at compile time.
    pub const fn new(code: u8) -> FrameKind {
        FrameKind::marked(code, 0)
    }

    /// The frame that opens a checkpoint. Recovery starts with it once the checkpoint is complete.
    ///
    /// # Panics
    /// As [`FrameKind::new`].
    pub const fn checkpoint_begin(code: u8) -> FrameKind {
        FrameKind::marked(code, MARK_BEGIN)
    }

    /// The frame that completes the checkpoint opened last. Once it is durable, the segments before the
    /// one that holds the opening frame are no longer needed.
    ///
    /// # Panics
    /// As [`FrameKind::new`].
    pub const fn checkpoint_end(code: u8) -> FrameKind {
        FrameKind::marked(code, MARK_END)
    }

    /// The caller's code.
    pub const fn code(self) -> u8 {
        self.code
    }

    /// Whether this frame opens a checkpoint.
    pub const fn opens_checkpoint(self) -> bool {
        self.mark == MARK_BEGIN
    }

    /// Whether this frame completes a checkpoint.
    pub const fn completes_checkpoint(self) -> bool {
        self.mark == MARK_END
    }

    /// The byte stored for the mark.
    pub(crate) const fn mark(self) -> u8 {
        self.mark
    }

    /// The kind stored as these two bytes, if they are one.
    pub(crate) const fn from_bytes(code: u8, mark: u8) -> Option<FrameKind> {
        if code == 0 || code > FrameKind::CODE_MAX || mark > MARK_END {
            return None;
        }
        Some(FrameKind { code, mark })
    }

    const fn marked(code: u8, mark: u8) -> FrameKind {
        match FrameKind::from_bytes(code, mark) {
            Some(kind) => kind,
            None => panic!("the code of a frame's kind is 1 to 63"),
        }
    }
}

const MARK_BEGIN: u8 = 1;
const MARK_END: u8 = 2;
