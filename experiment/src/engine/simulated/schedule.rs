//! The schedule of a trial: who wants which lock when, until all is well again and every lock was had once more.
//!
//! Client A holds its lock, where one node starts again on a bare majority with that node in it, cut off from the others.
//! The fault strikes within [`MOMENT_NS`] after the grant: late enough for other writes to come in between, and early
//! enough for the sync of a second to have it missed nearly always. Client B wants the same lock from then on.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_client::Wait;
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::Outcome;
use quorlock_simulation::{Cluster, Random};

use super::cluster::{cluster, nanos};
use super::step::{CallPurpose, Held, ProtectedRegister, ScheduledStep, WORK_NS};
use crate::cell::{Cell, Fault};
use crate::effect::BEYOND;
use crate::engine::{EngineError, Measured};
use crate::history::{Occurrence, TrialHistory, Who};
use crate::plan::Plan;

/// A trial under way.
pub(super) struct SimulatedTrial<'a> {
    pub(super) cell: &'a Cell,
    pub(super) plan: &'a Plan,
    pub(super) history: &'a TrialHistory,
    pub(super) cluster: Cluster<ScheduledStep>,
    pub(super) random: Random,
    pub(super) measured: Measured,
    pub(super) calls: BTreeMap<(usize, OperationId), CallPurpose>,
    pub(super) registers: BTreeMap<String, ProtectedRegister>,
    pub(super) writes: u64,
    holds: u64,
    /// Locks that no other client wants: they show how many a node forgets.
    pub(super) standing: Vec<Held>,
    /// How many of them are still asked for.
    pub(super) standing_asked: usize,
    pub(super) a: Option<Held>,
    pub(super) b: Option<Held>,
    pub(super) a_is_over: bool,
    pub(super) b_is_over: bool,
    /// Of the standing locks that a node held when the fault struck, by node.
    pub(super) stood: BTreeMap<usize, Vec<Held>>,
    pub(super) struck_ns: Option<u64>,
    pub(super) is_healed: bool,
    /// Locks that are still to be had at the end; `None` before the end.
    pub(super) last: Option<usize>,
}

impl<'a> SimulatedTrial<'a> {
    /// All nodes serve; the load and the contenders begin.
    pub(super) fn begin(
        cell: &'a Cell,
        plan: &'a Plan,
        seed: u64,
        history: &'a TrialHistory,
    ) -> SimulatedTrial<'a> {
        let directives = cell.directives(plan.ttl, plan.restart_delay_max);
        let told: Vec<(&str, &str)> = directives
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let load = usize::try_from(plan.load_clients).unwrap_or(0);
        let clients = LOAD + load;
        let mut cluster = cluster(seed, cell.nodes, &told, clients);
        let mut random = Random::of(&[seed, 5]);
        for contender in CONTENDERS {
            cluster.at(random.below(LOOK_NS), ScheduledStep::Contend(contender));
        }
        for client in LOAD..clients {
            cluster.at(random.below(LOOK_NS), ScheduledStep::Load(client));
        }
        // The first moments connect.
        cluster.at(nanos(plan.load_time) + LOOK_NS, ScheduledStep::Directed);
        SimulatedTrial {
            cell,
            plan,
            history,
            cluster,
            random,
            measured: Measured {
                load_s: plan.load_time.as_secs_f64(),
                ..Measured::default()
            },
            calls: BTreeMap::new(),
            registers: BTreeMap::new(),
            writes: 0,
            holds: 0,
            standing: Vec::new(),
            standing_asked: 0,
            a: None,
            b: None,
            a_is_over: false,
            b_is_over: false,
            stood: BTreeMap::new(),
            struck_ns: None,
            is_healed: false,
            last: None,
        }
    }

    /// Whether every lock was had again, or was not.
    pub(super) fn is_over(&self) -> bool {
        self.last == Some(0)
    }

    pub(super) fn note(&self, who: Who, what: Occurrence) {
        self.history.note(self.cluster.now_ns, who, what);
    }

    pub(super) fn note_node(&self, index: usize, what: Occurrence) {
        self.note(Who::Node(number_of(index)), what);
    }

    pub(super) fn note_client(&self, client: usize, what: Occurrence) {
        self.note(who(client), what);
    }

    /// What was planned is due.
    pub(super) fn step(&mut self, step: ScheduledStep) {
        match step {
            ScheduledStep::Load(client) => self.load(client),
            ScheduledStep::LoadEnds(client, held) => self.load_ends(client, &held),
            ScheduledStep::Contend(client) => self.contend(client),
            ScheduledStep::ContendEnds(held) => self.contend_ends(held),
            ScheduledStep::Directed => self.prepare(),
            ScheduledStep::Synced(held) => self.synced(held),
            ScheduledStep::Look(held) => self.look(held),
            ScheduledStep::Resume(held) => self.resume(&held),
            ScheduledStep::Work(held) => self.b_works(&held),
            ScheduledStep::Arm => self.arm(),
            ScheduledStep::Strike => self.strike(),
            ScheduledStep::Start(node) => self.start(node),
            ScheduledStep::SyncFences => self.sync_fences(),
            ScheduledStep::Heal => self.heal(),
            ScheduledStep::Watch => self.watch(),
        }
    }

    /// A call has its outcome.
    ///
    /// # Errors
    /// If A does not get its lock before anything went wrong.
    pub(super) fn told(
        &mut self,
        client: usize,
        operation: OperationId,
        outcome: Outcome,
    ) -> Result<(), EngineError> {
        let Some(purpose) = self.calls.remove(&(client, operation)) else {
            return Ok(());
        };
        match outcome {
            Outcome::Acquired {
                token,
                valid_until,
                fence,
                ..
            } => {
                self.cluster.detach(client, operation);
                let held = Held {
                    client,
                    lock: String::new(),
                    hold: self.holds + 1,
                    token,
                    until_ns: self.cluster.true_time(client, valid_until),
                    fence: fence.unwrap_or(0),
                };
                self.acquired(purpose, held);
            }
            Outcome::FencesSynced(nodes) => self.fences_synced(&nodes),
            Outcome::NotAcquired(error) => {
                if matches!(purpose, CallPurpose::A) {
                    return Err(EngineError::failed(format_args!(
                        "client A did not get the lock before the fault: {error}"
                    )));
                }
                self.refused(client, purpose, error.to_string());
            }
            Outcome::Released(_) => self.released(client, purpose),
            Outcome::Extended(outcome) => match (purpose, outcome) {
                (CallPurpose::Extend(held), Ok(extended)) => {
                    let until_ns = self.cluster.true_time(client, extended.valid_until);
                    self.extended(held, until_ns);
                }
                (_, outcome) => {
                    return Err(EngineError::Failed(format!(
                        "client A could not extend its lock before the fault: {outcome:?}"
                    )));
                }
            },
            _ => {}
        }
        Ok(())
    }

    fn acquired(&mut self, purpose: CallPurpose, mut held: Held) {
        self.measured.acquired += 1;
        self.holds += 1;
        held.lock = match &purpose {
            CallPurpose::Load { asked_ns } => return self.load_acquired(held, *asked_ns),
            CallPurpose::Contend => CONTENDED.to_owned(),
            CallPurpose::A | CallPurpose::B => DIRECTED.to_owned(),
            CallPurpose::Standing(lock) | CallPurpose::Last(lock) => lock.clone(),
            CallPurpose::LoadRelease
            | CallPurpose::Extend(_)
            | CallPurpose::Release { .. }
            | CallPurpose::SyncFences => return,
        };
        let what = Occurrence::Acquired {
            lock: held.lock.clone(),
            hold: held.hold,
            token: held.token.hint(),
            valid_until_ns: held.until_ns,
            nodes: Vec::new(),
            fence: (held.fence > 0).then_some(held.fence),
        };
        self.note_client(held.client, what);
        match purpose {
            CallPurpose::Contend => self.contend_acquired(held),
            CallPurpose::Standing(_) => {
                self.standing.push(held);
                self.stand_told();
            }
            CallPurpose::A => self.a_holds(held),
            CallPurpose::B => self.b_holds(held),
            _ => {
                self.release(held);
                self.last_told();
            }
        }
    }

    fn refused(&mut self, client: usize, purpose: CallPurpose, why: String) {
        let lock = match &purpose {
            CallPurpose::Load { .. } => return self.load_next(client),
            CallPurpose::Contend => CONTENDED.to_owned(),
            CallPurpose::Standing(lock) | CallPurpose::Last(lock) => lock.clone(),
            _ => DIRECTED.to_owned(),
        };
        self.note_client(client, Occurrence::Refused { lock, why });
        match purpose {
            CallPurpose::Contend => self.contend_next(client),
            CallPurpose::Standing(_) => self.stand_told(),
            CallPurpose::Last(_) => self.last_told(),
            _ => self.b_is_over = true,
        }
    }

    fn released(&mut self, client: usize, purpose: CallPurpose) {
        match purpose {
            CallPurpose::LoadRelease => self.load_next(client),
            CallPurpose::Release { lock, hold } => {
                let is_shared = lock == CONTENDED;
                self.note_client(client, Occurrence::Released { lock, hold });
                if client == A && self.cell.fault == Fault::ReleaseLost {
                    self.arm_soon();
                }
                if is_shared && CONTENDERS.contains(&client) {
                    self.contend_next(client);
                }
            }
            _ => {}
        }
    }

    /// Asks for a lock, with the words in the record.
    pub(super) fn ask(&mut self, client: usize, lock: &str, wait: Duration, purpose: CallPurpose) {
        let asked = Occurrence::Asked {
            lock: lock.to_owned(),
        };
        self.note_client(client, asked);
        let wait = Wait::For(wait);
        let is_fenced = self.cell.fences.are_on();
        let operation = self
            .cluster
            .acquire(client, lock, self.plan.ttl, wait, is_fenced);
        self.calls.insert((client, operation), purpose);
    }

    /// Gives a lock back, with the words in the record.
    pub(super) fn release(&mut self, held: Held) {
        let (lock, hold) = (held.lock.clone(), held.hold);
        self.note_client(held.client, Occurrence::ReleaseAsked { lock, hold });
        let operation = self
            .cluster
            .release(held.client, &held.lock, held.token.clone());
        let (lock, hold) = (held.lock, held.hold);
        self.calls.insert(
            (held.client, operation),
            CallPurpose::Release { lock, hold },
        );
    }

    /// How long whoever wants a lock after the faults waits for it, and how soon it must be there.
    pub(super) fn bound(&self) -> Duration {
        self.plan.restart_delay_max + self.plan.ttl + SETTLE
    }

    /// The load is over. The witness takes locks that nobody else wants, and then A takes its own.
    fn prepare(&mut self) {
        self.standing_asked = STANDING;
        for number in 1..=STANDING {
            let lock = format!("standing-{number}");
            self.ask(WITNESS, &lock, SETTLE, CallPurpose::Standing(lock.clone()));
        }
    }

    fn stand_told(&mut self) {
        self.standing_asked -= 1;
        if self.standing_asked == 0 {
            if self.cell.fault.leaves_bare_majority() {
                self.cut_a();
            }
            self.ask(A, DIRECTED, SETTLE, CallPurpose::A);
        }
    }

    /// Cuts A off from all nodes but a bare majority.
    pub(super) fn cut_a(&mut self) {
        for index in usize::from(self.cell.quorum())..usize::from(self.cell.nodes) {
            self.cluster.cut(A, index);
            let node = number_of(index);
            self.note_client(A, Occurrence::Cut { node });
        }
    }

    fn a_holds(&mut self, held: Held) {
        self.note_grants(&held);
        self.read(&held);
        let now_ns = self.cluster.now_ns;
        if self.cell.fault.strikes_after_sync() {
            let at_ns = now_ns + nanos(self.plan.ttl) / 2;
            return self.cluster.at(at_ns, ScheduledStep::Synced(held));
        }
        if self.cell.fault == Fault::ClientPause {
            self.note_client(A, Occurrence::Paused);
            let until_ns = now_ns + nanos(self.plan.ttl + BEYOND);
            self.cluster.stop_client(A, until_ns);
            self.cluster
                .at(until_ns, ScheduledStep::Resume(held.clone()));
        } else {
            self.cluster.at(now_ns, ScheduledStep::Look(held.clone()));
        }
        self.a = Some(held);
        self.arm_soon();
    }

    /// A extends its lock, or gives it back.
    fn synced(&mut self, held: Held) {
        // A start in another boot counts what was left of a lock when the last record was synced: the later that is, the
        // sooner the lock is over.
        self.cluster.sync();
        if self.cell.fault == Fault::ReleaseLost {
            self.write(&held);
            self.release(held);
            self.a_is_over = true;
            return;
        }
        let token = held.token.clone();
        let operation = self.cluster.extend(A, DIRECTED, token, self.plan.ttl);
        self.calls.insert((A, operation), CallPurpose::Extend(held));
    }

    fn extended(&mut self, mut held: Held, until_ns: u64) {
        held.until_ns = until_ns;
        let what = Occurrence::Extended {
            lock: held.lock.clone(),
            hold: held.hold,
            valid_until_ns: until_ns,
        };
        self.note_client(A, what);
        let now_ns = self.cluster.now_ns;
        self.cluster.at(now_ns, ScheduledStep::Look(held.clone()));
        self.a = Some(held);
        self.arm_soon();
    }

    /// The fault strikes within a moment.
    fn arm_soon(&mut self) {
        let now_ns = self.cluster.now_ns;
        let moment_ns = self.random.below(MOMENT_NS);
        self.cluster.at(now_ns + moment_ns, ScheduledStep::Arm);
    }

    fn b_holds(&mut self, held: Held) {
        self.read(&held);
        self.note_grants(&held);
        let now_ns = self.cluster.now_ns;
        let waited_ns = now_ns.saturating_sub(self.struck_ns.unwrap_or(now_ns)) as f64;
        self.measured.waited_ms = Some(waited_ns / 1e6);
        let at_ns = now_ns + WORK_NS;
        self.cluster.at(at_ns, ScheduledStep::Work(held.clone()));
        self.b = Some(held);
    }

    fn last_told(&mut self) {
        self.last = self.last.map(|left| left - 1);
    }
}

/// Under which name a client is on record.
fn who(client: usize) -> Who {
    Who::Client(match client {
        A => "A".to_owned(),
        B => "B".to_owned(),
        WITNESS => "witness".to_owned(),
        LOAD.. => format!("load-{}", client - LOAD + 1),
        _ => format!("contender-{}", client - WITNESS),
    })
}

pub(super) fn number_of(index: usize) -> u8 {
    u8::try_from(index + 1).unwrap_or(u8::MAX)
}

pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const WITNESS: usize = 2;
const CONTENDERS: std::ops::Range<usize> = 3..5;
const LOAD: usize = 5;
pub(super) const DIRECTED: &str = "directed";
pub(super) const CONTENDED: &str = "contended";
pub(super) const STANDING: usize = 20;
const SETTLE: Duration = Duration::from_secs(2);
pub(super) const LOOK_NS: u64 = 20_000_000;
const MOMENT_NS: u64 = 30_000_000;
