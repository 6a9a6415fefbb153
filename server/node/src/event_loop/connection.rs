//! One client: its stream, the bytes of requests that have not been executed, and the replies that
//! have not left.
//!
//! Invariant: a connection executes nothing while replies of its earlier iteration are still here, so
//! that replies keep their order and a client that does not read costs one iteration's replies.

mod facts;
mod query_buffer;
mod requests;
mod told;

use crate::core::clients::WaitState;
use crate::core::pause::Ticket;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::event_loop::coalescing::LastIteration;
use crate::event_loop::connection::query_buffer::{IDLE_BYTES_MAX, QueryBuffer};
use crate::event_loop::limits::OverSoftLimit;
use crate::event_loop::memory::Held;
use crate::event_loop::messages::Messages;
use crate::event_loop::posts::PostCursor;
use crate::event_loop::stream::{Stream, StreamError, send_once};
use crate::protocol::{Output, ProtocolError};
use crate::session::{Next, Pending, Session};
use quorlock_engine::{RawTime, Reply};

/// One client's connection.
pub(crate) struct Connection<S> {
    stream: S,
    pub(crate) session: Session,
    pub(crate) stage: Stage,
    /// What comes once the replies have left.
    pub(crate) then: Next,
    /// What the replies of this iteration depend on.
    pub(crate) wait: DurabilityWait,
    /// It is among those that take part in the next iteration.
    pub(crate) is_queued: bool,
    /// It is among those that are sent more in the next iterations.
    pub(crate) is_to_be_sent_more: bool,
    /// Its place among those that a pause holds up, until the request is executed.
    pub(crate) ticket: Option<Ticket>,
    /// A request was executed since it got that.
    pub(crate) has_had_turn: bool,
    /// When it last took part in an iteration.
    pub(crate) served: LastIteration,
    query: QueryBuffer,
    /// What was wrong with its bytes, once the client has been told.
    told_error: Option<ProtocolError>,
    /// Bytes have come since this was last asked.
    was_heard: bool,
    /// The stream may hold bytes.
    is_readable: bool,
    /// The client sends no more: what the stream holds is to be read to its end.
    is_ending: bool,
    /// The stream was read to its end.
    has_ended: bool,
    /// The client and the node have yet to agree on how they speak.
    pub(super) is_handshaking: bool,
    /// It is closed, and the client may still send.
    pub(crate) is_half_closed: bool,
    replies: Output,
    /// Messages that were published for it and come behind its replies, with what they wait for.
    pub(super) messages: Messages,
    /// How far it has looked for others.
    looked: PostCursor,
    /// What it waits for has come before its replies had left.
    pub(crate) early_answer: Option<EarlyAnswer>,
    /// When the stream last took a byte of replies that it did not take whole.
    sending_since: RawTime,
    pub(crate) over_soft_limit: OverSoftLimit,
    /// What its worker has counted it with.
    pub(crate) counted: Held,
}

/// An answer that comes before the replies to earlier requests have left.
pub(crate) struct EarlyAnswer {
    pub(crate) reply: Reply,
    pub(crate) wait: DurabilityWait,
    /// So many of the messages come before it.
    pub(crate) messages_before: usize,
}

/// Where a connection is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Reads and executes.
    Reading,
    /// Its replies wait for the log.
    Held,
    /// Its replies wait for the client to read.
    Sending,
    /// Its last request has no reply yet.
    Pending(Pending),
    /// It goes at the end of this iteration.
    Closed,
}

/// What came of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes, perhaps none.
    Bytes(usize),
    /// The client sends no more. It may still read: whether it has gone altogether cannot be told.
    End,
    /// The client has gone.
    Broken,
}

/// What came of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing is left.
    All,
    /// The rest goes when the client has read.
    Partly,
    /// The rest is left for the next iteration, so that one client's replies do not hold up others.
    Enough,
    /// The client has gone.
    Broken,
}

impl<S: Stream> Connection<S> {
    pub(crate) fn new(stream: S, session: Session) -> Self {
        Self {
            is_handshaking: stream.is_handshaking(),
            stream,
            query: QueryBuffer::new(session.limits()),
            session,
            stage: Stage::Reading,
            then: Next::Read,
            wait: DurabilityWait::default(),
            is_queued: false,
            is_to_be_sent_more: false,
            ticket: None,
            has_had_turn: false,
            served: LastIteration::default(),
            told_error: None,
            was_heard: false,
            is_readable: false,
            is_ending: false,
            has_ended: false,
            is_half_closed: false,
            replies: Output::default(),
            messages: Messages::default(),
            looked: PostCursor::default(),
            early_answer: None,
            sending_since: RawTime::ZERO,
            over_soft_limit: OverSoftLimit::default(),
            counted: Held::default(),
        }
    }

    /// Notes that the stream has something to read, where that is so or the stream says so, and that its end has come.
    pub(crate) fn note_ready(&mut self, is_readable: bool, is_ending: bool) {
        self.is_readable |= is_readable || is_ending || self.stream.has_more();
        self.is_ending |= is_ending;
    }

    /// Whether its client has the limits of one that said the password, or needs none.
    pub(crate) fn is_trusted(&self) -> bool {
        self.session.is_trusted() && !self.is_handshaking
    }

    /// Whether the next iteration has something to do for it.
    pub(crate) fn has_work(&self) -> bool {
        self.is_readable || self.has_received()
    }

    /// Whether bytes that are here already have to be dealt with.
    pub(crate) fn has_received(&self) -> bool {
        self.query.has_received()
    }

    /// Takes in what has arrived, at most what fits into `buffer`. Requests that are here already
    /// come first.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Received {
        if !self.is_readable || self.has_received() {
            return Received::Bytes(0);
        }
        if self.is_trusted() {
            return self.read(buffer);
        }
        let room = UNAUTHENTICATED_BYTES_MAX.saturating_sub(self.query.received.len());
        if room == 0 {
            return Received::Bytes(0);
        }
        let room = room.min(buffer.len());
        self.read(&mut buffer[..room])
    }

    /// The same while the client waits for something: only to notice that it goes. One that only sends no more is
    /// answered; its end is read again afterwards.
    pub(crate) fn receive_waiting(&mut self, buffer: &mut [u8]) -> Received {
        let room = WAITING_BYTES_MAX.saturating_sub(self.query.received.len());
        let room = room.min(buffer.len());
        self.query.may_hold_requests = true;
        let mut count = 0;
        while self.is_readable && count < room {
            match self.read(&mut buffer[count..room]) {
                Received::Bytes(more) => count += more,
                Received::End => break,
                Received::Broken => return Received::Broken,
            }
        }
        Received::Bytes(count)
    }

    /// A read that does not fill the buffer has emptied the stream; if more comes, a new event says so.
    fn read(&mut self, buffer: &mut [u8]) -> Received {
        match self.stream.receive(buffer) {
            Ok(0) => {
                self.has_ended = true;
                Received::End
            }
            Err(StreamError::Broken) => Received::Broken,
            Ok(count) => {
                self.is_readable =
                    self.is_ending || count == buffer.len() || self.stream.has_more();
                if !self.is_trusted() {
                    // A buffer that doubles would take more than such a client may cost.
                    self.query.received.reserve_exact(count);
                }
                self.query.received.extend_from_slice(&buffer[..count]);
                (self.query.may_hold_requests, self.was_heard) = (true, true);
                Received::Bytes(count)
            }
            Err(StreamError::WouldBlock) => {
                self.is_readable = false;
                Received::Bytes(0)
            }
        }
    }

    /// Finds out whether a client that is closed may still send: it has sent bytes that are no request, or more than
    /// was executed.
    pub(crate) fn close_half(&mut self, buffer: &mut [u8]) {
        self.is_half_closed = !self.has_ended
            && (self.told_error.is_some() || self.stream.receive(buffer).is_ok_and(|it| it > 0));
    }

    pub(crate) fn into_stream(self) -> S {
        self.stream
    }

    /// Whether the client has sent anything since the last call.
    pub(crate) fn take_heard(&mut self) -> bool {
        std::mem::take(&mut self.was_heard)
    }

    /// Notes that the stream did not take all there is, and whether it took anything.
    pub(crate) fn note_unsent(&mut self, has_taken: bool, now_raw: RawTime) {
        if has_taken || !matches!(self.stage, Stage::Sending) {
            self.sending_since = now_raw;
        }
        self.stage = Stage::Sending;
    }

    /// How many bytes of replies have not left.
    pub(crate) fn output_bytes(&self) -> usize {
        self.replies.len() + self.messages.bytes()
    }

    /// Why the node closes it, if bytes that are no request are why.
    pub(crate) fn told_error(&self) -> Option<&ProtocolError> {
        self.told_error.as_ref()
    }

    /// Answers what the client waited for.
    pub(crate) fn answer(&mut self, answer: &Reply, wait: DurabilityWait) {
        for before in self.session.take_confirmations() {
            self.session.write(&mut self.replies, &before);
        }
        self.session.write(&mut self.replies, answer);
        self.session.note_answered();
        self.wait.raise(wait);
    }

    /// Whether nobody would get what it waits for once the client sends no more: an element, or the end of a pause.
    pub(crate) fn waits_for_itself_only(&self) -> bool {
        matches!(self.stage, Stage::Pending(pending) if pending.condition.traits().is_for_client_alone)
    }

    /// Its request waits no longer, or not until it was told something.
    pub(crate) fn note_waited(&self, node: &NodeState) {
        let client = &self.session.client;
        client.note_waiting(WaitState::None);
        client.discount_as_blocked(&node.statistics.blocked);
    }

    /// Keeps an answer that comes before the replies to earlier requests have left.
    pub(crate) fn answer_early(&mut self, reply: Reply, wait: DurabilityWait) {
        self.early_answer = Some(EarlyAnswer {
            reply,
            wait,
            messages_before: self.messages.len(),
        });
    }

    /// Whether the client has gone, or sends no more: what it has sent before may still be here, or unread.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended || self.is_ending
    }

    /// Whether replies are here.
    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Sends `error` instead of the replies, and nothing after it.
    pub(crate) fn withhold(&mut self, error: &[u8]) {
        self.replies.clear(IDLE_BYTES_MAX);
        self.replies.owned().extend_from_slice(error);
        self.then = Next::Close;
    }

    /// Sends as many of the replies as the stream takes; adds their bytes to `sent`.
    pub(crate) fn send(&mut self, sent: &mut u64) -> Sent {
        let mut left = SEND_BYTES_PER_ITERATION;
        while !self.replies.is_empty() {
            if left == 0 {
                return Sent::Enough;
            }
            match send_once(&mut self.stream, &self.replies, left) {
                Ok(count) => {
                    self.replies.advance(count);
                    left -= count;
                    *sent += count as u64;
                }
                Err(StreamError::WouldBlock) => return Sent::Partly,
                Err(StreamError::Broken) => return Sent::Broken,
            }
        }
        self.replies.clear(IDLE_BYTES_MAX);
        self.wait = DurabilityWait::default();
        Sent::All
    }

    /// What comes after an iteration of which no reply is left; the connection goes on reading
    /// afterwards, unless it is closed.
    pub(crate) fn take_next(&mut self) -> Next {
        std::mem::replace(&mut self.then, Next::Read)
    }
}

/// A client that waits is not read further than this; the rest stays with its kernel.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// A client that has not authenticated is not read further than this either: the longest request it
/// may send, and the longest line behind it that could be one of its headers, fit.
const UNAUTHENTICATED_BYTES_MAX: usize = 11 * 1024;

/// One iteration sends at most so much to one client.
const SEND_BYTES_PER_ITERATION: usize = 1024 * 1024;
