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
    /// So many of the first have been read and could not be executed in the last turn.
    postponed: usize,
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
            postponed: 0,
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
        let mut places = std::mem::replace(&mut self.places, std::mem::take(&mut self.spare));
        let received = self.receive(&places, shared, connections);
        let executed = self.execute(&places[..received], shared, connections);
        self.postponed = received - executed;
        for &place in &places[executed..received] {
            connections[place].is_queued = true;
        }
        // Those that have been read come first, so that their memory is needed no longer than it must.
        self.places.extend(places.drain(executed..));
        places
    }

    /// Those that this turn, just run, has read but could not execute.
    pub(crate) fn postponed(&self) -> &[usize] {
        &self.places[..self.postponed]
    }

    /// Takes a connection that is closed out of the next turn.
    pub(crate) fn forget(&mut self, place: usize) {
        self.places.retain(|queued| *queued != place);
    }

    /// Takes the list back, for the turn after the next.
    pub(crate) fn give_back(&mut self, mut places: Vec<usize>) {
        places.clear();
        self.spare = places;
    }

    /// Reads; returns how many of the connections took part. What many of them send at once is taken
    /// in over several turns, so that memory can be counted between them. What they hold that an
    /// earlier turn has read counts like what this one reads.
    fn receive(
        &mut self,
        places: &[usize],
        shared: &Shared,
        connections: &mut Slab<Connection>,
    ) -> usize {
        let (mut bytes, mut waiting_bytes, mut count) = (0, 0, 0);
        for &place in places {
            if bytes + waiting_bytes >= READ_BYTES_PER_TURN {
                break;
            }
            count += 1;
            let connection = &mut connections[place];
            connection.is_queued = false;
            if connection.has_received() {
                waiting_bytes += connection.held().input_bytes as u64;
                continue;
            }
            match connection.receive(&mut self.buffer) {
                Received::Bytes(more) => bytes += more as u64,
                // Everything it asked for before has been answered.
                Received::End => connection.then = Next::Close,
            }
        }
        let counter = &shared.statistics.bytes_in;
        counter.fetch_add(bytes, Ordering::Relaxed);
        count
    }

    /// Executes, group by group, so that many deep pipelines at once cost bounded memory; returns for
    /// how many of the connections. The rest has to wait until the replies of these have left or were
    /// counted.
    fn execute(
        &mut self,
        mut places: &[usize],
        shared: &Arc<Shared>,
        connections: &mut Slab<Connection>,
    ) -> usize {
        let mut batch = Batch::new(shared);
        let (mut reply_bytes, mut count) = (0, 0);
        while !places.is_empty() && reply_bytes < REPLY_BYTES_PER_TURN {
            self.collect(places, connections);
            let (group, rest) = places.split_at(self.counts.len());
            self.prefetch(group, connections, &mut batch);
            let mut requests = self.requests.drain(..);
            for (&place, of_this) in group.iter().zip(self.counts.drain(..)) {
                let connection = &mut connections[place];
                let requests = requests.by_ref().take(of_this);
                if reply_bytes >= REPLY_BYTES_PER_TURN {
                    connection.postpone(requests);
                    continue;
                }
                count += 1;
                connection.execute(requests, &mut batch);
                reply_bytes += connection.output_bytes();
                if connection.takes_heard() {
                    connection.session.client.touch(batch.raw_ns());
                }
                if connection.is_partial() {
                    connection.note_partial(batch.raw_ns());
                }
                batch.yield_engine();
            }
            places = rest;
        }
        count
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

    /// Prefetches the keys of several connections at once.
    fn prefetch(&self, group: &[usize], connections: &Slab<Connection>, batch: &mut Batch<'_>) {
        if group.len() < 2 {
            return;
        }
        let mut requests = self.requests.iter();
        for (&place, &count) in group.iter().zip(&self.counts) {
            for request in requests.by_ref().take(count) {
                connections[place].note_key(request, batch);
            }
        }
        batch.prefetch();
    }
}

/// A connection adds at most one turn's requests to this.
const REQUESTS_PER_GROUP: usize = 1024;
/// One read takes at most this much.
const READ_BYTES: usize = 64 * 1024;
/// A turn takes in no more than this and one read.
const READ_BYTES_PER_TURN: u64 = 8 * 1024 * 1024;
/// A turn makes no more replies than this and those of one connection.
const REPLY_BYTES_PER_TURN: usize = 16 * 1024 * 1024;
