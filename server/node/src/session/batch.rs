//! The requests of one iteration: executed in order under one lock of the engine, at one moment.
//!
//! Nothing is written to a file, a pipe or a socket while the engine is locked: what there is to
//! say is kept until it is released.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock_engine::{ErrorReply, KeyHash, LogLine, Moment, RawTime, Reply, key_to_prefetch};
use quorlock_persistence::Position;
use smallvec::SmallVec;

use crate::clock::saturated_nanos;
use crate::core::calls::WorkerCounts;
use crate::core::clients::Client;
use crate::core::commit::Failure;
use crate::core::deliveries::Post;
use crate::core::durable_counts::Counts;
use crate::core::executor::Executor;
use crate::core::slow_log::ALL_MEASURED_BELOW_NS;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::session::Session;
use crate::session::executed::Executed;
use crate::session::made_once::MadeOnce;
use crate::session::node_changes::NodeChanges;
use crate::session::pending::Pending;
use crate::sync::MutexGuard;

/// One iteration's access to the node.
pub(crate) struct Batch<'a> {
    pub(crate) node: &'a Arc<NodeState>,
    /// The worker whose iteration this is, and which looks for what was published afterwards.
    worker: Option<usize>,
    /// The client whose requests are executed.
    client: Option<Arc<Client>>,
    executor: Option<(MutexGuard<'a, Executor>, Moment)>,
    /// The raw clock when the iteration began, and then at its last moment.
    raw: RawTime,
    /// How many clients that waited the node had served when the engine was last released.
    served: u64,
    /// What the connection's earlier replies wait for, and so those of later requests.
    pub(super) owed: DurabilityWait,
    /// For the node's log, once the engine is released.
    lines: Vec<Line>,
    /// The keys to prefetch.
    keys: SmallVec<[KeyHash; KEYS_INLINE]>,
    /// Commands under the present lock, and whether a script was among them.
    pub(super) under_lock: usize,
    pub(super) has_run_script: bool,
    /// Something was queued under the present lock, and its workers are not woken.
    has_published: bool,
    pub(super) commands: u64,
    pub(super) errors: u64,
    calls: &'a WorkerCounts,
    /// The request that is being dealt with.
    call: Call,
    /// From how long on a command is slow, and whether each is timed for that.
    slow_from_ns: u64,
    times_all: bool,
    /// The last command, if it was slow and is not noted yet.
    pub(super) slow: Option<SlowCall>,
    /// When the last slow command ended: later ones of this batch begin behind it, and not at the batch's own moment.
    slow_until: RawTime,
    /// Of the transaction that runs.
    pub(super) changes: Option<NodeChanges>,
}

/// A command that was slow.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowCall {
    pub(super) took_ns: u64,
    /// As far as that can be said without a reading of the clock.
    pub(super) ended_raw: RawTime,
}

/// One request on its way through the counts. Little is stored for each: in a deep pipeline every store waits behind
/// those of new keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Of its command; [`Call::UNCOUNTED`] where that is not known, or not counted.
    number: usize,
    is_refused: bool,
    is_timed: bool,
    /// Where it is timed: by the stopwatch, and about when that was by the raw clock.
    began: RawTime,
    began_raw: RawTime,
    /// Where it was measured by what executed it.
    took_ns: Option<u64>,
}

impl Call {
    const UNCOUNTED: usize = usize::MAX;
    const NONE: Call = Call {
        number: Self::UNCOUNTED,
        is_refused: false,
        is_timed: false,
        began: RawTime::ZERO,
        began_raw: RawTime::ZERO,
        took_ns: None,
    };
}

/// What a request has to say to the people who run the node.
enum Line {
    /// Written by a script with `redis.log`.
    Script(LogLine),
    Warning(String),
}

/// What a command of the node answers.
pub(crate) enum Answer {
    /// This reply, and go on.
    Reply(Reply),
    /// The same to everybody who asks.
    Made(&'static MadeOnce),
    /// These replies to one request.
    Many(Vec<Reply>),
    /// This reply, once the log is synced up to this position.
    Durable(Reply, Position),
    /// This reply, which depends on what it waits for.
    After(Reply, DurabilityWait),
    /// The replies to the commands of a transaction.
    Executed(Executed),
    /// No reply yet.
    Wait(Pending),
    /// No reply.
    Nothing,
    /// This reply, then close.
    Last(Reply),
    /// Close without a word.
    Close,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(node: &'a Arc<NodeState>, now_raw: RawTime) -> Self {
        let mut batch = Self {
            node,
            worker: None,
            client: None,
            calls: node.calls.table(0),
            call: Call::NONE,
            executor: None,
            raw: now_raw,
            served: 0,
            owed: DurabilityWait::default(),
            lines: Vec::new(),
            keys: SmallVec::new(),
            under_lock: 0,
            has_run_script: false,
            has_published: false,
            commands: 0,
            errors: 0,
            slow_from_ns: u64::MAX,
            times_all: false,
            slow: None,
            slow_until: RawTime::ZERO,
            changes: None,
        };
        batch.follow_thresholds();
        batch
    }

    /// Goes by the thresholds of the slow log and of the latency monitor as they are now: at its beginning, and behind each command that may change it.
    pub(super) fn follow_thresholds(&mut self) {
        let settings = &self.node.settings;
        self.slow_from_ns = settings.slow_from_ns().min(settings.latency_from_ns());
        self.times_all = self.slow_from_ns < ALL_MEASURED_BELOW_NS;
    }

    /// The same for an iteration of a worker, which looks for what was published once this is over.
    pub(crate) fn of_worker(node: &'a Arc<NodeState>, worker: usize, now_raw: RawTime) -> Self {
        let mut batch = Self::new(node, now_raw);
        batch.worker = Some(worker);
        batch.calls = node.calls.table(worker);
        batch
    }

    /// Executes requests of this client until the next call; of none for requests whose client is not known.
    pub(crate) fn serve(&mut self, client: Option<&Arc<Client>>) {
        self.client = client.map(Arc::clone);
    }

    /// How many keys each database holds, as far as the reply may reveal it without waiting for more
    /// than it does.
    pub(crate) fn counts_shown(&mut self) -> Result<Counts, Failure> {
        let (node, owed) = (self.node, self.owed);
        let (executor, _) = self.executor()?;
        Ok(node.commit.counts_shown(executor, owed))
    }

    /// Warns the people who run the node, once the engine is released.
    pub(crate) fn warn(&mut self, text: String) {
        self.lines.push(Line::Warning(text));
    }

    pub(super) fn note_script_log(&mut self, lines: Vec<LogLine>) {
        if !lines.is_empty() {
            self.lines.extend(lines.into_iter().map(Line::Script));
            // Else those of a long pipeline would pile up.
            self.release();
        }
    }

    /// The raw clock at the last moment of this iteration, or when it began.
    pub(crate) fn raw(&self) -> RawTime {
        self.raw
    }

    /// Notes the first key of a request, for [`Batch::prefetch`]. One without a key waits for no lock.
    pub(crate) fn note_key<'b>(
        &mut self,
        session: &Session,
        argument: impl Fn(usize) -> Option<&'b [u8]>,
    ) {
        let Some(key) = key_to_prefetch(argument) else {
            return;
        };
        // A poisoned lock is reported by the commands.
        let Ok((executor, _)) = self.executor() else {
            return;
        };
        let hash = executor.engine.key_hash(session.caller.database, key);
        self.keys.push(hash);
    }

    /// Prefetches all noted keys.
    pub(crate) fn prefetch(&mut self) {
        if let Some((executor, _)) = &self.executor {
            executor.engine.prefetch(&self.keys);
        }
        self.keys.clear();
    }

    /// What was published until now for connections of a worker. The engine stays locked, so that nothing comes between
    /// this and what follows.
    pub(crate) fn take_published(&mut self, worker: usize) -> Vec<Post> {
        let node = self.node;
        // A poisoned lock is reported by the commands.
        let Ok((executor, _)) = self.executor() else {
            return Vec::new();
        };
        let has_published = node.deliveries.publish(executor, &node.clients);
        self.has_published |= has_published;
        node.deliveries.take(worker)
    }

    /// Between two connections: lets others have the engine after many commands, and takes a new
    /// moment after a script, which may have run for long.
    pub(crate) fn yield_engine(&mut self) {
        if self.has_run_script || self.under_lock >= COMMANDS_PER_LOCK {
            self.release();
        }
    }

    /// Whether a transaction runs.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.changes.is_some()
    }

    /// Lets others have the engine, and then says what there is to say. Within a transaction nobody else may have it.
    pub(crate) fn release(&mut self) {
        if self.is_in_transaction() {
            return;
        }
        if let Some((mut executor, now)) = self.executor.take() {
            executor.reclaim_owed(now.node);
            executor.hand_over_due(now.node);
            self.served = executor.served_count();
            executor.note_memory_peak();
            let wakes_maintenance = executor.take_wake_request()
                || executor.has_postponed()
                || executor.engine.has_discarded()
                || executor.engine.is_sparse();
            let deliveries = &self.node.deliveries;
            let has_published = deliveries.publish(&mut executor, &self.node.clients);
            drop(executor);
            if has_published || self.has_published {
                self.node.deliveries.wake_all_but(self.worker);
            }
            if wakes_maintenance {
                self.node.signals.activity.notify_all();
            }
        }
        self.under_lock = 0;
        (self.has_run_script, self.has_published) = (false, false);
        self.lines.drain(..).for_each(Line::write);
    }

    /// How many clients that waited for an element the node has served so far.
    pub(crate) fn served(&self) -> u64 {
        let executor = self.executor.as_ref();
        executor.map_or(self.served, |(executor, _)| executor.served_count())
    }

    /// Whether others wait for the engine.
    pub(crate) fn holds_engine(&self) -> bool {
        self.executor.is_some()
    }

    /// Begins to count a request, by the number of its command.
    #[inline]
    pub(super) fn begin_call(&mut self, number: usize) {
        self.call.number = number;
        if self.times_all || self.calls.is_timed(number) {
            self.begin_timed();
        }
    }

    #[cold]
    fn begin_timed(&mut self) {
        self.time_call();
        self.call.began = self.node.clock.stopwatch();
    }

    fn time_call(&mut self) {
        if !self.call.is_timed {
            self.call.is_timed = true;
            self.call.began_raw = self.raw.max(self.slow_until);
        }
    }

    /// Whether the request is executed, and not refused before that.
    pub(super) fn is_executing(&self) -> bool {
        self.call.number != Call::UNCOUNTED && !self.call.is_refused
    }

    /// Something was queued for other clients, whose workers are woken once the engine is released.
    pub(super) fn note_published(&mut self) {
        self.has_published = true;
    }

    /// What executed the command has measured it.
    #[cold]
    pub(super) fn note_measured(&mut self, took: Duration) {
        let is_counted = self.call.number != Call::UNCOUNTED;
        if is_counted && !self.call.is_timed {
            self.time_call();
            self.call.took_ns = Some(saturated_nanos(took));
        }
    }

    /// The command counts as having taken this, whatever it takes.
    #[cold]
    pub(super) fn note_slept(&mut self, took: Duration) {
        if self.call.number != Call::UNCOUNTED {
            self.time_call();
            self.call.took_ns = Some(saturated_nanos(took));
        }
    }

    /// The request is refused before it is executed.
    #[cold]
    pub(super) fn note_refused(&mut self) {
        self.call.is_refused = self.call.number != Call::UNCOUNTED;
    }

    /// Counts the request, if it was begun.
    #[inline]
    pub(super) fn end_call(&mut self, is_error: bool) {
        let number = std::mem::replace(&mut self.call.number, Call::UNCOUNTED);
        if number == Call::UNCOUNTED {
            return;
        }
        if self.call.is_refused || self.call.is_timed {
            return self.end_refused_or_timed(number, is_error);
        }
        self.calls.note(number, None, is_error);
    }

    #[cold]
    fn end_refused_or_timed(&mut self, number: usize, is_error: bool) {
        let call = std::mem::replace(&mut self.call, Call::NONE);
        if call.is_refused {
            return self.calls.note_rejected(number);
        }
        let took_ns = match call.took_ns {
            Some(took_ns) => took_ns,
            None => self.node.clock.stopwatch().nanos_since(call.began),
        };
        if took_ns >= self.slow_from_ns {
            // EXEC ends behind its commands.
            self.slow_until = call.began_raw.plus_nanos(took_ns).max(self.slow_until);
            let ended_raw = self.slow_until;
            self.slow = Some(SlowCall { took_ns, ended_raw });
        }
        self.calls.note(number, Some(took_ns), is_error);
    }

    /// Begins to count a command of a transaction; returns what EXEC is counted with.
    pub(super) fn begin_queued(&mut self, number: Option<usize>) -> Call {
        let around = std::mem::replace(&mut self.call, Call::NONE);
        if let Some(number) = number {
            self.begin_call(number);
        }
        around
    }

    /// Counts it, and goes on with EXEC.
    pub(super) fn end_queued(&mut self, around: Call, reply: Option<&Reply>) {
        let error = match reply {
            Some(Reply::Error(error)) => Some(error),
            _ => None,
        };
        self.end_call(error.is_some());
        if let Some(error) = error {
            self.note_error(error);
        }
        self.call = around;
    }

    /// The request will come again.
    pub(super) fn forget_call(&mut self) {
        self.call = Call::NONE;
    }

    /// Counts all calls anew.
    pub(super) fn count_anew(&mut self) {
        self.node.calls.reset();
        self.calls = self.node.calls.table(self.worker.unwrap_or(0));
    }

    /// Counts an error that a client is told.
    pub(super) fn note_error(&mut self, error: &ErrorReply) {
        self.errors += 1;
        self.node.statistics.error_codes.note(error.as_bytes());
    }

    /// About what it costs to hand out what was published and has not reached all.
    pub(super) fn published_cost(&self) -> usize {
        let executor = self.executor.as_ref();
        let here = executor.map_or(0, |(executor, _)| executor.published_cost());
        self.node.deliveries.cost().saturating_add(here)
    }

    /// The engine, locked, and the moment of this iteration.
    ///
    /// # Errors
    /// When the node has failed, or another client has killed the one that is served: whoever is told so by the reply to
    /// CLIENT KILL relies on it.
    pub(crate) fn executor(&mut self) -> Result<(&mut Executor, Moment), Failure> {
        if self.executor.is_none() {
            let (executor, now) = self.node.lock_now()?;
            self.raw = executor.time.raw;
            self.executor = Some((executor, now));
        }
        // While the engine is locked here it cannot be killed.
        if self
            .client
            .as_ref()
            .is_some_and(|client| client.is_killed())
        {
            return Err(Failure::new("the client was killed"));
        }
        let (executor, now) = self.executor.as_mut().expect("locked on the lines above");
        Ok((&mut *executor, *now))
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.release();
        let statistics = &self.node.statistics;
        statistics
            .commands
            .fetch_add(self.commands, Ordering::Relaxed);
        statistics.sample_rate(self.raw);
        if self.errors > 0 {
            statistics.errors.fetch_add(self.errors, Ordering::Relaxed);
        }
    }
}

impl Line {
    fn write(self) {
        let line = match self {
            Self::Script(line) => line,
            Self::Warning(text) => return tracing::warn!("{text}"),
        };
        let text = String::from_utf8_lossy(&line.text).replace(['\r', '\n'], " ");
        match line.level {
            0 => tracing::debug!("script: {text}"),
            1 | 2 => tracing::info!("script: {text}"),
            _ => tracing::warn!("script: {text}"),
        }
    }
}

/// The engine is released between connections after so many commands.
const COMMANDS_PER_LOCK: usize = 256;
const KEYS_INLINE: usize = 64;
