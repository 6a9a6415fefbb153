//! The model of the log: every order of the log's operations, with a crash at every point of each.
//!
//! The states are the production log itself: a state is the sequence of steps that leads to it, and
//! the steps are taken anew on a disk in memory. Sequences that leave the same system are one state.
//! In each state, and at each change of the disk within the last step, every crash is tried: the end
//! of the process, and a power loss with every subset of the sectors that were not synced.
//!
//! Invariant to be checked: what is read back is a prefix of what was appended, lacks nothing that
//! was reported (written, for the end of a process; durable, for a power loss), and is never refused.

mod crash;
mod live;
mod seam;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_persistence::MemoryDisk;
use stateright::{Model, Property};

use crate::check::{Explain, Refuted};
use live::{Live, Truth};

/// What is wrong with the log that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    None,
    DirectoryNotSynced,
    NamedBeforeSynced,
    HeaderAfterFrames,
    LeftNotSynced,
    ReadNotSynced,
    SyncNotRun,
    ClaimTooEarly,
    RemovedBeforeEnd,
    TailReused,
}

impl Mutant {
    pub(crate) const ALL: [Mutant; 9] = [
        Mutant::DirectoryNotSynced,
        Mutant::NamedBeforeSynced,
        Mutant::HeaderAfterFrames,
        Mutant::LeftNotSynced,
        Mutant::ReadNotSynced,
        Mutant::SyncNotRun,
        Mutant::ClaimTooEarly,
        Mutant::RemovedBeforeEnd,
        Mutant::TailReused,
    ];

    /// The change in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::None => "the log as it is",
            Self::DirectoryNotSynced => "the directory is not synced",
            Self::NamedBeforeSynced => "a segment gets its name before it is synced",
            Self::HeaderAfterFrames => "a segment's header is written after its frames",
            Self::LeftNotSynced => "a sync leaves out the segment that was left",
            Self::ReadNotSynced => "what a start has read is not synced",
            Self::SyncNotRun => "a sync that was begun counts as finished",
            Self::ClaimTooEarly => "a sync covers what was written after it began",
            Self::RemovedBeforeEnd => "segments go before the checkpoint's end is durable",
            Self::TailReused => "a tail is reused, under the old salt",
        }
    }
}

/// How long a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Size {
    /// With its header it fills a sector.
    Small,
    /// Leaves no room for another one in a segment.
    Large,
}

impl Size {
    fn bytes(self) -> usize {
        match self {
            Self::Small => 472,
            Self::Large => 3_840,
        }
    }
}

/// What of the unsynced sectors survives a power loss after which the sequence goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Survivors {
    None,
    All,
    AllButFirst,
    OnlyFirst,
}

/// One step of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Append(Size),
    Begin,
    End,
    Write,
    BeginSync,
    FinishSync,
    Sync,
    Prepare,
    /// The process ends, and the next one opens the log.
    Die,
    LosePower(Survivors),
}

impl Step {
    fn changes_disk(self) -> bool {
        let is_in_memory = matches!(
            self,
            Self::Append(_) | Self::Begin | Self::End | Self::BeginSync
        );
        !is_in_memory
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Append(Size::Small) => "append a frame",
            Self::Append(Size::Large) => "append a frame that fills a segment",
            Self::Begin => "append the opening frame of a checkpoint",
            Self::End => "append the closing frame of the checkpoint",
            Self::Write => "write what was appended",
            Self::BeginSync => "begin a sync",
            Self::FinishSync => "run the sync that was begun",
            Self::Sync => "sync",
            Self::Prepare => "prepare: remove obsolete segments, make the next one",
            Self::Die => "the process ends; the next one opens the log",
            Self::LosePower(Survivors::None) => {
                "power is lost with all that was not synced; reopen"
            }
            Self::LosePower(Survivors::All) => "power is lost, everything survives; reopen",
            Self::LosePower(Survivors::AllButFirst) => {
                "power is lost, the first unsynced sector too; reopen"
            }
            Self::LosePower(Survivors::OnlyFirst) => {
                "power is lost, only the first unsynced sector survives; reopen"
            }
        })
    }
}

/// What is wrong with what came back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// Something reported is not there.
    Lost(String),
    /// Something is there that was not appended, or not in this order.
    Wrong(String),
    /// A crash left what the log refuses to read.
    Refused(String),
    /// The log could not go on.
    Failed(String),
}

impl Flaw {
    fn after(self, crash: &str) -> Flaw {
        let add = |text: String| format!("{crash}: {text}");
        match self {
            Self::Lost(text) => Self::Lost(add(text)),
            Self::Wrong(text) => Self::Wrong(add(text)),
            Self::Refused(text) => Self::Refused(add(text)),
            Self::Failed(text) => Self::Failed(add(text)),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Lost(text) | Self::Wrong(text) | Self::Refused(text) | Self::Failed(text) => text,
        }
    }
}

/// A sequence of steps, and what its crashes have shown.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) steps: Vec<Step>,
    pub(crate) flaw: Option<Flaw>,
    digest: u64,
}

impl PartialEq for Sequence {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.flaw == other.flaw
    }
}

impl Hash for Sequence {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.digest.hash(hasher);
        self.flaw.hash(hasher);
    }
}

/// The bounds of a run.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) steps: usize,
    pub(crate) appends: usize,
    pub(crate) large_appends: usize,
    pub(crate) crashes: usize,
}

/// The model.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) bounds: Bounds,
    pub(crate) mutant: Mutant,
    refuted: Refuted,
    /// Crash states looked at.
    pub(crate) crash_states: Arc<AtomicU64>,
}

impl Stream {
    pub(crate) fn new(bounds: Bounds, mutant: Mutant) -> Stream {
        Stream {
            bounds,
            mutant,
            refuted: Refuted::default(),
            crash_states: Arc::default(),
        }
    }

    /// The system after these steps.
    fn replay(&self, steps: &[Step]) -> Result<Live, Flaw> {
        let disk = MemoryDisk::with_power_loss();
        let mut live = Live::open(disk, self.mutant, Truth::default())?;
        for step in steps {
            live = self.step(live, *step)?;
        }
        Ok(live)
    }

    fn step(&self, mut live: Live, step: Step) -> Result<Live, Flaw> {
        if matches!(step, Step::Die | Step::LosePower(_)) {
            return Live::open(live.left_by(step), self.mutant, live.truth);
        }
        live.take(step)?;
        Ok(live)
    }

    /// Tries every crash after the step, and at every change of the disk within it.
    fn examine(&self, before: &[Step], step: Step) -> Result<u64, Flaw> {
        let whole = self.replay(&[before, &[step]].concat())?;
        if !step.changes_disk() {
            return Ok(whole.digest());
        }
        let mut looked_at = 0;
        for changes in 0.. {
            let mut live = self.replay(before)?;
            let known = live.truth.clone();
            let left = live.left_by(step);
            left.end_after(changes);
            let outcome = match step {
                Step::Die | Step::LosePower(_) => {
                    Live::open(left.clone(), self.mutant, known.clone()).map(|live| live.truth)
                }
                _ => live.take(step).map(|()| live.truth.clone()),
            };
            let has_ended = left.has_ended();
            let truth = match step {
                _ if !has_ended => outcome?,
                // What a power loss has left is durable, whatever happens while it is read.
                Step::LosePower(_) => whole.truth.clone(),
                _ => known,
            };
            let examined = crash::examine(&left, &truth, &mut looked_at);
            self.crash_states.fetch_add(looked_at, Ordering::Relaxed);
            looked_at = 0;
            examined?;
            if !has_ended {
                break;
            }
        }
        Ok(whole.digest())
    }
}

impl Explain for Stream {
    fn refuted(&self) -> &Refuted {
        &self.refuted
    }

    fn explain(&self, sequence: &Sequence) -> String {
        let flaw = sequence.flaw.as_ref();
        flaw.map_or_else(String::new, |flaw| flaw.text().to_owned())
    }
}

impl Model for Stream {
    type State = Sequence;
    type Action = Step;

    fn init_states(&self) -> Vec<Sequence> {
        let (digest, flaw) = match self.replay(&[]) {
            Ok(live) => (live.digest(), None),
            Err(flaw) => (0, Some(flaw)),
        };
        vec![Sequence {
            steps: Vec::new(),
            flaw,
            digest,
        }]
    }

    fn actions(&self, sequence: &Sequence, actions: &mut Vec<Step>) {
        let steps = &sequence.steps;
        if self.refuted.is_over() || steps.len() >= self.bounds.steps {
            return;
        }
        let Ok(live) = self.replay(steps) else { return };
        let count = |wanted: fn(&Step) -> bool| steps.iter().filter(|step| wanted(step)).count();
        let mut possible = vec![
            Step::Write,
            Step::BeginSync,
            Step::FinishSync,
            Step::Sync,
            Step::Prepare,
        ];
        let is_append = |step: &Step| matches!(step, Step::Append(_) | Step::Begin | Step::End);
        if count(is_append) < self.bounds.appends {
            possible.extend([Step::Append(Size::Small), Step::Begin, Step::End]);
            if count(|step| *step == Step::Append(Size::Large)) < self.bounds.large_appends {
                possible.push(Step::Append(Size::Large));
            }
        }
        if count(|step| matches!(step, Step::Die | Step::LosePower(_))) < self.bounds.crashes {
            possible.push(Step::Die);
            let survivors = [
                Survivors::None,
                Survivors::All,
                Survivors::AllButFirst,
                Survivors::OnlyFirst,
            ];
            possible.extend(survivors.map(Step::LosePower));
        }
        actions.extend(possible.into_iter().filter(|step| live.allows(*step)));
    }

    fn next_state(&self, sequence: &Sequence, step: Step) -> Option<Sequence> {
        let mut steps = sequence.steps.clone();
        let (digest, flaw) = match self.examine(&steps, step) {
            Ok(digest) => (digest, None),
            Err(flaw) => (sequence.digest, Some(flaw)),
        };
        steps.push(step);
        Some(Sequence {
            steps,
            flaw,
            digest,
        })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        type Condition = fn(&Stream, &Sequence) -> bool;
        let holds: [(&'static str, Condition); 3] = [
            ("nothing that was reported is lost", |model, state| {
                let is_lost = matches!(state.flaw, Some(Flaw::Lost(_)));
                model.refuted.unless_first(!is_lost)
            }),
            ("what is read back is what was appended", |model, state| {
                let is_wrong = matches!(state.flaw, Some(Flaw::Wrong(_)));
                model.refuted.unless_first(!is_wrong)
            }),
            ("what a crash leaves is never refused", |model, state| {
                let is_refused = matches!(state.flaw, Some(Flaw::Refused(_) | Flaw::Failed(_)));
                model.refuted.unless_first(!is_refused)
            }),
        ];
        let mut all: Vec<_> = holds
            .into_iter()
            .map(|(name, condition)| Property::always(name, condition))
            .collect();
        if self.bounds.crashes > 0 {
            all.push(Property::sometimes(
                "a log is reopened",
                |_, state: &Sequence| state.steps.contains(&Step::Die),
            ));
        }
        all
    }
}

/// The runs of the unharmed log, with what each is about.
pub(crate) fn runs(size: crate::exclusion::Size) -> Vec<(&'static str, &'static str, Bounds)> {
    let is_full = size == crate::exclusion::Size::Full;
    vec![
        (
            "log",
            "append, write, sync, rotate, checkpoint, remove, crash at every change",
            Bounds {
                steps: if is_full { 5 } else { 4 },
                appends: 4,
                large_appends: 2,
                crashes: 1,
            },
        ),
        (
            "log, reopened",
            "two crashes with what they leave, and a log that goes on after each",
            Bounds {
                steps: if is_full { 5 } else { 4 },
                appends: 3,
                large_appends: 1,
                crashes: 2,
            },
        ),
    ]
}

/// The run that has to catch a mutant.
pub(crate) fn catching(mutant: Mutant) -> (&'static str, Bounds) {
    let steps = 8;
    let bounds = match mutant {
        Mutant::ReadNotSynced | Mutant::TailReused => Bounds {
            steps,
            appends: 3,
            large_appends: 0,
            crashes: 1,
        },
        _ => Bounds {
            steps,
            appends: 3,
            large_appends: 1,
            crashes: 0,
        },
    };
    ("log", bounds)
}
