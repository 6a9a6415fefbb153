//! What a log holds, described once: each member has a name and a value for programs, and words for people.
//!
//! Invariant: bytes from a log reach no terminal as they are. Control characters are escaped, long values cut.

use std::fmt::{Display, Write as _};

use quorlock_server::inspection::NodeTime;
use serde_json::{Map, Value};

use crate::output::Format;

/// The text and the JSON object of one thing.
#[derive(Debug, Default)]
pub(crate) struct Printout {
    /// For people.
    pub(crate) text: String,
    /// For programs.
    pub(crate) object: Map<String, Value>,
}

impl Printout {
    /// A member, and what the text says of it.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>, words: impl Display) -> Self {
        let _ = write!(self.text, "{words}");
        self.object.insert(name.to_owned(), value.into());
        self
    }

    /// A member, and what the text says of it: `{}` stands for its value. The text leaves out one without value.
    pub(crate) fn noted(self, name: &str, value: impl Into<Value>, words: &str) -> Self {
        let value = value.into();
        let words = match &value {
            Value::Null => String::new(),
            Value::String(text) => words.replace("{}", text),
            other => words.replace("{}", &other.to_string()),
        };
        self.with(name, value, words)
    }

    /// A member that only programs need.
    pub(crate) fn with_hidden(self, name: &str, value: impl Into<Value>) -> Self {
        self.with(name, value, "")
    }

    /// A member whose text is its name and its value.
    pub(crate) fn with_named(self, name: &str, value: impl Into<Value>) -> Self {
        self.noted(name, value, &format!("  {name} {{}}"))
    }

    /// A member that is described itself.
    pub(crate) fn with_part(self, name: &str, part: Option<Printout>) -> Self {
        match part {
            Some(part) => self.with(name, part.object, part.text),
            None => self.with_hidden(name, Value::Null),
        }
    }

    /// A member that is a list. Behind `heading` the text has those of the first parts, and how many more there are.
    pub(crate) fn with_parts(
        self,
        name: &str,
        heading: &str,
        parts: impl Iterator<Item = Printout>,
        shown_max: usize,
    ) -> Self {
        let (texts, objects): (Vec<String>, Vec<Value>) =
            parts.map(|part| (part.text, part.object.into())).unzip();
        let more = match texts.len().saturating_sub(shown_max) {
            0 => String::new(),
            more => format!("  ... and {more} more"),
        };
        let shown: String = texts.into_iter().take(shown_max).collect();
        self.with(name, objects, format_args!("{heading}{shown}{more}"))
    }

    /// A member that holds bytes of the log, of which this many are shown.
    pub(crate) fn with_bytes(self, name: &str, words: &str, bytes: &[u8], shown: usize) -> Self {
        let shown = bytes.get(..shown).unwrap_or(bytes);
        let (dots, length) = match shown.len() < bytes.len() {
            true => ("...", format!("... ({} bytes)", bytes.len())),
            false => ("", String::new()),
        };
        // Strings of JSON have their own quotes.
        let shown = shown.escape_ascii();
        let words = format!("{words} \"{shown}\"{length}");
        self.with(name, format!("{shown}{dots}"), words)
    }

    /// In the format that is asked for.
    pub(crate) fn shown(self, format: Format) -> String {
        match format {
            Format::Text => self.text,
            Format::Json => Value::Object(self.object).to_string(),
        }
    }
}

/// Node time in seconds.
pub(crate) fn seconds(time: NodeTime) -> String {
    let nanoseconds = time.as_nanos();
    let rest = nanoseconds % 1_000_000_000;
    format!("{}.{rest:09} s", nanoseconds / 1_000_000_000)
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
        let bytes = b"a\x1b[2J\r\n\x00\xff\"\x7f\t";
        let description = || Printout::default().with_bytes("key", " key", bytes, 100);
        let text = description().shown(Format::Text);
        assert_eq!(text, r#" key "a\x1b[2J\r\n\x00\xff\"\x7f\t""#);
        let value = r#"a\x1b[2J\r\n\x00\xff\"\x7f\t"#;
        assert_eq!(description().object["key"], value);
    }

    #[test]
    fn what_is_cut_says_how_long_it_was() {
        for (shown, text, value) in [
            (4, " \"0123\"... (10 bytes)", "0123..."),
            (10, " \"0123456789\"", "0123456789"),
        ] {
            let description = Printout::default().with_bytes("key", "", b"0123456789", shown);
            assert_eq!(description.text, text);
            assert_eq!(description.object["key"], value);
        }
    }

    #[test]
    fn seconds_keep_their_nanoseconds() {
        assert_eq!(
            seconds(NodeTime::from_nanos(61_000_000_001)),
            "61.000000001 s"
        );
    }
}
