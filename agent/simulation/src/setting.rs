//! What simulated agents, their nodes and their machines are like.

use std::time::Duration;

/// What an agent's nodes and machine are like, beside those that tests use.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Where all random numbers come from.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many agents.
    pub agents: usize,
    /// The way from an agent to a node.
    pub way: Duration,
    /// `appendfsync` of all nodes.
    pub fsync: &'static str,
    /// How long a node waits at most that does not know what it has forgotten.
    pub restart_delay_max: &'static str,
    /// How long agents hold a try back.
    pub hold_back: Duration,
    /// How late a reply may leave, now and then: a worker has other work, or the scheduler has none for it.
    pub late_replies: Duration,
    /// Whether each clock has a rate of its own.
    pub has_rates: bool,
    /// Whether what happens is written down.
    pub traces: bool,
}
