//! Bytes from a log as text that a terminal can show: control characters escaped, long values cut.

use std::fmt::Write as _;

use quorlock_server::inspection::NodeTime;

/// The first bytes, with everything escaped that is not printable ASCII, in quotes.
pub(crate) fn quoted(bytes: &[u8], bytes_max: usize) -> String {
    let shown = bytes.get(..bytes_max).unwrap_or(bytes);
    let mut text = format!("\"{}\"", shown.escape_ascii());
    if shown.len() < bytes.len() {
        let _ = write!(text, "... ({} bytes)", bytes.len());
    }
    text
}

/// The same without quotes, for JSON, whose strings have their own.
pub(crate) fn escaped(bytes: &[u8], bytes_max: usize) -> String {
    let shown = bytes.get(..bytes_max).unwrap_or(bytes);
    let dots = if shown.len() < bytes.len() { "..." } else { "" };
    format!("{}{dots}", shown.escape_ascii())
}

/// Node time in seconds.
pub(crate) fn seconds(time: NodeTime) -> String {
    let nanoseconds = time.as_nanos();
    let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    format!("{whole}.{rest:09} s")
}

/// A key is shown up to here.
pub(crate) const KEY_BYTES: usize = 128;
/// A value is shown up to here: enough to tell tokens apart, not enough to use one.
pub(crate) const VALUE_BYTES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        let text = quoted(b"a\x1b[2J\r\n\x00\xff\"\x7f", 100);
        assert_eq!(text, r#""a\x1b[2J\r\n\x00\xff\"\x7f""#);
        assert_eq!(escaped(b"a\tb", 100), r"a\tb");
    }

    #[test]
    fn what_is_cut_says_how_long_it_was() {
        assert_eq!(quoted(b"0123456789", 4), "\"0123\"... (10 bytes)");
        assert_eq!(quoted(b"0123", 4), "\"0123\"");
        assert_eq!(escaped(b"0123456789", 4), "0123...");
    }

    #[test]
    fn seconds_keep_their_nanoseconds() {
        assert_eq!(
            seconds(NodeTime::from_nanos(61_000_000_001)),
            "61.000000001 s"
        );
    }
}
