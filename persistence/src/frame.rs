//! The bytes of one frame: written with `encode` and `seal`, read with `parse`.
//!
//! Invariant: a frame proves itself. Its mark and checksum depend on the random salt of its segment, so
//! that neither remains of another segment nor bytes chosen by a client can pass for a frame of this one.
//! Whether a frame is the expected one is for the reader of the stream to judge.
//!
//! Layout, little-endian, 8-byte aligned, zero-padded to 8 bytes:
//! `0 mark u32 | 4 crc32c u32 of all that follows | 8 payload bytes u32 | 12 kind u8 | 13 checkpoint mark u8 |
//! 14 zero u16 | 16 position u64 | 24 node time u64 | 32 durable position u64 | 40 payload`

use crate::position::{FrameKind, Position};

/// One frame of the log, as recovery gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its number in the stream.
    pub position: Position,
    /// The caller's code for it.
    pub kind: u8,
    /// The node time handed to `append`, in nanoseconds.
    pub node_time_ns: u64,
    /// What the caller stored.
    pub payload: &'a [u8],
}

/// A frame that keeps its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedFrame {
    /// Its number in the stream.
    pub position: Position,
    /// The caller's code for it.
    pub kind: u8,
    /// The node time handed to `append`, in nanoseconds.
    pub node_time_ns: u64,
    /// What the caller stored.
    pub payload: Vec<u8>,
}

impl From<Frame<'_>> for OwnedFrame {
    fn from(frame: Frame<'_>) -> OwnedFrame {
        OwnedFrame {
            position: frame.position,
            kind: frame.kind,
            node_time_ns: frame.node_time_ns,
            payload: frame.payload.to_vec(),
        }
    }
}

/// A frame together with what only the log itself needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParsedFrame<'a> {
    pub(crate) frame: Frame<'a>,
    pub(crate) kind: FrameKind,
    /// Everything up to here was durable when the frame was written.
    pub(crate) durable: Position,
    /// Its length in the file, padding included.
    pub(crate) bytes: usize,
}

/// What makes the frames of one segment its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt {
    mark: u32,
    seed: u32,
}

impl Salt {
    /// The salt for this random number.
    pub(crate) fn new(random: u64) -> Salt {
        let bytes = random.to_le_bytes();
        let half = |from: usize| u32_at(&bytes, from);
        // A mark of zero would make untouched space look like the start of a frame.
        Salt {
            mark: half(0) | 1,
            seed: half(4),
        }
    }
}

/// The bytes a frame with this payload takes in the file.
pub(crate) const fn bytes_for(payload_bytes: u64) -> u64 {
    // A payload is bounded far below; a sum that did not fit would be no frame of any segment.
    match payload_bytes
        .saturating_add(HEADER_BYTES as u64)
        .checked_next_multiple_of(ALIGNMENT as u64)
    {
        Some(bytes) => bytes,
        None => u64::MAX,
    }
}

/// The largest payload of a frame that takes at most `bytes` in the file.
pub(crate) const fn payload_within(bytes: u64) -> u64 {
    let aligned = bytes & !UNALIGNED_BITS;
    aligned.saturating_sub(HEADER_BYTES as u64)
}

/// Appends a frame to `out`. Mark, checksum and durable position are left to `seal`.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    position: Position,
    kind: FrameKind,
    node_time_ns: u64,
    payload: &[u8],
) {
    let length = u32::try_from(payload.len()).expect("the appender bounds the payload below 2^30");
    let mut head = [0; HEADER_BYTES];
    head[8..12].copy_from_slice(&length.to_le_bytes());
    head[12] = kind.code();
    head[13] = kind.mark();
    head[16..24].copy_from_slice(&position.get().to_le_bytes());
    head[24..32].copy_from_slice(&node_time_ns.to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
}

/// What `encode` wrote of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) kind: FrameKind,
    pub(crate) position: Position,
    /// The frame's length in the file.
    pub(crate) bytes: usize,
}

/// The frame that `encode` wrote at the start of `bytes`.
pub(crate) fn peek(bytes: &[u8]) -> Encoded {
    let payload_bytes = u32_at(bytes, 8) as usize;
    let kind =
        FrameKind::from_bytes(bytes[12], bytes[13]).expect("encode stores a kind that exists");
    Encoded {
        kind,
        position: Position::from_raw(u64_at(bytes, 16)),
        bytes: HEADER_BYTES
            .saturating_add(payload_bytes)
            .next_multiple_of(ALIGNMENT),
    }
}

/// Completes one encoded frame, which is exactly `frame`, for the segment with this salt.
pub(crate) fn seal(frame: &mut [u8], salt: Salt, durable: Position) {
    frame[32..40].copy_from_slice(&durable.get().to_le_bytes());
    let checksum = crc32c::crc32c_append(salt.seed, &frame[8..]);
    frame[0..4].copy_from_slice(&salt.mark.to_le_bytes());
    frame[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The frame at the start of `bytes`, or why there is none. Never panics, whatever the bytes are.
pub(crate) fn parse(bytes: &[u8], salt: Salt) -> Result<ParsedFrame<'_>, Flaw> {
    if bytes.len() < HEADER_BYTES {
        return Err(Flaw::CutShort);
    }
    if u32_at(bytes, 0) != salt.mark {
        return Err(Flaw::NoMark);
    }
    let payload_end = HEADER_BYTES
        .checked_add(u32_at(bytes, 8) as usize)
        .ok_or(Flaw::CutShort)?;
    let end = payload_end
        .checked_next_multiple_of(ALIGNMENT)
        .ok_or(Flaw::CutShort)?;
    let sealed = bytes.get(8..end).ok_or(Flaw::CutShort)?;
    if crc32c::crc32c_append(salt.seed, sealed) != u32_at(bytes, 4) {
        return Err(Flaw::Checksum);
    }
    let kind = FrameKind::from_bytes(bytes[12], bytes[13]).ok_or(Flaw::Checksum)?;
    let frame = Frame {
        position: Position::from_raw(u64_at(bytes, 16)),
        kind: kind.code(),
        node_time_ns: u64_at(bytes, 24),
        payload: &bytes[HEADER_BYTES..payload_end],
    };
    Ok(ParsedFrame {
        frame,
        kind,
        durable: Position::from_raw(u64_at(bytes, 32)),
        bytes: end,
    })
}

/// How long the frame at the start of `bytes` says that it is, with the longest padding; 0 where there is no beginning of one.
#[inline]
pub(crate) fn claimed_bytes(bytes: &[u8], salt: Salt) -> usize {
    if bytes.len() < HEADER_BYTES || u32_at(bytes, 0) != salt.mark {
        return 0;
    }
    let payload_end = HEADER_BYTES.saturating_add(u32_at(bytes, 8) as usize);
    payload_end.saturating_add(ALIGNMENT - 1)
}

/// Why there is no frame where one was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The bytes do not start with the segment's mark.
    NoMark,
    /// The frame would reach beyond the end.
    CutShort,
    /// The checksum does not match.
    Checksum,
}

#[inline]
fn u32_at(bytes: &[u8], from: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[from..][..4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], from: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[from..][..8]);
    u64::from_le_bytes(number)
}

/// The bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 40;
/// Every frame starts at a multiple of this.
pub(crate) const ALIGNMENT: usize = 8;
const UNALIGNED_BITS: u64 = ALIGNMENT as u64 - 1;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;

    fn sealed(payload: &[u8], salt: Salt) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(
            &mut bytes,
            Position::from_raw(7),
            FrameKind::checkpoint_end(9),
            11,
            payload,
        );
        assert_eq!(bytes.len() as u64, bytes_for(payload.len() as u64));
        seal(&mut bytes, salt, Position::from_raw(5));
        bytes
    }

    #[test]
    fn a_sealed_frame_is_read_back() {
        let salt = Salt::new(0x1234_5678_9abc_def0);
        for length in 0..20 {
            let payload: Vec<u8> = (0..length).collect();
            let bytes = sealed(&payload, salt);
            let parsed = parse(&bytes, salt).unwrap();
            assert_eq!(parsed.frame.payload, payload);
            assert_eq!(parsed.frame.position.get(), 7);
            assert_eq!((parsed.frame.kind, parsed.frame.node_time_ns), (9, 11));
            assert_eq!((parsed.durable.get(), parsed.bytes), (5, bytes.len()));
            assert!(parsed.kind.completes_checkpoint());
            assert_eq!(
                peek(&bytes),
                Encoded {
                    kind: FrameKind::checkpoint_end(9),
                    position: Position::from_raw(7),
                    bytes: bytes.len(),
                }
            );
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let salt = Salt::new(3);
        let bytes = sealed(b"some payload", salt);
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&broken, salt).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length], salt).is_err(), "length {length}");
        }
    }

    #[test]
    fn a_frame_of_another_segment_is_none_of_ours() {
        let bytes = sealed(b"x", Salt::new(1 << 32 | 8));
        assert_eq!(
            parse(&bytes, Salt::new(1 << 32 | 16)).unwrap_err(),
            Flaw::NoMark
        );
        assert_eq!(
            parse(&bytes, Salt::new(2 << 32 | 8)).unwrap_err(),
            Flaw::Checksum
        );
        assert_eq!(parse(&[0; 64], Salt::new(0)).unwrap_err(), Flaw::NoMark);
    }

    #[test]
    fn payload_within_is_the_inverse_of_bytes_for() {
        for bytes in 0..200 {
            let payload = payload_within(bytes);
            assert!(payload == 0 || bytes_for(payload) <= bytes, "{bytes}");
            assert!(bytes_for(payload + 1) > bytes, "{bytes}");
        }
    }
}
