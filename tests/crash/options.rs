//! What a node is started with, and in which directory: everything an operator may change between two starts.
//!
//! Invariant: what is left to chance here is only what the book says changes no promise, or what the oracle knows
//! the consequence of.

use std::fmt;
use std::sync::Arc;

use quorlock_node::clock::Clock;
use quorlock_node::config::Config;
use quorlock_node::simulation::{Node, Setup};
use quorlock_node::start::StartError;
use quorlock_persistence::{LogOptions as Sizes, MemoryDisk, WriteError};

use super::workload::Mode;
use super::world::used_bytes;
use quorlock_simulation::Random;

/// A node's configuration and its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    /// `restart-delay-max`, in seconds.
    pub(crate) cap_s: u64,
    /// `clock-drift-percent`
    pub(crate) drift_percent: u32,
    /// `restart-delay`
    pub(crate) delay: Delay,
    /// `trust-fsync`
    pub(crate) trusts_fsync: bool,
    /// `require-ttl`
    pub(crate) requires_ttl: bool,
    /// `no-ttl-durability`: synced, or as the mode says.
    pub(crate) syncs_uncovered: bool,
    /// The blocks in which the file system takes direct writes; `None` where it has none.
    pub(crate) direct_blocks: Option<usize>,
    /// Whether the disk has no space for another segment when the node starts.
    pub(crate) is_full: bool,
    pub(crate) directory: Directory,
    /// How much faster than true time the raw clock runs, if the machine was rebooted.
    pub(crate) rate_ppm: i32,
}

/// `restart-delay`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    Auto,
    Always,
    Off,
    /// In milliseconds.
    Fixed(u64),
}

/// What was done to the directory of a stopped node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory {
    /// Nothing.
    Same,
    /// It is a copy, elsewhere.
    Moved,
    /// The log is deleted; identity and marker are there.
    Emptied,
    /// An earlier state was put back over all files; the number chooses one.
    Restored(u64),
    /// An earlier state of the log alone was put back.
    LogRestored(u64),
}

/// What changes between starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Vary {
    /// Everything that [`Options`] has.
    #[default]
    Everything,
    /// The mode, as ever, and `restart-delay-max`.
    Cap,
}

impl Options {
    /// Those of a node that was never started.
    pub(crate) fn plain(mode: Mode) -> Options {
        Options {
            mode,
            cap_s: 60,
            drift_percent: 1,
            delay: Delay::Auto,
            trusts_fsync: false,
            requires_ttl: false,
            syncs_uncovered: true,
            direct_blocks: Some(PAGE_BYTES),
            is_full: false,
            directory: Directory::Same,
            rate_ppm: 0,
        }
    }

    /// Any, for a start in this mode.
    pub(crate) fn any(mode: Mode, random: &mut Random, vary: Vary) -> Options {
        let cap_s = random.pick(&CAPS_S);
        let plain = Options {
            cap_s,
            ..Options::plain(mode)
        };
        if vary == Vary::Cap {
            return plain;
        }
        let directory = match random.below(24) {
            0 => Directory::Moved,
            1 => Directory::Emptied,
            2 => Directory::Restored(random.number()),
            3 => Directory::LogRestored(random.number()),
            _ => Directory::Same,
        };
        // Rarely large: a start on every state makes segments of that length.
        let choices = if random.chance(1, 4) {
            DIRECT_BLOCKS.len()
        } else {
            4
        };
        Options {
            drift_percent: random.pick(&[1, 1, 2, 10]),
            delay: match random.below(16) {
                0 => Delay::Off,
                1 => Delay::Fixed(random.pick(&[1, 700, 30_000])),
                2..=4 => Delay::Always,
                _ => Delay::Auto,
            },
            trusts_fsync: random.chance(1, 6),
            requires_ttl: random.chance(1, 10),
            syncs_uncovered: !random.chance(1, 6),
            is_full: random.chance(1, 5),
            directory,
            rate_ppm: random.pick(&[0, 0, RATE_PPM, -RATE_PPM]),
            direct_blocks: random.pick(&DIRECT_BLOCKS[..choices]),
            ..plain
        }
    }

    pub(crate) fn cap_ns(&self) -> u64 {
        self.cap_s * 1_000_000_000
    }

    /// The length of the log's segments: few frames, so that workloads go on in the next, and two blocks at least,
    /// since a segment that has no room for an empty one is not written directly.
    pub(crate) fn segment_bytes(&self) -> u64 {
        let two_blocks = self.direct_blocks.map_or(0, |block| 2 * block as u64);
        two_blocks.max(SEGMENT_BYTES_MIN)
    }

    /// What the operator has limited the delay to, by experiment, in nanoseconds.
    pub(crate) fn limit_ns(&self) -> Option<u64> {
        match self.delay {
            Delay::Auto | Delay::Always => None,
            Delay::Off => Some(0),
            Delay::Fixed(ms) => Some(ms * 1_000_000),
        }
    }

    /// Starts a node. One that finds no room for the records of its start on a full disk is given space.
    pub(crate) fn start(
        &self,
        disk: &MemoryDisk,
        clock: Arc<dyn Clock>,
        setup: &Setup,
    ) -> Result<Node, StartError> {
        let start = || Node::start(Arc::new(disk.clone()), Arc::clone(&clock), setup);
        if !self.is_full {
            return start();
        }
        disk.set_capacity(Some(used_bytes(disk)));
        let started = start();
        disk.set_capacity(None);
        match started {
            Err(StartError::Write(WriteError::NoSpace(_)) | StartError::Disk(_)) => start(),
            started => started,
        }
    }

    /// What a node on this disk is set up with.
    pub(crate) fn setup(&self, disk: &MemoryDisk, directory_number: u64, seed: u64) -> Setup {
        let mut config = Config::default();
        config.workers = 1 + usize::try_from(seed % 3).unwrap_or(0);
        let (logged, fsync) = match self.mode {
            Mode::Always => ("yes", "always"),
            Mode::Everysec => ("yes", "everysec"),
            Mode::No => ("yes", "no"),
            Mode::Volatile => ("no", "always"),
        };
        let yes_or_no = |is_so| if is_so { "yes" } else { "no" };
        let delay = match self.delay {
            Delay::Auto => "auto".to_owned(),
            Delay::Always => "always".to_owned(),
            Delay::Off => "off".to_owned(),
            Delay::Fixed(ms) => ms.to_string(),
        };
        for (name, value) in [
            ("appendonly", logged),
            ("appendfsync", fsync),
            ("first-start", "wait"),
            ("restart-delay-max", &format!("{}s", self.cap_s)),
            ("clock-drift-percent", &self.drift_percent.to_string()),
            ("restart-delay", &delay),
            ("trust-fsync", yes_or_no(self.trusts_fsync)),
            ("require-ttl", yes_or_no(self.requires_ttl)),
            (
                "no-ttl-durability",
                if self.syncs_uncovered {
                    "sync"
                } else {
                    "as-mode"
                },
            ),
        ] {
            config.set(name, &[value]).expect("these directives exist");
        }
        disk.set_direct_blocks(self.direct_blocks);
        disk.set_directory_number(directory_number);
        Setup {
            sizes: Sizes {
                first_segment_bytes: self.segment_bytes(),
                segment_bytes: self.segment_bytes(),
                frame_bytes_max: 4 << 10,
                reserve_bytes: 1 << 10,
                ..Sizes::default()
            },
            // With the smaller ones collections of a few elements go into several parts.
            part_bytes: if seed.is_multiple_of(2) { 24 } else { 256 },
            seed,
            ..Setup::new(config)
        }
    }
}

impl Directory {
    /// The disk after it, for a node that has left these earlier states, oldest first; `None` where there is no
    /// earlier state to put back.
    pub(crate) fn change(self, disk: &MemoryDisk, earlier: &[Backup]) -> Option<Changed> {
        let choose = |number: u64| {
            let count = earlier.len() as u64;
            let index = usize::try_from(number.checked_rem(count)?).ok()?;
            earlier.get(index)
        };
        let empty = MemoryDisk::with_power_loss();
        let put_back = |backup: &Backup, disk| Changed {
            disk,
            is_older: true,
            cap_ns: backup.cap_ns,
        };
        Some(match self {
            Directory::Same => Changed::same(disk),
            Directory::Moved => Changed {
                disk: disk.with_put_back(&disk.after_process_end(), |_| true),
                ..Changed::same(disk)
            },
            Directory::Emptied => Changed {
                disk: disk.with_put_back(&empty, is_of_log),
                is_older: true,
                cap_ns: 0,
            },
            Directory::Restored(number) => {
                let backup = choose(number)?;
                put_back(backup, disk.with_put_back(&backup.disk, |_| true))
            }
            Directory::LogRestored(number) => {
                let backup = choose(number)?;
                put_back(backup, disk.with_put_back(&backup.disk, is_of_log))
            }
        })
    }
}

/// An earlier state of the directory, taken while no node ran on it.
#[derive(Clone, Debug)]
pub(crate) struct Backup {
    pub(crate) disk: MemoryDisk,
    /// The cap that the last run before it was started with.
    pub(crate) cap_ns: u64,
}

/// A directory after something was done to it.
pub(crate) struct Changed {
    pub(crate) disk: MemoryDisk,
    /// It knows nothing of the last runs.
    pub(crate) is_older: bool,
    /// The cap that it can tell of.
    pub(crate) cap_ns: u64,
}

impl Changed {
    /// A directory to which nothing was done.
    pub(crate) fn same(disk: &MemoryDisk) -> Changed {
        Changed {
            disk: disk.clone(),
            is_older: false,
            cap_ns: 0,
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Options::plain(self.mode);
        write!(formatter, "{}, cap {} s", self.mode.name(), self.cap_s)?;
        if *self
            != (Options {
                cap_s: self.cap_s,
                ..plain
            })
        {
            let (delay, drift) = (self.delay, self.drift_percent);
            write!(formatter, ", restart-delay {delay:?}, drift {drift} %")?;
            let (trusts, requires) = (self.trusts_fsync, self.requires_ttl);
            write!(formatter, ", trust-fsync {trusts}, require-ttl {requires}")?;
            let (syncs, directory) = (self.syncs_uncovered, self.directory);
            write!(formatter, ", syncs without TTL {syncs}, {directory:?}")?;
            write!(formatter, ", clock {} ppm", self.rate_ppm)?;
            let (blocks, is_full) = (self.direct_blocks, self.is_full);
            write!(formatter, ", direct blocks {blocks:?}, full {is_full}")?;
        }
        Ok(())
    }
}

fn is_of_log(name: &str) -> bool {
    name.starts_with("segment-")
}

/// What a file system may take: nothing, sectors, pages, and blocks of devices with larger ones.
pub(crate) const DIRECT_BLOCKS: [Option<usize>; 8] = [
    None,
    Some(512),
    Some(PAGE_BYTES),
    Some(PAGE_BYTES),
    Some(16 << 10),
    Some(16 << 10),
    Some(64 << 10),
    Some(64 << 10),
];
/// Larger blocks hold a segment's header as well, which is then written again with each commit.
pub(crate) const PAGE_BYTES: usize = 4 << 10;
pub(crate) const SEGMENT_BYTES_MIN: u64 = 10 << 10;
const CAPS_S: [u64; 4] = [5, 20, 60, 90];

/// Within the drift bound of every configuration.
pub(crate) const RATE_PPM: i32 = 10_000;
