//! Agents in front of a simulated cluster: the shipped rules of agents, clients and nodes in one thread and from one seed.
//!
//! Each agent has a client of its own. Callers send it the commands of lock libraries.

pub mod library_scripts;
mod nodes;
mod replies;
mod running;
mod setting;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use quorlock_agent_rules::{Action, Commands, Event, Expiring, RequestId};
use quorlock_client_rules::OperationId;
use quorlock_client_rules::call::{Call, Outcome};
use quorlock_client_rules::channels::Topic;
use quorlock_client_rules::token::Token;
use quorlock_clock::saturated_nanos;
use quorlock_engine::{Caller, Reply};
use quorlock_persistence::LogOptions;
use quorlock_simulation::{Cluster, ClusterEvent, Layout, Random, client_rules, drift_ppm};

use running::Running;
pub use setting::Setting;

/// What is planned beside what the cluster does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// An agent's timer; only the last one that was set counts.
    Timer(usize, u64),
    /// The driver goes on.
    Mark,
    /// A request reaches its agent.
    Arrival(RequestId),
    /// A reply leaves its agent.
    Leaving(RequestId),
    /// Something that the driver has planned, by a number of its own.
    Planned(u64),
}

/// How a request ended, for who has sent it.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The agent has replied.
    Reply(Reply),
    /// The agent's process has ended, or there was none.
    Disconnected,
}

/// Nodes, and agents in front of them.
pub struct Agents {
    /// The nodes, and the client of each agent.
    pub cluster: Cluster<Step>,
    /// Messages for the clients of an agent, by their channels, in their order.
    pub delivered: VecDeque<(usize, Bytes, Bytes)>,
    /// What agents have asked the nodes for, one after the other.
    pub asked: Vec<&'static str>,
    setting: Setting,
    agents: Vec<Running>,
    replies: BTreeMap<RequestId, Answer>,
    requests: u64,
    /// Requests on their way to an agent, and those that it has taken.
    arriving: BTreeMap<RequestId, (usize, u64, Commands)>,
    open: BTreeMap<RequestId, usize>,
    /// Replies that no worker of their agent has come to yet, and how long that takes.
    leaving: BTreeMap<RequestId, (usize, Reply, Expiring)>,
    lateness: Random,
    planned: VecDeque<u64>,
    /// How many processes of agents were started so far.
    lives: usize,
}

impl Agents {
    /// So many nodes, and agents at this distance in front of them.
    #[must_use]
    pub fn new(seed: u64, nodes: usize, agents: usize, way: Duration) -> Self {
        Self::of(Setting {
            seed,
            nodes,
            agents,
            way,
            fsync: "always",
            restart_delay_max: "60s",
            hold_back: Duration::ZERO,
            late_replies: Duration::ZERO,
            has_rates: false,
            traces: false,
        })
    }

    /// The same, whose agents hold a try back for so long.
    #[must_use]
    pub fn holding_back(self, hold_back: Duration) -> Self {
        Self::of(Setting {
            hold_back,
            ..self.setting
        })
    }

    /// Nodes and agents like this.
    #[must_use]
    pub fn of(setting: Setting) -> Self {
        let Setting { seed, nodes, .. } = setting;
        let way_ns = saturated_nanos(setting.way);
        let rate = |random: &mut Random| match setting.has_rates {
            true => drift_ppm(random),
            false => 0,
        };
        let layout = Layout {
            seed,
            nodes,
            directives: &[
                ("appendfsync", setting.fsync),
                ("restart-delay-max", setting.restart_delay_max),
            ],
            sizes: LogOptions {
                first_segment_bytes: 256 << 10,
                segment_bytes: 256 << 10,
                ..LogOptions::default()
            },
            client_rates_ppm: &|random| (rate(random), 0),
            node_rate_ppm: &rate,
            listed: &|_| nodes,
            configure: &|builder| builder,
            ways_ns: vec![vec![way_ns; nodes]; setting.agents],
            is_in_step: false,
            jitter: Random::of(&[seed, 1]),
            tick_ns: 10_000_000,
            is_silent_without_power: false,
            traces: setting.traces,
        };
        let agents = (0..setting.agents).map(|number| Running::new(&setting, seed, number, number));
        Self {
            cluster: layout.build(),
            delivered: VecDeque::new(),
            asked: Vec::new(),
            agents: agents.collect(),
            setting,
            replies: BTreeMap::new(),
            requests: 0,
            arriving: BTreeMap::new(),
            open: BTreeMap::new(),
            leaving: BTreeMap::new(),
            lateness: Random::of(&[seed, 10]),
            planned: VecDeque::new(),
            lives: 0,
        }
    }

    /// An agent is killed and started again: what it knew is gone.
    pub fn restart(&mut self, agent: usize) {
        self.kill(agent);
        self.start(agent);
    }

    /// The process of an agent is killed: its requests and those on their way have no reply, and its connections to nodes end.
    pub fn kill(&mut self, number: usize) {
        let running = &mut self.agents[number];
        if !std::mem::take(&mut running.is_alive) {
            return;
        }
        self.lives += 1;
        let (seed, nodes) = (self.setting.seed, self.setting.nodes);
        let rules = client_rules(seed, nodes, CLIENTS_FIRST + self.lives, &|builder| builder);
        let jitter = Random::of(&[seed, 1, self.lives as u64]);
        let client = self.cluster.replace_client(running.client, rules, jitter);
        let seed = seed + self.lives as u64;
        *running = Running::new(&self.setting, seed, number, client);
        running.is_alive = false;
        self.leaving.retain(|_, (agent, ..)| *agent != number);
        let of_it = self.open.extract_if(.., |_, agent| *agent == number);
        let on_their_way = (self.arriving).extract_if(.., |_, (agent, ..)| *agent == number);
        let lost = of_it
            .map(|(id, _)| id)
            .chain(on_their_way.map(|(id, _)| id));
        self.replies
            .extend(lost.map(|id| (id, Answer::Disconnected)));
    }

    /// A process of an agent is started if none runs.
    pub fn start(&mut self, agent: usize) {
        self.agents[agent].is_alive = true;
    }

    /// The process of an agent is stopped until then, and its clocks go on. What it has sent is on its way.
    pub fn stop(&mut self, agent: usize, until_ns: u64) {
        let running = &mut self.agents[agent];
        running.stopped_ns = running.stopped_ns.max(until_ns);
        self.cluster.stop_client(running.client, running.stopped_ns);
    }

    /// Whether an agent's process runs and is not stopped.
    #[must_use]
    pub fn is_well(&self, agent: usize) -> bool {
        let running = &self.agents[agent];
        running.is_alive && running.stopped_ns <= self.cluster.now_ns
    }

    /// The number of an agent's client in the cluster.
    #[must_use]
    pub fn client_of(&self, agent: usize) -> usize {
        self.agents[agent].client
    }

    /// Sends a request that reaches its agent at that time; its answer is [taken](Self::take_answer).
    pub fn send_at(&mut self, at_ns: u64, agent: usize, client: u64, words: &[&[u8]]) -> RequestId {
        let commands = Commands {
            all: vec![
                words
                    .iter()
                    .map(|one| Bytes::copy_from_slice(one))
                    .collect(),
            ],
            is_transaction: false,
            ..Commands::default()
        };
        self.requests += 1;
        let id = RequestId(self.requests);
        self.arriving.insert(id, (agent, client, commands));
        self.cluster.at(at_ns, Step::Arrival(id));
        id
    }

    /// A step of the driver's that is due.
    pub fn take_planned(&mut self) -> Option<u64> {
        self.planned.pop_front()
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
            ..Commands::default()
        };
        self.requests += 1;
        let id = RequestId(self.requests);
        self.open.insert(id, agent);
        self.tell(agent, Event::Request(id, Caller::default(), commands));
        id
    }

    /// The same for a client with this number, which may [go](Self::leave).
    pub fn begin_for(&mut self, client: u64, agent: usize, words: &[&str]) -> RequestId {
        let bytes = |word: &&str| Bytes::copy_from_slice(word.as_bytes());
        let commands = Commands {
            all: vec![words.iter().map(bytes).collect()],
            is_transaction: false,
            ..Commands::default()
        };
        self.requests += 1;
        let id = RequestId(self.requests);
        self.open.insert(id, agent);
        let caller = Caller {
            client_id: client,
            ..Caller::default()
        };
        self.tell(agent, Event::Request(id, caller, commands));
        id
    }

    /// A client with this number wants to listen. The [reply](Self::reply) is an OK, or an error.
    pub fn listen(&mut self, client: u64, agent: usize, topics: Vec<Topic>) -> RequestId {
        self.requests += 1;
        let id = RequestId(self.requests);
        if self.agents[agent].is_alive {
            self.open.insert(id, agent);
            self.tell(agent, Event::Listen(id, client, topics));
        } else {
            self.replies.insert(id, Answer::Disconnected);
        }
        id
    }

    /// A client does not listen to these any more.
    pub fn unlisten(&mut self, client: u64, agent: usize, topics: Vec<Topic>) {
        if self.agents[agent].is_alive {
            self.tell(agent, Event::Unlisten(client, topics));
        }
    }

    /// A client of an agent goes away, if that runs.
    pub fn leave(&mut self, client: u64, agent: usize) {
        if self.agents[agent].is_alive {
            self.tell(agent, Event::Left(client));
        }
    }

    /// Time passes.
    pub fn pass(&mut self, time: Duration) {
        let time_ns = saturated_nanos(time);
        let until_ns = self.cluster.now_ns + time_ns;
        self.cluster.at(until_ns, Step::Mark);
        while self.cluster.now_ns < until_ns && self.advance() {}
    }

    /// The next moment happens. Returns whether there was one.
    pub fn advance(&mut self) -> bool {
        if !self.cluster.advance() {
            return false;
        }
        while let Some(event) = self.cluster.take_event() {
            match event {
                ClusterEvent::Step(step) => self.step(step),
                ClusterEvent::Outcome(client, operation, outcome) => {
                    let of_client = |running: &Running| running.client == client;
                    if let Some(agent) = self.agents.iter().position(of_client) {
                        self.told(agent, operation, outcome);
                    }
                }
                ClusterEvent::Watched(client, operation, holder) => {
                    let of_client = |running: &Running| running.client == client;
                    if let Some(agent) = self.agents.iter().position(of_client) {
                        self.watched(agent, operation, holder);
                    }
                }
                ClusterEvent::Heard(client, _, heard) => {
                    let of_client = |running: &Running| running.client == client;
                    if let Some(agent) = self.agents.iter().position(of_client) {
                        self.tell(agent, Event::Heard(heard));
                    }
                }
                _ => {}
            }
        }
        true
    }

    fn step(&mut self, step: Step) {
        let agent = match step {
            Step::Mark => return,
            Step::Planned(number) => return self.planned.push_back(number),
            Step::Timer(agent, number) if self.agents[agent].timer == number => agent,
            Step::Timer(..) => return,
            Step::Arrival(id) => match self.arriving.get(&id) {
                Some((agent, ..)) => *agent,
                None => return,
            },
            Step::Leaving(id) => match self.leaving.get(&id) {
                Some((agent, ..)) => *agent,
                None => return,
            },
        };
        let stopped_ns = self.agents[agent].stopped_ns;
        if stopped_ns > self.cluster.now_ns {
            return self.cluster.put_off(stopped_ns, step);
        }
        match step {
            Step::Arrival(id) => self.arrive(id),
            Step::Leaving(id) => self.leave_late(id),
            _ => self.tell(agent, Event::Timer),
        }
    }

    fn arrive(&mut self, id: RequestId) {
        let Some((agent, client_id, commands)) = self.arriving.remove(&id) else {
            return;
        };
        if self.agents[agent].is_alive {
            self.open.insert(id, agent);
            let caller = Caller {
                client_id,
                ..Caller::default()
            };
            self.tell(agent, Event::Request(id, caller, commands));
        } else {
            self.replies.insert(id, Answer::Disconnected);
        }
    }

    fn told(&mut self, agent: usize, operation: OperationId, outcome: Outcome) {
        if let Some(id) = self.agents[agent].calls.remove(&operation) {
            self.tell(agent, Event::Outcome(id, outcome));
        }
    }

    fn watched(&mut self, agent: usize, operation: OperationId, holder: Option<Token>) {
        let mut watches = self.agents[agent].watches.iter();
        if let Some((name, _)) = watches.find(|(_, watch)| **watch == operation) {
            let name = name.clone();
            self.tell(agent, Event::Watched(name, holder));
        }
    }

    /// Something happens to an agent, and it acts.
    fn tell(&mut self, number: usize, event: Event) {
        let client = self.agents[number].client;
        let now = self.cluster.machines[client].now(self.cluster.now_ns);
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
            let at_ns = self.cluster.true_time(client, at);
            self.cluster.at(at_ns.max(self.cluster.now_ns + 1), timer);
        }
    }

    fn carry_out(&mut self, number: usize, action: Action) {
        let client = self.agents[number].client;
        match action {
            Action::Ask(id, call) => {
                self.asked.push(match &call {
                    Call::Read { .. } => "read",
                    Call::Look { .. } => "look",
                    Call::Acquire(_) => "acquire",
                    Call::Extend { .. } => "extend",
                    Call::SetEnd { .. } => "set end",
                    Call::Release { .. } => "release",
                    Call::Publish { .. } => "publish",
                    Call::List { .. } => "list",
                    _ => "something else",
                });
                let operation = self.cluster.next_operation(client);
                let running = &mut self.agents[number];
                running.calls.insert(operation, id);
                running.last.insert(id, operation);
                self.cluster.call(client, call);
            }
            Action::HandOver(id) => {
                if let Some(held) = self.agents[number].last.remove(&id) {
                    self.cluster.call(client, Call::Detach { held });
                }
            }
            Action::Cancel(id) => {
                if let Some(operation) = self.agents[number].last.remove(&id) {
                    self.cluster.drop_operation(client, operation);
                }
                self.open.remove(&id);
                self.replies.insert(id, Answer::Disconnected);
            }
            Action::Undo(call) => {
                self.cluster.call(client, call);
            }
            Action::ListenTo(add, remove) => {
                self.asked.push("listen");
                if self.agents[number].hearing.is_none() {
                    let hearing = self.cluster.call(client, Call::Listen);
                    self.agents[number].hearing = Some(hearing);
                }
                self.cluster.call(client, Call::ListenTo { add, remove });
            }
            Action::Deliver(channel, payload) => {
                self.delivered.push_back((number, channel, payload));
            }
            Action::Watch(name) => {
                self.asked.push("watch");
                let watch = self
                    .cluster
                    .call(client, Call::Watch { name: name.clone() });
                self.agents[number].watches.insert(name, watch);
            }
            Action::Unwatch(name) => {
                if let Some(watch) = self.agents[number].watches.remove(&name) {
                    self.cluster.drop_operation(client, watch);
                }
            }
            Action::Reply(id, reply) => {
                self.agents[number].last.remove(&id);
                self.answer(id, reply);
            }
            Action::ReplyBefore(id, reply, expiring) => {
                self.agents[number].last.remove(&id);
                self.answer_before(number, id, reply, expiring);
            }
        }
    }
}

/// The number of the first client that comes later, where its random numbers come from.
const CLIENTS_FIRST: usize = 100;
