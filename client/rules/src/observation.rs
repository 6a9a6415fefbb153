//! Observing who leads: when nodes are asked, what a majority of their answers says, and what is reported.
//!
//! Nodes tell of changes of the lock, and of each renewal likewise, without saying which it is. So one of those that have told is
//! asked, and only if its answer is another than before all are: that is a *count*. Only a count decides.
//!
//! Invariants: what is reported comes from a majority of the nodes, all asked in one count. Fences that are reported never
//! go down. Where nodes tell of changes and nothing changes, they are asked once for each renewal, and all of them once in a while.

mod verdict;

use std::time::Duration;

use self::verdict::Verdict;
use crate::answer::Sight;
use crate::clock::ClientInstant;
use crate::leader::{Leader, Observed};
use crate::outcome::Cause;
use crate::votes::{Identity, NodeIndex, NodeSet, majority};

/// What happens to an observation.
#[derive(Debug)]
pub(super) enum ObservationEvent {
    Timer,
    /// The node says that the lock has changed.
    Changed(NodeIndex),
    /// The node does not tell of changes any more.
    Lost(NodeIndex),
    /// The node has answered a look.
    Seen {
        node: NodeIndex,
        round: u32,
        seen: Seen,
        /// Whether it tells of changes from now on.
        is_tracked: bool,
    },
}

/// What is to be done for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ObservationAction {
    Look { node: NodeIndex, round: u32 },
    Report(Observed),
}

/// What a node says of the lock.
type Seen = Result<(Identity, Option<Sight>), Cause>;

#[derive(Debug)]
pub(super) struct Observation {
    stage: Stage,
    /// Counts are numbered from 1; what is asked of one node alone has the number 0.
    count: u32,
    /// A watch wants to know at once that something may have changed, and no fence that comes behind the lock.
    is_watch: bool,
    /// How long a count may take.
    patience: Duration,
    /// What each node has said last; nothing of those whose answer of this count is still to come.
    answers: Vec<Option<Seen>>,
    awaited: NodeSet,
    /// Something has changed at a node after it had answered.
    is_stale: bool,
    /// Nodes that tell of changes.
    tracked: NodeSet,
    burst: Burst,
    /// A node that was asked alone, and until when its answer is waited for.
    probed: Option<(NodeIndex, ClientInstant)>,
    told: Option<Observed>,
    /// The largest fence that was reported.
    fence: u64,
    /// When the leader's lock ends, if it is not renewed.
    ends_at: Option<ClientInstant>,
    /// When all nodes are asked although nobody has told of a change.
    check_at: ClientInstant,
    /// The same for a leader of whom no fence is known yet.
    fence_at: Option<ClientInstant>,
    /// When nodes are asked again that do not tell of changes.
    track_at: Option<ClientInstant>,
    /// When the last count began.
    counted_at: Option<ClientInstant>,
    /// Counts in a row that were not certain, and those that found nothing new.
    failures: u32,
    confirmed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Quiet,
    /// Something has changed: what other nodes say of it arrives in a moment. Then one node is asked, or all.
    Gathering {
        until: ClientInstant,
        counts: bool,
    },
    Counting(ClientInstant),
    /// The last count was not certain.
    Uncertain(ClientInstant),
}

/// Nodes that have told of a change at about the same time: as a rule of one renewal.
#[derive(Debug, Default)]
struct Burst {
    /// None behind a count: what comes then is news.
    began: Option<ClientInstant>,
    nodes: NodeSet,
    last_probed: NodeIndex,
}

impl Observation {
    pub(super) fn start(
        nodes: usize,
        is_watch: bool,
        now: ClientInstant,
        patience: Duration,
        actions: &mut Vec<ObservationAction>,
    ) -> Self {
        let mut observation = Self {
            stage: Stage::Quiet,
            is_watch,
            count: 0,
            patience,
            answers: vec![None; nodes],
            awaited: NodeSet::default(),
            is_stale: false,
            tracked: NodeSet::default(),
            burst: Burst::default(),
            probed: None,
            told: None,
            fence: 0,
            ends_at: None,
            check_at: now.after(CHECK_EVERY),
            fence_at: None,
            track_at: None,
            counted_at: None,
            failures: 0,
            confirmed: 0,
        };
        observation.begin_count(now, actions);
        observation
    }

    /// Takes an event in, with a random number from 0 up to 1, and how long nodes may take now.
    pub(super) fn handle(
        &mut self,
        now: ClientInstant,
        random: f64,
        patience: Duration,
        event: ObservationEvent,
        actions: &mut Vec<ObservationAction>,
    ) {
        self.patience = patience;
        match event {
            ObservationEvent::Timer => {}
            ObservationEvent::Changed(node) => self.changed(node, now),
            ObservationEvent::Lost(node) => {
                self.tracked.remove(node);
                self.track_in(TRACK_FIRST, random, now);
                if self.tracked.len() < majority(self.answers.len()) {
                    self.gather(now, true);
                }
            }
            ObservationEvent::Seen {
                node,
                round,
                seen,
                is_tracked,
            } => {
                match is_tracked {
                    true => self.tracked.insert(node),
                    false => self.tracked.remove(node),
                }
                match round {
                    0 => self.take_single(node, seen, now),
                    _ if round == self.count => {
                        self.awaited.remove(node);
                        self.answers[node] = Some(seen);
                    }
                    _ => {}
                }
            }
        }
        self.conclude(now, random, actions);
        self.advance(now, random, actions);
    }

    /// When [`ObservationEvent::Timer`] is to be told.
    pub(super) fn next_time(&self) -> ClientInstant {
        match self.stage {
            Stage::Gathering { until, .. } | Stage::Counting(until) | Stage::Uncertain(until) => {
                until
            }
            Stage::Quiet => {
                let probed = self.probed.map(|(_, until)| until);
                let times = [probed, self.fence_at, self.track_at, self.ends_at];
                let times = times.into_iter().flatten();
                times.fold(self.check_at, ClientInstant::earlier)
            }
        }
    }

    /// Who leads, if that is so still: each node of a majority that holds its lock would have told of a change, and none has since.
    pub(super) fn certain(&self) -> Option<&Leader> {
        let is_quiet = self.stage == Stage::Quiet && self.probed.is_none();
        let leader = self.told_leader().filter(|_| is_quiet)?;
        let is_its = |node: &NodeIndex| match &self.answers[*node] {
            Some(Ok((_, Some(sight)))) => sight.token == leader.token,
            _ => false,
        };
        let nodes = (0..self.answers.len()).filter(|node| self.tracked.contains(*node));
        (nodes.filter(is_its).count() >= majority(self.answers.len())).then_some(leader)
    }

    fn changed(&mut self, node: NodeIndex, now: ClientInstant) {
        match self.stage {
            Stage::Gathering { .. } => self.burst.nodes.insert(node),
            // A node says so before it answers otherwise.
            Stage::Counting(_) => self.is_stale |= !self.awaited.contains(node),
            Stage::Uncertain(_) => self.gather(now, true),
            Stage::Quiet => {
                let burst = &mut self.burst;
                let is_recent = burst.began.is_some_and(|at| now.since(at) < BURST_LASTS);
                let is_of_burst = is_recent && !burst.nodes.contains(node) && !self.is_watch;
                if !is_of_burst {
                    burst.began = Some(now);
                    burst.nodes = NodeSet::default();
                    let has_leader = matches!(self.told, Some(Observed::Leader(_)));
                    self.gather(now, !has_leader);
                }
                self.burst.nodes.insert(node);
            }
        }
    }

    fn gather(&mut self, now: ClientInstant, counts: bool) {
        if let Stage::Counting(_) = self.stage {
            self.is_stale = true;
            return;
        }
        // Where one count after the other finds nothing new, the next one waits longer.
        let confirmed = match self.has_just_counted(now) {
            true => self.confirmed.min(6),
            false => 0,
        };
        let until = now.after(GATHERS.saturating_mul(1 << confirmed));
        self.stage = match self.stage {
            Stage::Gathering { until, counts: all } => Stage::Gathering {
                until,
                counts: all || counts,
            },
            Stage::Uncertain(at) => Stage::Gathering {
                until: until.earlier(at),
                counts: true,
            },
            _ => Stage::Gathering { until, counts },
        };
    }

    /// The answer of a node that was asked alone: news only if it is another one than before.
    fn take_single(&mut self, node: NodeIndex, seen: Seen, now: ClientInstant) {
        let was_probed = self.probed.take_if(|(probed, _)| *probed == node).is_some();
        if let Stage::Counting(_) = self.stage {
            return;
        }
        let facts = |seen: &Seen| {
            let (by, sight) = seen.as_ref().ok()?;
            let sight = sight.as_ref();
            let facts = sight.map(|it| (it.token.clone(), it.owner.clone(), it.fence));
            Some((by.id.clone(), facts))
        };
        let is_news = match (facts(&seen), &self.answers[node]) {
            (None, _) => was_probed,
            (told, Some(before)) => told != facts(before),
            (_, None) => true,
        };
        if let Ok((_, Some(sight))) = &seen
            && matches!(&self.told, Some(Observed::Leader(it)) if it.token == sight.token)
            && let (Some(left), Some(ends_at)) = (sight.left, self.ends_at)
        {
            let until = now.after(left.saturating_add(END_SLACK));
            if !ends_at.has_reached(until) {
                self.ends_at = Some(until);
            }
        }
        if seen.is_ok() {
            self.answers[node] = Some(seen);
        }
        if is_news {
            self.gather(now, true);
        }
    }

    /// Does what is due.
    fn advance(&mut self, now: ClientInstant, random: f64, actions: &mut Vec<ObservationAction>) {
        match self.stage {
            Stage::Gathering { until, counts } if now.has_reached(until) => match counts {
                true => self.begin_count(now, actions),
                false => self.probe(now, actions),
            },
            Stage::Uncertain(until) if now.has_reached(until) => self.begin_count(now, actions),
            Stage::Quiet if self.is_due(now) => self.begin_count(now, actions),
            Stage::Quiet if self.track_at.is_some_and(|at| now.has_reached(at)) => {
                self.track_in(TRACK_EVERY, random, now);
                let nodes = 0..self.answers.len();
                let untracked = nodes.filter(|node| !self.tracked.contains(*node));
                let look = |node| ObservationAction::Look { node, round: 0 };
                actions.extend(untracked.map(look));
            }
            _ => {}
        }
    }

    /// Whether all nodes are to be asked although none has told of a change.
    fn is_due(&self, now: ClientInstant) -> bool {
        let probed = self.probed.map(|(_, until)| until);
        let has_majority = self.tracked.len() >= majority(self.answers.len());
        let track_at = self.track_at.filter(|_| !has_majority);
        let times = [
            Some(self.check_at),
            probed,
            self.fence_at,
            self.ends_at,
            track_at,
        ];
        times.into_iter().flatten().any(|at| now.has_reached(at))
    }

    /// Asks one of the nodes that have told of a change, another one each time.
    fn probe(&mut self, now: ClientInstant, actions: &mut Vec<ObservationAction>) {
        self.stage = Stage::Quiet;
        let nodes = self.answers.len();
        let last = self.burst.last_probed;
        let mut others = (1..=nodes).map(|step| (last + step) % nodes);
        if let Some(node) = others.find(|node| self.burst.nodes.contains(*node)) {
            self.burst.last_probed = node;
            self.probed = Some((node, now.after(self.patience)));
            actions.push(ObservationAction::Look { node, round: 0 });
        }
    }

    fn begin_count(&mut self, now: ClientInstant, actions: &mut Vec<ObservationAction>) {
        if !self.has_just_counted(now) {
            self.confirmed = 0;
        }
        self.counted_at = Some(now);
        self.count += 1;
        self.stage = Stage::Counting(now.after(self.patience));
        self.is_stale = false;
        self.burst.began = None;
        (self.probed, self.fence_at) = (None, None);
        for node in 0..self.answers.len() {
            self.answers[node] = None;
            self.awaited.insert(node);
            let round = self.count;
            actions.push(ObservationAction::Look { node, round });
        }
    }

    /// Whether counts follow one another.
    fn has_just_counted(&self, now: ClientInstant) -> bool {
        self.counted_at
            .is_some_and(|at| now.since(at) < COUNTS_APART)
    }

    /// Ends a count that has come to something.
    fn conclude(&mut self, now: ClientInstant, random: f64, actions: &mut Vec<ObservationAction>) {
        let Stage::Counting(until) = self.stage else {
            return;
        };
        let is_over = self.awaited.is_empty() || now.has_reached(until);
        let jitter = 0.75 + 0.5 * random;
        match self.verdict(is_over) {
            Verdict::Open => return,
            Verdict::Certain(observed) => {
                self.stage = Stage::Quiet;
                self.failures = 0;
                self.ends_at = self.end_of(&observed, now);
                self.check_at = now.after(CHECK_EVERY.mul_f64(jitter));
                self.report(observed, now, jitter, actions);
            }
            verdict => {
                let pause = UNCERTAIN_FIRST.saturating_mul(1 << self.failures.min(6));
                let pause = pause.min(UNCERTAIN_MAX).mul_f64(jitter);
                self.stage = Stage::Uncertain(now.after(pause));
                self.failures = self.failures.saturating_add(1);
                let may_lead = self.ends_at.is_some_and(|end| !now.has_reached(end));
                if verdict == Verdict::Missing && !may_lead {
                    self.report(Observed::Unknown, now, jitter, actions);
                }
            }
        }
        if std::mem::take(&mut self.is_stale) {
            self.gather(now, true);
        }
        if self.tracked.len() < self.answers.len() {
            self.track_in(TRACK_EVERY, random, now);
        }
    }

    fn report(
        &mut self,
        observed: Observed,
        now: ClientInstant,
        jitter: f64,
        actions: &mut Vec<ObservationAction>,
    ) {
        if self.told.as_ref() == Some(&observed) {
            self.confirmed = self.confirmed.saturating_add(1);
            return;
        }
        self.confirmed = 0;
        if let Observed::Leader(leader) = &observed {
            self.fence = self.fence.max(leader.fence.unwrap_or(0));
            let is_new = self
                .told_leader()
                .is_none_or(|told| told.token != leader.token);
            // A candidate takes its fence behind the lock, which no node tells of.
            let tells_fences = |seen: &Seen| matches!(seen, Ok((_, Some(it))) if it.is_full);
            let may_come = !self.is_watch && self.answers.iter().flatten().any(tells_fences);
            if is_new && leader.fence.is_none() && may_come {
                self.fence_at = Some(now.after(FENCE_COMES.mul_f64(jitter)));
            }
        }
        self.told = Some(observed.clone());
        actions.push(ObservationAction::Report(observed));
    }

    fn told_leader(&self) -> Option<&Leader> {
        match &self.told {
            Some(Observed::Leader(leader)) => Some(leader),
            _ => None,
        }
    }

    fn track_in(&mut self, pause: Duration, random: f64, now: ClientInstant) {
        let at = now.after(pause.mul_f64(0.75 + 0.5 * random));
        self.track_at = (self.tracked.len() < self.answers.len()).then_some(at);
    }
}

/// What other nodes say of the same change arrives within so long, as a rule.
const GATHERS: Duration = Duration::from_millis(20);
/// All that nodes say of one renewal.
const BURST_LASTS: Duration = Duration::from_secs(1);
/// Counts with less between them follow one another.
const COUNTS_APART: Duration = Duration::from_secs(5);
/// How often all nodes are asked although nobody has told of a change.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// A lock has ended at the nodes so long after its time is over: they tell so themselves before that.
const END_SLACK: Duration = Duration::from_millis(300);
const FENCE_COMES: Duration = Duration::from_millis(300);
/// After a count that was not certain; doubling.
const UNCERTAIN_FIRST: Duration = Duration::from_millis(40);
const UNCERTAIN_MAX: Duration = Duration::from_secs(2);
/// When a node is asked again that told of changes and does so no more, and those that still do not.
const TRACK_FIRST: Duration = Duration::from_secs(1);
const TRACK_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
