//! A client's connection in memory: what it has sent, what the node has sent to it, and how much of that it takes.
//!
//! Invariant: a stream tells that it is ready as the poll of a real socket does, once for each change.

use std::collections::VecDeque;
use std::io::{IoSlice, Read as _};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use crate::event_loop::stream::{Stream, StreamError};
use crate::protocol::Output;

/// Learns what happens on a connection at the moment it does.
pub trait Observer: Send + Sync {
    /// The node has executed a request; no reply where the client is blocked. By then it has served so many clients
    /// that waited for an element.
    fn executed(&self, _arguments: &[&[u8]], _reply: &[u8], _served: u64) {}

    /// These bytes are about to leave the node: from here on the client may know them.
    fn sent(&self, _bytes: &[u8]) {}
}

/// The client's end.
#[derive(Clone)]
pub struct Pipe(Arc<Mutex<State>>);

/// The node's end.
pub struct PipeStream(Pipe);

struct State {
    to_node: VecDeque<u8>,
    /// The client sends no more.
    is_ended: bool,
    /// The client has gone.
    is_reset: bool,
    /// The client has gone, and what it has sent before is executed: nobody reads the replies.
    has_left: bool,
    to_client: VecDeque<u8>,
    /// So many bytes more are taken before the client reads again.
    room: usize,
    /// Woken when there are bytes for the client, or it is closed.
    reader: Option<Waker>,
    /// Woken when the node has taken what the client has sent.
    writer: Option<Waker>,
    /// Where those are put that are to be woken; without it they are woken at once.
    woken: Option<Arc<PendingWakers>>,
    /// The number of the node's end in its event loop.
    slot: usize,
    /// It is on the list of those whose changes the event loop has not seen.
    is_listed: bool,
    /// At most so many bytes are moved by one call.
    call_bytes_max: usize,
    is_readable: bool,
    is_writable: bool,
    /// The node has closed it.
    is_closed: bool,
    observer: Option<Arc<dyn Observer>>,
}

/// Whom changes of connections wake, until the event loop is released: they may run any code.
#[derive(Default)]
pub struct PendingWakers(Mutex<Vec<Waker>>);

/// What the poll would tell.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// Bytes have come, or the client has ended.
    pub is_readable: bool,
    /// The client sends no more.
    pub is_ending: bool,
}

impl Pipe {
    /// A connection of which each call moves at most so many bytes.
    pub fn new(call_bytes_max: usize, observer: Option<Arc<dyn Observer>>) -> Pipe {
        Pipe(Arc::new(Mutex::new(State {
            to_node: VecDeque::new(),
            is_ended: false,
            is_reset: false,
            has_left: false,
            to_client: VecDeque::new(),
            room: usize::MAX,
            reader: None,
            writer: None,
            woken: None,
            slot: usize::MAX,
            is_listed: false,
            call_bytes_max: call_bytes_max.max(1),
            is_readable: false,
            is_writable: false,
            is_closed: false,
            observer,
        })))
    }

    /// The end that an event loop serves.
    pub fn stream(&self) -> PipeStream {
        PipeStream(self.clone())
    }

    /// The client sends.
    pub(crate) fn send(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.to_node.extend(bytes);
        state.is_readable = true;
    }

    /// The client sends no more, and may still read.
    pub fn end(&self) {
        let mut state = self.state();
        (state.is_ended, state.is_readable) = (true, true);
    }

    /// The client goes, with whatever it has not read.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        (state.is_reset, state.is_readable) = (true, true);
    }

    /// The client goes as one that closes a socket: what it has sent before is executed.
    pub fn leave(&self) {
        let mut state = self.state();
        (state.is_ended, state.has_left) = (true, true);
        (state.is_readable, state.is_writable) = (true, true);
        state.to_client = VecDeque::new();
        let wakers = (state.reader.take(), state.writer.take());
        drop(state);
        // This may run any code.
        drop(wakers);
    }

    /// Those whom its changes wake are put there.
    pub fn wake_later(&self, woken: &Arc<PendingWakers>) {
        self.state().woken = Some(Arc::clone(woken));
    }

    /// Whether bytes are there that the client has not taken.
    pub fn has_received(&self) -> bool {
        !self.state().to_client.is_empty()
    }

    /// So many bytes more are taken from here on.
    pub fn set_room(&self, bytes: usize) {
        let mut state = self.state();
        (state.room, state.is_writable) = (bytes, bytes > 0);
    }

    /// What has come from the node since the last call.
    pub(crate) fn take_received(&self) -> Vec<u8> {
        std::mem::take(&mut self.state().to_client).into()
    }

    /// The client sends as much of this as there is room for, some of it at least. Pending while there is none; nothing
    /// once the node has closed it, or the client has said that it sends no more.
    pub fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Option<usize>> {
        let is_full = |state: &mut State| {
            let is_open = !state.is_closed && !state.is_ended;
            is_open && !bytes.is_empty() && state.to_node.len() >= SENT_BYTES_MAX
        };
        let mut state = ready!(self.poll_until(context, |state| &mut state.writer, is_full));
        if state.is_closed || state.is_ended {
            return Poll::Ready(None);
        }
        let room = SENT_BYTES_MAX.saturating_sub(state.to_node.len());
        let count = bytes.len().min(room);
        state.to_node.extend(&bytes[..count]);
        state.is_readable = true;
        Poll::Ready(Some(count))
    }

    /// The client takes what has come, as much as `buffer` holds; 0 where the node has closed it. Pending while nothing
    /// has come. What it has taken makes room for more.
    pub fn poll_receive(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<usize> {
        let is_empty = |state: &mut State| state.to_client.is_empty() && !state.is_closed;
        let mut state = ready!(self.poll_until(context, |state| &mut state.reader, is_empty));
        let count = read(&mut state.to_client, buffer);
        state.is_writable |= state.room == 0 && count > 0;
        state.room = state.room.saturating_add(count);
        Poll::Ready(count)
    }

    /// Pending while `waits` says so; then who is in `slot` is woken. A waker may run any code where it is copied and where it
    /// is dropped, so neither is done while the pipe is locked.
    fn poll_until(
        &self,
        context: &Context<'_>,
        slot: impl Fn(&mut State) -> &mut Option<Waker>,
        waits: impl Fn(&mut State) -> bool,
    ) -> Poll<MutexGuard<'_, State>> {
        let mut state = self.state();
        if !waits(&mut state) {
            return Poll::Ready(state);
        }
        drop(state);
        let mut waker = Some(context.waker().clone());
        let mut state = self.state();
        if waits(&mut state) {
            std::mem::swap(slot(&mut state), &mut waker);
            drop(state);
            return Poll::Pending;
        }
        drop(state);
        drop(waker);
        // What has come stays: only the client takes it.
        Poll::Ready(self.state())
    }

    /// Notes where the node's end is.
    pub fn note_slot(&self, slot: usize) {
        self.state().slot = slot;
    }

    /// Where the node's end is.
    pub fn slot(&self) -> usize {
        self.state().slot
    }

    /// Puts it on the list of those that have changed, or takes it off. Says whether it was on it.
    pub fn set_listed(&self, is_listed: bool) -> bool {
        std::mem::replace(&mut self.state().is_listed, is_listed)
    }

    /// Whether it is on the list of those that have changed.
    pub fn is_listed(&self) -> bool {
        self.state().is_listed
    }

    /// The node has gone.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let wakers = [state.reader.take(), state.writer.take()];
        let woken = state.woken.clone();
        drop(state);
        wake(wakers.into_iter().flatten(), woken.as_deref());
    }

    /// Whether the node has closed it.
    pub fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Whether something has changed that was not told.
    pub fn has_changed(&self) -> bool {
        let state = self.state();
        state.is_readable || state.is_writable
    }

    /// What has changed since the last call.
    pub fn take_readiness(&self) -> Option<Readiness> {
        let mut state = self.state();
        let is_readable = std::mem::take(&mut state.is_readable);
        let is_writable = std::mem::take(&mut state.is_writable);
        (is_readable || is_writable).then_some(Readiness {
            is_readable,
            is_ending: is_readable && (state.is_ended || state.is_reset),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of a pipe can panic")
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.state().observer.clone()
    }
}

impl Stream for PipeStream {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let mut state = self.0.state();
        if state.is_reset {
            return Err(StreamError::Broken);
        }
        if state.to_node.is_empty() {
            return if state.is_ended {
                Ok(0)
            } else {
                Err(StreamError::WouldBlock)
            };
        }
        let count = buffer
            .len()
            .min(state.call_bytes_max)
            .min(state.to_node.len());
        let count = read(&mut state.to_node, &mut buffer[..count]);
        // What a short read has left arrives a little later.
        state.is_readable |= !state.to_node.is_empty();
        let (writer, woken) = (state.writer.take(), state.woken.clone());
        drop(state);
        wake(writer.into_iter(), woken.as_deref());
        Ok(count)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        let count = {
            let state = self.0.state();
            if state.is_reset {
                return Err(StreamError::Broken);
            }
            if state.has_left {
                return Ok(bytes.len());
            }
            bytes.len().min(state.call_bytes_max).min(state.room)
        };
        if count == 0 {
            return Err(StreamError::WouldBlock);
        }
        if let Some(observer) = self.0.observer() {
            observer.sent(&bytes[..count]);
        }
        let mut state = self.0.state();
        state.to_client.extend(&bytes[..count]);
        state.room -= count;
        let (reader, woken) = (state.reader.take(), state.woken.clone());
        drop(state);
        wake(reader.into_iter(), woken.as_deref());
        Ok(count)
    }

    fn send_vectored(&mut self, runs: &[IoSlice<'_>]) -> Result<usize, StreamError> {
        let bytes: Vec<u8> = runs.iter().flat_map(|run| run.iter().copied()).collect();
        self.send(&bytes)
    }

    fn note_executed(&mut self, arguments: &[&[u8]], replies: &Output, start: usize, served: u64) {
        if let Some(observer) = self.0.observer() {
            let replies: Vec<u8> = replies.runs().flatten().copied().collect();
            observer.executed(arguments, &replies[start..], served);
        }
    }
}

impl Drop for PipeStream {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl PendingWakers {
    /// Wakes all that are here, where no lock is held.
    pub fn wake(&self) {
        let wakers = std::mem::take(&mut *self.list());
        wakers.into_iter().for_each(Waker::wake);
    }

    fn list(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().expect("no holder of a list can panic")
    }
}

/// Wakes them, or leaves that to who has the list.
fn wake(wakers: impl Iterator<Item = Waker>, woken: Option<&PendingWakers>) {
    match woken {
        Some(woken) => woken.list().extend(wakers),
        None => wakers.for_each(Waker::wake),
    }
}

/// Takes as many bytes as there are and fit.
fn read(from: &mut VecDeque<u8>, buffer: &mut [u8]) -> usize {
    let mut count = 0;
    // One read takes bytes up to where the ring wraps around.
    while count < buffer.len() {
        match from.read(&mut buffer[count..]) {
            Ok(bytes) if bytes > 0 => count += bytes,
            _ => break,
        }
    }
    count
}

/// A client that sends more than this before the node has read it waits.
const SENT_BYTES_MAX: usize = 256 * 1024;
