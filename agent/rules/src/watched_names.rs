//! Locks that callers poll: who has them, as a majority of the nodes said and as it still is.
//!
//! A lock that is refused twice within [`POLLED_WITHIN`], or once where tries are held back, is watched: nodes tell of its changes. As long as
//! none has told of one, whoever tries to take it is refused without asking the nodes, so a thousand callers that poll cost them as much as
//! one. A try can be held back for a while: it goes on as soon as the lock may be free, in the order of arrival.
//!
//! Invariants: a watch says only that a lock is held. Nobody gets a lock by it, and reads are answered by the nodes. What it says is
//! void as soon as one node tells of a change, and when the watch is not certain.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use quorlock_client_rules::token::Token;
use quorlock_clock::ClientInstant;

use crate::request_id::RequestId;

/// What is to be done for a watch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchAction {
    Begin(Bytes),
    End(Bytes),
}

#[derive(Debug, Default)]
pub(crate) struct WatchedNames {
    names: HashMap<Bytes, Polled>,
    /// How many of them are watched.
    watched: usize,
    /// When locks that are polled no more were looked for last.
    swept_at: Option<ClientInstant>,
    /// When a watch may be idle.
    idle_at: Option<ClientInstant>,
    actions: Vec<WatchAction>,
    /// Tries that go on at these times.
    woken: Vec<(ClientInstant, RequestId)>,
}

/// A lock that callers could not take.
#[derive(Debug)]
struct Polled {
    /// When the last of them came.
    last: ClientInstant,
    is_watched: bool,
    /// Who has it, while that is certain.
    holder: Option<Token>,
    /// Tries that are held back, in the order of arrival. Some may have been answered meanwhile.
    held_back: VecDeque<RequestId>,
}

impl WatchedNames {
    /// Who has the lock, if that is certain.
    pub(crate) fn holder(&self, name: &[u8]) -> Option<&Token> {
        self.names.get(name)?.holder.as_ref()
    }

    /// A try to take the lock was refused.
    pub(crate) fn note_refused(&mut self, now: ClientInstant, name: &Bytes) {
        if let Some(polled) = self.names.get_mut(name) {
            let is_polled = now.since(polled.last) < POLLED_WITHIN;
            polled.last = now;
            if is_polled {
                self.watch(now, name);
            }
            return;
        }
        let is_full = self.names.len() >= POLLED_MAX;
        if is_full
            && self
                .swept_at
                .is_none_or(|at| now.since(at) >= POLLED_WITHIN)
        {
            self.swept_at = Some(now);
            self.names
                .retain(|_, polled| polled.is_watched || now.since(polled.last) < POLLED_WITHIN);
        }
        if self.names.len() < POLLED_MAX {
            let polled = Polled {
                last: now,
                is_watched: false,
                holder: None,
                held_back: VecDeque::new(),
            };
            self.names.insert(name.clone(), polled);
        }
    }

    /// Nodes have refused a try that may be held back: the lock is watched at once. Whether it is watched.
    pub(crate) fn note_waiting(&mut self, now: ClientInstant, name: &Bytes) -> bool {
        self.note_refused(now, name);
        self.watch(now, name);
        self.names.get(name).is_some_and(|it| it.is_watched)
    }

    fn watch(&mut self, now: ClientInstant, name: &Bytes) {
        let polled = self.names.get_mut(name).filter(|it| !it.is_watched);
        if let Some(polled) = polled.filter(|_| self.watched < WATCHED_MAX) {
            polled.is_watched = true;
            self.watched += 1;
            self.idle_at.get_or_insert(now.after(WATCHED_FOR));
            self.actions.push(WatchAction::Begin(name.clone()));
        }
    }

    /// A watch has something to say. Where the lock may be free, the try that came first goes on once other nodes have had the time to
    /// free it as well.
    pub(crate) fn observed(&mut self, now: ClientInstant, name: &[u8], holder: Option<Token>) {
        let Some(polled) = self.names.get_mut(name).filter(|it| it.is_watched) else {
            return;
        };
        // One that has just begun does not know the holder yet, and that is no news of the lock.
        let was_held = polled.holder.is_some();
        polled.holder = holder;
        if was_held && polled.holder.is_none() {
            self.wake(name, now.after(OTHERS_FREE_IT_WITHIN));
        }
    }

    /// A majority of the nodes has freed the lock.
    pub(crate) fn note_free(&mut self, now: ClientInstant, name: &[u8]) {
        if let Some(polled) = self.names.get_mut(name) {
            polled.holder = None;
            self.wake(name, now);
        }
    }

    fn wake(&mut self, name: &[u8], at: ClientInstant) {
        // It stays the first one until it goes on: several nodes tell of one release.
        let first = (self.names.get(name)).and_then(|polled| polled.held_back.front());
        self.woken.extend(first.map(|id| (at, *id)));
    }

    /// A try waits until the lock may be free, or its time is over. One that has asked the nodes meanwhile keeps its place.
    pub(crate) fn hold_back(&mut self, name: &[u8], id: RequestId) {
        if let Some(polled) = self.names.get_mut(name) {
            let before = polled.held_back.partition_point(|other| *other < id);
            polled.held_back.insert(before, id);
        }
    }

    /// A try has been held back for long enough.
    pub(crate) fn is_over(&mut self, name: &[u8], id: RequestId) {
        if let Some(polled) = self.names.get_mut(name) {
            polled.held_back.retain(|other| *other != id);
        }
    }

    /// The client of a try has gone. If it was woken, the next one goes on in its place.
    pub(crate) fn left(&mut self, now: ClientInstant, name: &[u8], id: RequestId) {
        self.is_over(name, id);
        self.pass_on(now, name);
    }

    /// A try that went on has not taken the lock, although it may be free: the next one goes on.
    pub(crate) fn pass_on(&mut self, now: ClientInstant, name: &[u8]) {
        if self.holder(name).is_none() {
            self.wake(name, now);
        }
    }

    /// Ends watches on locks that callers do not try to take any more.
    pub(crate) fn end_idle(&mut self, now: ClientInstant) {
        let is_idle = |_: &Bytes, polled: &mut Polled| {
            polled.is_watched && now.since(polled.last) >= WATCHED_FOR
        };
        if self.idle_at.is_none_or(|at| !now.has_reached(at)) {
            return;
        }
        for (name, _) in self.names.extract_if(is_idle) {
            self.watched -= 1;
            self.actions.push(WatchAction::End(name));
        }
        let watched = self.names.values().filter(|polled| polled.is_watched);
        let ends = watched.map(|polled| polled.last.after(WATCHED_FOR));
        self.idle_at = ends.reduce(ClientInstant::earlier);
    }

    /// When a watch may be idle.
    pub(crate) fn next_time(&self) -> Option<ClientInstant> {
        self.idle_at
    }

    pub(crate) fn take_actions(&mut self) -> Vec<WatchAction> {
        std::mem::take(&mut self.actions)
    }

    pub(crate) fn take_woken(&mut self) -> Vec<(ClientInstant, RequestId)> {
        std::mem::take(&mut self.woken)
    }
}

/// Who comes again within so long polls.
const POLLED_WITHIN: Duration = Duration::from_secs(1);
/// How long a lock is watched after the last one has tried to take it.
const WATCHED_FOR: Duration = Duration::from_secs(10);
/// Nodes that are asked to free a lock at the same time do so within this, as a rule.
const OTHERS_FREE_IT_WITHIN: Duration = Duration::from_millis(1);
/// How many locks are watched at a time. Each costs the nodes a name of which they tell changes; callers of others ask the nodes.
const WATCHED_MAX: usize = 64;
/// How many locks are known that were refused. About 200 KB with names of usual lengths.
const POLLED_MAX: usize = 1_024;
