//! Requests of a connection: found in what has arrived, executed, and forgotten.

use crate::core::state::NodeState;
use crate::event_loop::connection::{Connection, UNAUTHENTICATED_BYTES_MAX};
use crate::event_loop::posts::Posts;
use crate::event_loop::stream::Stream;
use crate::protocol::Request;
use crate::session::{Batch, Next};
use quorlock_engine::RawTime;

impl<S: Stream> Connection<S> {
    /// Takes over what CONFIG SET has changed about requests.
    pub(crate) fn follow_settings(&mut self, node: &NodeState) {
        if self.session.follow_settings(node) {
            self.query.parser.set_limits(self.session.limits());
        }
    }

    /// Finds complete requests, up to the bound of one iteration. None is looked for while others are left: false says
    /// that an earlier iteration has had these.
    pub(crate) fn collect(&mut self, requests: &mut Vec<Request>) -> bool {
        // AUTH changes the limits of what follows it. Before the password a request has less room.
        let (limit, partial_bytes_max) = match self.is_trusted() {
            true => (REQUESTS_PER_ITERATION, None),
            false => (1, Some(UNAUTHENTICATED_BYTES_MAX)),
        };
        self.query.collect(requests, limit, partial_bytes_max)
    }

    /// Leaves requests that were collected, and that its worker cannot execute now, for the next iteration.
    pub(crate) fn postpone(&mut self, requests: &mut [Request]) {
        self.query
            .backlog
            .extend(requests.iter_mut().map(std::mem::take));
        // The end of what the client sends is found again.
        self.then = Next::Read;
    }

    /// Tells the batch the first key of one of its requests, to be prefetched.
    pub(crate) fn note_key(&self, request: &Request, batch: &mut Batch<'_>) {
        if !self.is_trusted() {
            return;
        }
        batch.note_key(&self.session, |index| {
            request.argument(index, &self.query.received)
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
        self.session.query = self.query.bytes();
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
                self.query.backlog.push_back(std::mem::take(request));
                continue;
            }
            let (session, wait) = (&mut self.session, &mut self.wait);
            let start = self.replies.len();
            let oversized;
            let arguments = match request.is_oversized() {
                false => {
                    let arguments = request.arguments(&self.query.received);
                    self.then = batch.execute(session, &arguments, wait, &mut self.replies);
                    arguments
                }
                true => {
                    oversized = self.query.parser.take_oversized();
                    self.then = batch.refuse(session, &oversized, &mut self.replies);
                    oversized.words().into_iter().collect()
                }
            };
            if self.then.comes_again() {
                self.query.backlog.push_back(std::mem::take(request));
                continue;
            }
            self.has_had_turn |= self.ticket.is_some();
            let served = batch.served();
            self.stream
                .note_executed(&arguments, &self.replies, start, served);
            if self.session.take_limits_changed() {
                self.query.parser.set_limits(self.session.limits());
            }
        }
        if !self.query.backlog.is_empty() {
            return;
        }
        if self.then == Next::Read
            && let Some(error) = self.query.broken.take()
        {
            if self.session.wants_replies() {
                error.write_reply(self.replies.owned());
            }
            self.told_error = Some(error);
            self.then = Next::Close;
        }
        self.query.forget_consumed();
    }

    /// Whether a request has begun and waits for the rest of it.
    pub(crate) fn is_partial(&self) -> bool {
        self.query.is_partial()
    }

    /// Notes when such a request began, unless it did before.
    pub(crate) fn note_partial(&mut self, now: RawTime) {
        self.query.request_began.get_or_insert(now);
    }

    /// Gives such a request its whole time again: until now the client waited for this node.
    pub(crate) fn renew_partial(&mut self, now_raw: RawTime) {
        if self.query.request_began.is_some() {
            self.query.request_began = Some(now_raw);
        }
    }
}

/// An iteration ends here, so that one deep pipeline does not starve its neighbours.
const REQUESTS_PER_ITERATION: usize = 1024;
pub(super) const REPLY_BYTES_PER_ITERATION: usize = 256 * 1024;
