//! What was looked at, counted by kind.

use std::collections::BTreeMap;

use quorlock_persistence::{DiskFault, DiskOperation};

use super::check::Reopened;
use super::images::{Image, ImageKind};
use super::options::Directory;
use super::session::Kind;
use super::world::World;

/// Counts over one or many workloads.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Workloads run.
    pub workloads: u64,
    /// Restarts within them.
    pub restarts: u64,
    /// Changes of the disk after which crashes were tried.
    pub points: u64,
    /// Of these, points at which every subset of what was not synced was tried.
    pub complete_points: u64,
    /// Disks after the end of the process.
    pub process_ends: u64,
    /// The same, with pages gone that a failed sync had given up.
    pub evictions: u64,
    /// Disks after a power loss: subsets of what was not synced.
    pub subsets: u64,
    /// The same with sectors half written or full of garbage.
    pub torn: u64,
    /// Of these, disks on which names could have been lost.
    pub with_names: u64,
    /// Second crashes while the node started after the first.
    pub second_crashes: u64,
    /// Starts repeated with another wall clock.
    pub wall_steps: u64,
    /// Nodes that were asked during their delay and after it.
    pub services: u64,
    /// Nodes that had to wait.
    pub delays: u64,
    /// Nodes that served at once.
    pub served: u64,
    /// States in which a client's lock was forgotten, and a delay covered it.
    pub covered: u64,
    /// Acknowledged writes that were looked for, over all states.
    pub acknowledged: u64,
    /// Starts refused because a lying disk had lost what was durable.
    pub refusals: u64,
    /// Starts refused because both copies of a header were torn into garbage.
    pub torn_headers: u64,
    /// Starts in a directory that was copied elsewhere.
    pub moved: u64,
    /// Starts in a directory whose log was deleted.
    pub emptied: u64,
    /// Starts in a directory to which an earlier state was put back.
    pub restored: u64,
    /// Restarts under another cap than the run before.
    pub other_caps: u64,
    /// Commits written directly in blocks larger than a page.
    pub large_writes: u64,
    /// Iterations with such commits after which a segment goes on behind its first block.
    pub further_blocks: u64,
    /// Starts on a full disk that went on in the last segment.
    pub resumed: u64,
    /// States of disks that have lied.
    pub lies: u64,
    /// Messages that told of a write: events of keys, what scripts published, invalidations.
    pub messages: u64,
    /// Elements that clients got which asked to wait for one.
    pub elements: u64,
    /// Faults of the disk that workloads asked for.
    pub faults_planned: u64,
    /// Faults that happened, by kind.
    pub faults: BTreeMap<String, u64>,
}

impl Statistics {
    /// All states.
    pub fn states(&self) -> u64 {
        self.process_ends + self.evictions + self.subsets + self.torn + self.second_crashes
    }

    /// Adds another count.
    pub fn add(&mut self, other: &Statistics) {
        for ((_, mine), (_, theirs)) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *mine += theirs;
        }
        for (kind, count) in &other.faults {
            *self.faults.entry(kind.clone()).or_default() += count;
        }
    }

    /// All numbers by name, in a fixed order.
    pub fn numbers(&self) -> Vec<(&'static str, u64)> {
        let mut copy = self.clone();
        let numbers = copy.numbers_mut();
        numbers
            .into_iter()
            .map(|(name, number)| (name, *number))
            .collect()
    }

    /// The same, to be changed.
    pub fn numbers_mut(&mut self) -> Vec<(&'static str, &mut u64)> {
        vec![
            ("workloads", &mut self.workloads),
            ("restarts within them", &mut self.restarts),
            ("points of crash", &mut self.points),
            (
                "of these with every subset tried",
                &mut self.complete_points,
            ),
            ("states: process end", &mut self.process_ends),
            ("states: process end, cache dropped", &mut self.evictions),
            ("states: power loss, whole sectors", &mut self.subsets),
            ("states: power loss, torn sectors", &mut self.torn),
            ("states: second crash", &mut self.second_crashes),
            ("of these with unsynced names", &mut self.with_names),
            ("repeated with another wall clock", &mut self.wall_steps),
            ("asked during and after the delay", &mut self.services),
            ("nodes that waited", &mut self.delays),
            ("nodes that served at once", &mut self.served),
            ("forgotten locks covered by a delay", &mut self.covered),
            ("acknowledged writes checked", &mut self.acknowledged),
            ("refused after a lying disk", &mut self.refusals),
            ("refused over a header of garbage", &mut self.torn_headers),
            ("in a directory that was moved", &mut self.moved),
            ("in a directory that was emptied", &mut self.emptied),
            ("in a directory that was put back", &mut self.restored),
            ("restarts under another cap", &mut self.other_caps),
            (
                "direct writes of 16 or 64 KiB blocks",
                &mut self.large_writes,
            ),
            ("after which a block was full", &mut self.further_blocks),
            ("starts that went on in the last segment", &mut self.resumed),
            ("states of disks that have lied", &mut self.lies),
            ("messages that told of a write", &mut self.messages),
            ("elements for clients that wait", &mut self.elements),
            ("faults planned", &mut self.faults_planned),
        ]
    }

    pub(crate) fn note_state(&mut self, world: &World, image: &Image) {
        match image.kind {
            ImageKind::ProcessEnd => self.process_ends += 1,
            ImageKind::Eviction => self.evictions += 1,
            ImageKind::Subset => self.subsets += 1,
            ImageKind::Torn => self.torn += 1,
        }
        self.with_names += u64::from(image.has_names);
        self.lies += u64::from(world.has_lied);
        let revealed = world
            .oracle
            .versions
            .iter()
            .filter(|version| version.is_revealed);
        self.acknowledged += revealed.count() as u64;
    }

    /// Notes that a client was told of a write.
    pub(crate) fn note_told(&mut self, kind: Kind) {
        match kind {
            Kind::Message => self.messages += 1,
            Kind::Element => self.elements += 1,
            Kind::Reply | Kind::Sync | Kind::Maybe => {}
        }
    }

    /// Notes what was done to a directory before a start.
    pub(crate) fn note_directory(&mut self, directory: Directory) {
        match directory {
            Directory::Same => {}
            Directory::Moved => self.moved += 1,
            Directory::Emptied => self.emptied += 1,
            Directory::Restored(_) | Directory::LogRestored(_) => self.restored += 1,
        }
    }

    /// Notes with what a node is started again within its workload.
    pub(crate) fn note_start(&mut self, world: &World) {
        self.note_directory(world.options.directory);
        let before = world.caps.values().last();
        self.other_caps +=
            u64::from(before.is_some_and(|cap_ns| *cap_ns != world.options.cap_ns()));
    }

    pub(crate) fn note_reopened(&mut self, reopened: &Reopened) {
        match reopened.node.is_serving() {
            true => self.served += 1,
            false => self.delays += 1,
        }
        self.covered += u64::from(!reopened.lost.is_empty());
        self.resumed += u64::from(reopened.is_resumed);
    }

    pub(crate) fn note_fault(&mut self, operation: DiskOperation, fault: DiskFault) {
        let kind = match fault {
            DiskFault::Error(number) => format!("{operation:?} answers error {number}"),
            DiskFault::Short(_, number) => format!("{operation:?} in part, then error {number}"),
            DiskFault::Lie => format!("{operation:?} lies"),
        };
        *self.faults.entry(kind).or_default() += 1;
    }
}
