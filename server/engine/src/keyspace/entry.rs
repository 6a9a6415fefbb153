//! One stored key with its value, in 64 bytes: one cache line.
//!
//! A short key and string lie inside the entry itself; longer ones share one allocation; a long
//! string has its own, which replies share. What a deadline means is decided elsewhere.

use std::sync::Arc;

use crate::keyspace::collection::Collection;
use crate::keyspace::waiters::AwaitedKind;
use crate::position::LogPosition;
use crate::reply::SHARED_BYTES_MIN;
use crate::time::{Deadline, NodeTime};

/// The number of an entry.
pub(crate) type Slot = u32;

/// How many databases a node has. They share one table; the number is part of a key's identity.
pub const DATABASES: u8 = 16;

/// No slot.
pub(crate) const NONE: Slot = u32::MAX;

/// One slot of the slab: a key, or a link of the list of free slots. It is one cache line, so that finding a key waits for
/// memory once, and prefetching one field prefetches all.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    /// When the key ends, or [`Deadline::NEVER`].
    pub(crate) deadline: Deadline,
    /// The position of the last write in the upper bits, whether the key was read since, and the number of the database in the
    /// lowest four.
    stamp: u64,
    /// The previous entry in the wheel's list, or that list's mark.
    pub(crate) previous: Slot,
    /// The next entry in the wheel's list, or in the list of free slots.
    pub(crate) next: Slot,
    pub(crate) body: Body,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A free slot.
    Vacant,
    /// Key and string lie one after the other in `bytes`.
    Inline {
        key: u8,
        value: u8,
        bytes: [u8; INLINE_BYTES],
    },
    /// Key and string lie one after the other in one allocation.
    Packed { bytes: Box<[u8]>, key: u32 },
    /// A key with a string so long that replies share it.
    Long { key: Box<[u8]>, value: Arc<[u8]> },
    /// A key with a value of many parts.
    Composite { key: Box<[u8]>, value: Collection },
}

/// A borrowed value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueRef<'a> {
    String(&'a [u8]),
    Collection(&'a Collection),
}

impl ValueRef<'_> {
    /// The name TYPE answers.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            ValueRef::String(_) => "string",
            ValueRef::Collection(collection) => collection.type_name(),
        }
    }

    /// The bytes of its encoding, but for the first length.
    pub(crate) fn bytes(self) -> usize {
        match self {
            ValueRef::String(bytes) => bytes.len(),
            ValueRef::Collection(collection) => collection.bytes(),
        }
    }
}

impl Entry {
    pub(crate) fn new(number: u8, body: Body, deadline: Deadline, position: LogPosition) -> Entry {
        let stamp = stamp(number, position);
        Entry {
            deadline,
            stamp,
            previous: NONE,
            next: NONE,
            body,
        }
    }

    pub(crate) fn is_vacant(&self) -> bool {
        matches!(self.body, Body::Vacant)
    }

    /// A deadline is the first instant at which the key no longer exists.
    pub(crate) fn is_live(&self, now: NodeTime) -> bool {
        self.deadline.is_after(now)
    }

    /// The number of its database when it was made; see [`Keyspace::database_of`](crate::keyspace::Keyspace).
    pub(crate) fn number(&self) -> u8 {
        (self.stamp & DATABASE_MASK).to_le_bytes()[0]
    }

    /// The position of the group that wrote this entry last.
    pub(crate) fn position(&self) -> LogPosition {
        LogPosition::from_raw(self.stamp >> POSITION_SHIFT)
    }

    /// Whether the key was read since it was written last, as far as that is known.
    pub(crate) fn was_read(&self) -> bool {
        self.stamp & READ_MASK != 0
    }

    pub(crate) fn mark_read(&mut self) {
        self.stamp |= READ_MASK;
    }

    /// Nobody has read what was written there.
    pub(crate) fn set_position(&mut self, position: LogPosition) {
        self.stamp = stamp(self.number(), position);
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.body.key()
    }

    pub(crate) fn value(&self) -> ValueRef<'_> {
        self.body.value()
    }
}

impl Entry {
    /// How the value is kept, in the words of OBJECT ENCODING.
    pub(crate) fn encoding(&self) -> &'static str {
        match &self.body {
            Body::Vacant | Body::Inline { .. } => "embstr",
            Body::Packed { .. } | Body::Long { .. } => "raw",
            Body::Composite { value, .. } => value.encoding(),
        }
    }

    /// About how many bytes the key takes with all that is kept for it.
    pub(crate) fn memory(&self) -> usize {
        let allocated = match &self.body {
            Body::Vacant | Body::Inline { .. } => 0,
            Body::Packed { bytes, .. } => allocation_of(bytes.len()),
            Body::Long { key, value } => {
                allocation_of(key.len()).saturating_add(allocation_of(value.len()))
            }
            Body::Composite { key, value } => {
                allocation_of(key.len()).saturating_add(value.memory())
            }
        };
        allocated
            .saturating_add(size_of::<Entry>())
            .saturating_add(LINK_BYTES)
    }
}

/// What an allocation of so many bytes takes.
pub(crate) fn allocation_of(bytes: usize) -> usize {
    bytes.saturating_add(ALLOCATION_BYTES)
}

impl Body {
    /// What clients can wait for in it.
    pub(crate) fn wanted(&self) -> Option<AwaitedKind> {
        match self.value() {
            ValueRef::Collection(Collection::List(_)) => Some(AwaitedKind::List),
            ValueRef::Collection(Collection::SortedSet(_)) => Some(AwaitedKind::SortedSet),
            ValueRef::Collection(_) | ValueRef::String(_) => None,
        }
    }

    /// A key with a string.
    pub(crate) fn string(key: &[u8], value: &[u8]) -> Body {
        let length = key.len().saturating_add(value.len());
        if let (true, Ok(key_length), Ok(value_length)) = (
            length <= INLINE_BYTES,
            u8::try_from(key.len()),
            u8::try_from(value.len()),
        ) {
            let mut bytes = [0; INLINE_BYTES];
            let (front, rest) = bytes.split_at_mut(key.len());
            front.copy_from_slice(key);
            rest[..value.len()].copy_from_slice(value);
            return Body::Inline {
                key: key_length,
                value: value_length,
                bytes,
            };
        }
        if value.len() >= SHARED_BYTES_MIN {
            return Body::Long {
                key: key.into(),
                value: value.into(),
            };
        }
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        let key = u32::try_from(key.len()).expect("a request is far below 4 GiB");
        Body::Packed {
            bytes: bytes.into_boxed_slice(),
            key,
        }
    }

    /// A key with a collection.
    pub(crate) fn collection(key: &[u8], value: impl Into<Collection>) -> Body {
        Body::Composite {
            key: key.into(),
            value: value.into(),
        }
    }

    /// The same value under another key.
    pub(crate) fn renamed(&self, key: &[u8]) -> Body {
        match self {
            Body::Vacant | Body::Inline { .. } | Body::Packed { .. } => match self.value() {
                ValueRef::String(value) => Body::string(key, value),
                ValueRef::Collection(value) => Body::collection(key, value.clone()),
            },
            Body::Long { value, .. } => Body::Long {
                key: key.into(),
                value: Arc::clone(value),
            },
            Body::Composite { value, .. } => Body::Composite {
                key: key.into(),
                value: value.clone(),
            },
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Body::Vacant => &[],
            Body::Inline { key, bytes, .. } => &bytes[..usize::from(*key)],
            Body::Packed { bytes, key } => &bytes[..*key as usize],
            Body::Long { key, .. } | Body::Composite { key, .. } => key,
        }
    }

    pub(crate) fn value(&self) -> ValueRef<'_> {
        match self {
            Body::Vacant => ValueRef::String(&[]),
            Body::Inline { key, value, bytes } => {
                let start = usize::from(*key);
                ValueRef::String(&bytes[start..start.saturating_add(usize::from(*value))])
            }
            Body::Packed { bytes, key } => ValueRef::String(&bytes[*key as usize..]),
            Body::Long { value, .. } => ValueRef::String(value),
            Body::Composite { value, .. } => ValueRef::Collection(value),
        }
    }

    /// The string where it lies alone, to be shared.
    pub(crate) fn shared(&self) -> Option<&Arc<[u8]>> {
        match self {
            Body::Long { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The collection, to be changed.
    pub(crate) fn collection_mut(&mut self) -> Option<&mut Collection> {
        match self {
            Body::Composite { value, .. } => Some(value),
            _ => None,
        }
    }
}

fn stamp(database: u8, position: LogPosition) -> u64 {
    debug_assert!(database < DATABASES, "a database beyond the last one");
    debug_assert!(
        position.get() >> (u64::BITS - POSITION_SHIFT) == 0,
        "positions use 59 bits"
    );
    (position.get() << POSITION_SHIFT) | u64::from(database)
}

/// Keys and strings of up to this many bytes together need no allocation.
const INLINE_BYTES: usize = 37;
const POSITION_SHIFT: u32 = 5;
const READ_MASK: u64 = 0x10;
const DATABASE_MASK: u64 = 0xf;

const _: () = assert!(size_of::<Entry>() == 64, "an entry is one cache line");

/// What the allocator adds to a piece, and the count of those who share it.
const ALLOCATION_BYTES: usize = 16;

/// A key's link in the index, with its share of links that are free.
const LINK_BYTES: usize = 16;
