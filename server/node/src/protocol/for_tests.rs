//! What a client's bytes are read as, for the tests of the parser and for the fuzz target `requests`. It is compiled for them
//! alone.

use super::error::ProtocolError;
use super::limits::Limits;
use super::request::RequestParser;

/// What came out of the parser.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The arguments of a request.
    Request(Vec<Vec<u8>>),
    /// The first words of a request that is too large, and why it is.
    Oversized(Vec<Vec<u8>>, String),
    /// What ends the connection.
    Broken(ProtocolError),
}

/// Hands in the pieces one after the other, as a connection does.
///
/// # Panics
/// When more is kept of a request that is not complete than may be.
pub fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Vec<Outcome> {
    let mut parser = RequestParser::new(limits);
    let mut buffer = Vec::new();
    let mut outcomes = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next_request(&mut buffer) {
                Ok(None) => break,
                Ok(Some(request)) if request.is_oversized() => {
                    let oversized = parser.take_oversized();
                    let words = oversized.words().into_iter().map(<[u8]>::to_vec);
                    outcomes.push(Outcome::Oversized(words.collect(), oversized.to_string()));
                }
                Ok(Some(request)) => {
                    let arguments = request.arguments(&buffer).into_iter();
                    outcomes.push(Outcome::Request(arguments.map(<[u8]>::to_vec).collect()));
                }
                Err(error) => {
                    outcomes.push(Outcome::Broken(error));
                    return outcomes;
                }
            }
        }
        buffer.drain(..parser.take_consumed());
        let kept = buffer.len() + parser.memory();
        assert!(kept <= kept_max(&limits), "{kept} bytes are kept");
    }
    outcomes
}

/// The longest request, the longest line behind it, and where its arguments are.
fn kept_max(limits: &Limits) -> usize {
    let request = limits.request_bytes_max as usize;
    request + limits.inline_bytes_max + 16 * limits.arguments_max + 1024
}

/// A request as clients write it.
pub fn written(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// An error is one line, or nothing.
///
/// # Panics
/// When it is anything else.
pub fn check_reply(error: ProtocolError) {
    let mut reply = Vec::new();
    error.write_reply(&mut reply);
    if error == ProtocolError::CrossProtocol {
        assert!(reply.is_empty());
        return;
    }
    let text = reply.strip_suffix(b"\r\n").expect("a line ends");
    assert!(text.starts_with(b"-ERR Protocol error: ") && text.is_ascii());
    assert!(!text.contains(&b'\r') && !text.contains(&b'\n'));
}
