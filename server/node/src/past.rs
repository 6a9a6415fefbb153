//! What a data directory tells of a node's past, and what the next start has to make of it.
//!
//! Invariant: there is one judge. A start, the log tools, a repair and the simulation hand it a
//! directory, the clocks and a configuration, and get the same typed past with its verdict. The
//! rules of the verdict are in `quorlock_engine::restart`. Nothing here changes the directory, but
//! for what `identity` and `fingerprint` write when a start asks them to.

pub(crate) mod belongings;
mod error;
pub mod fingerprint;
mod frames;
pub mod identity;
pub(crate) mod relocation;

use quorlock_engine::control::Ceiling;
use quorlock_engine::relocation::Relocation;
use quorlock_engine::restart::{self, History, Policy, Rebased, RestartVerdict, Seen};
use quorlock_engine::{NodeTime, RawTime};
use quorlock_persistence::Disk;

pub(crate) use belongings::Belongings;
pub use fingerprint::is_node_file;
pub use identity::NodeId;

pub use error::PastError;
pub use error::{FrameError, Location};
pub use frames::Log;
pub use identity::NodeIdentity;
pub use relocation::{NoReceipt, Receipt, RelocationRefusal};

use crate::clock::{Reading, saturated_nanos};
use crate::config::{Config, FirstStart};

/// A directory as it was found: who it says it is, its log, and what surrounds that.
pub struct Directory<'a> {
    /// What it lies on.
    pub disk: &'a dyn Disk,
    /// What `node.id` holds; the log was read as this node's.
    pub identity: Option<&'a NodeIdentity>,
    /// Its log, as far as it was read.
    pub log: Log<'a>,
}

/// A node's past, and what follows from it for a start at this moment.
#[derive(Debug)]
pub struct Past {
    /// What the log says.
    pub history: History,
    /// What was seen around it.
    pub seen: Seen,
    /// Node time is `raw clock - raw + base` from here on.
    pub(crate) base: NodeTime,
    pub(crate) raw: RawTime,
    /// The highest incarnation that log, headers or markers know.
    pub(crate) newest_incarnation: u64,
    /// How the last incarnation ended, and what has to be waited out.
    pub verdict: RestartVerdict,
    /// Where the fences of the next one begin.
    pub(crate) ceiling: Ceiling,
}

impl Past {
    /// Judges what the directory's log says ([`Log::history`]), at a moment after that was read.
    ///
    /// # Errors
    /// When the directory cannot be read, or was released and not adopted since.
    pub fn judge(
        directory: &Directory<'_>,
        history: History,
        now: &Reading,
        policy: &Policy,
    ) -> Result<Self, PastError> {
        if let Relocation::Released(_) = history.relocation {
            let directory = directory.disk.describe("");
            return Err(PastError::Released { directory });
        }
        let newest_incarnation = newest_incarnation(directory, &history)?;
        let summary = directory.log.summary();
        let Rebased {
            is_same_boot,
            base,
            raw: base_raw,
        } = history.rebase(now.boot, now.raw, now.boottime);
        let is_same_directory = history.start.is_none_or(|start| {
            let (disk, incarnation) = (directory.disk, start.incarnation);
            start.fingerprint == fingerprint::value(disk, incarnation, history.is_shut_down)
        });
        let marked = fingerprint::newest_incarnation(directory.disk).map_err(PastError::Disk)?;
        let has_marker = marked > 0;
        let seen = Seen {
            now: restart::node_time(base, base_raw, now.raw).unwrap_or(base),
            is_same_boot,
            is_whole: summary.only_zeros_follow,
            is_same_directory,
            // A marker without a log says as much as an identity without one: a node ran here.
            has_identity: directory.identity.is_some() || has_marker,
            has_marker,
        };
        let verdict = history.judge(&seen, policy);
        Ok(Self {
            newest_incarnation,
            verdict,
            ceiling: history.ceiling(verdict.stop, &seen, policy),
            history,
            seen,
            base,
            raw: base_raw,
        })
    }
}

/// The highest incarnation that log, headers or markers know. A log that was repaired or put back may have forgotten the
/// last ones; its headers and the markers may not.
fn newest_incarnation(directory: &Directory<'_>, history: &History) -> Result<u64, PastError> {
    let marked = fingerprint::newest_incarnation(directory.disk).map_err(PastError::Disk)?;
    let recorded = history.start.map_or(0, |start| start.incarnation);
    let newest_header = directory.log.summary().newest_identity;
    let in_headers = newest_header.map_or(0, |identity| identity.incarnation);
    Ok(recorded.max(in_headers).max(marked))
}

/// The operator's choices, resolved.
pub fn policy(config: &Config) -> Policy {
    Policy {
        restart_delay: config.restart_delay,
        trusts_fsync: config.trust_fsync,
        cap_ns: saturated_nanos(config.restart_delay_max),
        drift_ppm: u64::from(config.clock_drift_millionths),
        first_start_waits: match config.first_start {
            FirstStart::Auto => config.beyond_first_try().is_some(),
            FirstStart::Serve => false,
            FirstStart::Wait => true,
        },
        vouches_for_first_start: config.first_start == FirstStart::Serve,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::sync::Arc;

    use quorlock_engine::restart::Stop;
    use quorlock_persistence::{LogOptions, MemoryDisk, RealDisk, Recovery};

    use super::*;
    use crate::clock::SettableClock;
    use crate::config::ClusterSize;
    use crate::start::for_tests;

    fn with(name: &str, value: &str) -> Config {
        let mut config = Config::default();
        config.set(name, &[value]).unwrap();
        config
    }

    #[test]
    fn an_identity_or_the_trace_of_a_run_without_a_log_is_an_emptied_directory() {
        let identity = NodeIdentity::known([1; 20], &Config::default());
        for (has_identity, has_marker, expected) in [
            (false, false, Stop::Unknown),
            (true, false, Stop::Emptied),
            (false, true, Stop::Emptied),
            (true, true, Stop::Emptied),
        ] {
            let home = tempfile::tempdir().unwrap();
            let disk = RealDisk::open(home.path()).unwrap();
            if has_marker {
                fingerprint::mark(&*disk, 7).unwrap();
            }
            let recovery = Recovery::read(disk.clone(), &LogOptions::default()).unwrap();
            let directory = Directory {
                disk: &*disk,
                identity: has_identity.then_some(&identity),
                log: Log::Recovered(&recovery),
            };
            let policy = policy(&Config::default());
            let clock = SettableClock::new();
            let history = directory.log.history(|_, _| Ok(())).unwrap();
            let past = Past::judge(&directory, history, &Reading::now(&clock), &policy).unwrap();
            assert_eq!(past.verdict.stop, expected, "{has_identity} {has_marker}");
            assert_eq!(past.newest_incarnation, if has_marker { 7 } else { 0 });
        }
    }

    #[test]
    fn each_start_counts_on_from_the_last_in_the_same_place() {
        let (disk, clock) = (MemoryDisk::new(), Arc::new(SettableClock::new()));
        for (incarnation, stop) in [(1, Stop::Unknown), (2, Stop::Complete), (3, Stop::Complete)] {
            let config = with("appendfsync", "always");
            let (node, _, _) = for_tests::started(config, Arc::new(disk.clone()), clock.clone());
            assert_eq!(node.facts.start.incarnation, incarnation);
            assert_eq!(node.facts.verdict.stop, stop, "start {incarnation}");
        }
    }

    #[test]
    fn a_first_start_waits_where_more_is_configured_than_for_a_try_or_as_its_operator_says() {
        let of = |value, cluster_size| {
            let mut config = with("first-start", value);
            config.cluster_size = ClusterSize::of(cluster_size);
            let policy = policy(&config);
            (policy.first_start_waits, policy.vouches_for_first_start)
        };
        assert_eq!(of("auto", 5), (true, false));
        assert_eq!(of("auto", 0), (false, false));
        assert_eq!(of("serve", 5), (false, true));
        assert_eq!(of("wait", 0), (true, false));
    }
}
