//! The process of one agent.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use quorlock_agent_rules::{Agent, RequestId};
use quorlock_client_rules::OperationId;
use quorlock_client_rules::settings::Drift;
use quorlock_simulation::Random;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::setting::Setting;

/// An agent that runs.
pub(crate) struct Running {
    pub(crate) agent: Agent,
    /// Its client, by its number in the cluster.
    pub(crate) client: usize,
    /// Whether its process runs, and until when it is stopped.
    pub(crate) is_alive: bool,
    pub(crate) stopped_ns: u64,
    /// The timer that was set last.
    pub(crate) timer: u64,
    /// The request for which each call was made.
    pub(crate) calls: HashMap<OperationId, RequestId>,
    /// The last call of each request.
    pub(crate) last: HashMap<RequestId, OperationId>,
    pub(crate) watches: HashMap<Bytes, OperationId>,
    /// What listens on the nodes.
    pub(crate) hearing: Option<OperationId>,
}

impl Running {
    pub(crate) fn new(setting: &Setting, seed: u64, number: usize, client: usize) -> Self {
        let Setting {
            nodes, hold_back, ..
        } = *setting;
        let seed = Random::of(&[seed, 9, number as u64]).number();
        let random = Box::new(StdRng::seed_from_u64(seed));
        let labels = (0..nodes).map(|node| Arc::from(format!("node {node}")));
        Self {
            agent: Agent::new(Drift::default(), random)
                .holding_back(hold_back)
                .of_nodes(labels.collect(), nodes / 2 + 1),
            client,
            is_alive: true,
            stopped_ns: 0,
            timer: 0,
            calls: HashMap::new(),
            last: HashMap::new(),
            watches: HashMap::new(),
            hearing: None,
        }
    }
}
