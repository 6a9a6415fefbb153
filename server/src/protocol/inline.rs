//! Inline requests: a line of words, as a person types them into telnet.
//!
//! This is also where a browser's HTTP request would land. Its first words are known here, so that the
//! connection can be closed before the body, which somebody else may have written, is executed.

use std::ops::Range;

use super::error::ProtocolError;
use super::words;

/// Splits one line (without its LF) into arguments, unescaped in place.
///
/// The ranges are relative to the line. A CR at the end of the line is a space like any other.
pub(super) fn split_request(
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

/// Whether a request with this first word is what a browser sends.
pub(super) fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}
