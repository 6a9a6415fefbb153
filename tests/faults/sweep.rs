//! Every byte of a real log, flipped, and every length it can be cut to: the production code that
//! reads logs and judges starts, without a process for each.
//!
//! What is read must be what was written, up to some frame. Where anything is missing the node
//! must refuse or wait.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use quorlock_engine::NodeTime;
use quorlock_engine::control::{ControlRecord, kind};
use quorlock_engine::restart::{History, Policy, RestartDelay, Seen};
use quorlock_persistence::{Disk, LogOptions, MemoryDisk, Recovery};

use crate::aged::{Aged, KINDS, Last};
use crate::check::{Bench, Check, Need, Record};
use crate::examine::Finding;
use crate::segment;
use crate::subject::Mode;

const KIND: &str = "damaged byte, read in-process";

/// A kind of damage.
#[derive(Clone, Copy)]
struct Damage {
    bits: u32,
    /// It leaves zeros, as if nothing had ever been there.
    forgets: bool,
    /// What it does to a segment's bytes, at an offset and for a bit.
    apply: fn(&mut Vec<u8>, usize, u32),
}

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (mode, last) in KINDS {
        let made = format!("{}-{}", mode.name(), format!("{last:?}").to_lowercase());
        let mut add = |what: &str, bits: u32, apply: fn(&mut Vec<u8>, usize, u32)| {
            let damage = Damage {
                bits,
                forgets: what == "zeros",
                apply,
            };
            let name = format!("sweep/{what}/{made}");
            checks.push(Check::new(
                KIND,
                name,
                Need::Nothing,
                move |bench, record| sweep(bench, record, (mode, last), damage),
            ));
        };
        add("flip", 8, |bytes, at, bit| bytes[at] ^= 1 << bit);
        add("truncate", 1, |bytes, at, _| bytes.truncate(at));
        if mode == Mode::Everysec {
            add("zeros", 1, |bytes, at, _| bytes[at..].fill(0));
        }
        add("garbage", 1, |bytes, at, _| bytes[at..].fill(0x5a));
    }
    checks
}

/// A frame as it was read: kind, time, payload.
type Frame = (u8, u64, Vec<u8>);

fn sweep(
    bench: &Bench,
    record: &mut Record,
    (mode, last): (Mode, Last),
    damage: Damage,
) -> io::Result<()> {
    let aged = Aged::make(bench, mode, last)?;
    let mut files = Vec::new();
    for (path, _) in aged.directory.segments()? {
        let bytes = fs::read(&path)?;
        // The segment made ahead is 16 MiB of zeros: left out, since a log may lack it.
        if segment::is_used(&bytes) {
            let name = path.file_name().unwrap_or_default();
            files.push((name.to_string_lossy().into_owned(), bytes));
        }
    }
    let disk = Arc::new(MemoryDisk::new());
    for (name, bytes) in &files {
        disk.create(name)?.write_at(0, bytes)?;
    }
    let whole = read(&disk)
        .map_err(|error| io::Error::other(format!("the undamaged log is refused: {error}")))?;
    let mut counts = Counts::default();
    let mut number = 0;
    for (name, bytes) in &files {
        for at in offsets(bench, bytes) {
            for bit in bits_of(bench, damage.bits, at) {
                number += 1;
                if !record.wants(number) {
                    continue;
                }
                disk.edit(name, |bytes| (damage.apply)(bytes, at, bit));
                let finding = judge(&disk, &whole, damage, &mut counts);
                disk.edit(name, |changed| changed.clone_from(bytes));
                record.add(Some(number), &finding);
            }
        }
    }
    record.figures.push(counts.figure());
    Ok(())
}

/// The header's block, all frames, and a little behind them; every so many bytes unless thorough.
fn offsets(bench: &Bench, bytes: &[u8]) -> impl Iterator<Item = usize> {
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let step = if bench.is_thorough { 1 } else { 13 };
    (0..(used + 64).min(bytes.len())).step_by(step)
}

fn bits_of(bench: &Bench, bits: u32, at: usize) -> std::ops::Range<u32> {
    if bench.is_thorough {
        return 0..bits;
    }
    let bit = u32::try_from(at / 13).unwrap_or(0) % bits;
    bit..bit + 1
}

#[derive(Default)]
struct Counts {
    refused: u64,
    cut: u64,
    waits: u64,
    harmless: u64,
    /// Zeros from before the last SERVING on: the log of an earlier moment, byte by byte. Only a
    /// disk that forgets what it has confirmed does this, and no log can tell.
    forgotten: u64,
}

impl Counts {
    fn figure(&self) -> String {
        let Self {
            refused,
            cut,
            waits,
            harmless,
            forgotten,
        } = self;
        let mut text = format!(
            "refused {refused}, cut and waited {cut}, waited with everything there {waits}, \
             served with everything there {harmless}"
        );
        if *forgotten > 0 {
            text.push_str(&format!(", not told from an earlier log {forgotten}"));
        }
        text
    }
}

fn judge(disk: &Arc<MemoryDisk>, whole: &Read, damaged: Damage, counts: &mut Counts) -> Finding {
    let mut finding = Finding::default();
    let outcome = catch_unwind(AssertUnwindSafe(|| read(disk)));
    let read = match outcome {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => {
            counts.refused += 1;
            return finding;
        }
        Err(_) => {
            finding.panics += 1;
            finding.flaw("panicked");
            return finding;
        }
    };
    let is_prefix = whole.frames.starts_with(&read.frames);
    let is_whole = whole.frames.len() == read.frames.len();
    match (is_prefix, is_whole, read.waits) {
        (false, _, _) => finding.flaw("frames that were never written"),
        (true, false, false) if damaged.forgets && read.frames.len() < whole.serving => {
            counts.forgotten += 1;
        }
        (true, false, false) => {
            let (left, all) = (read.frames.len(), whole.frames.len());
            let loss = format!("{left} of {all} frames are left, and it serves at once");
            finding.losses.push(loss);
        }
        (true, false, true) => counts.cut += 1,
        (true, true, true) => counts.waits += 1,
        (true, true, false) => counts.harmless += 1,
    }
    finding
}

/// What a start makes of a log.
struct Read {
    frames: Vec<Frame>,
    /// The number of frames up to the last SERVING.
    serving: usize,
    waits: bool,
}

/// As `server/node/src/start.rs` does it, in the same boot and directory.
fn read(disk: &Arc<MemoryDisk>) -> Result<Read, String> {
    let recovery = Recovery::read(Arc::clone(disk) as Arc<dyn Disk>, &LogOptions::default())
        .map_err(|error| error.to_string())?;
    let mut history = History::default();
    let mut frames = Vec::new();
    let replayed = recovery.frames().collect();
    for frame in replayed.map_err(|error| error.to_string())? {
        let time = NodeTime::from_nanos(frame.node_time_ns);
        match frame.kind {
            kind::GROUP | kind::SNAPSHOT | kind::END => history.frame(time),
            code => {
                let record = ControlRecord::decode(code, &frame.payload)
                    .map_err(|error| error.to_string())?;
                history.record(time, &record);
            }
        }
        frames.push((frame.kind, frame.node_time_ns, frame.payload));
    }
    let seen = Seen {
        now: history.newest,
        is_same_boot: true,
        is_whole: recovery.summary().only_zeros_follow,
        is_same_directory: true,
        has_identity: true,
        // The log alone has to tell.
        has_marker: false,
    };
    let verdict = history.judge(&seen, &POLICY);
    let serving = frames.iter().rposition(|frame| frame.0 == kind::SERVING);
    Ok(Read {
        serving: serving.map_or(0, |index| index + 1),
        frames,
        waits: verdict.delay.is_some(),
    })
}

const POLICY: Policy = Policy {
    restart_delay: RestartDelay::Auto,
    trusts_fsync: false,
    cap_ns: 7_200_000_000_000,
    drift_ppm: 10_000,
    first_start_waits: false,
    vouches_for_first_start: false,
};
