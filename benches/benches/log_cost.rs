//! What the log's checksums and zero-filled segments cost, or gain, against a plain append on a real disk.
//!
//! `cargo bench -p quorlock-benches --bench log_cost` writes the same frames in four ways and prints how long a
//! commit takes in each, and the ratio to a plain append. The ways take turns commit by commit, in changing order, so
//! that what else the machine does weighs on all of them; given are medians over all turns, and the middle half.
//! Files lie in the target folder: `CARGO_TARGET_DIR` chooses the disk.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the clock and prints"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use quorlock_persistence::{
    FrameBatch, FrameKind, Log, LogIdentity, LogOptions, RealDisk, Recovery,
};

/// About what `SET lock:... NX PX` logs.
const PAYLOAD: [u8; 64] = [7; 64];
const FRAME_BYTES: usize = 104;

/// A way of writing frames.
enum Way {
    /// Into a file of its own.
    Plain {
        file: File,
        offset: u64,
        bytes: Vec<u8>,
        has_checksums: bool,
    },
    /// Into a log as it is: zero-filled, with checksums.
    Log { log: Box<Log>, batch: FrameBatch },
}

const NAMES: [&str; 4] = [
    "plain append",
    "plain append, checksums",
    "zero-filled file",
    "the log (both)",
];

/// What a commit is.
struct Load {
    name: &'static str,
    frames: usize,
    turns: usize,
    is_synced: bool,
}

const LOADS: [Load; 4] = [
    Load {
        name: "one frame, synced",
        frames: 1,
        turns: 1_500,
        is_synced: true,
    },
    Load {
        name: "16 frames, synced",
        frames: 16,
        turns: 500,
        is_synced: true,
    },
    Load {
        name: "one frame, written only",
        frames: 1,
        turns: 8_000,
        is_synced: false,
    },
    Load {
        name: "16 frames, written only",
        frames: 16,
        turns: 500,
        is_synced: false,
    },
];

fn main() {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for load in &LOADS {
        println!("{}: {} turns", load.name, load.turns);
        let times = measure(parent, load);
        let plain = quartiles(times[0].clone());
        for (name, times) in NAMES.iter().zip(times) {
            let own = quartiles(times);
            let ratio = own[1] / plain[1];
            println!(
                "  {name:<24} {:>9.2} us per commit ({:.2} to {:.2})   {ratio:.2} of a plain append",
                own[1], own[0], own[2]
            );
        }
    }
}

/// The microseconds of each commit, for each way.
fn measure(parent: &Path, load: &Load) -> Vec<Vec<f64>> {
    let folder = tempfile::tempdir_in(parent).expect("the target folder can be written");
    let mut ways = ways(folder.path(), load);
    let mut times = vec![Vec::with_capacity(load.turns); ways.len()];
    for turn in 0..load.turns {
        for place in 0..ways.len() {
            let index = (place + turn) % ways.len();
            let begun = Instant::now();
            ways[index].commit(load);
            times[index].push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
    times
}

fn ways(folder: &Path, load: &Load) -> Vec<Way> {
    let file = |name: &str, filled_bytes: usize, has_checksums| {
        let file = File::create_new(folder.join(name)).expect("the folder is fresh");
        file.write_all_at(&vec![0; filled_bytes], 0)
            .expect("the disk has room");
        file.sync_all().expect("the disk can be synced");
        Way::Plain {
            file,
            offset: 0,
            bytes: Vec::new(),
            has_checksums,
        }
    };
    let all_bytes = load.turns * load.frames * FRAME_BYTES;
    let log_folder = folder.join("log");
    std::fs::create_dir(&log_folder).expect("the folder is fresh");
    vec![
        file("plain", 0, false),
        file("checksums", 0, true),
        file("filled", all_bytes, false),
        Way::Log {
            log: Box::new(open(&log_folder)),
            batch: FrameBatch::default(),
        },
    ]
}

fn open(folder: &Path) -> Log {
    let disk = RealDisk::open(folder).expect("the folder is fresh");
    let identity = LogIdentity {
        node_id: [1; 20],
        boot_id: [2; 16],
        incarnation: 1,
    };
    let recovery = Recovery::read(disk, &LogOptions::default()).expect("an empty folder is a log");
    recovery
        .into_log(identity)
        .expect("the disk can be written")
}

impl Way {
    fn commit(&mut self, load: &Load) {
        match self {
            Way::Plain {
                file,
                offset,
                bytes,
                has_checksums,
            } => {
                bytes.clear();
                for _ in 0..load.frames {
                    let begin = bytes.len();
                    bytes.extend_from_slice(&[0; FRAME_BYTES - PAYLOAD.len()]);
                    bytes.extend_from_slice(&PAYLOAD);
                    if *has_checksums {
                        let sum = crc32c::crc32c(&bytes[begin + 8..]);
                        bytes[begin + 4..begin + 8].copy_from_slice(&sum.to_le_bytes());
                    }
                }
                file.write_all_at(bytes, *offset).expect("there is room");
                *offset += bytes.len() as u64;
                if load.is_synced {
                    file.sync_data().expect("the disk can be synced");
                }
            }
            Way::Log { log, batch } => {
                for _ in 0..load.frames {
                    log.appender.append(FrameKind::new(1), 1, &PAYLOAD);
                }
                let mut taken = log.appender.take(std::mem::take(batch));
                log.writer.write(&mut taken).expect("there is room");
                *batch = taken;
                if load.is_synced {
                    log.writer.sync().expect("the disk can be synced");
                }
            }
        }
    }
}

/// A quarter of the values lie below the first, half below the second, a quarter above the third.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    [
        values[quarter],
        values[values.len() / 2],
        values[values.len() - 1 - quarter],
    ]
}
