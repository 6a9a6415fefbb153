//! Frame kinds of a node's log. Numbers are part of the on-disk format and never reused.

/// The mutations of one command, script or transaction.
pub const GROUP: u8 = 1;
/// An incarnation began; see [`super::Start`].
pub const START: u8 = 2;
/// The incarnation may grant from here on.
pub const SERVING: u8 = 3;
/// The durability of replies changed.
pub const MODE: u8 = 4;
/// The bound on TTLs that may be granted from here on.
pub const PROMISE: u8 = 5;
/// The incarnation ended in order.
pub const SHUTDOWN: u8 = 7;
/// Node time, kept on record while keys with a TTL live.
pub const TICK: u8 = 8;
/// Opens a checkpoint; see [`super::Control`].
pub const CONTROL: u8 = 9;
/// A part of a checkpoint: full replacements of keys.
pub const SNAPSHOT: u8 = 10;
/// Completes a checkpoint.
pub const END: u8 = 11;
/// The node was created and has never run.
pub const INIT: u8 = 12;
/// Durable data was lost, and an operator had the log repaired.
pub const LOST: u8 = 13;
/// Where the anchored wall clock stands; see [`super::ControlRecord::Wall`].
pub const WALL: u8 = 14;
/// What a run without a log of keys has recovered; see [`super::ControlRecord::Owed`].
pub const OWED: u8 = 15;
/// The ceiling of the node's fences; see [`super::Ceiling`].
pub const CEILING: u8 = 16;
/// The directory was released, to be moved; see [`crate::relocation`].
pub const RELEASED: u8 = 17;
/// A released directory was adopted; see [`crate::relocation::Adoption`].
pub const ADOPTED: u8 = 18;
