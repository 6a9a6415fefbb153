//! A second reader, written from the book's chapter on the log's format and from nothing else. It shares no
//! code with the program, not even the checksum.

use std::collections::BTreeMap;

/// A frame as the chapter describes it.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) checkpoint: u8,
    pub(crate) position: u64,
    pub(crate) node_time_ns: u64,
    pub(crate) payload: Vec<u8>,
}

struct Header {
    version: u32,
    flags: u32,
    number: u64,
    length: u64,
    salt: u64,
    previous_number: u64,
    previous_cut: u64,
    first_position: u64,
}

/// Reads the stream that these files (name and content) make up, from the last complete checkpoint on.
pub(crate) fn read(files: &[(String, Vec<u8>)]) -> Vec<Frame> {
    let mut segments = BTreeMap::new();
    for (name, content) in files {
        let digits = name.strip_prefix("segment-").unwrap();
        let number: u64 = digits.split_once('.').unwrap().0.parse().unwrap();
        if content[..640].iter().any(|&byte| byte != 0) {
            let header = header(content);
            assert_eq!(
                (header.number, header.length),
                (number, content.len() as u64)
            );
            segments.insert(number, (header, content));
        }
    }
    let newest = *segments.keys().next_back().unwrap();
    let (mut number, mut cut) = (newest, None);
    let mut stream: Vec<Frame> = Vec::new();
    loop {
        let (header, content) = &segments[&number];
        let mut part = frames(header, content, cut);
        if let (Some(last), Some(next)) = (part.last(), stream.first()) {
            let is_repaired = segments.values().any(|(header, _)| header.flags & 1 == 1);
            assert!(
                next.position == last.position + 1 || is_repaired && next.position > last.position
            );
        }
        part.append(&mut stream);
        stream = part;
        if let Some(begin) = last_complete_checkpoint(&stream) {
            return stream.split_off(begin);
        }
        if header.previous_number == 0 {
            assert!(header.first_position == 1 || header.flags & 1 == 1);
            return stream;
        }
        cut = Some(header.previous_cut);
        number = header.previous_number;
    }
}

fn header(content: &[u8]) -> Header {
    let copy = [&content[..128], &content[512..640]]
        .into_iter()
        .find(|copy| {
            copy[..8] == *b"QUORLOCK" && number(copy, 124, 4) == u64::from(crc32c(!0, &copy[..124]))
        })
        .expect("one good copy");
    let version = u32::try_from(number(copy, 8, 4)).unwrap();
    assert!((1..=2).contains(&version) && number(copy, 12, 4) == 4096);
    let flags = u32::try_from(number(copy, 36, 4)).unwrap();
    assert!(flags == 0 || version == 2 && flags == 1);
    Header {
        version,
        flags,
        number: number(copy, 64, 8),
        length: number(copy, 72, 8),
        salt: number(copy, 80, 8),
        previous_number: number(copy, 88, 8),
        previous_cut: number(copy, 96, 8),
        first_position: number(copy, 104, 8),
    }
}

fn frames(header: &Header, content: &[u8], cut: Option<u64>) -> Vec<Frame> {
    assert!(header.version <= 2, "frames are the same in both versions");
    let mark = u32::try_from(header.salt & 0xffff_ffff).unwrap() | 1;
    let seed = u32::try_from(header.salt >> 32).unwrap();
    let end = cut.map_or(content.len(), |cut| usize::try_from(cut).unwrap());
    let mut found = Vec::new();
    let mut at = 4096;
    let mut expected = header.first_position;
    while at + 40 <= end && number(content, at, 4) == u64::from(mark) {
        let length = usize::try_from(number(content, at + 8, 4)).unwrap();
        let next = (at + 40 + length).div_ceil(8) * 8;
        // The register starts with the complement of the number from which the checksum is continued.
        let sum = crc32c(!seed, &content[at + 8..next]);
        assert_eq!(number(content, at + 4, 4), u64::from(sum), "frame at {at}");
        let frame = Frame {
            kind: content[at + 12],
            checkpoint: content[at + 13],
            position: number(content, at + 16, 8),
            node_time_ns: number(content, at + 24, 8),
            payload: content[at + 40..at + 40 + length].to_vec(),
        };
        assert_eq!(frame.position, expected);
        expected += 1;
        found.push(frame);
        at = next;
    }
    assert!(
        content[at..end].iter().all(|&byte| byte == 0),
        "zeros follow"
    );
    assert!(cut.is_none() || at == end, "the cut lies behind a frame");
    found
}

fn last_complete_checkpoint(stream: &[Frame]) -> Option<usize> {
    let end = stream.iter().rposition(|frame| frame.checkpoint == 2)?;
    stream[..end]
        .iter()
        .rposition(|frame| frame.checkpoint == 1)
}

/// Little-endian, `bytes` of them.
pub(crate) fn number(from: &[u8], at: usize, bytes: usize) -> u64 {
    let field = from[at..at + bytes].iter().rev();
    field.fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// CRC-32C (Castagnoli, reflected), bit by bit; `register` is what it starts with.
fn crc32c(register: u32, bytes: &[u8]) -> u32 {
    let mut register = register;
    for &byte in bytes {
        register ^= u32::from(byte);
        for _ in 0..8 {
            let carry = register & 1;
            register >>= 1;
            if carry == 1 {
                register ^= 0x82f6_3b78;
            }
        }
    }
    !register
}
