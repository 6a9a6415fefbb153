//! Append-only files become the data directory of a new node.
//!
//! Invariant: the files are read to their end before any of them is executed, and executed to their end before anything is
//! written. The node that is made knows nothing of what the other server granted after its last command on record, so it
//! serves no locks at its first start until `restart-delay-max` has passed.

use std::collections::BTreeMap;
use std::path::Path;

use quorlock_node::past::NodeId;
use quorlock_node::start::StartError;

use super::log::{ClockReadings, write_log};
use super::manifest::files_of;
use super::reader::{CommandReader, FileItem};
use super::replay::{NotReplayed, Replay, shown};
use super::survey::{CutTail, WholePart, survey};
use super::target::Target;
use super::{ImportError, ImportOptions};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::random;

/// What an import has made, for a line that says so, with what was left out.
#[derive(Clone, Debug)]
pub struct ImportReport {
    /// The node.
    pub node: NodeId,
    /// How many files were read.
    pub files: usize,
    /// How many commands were executed.
    pub commands: u64,
    /// How many keys the node has.
    pub keys: u64,
    /// How many keys were left out because they had ended.
    pub ended: u64,
    /// How many commands were left out, by name.
    pub skipped: BTreeMap<String, u64>,
    /// The end of the last file, if it was left out.
    pub cut: Option<CutTail>,
}

/// Makes a node in `directory`, which must be empty or not exist, of the append-only files at `source`: an append-only
/// directory with its manifest, the directory of a redis-server that holds one, or a single file.
///
/// Times to live are those that are left at this moment by this machine's wall clock. The node serves no locks at its first
/// start until `restart-delay-max` has passed. Of the configuration it keeps `cluster-id` and `cluster-size`.
///
/// # Errors
/// When the files cannot be read or hold what a node cannot take, or the directory cannot be made. Then nothing is made.
pub fn import(
    source: &Path,
    directory: &Path,
    config: &Config,
    options: ImportOptions,
) -> Result<ImportReport, ImportError> {
    let target = Target::of(directory)?;
    let files = files_of(source)?;
    let mut parts = Vec::new();
    let mut cut = None;
    for (number, file) in (1..).zip(&files) {
        let (part, end) = survey(file, number == files.len())?;
        parts.push(part);
        cut = end;
    }
    let mut replay = Replay::new(hash_seed()?, options.skips_unsupported);
    for part in &parts {
        execute(part, &mut replay)?;
    }
    // From here on node time is what the wall clock says now, and goes on with the raw clock.
    let now = ClockReadings::of(&SystemClock);
    let mut replayed = replay.finish(now.node);
    let node = write_log(target, config, &mut replayed.engine, &now)?;
    Ok(ImportReport {
        node,
        files: files.len(),
        commands: replayed.commands,
        keys: replayed.keys,
        ended: replayed.ended,
        skipped: replayed.skipped,
        cut,
    })
}

/// Executes what is whole of a file.
fn execute(part: &WholePart, replay: &mut Replay) -> Result<(), ImportError> {
    let mut reader = CommandReader::open(&part.file)?;
    replay.begin_file();
    loop {
        let (offset, arguments) = match reader.next_item()? {
            FileItem::Command { offset, arguments } => (offset, arguments),
            FileItem::Partial { offset } | FileItem::End { offset } if offset >= part.end => {
                return Ok(());
            }
            FileItem::Partial { offset } | FileItem::End { offset } => {
                return Err(ImportError::Damaged {
                    file: part.file.clone(),
                    offset,
                    what: CHANGED.to_owned(),
                });
            }
        };
        // A server that runs on appends behind what was looked at.
        if offset >= part.end {
            return Ok(());
        }
        replay.execute(&arguments).map_err(|refusal| {
            let (file, command) = (part.file.clone(), shown(arguments[0]));
            match refusal {
                NotReplayed::Unsupported(why) => ImportError::Unsupported {
                    file,
                    offset,
                    command,
                    why,
                },
                NotReplayed::Failed(why) => ImportError::Refused {
                    file,
                    offset,
                    command,
                    why,
                },
            }
        })?;
    }
}

fn hash_seed() -> Result<u64, StartError> {
    random::number().map_err(|_| StartError::Randomness)
}

const CHANGED: &str = "the file was cut off while it was read";
