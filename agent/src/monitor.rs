//! What is known of an agent and its nodes: requests are counted as they come and go, and the nodes are asked now and then how they
//! do, so that INFO, the metrics and `/readyz` need not wait for them.
//!
//! Invariant: one question is under way at a time. Nodes that do not answer are given up by the client's own rules.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use quorlock_agent_rules::{CountsByPattern, RefusalLog, Step};
use quorlock_client::Redlock;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::name::LockName;
use quorlock_clock::ClientInstant;
use quorlock_engine::Reply;
use quorlock_engine::lock_counts::LockPatterns;
use quorlock_server::UpstreamReport;

use crate::clusters::{Mixed, REMEDY};
use crate::figures::Figures;
use crate::report;

/// The figures of an agent, kept up to date by a thread.
pub(crate) struct Monitor {
    redlock: Redlock,
    state: Mutex<State>,
    thread: thread::Thread,
}

/// What a request is about.
pub(crate) struct About {
    /// Its first command.
    pub(crate) command: Bytes,
    /// The locks that its last call with a step is about, or before one that SET names.
    pub(crate) names: Option<LockName>,
    /// The own token of who takes or releases them.
    pub(crate) own: Option<Bytes>,
    /// When it came.
    pub(crate) since: ClientInstant,
}

struct State {
    figures: Figures,
    refusals: RefusalLog,
    is_asking: bool,
    /// Whether enough nodes could vote by the answer before.
    could_vote: Option<bool>,
    /// What was wrong with the clusters of the nodes then.
    mixed: Option<Mixed>,
}

impl Monitor {
    /// Begins to ask.
    pub(crate) fn begin(redlock: Redlock) -> Arc<Self> {
        let (sender, receiver) = std::sync::mpsc::channel::<Weak<Monitor>>();
        let thread = thread::Builder::new().name("quorlock-monitor".to_owned());
        let thread = thread.spawn(move || {
            if let Ok(monitor) = receiver.recv() {
                keep_asking(&monitor);
            }
        });
        let thread = thread
            .expect("the process can start a thread")
            .thread()
            .clone();
        let figures = Figures::new(redlock.nodes(), redlock.quorum());
        let monitor = Arc::new(Self {
            redlock,
            state: Mutex::new(State {
                figures,
                refusals: RefusalLog::default(),
                is_asking: false,
                could_vote: None,
                mixed: None,
            }),
            thread,
        });
        let _ended = sender.send(Arc::downgrade(&monitor));
        monitor
    }

    /// A request has come.
    pub(crate) fn request(&self) {
        self.lock().figures.counts.requests += 1;
    }

    /// Locks are counted apart by these patterns of their names, from the start on.
    pub(crate) fn count_locks_by(&self, patterns: &[String]) {
        self.lock().figures.locks = CountsByPattern::new(LockPatterns::new(patterns));
    }

    /// A reply leaves now, to a request about this, whose last step was this one.
    pub(crate) fn reply(
        &self,
        about: &About,
        now: ClientInstant,
        step: Option<Step>,
        reply: &Reply,
    ) {
        let command = &about.command[..];
        let names = match &about.names {
            Some(names) => names.parts(),
            None => &[],
        };
        let mut state = self.lock();
        let figures = &mut state.figures;
        if let Some(step) = figures.counts.reply(command, step, reply) {
            let times = (about.since, now);
            (figures.locks).count(names, about.own.as_ref(), step, times);
        }
        let line = match reply {
            Reply::Error(_) => state.refusals.note(now, command, reply),
            _ => None,
        };
        drop(state);
        if let Some(line) = line {
            tracing::warn!("{line}");
        }
    }

    pub(crate) fn report(&self, under_way: usize) -> UpstreamReport {
        let now = self.redlock.now();
        report::of(&self.lock().figures, under_way, now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Numbers and texts, of which none depends on another.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lock().is_asking, true) {
            return;
        }
        let asking = Arc::downgrade(self);
        self.redlock.submit(Call::Probe, move |outcome| {
            if let (Some(monitor), Outcome::Probed(statuses)) = (asking.upgrade(), outcome) {
                let now = monitor.redlock.now();
                let mut state = monitor.lock();
                state.is_asking = false;
                state.figures.note_probe(now, &statuses);
                let lacks_votes = state.figures.lacks_votes(now);
                let could_vote = state.could_vote.replace(lacks_votes.is_none());
                let mixed = state.figures.mixed.clone();
                let was_mixed = std::mem::replace(&mut state.mixed, mixed.clone());
                drop(state);
                log_change(could_vote, lacks_votes);
                log_clusters(was_mixed, mixed);
            }
        });
        let counting = Arc::downgrade(self);
        self.redlock.submit(Call::Statistics, move |outcome| {
            if let (Some(monitor), Outcome::Statistics(statistics)) = (counting.upgrade(), outcome)
            {
                monitor.lock().figures.note_statistics(&statistics);
            }
        });
    }
}

/// One line when no majority can vote, and one when that is over.
fn log_change(could_vote: Option<bool>, lacks_votes: Option<String>) {
    match (could_vote, lacks_votes) {
        (None | Some(true), Some(why)) => {
            tracing::warn!("no lock can be taken: {why}. Requests are answered with -NOQUORUM");
        }
        (Some(false), None) => tracing::warn!("a majority of the nodes can vote again"),
        _ => {}
    }
}

/// One line when nodes belong to different clusters, and one when that is over.
fn log_clusters(before: Option<Mixed>, now: Option<Mixed>) {
    match now {
        Some(mixed) if before.as_ref() != Some(&mixed) => tracing::warn!(
            "{}. Only the votes of one cluster count, as soon as a majority of the nodes names it: {REMEDY}",
            mixed.text
        ),
        None if before.is_some() => {
            tracing::warn!("the nodes that answer belong to one cluster again");
        }
        _ => {}
    }
}

fn keep_asking(monitor: &Weak<Monitor>) {
    while let Some(running) = monitor.upgrade() {
        running.ask();
        let now = running.redlock.now();
        let is_ready = running.lock().figures.not_ready(now).is_none();
        drop(running);
        thread::park_timeout(if is_ready { PAUSE } else { PAUSE_UNTIL_READY });
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.thread.unpark();
    }
}

const PAUSE: Duration = Duration::from_secs(5);
/// Whoever starts an agent waits for this.
const PAUSE_UNTIL_READY: Duration = Duration::from_millis(500);
