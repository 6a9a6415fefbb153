//! Reads requests out of a connection's buffer: multibulk (`*2 $3 GET $1 a`) and inline (`GET a`).
//!
//! Invariants: no byte is looked at twice, however the bytes arrive; arguments are ranges of the one
//! buffer, never copies; nothing is reserved for what a header claims; there is no recursion. A
//! request reads the same whether it arrives whole or byte by byte. What is too large is read to its end, so that
//! what comes behind it is found, and not kept.
//! It does not know commands, and it does not own the buffer.

use std::collections::VecDeque;
use std::ops::Range;

use quorlock_engine::{parse_integer, words};
use smallvec::SmallVec;

use super::error::ProtocolError;
use super::limits::Limits;
use super::oversized::{Excess, Oversized};

/// The arguments of one request, the command's name first.
pub type Arguments<'a> = SmallVec<[&'a [u8]; ARGUMENTS_INLINE]>;

/// Finds the requests in a buffer that grows at the end.
///
/// One round of a connection: append what was received, call [`RequestParser::next_request`] until it
/// gives `None`, execute, then remove [`RequestParser::take_consumed`] bytes from the front.
///
/// A client that is not authenticated must be served request by request, since AUTH changes the
/// limits for what follows it; everybody else's requests can be collected first.
#[derive(Debug)]
pub struct RequestParser {
    limits: Limits,
    /// Where the request that is being read begins.
    start: usize,
    /// The first byte that has not been understood yet.
    position: usize,
    /// There is no line end between `position` and this offset: the search for it goes on from here.
    searched: usize,
    /// Arguments that the request being read still lacks; 0 between requests.
    arguments_left: usize,
    /// Length of the argument being read, once its header is complete.
    bulk_bytes: Option<usize>,
    spans: Spans,
    /// The request being read is too large: its bytes are discarded as they come.
    discarding: Option<Box<Discarding>>,
    /// Requests that were given out without arguments.
    oversized: VecDeque<Oversized>,
}

/// A request that is read and not kept.
#[derive(Debug)]
struct Discarding {
    request: Oversized,
    /// Of the argument that is being read, with its line end.
    bytes_left: usize,
}

/// A complete request: where its arguments are in the buffer. One that is too large has none:
/// [`RequestParser::take_oversized`] says what is left of it.
///
/// Valid until bytes are removed from the front of the buffer it was read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    start: usize,
    spans: Spans,
}

impl RequestParser {
    /// A parser for a new connection.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            start: 0,
            position: 0,
            searched: 0,
            arguments_left: 0,
            bulk_bytes: None,
            spans: Spans::new(),
            discarding: None,
            oversized: VecDeque::new(),
        }
    }

    /// Applies to the next request, and to the rest of one that is being read.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The next complete request, or `None` until more bytes have arrived.
    ///
    /// `buffer` must begin with the same bytes as in the last call, less what
    /// [`RequestParser::take_consumed`] gave. It is changed only where an inline request has quotes
    /// or escapes. After an error the connection must be closed.
    // Inlined: a request is a cache line and a half, which is moved once for it.
    #[inline]
    pub fn next_request(&mut self, buffer: &mut [u8]) -> Result<Option<Request>, ProtocolError> {
        if !self.read_request(buffer)? {
            return Ok(None);
        }
        let start = std::mem::replace(&mut self.start, self.position);
        let spans = std::mem::take(&mut self.spans);
        Ok(Some(Request { start, spans }))
    }

    /// Reads on in a request; whether it is complete.
    fn read_request(&mut self, buffer: &mut [u8]) -> Result<bool, ProtocolError> {
        loop {
            let step = match buffer.get(self.position) {
                None => Step::Incomplete,
                Some(_) if self.arguments_left > 0 => self.read_arguments(buffer)?,
                Some(b'*') => self.read_count(buffer)?,
                Some(_) => self.read_inline(buffer)?,
            };
            match step {
                Step::Incomplete => return Ok(false),
                Step::Advanced => {}
                Step::Complete if self.is_http(buffer) => return Err(ProtocolError::CrossProtocol),
                Step::Complete => return Ok(true),
            }
        }
    }

    /// What is left of the first request that was given out without arguments; to be called once for each of them, in
    /// their order.
    pub fn take_oversized(&mut self) -> Oversized {
        self.oversized.pop_front().unwrap_or_default()
    }

    /// Whether a request is being read whose bytes are discarded: few or none of them are in the buffer.
    pub fn is_discarding(&self) -> bool {
        self.discarding.is_some()
    }

    #[inline(always)]
    fn is_http(&self, buffer: &[u8]) -> bool {
        let bytes = &buffer[self.start..];
        self.spans
            .first()
            .is_some_and(|name| is_http(name.of(bytes)))
    }

    /// How many bytes at the front of the buffer belong to requests that were given out.
    ///
    /// The caller must remove exactly that many before it calls `next_request` again.
    pub fn take_consumed(&mut self) -> usize {
        let consumed = std::mem::take(&mut self.start);
        self.position -= consumed;
        self.searched = self.searched.saturating_sub(consumed);
        consumed
    }

    /// Whether a request has begun and is not complete yet.
    pub fn is_partial(&self, buffer: &[u8]) -> bool {
        self.partial_bytes(buffer) > 0
    }

    /// How many bytes of such a request are here.
    pub fn partial_bytes(&self, buffer: &[u8]) -> usize {
        buffer.len().saturating_sub(self.start)
    }

    /// Memory of the request that is being read, beside the buffer.
    pub fn memory(&self) -> usize {
        let discarding = self.discarding.as_ref();
        let discarding = discarding.map_or(0, |it| size_of_val(&**it) + it.request.memory());
        heap_bytes(&self.spans) + discarding
    }

    /// `*<count>`: how many arguments follow. None or fewer than none is no request at all.
    fn read_count(&mut self, buffer: &[u8]) -> Result<Step, ProtocolError> {
        let Some(line) = self.header(buffer, ProtocolError::TooBigMultibulkCount)? else {
            return Ok(Step::Incomplete);
        };
        let count = parse_integer(&line[1..]).ok_or(ProtocolError::InvalidMultibulkLength)?;
        let Ok(count) = usize::try_from(count.max(0)) else {
            return Err(ProtocolError::InvalidMultibulkLength);
        };
        if count > self.limits.arguments_max {
            return Err(self.too_many_arguments());
        }
        self.position += line.len() + LINE_END_BYTES;
        self.arguments_left = count;
        if count == 0 {
            self.start = self.position;
        }
        Ok(Step::Advanced)
    }

    /// `$<length>` and that many bytes, until the request is complete or the bytes end.
    fn read_arguments(&mut self, buffer: &[u8]) -> Result<Step, ProtocolError> {
        if self.is_discarding() {
            return self.discard_arguments(buffer);
        }
        while self.arguments_left > 0 {
            let length = match self.bulk_bytes {
                Some(length) => length,
                None => match self.read_bulk_length(buffer)? {
                    Some(length) if self.has_room(length) => length,
                    Some(length) => {
                        self.begin_discarding(buffer, length)?;
                        return self.discard_arguments(buffer);
                    }
                    None => return Ok(Step::Incomplete),
                },
            };
            let end = self.position + length;
            if buffer.len() < end + LINE_END_BYTES {
                self.bulk_bytes = Some(length);
                return Ok(Step::Incomplete);
            }
            self.spans
                .push(Span::new(self.position - self.start, end - self.start)?);
            self.bulk_bytes = None;
            self.arguments_left -= 1;
            self.position = end + LINE_END_BYTES;
        }
        Ok(Step::Complete)
    }

    /// Whether an argument of this length, which begins here, may be kept.
    fn has_room(&self, length: usize) -> bool {
        let request_bytes = (self.position - self.start).saturating_add(length);
        length <= self.limits.argument_bytes_max
            && request_bytes <= self.limits.request_bytes_max as usize
    }

    /// The same where nothing is kept.
    #[cold]
    fn discard_arguments(&mut self, buffer: &[u8]) -> Result<Step, ProtocolError> {
        while self.arguments_left > 0 {
            if !self.discard_argument(buffer)? {
                return Ok(Step::Incomplete);
            }
        }
        let discarded = self.discarding.take();
        self.oversized.extend(discarded.map(|it| it.request));
        Ok(Step::Complete)
    }

    /// Reads on in an argument that is not kept; whether it is complete.
    fn discard_argument(&mut self, buffer: &[u8]) -> Result<bool, ProtocolError> {
        let left = self.discarding.as_ref().map_or(0, |it| it.bytes_left);
        let left = match left {
            0 => match self.read_bulk_length(buffer)? {
                Some(length) => length.saturating_add(LINE_END_BYTES),
                None => return Ok(false),
            },
            left => left,
        };
        let here = left.min(buffer.len() - self.position);
        self.position += here;
        self.start = self.position;
        self.arguments_left -= usize::from(here == left);
        if let Some(discarding) = &mut self.discarding {
            discarding.bytes_left = left - here;
        }
        Ok(here == left)
    }

    /// The argument with this length is too much: from here on nothing of the request is kept.
    #[cold]
    fn begin_discarding(&mut self, buffer: &[u8], length: usize) -> Result<(), ProtocolError> {
        let limits = &self.limits;
        let excess = match length > limits.argument_bytes_max {
            true => Excess::Argument(length, limits.argument_bytes_max),
            false if !limits.is_authenticated => return Err(ProtocolError::TooBigRequest),
            false => Excess::Request(limits.request_bytes_max),
        };
        if self.is_http(buffer) {
            return Err(ProtocolError::CrossProtocol);
        }
        let bytes = &buffer[self.start..];
        let spans = std::mem::take(&mut self.spans);
        let arguments = spans.iter().map(|span| span.of(bytes));
        self.discarding = Some(Box::new(Discarding {
            request: Oversized::new(arguments, excess),
            bytes_left: length.saturating_add(LINE_END_BYTES),
        }));
        self.start = self.position;
        Ok(())
    }

    // A call costs a twentieth of reading a request.
    #[inline(always)]
    fn read_bulk_length(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let (length, header_bytes) = match buffer.get(self.position..) {
            // Nearly every header is one of these two; what they look at again is a few bytes.
            Some([b'$', ones @ b'0'..=b'9', b'\r', _, ..]) => (usize::from(ones - b'0'), 4),
            Some([b'$', tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..]) => {
                (usize::from(tens - b'0') * 10 + usize::from(ones - b'0'), 5)
            }
            None | Some([] | [b'$', ..]) => {
                let Some(line) = self.header(buffer, ProtocolError::TooBigBulkCount)? else {
                    return Ok(None);
                };
                let length = parse_integer(&line[1..]).and_then(|length| length.try_into().ok());
                (
                    length.ok_or(ProtocolError::InvalidBulkLength)?,
                    line.len() + LINE_END_BYTES,
                )
            }
            Some([other, ..]) => return Err(ProtocolError::ExpectedBulk(*other)),
        };
        if length > self.limits.bulk_bytes_max {
            return Err(match self.limits.is_authenticated {
                true => ProtocolError::InvalidBulkLength,
                false => ProtocolError::UnauthenticatedBulkLength,
            });
        }
        self.position += header_bytes;
        Ok(Some(length))
    }

    /// The line at the current position without its CR, once CR and the byte after it have arrived.
    ///
    /// Like Redis, it does not look at the byte after CR.
    fn header<'a>(
        &mut self,
        buffer: &'a [u8],
        too_long: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let Some(line) = self.line(buffer, b'\r', too_long)? else {
            return Ok(None);
        };
        Ok((buffer.len() >= self.position + line.len() + LINE_END_BYTES).then_some(line))
    }

    /// The bytes from the current position up to `end`, if it has arrived.
    fn line<'a>(
        &mut self,
        buffer: &'a [u8],
        end: u8,
        too_long: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let from = self.searched.max(self.position);
        let found = buffer[from..]
            .iter()
            .position(|byte| *byte == end)
            .map(|at| from + at);
        self.searched = found.unwrap_or(buffer.len());
        if self.searched - self.position > self.limits.inline_bytes_max {
            return Err(too_long);
        }
        Ok(found.map(|at| &buffer[self.position..at]))
    }

    fn read_inline(&mut self, buffer: &mut [u8]) -> Result<Step, ProtocolError> {
        let Some(line) = self.line(buffer, b'\n', ProtocolError::TooBigInlineRequest)? else {
            return Ok(Step::Incomplete);
        };
        let length = line.len();
        let start = self.position;
        let spans = &mut self.spans;
        split_inline(&mut buffer[start..start + length], |range| {
            spans.push(Span::new(range.start, range.end)?);
            Ok(())
        })?;
        self.position += length + 1;
        if self.spans.is_empty() {
            self.start = self.position;
            return Ok(Step::Advanced);
        }
        if self.spans.len() > self.limits.arguments_max {
            return Err(self.too_many_arguments());
        }
        Ok(Step::Complete)
    }

    /// Whether more arguments have arrived than fit without an allocation.
    #[cfg(test)]
    pub(super) fn spans_spilled(&self) -> bool {
        self.spans.spilled()
    }

    fn too_many_arguments(&self) -> ProtocolError {
        match self.limits.is_authenticated {
            true => ProtocolError::InvalidMultibulkLength,
            false => ProtocolError::UnauthenticatedMultibulkLength,
        }
    }
}

impl Request {
    /// Whether it is too large, and so has no arguments.
    pub fn is_oversized(&self) -> bool {
        self.spans.is_empty()
    }

    /// The arguments, the command's name first. There is always at least one, unless it is too large.
    ///
    /// # Panics
    /// When `buffer` is not the one this request was read from.
    #[inline]
    pub fn arguments<'a>(&self, buffer: &'a [u8]) -> Arguments<'a> {
        let bytes = &buffer[self.start..];
        self.spans.iter().map(|span| span.of(bytes)).collect()
    }

    /// One argument, counted from the command's name.
    ///
    /// # Panics
    /// When `buffer` is not the one this request was read from.
    pub fn argument<'a>(&self, index: usize, buffer: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = &buffer[self.start..];
        self.spans.get(index).map(|span| span.of(bytes))
    }

    /// Memory of this request beside the buffer and the request itself.
    pub fn memory(&self) -> usize {
        heap_bytes(&self.spans)
    }
}

enum Step {
    Incomplete,
    Advanced,
    Complete,
}

fn heap_bytes(spans: &Spans) -> usize {
    match spans.spilled() {
        true => spans.capacity() * size_of::<Span>(),
        false => 0,
    }
}

type Spans = SmallVec<[Span; ARGUMENTS_INLINE]>;

/// Where an argument is, relative to the beginning of its request. Small, so that a request of eight
/// arguments moves in one cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Result<Self, ProtocolError> {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Ok(Self { start, end }),
            _ => Err(ProtocolError::TooBigRequest),
        }
    }

    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// Splits an inline request (a line without its LF) into arguments, unescaped in place. The ranges are
/// relative to the line. A CR at the end of the line is a space like any other.
fn split_inline(
    line: &mut [u8],
    mut argument: impl FnMut(Range<usize>) -> Result<(), ProtocolError>,
) -> Result<(), ProtocolError> {
    let mut outcome = Ok(());
    let split = words::split(line, |range| {
        if outcome.is_ok() {
            outcome = argument(range);
        }
    });
    split.map_err(|_| ProtocolError::UnbalancedQuotes)?;
    outcome
}

/// Whether a request with this first word is what a browser sends. The connection is closed before
/// the body, which somebody else may have written, is executed.
fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

/// Requests of up to this many arguments need no allocation: `SET k v NX PX ms GET` has seven.
const ARGUMENTS_INLINE: usize = 8;
const LINE_END_BYTES: usize = 2;
