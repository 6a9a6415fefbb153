//! Changes of the mode while a node runs, explored: every order of writes, syncs, changes and
//! crashes of a short run, with the production rules for replies and for the next start.
//!
//! The log is modelled as what it guarantees: a crash leaves a prefix that holds at least what
//! was synced. Each mutant breaks one rule and must be caught by a property.

use std::collections::HashSet;

use quorlock_engine::control::{Boot, Ceiling, ControlRecord, Durability, Mode, Start};
use quorlock_engine::live_mode::LiveMode;
use quorlock_engine::restart::{History, Policy, RestartDelay, Seen, Stop};
use quorlock_engine::{BootTime, LogPosition, NodeTime, RawTime};

const MODES: [Durability; 3] = [Durability::No, Durability::Everysec, Durability::Always];
const CAP_NS: u64 = 60_000_000_000;
/// Frames after START, SERVING and PROMISE; deeper runs find nothing new and take long.
const FRAMES_MAX: usize = 6;

/// A rule broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// Weaker replies leave before the record of their mode is synced.
    WeakerRepliesBeforeTheRecord,
    /// `always` is on record as complete before what a weaker mode revealed is synced.
    CompleteBeforeTheSync,
    /// A change to `always` counts at once, whatever was revealed before.
    StrongerForgetsWeaker,
    /// The next start goes by the mode configured then, not by the one on record.
    ModeOfTodaysConfiguration,
    /// A change back to `everysec` is taken for complete and leaves `always` on record.
    WeakerIsNotOnRecord,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Frame {
    /// Executed under this mode, and its reply waits for `written` and `synced`.
    Write(Durability, u64, u64),
    Mode(Mode),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    mode: LiveMode,
    frames: Vec<Frame>,
    written: u64,
    synced: u64,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Write,
    WriteOut,
    Sync,
    Change(Durability),
    Complete,
}

fn start(durability: Durability) -> Start {
    Start {
        incarnation: 1,
        boot: Boot([1; 16]),
        fingerprint: 1,
        durability,
        base: NodeTime::from_nanos(0),
        raw: RawTime::ZERO,
        wall_us: 0,
        boottime: BootTime::ZERO,
        pending: None,
        cap_ns: CAP_NS,
        ceiling: Ceiling::NONE,
    }
}

impl State {
    fn next_position(&self) -> u64 {
        self.frames.len() as u64 + 1
    }

    fn step(&self, action: Operation, mutant: Mutant) -> Option<Self> {
        let mut next = self.clone();
        let has_room = self.frames.len() < FRAMES_MAX;
        match action {
            Operation::Write if has_room => {
                let position = self.next_position();
                let mut reach = self.mode.reach(LogPosition::from_raw(position));
                if mutant == Mutant::WeakerRepliesBeforeTheRecord
                    && self.mode.durability() != Durability::Always
                {
                    reach.synced = LogPosition::ZERO;
                }
                let frame = Frame::Write(
                    self.mode.durability(),
                    reach.written.get(),
                    reach.synced.get(),
                );
                next.frames.push(frame);
            }
            Operation::WriteOut => next.written = self.frames.len() as u64,
            Operation::Sync => next.synced = self.written,
            Operation::Change(to) if has_room && to != self.mode.durability() => {
                let mut mode =
                    next.mode
                        .change(to, CAP_NS, LogPosition::from_raw(self.next_position()));
                mode.is_complete = mutant == Mutant::StrongerForgetsWeaker;
                if mutant == Mutant::WeakerIsNotOnRecord && to != Durability::Always {
                    mode.durability = Durability::Always;
                }
                next.frames.push(Frame::Mode(mode));
            }
            Operation::Complete if has_room => {
                let synced = match mutant {
                    Mutant::CompleteBeforeTheSync => u64::MAX,
                    _ => self.synced,
                };
                next.frames.push(Frame::Mode(
                    next.mode.complete(LogPosition::from_raw(synced))?,
                ));
            }
            _ => return None,
        }
        (next != *self).then_some(next)
    }

    /// Positions of writes whose reply has left: as early as it may.
    fn revealed(&self) -> impl Iterator<Item = (u64, Durability)> {
        self.frames
            .iter()
            .zip(1..)
            .filter_map(|(frame, position)| match frame {
                Frame::Write(mode, written, synced)
                    if *written <= self.written && *synced <= self.synced =>
                {
                    Some((position, *mode))
                }
                _ => None,
            })
    }

    /// The first property that a crash here breaks.
    fn broken(&self, first: Durability, mutant: Mutant) -> Option<&'static str> {
        if (self.revealed())
            .any(|(position, mode)| mode == Durability::Always && position > self.synced)
        {
            return Some("a reply under `always` left before its sync");
        }
        for (is_same_boot, trusts_fsync) in [(true, false), (false, true)] {
            // A killed process leaves what was written, a power loss at least what was synced.
            let shortest = if is_same_boot {
                self.written
            } else {
                self.synced
            };
            for kept in shortest..=self.written {
                let history = self.history(first, kept, mutant);
                let verdict = history.judge(&seen(is_same_boot), &policy(trusts_fsync));
                let is_lost = self.revealed().any(|(position, _)| position > kept);
                if is_lost && verdict.delay.is_none() {
                    return Some("serves at once although an acknowledged write is lost");
                }
                let claims = matches!(verdict.stop, Stop::Complete | Stop::PowerLoss);
                if claims && (self.revealed()).any(|(position, _)| position > self.synced) {
                    return Some("says that every reply was synced, and one was not");
                }
            }
        }
        None
    }

    fn history(&self, first: Durability, kept: u64, mutant: Mutant) -> History {
        let mut history = History::default();
        let mut note = |record: &ControlRecord| history.record(NodeTime::from_nanos(1), record);
        note(&ControlRecord::Start(start(first)));
        note(&ControlRecord::Serving);
        note(&ControlRecord::Promise(10_000_000_000));
        for frame in self.frames.iter().take(usize::try_from(kept).unwrap()) {
            match frame {
                Frame::Write(..) => note(&ControlRecord::Tick),
                Frame::Mode(mode) => note(&ControlRecord::Mode(*mode)),
            }
        }
        if mutant == Mutant::ModeOfTodaysConfiguration {
            history.weakest = self.mode.durability();
        }
        history
    }
}

fn seen(is_same_boot: bool) -> Seen {
    Seen {
        now: NodeTime::from_nanos(2),
        is_same_boot,
        is_whole: true,
        is_same_directory: true,
        has_identity: true,
        has_marker: false,
    }
}

fn policy(trusts_fsync: bool) -> Policy {
    Policy {
        restart_delay: RestartDelay::Auto,
        trusts_fsync,
        cap_ns: CAP_NS,
        drift_ppm: 10_000,
        first_start_waits: true,
        vouches_for_first_start: false,
    }
}

/// States seen, and the first broken property with the actions that lead to it.
fn explore(mutant: Mutant) -> (usize, Option<String>) {
    let mut actions = vec![
        Operation::Write,
        Operation::WriteOut,
        Operation::Sync,
        Operation::Complete,
    ];
    actions.extend(MODES.map(Operation::Change));
    let mut seen = HashSet::new();
    for first in MODES {
        let begin = State {
            mode: LiveMode::new(&start(first)),
            frames: Vec::new(),
            written: 0,
            synced: 0,
        };
        let mut open = vec![begin];
        while let Some(state) = open.pop() {
            if let Some(property) = state.broken(first, mutant) {
                return (
                    seen.len(),
                    Some(format!("{property}: from {first:?}: {state:?}")),
                );
            }
            for action in &actions {
                if let Some(next) = state.step(*action, mutant)
                    && seen.insert((first, next.clone()))
                {
                    open.push(next);
                }
            }
        }
    }
    (seen.len(), None)
}

#[test]
fn no_order_of_changes_syncs_and_crashes_forgets_what_was_acknowledged() {
    let (states, broken) = explore(Mutant::None);
    assert_eq!(broken, None);
    assert!(states > 10_000, "only {states} states");
    eprintln!("states explored: {states}");
}

#[test]
fn each_broken_rule_is_caught() {
    for mutant in [
        Mutant::WeakerRepliesBeforeTheRecord,
        Mutant::CompleteBeforeTheSync,
        Mutant::StrongerForgetsWeaker,
        Mutant::ModeOfTodaysConfiguration,
        Mutant::WeakerIsNotOnRecord,
    ] {
        let (_, broken) = explore(mutant);
        assert!(broken.is_some(), "{mutant:?} lives");
    }
}

#[test]
fn a_checkpoint_keeps_the_largest_cap_and_the_weakest_mode() {
    let first = start(Durability::Always);
    let mut mode = LiveMode::new(&first);
    mode.change(Durability::No, 5 * CAP_NS, LogPosition::from_raw(7));
    mode.change(Durability::Always, CAP_NS, LogPosition::from_raw(9));
    assert_eq!(
        mode.complete(LogPosition::from_raw(8)),
        None,
        "the weaker mode's writes are not synced"
    );
    let control = mode.control(&first, true, 3);
    assert_eq!(control.weakest, Durability::No);
    assert_eq!(control.start.cap_ns, 5 * CAP_NS);
    assert_eq!(mode.cap_ns(), CAP_NS);
    assert!(
        mode.complete(LogPosition::from_raw(9))
            .is_some_and(|record| record.is_complete)
    );
    assert!(!mode.is_incomplete());
    assert_eq!(mode.control(&first, true, 3).weakest, Durability::Always);
}
