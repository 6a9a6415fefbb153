//! One iteration of a worker: what has arrived on all connections that are ready, executed together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quorlock_engine::RawTime;
use slab::Slab;

use crate::core::state::NodeState;
use crate::event_loop::connection::{Connection, Received};
use crate::event_loop::posts::Posts;
use crate::event_loop::stream::Stream;
use crate::protocol::Request;
use crate::session::{Batch, Next};

/// The connections of the next iteration, and the room that iterations share.
pub(crate) struct Iteration {
    worker: usize,
    slots: Vec<usize>,
    /// So many of the first have been read and could not be executed in the last iteration.
    postponed: usize,
    spare: Vec<usize>,
    buffer: Vec<u8>,
    requests: Vec<Request>,
    /// Which of the requests are each connection's.
    shares: Vec<ConnectionShare>,
}

impl Iteration {
    /// The first iteration of a worker.
    pub(crate) fn new(worker: usize) -> Self {
        Self {
            worker,
            slots: Vec::new(),
            postponed: 0,
            spare: Vec::new(),
            buffer: vec![0; READ_BYTES],
            requests: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// Lets a connection take part in the next iteration.
    pub(crate) fn queue<S: Stream>(&mut self, slot: usize, connection: &mut Connection<S>) {
        if !std::mem::replace(&mut connection.is_queued, true) {
            self.slots.push(slot);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes in what a client sends that waits.
    pub(crate) fn receive_waiting<S: Stream>(
        &mut self,
        node: &NodeState,
        connection: &mut Connection<S>,
    ) -> Received {
        let received = connection.receive_waiting(&mut self.buffer);
        if let Received::Bytes(count) = received {
            let counter = &node.statistics.bytes_in;
            counter.fetch_add(count as u64, Ordering::Relaxed);
        }
        received
    }

    /// Finds out whether a client that is closed may still send.
    pub(crate) fn close_half<S: Stream>(&mut self, connection: &mut Connection<S>) {
        connection.close_half(&mut self.buffer);
    }

    /// Runs the iteration; returns whose it was. Replies stay with the connections.
    pub(crate) fn run<S: Stream>(
        &mut self,
        node: &Arc<NodeState>,
        connections: &mut Slab<Connection<S>>,
        posts: &mut Posts,
        now_raw: RawTime,
    ) -> Vec<usize> {
        let mut slots = std::mem::replace(&mut self.slots, std::mem::take(&mut self.spare));
        let mut later = Vec::new();
        let received = self.receive(&mut slots, &mut later, node, connections);
        let executed = self.execute(&slots[..received], node, connections, posts, now_raw);
        self.postponed = received - executed;
        for &slot in &slots[executed..received] {
            connections[slot].is_queued = true;
        }
        // Those that have been read come first, so that their memory is needed no longer than it must.
        self.slots.extend(slots.drain(executed..));
        self.slots.append(&mut later);
        slots
    }

    /// Those that this iteration, just run, has read but could not execute.
    pub(crate) fn postponed(&self) -> &[usize] {
        &self.slots[..self.postponed]
    }

    /// Takes a connection that is closed out of the next iteration.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.slots.retain(|queued| *queued != slot);
    }

    /// Takes the list back, for the iteration after the next.
    pub(crate) fn give_back(&mut self, mut slots: Vec<usize>) {
        slots.clear();
        self.spare = slots;
    }

    /// Reads; returns how many of the connections were read, which then come first. What many of them send at once is taken
    /// in over several iterations, so that memory can be counted between them. What they hold that an
    /// earlier iteration has read counts like what this one reads. Handshakes that are left for the next iteration go from
    /// `slots` to `later`.
    fn receive<S: Stream>(
        &mut self,
        slots: &mut Vec<usize>,
        later: &mut Vec<usize>,
        node: &NodeState,
        connections: &mut Slab<Connection<S>>,
    ) -> usize {
        let (mut bytes, mut waiting_bytes, mut handshakes) = (0, 0, 0);
        let (mut at, mut count) = (0, 0);
        while at < slots.len() && bytes + waiting_bytes < READ_BYTES_PER_ITERATION {
            let slot = slots[at];
            let connection = &mut connections[slot];
            at += 1;
            if connection.is_handshaking {
                if handshakes == HANDSHAKES_PER_ITERATION {
                    later.push(slot);
                    continue;
                }
                handshakes += 1;
            }
            slots[count] = slot;
            count += 1;
            connection.is_queued = false;
            if connection.has_received() {
                waiting_bytes += connection.held().input_bytes as u64;
                continue;
            }
            match connection.receive(&mut self.buffer) {
                Received::Bytes(more) => bytes += more as u64,
                // Everything it asked for before has been answered.
                Received::End | Received::Broken => connection.then = Next::Close,
            }
            connection.note_handshake(node);
        }
        slots.drain(count..at);
        let counter = &node.statistics.bytes_in;
        counter.fetch_add(bytes, Ordering::Relaxed);
        count
    }

    /// Executes, group by group, so that many deep pipelines at once cost bounded memory; returns for
    /// how many of the connections. The rest has to wait until the replies of these have left or were
    /// counted.
    fn execute<S: Stream>(
        &mut self,
        mut slots: &[usize],
        node: &Arc<NodeState>,
        connections: &mut Slab<Connection<S>>,
        posts: &mut Posts,
        now_raw: RawTime,
    ) -> usize {
        let mut batch = Batch::of_worker(node, self.worker, now_raw);
        let (mut reply_bytes, mut count) = (0, 0);
        while !slots.is_empty() && reply_bytes < REPLY_BYTES_PER_ITERATION {
            self.collect(slots, node, connections);
            let (group, rest) = slots.split_at(self.shares.len());
            self.prefetch(group, connections, &mut batch);
            let mut requests = &mut self.requests[..];
            for (&slot, share) in group.iter().zip(self.shares.drain(..)) {
                let connection = &mut connections[slot];
                let own;
                (own, requests) = requests.split_at_mut(share.count);
                if reply_bytes >= REPLY_BYTES_PER_ITERATION {
                    connection.postpone(own);
                    continue;
                }
                count += 1;
                connection.execute(own, &mut batch, posts);
                reply_bytes += connection.output_bytes();
                if connection.take_heard() {
                    connection.session.client.touch(batch.raw());
                }
                if connection.is_partial() {
                    connection.note_partial(batch.raw());
                }
                batch.yield_engine();
            }
            self.requests.clear();
            slots = rest;
        }
        count
    }

    /// Finds the requests of the first connections, of one at least.
    fn collect<S: Stream>(
        &mut self,
        slots: &[usize],
        node: &NodeState,
        connections: &mut Slab<Connection<S>>,
    ) {
        for &slot in slots {
            if self.requests.len() >= REQUESTS_PER_GROUP {
                return;
            }
            let before = self.requests.len();
            let connection = &mut connections[slot];
            connection.follow_settings(node);
            let are_new = connection.collect(&mut self.requests);
            let count = self.requests.len() - before;
            self.shares.push(ConnectionShare { count, are_new });
        }
    }

    /// Prefetches the keys of several requests at once. Those that an earlier iteration has left have been: else a deep
    /// pipeline that stops at each request would be prefetched whole each time.
    fn prefetch<S: Stream>(
        &self,
        group: &[usize],
        connections: &Slab<Connection<S>>,
        batch: &mut Batch<'_>,
    ) {
        if self.requests.len() < 2 {
            return;
        }
        let mut requests = self.requests.iter();
        for (&slot, share) in group.iter().zip(&self.shares) {
            let own = requests.by_ref().take(share.count);
            own.filter(|_| share.are_new)
                .for_each(|request| connections[slot].note_key(request, batch));
        }
        batch.prefetch();
    }
}

/// The part of one connection in the requests of an iteration.
struct ConnectionShare {
    count: usize,
    /// None was left by an earlier iteration.
    are_new: bool,
}

/// A connection adds at most one iteration's requests to this.
const REQUESTS_PER_GROUP: usize = 1024;
/// One read takes at most this much.
const READ_BYTES: usize = 64 * 1024;
/// An iteration takes in no more than this and one read.
const READ_BYTES_PER_ITERATION: u64 = 8 * 1024 * 1024;
/// A hello costs a signature, with some keys a millisecond: a flood of hellos must not hold up the clients that hold locks.
pub(crate) const HANDSHAKES_PER_ITERATION: usize = 4;
/// An iteration makes no more replies than this and those of one connection.
const REPLY_BYTES_PER_ITERATION: usize = 16 * 1024 * 1024;
