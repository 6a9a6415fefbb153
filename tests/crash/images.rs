//! What a crash may leave on the disk: every choice for a short list, samples of a long one.
//!
//! Invariant: the same disk, limit and seed give the same images in the same order.

use quorlock_persistence::{Fate, MemoryDisk, PowerLoss};

use quorlock_simulation::Random;

/// A disk after a crash.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) disk: MemoryDisk,
    pub(crate) kind: ImageKind,
    /// What survived, in words.
    pub(crate) loss: String,
    /// Changes of names were among what could be lost.
    pub(crate) has_names: bool,
}

/// How the disk came to be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ImageKind {
    /// Only the process ended.
    ProcessEnd,
    /// The same, and pages that a failed sync had given up left the cache.
    Eviction,
    /// The power failed; whole sectors survived or did not.
    Subset,
    /// The same, with sectors that are half written or hold garbage.
    Torn,
}

/// Calls `look` with every image of a crash at this point, at most about `limit` of them. Returns whether every
/// subset of what was not synced was among them.
pub(crate) fn all(
    disk: &MemoryDisk,
    limit: u64,
    random: &mut Random,
    mut look: impl FnMut(Image),
) -> bool {
    look(process_end(disk));
    if disk.has_abandoned() {
        look(Image {
            disk: disk.after_eviction(),
            kind: ImageKind::Eviction,
            loss: "pages that a failed sync gave up are gone".to_owned(),
            has_names: false,
        });
    }
    let names = disk.unsynced().names.len();
    let namings = subsets(names, limit, random);
    let count = namings.len() as u64;
    let mut is_complete = fits(names, limit);
    for naming in namings {
        let named = disk.after_loss_of_names(&naming);
        let unsynced = named.unsynced();
        let choices = unsynced.lengths.len() + unsynced.sectors.len();
        is_complete &= fits(choices, limit / count);
        for subset in subsets(choices, (limit / count).max(1), random) {
            let (lengths, sectors) = subset.split_at(unsynced.lengths.len());
            let loss = PowerLoss {
                names: Vec::new(),
                lengths: lengths.to_vec(),
                sectors: sectors.iter().map(|kept| fate(*kept)).collect(),
            };
            look(image(&named, &naming, &loss, ImageKind::Subset));
        }
        if !unsynced.sectors.is_empty() {
            for _ in 0..TORN_PER_NAMING {
                look(torn(&named, &naming, random));
            }
        }
    }
    is_complete
}

/// One image of a power loss, chosen by chance.
pub(crate) fn power_loss(disk: &MemoryDisk, random: &mut Random) -> Image {
    let naming = some(disk.unsynced().names.len(), random);
    let named = disk.after_loss_of_names(&naming);
    torn(&named, &naming, random)
}

/// The same, with every sector lost or kept.
pub(crate) fn whole_sectors(disk: &MemoryDisk, random: &mut Random) -> Image {
    let naming = some(disk.unsynced().names.len(), random);
    let named = disk.after_loss_of_names(&naming);
    let unsynced = named.unsynced();
    let kept = some(unsynced.sectors.len(), random);
    let loss = PowerLoss {
        names: Vec::new(),
        lengths: some(unsynced.lengths.len(), random),
        sectors: kept.into_iter().map(fate).collect(),
    };
    image(&named, &naming, &loss, ImageKind::Subset)
}

/// A power loss that leaves nothing that was not synced.
pub(crate) fn total_loss(disk: &MemoryDisk) -> Image {
    let named = disk.after_loss_of_names(&[]);
    image(&named, &[], &PowerLoss::default(), ImageKind::Subset)
}

/// What the next process finds after this one ended.
pub(crate) fn process_end(disk: &MemoryDisk) -> Image {
    Image {
        disk: disk.after_process_end(),
        kind: ImageKind::ProcessEnd,
        loss: "nothing is lost".to_owned(),
        has_names: false,
    }
}

fn torn(named: &MemoryDisk, naming: &[bool], random: &mut Random) -> Image {
    let unsynced = named.unsynced();
    let often = random.below(4);
    let sector = |random: &mut Random| match random.below(8) {
        0..4 => fate(random.below(4) <= often),
        4 => Fate::FirstHalf,
        5 => Fate::SecondHalf,
        6 => Fate::Garbage,
        _ => Fate::Kept,
    };
    let loss = PowerLoss {
        names: Vec::new(),
        lengths: some(unsynced.lengths.len(), random),
        sectors: unsynced.sectors.iter().map(|_| sector(random)).collect(),
    };
    image(named, naming, &loss, ImageKind::Torn)
}

fn image(named: &MemoryDisk, naming: &[bool], loss: &PowerLoss, kind: ImageKind) -> Image {
    let whole = PowerLoss {
        names: naming.to_vec(),
        ..loss.clone()
    };
    Image {
        disk: named.after_loss(loss),
        kind,
        loss: whole.to_string(),
        has_names: !naming.is_empty(),
    }
}

/// All subsets of so many things if there are at most `limit`, or else `limit` of them.
fn subsets(things: usize, limit: u64, random: &mut Random) -> Vec<Vec<bool>> {
    let limit = limit.max(1);
    if fits(things, limit) {
        let member = |subset: u64| {
            (0..things)
                .map(move |thing| subset >> thing & 1 == 1)
                .collect()
        };
        return (0..1_u64 << things).map(member).collect();
    }
    (0..limit)
        .map(|number| match number {
            0 => vec![false; things],
            1 => vec![true; things],
            _ => some(things, random),
        })
        .collect()
}

/// Whether all subsets of so many things can be tried.
fn fits(things: usize, limit: u64) -> bool {
    things < 20 && 1_u64 << things <= limit.max(1)
}

fn some(things: usize, random: &mut Random) -> Vec<bool> {
    (0..things).map(|_| random.chance(1, 2)).collect()
}

fn fate(is_kept: bool) -> Fate {
    match is_kept {
        true => Fate::Kept,
        false => Fate::Lost,
    }
}

const TORN_PER_NAMING: u64 = 2;
