//! Every state a crash can leave, and whether the log that is read back from it is the right one.

use std::sync::Arc;

use quorlock_persistence::{Fate, MemoryDisk, PowerLoss, Recovery, Sector};

use super::live::{Truth, options};
use super::{Flaw, Survivors};

/// Looks at what is left if the process or the machine ends now.
///
/// # Errors
/// The first crash state from which the log does not come back as it should, in words.
pub(crate) fn examine(disk: &MemoryDisk, truth: &Truth, looked_at: &mut u64) -> Result<(), Flaw> {
    *looked_at += 1;
    judge(&disk.after_process_end(), truth, truth.written)
        .map_err(|flaw| flaw.after("the process ends"))?;
    let names = disk.unsynced().names;
    for kept_names in subsets(names.len()) {
        let named = disk.after_loss_of_names(&kept_names);
        let unsynced = named.unsynced();
        let groups = grouped(&unsynced.sectors);
        for kept_lengths in subsets(unsynced.lengths.len()) {
            for kept_groups in subsets(groups.len()) {
                *looked_at += 1;
                let left = named.after_loss(&PowerLoss {
                    names: Vec::new(),
                    lengths: kept_lengths.clone(),
                    sectors: fates(&unsynced.sectors, &groups, &kept_groups),
                });
                judge(&left, truth, truth.durable).map_err(|flaw| {
                    let names = chosen(&names, &kept_names);
                    let lengths = chosen(&unsynced.lengths, &kept_lengths);
                    let sectors = chosen(&groups, &kept_groups);
                    flaw.after(&format!(
                        "power is lost; of what was not synced these survive: names [{names}], \
                         lengths [{lengths}], sectors [{sectors}]"
                    ))
                })?;
            }
        }
    }
    Ok(())
}

/// What a power loss leaves for the next step of a sequence. Names survive.
pub(crate) fn power_loss(disk: &MemoryDisk, survivors: Survivors) -> MemoryDisk {
    let unsynced = disk.unsynced();
    let kept = |index: usize| match survivors {
        Survivors::None => false,
        Survivors::All => true,
        Survivors::AllButFirst => index > 0,
        Survivors::OnlyFirst => index == 0,
    };
    let fate = |index| if kept(index) { Fate::Kept } else { Fate::Lost };
    disk.after_loss(&PowerLoss {
        names: vec![true; unsynced.names.len()],
        lengths: vec![survivors != Survivors::None; unsynced.lengths.len()],
        sectors: (0..unsynced.sectors.len()).map(fate).collect(),
    })
}

fn subsets(length: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1_u64 << length).map(move |subset| (0..length).map(|bit| subset >> bit & 1 == 1).collect())
}

fn fates(sectors: &[Sector], groups: &[Sectors], kept: &[bool]) -> Vec<Fate> {
    let fate = |sector: &Sector| {
        let group = groups.iter().position(|group| group.holds(sector));
        match group.is_some_and(|group| kept[group]) {
            true => Fate::Kept,
            false => Fate::Lost,
        }
    };
    sectors.iter().map(fate).collect()
}

fn chosen<T: ToString>(all: &[T], kept: &[bool]) -> String {
    let chosen = all.iter().zip(kept).filter(|(_, kept)| **kept);
    let words: Vec<_> = chosen.map(|(one, _)| one.to_string()).collect();
    words.join(", ")
}

/// Whether the log on this disk is a prefix that lacks nothing of the first `least` frames.
fn judge(disk: &MemoryDisk, truth: &Truth, least: usize) -> Result<(), Flaw> {
    let recovery = Recovery::read(Arc::new(disk.clone()), &options())
        .map_err(|error| Flaw::Refused(error.to_string()))?;
    let last = usize::try_from(recovery.summary().last.get()).unwrap_or(usize::MAX);
    if last < least {
        return Err(Flaw::Lost(format!(
            "the log ends with {last}, but {least} had been reported"
        )));
    }
    if last > truth.frames.len() {
        return Err(Flaw::Wrong(format!(
            "the log ends with {last}, but only {} were appended",
            truth.frames.len()
        )));
    }
    let begin = truth.replay_begin(last);
    let mut next = begin;
    let frames = recovery.frames().collect();
    for frame in frames.map_err(|error| Flaw::Wrong(error.to_string()))? {
        let position = usize::try_from(frame.position.get()).unwrap_or(usize::MAX);
        if position != next {
            return Err(Flaw::Wrong(format!(
                "the replay has {position} where {next} comes next"
            )));
        }
        if truth.frames[position - 1].payload != frame.payload {
            return Err(Flaw::Wrong(format!(
                "at {position} there is another frame than was appended"
            )));
        }
        next += 1;
    }
    if next == last + 1 {
        return Ok(());
    }
    Err(Flaw::Wrong(format!(
        "the replay of {begin} to {last} stops before {next}"
    )))
}

/// Sectors of one file that are lost or kept together.
struct Sectors {
    name: String,
    first: u64,
    last: u64,
}

impl Sectors {
    fn one(sector: &Sector) -> Sectors {
        Sectors {
            name: sector.file.clone(),
            first: sector.number,
            last: sector.number,
        }
    }

    fn holds(&self, sector: &Sector) -> bool {
        self.name == sector.file && (self.first..=self.last).contains(&sector.number)
    }
}

impl std::fmt::Display for Sectors {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} sectors {}-{}",
            self.name, self.first, self.last
        )
    }
}

/// The sectors one by one. Only where they are many, the inner sectors of a long write go together:
/// its first and its last are what a tear separates.
fn grouped(single: &[Sector]) -> Vec<Sectors> {
    if single.len() > SINGLE_SECTORS_MAX {
        return runs(single);
    }
    single.iter().map(Sectors::one).collect()
}

/// Runs of consecutive sectors of one file: the first, the inner ones together, the last.
fn runs(single: &[Sector]) -> Vec<Sectors> {
    let mut runs: Vec<Sectors> = Vec::new();
    for sector in single {
        match runs.last_mut() {
            Some(run) if run.name == sector.file && run.last + 1 == sector.number => {
                run.last = sector.number;
            }
            _ => runs.push(Sectors::one(sector)),
        }
    }
    runs.into_iter().flat_map(torn).collect()
}

fn torn(run: Sectors) -> Vec<Sectors> {
    let part = |first, last| Sectors {
        name: run.name.clone(),
        first,
        last,
    };
    match run.last - run.first {
        0 => vec![part(run.first, run.last)],
        1 => vec![part(run.first, run.first), part(run.last, run.last)],
        _ => vec![
            part(run.first, run.first),
            part(run.first + 1, run.last - 1),
            part(run.last, run.last),
        ],
    }
}

const SINGLE_SECTORS_MAX: usize = 7;
