//! What a node answers, as data of the program.

use redis_protocol::resp3::types::OwnedFrame;

/// A reply of [`Node::call`](crate::Node::call): what RESP3 tells apart.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// There is nothing: no such key, or a condition that was not met.
    Null,
    /// Yes or no.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction, of sorted sets for example.
    Double(f64),
    /// A status such as `OK`.
    Status(String),
    /// The bytes of a key's string, of an element, or of a longer text.
    Bytes(Vec<u8>),
    /// Several values in order.
    Array(Vec<Value>),
    /// Several values in no order.
    Set(Vec<Value>),
    /// Names and their values, in the order in which they came.
    Map(Vec<(Value, Value)>),
    /// An error within another value, with its code: of a script that returns several.
    Error(String),
}

impl Value {
    /// Whether it is the status `OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Status(text) if text == "OK")
    }

    /// Its bytes, where it has any.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Status(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// Its number, where it is a whole one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

impl From<OwnedFrame> for Value {
    fn from(frame: OwnedFrame) -> Self {
        let all = |frames: Vec<OwnedFrame>| frames.into_iter().map(Self::from).collect();
        match frame {
            OwnedFrame::Null => Self::Null,
            OwnedFrame::Boolean { data, .. } => Self::Boolean(data),
            OwnedFrame::Number { data, .. } => Self::Integer(data),
            OwnedFrame::Double { data, .. } => Self::Double(data),
            OwnedFrame::SimpleString { data, .. } | OwnedFrame::BigNumber { data, .. } => {
                Self::Status(text(&data))
            }
            OwnedFrame::BlobString { data, .. }
            | OwnedFrame::VerbatimString { data, .. }
            | OwnedFrame::ChunkedString(data) => Self::Bytes(data),
            OwnedFrame::SimpleError { data, .. } => Self::Error(data),
            OwnedFrame::BlobError { data, .. } => Self::Error(text(&data)),
            OwnedFrame::Array { data, .. } | OwnedFrame::Push { data, .. } => {
                Self::Array(all(data))
            }
            OwnedFrame::Set { data, .. } => Self::Set(all(data.into_iter().collect())),
            OwnedFrame::Map { data, .. } => {
                let pairs = data.into_iter();
                Self::Map(
                    pairs
                        .map(|(name, value)| (name.into(), value.into()))
                        .collect(),
                )
            }
            // A client says HELLO, never a node.
            OwnedFrame::Hello { .. } => Self::Null,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
