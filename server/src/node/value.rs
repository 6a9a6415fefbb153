//! What a node answers, as data of the program.
//!
//! Invariants: elements stay in the order in which they came, whatever they are, and depth costs no call stack. It reads what
//! this node has written: bytes that are no reply are one that never ends.

/// A reply of [`Node::call`](crate::Node::call): what RESP3 tells apart. Which kind a command answers with is in the book's list of
/// commands.
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
    /// Whether it is the status `OK`: of a `SET`, that the lock is taken.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Status(text) if text == "OK")
    }

    /// Its bytes, where it has any: the value of a `GET`, of a status its text.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Status(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// Its number, where it is a whole one: how many keys a `DEL` has deleted, what is left of a ttl.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

/// The reply at the beginning of `bytes`; `None` while its end is missing.
pub(super) fn read(mut bytes: &[u8]) -> Option<Value> {
    let mut open: Vec<Aggregate> = Vec::new();
    loop {
        let mut value = match take_part(&mut bytes)? {
            Part::Value(value) => value,
            Part::Begin(aggregate) if aggregate.missing == 0 => aggregate.into_value(),
            Part::Begin(aggregate) => {
                open.push(aggregate);
                continue;
            }
        };
        loop {
            let Some(mut aggregate) = open.pop() else {
                return Some(value);
            };
            aggregate.values.push(value);
            aggregate.missing -= 1;
            if aggregate.missing > 0 {
                open.push(aggregate);
                break;
            }
            value = aggregate.into_value();
        }
    }
}

enum Part {
    Value(Value),
    Begin(Aggregate),
}

/// Values of which some are still to be read. The keys of a map are values of their own here.
struct Aggregate {
    kind: u8,
    missing: usize,
    values: Vec<Value>,
}

impl Aggregate {
    fn into_value(self) -> Value {
        let mut values = self.values.into_iter();
        match self.kind {
            b'%' => {
                let pairs = std::iter::from_fn(|| Some((values.next()?, values.next()?)));
                Value::Map(pairs.collect())
            }
            b'~' => Value::Set(values.collect()),
            _ => Value::Array(values.collect()),
        }
    }
}

/// Takes the next value, or the header of an aggregate, off the bytes.
fn take_part(bytes: &mut &[u8]) -> Option<Part> {
    let whole = *bytes;
    let end = whole
        .windows(LINE_END.len())
        .position(|it| it == LINE_END)?;
    let (&kind, line) = whole[..end].split_first()?;
    let text = String::from_utf8_lossy(line);
    let mut rest = &whole[end + LINE_END.len()..];
    let value = match kind {
        b'$' | b'=' => {
            let length: usize = text.parse().ok()?;
            let body = rest.get(..length)?;
            rest = rest.get(length..)?.strip_prefix(LINE_END)?;
            // A text begins with its format, which has three letters, and a colon.
            let format = if kind == b'=' { 4 } else { 0 };
            Value::Bytes(body.get(format..)?.to_vec())
        }
        b'*' | b'>' | b'~' | b'%' => {
            let count: usize = text.parse().ok()?;
            *bytes = rest;
            return Some(Part::Begin(Aggregate {
                kind,
                missing: if kind == b'%' { 2 * count } else { count },
                values: Vec::new(),
            }));
        }
        b'_' => Value::Null,
        b'#' => Value::Boolean(line == b"t"),
        b':' => Value::Integer(text.parse().ok()?),
        b',' => Value::Double(text.parse().ok()?),
        b'-' => Value::Error(text.into_owned()),
        // A status, or the digits of a large number.
        _ => Value::Status(text.into_owned()),
    };
    *bytes = rest;
    Some(Part::Value(value))
}

const LINE_END: &[u8] = b"\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.into())
    }

    /// Every kind of RESP3, and as elements and keys kinds that cannot be hashed.
    #[test]
    fn a_reply_is_read_once_its_last_byte_has_come() {
        for (written, expected) in [
            ("+OK\r\n", Value::Status("OK".into())),
            ("-ERR no\r\n", Value::Error("ERR no".into())),
            (":-7\r\n", Value::Integer(-7)),
            (",1.5\r\n", Value::Double(1.5)),
            (",-inf\r\n", Value::Double(f64::NEG_INFINITY)),
            ("#t\r\n", Value::Boolean(true)),
            ("#f\r\n", Value::Boolean(false)),
            ("_\r\n", Value::Null),
            (
                "(12345678901234567890\r\n",
                Value::Status("12345678901234567890".into()),
            ),
            ("$0\r\n\r\n", bytes("")),
            ("$4\r\na\r\nb\r\n", bytes("a\r\nb")),
            ("=7\r\ntxt:abc\r\n", bytes("abc")),
            ("*0\r\n", Value::Array(Vec::new())),
            ("%0\r\n", Value::Map(Vec::new())),
            (
                "~1\r\n*1\r\n:1\r\n",
                Value::Set(vec![Value::Array(vec![Value::Integer(1)])]),
            ),
            (
                "*3\r\n*0\r\n*2\r\n:1\r\n_\r\n$1\r\nz\r\n",
                Value::Array(vec![
                    Value::Array(Vec::new()),
                    Value::Array(vec![Value::Integer(1), Value::Null]),
                    bytes("z"),
                ]),
            ),
            (
                "%2\r\n$1\r\nb\r\n:1\r\n*1\r\n$1\r\na\r\n:2\r\n",
                Value::Map(vec![
                    (bytes("b"), Value::Integer(1)),
                    (Value::Array(vec![bytes("a")]), Value::Integer(2)),
                ]),
            ),
        ] {
            for end in 0..written.len() {
                assert_eq!(
                    read(&written.as_bytes()[..end]),
                    None,
                    "{written:?} to {end}"
                );
            }
            assert_eq!(read(written.as_bytes()), Some(expected), "{written:?}");
        }
    }

    #[test]
    fn depth_costs_no_call_stack() {
        let mut written = "*1\r\n".repeat(100_000);
        assert_eq!(read(written.as_bytes()), None);
        written.truncate(4 * 1_000);
        written.push_str(":1\r\n");
        assert!(read(written.as_bytes()).is_some());
    }
}
