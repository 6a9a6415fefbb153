//! What a client has sent and the node has not executed: bytes, and the requests that were found in them.
//!
//! Requests are ranges of the bytes, so that none is copied. The bytes of executed ones are forgotten at the end of an
//! iteration. A stream, a session and replies are no concern of it.

use std::collections::VecDeque;

use quorlock_engine::RawTime;

use crate::protocol::{Limits, ProtocolError, Request, RequestParser};

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct QueryBuffer {
    pub(super) parser: RequestParser,
    /// Bytes of requests that have not been executed or not arrived whole.
    pub(super) received: Vec<u8>,
    /// Requests of `received` that an earlier iteration left behind.
    pub(super) backlog: VecDeque<Request>,
    /// What is wrong with the bytes behind the backlog.
    pub(super) broken: Option<ProtocolError>,
    /// `received` may hold complete requests that have not been looked at.
    pub(super) may_hold_requests: bool,
    /// A request was found whose bytes are still here.
    has_completed: bool,
    /// When the first byte of the request came that is not complete.
    pub(super) request_began: Option<RawTime>,
}

impl QueryBuffer {
    pub(super) fn new(limits: Limits) -> QueryBuffer {
        QueryBuffer {
            parser: RequestParser::new(limits),
            received: Vec::new(),
            backlog: VecDeque::new(),
            broken: None,
            may_hold_requests: false,
            has_completed: false,
            request_began: None,
        }
    }

    /// Finds complete requests, `limit` at the most, or what is wrong with the bytes. An incomplete request is wrong where it has
    /// `partial_bytes_max`. None is looked for while others are left: false says that an earlier iteration has had these.
    pub(super) fn collect(
        &mut self,
        requests: &mut Vec<Request>,
        limit: usize,
        partial_bytes_max: Option<usize>,
    ) -> bool {
        if !self.backlog.is_empty() {
            requests.extend(std::mem::take(&mut self.backlog));
            return false;
        }
        if self.broken.is_some() {
            return false;
        }
        let mut found = 0;
        while found < limit {
            match self.parser.next_request(&mut self.received) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) if self.has_partial(partial_bytes_max) => {
                    self.broken = Some(ProtocolError::TooBigRequest);
                    break;
                }
                Ok(None) => break,
                Err(error) => {
                    self.broken = Some(error);
                    break;
                }
            }
            found += 1;
        }
        self.has_completed |= found > 0;
        self.may_hold_requests = found == limit;
        true
    }

    /// Whether the request that is not complete has so many bytes.
    fn has_partial(&self, bytes: Option<usize>) -> bool {
        bytes.is_some_and(|bytes| self.parser.partial_bytes(&self.received) >= bytes)
    }

    /// Whether bytes that are here already have to be dealt with.
    pub(super) fn has_received(&self) -> bool {
        self.may_hold_requests || !self.backlog.is_empty() || self.broken.is_some()
    }

    /// Whether a request has begun and waits for the rest of it.
    pub(super) fn is_partial(&self) -> bool {
        (!self.received.is_empty() || self.parser.is_discarding()) && !self.has_received()
    }

    /// Whether nothing is here that counts as memory of a connection.
    pub(super) fn is_idle(&self) -> bool {
        let is_empty = self.received.is_empty() && self.backlog.is_empty();
        is_empty && !self.parser.is_discarding()
    }

    /// How many bytes of requests are here, and how many more their buffer takes.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let bytes = self.received.len();
        (bytes, self.received.capacity() - bytes)
    }

    /// The memory of the bytes, and of what was found in them.
    pub(super) fn memory(&self) -> usize {
        let requests = self.backlog.iter().map(Request::memory).sum::<usize>()
            + self.backlog.capacity() * size_of::<Request>();
        self.buffer_memory() + requests
    }

    /// The memory of the bytes alone.
    pub(super) fn buffer_memory(&self) -> usize {
        self.received.capacity() + self.parser.memory()
    }

    /// Forgets the bytes of the requests that were executed. None may be left.
    pub(super) fn forget_consumed(&mut self) {
        let consumed = self.parser.take_consumed();
        let has_completed = std::mem::take(&mut self.has_completed);
        // What is discarded as it comes has its time from its first byte on.
        if has_completed || consumed > 0 && !self.parser.is_discarding() {
            self.request_began = None;
        }
        if consumed == self.received.len() {
            self.received.clear();
            self.received.shrink_to(IDLE_BYTES_MAX);
        } else if consumed > 0 {
            self.received.drain(..consumed);
            // The beginning of a short request must not keep the memory of a long one.
            if self.received.capacity() > KEPT_BYTES_MAX {
                self.received.shrink_to(KEPT_BYTES_MAX);
            }
        }
    }
}

/// What a connection may keep between iterations.
pub(super) const IDLE_BYTES_MAX: usize = 1024;

/// The memory for requests that a connection may keep while one of them has only begun: so much is
/// read at once.
const KEPT_BYTES_MAX: usize = 128 * 1024;
