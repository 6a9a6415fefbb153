//! The nodes behind the agents, as a driver uses them.

use std::collections::BTreeMap;

use quorlock_engine::StoredValue;

use crate::Agents;

impl Agents {
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
}
