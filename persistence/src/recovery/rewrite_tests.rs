//! What no claim covers is written again, and only if it is still what was read.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::*;
use crate::disk::MemoryDisk;
use crate::frame::{self, Salt};
use crate::header::{Cut, LogIdentity, SegmentHeader};
use crate::position::FrameKind;

const SALT: u64 = 7;
const FIRST: Position = Position::from_raw(5);

/// Of a segment whose header says that everything up to `durable` was durable then.
fn header(durable: u64) -> SegmentHeader {
    SegmentHeader {
        version: header::NEWEST,
        is_repaired: false,
        identity: LogIdentity {
            node_id: [1; 20],
            boot_id: [2; 16],
            incarnation: 3,
        },
        number: 2,
        segment_bytes: 1 << 16,
        salt: SALT,
        previous: Cut {
            segment: 1,
            offset: 4096,
        },
        first_position: FIRST,
        durable: Position::from_raw(durable),
    }
}

/// A segment with two frames, and where they end.
fn segment() -> (Vec<u8>, usize) {
    let mut bytes = header(4).encode().to_vec();
    for position in [FIRST, FIRST.next()] {
        let begin = bytes.len();
        frame::encode(&mut bytes, position, FrameKind::new(1), 0, b"payload");
        frame::seal(&mut bytes[begin..], Salt::new(SALT), Position::ZERO);
    }
    let end = bytes.len();
    (bytes, end)
}

fn scan(durable: u64, bytes: &[u8]) -> Scan {
    let mut window = Window::holding(bytes.to_vec());
    Scan::read(header(durable), &mut window, None).unwrap()
}

/// Which of header and frames are on the disk in the end, of a file whose first sync has failed. It holds `now`, and
/// was scanned when it held `then`.
fn kept(then: &[u8], now: &[u8], durable: Position) -> io::Result<(bool, bool)> {
    let scan = scan(4, then);
    let disk = MemoryDisk::with_power_loss();
    let file = disk.create("segment").unwrap();
    file.write_at(0, now).unwrap();
    disk.fail_sync_after(0, 5);
    file.sync().unwrap_err();
    rewrite_uncovered(&*file, file.len().unwrap(), &scan, durable)?;
    file.sync().unwrap();
    let left = disk.after_eviction().open("segment").unwrap();
    let mut bytes = vec![0; now.len()];
    left.read_at(0, &mut bytes).unwrap();
    let is_kept = |from, to: usize| bytes[from..to] == now[from..to];
    Ok((is_kept(0, header::BLOCK), is_kept(header::BLOCK, now.len())))
}

#[test]
fn what_no_claim_covers_is_written_again() {
    let (bytes, _) = segment();
    let kept = |durable| kept(&bytes, &bytes, durable).unwrap();
    assert_eq!(kept(FIRST.previous()), (true, true));
    // The header was durable with the first frame.
    assert_eq!(kept(FIRST), (false, true));
    assert_eq!(kept(FIRST.next()), (false, false));
}

#[test]
fn a_segment_is_written_again_only_if_it_is_still_what_was_read() {
    let (bytes, end) = segment();
    let again = |now: &[u8]| kept(&bytes, now, FIRST.previous());
    let mut other = bytes.clone();
    let header = SegmentHeader {
        number: 9,
        ..header(4)
    };
    other[..header::BLOCK].copy_from_slice(&header.encode());
    assert!(again(&other).is_err(), "another header");
    assert!(again(&bytes[..header::BLOCK / 2]).is_err(), "half a header");
    assert!(again(&bytes[..end - 1]).is_err(), "cut short");
    for damaged in [header::BLOCK, end - 1] {
        let mut bytes = bytes.clone();
        bytes[damaged] ^= 1;
        assert!(again(&bytes).is_err(), "a byte at {damaged}");
    }
}

/// A sync has failed, the header was read from the page cache, and all frames are gone.
#[test]
fn a_header_that_no_sync_covered_is_written_again_also_where_its_frames_are_gone() {
    for (durable, is_known) in [(3, false), (4, false), (5, true), (6, true)] {
        let (mut bytes, _) = segment();
        bytes[header::BLOCK..].fill(0);
        let scan = scan(durable, &bytes);
        let durable = Position::from_raw(durable);
        assert_eq!(
            is_covered(&scan, durable),
            is_known,
            "durable up to {durable}"
        );
    }
    let (mut bytes, _) = segment();
    bytes[header::BLOCK..].fill(0);
    let (header, _) = kept(&bytes, &bytes, FIRST.previous()).unwrap();
    assert!(header);
}
