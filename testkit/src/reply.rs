//! A reply of RESP2 or RESP3 as a value, and as text that reads well in assertions.

use std::fmt;

/// A reply as it came: nothing is converted, and a status is no string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+`.
    Status(String),
    /// `-`, with its code.
    Error(String),
    /// `:`.
    Integer(i64),
    /// `$`; `None` for the null of RESP2.
    Bulk(Option<Vec<u8>>),
    /// `*`; `None` for the null array of RESP2.
    Array(Option<Vec<Reply>>),
    /// `_`.
    Null,
    /// `#`.
    Boolean(bool),
    /// `,`, as it was written.
    Double(String),
    /// `(`, as it was written.
    BigNumber(String),
    /// `=`, with its format in front.
    Verbatim(Vec<u8>),
    /// `%`: keys and values in turn.
    Map(Vec<Reply>),
    /// `~`.
    Set(Vec<Reply>),
    /// `>`.
    Push(Vec<Reply>),
}

impl Reply {
    /// The text of a bulk reply; empty for anything else.
    pub fn text(&self) -> String {
        match self {
            Self::Bulk(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }
    }
}

/// A line as it came with its first byte, a string as its text, `nil` and `nil array` for the nulls of RESP2,
/// `[a, b]` for what has elements.
impl fmt::Display for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(text) => write!(out, "+{text}"),
            Self::Error(text) => write!(out, "-{text}"),
            Self::Integer(number) => write!(out, ":{number}"),
            Self::Bulk(None) => out.write_str("nil"),
            Self::Bulk(Some(bytes)) | Self::Verbatim(bytes) => {
                out.write_str(&String::from_utf8_lossy(bytes))
            }
            Self::Array(None) => out.write_str("nil array"),
            Self::Null => out.write_str("_"),
            Self::Boolean(is_true) => out.write_str(if *is_true { "#t" } else { "#f" }),
            Self::Double(number) => write!(out, ",{number}"),
            Self::BigNumber(number) => write!(out, "({number}"),
            Self::Array(Some(items)) | Self::Map(items) | Self::Set(items) | Self::Push(items) => {
                let items: Vec<String> = items.iter().map(Self::to_string).collect();
                write!(out, "[{}]", items.join(", "))
            }
        }
    }
}
