//! Files that no writer has made, with marks and checksums that match: what somebody can make who knows the format, and what
//! no checksum stops.

use quorlock_fuzz::Choices;
use quorlock_persistence::{Disk, MemoryDisk};

use crate::{go_on, identity, read, segment};

pub(crate) fn check(mut choices: Choices<'_>) {
    let disk = MemoryDisk::new();
    disk.seed(1);
    let mut next = 1;
    let mut previous = (0, 0);
    let mut frames_made = 0;
    for number in 1..=1 + choices.below(4) as u64 {
        let mut made = Segment::new(number, previous, next, &mut choices);
        for _ in 0..choices.below(12) {
            made.append(&mut choices);
            frames_made += 1;
        }
        (next, previous) = (made.next, (number, made.bytes.len() as u64));
        let bytes = made.finish(&mut choices);
        let file = disk.create(&segment(number)).expect("it is a new name");
        file.write_at(0, &bytes).expect("memory takes it");
        file.sync().expect("memory takes it");
    }
    disk.sync_dir().expect("memory takes it");
    let (recovery, frames) = match read(&disk) {
        Ok(read) => read,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(frames.len() <= frames_made, "more frames than there are");
    let is_rising = frames.is_sorted_by(|one, other| one.position < other.position);
    let last = recovery.summary().last.get();
    if last < POSITION_MAX {
        assert!(is_rising, "positions do not rise");
        go_on(recovery, &frames, &disk, identity(9));
    }
}

/// A file that is being made.
struct Segment {
    bytes: Vec<u8>,
    header: Vec<u8>,
    salt: u64,
    next: u64,
    durable: u64,
}

impl Segment {
    /// What is wrong with it, if anything is, the input says.
    fn new(number: u64, previous: (u64, u64), next: u64, choices: &mut Choices<'_>) -> Self {
        let wrong = choices.byte();
        let salt = choices.long();
        let durable = match choices.byte() % 4 {
            0 => choices.long(),
            1 => next.saturating_sub(1),
            _ => 0,
        };
        // The length is put in at the end.
        let mut numbers = [1, number, 0, salt, previous.0, previous.1, next, durable];
        if wrong % 4 == 1 {
            numbers[choices.below(8)] = choices.long();
        }
        let mut header = b"QUORLOCK".to_vec();
        let version: u32 = if wrong & 8 == 0 { 2 } else { 1 };
        header.extend_from_slice(&version.to_le_bytes());
        header.extend_from_slice(&4096_u32.to_le_bytes());
        header.extend_from_slice(&[1; 20]);
        header.extend_from_slice(&u32::from(wrong & 16 != 0).to_le_bytes());
        header.extend_from_slice(&[2; 16]);
        numbers
            .iter()
            .for_each(|number| header.extend_from_slice(&number.to_le_bytes()));
        header.extend_from_slice(&[0; 4]);
        Self {
            bytes: vec![0; 4096],
            header,
            salt: numbers[3],
            next: numbers[6],
            durable,
        }
    }

    /// Appends a frame that has the right mark and checksum.
    fn append(&mut self, choices: &mut Choices<'_>) {
        let kind = choices.byte();
        let position = match kind & 3 {
            1 => choices.long(),
            _ => self.next,
        };
        let durable = match kind & 12 {
            4 => choices.long(),
            _ => self.durable,
        };
        let payload = choices.bytes(usize::from(kind >> 4) * 8);
        let length = match choices.byte() {
            255 => choices.long().to_le_bytes()[..4].to_vec(),
            _ => u32::try_from(payload.len())
                .expect("it is short")
                .to_le_bytes()
                .to_vec(),
        };
        let [code, mark] = [choices.byte() % 72, choices.byte() % 4];
        let mut sealed = length;
        sealed.extend_from_slice(&[code, mark, 0, 0]);
        for number in [position, choices.long(), durable] {
            sealed.extend_from_slice(&number.to_le_bytes());
        }
        sealed.extend_from_slice(payload);
        sealed.resize(sealed.len().next_multiple_of(8), 0);
        let half =
            |shift: u32| u32::try_from((self.salt >> shift) & 0xffff_ffff).expect("it is half");
        let checksum = crc32c::crc32c_append(half(32), &sealed);
        self.bytes.extend_from_slice(&(half(0) | 1).to_le_bytes());
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        self.bytes.extend_from_slice(&sealed);
        self.next = position.wrapping_add(1);
    }

    /// The whole file, with both copies of its header.
    fn finish(mut self, choices: &mut Choices<'_>) -> Vec<u8> {
        let blocks = 1 + choices.below(3);
        let length = self.bytes.len().next_multiple_of(4096) + blocks * 4096;
        self.bytes.resize(length, 0);
        let stated = &mut self.header[72..80];
        if stated == [0; 8] {
            stated.copy_from_slice(&(length as u64).to_le_bytes());
        }
        let checksum = crc32c::crc32c(&self.header);
        self.header.extend_from_slice(&checksum.to_le_bytes());
        let copies = choices.byte();
        for (copy, at) in [0, 512].into_iter().enumerate() {
            if copies & (1 << copy) == 0 {
                self.bytes[at..at + 128].copy_from_slice(&self.header);
            }
        }
        self.bytes
    }
}

/// Numbers behind it are not counted up.
const POSITION_MAX: u64 = u64::MAX / 2;
