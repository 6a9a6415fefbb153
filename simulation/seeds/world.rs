//! The callers of a cluster of a seed, and what happens to them, moment by moment.

use std::collections::{BTreeMap, BTreeSet};

use quorlock_client::Wait;
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{AcquireCall, Call};
use quorlock_persistence::LogOptions;
use quorlock_simulation::{Cluster, ClusterEvent, Layout, Random, drift_ppm};

use super::caller::{CallerHold, OpenCall, SimulatedCaller, State};
use super::checks::FinalPhase;
use super::delays::Delays;
use super::fault_class::FaultClass;
use super::faults::PlannedFault;
use super::fences::SeenFences;
use super::forced::ForcedReleases;
use super::leftovers::Leftovers;
use super::listeners::SimulatedListeners;
use super::members::MembersChange;
use super::observers::Observers;
use super::owners::Owned;
use super::plan::Plan;
use super::readers::Readers;
use super::step::{Step, ways};
use super::tokens::Tokens;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeedReport {
    /// Locks that were reported to their callers as held.
    pub(crate) acquired: u64,
    /// Calls that ended without the lock.
    pub(crate) refused: u64,
    /// How often calls reported what they wait for.
    pub(crate) told_waiting: u64,
    /// Validities that moved on.
    pub(crate) renewed: u64,
    /// Locks that were extended, and released, by a client that only knew their token.
    pub(crate) extended: u64,
    /// The same.
    pub(crate) released_by_token: u64,
    /// Locks that were lost.
    pub(crate) lost: u64,
    /// Ends after which others had to wait for the lock delay.
    pub(crate) delayed: u64,
    /// Locks that were held with a fence.
    pub(crate) fenced: u64,
    /// Locks that the operator has ended while they were held.
    pub(crate) forced: u64,
    /// How often another caller then had the lock with its fence while the one before still believed in it.
    pub(crate) overlapped: u64,
    /// Locks that one more node was seen with their fence than before.
    pub(crate) refenced: u64,
    /// Ceilings that the operator has given to nodes.
    pub(crate) adopted: u64,
    /// How often the operator has told a node another number of members.
    pub(crate) resized: u64,
    /// What went wrong, and how often.
    pub(crate) faults: BTreeMap<PlannedFault, u64>,
    /// Connections that clients made.
    pub(crate) connects: u64,
    /// How often clients wrote to nodes.
    pub(crate) requests: u64,
    /// Numbers that publishers and listeners have received.
    pub(crate) heard: u64,
    /// What happened, all in all.
    pub(crate) events: u64,
    /// How long locks were free while callers waited, where nothing went wrong.
    pub(crate) turns_ms: Vec<u64>,
    /// Of callers that asked in step: after how many of the longest ways the first of them had the lock.
    pub(crate) draws_ways: Vec<u64>,
    /// How long callers far away have waited for the lock.
    pub(crate) far_ms: Vec<u64>,
    /// How many of the acquisitions were readers'.
    pub(crate) read: u64,
    /// What observers were told.
    pub(crate) observed: u64,
    /// Calls that have joined a lock that their owner had.
    pub(crate) joined: u64,
    /// Guards that were released while others of their owner kept the lock.
    pub(crate) kept_by_others: u64,
    /// The most requests that a client kept for its nodes at a time.
    pub(crate) requests_kept_max: u64,
    /// Simulated time.
    pub(crate) simulated_ms: u64,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) cluster: Cluster<Step>,
    pub(super) callers: Vec<SimulatedCaller>,
    /// Calls that have no outcome yet, by client.
    pub(super) open: BTreeMap<(usize, OperationId), OpenCall>,
    pub(super) holds: Vec<CallerHold>,
    pub(super) leftovers: Leftovers,
    pub(super) members: MembersChange,
    pub(super) by_token: Tokens,
    pub(super) delays: Delays,
    pub(super) fences: SeenFences,
    pub(super) forced: ForcedReleases,
    pub(super) readers: Readers,
    pub(super) owned: Owned,
    pub(super) observers: Observers,
    /// Every token that a caller was given.
    pub(super) tokens: BTreeSet<Vec<u8>>,
    pub(super) report: SeedReport,
    pub(super) violation: Option<String>,
    pub(super) is_over: bool,
    pub(super) is_finished: bool,
    /// Of each name: since when it is free.
    pub(super) freed_ns: BTreeMap<u64, Option<u64>>,
    pub(super) listeners: Option<SimulatedListeners>,
    /// No publisher counts any more.
    pub(super) is_counted: bool,
}

/// Runs a plan. With `traces` the error says all that happened.
///
/// # Errors
/// The first promise that was not kept, and when.
pub(crate) fn run(plan: &Plan, traces: bool) -> Result<SeedReport, String> {
    let mut world = World::new(plan, traces);
    world.prepare();
    let healed_ns = plan.length_s * SECOND_NS;
    let end_ns = world.last_ns();
    world.cluster.at(end_ns, Step::Phase(FinalPhase::Take));
    while world.cluster.advance() {
        let now_ns = world.cluster.now_ns;
        world.is_over = now_ns >= healed_ns;
        world.report.events += 1;
        world.sample_holders();
        world.drain();
        if let Some(violation) = world.violation.take() {
            let trace = world.cluster.trace.take().unwrap_or_default().join("\n");
            return Err(format!(
                "{trace}\n{plan:?}\nat {} ms: {violation}",
                now_ns / 1_000_000
            ));
        }
        if world.is_finished {
            break;
        }
    }
    world.report.connects = world.cluster.connects;
    world.report.requests = world.cluster.requests;
    world.report.simulated_ms = world.cluster.now_ns / 1_000_000;
    Ok(world.report)
}

impl World {
    fn new(plan: &Plan, traces: bool) -> World {
        World {
            cluster: cluster(plan, traces),
            callers: (0..plan.clients * plan.callers)
                .map(|number| SimulatedCaller {
                    client: number % plan.clients,
                    state: State::Idle,
                })
                .collect(),
            open: BTreeMap::new(),
            holds: Vec::new(),
            leftovers: Leftovers::of(plan.nodes),
            members: MembersChange::of(plan.nodes),
            by_token: Tokens::default(),
            delays: Delays::default(),
            fences: SeenFences::default(),
            forced: ForcedReleases::default(),
            readers: Readers::default(),
            owned: Owned::default(),
            observers: Observers::default(),
            tokens: BTreeSet::new(),
            report: SeedReport::default(),
            violation: None,
            plan: plan.clone(),
            is_over: false,
            is_finished: false,
            freed_ns: (0..plan.names).map(|name| (name, Some(0))).collect(),
            listeners: None,
            is_counted: false,
        }
    }

    fn prepare(&mut self) {
        self.add_listeners();
        self.add_observers();
        self.begin_members();
        for caller in 0..self.callers.len() {
            let at_ns = match self.plan.is_in_step {
                true => SECOND_NS / 2,
                false => self.cluster.random.below(SECOND_NS),
            };
            self.cluster.at(at_ns, Step::Caller(caller));
        }
        if self.plan.has_forced_releases {
            self.cluster.at(2 * SECOND_NS, Step::LookAtLocks);
        }
        if self.plan.faults != FaultClass::None {
            // Everybody has seen every node by then.
            let chains = match self.plan.is_together {
                true => 1,
                false => self.plan.away,
            };
            for chain in 0..chains {
                self.cluster.at(3 * SECOND_NS, Step::Fault(chain));
            }
        }
    }

    /// When the end begins: restart delays, leases, and the waits of all callers are over.
    pub(super) fn last_ns(&self) -> u64 {
        let lasts_ns = self.plan.length_s * SECOND_NS + 31 * SECOND_NS;
        lasts_ns + 3 * self.plan.kept_ms() * 1_000_000 + self.plan.wait_ns()
    }

    /// Takes every event that there is.
    pub(super) fn drain(&mut self) {
        while let Some(event) = self.cluster.take_event() {
            match event {
                ClusterEvent::Step(step) => match self.is_asleep(&step) {
                    Some(until_ns) => self.cluster.put_off(until_ns, step),
                    None => self.step(step),
                },
                ClusterEvent::Outcome(client, operation, outcome) => {
                    self.told(client, operation, outcome);
                }
                ClusterEvent::Waiting(client, operation, waiting) => {
                    self.waits(client, operation, &waiting);
                }
                ClusterEvent::Observed(client, observer, observed) => {
                    self.observed(client, observer, observed);
                }
                ClusterEvent::Renewed(client, held, valid_until) => {
                    self.renewed(client, held, valid_until);
                }
                ClusterEvent::Lost(client, held, loss) => self.lost(client, held, &loss),
                ClusterEvent::Failed(node) => self.failed(node),
                ClusterEvent::Serving(_) | ClusterEvent::Watched(..) | ClusterEvent::Heard(..) => {}
                ClusterEvent::Ticked(node) => self.ticked(node),
                ClusterEvent::Connected(wire) => self.listener_connected(wire),
                ClusterEvent::Received(wire, bytes) => self.listener_received(wire, &bytes),
                ClusterEvent::Closed(wire) => self.listener_closed(wire),
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Listen => self.look(),
            Step::Caller(caller) => self.caller(caller),
            Step::Due(client, operation) => self.due(client, operation),
            Step::HoldEnds(client, held) => self.hold_ends(client, held),
            Step::UseToken(token) => self.use_token(&token),
            Step::GuardGone(client, held) => self.guard_gone(client, held),
            Step::LookAtLocks => self.look_at_locks(),
            Step::Force(sighting) => self.force(&sighting),
            Step::ForceNoticed(held) => self.force_noticed(held),
            Step::ChangeMembers => self.change_members(),
            Step::Fault(node) => self.fault(node),
            Step::CutOff(client) => self.cut_off_after_late(client),
            Step::Heal(node, healing) => self.heal(node, healing),
            Step::Phase(phase) => self.phase(phase),
        }
    }

    /// A node has done what comes with time.
    fn ticked(&mut self, node: usize) {
        self.check_empty(node);
        if node == 0 {
            self.check_sizes();
            self.check_observers();
            if self.cluster.now_ns.is_multiple_of(LOOK_EVERY_NS) {
                self.operate();
                self.check_leftovers();
            }
        }
    }

    /// A client keeps nothing of a lock but its token.
    pub(super) fn detach(&mut self, client: usize, held: OperationId) {
        self.cluster.detach(client, held);
        self.drain();
    }

    /// A caller gives up a call or a guard.
    pub(super) fn drop_operation(&mut self, client: usize, operation: OperationId) {
        self.cluster.drop_operation(client, operation);
        self.drain();
    }

    pub(super) fn call(&mut self, client: usize, call: Call) -> OperationId {
        let operation = self.cluster.next_operation(client);
        self.cluster
            .note(|| format!("client {client} {operation:?}: {call:?}"));
        let (wait, name) = match &call {
            Call::Acquire(AcquireCall { wait, name, .. })
            | Call::AcquireTelling(AcquireCall { wait, name, .. }) => (*wait, Some(name)),
            _ => (Wait::None, None),
        };
        let wait_ns = match wait {
            Wait::For(wait) => u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX),
            _ => 0,
        };
        let open = OpenCall {
            asked_ns: self.cluster.now_ns,
            wait_ns,
            tells: matches!(call, Call::AcquireTelling(_)),
            name: (self.plan.wishes())
                .filter(|_| wait_ns > 0)
                .find(|one| name == Some(&self.plan.lock(*one))),
        };
        self.expect(client, operation, open);
        self.cluster.call(client, call);
        self.drain();
        operation
    }
}

/// The nodes and clients of a plan.
fn cluster(plan: &Plan, traces: bool) -> Cluster<Step> {
    let (ways_ns, jitter) = ways(plan);
    let layout = Layout {
        seed: plan.seed,
        nodes: plan.nodes,
        directives: &directives(plan),
        sizes: LogOptions {
            first_segment_bytes: 256 << 10,
            segment_bytes: 256 << 10,
            ..LogOptions::default()
        },
        client_rates_ppm: &|random| (rate_ppm(plan, random), steered_ppm(plan, random)),
        node_rate_ppm: &|random| rate_ppm(plan, random),
        listed: &|client| plan.listed_by(client),
        configure: &|builder| {
            let builder = builder
                .spare_votes(plan.spare_votes)
                .stand_in_line(plan.stands_in_line());
            match plan.tells_cluster() {
                true => builder.cluster_id(CLUSTER),
                false => builder,
            }
        },
        ways_ns,
        is_in_step: plan.is_in_step,
        jitter,
        tick_ns: TICK_NS,
        is_silent_without_power: false,
        traces,
    };
    layout.build()
}

/// The configuration of every node.
fn directives(plan: &Plan) -> Vec<(&'static str, &'static str)> {
    let without_lines = (!plan.has_lines).then_some(WITHOUT_LINES);
    let usual = [
        ("appendonly", "yes"),
        ("appendfsync", plan.fsync),
        ("first-start", "serve"),
        ("restart-delay-max", "30s"),
        ("cluster-id", CLUSTER),
        ("trust-fsync", if plan.trusts_fsync { "yes" } else { "no" }),
    ];
    usual.into_iter().chain(without_lines).collect()
}

/// A clock's rate: those of a client and a node differ by less than what is allowed for.
fn rate_ppm(plan: &Plan, random: &mut Random) -> i32 {
    if plan.is_in_step {
        return 0;
    }
    drift_ppm(random)
}

/// How much a time daemon slows the clocks down that it may steer.
fn steered_ppm(plan: &Plan, random: &mut Random) -> i32 {
    match plan.faults {
        FaultClass::Clocks | FaultClass::All => random.pick(&[0, 500, 80_000]),
        _ => 0,
    }
}

pub(super) const SECOND_NS: u64 = 1_000_000_000;
pub(super) const CLUSTER: &str = "blue";
const TICK_NS: u64 = 50_000_000;
const WITHOUT_LINES: (&str, &str) = (
    "user",
    "default on nopass ~* &* +@all -lock.wait -lock.unwait",
);
/// How often nodes are searched for keys that no client holds.
const LOOK_EVERY_NS: u64 = SECOND_NS / 2;
