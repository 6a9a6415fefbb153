//! What is wrong with a log: where, what it means for the locks, and what to do.
//!
//! One place gives the words for all refusals, so that the tool and the book say the same.

use quorlock_persistence::{Break, RecoveryError};

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// The stream is interrupted, and nothing says that what is gone had been durable.
    Break,
    /// The node has an identity and no log.
    Emptied,
    /// What a sync had confirmed is gone.
    DurableDataLost,
    /// A segment is not there.
    MissingSegment,
    /// A file is not what its name says.
    Damaged,
    /// A newer version of the format.
    UnknownVersion,
    /// Another node's log.
    ForeignNode,
    /// A whole frame that this version does not understand.
    NotUnderstood,
    /// `node.id` is not an identity.
    BadIdentity,
    /// It was released to be moved, and not adopted since.
    Released,
    /// The file system has no space for a start.
    NoSpace,
    /// The disk does not give it.
    Unreadable,
}

/// The first thing that is wrong, with its place in the log. What comes behind it is not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryFinding {
    /// What kind of trouble it is.
    pub kind: FindingKind,
    /// The file; empty where it is the directory as a whole.
    pub file: String,
    /// Where in the file.
    pub offset: Option<u64>,
    /// What was found.
    pub what: String,
    /// What it means for the locks, and what a start would do.
    pub meaning: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

impl FindingKind {
    /// A stable word for programs: it stays the same over versions, the text for people may change.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Break => "break",
            Self::Emptied => "emptied",
            Self::DurableDataLost => "durable-data-lost",
            Self::MissingSegment => "missing-segment",
            Self::Damaged => "damaged",
            Self::UnknownVersion => "unknown-version",
            Self::ForeignNode => "foreign-node",
            Self::NotUnderstood => "not-understood",
            Self::BadIdentity => "bad-identity",
            Self::Released => "released",
            Self::NoSpace => "no-space",
            Self::Unreadable => "unreadable",
        }
    }

    /// Whether a start copes with it, by cutting or by waiting.
    pub const fn is_survived(self) -> bool {
        matches!(self, Self::Break | Self::Emptied)
    }

    /// Whether `quorlock log repair` can make a node start again.
    pub const fn is_repairable(self) -> bool {
        matches!(
            self,
            Self::DurableDataLost | Self::MissingSegment | Self::Damaged
        )
    }

    /// What it means for the locks, and what to do.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Break => (
                "what follows was being written when the process or the machine stopped, and was never \
                 confirmed as durable: a start leaves it out and waits until no lock can be held that it \
                 may have forgotten",
                NOTHING_TO_DO,
            ),
            Self::Emptied => (
                "whatever locks the node had granted are forgotten: a start waits until every lock that a \
                 delay can cover has expired; locks without TTL are gone",
                NOTHING_TO_DO,
            ),
            Self::DurableDataLost | Self::MissingSegment | Self::Damaged => (
                "locks that were granted, and confirmed as durable, may be gone: a start refuses, because \
                 the node could grant them a second time",
                "restore the file from the disk's own redundancy or a copy of the same moment; or cut the log \
                 where it is whole with: quorlock log repair DIR --accept-lost-locks",
            ),
            Self::UnknownVersion | Self::NotUnderstood => (
                "nothing is known to be lost, but this program cannot tell which locks are held: a start refuses",
                "start the newer program that wrote it, or one newer still",
            ),
            Self::ForeignNode => (
                "these are another node's locks: a start refuses, because two nodes that count as one \
                 would vote twice",
                "put the file back where it belongs, or name the directory of the right node; never let two \
                 nodes share a log",
            ),
            Self::BadIdentity => (
                "whose locks these are is not known: a start refuses, because a node with a wrong name \
                 could vote twice",
                "restore node.id; the log's headers name the node (quorlock log stats DIR), and the book says \
                 what the file holds",
            ),
            Self::Released => (
                "nothing is lost: the log holds all that the node has granted, and a start refuses, because the node may serve \
                 where it was moved to",
                "where the node is to go on: quorlock node adopt DIR --receipt RECEIPT; or with --wait, if the receipt is lost or \
                 the node has run elsewhere since",
            ),
            Self::NoSpace => (
                "nothing is lost: the locks are in the log, and a start refuses for as long as it cannot put itself on record",
                "free some space on this file system, or make it larger; then start the node",
            ),
            Self::Unreadable => (
                "whether locks are lost cannot be said: a start refuses",
                "check the disk and the permissions, and run this as the node's user",
            ),
        }
    }
}

const NOTHING_TO_DO: &str = "nothing needs to be done: start the node and let it wait";

impl DirectoryFinding {
    pub(super) fn new(kind: FindingKind, file: String, offset: Option<u64>, what: String) -> Self {
        let (meaning, remedy) = kind.texts();
        Self {
            kind,
            file,
            offset,
            what,
            meaning,
            remedy,
        }
    }

    /// This many bytes are missing in the directory's file system.
    pub(super) fn of_missing_space(directory: String, bytes: u64) -> Self {
        let what = format!(
            "the file system has no space for another segment, {bytes} bytes are missing, and the last segment is full"
        );
        Self::new(FindingKind::NoSpace, directory, None, what)
    }

    pub(super) fn of_break(found: &Break) -> Self {
        Self::new(
            FindingKind::Break,
            found.file.clone(),
            Some(found.offset),
            format!("the log is interrupted here: {}", found.reason),
        )
    }

    pub(crate) fn of_error(error: &RecoveryError) -> Self {
        match error {
            RecoveryError::DurableDataLost {
                file,
                offset,
                lost,
                claimed,
                claimed_in,
                claimed_at,
            } => Self::new(
                FindingKind::DurableDataLost,
                file.clone(),
                Some(*offset),
                format!(
                    "the frame at position {lost} cannot be read, but {claimed_in} at offset {claimed_at} proves \
                     that everything up to position {claimed} had been synced"
                ),
            ),
            RecoveryError::UnknownVersion { file, version, .. } => Self::new(
                FindingKind::UnknownVersion,
                file.clone(),
                Some(8),
                format!(
                    "it has version {version} of the log's format, which a newer program wrote"
                ),
            ),
            RecoveryError::ForeignNode {
                file,
                found,
                expected,
            } => Self::new(
                FindingKind::ForeignNode,
                file.clone(),
                Some(16),
                format!("it belongs to node {found}, and the directory to node {expected}"),
            ),
            RecoveryError::MissingSegment { file } => Self::new(
                FindingKind::MissingSegment,
                file.clone(),
                None,
                "the file is missing: the log goes on after it, and no checkpoint replaces it"
                    .to_owned(),
            ),
            RecoveryError::Damaged {
                file,
                offset,
                meaning,
            } => Self::new(
                FindingKind::Damaged,
                file.clone(),
                Some(*offset),
                meaning.clone(),
            ),
            RecoveryError::Disk(error) => Self::new(
                FindingKind::Unreadable,
                error.file.clone(),
                None,
                error.to_string(),
            ),
            // One that this crate does not know yet says itself which file it is about.
            other => Self::new(
                FindingKind::Unreadable,
                String::new(),
                None,
                other.to_string(),
            ),
        }
    }

    /// Two looks that find this have found the same.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        (self.kind, &self.file, self.offset) == (other.kind, &other.file, other.offset)
    }
}
