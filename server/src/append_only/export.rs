//! The log of a stopped node becomes an append-only directory.
//!
//! Invariant: what is written is what a start at this moment would serve: the log is read and judged by the code of a start,
//! and a key lives as long as that start would let it live. In the boot in which the node stopped, the time since then
//! counts; in another boot nothing tells how long it was, and each key has what was left of it when the node stopped: too
//! long, and never too short. The append-only directory appears in one step.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorlock_engine::control::Ceiling;
use quorlock_engine::{Engine, EngineOptions, LogPosition, Stored};
use quorlock_node::past::{self, Directory, Log, NodeIdentity, Past};
use quorlock_persistence::Judgement;

use super::commands::{CommandWriter, SharedLock};
use super::manifest::{DIRECTORY, SINGLE_FILE, SUFFIX};
use crate::clock::{Clock, Reading, SystemClock};
use crate::config::Config;
use crate::inspection::{DataDirectory, Unreadable, of_past, options};
use crate::inspection::{DirectoryFinding, hash_seed};

/// How a node's log is exported. The default refuses what Redis has no form for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// Leaves out what Redis has no form for, instead of refusing the log.
    pub skips_unsupported: bool,
}

/// What an export has made, for a line that says so.
#[derive(Clone, Debug)]
pub struct ExportReport {
    /// The node.
    pub node: Option<String>,
    /// How many keys were written.
    pub keys: u64,
    /// How many keys were left out because they had ended.
    pub ended: u64,
    /// How many keys were left out because they are locks that are held shared.
    pub shared_locks: u64,
    /// The largest fence that the node may have taken, which is left out; 0 if it took none.
    pub ceiling: u64,
    /// How long a start of the node at that moment would serve no locks, and why.
    pub delay: Option<(Duration, &'static str)>,
    /// The machine has not been started since the node stopped, so that the time since then counts.
    pub is_same_boot: bool,
}

/// Why a log was not exported. Nothing is left of the append-only directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The data directory cannot be looked at, or holds no log.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A node runs.
    #[error(
        "a node runs in {directory}{}: what it grants meanwhile would be missing",
        process.map_or(String::new(), |id| format!(" (process {id})"))
    )]
    Running {
        /// The data directory.
        directory: String,
        /// The id of its process, if it is known.
        process: Option<u32>,
    },
    /// A start refuses the log.
    #[error("a start refuses this log: {}: {}", .0.file, .0.what)]
    Refused(Box<DirectoryFinding>),
    /// Redis has no form for a key.
    #[error(
        "the key {key} in database {database} is a lock that is held shared, which Redis has no form for"
    )]
    SharedLock {
        /// The key, escaped.
        key: String,
        /// Its database.
        database: u8,
    },
    /// Redis has no fences.
    #[error(
        "the node has taken fences up to {ceiling}, and Redis has none: no lock has a fence there, and whatever counts on with \
         numbers of its own has to begin above that"
    )]
    Fences {
        /// The largest that it may have taken.
        ceiling: u64,
    },
    /// The directory to be made holds something.
    #[error("{} is not empty: it holds {first}. It was left as it is", directory.display())]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
        /// The first name in it.
        first: String,
    },
    /// It cannot be written.
    #[error("{} cannot be written: {cause}", path.display())]
    Write {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// Makes, in `target`, which must be empty or not exist, what a redis-server with `appendonly yes` loads that is started
/// there: the folder `appendonlydir` with a manifest, a base and an empty increment.
///
/// # Errors
/// When the data directory has a node that runs, or a log that a start refuses or that holds what Redis has no form for, or
/// when the target cannot be written. Then nothing is made.
pub fn export(
    directory: &Path,
    target: &Path,
    options: ExportOptions,
) -> Result<ExportReport, ExportError> {
    let failed = |cause| ExportError::Write {
        path: target.to_owned(),
        cause,
    };
    require_empty(target)?;
    let recovered = Recovered::read(directory)?;
    let ceiling = recovered.past.history.ceiling;
    if let Ceiling::Known(value @ 1..) | Ceiling::Uncertain(value @ 1..) = ceiling
        && !options.skips_unsupported
    {
        return Err(ExportError::Fences { ceiling: value });
    }
    let is_made = !target.exists();
    let unfinished = target.join(UNFINISHED);
    let own_folder = |path: &Path| DirBuilder::new().mode(0o700).recursive(true).create(path);
    let made = own_folder(target)
        .and_then(|()| own_folder(&unfinished))
        .map_err(failed);
    let exported = made.and_then(|()| {
        let mut exported = recovered.write(&unfinished, options)?;
        exported.ceiling = ceiling.value();
        fs::rename(&unfinished, target.join(DIRECTORY)).map_err(failed)?;
        sync_directory(target).map_err(failed)?;
        Ok(exported)
    });
    if exported.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
        if is_made {
            let _ = fs::remove_dir(target);
        }
    }
    exported
}

/// What a start would have at this moment.
struct Recovered {
    node: Option<String>,
    engine: Engine,
    past: Past,
    wall_us: u64,
}

impl Recovered {
    fn read(directory: &Path) -> Result<Self, ExportError> {
        let data_directory = DataDirectory::open(directory)?;
        require_stopped(&data_directory)?;
        let known = data_directory
            .identity()
            .map_err(|error| refused(of_past(&data_directory, error)))?;
        let inspection = data_directory.log()?;
        let judgement = inspection
            .judge(&options(known.as_ref()))
            .map_err(|error| refused(DirectoryFinding::of_error(&error)))?;
        let mut engine = Engine::new(EngineOptions {
            hash_seed: hash_seed(),
            ..EngineOptions::default()
        });
        let log = Log::Viewed(&inspection, &judgement);
        let past = replay(&data_directory, known.as_ref(), log, &mut engine)
            .map_err(|error| refused(of_past(&data_directory, error)))?;
        // It may have been started meanwhile.
        require_stopped(&data_directory)?;
        Ok(Self {
            node: node_of(known.as_ref(), &judgement),
            engine,
            past,
            wall_us: SystemClock.wall_us(),
        })
    }

    /// Writes the files into this folder.
    fn write(&self, folder: &Path, options: ExportOptions) -> Result<ExportReport, ExportError> {
        let failed = |cause| ExportError::Write {
            path: folder.to_owned(),
            cause,
        };
        let delay = self.past.verdict.delay;
        let now = self.past.seen.now;
        let mut report = ExportReport {
            node: self.node.clone(),
            keys: 0,
            ended: 0,
            shared_locks: 0,
            ceiling: 0,
            delay: delay.map(|delay| {
                (
                    delay.until.saturating_since(now),
                    delay.cause.delay_reason(),
                )
            }),
            is_same_boot: self.past.seen.is_same_boot,
        };
        let base = own_file(&folder.join(BASE)).map_err(failed)?;
        let mut commands = CommandWriter::new(BufWriter::new(base));
        for stored in self.engine.stored() {
            let end_ms = match self.lifetime(&stored) {
                Lifetime::Ended => {
                    report.ended += 1;
                    continue;
                }
                Lifetime::Until(end_ms) => Some(end_ms),
                Lifetime::Unlimited => None,
            };
            match commands.key(&stored, end_ms).map_err(failed)? {
                Ok(()) => report.keys += 1,
                Err(SharedLock) if options.skips_unsupported => report.shared_locks += 1,
                Err(SharedLock) => {
                    return Err(ExportError::SharedLock {
                        key: stored.key.escape_ascii().to_string(),
                        database: stored.database,
                    });
                }
            }
        }
        let synced = || {
            let base = commands.into_inner().into_inner()?;
            base.sync_all()?;
            synced_file(&folder.join(INCREMENT), b"")?;
            synced_file(&folder.join(format!("{SINGLE_FILE}{SUFFIX}")), MANIFEST)?;
            sync_directory(folder)
        };
        synced().map_err(failed)?;
        Ok(report)
    }

    fn lifetime(&self, stored: &Stored) -> Lifetime {
        let Some(deadline) = stored.deadline else {
            return Lifetime::Unlimited;
        };
        match deadline.left_ms(self.past.seen.now) {
            0 => Lifetime::Ended,
            left_ms => {
                let end_ms = self.wall_us.div_ceil(1000).saturating_add(left_ms);
                // Redis counts with a sign.
                Lifetime::Until(end_ms.min(i64::MAX.unsigned_abs()))
            }
        }
    }
}

/// How long a key lives on.
enum Lifetime {
    Unlimited,
    /// Up to this wall time, in milliseconds since the epoch, rounded up.
    Until(u64),
    Ended,
}

/// Reads all frames as a start does.
fn replay(
    data_directory: &DataDirectory,
    identity: Option<&NodeIdentity>,
    log: Log<'_>,
    engine: &mut Engine,
) -> Result<Past, past::PastError> {
    let directory = Directory {
        disk: data_directory.disk(),
        identity,
        log,
    };
    let history = log.history(|position, payload| {
        engine.apply(LogPosition::from_raw(position.get()), payload)
    })?;
    let (now, policy) = (Reading::now(&SystemClock), past::policy(&Config::default()));
    Past::judge(&directory, history, &now, &policy)
}

fn node_of(identity: Option<&NodeIdentity>, judgement: &Judgement) -> Option<String> {
    let written = judgement.summary.node_id;
    let known = identity.map(|identity| identity.id.to_string());
    known.or_else(|| written.map(|id| quorlock_persistence::hexadecimal(&id)))
}

fn require_stopped(data_directory: &DataDirectory) -> Result<(), ExportError> {
    match data_directory.holder()? {
        None => Ok(()),
        Some(process) => Err(ExportError::Running {
            directory: data_directory.name(),
            process,
        }),
    }
}

fn refused(finding: DirectoryFinding) -> ExportError {
    ExportError::Refused(Box::new(finding))
}

fn require_empty(target: &Path) -> Result<(), ExportError> {
    let failed = |cause| ExportError::Write {
        path: target.to_owned(),
        cause,
    };
    let mut entries = match fs::read_dir(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    match entries.next() {
        None => Ok(()),
        Some(entry) => Err(ExportError::NotEmpty {
            directory: target.to_owned(),
            first: entry
                .map_err(failed)?
                .file_name()
                .to_string_lossy()
                .escape_debug()
                .to_string(),
        }),
    }
}

/// A new file that no other user can read: a token is all that it takes to release a lock.
fn own_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

fn synced_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = own_file(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The folder's name until it is whole.
const UNFINISHED: &str = "appendonlydir.unfinished";

const BASE: &str = "appendonly.aof.1.base.aof";
const INCREMENT: &str = "appendonly.aof.1.incr.aof";
const MANIFEST: &[u8] =
    b"file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
