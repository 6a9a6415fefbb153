//! A directory that is moved on purpose: released where it was, adopted where it is.
//!
//! A start cannot tell a directory that was moved from an older copy of it, so it waits. RELEASED is the proof that nothing
//! was granted after what the log holds: it is the last record of its place, and none starts from there any more. So a log
//! that has it holds all that the node has granted, wherever the log lies. ADOPTED ends that state in one place.
//!
//! Invariant: a released directory starts from nowhere before an adoption is on record. What it means for the restart delay
//! is decided in `restart`.

/// A released directory is at home where it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Adoption {
    /// Counts as a start. It is not the next number: two adoptions of one release get different ones, so that clients tell
    /// the nodes that come of them apart.
    pub incarnation: u64,
    /// The fingerprint of the directory where it is now.
    pub fingerprint: u64,
    /// The receipt of the release was shown. Without it nothing says that this is the only adoption.
    pub is_proven: bool,
}

/// What a log says of a move since its last start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Relocation {
    /// Nothing.
    #[default]
    None,
    /// Released, under a receipt with this digest.
    Released([u8; 32]),
    /// Adopted, and the receipt was shown.
    Adopted,
    /// Adopted without the receipt: it may be one of several copies, and an older one than another.
    Unproven,
}

impl Relocation {
    /// What is left of it once a start is on record. A log in which one follows a release was put together by hand.
    pub(crate) fn after_start(self) -> Self {
        match self {
            Self::Released(_) => self,
            Self::None | Self::Adopted | Self::Unproven => Self::None,
        }
    }

    pub(crate) const fn of(adoption: &Adoption) -> Self {
        match adoption.is_proven {
            true => Self::Adopted,
            false => Self::Unproven,
        }
    }
}
