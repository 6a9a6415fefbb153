//! One combination of what is compared: fsync mode, restart delay, fault, number of nodes, fences; what makes no sense, and what is
//! expected to come of the others.
//!
//! Each value has one word, which the command line, the files and the report use alike.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::fault::Fault;
use crate::words::{text_in_files, words};

words! {
    /// When a node's log reaches the disk.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum FsyncMode or "fsync mode: {all}" {
        /// Before every reply.
        Always = "always",
        /// Once a second.
        Everysec = "everysec",
        /// When the kernel decides.
        No = "no",
        /// Never: the node keeps no log of its keys (`appendonly no`).
        None = "none",
    }
}

words! {
    /// Whether locks have a fence, which the register checks.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    #[serde(rename_all = "kebab-case")]
    pub enum FenceCheck or "answer to whether locks have fences: {all}" {
        /// The register takes every write.
        #[default]
        Off = "off",
        /// The register refuses who comes with a smaller fence than it has seen.
        On = "on",
    }
}

/// How long a node refuses locks after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Delay {
    /// As long as needed: the product's default.
    Auto,
    /// As long as needed if the disk keeps what it has acknowledged (`trust-fsync yes`).
    TrustFsync,
    /// Not at all.
    Off,
    /// So many hundredths of the needed delay, which is the longest ttl that was granted.
    Percent(u32),
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// When logs reach the disk.
    pub fsync: FsyncMode,
    /// How long nodes wait after a start.
    pub delay: Delay,
    /// What goes wrong.
    pub fault: Fault,
    /// How many nodes.
    pub nodes: u8,
    /// Whether locks have fences.
    #[serde(default, skip_serializing_if = "FenceCheck::are_off")]
    pub fences: FenceCheck,
}

/// How many violations of mutual exclusion (C1) a cell may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// None: one is a defect of the product.
    None,
    /// Some, in the directed schedule: that is what the cell shows.
    Some,
    /// It depends on the moment.
    Open,
}

impl FenceCheck {
    /// Whether locks have a fence.
    pub fn are_on(self) -> bool {
        self == FenceCheck::On
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference"
    )]
    fn are_off(&self) -> bool {
        *self == FenceCheck::Off
    }
}

impl Delay {
    /// What a node is told: the value of its directive `restart-delay`, and of `trust-fsync`.
    pub fn directives(self, needed: Duration) -> (String, &'static str) {
        match self {
            Delay::Auto => ("auto".to_owned(), "no"),
            Delay::TrustFsync => ("auto".to_owned(), "yes"),
            Delay::Off => ("off".to_owned(), "no"),
            Delay::Percent(percent) => {
                let ms = needed.as_millis() * u128::from(percent) / 100;
                (format!("{ms}ms"), "no")
            }
        }
    }
}

impl Cell {
    /// What its nodes are started with, for these longest ttls.
    pub fn directives(
        &self,
        ttl: Duration,
        restart_delay_max: Duration,
    ) -> [(&'static str, String); 6] {
        let (delay, trust) = self.delay.directives(ttl);
        let (log, mode) = match self.fsync {
            FsyncMode::None => ("no", FsyncMode::No),
            mode => ("yes", mode),
        };
        let max_ms = restart_delay_max.as_millis();
        [
            ("appendonly", log.to_owned()),
            ("appendfsync", mode.to_string()),
            ("restart-delay", delay),
            ("trust-fsync", trust.to_owned()),
            ("restart-delay-max", format!("{max_ms}ms")),
            ("first-start", "serve".to_owned()),
        ]
    }

    /// Names it in files and on the command line: `everysec/off/power-loss-one/5`.
    pub fn id(&self) -> String {
        self.to_string()
    }

    /// How many nodes are a majority.
    pub fn quorum(&self) -> u8 {
        self.nodes / 2 + 1
    }

    /// What an operator changes between the crash and the next start: names of directives, and their values.
    pub fn changed_directives(&self, ttl: Duration) -> Vec<(&'static str, String)> {
        match (self.fault, self.fsync) {
            (Fault::CapLowered, _) => {
                let ms = ttl.as_millis() / 5;
                vec![("restart-delay-max", format!("{ms}ms"))]
            }
            (Fault::ModeChanged, FsyncMode::Always) => vec![("appendfsync", "no".to_owned())],
            (Fault::ModeChanged, _) => {
                let changed = [
                    ("appendonly", "yes"),
                    ("appendfsync", "always"),
                    ("trust-fsync", "yes"),
                ];
                changed.map(|(name, value)| (name, value.to_owned())).into()
            }
            _ => Vec::new(),
        }
    }

    /// Why it makes no sense, or shows nothing that another cell does not.
    pub fn refusal(&self) -> Option<&'static str> {
        let restarts = self.fault.restarted(self.nodes) > 0;
        let is_lossy = self.fault == Fault::PowerLossMajority || self.fault == Fault::PowerLossAll;
        if self.nodes == 1 && (is_lossy || self.fault == Fault::Partition) {
            return Some("one node has no minority: power-loss-one is the same");
        }
        if !restarts && self.delay != Delay::Auto {
            return Some("no node starts again, so the restart delay changes nothing");
        }
        if self.delay == Delay::TrustFsync && self.fsync != FsyncMode::Always {
            return Some("trust-fsync changes nothing unless every reply was synced");
        }
        let logless = matches!(self.fault, Fault::SlowSync | Fault::DiskFull);
        if self.fsync == FsyncMode::None && logless {
            return Some("a node without a log of its keys hardly uses its disk");
        }
        self.refusal_of_story()
    }

    /// Faults that tell one story.
    fn refusal_of_story(&self) -> Option<&'static str> {
        if self.fault.strikes_after_sync() && self.fsync == FsyncMode::None {
            return Some("without a log the grant is lost as well: power-loss-one shows it");
        }
        let is_changed = matches!(self.fault, Fault::CapLowered | Fault::ModeChanged);
        if is_changed && matches!(self.delay, Delay::Off | Delay::Percent(_)) {
            return Some("the configuration decides about auto alone; power-loss-one is the same");
        }
        if self.fault == Fault::ModeChanged && self.delay == Delay::TrustFsync {
            return Some("the fault sets trust-fsync itself");
        }
        if self.fault == Fault::Failover && self.fences.are_on() {
            return Some("only redis-server fails over, and it takes no fences");
        }
        if self.fault == Fault::CapLowered && self.fences.are_on() && self.nodes == 1 {
            return Some(
                "a node takes no fences for locks that are longer than its restart-delay-max",
            );
        }
        if self.fault == Fault::Failover && self.nodes != 1 {
            return Some("a primary and its replica take the place of one node: --nodes 1");
        }
        None
    }

    /// What is known in advance of its violations, from what a fault takes: not from what nodes say. `is_redis` where the
    /// nodes are not our own.
    pub fn expectation(&self, is_redis: bool) -> Expectation {
        if is_redis && matches!(self.fault, Fault::WallClockStep | Fault::Failover) {
            return Expectation::Some;
        }
        match self.delay {
            Delay::Auto | Delay::TrustFsync => Expectation::None,
            Delay::Percent(percent) if percent >= 100 => Expectation::None,
            Delay::Percent(_) if self.forgets() => Expectation::Open,
            // A release that is lost gives nobody a lock; other locks were granted without a sync.
            Delay::Off if self.forgets() && self.fault == Fault::ReleaseLost => Expectation::Open,
            Delay::Off if self.forgets() => Expectation::Some,
            Delay::Off | Delay::Percent(_) => Expectation::None,
        }
    }

    /// Whether the fault makes a node forget locks that it has acknowledged, or a part of their time.
    pub fn forgets(&self) -> bool {
        match self.fsync {
            FsyncMode::None => self.fault.restarted(self.nodes) > 0,
            FsyncMode::Everysec | FsyncMode::No => self.fault.is_power_loss(),
            FsyncMode::Always => false,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell {
            fsync,
            delay,
            fault,
            nodes,
            fences,
        } = self;
        write!(f, "{fsync}/{delay}/{fault}/{nodes}")?;
        match fences {
            FenceCheck::Off => Ok(()),
            FenceCheck::On => f.write_str("/fences"),
        }
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Cell, String> {
        let (values, fences) = match text.strip_suffix("/fences") {
            Some(values) => (values, FenceCheck::On),
            None => (text, FenceCheck::Off),
        };
        let parts: Vec<&str> = values.split('/').collect();
        let [fsync, delay, fault, nodes] = parts[..] else {
            return Err(format!(
                "'{text}' is no cell: write it like everysec/off/power-loss-one/5"
            ));
        };
        let nodes = nodes.parse().ok().filter(|nodes| [1, 3, 5].contains(nodes));
        Ok(Cell {
            fsync: fsync.parse()?,
            delay: delay.parse()?,
            fault: fault.parse()?,
            nodes: nodes.ok_or_else(|| format!("'{text}': the number of nodes is 1, 3 or 5"))?,
            fences,
        })
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::Auto => f.write_str("auto"),
            Delay::TrustFsync => f.write_str("trust-fsync"),
            Delay::Off => f.write_str("off"),
            Delay::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Delay, String> {
        let percent = |text: &str| text.strip_suffix('%')?.parse().ok();
        match text {
            "auto" => Ok(Delay::Auto),
            "trust-fsync" => Ok(Delay::TrustFsync),
            "off" => Ok(Delay::Off),
            _ => match percent(text) {
                Some(percent @ 1..=PERCENT_MAX) => Ok(Delay::Percent(percent)),
                _ => Err(format!(
                    "'{text}' is no restart delay: auto, trust-fsync, off, or a share of the \
                     needed delay from 1% to {PERCENT_MAX}%"
                )),
            },
        }
    }
}

text_in_files!(Delay);

/// More than this share of the needed delay shows nothing new.
const PERCENT_MAX: u32 = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_as_it_is_written() {
        for fsync in FsyncMode::ALL {
            for delay in [
                Delay::Auto,
                Delay::TrustFsync,
                Delay::Off,
                Delay::Percent(50),
            ] {
                for fault in Fault::ALL {
                    for fences in FenceCheck::ALL {
                        let cell = Cell {
                            fsync,
                            delay,
                            fault,
                            nodes: 5,
                            fences,
                        };
                        assert_eq!(cell.id().parse(), Ok(cell));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_cell_says_what_one_is() {
        for (text, part) in [
            ("", "no cell"),
            ("everysec/off/power-loss-one", "no cell"),
            ("sometimes/off/power-loss-one/5", "no fsync mode"),
            ("no/0%/power-loss-one/5", "no restart delay"),
            ("no/401%/power-loss-one/5", "no restart delay"),
            ("no/off/meteor/5", "no fault"),
            ("no/off/power-loss-one/4", "1, 3 or 5"),
            ("no/off/power-loss-one/5/fence", "no cell"),
        ] {
            let error = text.parse::<Cell>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_violation_is_expected_only_where_a_node_forgets_and_does_not_wait() {
        for (id, expected) in [
            ("no/off/power-loss-one/5", Expectation::Some),
            ("everysec/off/power-loss-all/3", Expectation::Some),
            ("always/off/power-loss-one/5", Expectation::None),
            ("no/off/process-kill/5", Expectation::None),
            ("none/off/process-kill/5", Expectation::Some),
            ("none/off/clean-restart/5", Expectation::Some),
            ("no/50%/power-loss-one/5", Expectation::Open),
            ("no/100%/power-loss-one/5", Expectation::None),
            ("no/auto/power-loss-one/5", Expectation::None),
            ("always/trust-fsync/power-loss-one/5", Expectation::None),
            ("everysec/off/extension-lost/5", Expectation::Some),
            ("always/off/extension-lost/5", Expectation::None),
            ("everysec/off/release-lost/5", Expectation::Open),
            ("everysec/auto/release-lost/5", Expectation::None),
            ("no/auto/cap-lowered/5", Expectation::None),
            ("no/auto/mode-changed/5", Expectation::None),
            ("no/auto/wall-clock-step/5", Expectation::None),
        ] {
            let cell: Cell = id.parse().expect(id);
            assert_eq!(cell.expectation(false), expected, "{id}");
            assert_eq!(cell.refusal(), None, "{id}");
        }
    }

    #[test]
    fn of_redis_servers_clock_and_replicas_two_holders_are_expected() {
        for id in ["no/auto/wall-clock-step/5", "no/auto/failover/1"] {
            let cell: Cell = id.parse().expect(id);
            assert_eq!(cell.expectation(true), Expectation::Some, "{id}");
        }
        for id in [
            "none/off/extension-lost/5",
            "no/off/cap-lowered/5",
            "always/trust-fsync/mode-changed/5",
            "no/auto/failover/5",
            "no/auto/failover/1/fences",
            "no/auto/cap-lowered/1/fences",
        ] {
            let cell: Cell = id.parse().expect(id);
            assert!(cell.refusal().is_some(), "{id}");
        }
    }
}
