//! Agents in front of a simulated cluster: the shipped rules of agents, clients and nodes in one thread and from one seed.
//!
//! Each agent has a client of its own. Callers send it the commands of lock libraries.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use quorlock_agent_rules::{Action, Agent, Commands, Event, RequestId};
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::settings::Drift;
use quorlock_clock::saturated_nanos;
use quorlock_engine::{Caller, Reply, StoredValue};
use quorlock_persistence::LogOptions;
use quorlock_simulation::{Cluster, ClusterEvent, Layout, Random};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// What is planned beside what the cluster does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// An agent's timer; only the last one that was set counts.
    Timer(usize, u64),
    /// The driver goes on.
    Mark,
}

/// Nodes, and agents in front of them.
pub struct Agents {
    /// The nodes, and the client of each agent.
    pub cluster: Cluster<Step>,
    /// What agents have asked the nodes for, one after the other.
    pub asked: Vec<&'static str>,
    seed: u64,
    agents: Vec<Running>,
    replies: BTreeMap<RequestId, Reply>,
    requests: u64,
}

/// An agent that runs.
struct Running {
    agent: Agent,
    /// The timer that was set last.
    timer: u64,
    /// The request for which each call was made.
    calls: HashMap<OperationId, RequestId>,
    /// The last call of each request.
    last: HashMap<RequestId, OperationId>,
}

impl Agents {
    /// So many nodes, and agents at this distance in front of them.
    #[must_use]
    pub fn new(seed: u64, nodes: usize, agents: usize, way: Duration) -> Self {
        let way_ns = saturated_nanos(way);
        let layout = Layout {
            seed,
            nodes,
            directives: &[("appendfsync", "always")],
            sizes: LogOptions {
                first_segment_bytes: 256 << 10,
                segment_bytes: 256 << 10,
                ..LogOptions::default()
            },
            client_rates_ppm: &|_| (0, 0),
            node_rate_ppm: &|_| 0,
            configure: &|builder| builder,
            ways_ns: vec![vec![way_ns; nodes]; agents],
            is_in_step: false,
            jitter: Random::of(&[seed, 1]),
            tick_ns: 10_000_000,
            is_silent_without_power: false,
            traces: false,
        };
        let agents = (0..agents).map(|number| Running::new(seed, number));
        Self {
            cluster: layout.build(),
            asked: Vec::new(),
            seed,
            agents: agents.collect(),
            replies: BTreeMap::new(),
            requests: 0,
        }
    }

    /// An agent is killed and started again: what it knew is gone.
    pub fn restart(&mut self, agent: usize) {
        self.agents[agent] = Running::new(self.seed + 1, agent);
    }

    /// Sends a request to an agent and waits for its reply.
    ///
    /// # Panics
    /// If there is none within a minute.
    pub fn send(&mut self, agent: usize, words: &[&str]) -> Reply {
        let id = self.begin(agent, &[words], false);
        self.reply(id)
    }

    /// Sends a request to an agent: one command, or those of a transaction.
    pub fn begin(&mut self, agent: usize, commands: &[&[&str]], is_transaction: bool) -> RequestId {
        let bytes = |word: &&str| Bytes::copy_from_slice(word.as_bytes());
        let all = commands.iter().map(|one| one.iter().map(bytes).collect());
        let commands = Commands {
            all: all.collect(),
            is_transaction,
        };
        self.requests += 1;
        let id = RequestId(self.requests);
        self.tell(agent, Event::Request(id, Caller::default(), commands));
        id
    }

    /// Waits for the reply to a request.
    ///
    /// # Panics
    /// If there is none within a minute.
    pub fn reply(&mut self, id: RequestId) -> Reply {
        let until_ns = self.cluster.now_ns + 60_000_000_000;
        loop {
            if let Some(reply) = self.replies.remove(&id) {
                return reply;
            }
            assert!(self.advance() && self.cluster.now_ns < until_ns, "no reply");
        }
    }

    /// Time passes.
    pub fn pass(&mut self, time: Duration) {
        let time_ns = saturated_nanos(time);
        let until_ns = self.cluster.now_ns + time_ns;
        self.cluster.at(until_ns, Step::Mark);
        while self.cluster.now_ns < until_ns && self.advance() {}
    }

    /// Kills a node's process, or starts it again.
    pub fn run_node(&mut self, node: usize, runs: bool) {
        match runs {
            true => {
                self.cluster.servers[node].start();
            }
            false => {
                self.cluster.servers[node].kill();
                self.cluster.disconnect(node, true);
            }
        }
    }

    /// What most nodes keep under a name.
    #[must_use]
    pub fn stored(&self, name: &str) -> Option<Vec<u8>> {
        let mut said: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for server in &self.cluster.servers {
            let keys = server.keys().into_iter();
            for (_, value) in keys.filter(|(key, _)| key == name.as_bytes()) {
                if let StoredValue::String(token) = value {
                    *said.entry(token.to_vec()).or_default() += 1;
                }
            }
        }
        let majority = self.cluster.servers.len() / 2 + 1;
        said.into_iter()
            .find(|(_, nodes)| *nodes >= majority)
            .map(|(token, _)| token)
    }

    fn advance(&mut self) -> bool {
        if !self.cluster.advance() {
            return false;
        }
        while let Some(event) = self.cluster.take_event() {
            match event {
                ClusterEvent::Step(Step::Timer(agent, number))
                    if self.agents[agent].timer == number =>
                {
                    self.tell(agent, Event::Timer);
                }
                ClusterEvent::Outcome(agent, operation, outcome) => {
                    self.told(agent, operation, outcome);
                }
                _ => {}
            }
        }
        true
    }

    fn told(&mut self, agent: usize, operation: OperationId, outcome: Outcome) {
        if let Some(id) = self.agents[agent].calls.remove(&operation) {
            self.tell(agent, Event::Outcome(id, outcome));
        }
    }

    /// Something happens to an agent, and it acts.
    fn tell(&mut self, number: usize, event: Event) {
        let now = self.cluster.machines[number].now(self.cluster.now_ns);
        let wall_us = self.cluster.now_ns / 1_000;
        let mut actions = Vec::new();
        let running = &mut self.agents[number];
        running.agent.handle(now, wall_us, event, &mut actions);
        for action in actions {
            self.carry_out(number, action);
        }
        let running = &mut self.agents[number];
        running.timer += 1;
        if let Some(at) = running.agent.next_time() {
            let timer = Step::Timer(number, running.timer);
            let at_ns = self.cluster.true_time(number, at);
            self.cluster.at(at_ns.max(self.cluster.now_ns + 1), timer);
        }
    }

    fn carry_out(&mut self, number: usize, action: Action) {
        match action {
            Action::Ask(id, call) => {
                self.asked.push(match &call {
                    Call::Read { .. } => "read",
                    Call::Acquire(_) => "acquire",
                    Call::SetEnd { .. } => "set end",
                    Call::Release { .. } => "release",
                    _ => "something else",
                });
                let operation = self.cluster.next_operation(number);
                let running = &mut self.agents[number];
                running.calls.insert(operation, id);
                running.last.insert(id, operation);
                self.cluster.call(number, call);
            }
            Action::HandOver(id) => {
                if let Some(held) = self.agents[number].last.remove(&id) {
                    self.cluster.call(number, Call::Detach { held });
                }
            }
            Action::Undo(call) => {
                self.cluster.call(number, call);
            }
            Action::Reply(id, reply) | Action::ReplyBefore(id, reply, _) => {
                self.agents[number].last.remove(&id);
                let before = self.replies.insert(id, reply);
                assert!(before.is_none(), "a request is answered once");
            }
        }
    }
}

impl Running {
    fn new(seed: u64, number: usize) -> Self {
        let seed = Random::of(&[seed, 9, number as u64]).number();
        let random = Box::new(StdRng::seed_from_u64(seed));
        Self {
            agent: Agent::new(Drift::default(), random),
            timer: 0,
            calls: HashMap::new(),
            last: HashMap::new(),
        }
    }
}
