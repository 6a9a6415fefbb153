//! What closed connections have said about themselves, for the locks that outlive them.
//!
//! Bounded: the connection that was closed first is forgotten first. Only those that may hold a lock are kept, so that a
//! stream of others does not push them out.

use std::collections::{BTreeMap, VecDeque};

use quorlock_engine::ClientDescription;

/// Descriptions of closed connections, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    by_id: BTreeMap<u64, ClientDescription>,
    /// The same, the first one first closed.
    order: VecDeque<u64>,
    text_bytes: usize,
}

impl Departed {
    pub(crate) fn add(&mut self, id: u64, description: ClientDescription) {
        self.text_bytes += text_bytes(&description);
        if let Some(before) = self.by_id.insert(id, description) {
            self.text_bytes -= text_bytes(&before);
        } else {
            self.order.push_back(id);
        }
        while self.order.len() > COUNT_MAX || self.text_bytes > TEXT_BYTES_MAX {
            let Some(first) = self.order.pop_front() else {
                return;
            };
            let removed = self.by_id.remove(&first);
            self.text_bytes -= removed.as_ref().map_or(0, text_bytes);
        }
    }

    pub(crate) fn of(&self, id: u64) -> Option<ClientDescription> {
        self.by_id.get(&id).cloned()
    }
}

fn text_bytes(description: &ClientDescription) -> usize {
    let ClientDescription {
        name,
        address,
        library_name,
        library_version,
        is_connected: _,
    } = description;
    name.len() + address.len() + library_name.len() + library_version.len()
}

const COUNT_MAX: usize = 8192;
const TEXT_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: String) -> ClientDescription {
        ClientDescription {
            name,
            ..ClientDescription::default()
        }
    }

    #[test]
    fn the_connections_that_were_closed_last_are_remembered_within_bounds() {
        let mut departed = Departed::default();
        for id in 0..10_000 {
            departed.add(id, named(format!("{id}")));
        }
        let first = 10_000 - COUNT_MAX as u64;
        assert_eq!(departed.of(first - 1), None);
        assert_eq!(departed.of(first), Some(named(format!("{first}"))));
        for id in 20_000..22_000 {
            departed.add(id, named("x".repeat(1000)));
        }
        assert!(departed.text_bytes <= TEXT_BYTES_MAX);
        assert_eq!(departed.by_id.len(), departed.order.len());
        assert_eq!(departed.by_id.len(), TEXT_BYTES_MAX / 1000);
        departed.add(21_999, named("again".to_owned()));
        assert_eq!(departed.of(21_999), Some(named("again".to_owned())));
        assert_eq!(departed.by_id.len(), departed.order.len());
    }
}
