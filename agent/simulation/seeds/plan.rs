//! What a seed stands for.

use quorlock_simulation::Random;

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Where every choice comes from.
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) agents: usize,
    pub(crate) callers: usize,
    /// How many locks they want.
    pub(crate) names: usize,
    /// What callers ask for, in whole seconds: some libraries count in them.
    pub(crate) ttl_ms: u64,
    /// The way from an agent to a node.
    pub(crate) way_us: u64,
    /// `appendfsync` of all nodes.
    pub(crate) fsync: &'static str,
    /// What goes wrong.
    pub(crate) faults: &'static [Fault],
    /// How long agents hold a try back, in milliseconds.
    pub(crate) hold_back_ms: u64,
    /// How many callers listen to channels, and how many publish.
    pub(crate) listeners: usize,
    pub(crate) publishers: usize,
    /// How long things go wrong, in seconds.
    pub(crate) length_s: u64,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// An agent is killed, and started again later.
    AgentKilled,
    /// An agent's process is stopped for a while.
    AgentStopped,
    /// A node's process is killed and started again.
    NodeKilled,
    /// A node's machine loses power.
    NodeWithoutPower,
    /// A node's process is stopped for a while.
    NodeStopped,
    /// All connections of a node end.
    Closed,
    /// Nothing reaches a node.
    ToNode,
    /// Nothing that a node says arrives.
    FromNode,
    /// All that is said to and by a node takes longer.
    Slow,
    /// An agent is cut off from all nodes, in one direction or both.
    CutOff,
    /// All that is said to an agent is late.
    Late,
}

impl Plan {
    /// The run of a seed.
    pub(crate) fn of(seed: u64) -> Plan {
        let mut random = Random::of(&[seed, 1]);
        let ttl_ms = random.pick(&[1_000, 2_000, 5_000]);
        let mut of_messages = Random::of(&[seed, 3]);
        let listeners = of_messages.pick(&[0, 0, 3, 6]);
        Plan {
            listeners,
            publishers: match listeners {
                0 => 0,
                _ => of_messages.pick(&[1, 2, 4]),
            },
            seed,
            nodes: random.pick(&[3, 5, 5, 5]),
            agents: random.pick(&[2, 3]),
            callers: random.pick(&[3, 4, 5, 6, 8]),
            names: random.pick(&[1, 1, 2, 3]),
            ttl_ms,
            way_us: random.pick(&[50, 500, 2_000, 10_000]),
            fsync: random.pick(&["always", "always", "everysec", "no"]),
            faults: random.pick(&[NONE, AGENTS, AGENTS, NODES, NETWORK, AWAY, ALL, ALL]),
            hold_back_ms: random.pick(&[0, 0, 20, 100]),
            length_s: 6 + 2 * ttl_ms / 1_000,
        }
    }

    /// How late agents may send a reply, in milliseconds: a little longer than its lock lasts.
    pub(crate) fn late_replies_ms(&self) -> u64 {
        match self.faults.contains(&Fault::AgentStopped) {
            true => self.ttl_ms * 5 / 4,
            false => 0,
        }
    }

    /// Whether what nodes have said may be forgotten by them.
    pub(crate) fn loses_power(&self) -> bool {
        self.faults.contains(&Fault::NodeWithoutPower)
    }
}

const NONE: &[Fault] = &[];
const AGENTS: &[Fault] = &[Fault::AgentKilled, Fault::AgentStopped];
const NODES: &[Fault] = &[
    Fault::NodeKilled,
    Fault::NodeKilled,
    Fault::NodeWithoutPower,
    Fault::NodeStopped,
];
const NETWORK: &[Fault] = &[Fault::Closed, Fault::ToNode, Fault::FromNode, Fault::Slow];
const AWAY: &[Fault] = &[Fault::CutOff, Fault::Late, Fault::AgentStopped];
const ALL: &[Fault] = &[
    Fault::AgentKilled,
    Fault::AgentStopped,
    Fault::NodeKilled,
    Fault::NodeWithoutPower,
    Fault::NodeStopped,
    Fault::Closed,
    Fault::ToNode,
    Fault::FromNode,
    Fault::Slow,
    Fault::CutOff,
    Fault::Late,
];
