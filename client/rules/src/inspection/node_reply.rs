//! A node's reply, as a value.
//!
//! Nested arrays are replies as well: rows of LOCK.LIST, fields of a hash. Who reads it from a connection bounds its size and
//! its depth.

/// One reply of RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReply {
    /// A simple string, or bytes.
    Text(Vec<u8>),
    /// An error, with its code.
    Error(String),
    /// A number.
    Integer(i64),
    /// Nothing.
    Nil,
    /// Several replies.
    Array(Vec<NodeReply>),
}

impl NodeReply {
    /// Its bytes, if it has any.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Its number, if it is one that is not negative.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Its parts, if it is an array.
    #[must_use]
    pub fn parts(&self) -> Option<&[NodeReply]> {
        match self {
            Self::Array(parts) => Some(parts),
            _ => None,
        }
    }

    /// The value behind this name, in an array of names and values.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&NodeReply> {
        let mut pairs = self.parts()?.chunks_exact(2);
        let pair = pairs.find(|pair| pair[0].text() == Some(name.as_bytes()))?;
        Some(&pair[1]).filter(|value| **value != Self::Nil)
    }

    /// Why it is not what was asked for.
    #[must_use]
    pub fn refusal(&self) -> String {
        match self {
            Self::Error(text) => format!("refused: {text}"),
            _ => "it answers something else than was asked for".to_owned(),
        }
    }
}
