//! What no claim covers is written again, and only if it is still what was read.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;

use super::*;
use crate::disk::{Mapping, MemoryDisk};
use crate::header::{Cut, LogIdentity};
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

fn file_with(bytes: &[u8]) -> Arc<dyn File> {
    let file = MemoryDisk::new().create("segment").unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

#[test]
fn a_header_is_written_again_only_if_it_is_still_the_one_that_was_read() {
    let (bytes, _) = segment();
    assert!(rewrite_header(&*file_with(&bytes), &header(4)).is_ok());
    let another = SegmentHeader {
        number: 9,
        ..header(4)
    };
    assert!(rewrite_header(&*file_with(&bytes), &another).is_err());
    let cut_short = file_with(&bytes[..header::BLOCK / 2]);
    assert!(rewrite_header(&*cut_short, &header(4)).is_err());
}

#[test]
fn frames_are_written_again_only_if_they_are_still_those_that_were_read() {
    let (bytes, end) = segment();
    let again = |bytes: &[u8], first| {
        let stretch = Stretch {
            from: header::BLOCK,
            to: end,
            first,
        };
        rewrite_frames(
            &*file_with(bytes),
            Salt::new(SALT),
            stretch,
            &mut Vec::new(),
        )
    };
    assert!(again(&bytes, FIRST).is_ok());
    assert!(again(&bytes, FIRST.next()).is_err(), "other frames");
    assert!(again(&bytes[..end - 1], FIRST).is_err(), "cut short");
    for damaged in [header::BLOCK, end - 1] {
        let mut bytes = bytes.clone();
        bytes[damaged] ^= 1;
        assert!(again(&bytes, FIRST).is_err(), "a byte at {damaged}");
    }
}

/// A sync has failed, the header was read from the page cache, and all frames are gone.
#[test]
fn a_header_that_no_sync_covered_is_written_again_also_where_its_frames_are_gone() {
    for (durable, is_covered) in [(3, false), (4, false), (5, true), (6, true)] {
        let (mut bytes, _) = segment();
        bytes[header::BLOCK..].fill(0);
        let scan = Scan::read(header(durable), Mapping::copied(bytes), None);
        let again = uncovered(&[scan]);
        assert_eq!(again.is_empty(), is_covered, "durable up to {durable}");
        assert!(
            again
                .iter()
                .all(|one| one.with_header && one.stretches.is_empty())
        );
    }
}
