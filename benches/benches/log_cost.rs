//! What the log's checksums and zero-filled segments cost, or gain, against a plain append on a real disk.
//!
//! `cargo bench -p quorlock-benches --bench log_cost` prints for each way of writing the same frames its commits
//! per second, and the ratio to a plain append in the same round: medians and the whole span over eleven
//! rounds, in which the ways take turns. Files lie in the target folder: `CARGO_TARGET_DIR` chooses the disk.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the clock and prints"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use quorlock_persistence::{Batch, Identity, Kind, Log, Options, RealDisk, Recovery};

const ROUNDS: usize = 11;
/// About what `SET lock:... NX PX` logs.
const PAYLOAD: [u8; 64] = [7; 64];
const FRAME_BYTES: usize = 104;

/// A way of writing frames.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// To the end of a file that grows.
    Append,
    /// The same, with a checksum for each frame.
    AppendChecked,
    /// Into a file that was filled with zeros before.
    Filled,
    /// The log as it is.
    Log,
}

const WAYS: [(Way, &str); 4] = [
    (Way::Append, "plain append"),
    (Way::AppendChecked, "plain append, checksums"),
    (Way::Filled, "zero-filled file"),
    (Way::Log, "the log (both)"),
];

/// How a round commits.
struct Load {
    name: &'static str,
    frames_per_commit: usize,
    commits: usize,
    is_synced: bool,
}

const LOADS: [Load; 4] = [
    Load {
        name: "one frame, synced",
        frames_per_commit: 1,
        commits: 200,
        is_synced: true,
    },
    Load {
        name: "16 frames, synced",
        frames_per_commit: 16,
        commits: 200,
        is_synced: true,
    },
    Load {
        name: "one frame, written only",
        frames_per_commit: 1,
        commits: 8_000,
        is_synced: false,
    },
    Load {
        name: "16 frames, written only",
        frames_per_commit: 16,
        commits: 500,
        is_synced: false,
    },
];

fn main() {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for load in &LOADS {
        println!("{}: {} commits, {ROUNDS} rounds", load.name, load.commits);
        let mut rates = vec![Vec::new(); WAYS.len()];
        for _ in 0..ROUNDS {
            for ((way, _), rates) in WAYS.iter().zip(&mut rates) {
                rates.push(round(parent, *way, load));
            }
        }
        for ((_, name), own) in WAYS.iter().zip(&rates) {
            let ratios = own.iter().zip(&rates[0]).map(|(own, plain)| own / plain);
            let (low, ratio, high) = spread(ratios.collect());
            let (_, rate, _) = spread(own.clone());
            println!(
                "  {name:<26} {rate:>9.0} commits/s   ratio {ratio:.2} ({low:.2} to {high:.2})"
            );
        }
    }
}

/// Commits per second of one round on fresh files. Making them is not part of it.
fn round(parent: &Path, way: Way, load: &Load) -> f64 {
    let folder = tempfile::tempdir_in(parent).expect("the target folder can be written");
    let seconds = if way == Way::Log {
        log_seconds(folder.path(), load)
    } else {
        file_seconds(folder.path(), way, load)
    };
    let commits = u32::try_from(load.commits).expect("a round is short");
    f64::from(commits) / seconds
}

fn log_seconds(folder: &Path, load: &Load) -> f64 {
    let mut log = open(folder);
    let mut batch = Batch::default();
    let begun = Instant::now();
    for _ in 0..load.commits {
        for _ in 0..load.frames_per_commit {
            log.appender.append(Kind::new(1), 1, &PAYLOAD);
        }
        batch = log.appender.take(batch);
        log.writer
            .write(&mut batch)
            .expect("the disk can be written");
        if load.is_synced {
            log.writer.sync().expect("the disk can be synced");
        }
    }
    begun.elapsed().as_secs_f64()
}

fn open(folder: &Path) -> Log {
    let disk = RealDisk::open(folder).expect("the folder is fresh");
    let identity = Identity {
        node_id: [1; 20],
        boot_id: [2; 16],
        incarnation: 1,
    };
    let recovery = Recovery::read(disk, &Options::default()).expect("an empty folder is a log");
    recovery
        .into_log(identity)
        .expect("the disk can be written")
}

fn file_seconds(folder: &Path, way: Way, load: &Load) -> f64 {
    let file = File::create_new(folder.join("frames")).expect("the folder is fresh");
    let commit_bytes = load.frames_per_commit * FRAME_BYTES;
    if way == Way::Filled {
        let zeros = vec![0; commit_bytes * load.commits];
        file.write_all_at(&zeros, 0).expect("the disk has room");
    }
    file.sync_all().expect("the disk can be synced");
    let mut bytes = Vec::new();
    let mut offset = 0;
    let begun = Instant::now();
    for _ in 0..load.commits {
        bytes.clear();
        for _ in 0..load.frames_per_commit {
            let begin = bytes.len();
            bytes.extend_from_slice(&[0; FRAME_BYTES - PAYLOAD.len()]);
            bytes.extend_from_slice(&PAYLOAD);
            if way == Way::AppendChecked {
                let sum = crc32c::crc32c(&bytes[begin + 8..]);
                bytes[begin + 4..begin + 8].copy_from_slice(&sum.to_le_bytes());
            }
        }
        file.write_all_at(&bytes, offset)
            .expect("the disk has room");
        offset += bytes.len() as u64;
        if load.is_synced {
            file.sync_data().expect("the disk can be synced");
        }
    }
    begun.elapsed().as_secs_f64()
}

/// The lowest, the middle and the highest.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    )
}
