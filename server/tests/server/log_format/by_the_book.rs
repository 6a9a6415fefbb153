//! The book's chapter is enough to read a log: what the second reader finds is what the program finds, and
//! what was written down when the log was kept.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use quorlock_engine::control::{Boot, ControlRecord, Pending, Start, kind};
use quorlock_engine::control::{Ceiling, Durability};
use quorlock_engine::relocation::Adoption;
use quorlock_engine::restart::Stop;
use quorlock_engine::{BootTime, NodeTime, RawTime};
use quorlock_persistence::Recovery;

use super::kept::{all, disk, folder, text};
use super::payloads::{by_the_book, by_the_program};
use super::reader::{self, Frame};
use super::workload;

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn lines(frames: &[Frame]) -> String {
    let mut text = String::new();
    for frame in frames {
        let (position, time) = (frame.position, frame.node_time_ns);
        let _ = writeln!(text, "{position} {time} {}", by_the_book(frame));
    }
    text
}

#[test]
fn the_chapter_is_enough_to_read_a_log() {
    for (version, name) in all() {
        let kept = folder(version, name);
        let frames = reader::read(&files(&kept));
        let found = lines(&frames);
        let words = text(version, name, "words");
        if std::env::var_os("QUORLOCK_KEEP_FIXTURES").is_some() && !words.exists() {
            fs::write(&words, &found).unwrap();
        }
        assert_eq!(
            found,
            fs::read_to_string(words).unwrap(),
            "v{version}/{name}"
        );

        let recovery = Recovery::read(Arc::new(disk(&kept)), &workload::options()).unwrap();
        let replayed = recovery.frames().collect().unwrap();
        assert_eq!(replayed.len(), frames.len(), "v{version}/{name}");
        for (own, second) in replayed.iter().zip(&frames) {
            assert_eq!(own.position.get(), second.position);
            assert_eq!(
                (own.kind, own.node_time_ns),
                (second.kind, second.node_time_ns)
            );
            assert_eq!(by_the_program(own.kind, &own.payload), by_the_book(second));
        }
    }
}

/// Every code of the chapter's table is in the logs that are kept.
#[test]
fn every_mutation_of_the_chapter_is_in_a_kept_log() {
    let mut words = String::new();
    for (version, name) in all() {
        words.push_str(&fs::read_to_string(text(version, name, "words")).unwrap());
    }
    for mutation in [
        "replace",
        "deadline",
        "hash-set",
        "hash-delete",
        "delete",
        "flush",
        "list-push-left",
        "list-push-right",
        "list-pop-left",
        "list-pop-right",
        "list-rotate-left",
        "list-rotate-right",
        "list-set",
        "list-insert",
        "list-remove",
        "set-add",
        "set-remove",
        "score-set",
        "score-remove",
        "part",
        "swap",
        "holder-set",
        "holder-remove",
    ] {
        let is_there = words.contains(&format!(" {mutation} "));
        assert!(is_there, "{mutation}");
    }
    for value in [
        "string",
        "hash",
        "list",
        "set",
        "zset",
        "quorlock-shared-lock",
    ] {
        assert!(words.contains(&format!(" {value} ")), "{value}");
    }
}

/// The chapter's examples, byte for byte.
#[test]
fn the_chapters_examples_are_right() {
    for (begins, length, expected) in [
        (
            "A group of 22 bytes",
            22,
            "replace 0 \"lock\" 50000000000 string \"7f3c\"",
        ),
        (
            "One of 13 bytes",
            13,
            "list-push-right 0 \"jobs\" \"a\"; list-push-right 0 \"jobs\" \"b\"",
        ),
    ] {
        let payload = example(begins);
        assert_eq!(payload.len(), length);
        assert_eq!(by_the_program(kind::GROUP, &payload), expected);
        assert_eq!(by_the_book(&group(payload)), expected);
    }
}

/// The bytes of the chapter's example that begins with these words.
fn example(begins: &str) -> Vec<u8> {
    let book = include_str!("../../../../docs/book/log-format.md");
    let example = book.split(begins).nth(1).unwrap();
    let example = example.split("\n\n").next().unwrap();
    let spans = example.split('`').skip(1).step_by(2);
    let bytes_of = |span: &str| -> Option<Vec<u8>> {
        let digits: String = span.chars().filter(|c| *c != ' ').collect();
        let pairs = digits.as_bytes().chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).ok())
            .collect()
    };
    spans
        .flat_map(|span| bytes_of(span).unwrap_or_default())
        .collect()
}

fn group(payload: Vec<u8>) -> Frame {
    Frame {
        kind: kind::GROUP,
        checkpoint: 0,
        position: 1,
        node_time_ns: 1,
        payload,
    }
}

/// Deadlines too far away for nanoseconds, in every version of the mutations.
#[test]
fn far_deadlines_are_milliseconds_from_the_second_version_on() {
    for (version, bits, text) in [
        (1, (1 << 63) + 1_u64, "9223372036855 ms"),
        (2, (1 << 63) + 900_719_925_474_099, "900719925474099 ms"),
        (2, u64::MAX - 1, "9223372036854775806 ms"),
        (2, (1 << 63) - 1, "9223372036854775807"),
        (2, u64::MAX, "never"),
        (3, (1 << 63) + 900_719_925_474_099, "900719925474099 ms"),
        (3, u64::MAX, "never"),
    ] {
        let mut payload = vec![version, 2, 0, 1, b'k'];
        payload.extend_from_slice(&bits.to_le_bytes());
        let program = by_the_program(kind::GROUP, &payload);
        assert_eq!(program, format!("deadline 0 \"k\" {text}"));
        assert_eq!(program, by_the_book(&group(payload)));
    }
}

/// No log that is kept has them: what writes those is no node that runs.
#[test]
fn a_release_and_an_adoption_are_as_the_chapter_says() {
    for record in [
        ControlRecord::Released([0xa5; 32]),
        ControlRecord::Adopted(Adoption {
            incarnation: 11,
            fingerprint: 12,
            is_proven: true,
        }),
        ControlRecord::Adopted(Adoption {
            incarnation: 1,
            fingerprint: 2,
            is_proven: false,
        }),
    ] {
        let mut payload = Vec::new();
        record.encode(&mut payload);
        let frame = Frame {
            kind: record.kind(),
            checkpoint: 0,
            position: 1,
            node_time_ns: 1,
            payload,
        };
        assert_eq!(
            by_the_book(&frame),
            by_the_program(frame.kind, &frame.payload)
        );
    }
}

/// Every cause of a delay has the number that the chapter gives it.
#[test]
fn causes_have_the_chapters_numbers() {
    let causes = [
        (Stop::Unclean, 1),
        (Stop::Clean, 2),
        (Stop::Complete, 3),
        (Stop::PowerLoss, 4),
        (Stop::Moved, 5),
        (Stop::Emptied, 6),
        (Stop::Unknown, 7),
        (Stop::NeverServed, 8),
        (Stop::NeverRan, 9),
        (Stop::Lost, 10),
    ];
    for (cause, number) in causes {
        let pending = Some(Pending {
            until: NodeTime::from_nanos(3),
            length_ns: 4,
            cause,
        });
        let start = Start {
            incarnation: 1,
            boot: Boot([2; 16]),
            fingerprint: 3,
            durability: Durability::No,
            base: NodeTime::from_nanos(4),
            raw: RawTime::from_nanos(5),
            wall_us: 6,
            boottime: BootTime::from_nanos(7),
            pending,
            cap_ns: 8,
            ceiling: Ceiling::Uncertain(9),
        };
        let mut payload = Vec::new();
        ControlRecord::Start(start).encode(&mut payload);
        let frame = Frame {
            kind: kind::START,
            checkpoint: 0,
            position: 1,
            node_time_ns: 1,
            payload,
        };
        let text = by_the_book(&frame);
        let owes = format!("owes cause {number} until 3 length 4 cap 8 at least 9");
        assert!(text.ends_with(&owes), "{text}");
        assert_eq!(text, by_the_program(frame.kind, &frame.payload));
    }
}
