//! Requests of a connection: found in what has arrived, executed, and forgotten.

use crate::core::state::NodeState;
use crate::event_loop::connection::{Connection, IDLE_BYTES_MAX, UNAUTHENTICATED_BYTES_MAX};
use crate::event_loop::posts::Posts;
use crate::event_loop::stream::Stream;
use crate::protocol::{ProtocolError, Request};
use crate::session::{Batch, Next};
use quorlock_engine::RawTime;

impl<S: Stream> Connection<S> {
    /// Takes over what CONFIG SET has changed about requests.
    pub(crate) fn follow_settings(&mut self, node: &NodeState) {
        if self.session.follow_settings(node) {
            self.parser.set_limits(self.session.limits());
        }
    }

    /// Finds complete requests, up to the bound of one iteration. None is looked for while others are left: false says
    /// that an earlier iteration has had these.
    pub(crate) fn collect(&mut self, requests: &mut Vec<Request>) -> bool {
        if !self.backlog.is_empty() {
            requests.extend(std::mem::take(&mut self.backlog));
            return false;
        }
        if self.broken.is_some() {
            return false;
        }
        // AUTH changes the limits of what follows it.
        let limit = if self.is_trusted() {
            REQUESTS_PER_ITERATION
        } else {
            1
        };
        let mut found = 0;
        while found < limit {
            match self.parser.next_request(&mut self.received) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) if self.is_full() => {
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

    /// Whether it has sent as much before the password as it may, and no request is complete.
    fn is_full(&self) -> bool {
        !self.is_trusted() && self.parser.partial_bytes(&self.received) >= UNAUTHENTICATED_BYTES_MAX
    }

    /// Leaves requests that were collected, and that its worker cannot execute now, for the next iteration.
    pub(crate) fn postpone(&mut self, requests: &mut [Request]) {
        self.backlog.extend(requests.iter_mut().map(std::mem::take));
        // The end of what the client sends is found again.
        self.then = Next::Read;
    }

    /// Tells the batch the first key of one of its requests, to be prefetched.
    pub(crate) fn note_key(&self, request: &Request, batch: &mut Batch<'_>) {
        if !self.is_trusted() {
            return;
        }
        batch.note_key(&self.session, |index| {
            request.argument(index, &self.received)
        });
    }

    /// Executes requests in order, until one says that nothing may follow it. What is left is taken, and waits for the next
    /// iteration.
    pub(crate) fn execute(
        &mut self,
        requests: &mut [Request],
        batch: &mut Batch<'_>,
        posts: &mut Posts,
    ) {
        self.session.query = self.query();
        batch.serve(Some(&self.session.client));
        self.execute_all(requests, batch, posts);
        batch.serve(None);
    }

    fn execute_all(&mut self, requests: &mut [Request], batch: &mut Batch<'_>, posts: &mut Posts) {
        for request in requests {
            if self.then == Next::Read {
                self.catch_up(batch, posts);
            }
            if self.then != Next::Read || self.replies.len() >= REPLY_BYTES_PER_ITERATION {
                self.backlog.push_back(std::mem::take(request));
                continue;
            }
            let (session, wait) = (&mut self.session, &mut self.wait);
            let start = self.replies.len();
            let oversized;
            let arguments = match request.is_oversized() {
                false => {
                    let arguments = request.arguments(&self.received);
                    self.then = batch.execute(session, &arguments, wait, &mut self.replies);
                    arguments
                }
                true => {
                    oversized = self.parser.take_oversized();
                    self.then = batch.refuse(session, &oversized, &mut self.replies);
                    oversized.words().into_iter().collect()
                }
            };
            if self.then.comes_again() {
                self.backlog.push_back(std::mem::take(request));
                continue;
            }
            self.has_had_turn |= self.ticket.is_some();
            let served = batch.served();
            self.stream
                .note_executed(&arguments, &self.replies, start, served);
            if self.session.take_limits_changed() {
                self.parser.set_limits(self.session.limits());
            }
        }
        if !self.backlog.is_empty() {
            return;
        }
        if self.then == Next::Read
            && let Some(error) = self.broken.take()
        {
            if self.session.wants_replies() {
                error.write_reply(self.replies.owned());
            }
            self.told_error = Some(error);
            self.then = Next::Close;
        }
        self.forget_consumed();
    }

    fn forget_consumed(&mut self) {
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

    /// Whether a request has begun and waits for the rest of it.
    pub(crate) fn is_partial(&self) -> bool {
        (!self.received.is_empty() || self.parser.is_discarding()) && !self.has_received()
    }

    /// Notes when such a request began, unless it did before.
    pub(crate) fn note_partial(&mut self, now: RawTime) {
        self.request_began.get_or_insert(now);
    }

    /// Gives such a request its whole time again: until now the client waited for this node.
    pub(crate) fn renew_partial(&mut self, now_raw: RawTime) {
        if self.request_began.is_some() {
            self.request_began = Some(now_raw);
        }
    }
}

/// The memory for requests that a connection may keep while one of them has only begun: so much is
/// read at once.
const KEPT_BYTES_MAX: usize = 128 * 1024;

/// An iteration ends here, so that one deep pipeline does not starve its neighbours.
const REQUESTS_PER_ITERATION: usize = 1024;
pub(super) const REPLY_BYTES_PER_ITERATION: usize = 256 * 1024;
