//! One turn of a worker: what has arrived on all connections that are ready, executed together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slab::Slab;

use crate::net::connection::{Connection, Received};
use crate::node::shared::Shared;
use crate::protocol::Request;
use crate::session::{Batch, Next};

/// The connections of the next turn, and the room that turns share.
pub(crate) struct Turn {
    places: Vec<usize>,
    spare: Vec<usize>,
    buffer: Vec<u8>,
    requests: Vec<Request>,
    /// How many of the requests are each connection's.
    counts: Vec<usize>,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            spare: Vec::new(),
            buffer: vec![0; READ_BYTES],
            requests: Vec::new(),
            counts: Vec::new(),
        }
    }
}

impl Turn {
    /// Lets a connection take part in the next turn.
    pub(crate) fn queue(&mut self, place: usize, connection: &mut Connection) {
        if !std::mem::replace(&mut connection.is_queued, true) {
            self.places.push(place);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Takes in what a client sends that waits.
    pub(crate) fn receive_waiting(
        &mut self,
        shared: &Shared,
        connection: &mut Connection,
    ) -> Received {
        let received = connection.receive_waiting(&mut self.buffer);
        if let Received::Bytes(count) = received {
            let counter = &shared.statistics.bytes_in;
            counter.fetch_add(count as u64, Ordering::Relaxed);
        }
        received
    }

    /// Runs the turn; returns whose it was. Replies stay with the connections.
    pub(crate) fn run(
        &mut self,
        shared: &Arc<Shared>,
        connections: &mut Slab<Connection>,
    ) -> Vec<usize> {
        let places = std::mem::replace(&mut self.places, std::mem::take(&mut self.spare));
        self.receive(&places, shared, connections);
        self.execute(&places, shared, connections);
        places
    }

    /// Takes the list back, for the turn after the next.
    pub(crate) fn give_back(&mut self, mut places: Vec<usize>) {
        places.clear();
        self.spare = places;
    }

    fn receive(&mut self, places: &[usize], shared: &Shared, connections: &mut Slab<Connection>) {
        let mut bytes = 0;
        for &place in places {
            let connection = &mut connections[place];
            connection.is_queued = false;
            match connection.receive(&mut self.buffer) {
                Received::Bytes(count) => bytes += count as u64,
                // Everything it asked for before has been answered.
                Received::End => connection.then = Next::Close,
            }
        }
        let counter = &shared.statistics.bytes_in;
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Group by group, so that many deep pipelines at once cost bounded memory.
    fn execute(
        &mut self,
        mut places: &[usize],
        shared: &Arc<Shared>,
        connections: &mut Slab<Connection>,
    ) {
        let mut batch = Batch::new(shared);
        while !places.is_empty() {
            self.collect(places, connections);
            let (group, rest) = places.split_at(self.counts.len());
            self.warm(group, connections, &mut batch);
            let mut requests = self.requests.drain(..);
            for (&place, count) in group.iter().zip(self.counts.drain(..)) {
                let connection = &mut connections[place];
                connection.execute(requests.by_ref().take(count), &mut batch);
                if connection.takes_heard() {
                    connection.session.client.touch(batch.raw_ns());
                }
                batch.breathe();
            }
            places = rest;
        }
    }

    /// Finds the requests of the first connections, of one at least.
    fn collect(&mut self, places: &[usize], connections: &mut Slab<Connection>) {
        for &place in places {
            if self.requests.len() >= REQUESTS_PER_GROUP {
                return;
            }
            let before = self.requests.len();
            connections[place].collect(&mut self.requests);
            self.counts.push(self.requests.len() - before);
        }
    }

    /// Lets memory answer for the keys of several connections at once.
    fn warm(&self, group: &[usize], connections: &Slab<Connection>, batch: &mut Batch<'_>) {
        if group.len() < 2 {
            return;
        }
        let mut requests = self.requests.iter();
        for (&place, &count) in group.iter().zip(&self.counts) {
            for request in requests.by_ref().take(count) {
                connections[place].hint(request, batch);
            }
        }
        batch.warm();
    }
}

/// A connection adds at most one turn's requests to this.
const REQUESTS_PER_GROUP: usize = 1024;
/// One read takes at most this much.
const READ_BYTES: usize = 64 * 1024;
