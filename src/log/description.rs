//! What a log holds, described once: each member has a name and a value for programs, and words for people.
//!
//! Invariant: bytes from a log reach no terminal as they are. Control characters are escaped, long values cut.

use std::fmt::{Display, Write as _};

use quorlock_server::inspection::NodeTime;
use serde_json::{Map, Value};

use crate::output::Format;

/// The text and the JSON object of one thing.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// For people.
    pub(crate) text: String,
    /// For programs.
    pub(crate) object: Map<String, Value>,
}

impl Description {
    /// A member, and what the text says of it.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>, words: impl Display) -> Self {
        let _ = write!(self.text, "{words}");
        self.object.insert(name.to_owned(), value.into());
        self
    }

    /// A member, and what the text says of it: `{}` stands for its value.
    pub(crate) fn noted(self, name: &str, value: impl Into<Value> + Display, words: &str) -> Self {
        let words = words.replace("{}", &value.to_string());
        self.with(name, value, words)
    }

    /// The same for a member that may be missing.
    pub(crate) fn noted_if(
        self,
        name: &str,
        value: Option<impl Into<Value> + Display>,
        words: &str,
    ) -> Self {
        match value {
            Some(value) => self.noted(name, value, words),
            None => self.with_hidden(name, Value::Null),
        }
    }

    /// A member that only programs need.
    pub(crate) fn with_hidden(self, name: &str, value: impl Into<Value>) -> Self {
        self.with(name, value, "")
    }

    /// A member whose text is its name and its value.
    pub(crate) fn with_named(self, name: &str, value: impl Into<Value> + Display) -> Self {
        self.noted(name, value, &format!("  {name} {{}}"))
    }

    /// A member that is described itself.
    pub(crate) fn with_part(self, name: &str, part: Option<Description>) -> Self {
        match part {
            Some(part) => self.with(name, part.object, part.text),
            None => self.with_hidden(name, Value::Null),
        }
    }

    /// A member that is a list, with `heading` before the texts of its parts.
    pub(crate) fn with_parts(
        self,
        name: &str,
        heading: &str,
        parts: impl Iterator<Item = Description>,
    ) -> Self {
        let mut text = heading.to_owned();
        let objects: Vec<Value> = parts
            .map(|part| {
                text.push_str(&part.text);
                part.object.into()
            })
            .collect();
        self.with(name, objects, text)
    }

    /// In the format that is asked for.
    pub(crate) fn shown(self, format: Format) -> String {
        match format {
            Format::Text => self.text,
            Format::Json => Value::Object(self.object).to_string(),
        }
    }
}

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
