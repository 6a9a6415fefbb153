//! The control records of a node's log, and their bytes.
//!
//! The log stores opaque frames; this file gives the frames that are not key mutations their
//! meaning: which incarnation runs, whether it serves, how durable its replies are, and what it
//! might forget. Every record has a fixed layout, little endian, behind one version byte, so that
//! a record that does not decode is corruption and never a guess. All layouts that
//! were ever written can be read; the newest is written, or the oldest that says the same.
//!
//! What the records mean for a restart is decided in `restart`, not here.

pub mod kind;

pub use quorlock_clock::Boot;

use crate::relocation::Adoption;
use crate::stop::Stop;
use crate::time::{BootTime, NodeTime, RawTime};

/// How durable a reply is when it leaves, from weakest to strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// `appendonly no`: keys are not logged at all.
    Volatile = 0,
    /// `appendfsync no`: in the page cache; the system syncs when it likes.
    No = 1,
    /// `appendfsync everysec`: in the page cache; synced about once a second.
    Everysec = 2,
    /// `appendfsync always`: synced before the reply.
    Always = 3,
}

impl Durability {
    /// Redis's name for it; `Volatile` has none in Redis and is called `off`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Volatile => "off",
            Self::No => "no",
            Self::Everysec => "everysec",
            Self::Always => "always",
        }
    }

    /// Its number in a record.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The durability with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Volatile, Self::No, Self::Everysec, Self::Always]
            .get(usize::from(code))
            .copied()
    }
}

/// A restart delay that has not been waited out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    /// Node time before which the node serves no locks, valid in the boot that wrote it.
    pub until: NodeTime,
    /// The whole delay in nanoseconds, waited anew in another boot.
    pub length_ns: u64,
    /// What made it necessary.
    pub cause: Stop,
}

/// Up to where a node may have taken fences of its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ceiling {
    /// It has taken none above this one.
    Known(u64),
    /// The same as far as its log knows, which may have lost some.
    Uncertain(u64),
}

impl Ceiling {
    /// The largest: a client reads a fence as a signed number.
    pub const MAX: u64 = i64::MAX.unsigned_abs();
    /// Of a node that never took a fence.
    pub const NONE: Self = Self::Known(0);

    /// What the log knows.
    pub const fn value(self) -> u64 {
        match self {
            Self::Known(value) | Self::Uncertain(value) => value,
        }
    }
}

/// The facts an incarnation starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// Counts the starts of this node, from 1.
    pub incarnation: u64,
    /// The boot it runs in.
    pub boot: Boot,
    /// The fingerprint of its data directory, which a copied or restored one does not have.
    pub fingerprint: u64,
    /// The durability of its first replies.
    pub durability: Durability,
    /// Node time is `raw clock - raw + base`: the pair that ties it to this boot's raw clock.
    pub base: NodeTime,
    /// The raw clock's reading at `base`.
    pub raw: RawTime,
    /// The wall clock's anchor: microseconds since the epoch ...
    pub wall_us: u64,
    /// ... at this reading of the boot-time clock.
    pub boottime: BootTime,
    /// The delay it has to wait out before it serves.
    pub pending: Option<Pending>,
    /// `restart-delay-max` in force, in nanoseconds: the longest TTL that this incarnation leaves
    /// to a delay. 0 where the record is of layout version 1, which does not say.
    pub cap_ns: u64,
    /// Where its fences begin. Nodes that wrote layout versions 1 and 2 took none.
    pub ceiling: Ceiling,
}

/// How durable replies are from here on, and which TTLs are left to a delay: a change while the
/// node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    /// The durability of replies.
    pub durability: Durability,
    /// `restart-delay-max` in nanoseconds; 0 in layout version 1, where it never changed.
    pub cap_ns: u64,
    /// Everything before this record that a weaker mode had revealed was synced when the record
    /// was written. So `durability` is the weakest since the last complete sync.
    pub is_complete: bool,
}

/// What a checkpoint's first frame says, so that everything before it can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Control {
    /// The running incarnation. Its cap is the largest since it started.
    pub start: Start,
    /// Whether it serves.
    pub serving: bool,
    /// The weakest durability since its start, or since the last complete sync.
    pub weakest: Durability,
    /// The bound on TTLs in force, in nanoseconds.
    pub ttl_bound_ns: u64,
}

/// One control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlRecord {
    /// The node was created.
    Init,
    /// An incarnation began.
    Start(Start),
    /// It serves.
    Serving,
    /// Its replies are this durable from here on.
    Mode(Mode),
    /// The TTL bound: no longer TTL than this many nanoseconds is granted until the next such record.
    Promise(u64),
    /// It ended in order; a delay that was not waited out goes with it.
    Shutdown(Option<Pending>),
    /// Time went on.
    Tick,
    /// A checkpoint begins.
    Control(Control),
    /// A repair cut off durable data. No lock that went with it, and that a delay can cover, had
    /// a longer TTL than this many nanoseconds: the largest cap and TTL bound that could be read
    /// anywhere in the log, or were configured.
    Lost(u64),
    /// The anchored wall clock moved otherwise than boot time alone would have moved it: it
    /// follows a step of the real one. A restart in the same boot continues from here.
    Wall {
        /// Where it stands, in microseconds since the epoch ...
        wall_us: u64,
        /// ... at this reading of the boot-time clock.
        boottime: BootTime,
    },
    /// The run that serves from here on logs no keys and has recovered some. The last of them ends
    /// at this node time: a crash that forgets them has to be waited out until then, also where their
    /// TTLs are above the TTL bound and the caps of later configurations.
    Owed(NodeTime),
    /// No fence above this is taken until the next such record.
    Ceiling(Ceiling),
    /// The directory was released, to be moved: none starts from here until an adoption is on record. It holds the digest of
    /// the receipt.
    Released([u8; 32]),
    /// A released directory is at home where it is now.
    Adopted(Adoption),
}

/// Why a control record's bytes are not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The frame kind is not one this version knows.
    #[error("frame kind {0} is not known to this version")]
    Kind(u8),
    /// The record was written by a version with another layout.
    #[error(
        "control record of kind {kind} has layout version {version}, this version reads 1 to {newest}"
    )]
    Version {
        /// The frame kind.
        kind: u8,
        /// The layout version found.
        version: u8,
        /// The newest layout version of this kind that is known.
        newest: u8,
    },
    /// Too short, too long, or a value out of range.
    #[error("control record of kind {0} does not have the layout of that kind")]
    Layout(u8),
}

impl ControlRecord {
    /// The frame kind this record is stored under.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Init => kind::INIT,
            Self::Start(_) => kind::START,
            Self::Serving => kind::SERVING,
            Self::Mode(_) => kind::MODE,
            Self::Promise(_) => kind::PROMISE,
            Self::Shutdown(_) => kind::SHUTDOWN,
            Self::Tick => kind::TICK,
            Self::Control(_) => kind::CONTROL,
            Self::Lost(_) => kind::LOST,
            Self::Wall { .. } => kind::WALL,
            Self::Owed(_) => kind::OWED,
            Self::Ceiling(_) => kind::CEILING,
            Self::Released(_) => kind::RELEASED,
            Self::Adopted(_) => kind::ADOPTED,
        }
    }

    /// The oldest layout that can say it, so that earlier programs can read the log of a node that takes no fences.
    fn version(&self) -> u8 {
        match self {
            Self::Start(start) | Self::Control(Control { start, .. })
                if start.ceiling == Ceiling::NONE =>
            {
                2
            }
            _ => version_of(self.kind()),
        }
    }

    /// Appends the record's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.version());
        match self {
            Self::Init | Self::Serving | Self::Tick => {}
            Self::Start(start) => encode_start(start, out),
            Self::Mode(mode) => {
                out.push(mode.durability.code());
                out.extend_from_slice(&mode.cap_ns.to_le_bytes());
                out.push(u8::from(mode.is_complete));
            }
            Self::Promise(ttl_ns) | Self::Lost(ttl_ns) => {
                out.extend_from_slice(&ttl_ns.to_le_bytes())
            }
            Self::Shutdown(pending) => encode_pending(pending.as_ref(), out),
            Self::Control(control) => {
                encode_start(&control.start, out);
                out.push(u8::from(control.serving));
                out.push(control.weakest.code());
                out.extend_from_slice(&control.ttl_bound_ns.to_le_bytes());
            }
            Self::Wall { wall_us, boottime } => {
                out.extend_from_slice(&wall_us.to_le_bytes());
                out.extend_from_slice(&boottime.as_nanos().to_le_bytes());
            }
            Self::Owed(until) => out.extend_from_slice(&until.as_nanos().to_le_bytes()),
            Self::Ceiling(ceiling) => encode_ceiling(*ceiling, out),
            Self::Released(digest) => out.extend_from_slice(digest),
            Self::Adopted(adoption) => {
                out.extend_from_slice(&adoption.incarnation.to_le_bytes());
                out.extend_from_slice(&adoption.fingerprint.to_le_bytes());
                out.push(u8::from(adoption.is_proven));
            }
        }
    }

    /// Reads the record of a frame of this kind.
    ///
    /// # Errors
    /// When the bytes are not exactly one record of this kind.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, RecordError> {
        let (&version, rest) = payload.split_first().ok_or(RecordError::Layout(kind))?;
        let newest = version_of(kind);
        if version == 0 || version > newest {
            return Err(RecordError::Version {
                kind,
                version,
                newest,
            });
        }
        let mut fields = FieldReader { rest, version };
        let record = fields.record(kind)?.ok_or(RecordError::Layout(kind))?;
        if fields.rest.is_empty() {
            Ok(record)
        } else {
            Err(RecordError::Layout(kind))
        }
    }
}

fn encode_start(start: &Start, out: &mut Vec<u8>) {
    out.extend_from_slice(&start.incarnation.to_le_bytes());
    out.extend_from_slice(&start.boot.0);
    out.extend_from_slice(&start.fingerprint.to_le_bytes());
    out.push(start.durability.code());
    for number in [
        start.base.as_nanos(),
        start.raw.as_nanos(),
        start.wall_us,
        start.boottime.as_nanos(),
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    encode_pending(start.pending.as_ref(), out);
    out.extend_from_slice(&start.cap_ns.to_le_bytes());
    if start.ceiling != Ceiling::NONE {
        encode_ceiling(start.ceiling, out);
    }
}

fn encode_ceiling(ceiling: Ceiling, out: &mut Vec<u8>) {
    out.push(u8::from(matches!(ceiling, Ceiling::Known(_))));
    out.extend_from_slice(&ceiling.value().to_le_bytes());
}

fn encode_pending(pending: Option<&Pending>, out: &mut Vec<u8>) {
    out.push(pending.map_or(0, |pending| pending.cause.code()));
    if let Some(pending) = pending {
        out.extend_from_slice(&pending.until.as_nanos().to_le_bytes());
        out.extend_from_slice(&pending.length_ns.to_le_bytes());
    }
}

/// Takes fixed-size fields off the front; `None` means the bytes do not fit the layout.
struct FieldReader<'a> {
    rest: &'a [u8],
    /// The layout version of the record they belong to.
    version: u8,
}

impl FieldReader<'_> {
    fn record(&mut self, kind: u8) -> Result<Option<ControlRecord>, RecordError> {
        Ok(match kind {
            kind::INIT => Some(ControlRecord::Init),
            kind::SERVING => Some(ControlRecord::Serving),
            kind::TICK => Some(ControlRecord::Tick),
            kind::START => self.start().map(ControlRecord::Start),
            kind::MODE => self.mode().map(ControlRecord::Mode),
            kind::PROMISE => self.number().map(ControlRecord::Promise),
            kind::SHUTDOWN => self.pending().map(ControlRecord::Shutdown),
            kind::CONTROL => self.control().map(ControlRecord::Control),
            kind::LOST => self.number().map(ControlRecord::Lost),
            kind::WALL => self.wall(),
            kind::OWED => self
                .number()
                .map(|ns| ControlRecord::Owed(NodeTime::from_nanos(ns))),
            kind::CEILING => self.ceiling().map(ControlRecord::Ceiling),
            kind::RELEASED => self.bytes().map(ControlRecord::Released),
            kind::ADOPTED => self.adoption().map(ControlRecord::Adopted),
            other => return Err(RecordError::Kind(other)),
        })
    }

    fn control(&mut self) -> Option<Control> {
        Some(Control {
            start: self.start()?,
            serving: self.flag()?,
            weakest: self.durability()?,
            ttl_bound_ns: self.number()?,
        })
    }

    fn start(&mut self) -> Option<Start> {
        Some(Start {
            incarnation: self.number()?,
            boot: Boot(self.bytes()?),
            fingerprint: self.number()?,
            durability: self.durability()?,
            base: NodeTime::from_nanos(self.number()?),
            raw: RawTime::from_nanos(self.number()?),
            wall_us: self.number()?,
            boottime: BootTime::from_nanos(self.number()?),
            pending: self.pending()?,
            cap_ns: self.cap()?,
            ceiling: match self.version {
                1 | 2 => Ceiling::NONE,
                _ => self.ceiling()?,
            },
        })
    }

    fn ceiling(&mut self) -> Option<Ceiling> {
        let is_certain = self.flag()?;
        let value = self.number().filter(|value| *value <= Ceiling::MAX)?;
        Some(match is_certain {
            false => Ceiling::Uncertain(value),
            true => Ceiling::Known(value),
        })
    }

    fn adoption(&mut self) -> Option<Adoption> {
        Some(Adoption {
            incarnation: self.number()?,
            fingerprint: self.number()?,
            is_proven: self.flag()?,
        })
    }

    fn mode(&mut self) -> Option<Mode> {
        Some(Mode {
            durability: self.durability()?,
            cap_ns: self.cap()?,
            is_complete: self.version > 1 && self.flag()?,
        })
    }

    /// Not part of layout version 1.
    fn cap(&mut self) -> Option<u64> {
        if self.version == 1 {
            Some(0)
        } else {
            self.number()
        }
    }

    fn pending(&mut self) -> Option<Option<Pending>> {
        let [code] = self.bytes()?;
        if code == 0 {
            return Some(None);
        }
        let cause = Stop::from_code(code)?;
        let until = NodeTime::from_nanos(self.number()?);
        Some(Some(Pending {
            until,
            length_ns: self.number()?,
            cause,
        }))
    }

    fn durability(&mut self) -> Option<Durability> {
        let [code] = self.bytes()?;
        Durability::from_code(code)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.bytes()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn wall(&mut self) -> Option<ControlRecord> {
        Some(ControlRecord::Wall {
            wall_us: self.number()?,
            boottime: BootTime::from_nanos(self.number()?),
        })
    }

    fn number(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*field)
    }
}

/// The newest layout version of a kind, which is the one that is written.
const fn version_of(kind: u8) -> u8 {
    match kind {
        kind::START | kind::CONTROL => 3,
        kind::MODE => 2,
        _ => 1,
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
