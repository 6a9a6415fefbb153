//! A run: callers, agents and nodes of a seed, moment by moment.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock_agent_rules::RequestId;
use quorlock_agent_simulation::{Agents, Answer, Setting};
use quorlock_simulation::Random;

use super::caller::Caller;
use super::checks::Hold;
use super::faults::End;
use super::listeners::{Messages, OVER_MS, Sent};
use super::open::Open;
use super::plan::{Fault, Plan};

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) acquired: u64,
    pub(crate) refused: u64,
    pub(crate) extended: u64,
    /// Locks that were acquired with a fence.
    pub(crate) fences: u64,
    pub(crate) released: u64,
    /// Extensions that were refused.
    pub(crate) lost: u64,
    pub(crate) died: u64,
    /// Sessions that ended while they had locks, and whose locks were looked for.
    pub(crate) sessions: u64,
    pub(crate) answered: u64,
    /// Answers that said nothing of the lock, and connections that ended.
    pub(crate) errors: u64,
    /// Messages that a majority has taken, and those that have reached somebody.
    pub(crate) published: u64,
    pub(crate) delivered: u64,
    /// The longest time without an answer.
    pub(crate) longest_ms: u64,
    /// When the last caller had its lock, from when all was well.
    pub(crate) done_ms: u64,
    pub(crate) faults: BTreeMap<Fault, u64>,
    pub(crate) simulated_ms: u64,
}

/// What happens at a moment.
#[derive(Debug)]
pub(super) enum Planned {
    Caller(usize),
    Answer(RequestId, Answer),
    /// A connection to an agent has ended: the client's number, and the agent's.
    Left(u64, usize),
    /// Nothing is left of the locks under this token, which have ended with their session.
    Gone(String),
    Fault,
    End(End),
    /// A listener wants to listen.
    Listen(usize),
    /// A publisher publishes.
    Publish(usize),
    /// A message has had its time.
    Arrived(Sent),
    /// All connections to a node end.
    Close(usize),
    /// All is well from now on.
    Heal,
    /// It is looked whether every request is answered in time.
    Look,
    /// Nothing may be left.
    Last,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) agents: Agents,
    pub(super) random: Random,
    pub(super) callers: Vec<Caller>,
    pub(super) open: BTreeMap<RequestId, Open>,
    pub(super) holds: Vec<Hold>,
    /// How many connections of sessions were made.
    pub(super) clients: u64,
    pub(super) messages: Messages,
    /// The last fence of each lock that a caller was told.
    pub(super) fences: BTreeMap<usize, i64>,
    /// Until when each agent is away.
    pub(super) well_ns: Vec<u64>,
    pub(super) healed_ns: u64,
    pub(super) is_over: bool,
    pub(super) violation: Option<String>,
    pub(super) report: Report,
    planned: BTreeMap<u64, Planned>,
    plans: u64,
    is_finished: bool,
}

/// Runs a plan. With `traces` the error says all that happened.
///
/// # Errors
/// The first promise that was not kept, and when.
pub(crate) fn run(plan: &Plan, traces: bool) -> Result<Report, String> {
    let mut world = World::new(plan, traces);
    while world.agents.advance() {
        world.take();
        if let Some(violation) = world.violation.take() {
            let trace = world.agents.cluster.trace.take().unwrap_or_default();
            let last = trace.len().saturating_sub(TRACE_LINES);
            return Err(format!(
                "{}\n{plan:?}\nat {} ms: {violation}",
                trace[last..].join("\n"),
                world.now() / MS
            ));
        }
        if world.is_finished {
            break;
        }
    }
    world.report.simulated_ms = world.now() / MS;
    Ok(world.report)
}

impl World {
    fn new(plan: &Plan, traces: bool) -> World {
        let agents = Agents::of(Setting {
            seed: plan.seed,
            nodes: plan.nodes,
            agents: plan.agents,
            way: Duration::from_micros(plan.way_us),
            fsync: plan.fsync,
            restart_delay_max: "20s",
            hold_back: Duration::from_millis(plan.hold_back_ms),
            late_replies: Duration::from_millis(plan.late_replies_ms()),
            has_rates: true,
            traces,
        });
        let mut world = World {
            agents,
            random: Random::of(&[plan.seed, 2]),
            callers: Vec::new(),
            open: BTreeMap::new(),
            holds: Vec::new(),
            clients: 0,
            messages: Messages::default(),
            fences: BTreeMap::new(),
            well_ns: vec![0; plan.agents],
            healed_ns: plan.length_s * 1_000 * MS,
            is_over: false,
            violation: None,
            report: Report::default(),
            planned: BTreeMap::new(),
            plans: 0,
            is_finished: false,
            plan: plan.clone(),
        };
        for number in 0..plan.callers {
            let caller = world.new_caller(number);
            world.callers.push(caller);
            let at_ns = world.random.below(500 * MS);
            world.plan_at(at_ns, Planned::Caller(number));
        }
        world.plan_at(1_000 * MS, Planned::Fault);
        world.plan_at(1_000 * MS, Planned::Look);
        world.plan_at(world.healed_ns, Planned::Heal);
        world.begin_messages();
        world
    }

    /// Takes every event that there is.
    fn take(&mut self) {
        self.deliver();
        while let Some((id, answer)) = self.agents.take_answer() {
            let at_ns = self.now() + self.loopback_ns();
            self.plan_at(at_ns, Planned::Answer(id, answer));
        }
        while let Some(number) = self.agents.take_planned() {
            let Some(planned) = self.planned.remove(&number) else {
                continue;
            };
            match planned {
                Planned::Caller(number) => self.caller(number),
                Planned::Answer(id, answer) => {
                    if let Some(open) = self.open.remove(&id) {
                        self.answered(&open, &answer);
                    } else {
                        self.answered_about_channel(id, &answer);
                    }
                }
                Planned::Left(client, agent) => self.agents.leave(client, agent),
                Planned::Gone(token) => self.check_gone(&token),
                Planned::Fault => self.fault(),
                Planned::End(end) => self.end(end),
                Planned::Listen(number) => self.listen(number),
                Planned::Publish(number) => self.publish(number),
                Planned::Arrived(sent) => self.check_arrived(&sent),
                Planned::Close(node) => self.agents.cluster.disconnect(node, true),
                Planned::Heal => {
                    self.note(|| "all is well".to_owned());
                    self.is_over = true;
                }
                Planned::Look => self.look(),
                Planned::Last => {
                    self.check_nothing_left();
                    self.is_finished = true;
                }
            }
        }
    }

    fn look(&mut self) {
        self.check_answered();
        let last_ns = self.healed_ns + self.progress_ns();
        if self.now() > last_ns && !self.is_done() {
            let waiting = self.waiting();
            self.violation = Some(format!(
                "all is well for {} ms, and callers {waiting:?} have no lock",
                self.progress_ns() / MS
            ));
        }
        if !self.is_finished {
            self.plan_at(self.now() + 1_000 * MS, Planned::Look);
        }
    }

    /// How long it takes until every caller had a lock: what was lost on nodes has to be over, and what was left, and then each of
    /// them has its turn.
    fn progress_ns(&self) -> u64 {
        let ttl_ns = self.plan.ttl_ms * MS;
        25_000 * MS + ttl_ns * (6 + self.plan.callers as u64)
    }

    /// The last caller may have had its lock.
    pub(super) fn done(&mut self) {
        if self.is_done() {
            let mut at_ns = self.now() + self.left_ns();
            if self.plan.listeners > 0 {
                at_ns = at_ns.max(self.healed_ns + OVER_MS * MS);
            }
            self.plan_at(at_ns, Planned::Last);
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.agents.cluster.now_ns
    }

    pub(super) fn plan_at(&mut self, at_ns: u64, planned: Planned) {
        self.plans += 1;
        self.planned.insert(self.plans, planned);
        let step = quorlock_agent_simulation::Step::Planned(self.plans);
        self.agents.cluster.at(at_ns, step);
    }

    /// A number below this one.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).unwrap_or(0)
    }

    /// The way between a caller and its agent.
    pub(super) fn loopback_ns(&mut self) -> u64 {
        20_000 + self.random.below(100_000)
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        self.agents.cluster.note(text);
    }
}

pub(super) const MS: u64 = 1_000_000;
/// What is shown of a run that fails.
const TRACE_LINES: usize = 4_000;

impl Report {
    /// Counts another run as well.
    pub(crate) fn add(&mut self, other: &Report) {
        self.acquired += other.acquired;
        self.refused += other.refused;
        self.extended += other.extended;
        self.fences += other.fences;
        self.released += other.released;
        self.lost += other.lost;
        self.died += other.died;
        self.sessions += other.sessions;
        self.answered += other.answered;
        self.errors += other.errors;
        self.published += other.published;
        self.delivered += other.delivered;
        self.longest_ms = self.longest_ms.max(other.longest_ms);
        self.done_ms = self.done_ms.max(other.done_ms);
        self.simulated_ms += other.simulated_ms;
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }
}
