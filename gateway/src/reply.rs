//! What is said to a client: replies as nodes give them.

use std::io::Write as _;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Ok,
    Number(i64),
    Text(Vec<u8>),
    Null,
    /// With its code.
    Error(String),
    Array(Vec<Reply>),
    /// What HELLO 3 is answered with.
    Map(Vec<(&'static str, String)>),
    /// What nobody has asked for.
    Push(Vec<Reply>),
}

impl Reply {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ok => out.extend_from_slice(b"+OK\r\n"),
            Self::Number(number) => line(out, ':', &number.to_string()),
            Self::Text(text) => {
                line(out, '$', &text.len().to_string());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            Self::Null => out.extend_from_slice(b"$-1\r\n"),
            // The words of another system may have line breaks.
            Self::Error(words) => line(out, '-', &words.replace(char::is_control, " ")),
            Self::Array(parts) => parts_of(out, '*', parts),
            Self::Map(pairs) => {
                line(out, '%', &pairs.len().to_string());
                for (name, value) in pairs {
                    Self::text(name).write(out);
                    Self::text(value).write(out);
                }
            }
            Self::Push(parts) => parts_of(out, '>', parts),
        }
    }
}

fn parts_of(out: &mut Vec<u8>, kind: char, parts: &[Reply]) {
    line(out, kind, &parts.len().to_string());
    parts.iter().for_each(|part| part.write(out));
}

fn line(out: &mut Vec<u8>, kind: char, text: &str) {
    write!(out, "{kind}{text}\r\n").expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_those_of_a_node() {
        let text = |reply: &Reply| {
            let mut out = Vec::new();
            reply.write(&mut out);
            String::from_utf8(out).expect("all of it is text")
        };
        let parts = vec![Reply::Number(-1), Reply::Null, Reply::text("a")];
        assert_eq!(
            text(&Reply::Array(parts.clone())),
            "*3\r\n:-1\r\n$-1\r\n$1\r\na\r\n"
        );
        assert!(text(&Reply::Push(parts)).starts_with(">3\r\n"));
        assert_eq!(
            text(&Reply::Map(vec![("a", "b".to_owned())])),
            "%1\r\n$1\r\na\r\n$1\r\nb\r\n"
        );
        assert_eq!(
            text(&Reply::Error("ERR a\r\nb".to_owned())),
            "-ERR a  b\r\n"
        );
        assert_eq!(text(&Reply::Ok), "+OK\r\n");
    }
}
