//! Sending: replies that may leave, and what streams have not taken at once.
//!
//! A stream is sent a bounded part in one iteration, and so are all of them together that did not take everything, each
//! in its turn: who reads slowly holds up nobody.

use std::collections::VecDeque;

use quorlock_engine::RawTime;

use crate::core::commit_queue::refusal;
use crate::event_loop::EventLoop;
use crate::event_loop::connection::{Sent, Stage};
use crate::event_loop::stream::Stream;

/// What one worker sends.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// Connections whose replies have not left.
    pub(super) unsent: usize,
    /// Connections whose streams may take more of their replies, each once.
    pub(super) queue: VecDeque<usize>,
    /// Sent so far.
    pub(super) bytes: u64,
    counted_bytes: u64,
}

impl Sending {
    /// How many bytes were sent since the last call.
    pub(super) fn take_uncounted(&mut self) -> u64 {
        self.bytes - std::mem::replace(&mut self.counted_bytes, self.bytes)
    }
}

impl<S: Stream> EventLoop<S> {
    pub(super) fn release(&mut self, now_raw: RawTime) {
        let until = self.sending.bytes.saturating_add(SENT_AGAIN_PER_ITERATION);
        let mut released = std::mem::take(&mut self.released);
        loop {
            self.queue.release(&self.node.commit, &mut released);
            let waiting = self.queue.len();
            for replies in released.drain(..) {
                if let (true, Some(failure)) = (replies.is_withheld, self.node.commit.failure()) {
                    self.connections[replies.connection].withhold(&refusal(failure));
                }
                self.send(replies.connection, now_raw);
            }
            // Connections that have sent everything may have had messages that were kept, and that leave as well.
            self.is_release_due = self.queue.len() > waiting;
            if !self.is_release_due || self.sending.bytes >= until {
                break;
            }
        }
        self.released = released;
    }

    pub(super) fn send(&mut self, slot: usize, now_raw: RawTime) {
        let connection = &mut self.connections[slot];
        let sent_before = self.sending.bytes;
        match connection.send(&mut self.sending.bytes) {
            Sent::All => {
                if matches!(connection.stage, Stage::Sending) {
                    // It was reading all the while.
                    connection.session.client.touch(now_raw);
                }
                self.sending.unsent -= 1;
                connection.renew_partial(now_raw);
                connection.stage = Stage::Reading;
                self.go_on(slot, now_raw);
            }
            sent @ (Sent::Partly | Sent::Enough) => {
                if sent == Sent::Enough {
                    self.queue_sending(slot);
                }
                let connection = &mut self.connections[slot];
                let has_taken = self.sending.bytes > sent_before;
                connection.note_unsent(has_taken, now_raw);
                self.guard.count(connection);
            }
            Sent::Broken => self.close(slot, now_raw),
        }
    }

    /// A connection is sent more in the next iteration, or in one after that if many are.
    pub(super) fn queue_sending(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !std::mem::replace(&mut connection.is_to_be_sent_more, true) {
            self.sending.queue.push_back(slot);
        }
    }

    /// Sends more of the replies that streams have not taken whole, and that they may take now.
    pub(super) fn send_more(&mut self, now_raw: RawTime) {
        let until = self.sending.bytes.saturating_add(SENT_MORE_PER_ITERATION);
        for _ in 0..self.sending.queue.len().min(SENDS_PER_ITERATION) {
            let Some(slot) = self.sending.queue.pop_front() else {
                return;
            };
            let connection = &mut self.connections[slot];
            debug_assert!(matches!(connection.stage, Stage::Sending));
            connection.is_to_be_sent_more = false;
            self.send(slot, now_raw);
            if self.sending.bytes >= until {
                return;
            }
        }
    }
}

/// Beyond this, messages that were kept until others had left are sent by the next iteration.
const SENT_AGAIN_PER_ITERATION: u64 = 4 * 1024 * 1024;

/// What an iteration sends to those who did not take all at once, and to how many of them.
const SENT_MORE_PER_ITERATION: u64 = 4 * 1024 * 1024;
const SENDS_PER_ITERATION: usize = 512;
