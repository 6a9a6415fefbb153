//! The header of a segment: whose it is, what makes its frames its own, and what came before it.
//!
//! Invariant: a header is kept twice, in two sectors, each with its own checksum. One damaged copy is
//! survived; what cannot be explained by an interrupted first write is reported as damage, never guessed.
//!
//! Layout of a copy, little-endian: `0 "QUORLOCK" | 8 version u32 | 12 where frames begin u32 | 16 node id 20 bytes |
//! 36 flags u32 (zero in version 1) | 40 boot id 16 bytes | 56 incarnation u64 | 64 number u64 | 72 segment bytes u64 | 80 salt u64 |
//! 88 previous number u64 | 96 previous cut u64 | 104 first position u64 | 112 durable position u64 | 120 zero u32 |
//! 124 crc32c u32 of the 124 bytes before it`
//!
//! Every version begins with the mark and the version, so that an older program can name what it refuses. Versions
//! `OLDEST` to `NEWEST` are read, each segment by its own; `NEWEST` is written.

use crate::position::Position;

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The version of the format in which this segment is written.
    pub version: u32,
    /// A repair cut the stream before this segment, so its first position may lie beyond the next one.
    pub is_repaired: bool,
    /// Who wrote it.
    pub identity: LogIdentity,
    /// The number in the file's name.
    pub number: u64,
    /// The length of the file.
    pub segment_bytes: u64,
    /// The random number behind `frame::Salt`.
    pub(crate) salt: u64,
    /// Where the frames before this segment end.
    pub previous: Cut,
    /// The position of the first frame here.
    pub first_position: Position,
    /// Everything up to here was durable when the header was written.
    pub durable: Position,
}

/// Whose log it is. Written into every segment header; the log compares the node and passes the rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// The node, created once.
    pub node_id: [u8; 20],
    /// The boot of the machine.
    pub boot_id: [u8; 16],
    /// The node's count of its own starts.
    pub incarnation: u64,
}

/// Where the stream leaves a segment. What follows there does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment's number, 0 where there is none.
    pub segment: u64,
    /// The offset behind its last frame.
    pub offset: u64,
}

impl Cut {
    /// Nothing comes before.
    pub(crate) const BEGINNING: Cut = Cut {
        segment: 0,
        offset: 0,
    };
}

impl SegmentHeader {
    /// The first block of the segment's file: both copies, then zeros.
    pub(crate) fn encode(&self) -> [u8; BLOCK] {
        let mut copy = Vec::with_capacity(COPY_BYTES);
        copy.extend_from_slice(MAGIC);
        copy.extend_from_slice(&self.version.to_le_bytes());
        copy.extend_from_slice(&FRAMES_BEGIN.to_le_bytes());
        copy.extend_from_slice(&self.identity.node_id);
        let flags = if self.is_repaired { FLAG_REPAIRED } else { 0 };
        copy.extend_from_slice(&flags.to_le_bytes());
        copy.extend_from_slice(&self.identity.boot_id);
        for number in [
            self.identity.incarnation,
            self.number,
            self.segment_bytes,
            self.salt,
            self.previous.segment,
            self.previous.offset,
            self.first_position.get(),
            self.durable.get(),
        ] {
            copy.extend_from_slice(&number.to_le_bytes());
        }
        copy.extend_from_slice(&[0; 4]);
        copy.extend_from_slice(&crc32c::crc32c(&copy).to_le_bytes());
        let mut block = [0; BLOCK];
        block[..COPY_BYTES].copy_from_slice(&copy);
        block[SECOND_COPY..COPIES_BYTES].copy_from_slice(&copy);
        block
    }

    /// Why this header cannot belong to the file with this number and length.
    pub(crate) fn mismatch(&self, number: u64, length: u64) -> Option<String> {
        if self.number != number {
            return Some(format!("it says that it is segment {}", self.number));
        }
        if self.previous.segment >= number || self.segment_bytes != length {
            return Some(format!(
                "its header speaks of {} bytes after segment {}, the file has {length} bytes",
                self.segment_bytes, self.previous.segment
            ));
        }
        None
    }

    fn decode(copy: &[u8; COPY_BYTES]) -> Option<SegmentHeader> {
        let stored = u32::from_le_bytes(part(copy, 124));
        if crc32c::crc32c(&copy[..124]) != stored || copy[..8] != MAGIC[..] {
            return None;
        }
        let version = version(copy);
        if !(OLDEST..=NEWEST).contains(&version)
            || u32::from_le_bytes(part(copy, 12)) != FRAMES_BEGIN
        {
            return None;
        }
        let flags = match version {
            1 => 0,
            _ => u32::from_le_bytes(part(copy, 36)),
        };
        if flags & !FLAG_REPAIRED != 0 {
            return None;
        }
        let number = |from| u64::from_le_bytes(part(copy, from));
        Some(SegmentHeader {
            version,
            is_repaired: flags & FLAG_REPAIRED != 0,
            identity: LogIdentity {
                node_id: part(copy, 16),
                boot_id: part(copy, 40),
                incarnation: number(56),
            },
            number: number(64),
            segment_bytes: number(72),
            salt: number(80),
            previous: Cut {
                segment: number(88),
                offset: number(96),
            },
            first_position: Position::from_raw(number(104)),
            durable: Position::from_raw(number(112)),
        })
    }
}

/// What the start of a segment's file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstBlock {
    /// At least one copy is good; `is_whole` if everything in the block is as it was written.
    Header {
        /// The header.
        header: SegmentHeader,
        /// Whether both copies are good and the rest of the block is zero.
        is_whole: bool,
    },
    /// Nothing was ever written here, or it never reached the disk.
    Nothing,
    /// The first write was interrupted: nothing in this segment can have been durable.
    Interrupted,
    /// Both copies are damaged in a way no interrupted write explains.
    Damaged,
    /// A version this program does not know.
    UnknownVersion(u32),
}

/// Judges the first `BLOCK_BYTES` of a segment's file.
pub(crate) fn examine(block: &[u8; BLOCK]) -> FirstBlock {
    let first: &[u8; COPY_BYTES] = &part(block, 0);
    let second: &[u8; COPY_BYTES] = &part(block, SECOND_COPY);
    let decoded = [SegmentHeader::decode(first), SegmentHeader::decode(second)];
    if let Some(header) = decoded[0].or(decoded[1]) {
        let is_whole = header.encode() == *block;
        return FirstBlock::Header { header, is_whole };
    }
    // An interrupted write leaves version 0, so any other foreign number is one that was meant.
    let newer = |copy: &&[u8; COPY_BYTES]| copy[..8] == MAGIC[..] && version(copy) > NEWEST;
    if let Some(copy) = [first, second].into_iter().find(newer) {
        return FirstBlock::UnknownVersion(version(copy));
    }
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    match (is_zero(first), is_zero(second)) {
        (true, true) => FirstBlock::Nothing,
        (false, true) | (true, false) => FirstBlock::Interrupted,
        (false, false) => FirstBlock::Damaged,
    }
}

fn version(copy: &[u8; COPY_BYTES]) -> u32 {
    u32::from_le_bytes(part(copy, 8))
}

fn part<const LENGTH: usize>(bytes: &[u8], from: usize) -> [u8; LENGTH] {
    let mut part = [0; LENGTH];
    part.copy_from_slice(&bytes[from..][..LENGTH]);
    part
}

/// The oldest version of the format that this program reads.
pub(crate) const OLDEST: u32 = 1;
/// The newest version that this program reads, and the one it writes.
pub(crate) const NEWEST: u32 = 2;
/// Frames begin after a whole block, so that the header's page is written once and never again.
pub(crate) const BLOCK: usize = 4096;
/// The same, as an offset in a file.
pub(crate) const BLOCK_BYTES: u64 = BLOCK as u64;
/// The bytes of a header's block that hold something: both copies.
pub(crate) const COPIES_BYTES: usize = SECOND_COPY + COPY_BYTES;
const FRAMES_BEGIN: u32 = 4096;
const FLAG_REPAIRED: u32 = 1;
const MAGIC: &[u8; 8] = b"QUORLOCK";
const COPY_BYTES: usize = 128;
/// In another sector than the first, so that no single sector holds both.
const SECOND_COPY: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            version: NEWEST,
            is_repaired: false,
            identity: LogIdentity {
                node_id: [7; 20],
                boot_id: [9; 16],
                incarnation: 3,
            },
            number: 4,
            segment_bytes: 1 << 20,
            salt: 0xfeed,
            previous: Cut {
                segment: 2,
                offset: 4160,
            },
            first_position: Position::from_raw(12),
            durable: Position::from_raw(11),
        }
    }

    fn block() -> [u8; BLOCK] {
        header().encode()
    }

    #[test]
    fn a_header_is_read_back_whole() {
        assert_eq!(
            examine(&block()),
            FirstBlock::Header {
                header: header(),
                is_whole: true
            }
        );
        assert_eq!(examine(&[0; BLOCK]), FirstBlock::Nothing);
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_survived() {
        for bit in 0..BLOCK * 8 {
            let mut flipped = block();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                examine(&flipped),
                FirstBlock::Header {
                    header: header(),
                    is_whole: false
                },
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_first_write_cut_anywhere_is_no_damage() {
        for length in 0..SECOND_COPY + COPY_BYTES {
            let mut torn = block();
            torn[length..].fill(0);
            let expected = match length {
                0 => FirstBlock::Nothing,
                1..COPY_BYTES => FirstBlock::Interrupted,
                _ => FirstBlock::Header {
                    header: header(),
                    is_whole: false,
                },
            };
            // The checksum's last byte may happen to be zero; then the cut changes nothing.
            if torn[..COPY_BYTES] != block()[..COPY_BYTES] || length == 0 {
                assert_eq!(examine(&torn), expected, "length {length}");
            }
        }
    }

    #[test]
    fn both_copies_damaged_is_damage_and_a_newer_version_is_named() {
        let mut damaged = block();
        damaged[20] ^= 1;
        damaged[SECOND_COPY + 21] ^= 1;
        assert_eq!(examine(&damaged), FirstBlock::Damaged);
        let mut newer = block();
        newer[8] = 3;
        newer[SECOND_COPY + 8] = 3;
        assert_eq!(examine(&newer), FirstBlock::UnknownVersion(3));
        newer[..COPY_BYTES].fill(0xa5);
        assert_eq!(examine(&newer), FirstBlock::UnknownVersion(3));
    }

    #[test]
    fn each_version_is_read_by_its_own_rules() {
        for version in OLDEST..=NEWEST {
            let header = SegmentHeader {
                version,
                ..header()
            };
            let block = header.encode();
            let is_whole = true;
            assert_eq!(examine(&block), FirstBlock::Header { header, is_whole });
        }
        // Flags that are not known may change what the rest means.
        let mut flagged = block();
        for copy in [0, SECOND_COPY] {
            flagged[copy + 36] = 2;
            let sum = crc32c::crc32c(&flagged[copy..copy + 124]);
            flagged[copy + 124..copy + 128].copy_from_slice(&sum.to_le_bytes());
        }
        assert_eq!(examine(&flagged), FirstBlock::Damaged);
    }
}
