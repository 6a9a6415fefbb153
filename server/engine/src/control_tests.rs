//! The bytes of control records: each comes back as it went, each cut is refused, and the layouts
//! of earlier versions are still read.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::*;

fn pending() -> Option<Pending> {
    Some(Pending {
        until: NodeTime::from_nanos(7),
        length_ns: 9,
        cause: Stop::Unknown,
    })
}

fn start() -> Start {
    Start {
        incarnation: 3,
        boot: Boot([5; 16]),
        fingerprint: 11,
        durability: Durability::Everysec,
        base: NodeTime::from_nanos(1 << 40),
        raw: RawTime::from_nanos(17),
        wall_us: 19,
        boottime: BootTime::from_nanos(23),
        pending: pending(),
        cap_ns: 60_000_000_000,
        ceiling: Ceiling::Known(29),
    }
}

fn records() -> Vec<ControlRecord> {
    let start = start();
    vec![
        ControlRecord::Init,
        ControlRecord::Start(start),
        ControlRecord::Start(Start {
            pending: None,
            ..start
        }),
        ControlRecord::Serving,
        ControlRecord::Mode(Mode {
            durability: Durability::Always,
            cap_ns: 31,
            is_complete: true,
        }),
        ControlRecord::Mode(Mode {
            durability: Durability::Volatile,
            cap_ns: 0,
            is_complete: false,
        }),
        ControlRecord::Start(Start {
            ceiling: Ceiling::Uncertain(41),
            ..start
        }),
        ControlRecord::Ceiling(Ceiling::Known(31)),
        ControlRecord::Ceiling(Ceiling::Uncertain(37)),
        ControlRecord::Promise(30_000_000_000),
        ControlRecord::Shutdown(pending()),
        ControlRecord::Shutdown(None),
        ControlRecord::Tick,
        ControlRecord::Control(Control {
            start,
            serving: true,
            weakest: Durability::No,
            ttl_bound_ns: 1,
        }),
        ControlRecord::Control(Control {
            start,
            serving: false,
            weakest: Durability::Always,
            ttl_bound_ns: 0,
        }),
        ControlRecord::Lost(300_000_000_000),
        ControlRecord::Wall {
            wall_us: 29,
            boottime: BootTime::from_nanos(31),
        },
        ControlRecord::Owed(NodeTime::from_nanos(37)),
        ControlRecord::Released([41; 32]),
        ControlRecord::Adopted(Adoption {
            incarnation: 43,
            fingerprint: 47,
            is_proven: true,
        }),
    ]
}

#[test]
fn every_record_comes_back_and_every_cut_is_refused() {
    for record in records() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(ControlRecord::decode(record.kind(), &bytes), Ok(record));
        for end in 0..bytes.len() {
            assert!(
                ControlRecord::decode(record.kind(), &bytes[..end]).is_err(),
                "{record:?} {end}"
            );
        }
        bytes.push(0);
        assert_eq!(
            ControlRecord::decode(record.kind(), &bytes),
            Err(RecordError::Layout(record.kind()))
        );
    }
}

#[test]
fn a_durability_has_redis_s_word_and_a_number() {
    let words = ["off", "no", "everysec", "always"];
    for (code, word) in (0..).zip(words) {
        let durability = Durability::from_code(code).unwrap();
        assert_eq!((durability.code(), durability.name()), (code, word));
    }
    assert_eq!(Durability::from_code(4), None);
}

#[test]
fn another_version_kind_or_value_is_named() {
    for (kind, version, newest) in [
        (kind::TICK, 2, 1),
        (kind::TICK, 0, 1),
        (kind::START, 4, 3),
        (kind::MODE, 3, 2),
        (kind::CONTROL, 4, 3),
        (kind::CEILING, 2, 1),
        (kind::LOST, 2, 1),
        (kind::RELEASED, 2, 1),
        (kind::ADOPTED, 2, 1),
    ] {
        assert_eq!(
            ControlRecord::decode(kind, &[version]),
            Err(RecordError::Version {
                kind,
                version,
                newest
            })
        );
    }
    assert_eq!(
        ControlRecord::decode(200, &[1]),
        Err(RecordError::Kind(200))
    );
    assert_eq!(
        ControlRecord::decode(kind::MODE, &[1, 9]),
        Err(RecordError::Layout(kind::MODE))
    );
    assert_eq!(
        ControlRecord::decode(kind::CEILING, &[&[1, 1][..], &[0xff; 8]].concat()),
        Err(RecordError::Layout(kind::CEILING))
    );
    assert_eq!(
        ControlRecord::decode(kind::SHUTDOWN, &[&[1, 11][..], &[0; 16]].concat()),
        Err(RecordError::Layout(kind::SHUTDOWN))
    );
}

/// The bytes of START as versions before the cap was recorded wrote them, field by field.
fn start_of_layout_1() -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend_from_slice(&3_u64.to_le_bytes());
    bytes.extend_from_slice(&[5; 16]);
    bytes.extend_from_slice(&11_u64.to_le_bytes());
    bytes.push(2);
    for number in [1_u64 << 40, 17, 19, 23] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.push(7);
    bytes.extend_from_slice(&7_u64.to_le_bytes());
    bytes.extend_from_slice(&9_u64.to_le_bytes());
    bytes
}

#[test]
fn older_layouts_of_start_control_and_mode_are_still_read() {
    let bytes = start_of_layout_1();
    let old = Start {
        cap_ns: 0,
        ceiling: Ceiling::NONE,
        ..start()
    };
    assert_eq!(
        ControlRecord::decode(kind::START, &bytes),
        Ok(ControlRecord::Start(old))
    );
    let mut second = [&[2], &bytes[1..]].concat();
    second.extend_from_slice(&60_000_000_000_u64.to_le_bytes());
    let of_second = Start {
        ceiling: Ceiling::NONE,
        ..start()
    };
    assert_eq!(
        ControlRecord::decode(kind::START, &second),
        Ok(ControlRecord::Start(of_second))
    );

    let mut control = bytes;
    control.extend_from_slice(&[1, 1]);
    control.extend_from_slice(&1_u64.to_le_bytes());
    assert_eq!(
        ControlRecord::decode(kind::CONTROL, &control),
        Ok(ControlRecord::Control(Control {
            start: old,
            serving: true,
            weakest: Durability::No,
            ttl_bound_ns: 1,
        }))
    );

    let mode = Mode {
        durability: Durability::No,
        cap_ns: 0,
        is_complete: false,
    };
    assert_eq!(
        ControlRecord::decode(kind::MODE, &[1, 1]),
        Ok(ControlRecord::Mode(mode))
    );
}
