//! Damaged files, and the real node started on them: flipped, cut, zeroed, overwritten, removed.
//!
//! Only some offsets are sampled here; every byte is swept in `sweep`, without a process for each.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use crate::aged::{Aged, KINDS, Last};
use crate::check::{Bench, Check, Need, Record};
use crate::examine::{After, Rule, examine};
use crate::subject::Mode;

const KIND: &str = "damaged file, real node";

type Damage = fn(&Aged, u64) -> io::Result<()>;

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (mode, last) in KINDS {
        let made = format!("{}-{}", mode.name(), format!("{last:?}").to_lowercase());
        let mut add = |what: &str, forgets: bool, damage: Damage| {
            let name = format!("damage/{what}/{made}");
            checks.push(Check::new(
                KIND,
                name,
                Need::Nothing,
                move |bench, record| {
                    at_many_offsets(bench, record, (mode, last), (forgets, damage))
                },
            ));
        };
        add("flip", false, flip);
        add("truncate", false, truncate);
        add("garbage", false, garbage);
        add("remnant", false, remnant);
        if mode == Mode::Everysec {
            // In `always` a zeroed tail that begins where a frame begins cannot be told from a
            // shorter log: the disk would have had to lose what it had confirmed.
            add("zeros", true, zeros);
        }
    }
    for (name, needs_refusal, damage) in REMOVALS {
        let name = format!("damage/{name}");
        checks.push(Check::new(
            KIND,
            name,
            Need::Nothing,
            move |bench, record| removed(bench, record, *needs_refusal, *damage),
        ));
    }
    checks
}

/// What is removed or replaced, and whether the node must refuse; else it must wait.
const REMOVALS: &[(&str, bool, Damage)] = &[
    ("first-segment-removed", true, |aged, _| {
        fs::remove_file(&aged.directory.segments()?[0].0)
    }),
    ("newest-segment-removed", true, |aged, _| {
        fs::remove_file(&aged.newest)
    }),
    ("newest-segment-empty", true, |aged, _| {
        File::create(&aged.newest).map(drop)
    }),
    ("all-segments-removed", false, |aged, _| {
        for (path, _) in aged.directory.segments()? {
            fs::remove_file(path)?;
        }
        Ok(())
    }),
    ("identity-overwritten", true, |aged, _| {
        fs::write(aged.directory.data().join("node.id"), "somebody\n")
    }),
    ("segment-is-a-directory", true, |aged, _| {
        fs::remove_file(&aged.newest)?;
        fs::create_dir(&aged.newest)
    }),
    ("newer-version", true, |aged, _| {
        for copy in [8, 520] {
            writable(aged)?.write_all_at(&9_u32.to_le_bytes(), copy)?;
        }
        Ok(())
    }),
];

fn at_many_offsets(
    bench: &Bench,
    record: &mut Record,
    (mode, last): (Mode, Last),
    (forgets, damage): (bool, Damage),
) -> io::Result<()> {
    let aged = Aged::make(bench, mode, last)?;
    let step = if bench.is_thorough { 1 } else { 331 };
    let mut offsets: Vec<u64> = (FRAMES_BEGIN..aged.end).step_by(step).collect();
    // Two in the header's block, the last byte of the last frame, and two behind it.
    offsets.extend([20, 700, aged.end - 1, aged.end, aged.end + 5_000]);
    // Where zeros begin before that, there is no trace of the last start: an earlier state.
    offsets.retain(|at| !forgets || *at >= aged.serves_from);
    let mut counts = [0_u64; 3];
    for at in offsets {
        if !record.wants(at) {
            continue;
        }
        aged.directory.restore(&aged.image)?;
        damage(&aged, at)?;
        let finding = examine(&aged.launch, &aged.directory, &aged.streams, rule(&aged));
        let which = match finding.after {
            Some(After::Refused) => 0,
            Some(After::Waits) => 1,
            _ => 2,
        };
        counts[which] += 1;
        record.add(Some(at), &finding);
    }
    let [refused, waits, serves] = counts;
    record.figures.push(format!(
        "refused {refused}, waited {waits}, served with everything there {serves}"
    ));
    Ok(())
}

fn removed(
    bench: &Bench,
    record: &mut Record,
    needs_refusal: bool,
    damage: Damage,
) -> io::Result<()> {
    let aged = Aged::make(bench, Mode::Everysec, Last::Stopped)?;
    damage(&aged, 0)?;
    let mut finding = examine(&aged.launch, &aged.directory, &aged.streams, rule(&aged));
    let expected = if needs_refusal {
        After::Refused
    } else {
        After::Waits
    };
    if finding.after.as_ref() != Some(&expected) {
        let after = finding.after.clone();
        finding.flaw(format!("came to {after:?}, not {expected:?}"));
    }
    record.add(None, &finding);
    Ok(())
}

fn rule(aged: &Aged) -> Rule {
    let is_killed = aged.last == Last::Killed;
    Rule {
        needs_delay: is_killed && aged.launch.mode != Mode::Always,
        may_be_clean: !is_killed,
        is_damaged: true,
        has_compacted: false,
        may_seem_moved: true,
        may_give_time_back: false,
    }
}

fn flip(aged: &Aged, at: u64) -> io::Result<()> {
    let file = writable(aged)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    byte[0] ^= 1 << (at % 8);
    file.write_all_at(&byte, at)
}

fn truncate(aged: &Aged, at: u64) -> io::Result<()> {
    writable(aged)?.set_len(at)
}

/// What another file left in these blocks: bytes from here to the end of the segment.
fn garbage(aged: &Aged, at: u64) -> io::Result<()> {
    let file = writable(aged)?;
    let length = usize::try_from(file.metadata()?.len() - at).unwrap_or(0);
    let bytes: Vec<u8> = (1..=251).cycle().take(length).collect();
    file.write_all_at(&bytes, at)
}

/// The frames of the first segment, which belong to another salt.
fn remnant(aged: &Aged, at: u64) -> io::Result<()> {
    let old = fs::read(&aged.directory.segments()?[0].0)?;
    writable(aged)?.write_all_at(&old[4_096..8_192], at)
}

fn zeros(aged: &Aged, at: u64) -> io::Result<()> {
    let file = writable(aged)?;
    let length = usize::try_from(file.metadata()?.len() - at).unwrap_or(0);
    file.write_all_at(&vec![0; length], at)
}

fn writable(aged: &Aged) -> io::Result<File> {
    File::options().read(true).write(true).open(&aged.newest)
}

const FRAMES_BEGIN: u64 = 4_096;
