//! A writer beside readers of other clients that come and go without end, and a node that is the last to know each time.
//!
//! The nodes here have readers, one writer in line, and turns, as Quorlock nodes do. Readers ask again a moment after each
//! release, so some hold the lock at all times where the writer keeps none out.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::cluster_for_tests::Cluster;
use crate::call::{Call, Outcome};
use crate::clock::ClientInstant;
use crate::wait::Wait;

const MS: Duration = Duration::from_millis(1);
const READERS: &str = "WRONGTYPE readers hold this lock: it is held shared";

/// What a node keeps about the lock beside its key.
#[derive(Clone, Debug, Default)]
struct Shared {
    readers: BTreeSet<usize>,
    /// The token of the writer that stands in line, and until when it has its turn.
    writer: Option<String>,
    turn_until: Option<ClientInstant>,
    /// Until when a writer that was refused keeps readers out.
    intent_until: Option<ClientInstant>,
    /// How many requests of the writer have had their effect.
    seen: [usize; 3],
}

#[derive(Clone, Copy, Debug)]
enum Reader {
    Asks(ClientInstant),
    Holds(ClientInstant),
}

struct Churn {
    cluster: Cluster,
    nodes: Vec<Shared>,
    readers: Vec<Reader>,
    /// Releases on their way: when each arrives, at which node and of which reader.
    releases: Vec<(ClientInstant, usize, usize)>,
    /// Turns that the node of the line has announced, which is far away.
    announced: VecDeque<(ClientInstant, String)>,
    /// How far apart a release arrives at the nodes.
    spread_ms: u32,
    random: StdRng,
}

impl Churn {
    fn new(nodes: usize, readers: usize, spread_ms: u32, seed: u64) -> Self {
        let mut cluster = Cluster::new(nodes);
        for node in &mut cluster.nodes {
            node.in_line = Some(1);
            node.has_no_line_for_free = true;
            node.left_ms = 4_000;
        }
        let mut random = StdRng::seed_from_u64(seed);
        let mut begins = || cluster.now.after(random.next_u32() % 600 * MS);
        Self {
            readers: (0..readers).map(|_| Reader::Asks(begins())).collect(),
            cluster,
            nodes: vec![Shared::default(); nodes],
            releases: Vec::new(),
            announced: VecDeque::new(),
            spread_ms,
            random,
        }
    }

    /// For how long a writer waits that comes now.
    fn writer_waits(&mut self) -> Duration {
        let call = Call::Acquire(Cluster::acquisition(Wait::Forever));
        let (call, since) = (self.cluster.call(call), self.cluster.now);
        loop {
            let waited = self.cluster.now.since(since);
            match self.cluster.outcome(call) {
                Some(Outcome::Acquired { .. }) => return waited,
                Some(other) => panic!("{other:?}"),
                None if waited > Duration::from_secs(60) => return waited,
                None => self.pass(),
            }
        }
    }

    fn pass(&mut self) {
        self.cluster.pass(MS);
        self.absorb();
        self.move_readers();
        let freed = self.show_readers();
        for node in freed {
            let Some(token) = self.nodes[node].writer.clone() else {
                continue;
            };
            let turn_ms = self.cluster.nodes[node].turn_ms.unwrap_or(50);
            let until = self.cluster.now.after(Duration::from_millis(turn_ms));
            self.nodes[node].turn_until = Some(until);
            let slow = self.cluster.nodes[node].slow;
            if !slow.is_zero() {
                self.announced
                    .push_back((self.cluster.now.after(slow), token));
                continue;
            }
            self.cluster.push(node, "a", &token);
            self.absorb();
        }
        let now = self.cluster.now;
        while let Some((at, token)) = self.announced.front().cloned()
            && now.has_reached(at)
        {
            self.announced.pop_front();
            self.cluster.push(0, "a", &token);
            self.absorb();
        }
        for node in &mut self.nodes {
            if node
                .turn_until
                .is_some_and(|until| self.cluster.now.has_reached(until))
            {
                (node.writer, node.turn_until) = (None, None);
            }
        }
    }

    /// What the writer has asked since the last time.
    fn absorb(&mut self) {
        for (node, shared) in self.cluster.nodes.iter().zip(&mut self.nodes) {
            let has_readers = !shared.readers.is_empty();
            let [tried, unwaits, waits] = &mut shared.seen;
            for token in &node.tried[*tried..] {
                match has_readers {
                    true => shared.intent_until = Some(self.cluster.now.after(500 * MS)),
                    false if shared.writer.as_ref() == Some(token) => {
                        (shared.writer, shared.turn_until) = (None, None);
                    }
                    false => {}
                }
            }
            if node.unwaits.len() > *unwaits {
                (shared.writer, shared.turn_until) = (None, None);
            }
            let joins = has_readers || shared.writer.is_some();
            if node.waits.len() > *waits && joins {
                shared.writer = node.waits.last().cloned();
            }
            (*tried, *unwaits, *waits) = (node.tried.len(), node.unwaits.len(), node.waits.len());
        }
    }

    fn move_readers(&mut self) {
        let now = self.cluster.now;
        let mut later = Vec::new();
        for (at, node, reader) in std::mem::take(&mut self.releases) {
            match now.has_reached(at) {
                true => drop(self.nodes[node].readers.remove(&reader)),
                false => later.push((at, node, reader)),
            }
        }
        self.releases = later;
        for reader in 0..self.readers.len() {
            match self.readers[reader] {
                Reader::Asks(at) if now.has_reached(at) => self.ask(reader),
                Reader::Holds(until) if now.has_reached(until) => self.release(reader, 20),
                _ => {}
            }
        }
    }

    fn ask(&mut self, reader: usize) {
        let now = self.cluster.now;
        let mut votes = 0;
        for (node, shared) in self.cluster.nodes.iter().zip(&mut self.nodes) {
            let is_kept_out = shared
                .intent_until
                .is_some_and(|until| !now.has_reached(until));
            let is_written = node.keys.get("a").is_some_and(|key| key != READERS);
            if !is_kept_out && !is_written && shared.writer.is_none() {
                shared.readers.insert(reader);
                votes += 1;
            }
        }
        match votes > self.nodes.len() / 2 {
            true => self.readers[reader] = Reader::Holds(now.after(600 * MS)),
            false => self.release(reader, 150),
        }
    }

    fn release(&mut self, reader: usize, pause_ms: u32) {
        let now = self.cluster.now;
        for node in 0..self.nodes.len() {
            // The first node is the last one to know.
            let late_ms = if node == 0 { 300 } else { 0 };
            let late = (late_ms + self.random.next_u32() % self.spread_ms) * MS;
            self.releases.push((now.after(late), node, reader));
        }
        let pause = (1 + self.random.next_u32() % pause_ms) * MS;
        self.readers[reader] = Reader::Asks(now.after(pause));
    }

    /// Has the keys say whether there are readers. Gives the nodes that are free since.
    fn show_readers(&mut self) -> Vec<usize> {
        let mut freed = Vec::new();
        let nodes = self.cluster.nodes.iter_mut().zip(&self.nodes);
        for (index, (node, shared)) in nodes.enumerate() {
            let is_shown = node.keys.get("a").is_some_and(|key| key == READERS);
            if shared.readers.is_empty() && is_shown {
                node.keys.clear();
                freed.push(index);
            } else if !shared.readers.is_empty() {
                node.keys.insert("a".to_owned(), READERS.to_owned());
            }
        }
        freed
    }
}

#[test]
fn a_writer_has_the_lock_soon_though_the_node_of_its_line_is_the_last_to_know_of_each_release() {
    for (nodes, readers, spread_ms, slow_ms) in [
        (3, 12, 1, 0),
        (3, 12, 80, 0),
        (5, 12, 1, 0),
        (5, 40, 80, 0),
        (3, 12, 1, 300),
        (3, 12, 80, 300),
        (5, 12, 1, 300),
        (5, 40, 80, 300),
    ] {
        let mut longest = Duration::ZERO;
        for seed in 0..10 {
            let mut churn = Churn::new(nodes, readers, spread_ms, seed);
            if slow_ms > 0 {
                churn.cluster.round_trip = 2 * MS;
                churn.cluster.nodes[0].slow = slow_ms * MS;
            }
            for _ in 0..1_000 {
                churn.pass();
            }
            longest = longest.max(churn.writer_waits());
        }
        // Readers were in the way, and the writer has waited for a few of their holds.
        let bounds = 300 * MS..3_500 * MS;
        assert!(bounds.contains(&longest), "{nodes} {readers} {longest:?}");
    }
}
