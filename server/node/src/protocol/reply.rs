//! Writes replies as RESP2 or RESP3, and requests.
//!
//! Invariants: a line (status or error) never contains CR or LF, whatever a script put into it, so
//! no reply can forge another; nesting is walked with a stack of its own, so depth costs no call
//! stack. It does not decide what a command answers, only how that is spelt.

use std::sync::Arc;

use quorlock_engine::{Protocol, Reply, double_text};
use smallvec::SmallVec;

use super::Output;

/// Appends `reply` to `out`.
pub fn write(out: &mut Output, reply: &Reply, protocol: Protocol) {
    let mut open: SmallVec<[Level<'_>; DEPTH_INLINE]> = SmallVec::new();
    let mut next = Some(reply);
    while let Some(reply) = next {
        if let Some(level) = write_one(out, reply, protocol) {
            open.push(level);
        }
        next = loop {
            match open.last_mut() {
                None => break None,
                Some(level) => match level.next() {
                    Some(reply) => break Some(reply),
                    None => {
                        open.pop();
                    }
                },
            }
        };
    }
}

/// Appends the header of an array; its elements follow.
pub fn write_array_header(out: &mut Output, count: usize) {
    write_number(out.owned(), b'*', count);
}

/// Appends a bulk string.
pub fn write_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    write_number(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(LINE_END);
}

/// Appends a bulk string without copying it.
fn write_shared(out: &mut Output, bytes: &Arc<[u8]>) {
    write_number(out.owned(), b'$', bytes.len());
    out.push_shared(bytes);
    out.owned().extend_from_slice(LINE_END);
}

/// Appends an error: the whole text with its code, without `-`.
pub fn write_error(out: &mut Vec<u8>, text: &[u8]) {
    write_line(out, b'-', text);
}

/// What remains to be written of an aggregate.
enum Level<'a> {
    Items(std::slice::Iter<'a, Reply>),
    Pairs {
        pairs: std::slice::Iter<'a, (Reply, Reply)>,
        value: Option<&'a Reply>,
    },
}

impl<'a> Level<'a> {
    fn next(&mut self) -> Option<&'a Reply> {
        match self {
            Self::Items(items) => items.next(),
            Self::Pairs { pairs, value } => value.take().or_else(|| {
                let (key, next) = pairs.next()?;
                *value = Some(next);
                Some(key)
            }),
        }
    }
}

/// Writes a scalar, or the header of an aggregate and gives what is in it.
fn write_one<'a>(output: &mut Output, reply: &'a Reply, protocol: Protocol) -> Option<Level<'a>> {
    let out = output.owned();
    let is_resp3 = protocol == Protocol::Resp3;
    match reply {
        Reply::Ok => out.extend_from_slice(b"+OK\r\n"),
        Reply::Status(text) => write_line(out, b'+', text),
        Reply::Nil if is_resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::NilArray if is_resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
        Reply::Integer(0) => out.extend_from_slice(b":0\r\n"),
        Reply::Integer(1) => out.extend_from_slice(b":1\r\n"),
        Reply::Integer(value) => write_number(out, b':', *value),
        Reply::Bulk(bytes) => write_bulk(out, bytes),
        Reply::Shared(bytes) => write_shared(output, bytes),
        Reply::Double(value) => write_double(out, *value, is_resp3),
        Reply::BigNumber(digits) if is_resp3 => write_line(out, b'(', digits),
        Reply::BigNumber(digits) => write_bulk(out, digits),
        Reply::Boolean(true) if is_resp3 => out.extend_from_slice(b"#t\r\n"),
        Reply::Boolean(false) if is_resp3 => out.extend_from_slice(b"#f\r\n"),
        Reply::Boolean(true) => out.extend_from_slice(b":1\r\n"),
        Reply::Boolean(false) => out.extend_from_slice(b":0\r\n"),
        Reply::Verbatim(format, bytes) if is_resp3 => {
            write_number(out, b'=', bytes.len() + format.len() + 1);
            out.extend_from_slice(format);
            out.push(b':');
            out.extend_from_slice(bytes);
            out.extend_from_slice(LINE_END);
        }
        Reply::Verbatim(_, bytes) => write_bulk(out, bytes),
        Reply::Error(error) => write_error(out, error.as_bytes()),
        Reply::Array(items) => return Some(write_items(out, b'*', items)),
        Reply::Set(items) => {
            return Some(write_items(out, if is_resp3 { b'~' } else { b'*' }, items));
        }
        Reply::Push(items) => {
            return Some(write_items(out, if is_resp3 { b'>' } else { b'*' }, items));
        }
        Reply::Map(pairs) => {
            match is_resp3 {
                true => write_number(out, b'%', pairs.len()),
                false => write_number(out, b'*', pairs.len() * 2),
            }
            return Some(Level::Pairs {
                pairs: pairs.iter(),
                value: None,
            });
        }
    }
    None
}

/// Appends a request, as clients send it.
pub fn write_request(out: &mut Vec<u8>, words: &[&[u8]]) {
    write_number(out, b'*', words.len());
    for word in words {
        write_bulk(out, word);
    }
}

fn write_items<'a>(out: &mut Vec<u8>, kind: u8, items: &'a [Reply]) -> Level<'a> {
    write_number(out, kind, items.len());
    Level::Items(items.iter())
}

fn write_number(out: &mut Vec<u8>, kind: u8, value: impl itoa::Integer) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    out.extend_from_slice(LINE_END);
}

fn write_double(out: &mut Vec<u8>, value: f64, is_resp3: bool) {
    let text = double_text(value);
    if is_resp3 {
        write_line(out, b',', text.as_bytes());
    } else {
        write_bulk(out, text.as_bytes());
    }
}

/// A line is ended by the first CR or LF a client sees, so those in the text become spaces.
fn write_line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(text);
    for byte in &mut out[start..] {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    out.extend_from_slice(LINE_END);
}

const LINE_END: &[u8] = b"\r\n";
/// Replies nested deeper than this cost an allocation.
const DEPTH_INLINE: usize = 4;
