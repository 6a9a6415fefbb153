//! A node's bytes in the client's reader of replies.
//!
//! The same replies, pushes and errors come out however the bytes are cut. What is kept of a reply that is not complete is
//! bounded. A reply that is written out again is read as the same one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quorlock_client_rules::fuzzing::{Message, Replies};
use quorlock_fuzz::{Choices, pieces};
use redis_protocol::resp2::types::OwnedFrame;

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices::new(input);
    let flags = choices.byte();
    let is_resp3 = flags & 1 == 1;
    // Long replies are made of short inputs.
    let times = match flags & 2 {
        0 => 1,
        _ => choices.below(256) + 1,
    };
    let seed = u64::from(choices.short());
    let bytes = choices.rest().repeat(times);
    let whole = read([&bytes[..]], is_resp3);
    assert_eq!(read(pieces(&bytes, seed), is_resp3), whole, "cut by {seed}");
    if times == 1 {
        assert_eq!(read(bytes.chunks(1), is_resp3), whole, "byte by byte");
    }
    for message in whole.0 {
        if let Message::Reply(frame) = message {
            let mut bytes = Vec::new();
            if write(&frame, &mut bytes) {
                let again = read([&bytes[..]], is_resp3);
                assert_eq!(again, (vec![Message::Reply(frame)], None));
            }
        }
    }
});

/// Hands in the pieces one after the other, as a connection does; gives what came out, and the error that ended it.
fn read<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    is_resp3: bool,
) -> (Vec<Message>, Option<String>) {
    let mut replies = Replies::new(is_resp3);
    let mut messages = Vec::new();
    for piece in pieces {
        replies.append(piece);
        loop {
            match replies.take() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
        let kept = replies.buffered();
        assert!(kept <= KEPT_BYTES_MAX, "{kept} bytes are kept");
    }
    (messages, None)
}

/// Writes a reply in RESP2; false where RESP2 has no such reply.
fn write(frame: &OwnedFrame, out: &mut Vec<u8>) -> bool {
    let mut line = |kind: u8, text: &[u8]| {
        out.push(kind);
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    };
    match frame {
        OwnedFrame::SimpleString(text) => line(b'+', text),
        OwnedFrame::Error(text) => line(b'-', text.as_bytes()),
        OwnedFrame::Integer(number) => line(b':', number.to_string().as_bytes()),
        OwnedFrame::Null => line(b'$', b"-1"),
        OwnedFrame::BulkString(text) => {
            line(b'$', text.len().to_string().as_bytes());
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        // What comes of a longer map is no reply of RESP2, and an empty array none that the client asks for.
        OwnedFrame::Array(parts) if (1..=64).contains(&parts.len()) => {
            line(b'*', parts.len().to_string().as_bytes());
            return parts.iter().all(|part| write(part, out));
        }
        OwnedFrame::Array(_) => return false,
    }
    true
}

/// The part of a string that is kept, or a map, and a line.
const KEPT_BYTES_MAX: usize = (256 << 10) + (8 << 10);
