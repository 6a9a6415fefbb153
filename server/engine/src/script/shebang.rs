//! The first line of a script, if it is `#!lua flags=...`, with Redis's rules and error texts.

use crate::error::ErrorReply;
use crate::words;

/// What the first line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The length of the line without its end, so that the numbers of the lines stay.
    pub(crate) bytes: usize,
    /// The script declares that it writes nothing.
    pub(crate) is_read_only: bool,
    /// The script may add to what keys take where they take too much.
    pub(crate) allows_oom: bool,
}

impl Head {
    /// Whether the script may run in any case where keys take too much.
    pub(crate) fn may_grow(&self) -> bool {
        self.allows_oom || self.is_read_only
    }
}

/// Reads the first line. A script without such a line has an empty head.
pub(crate) fn read(body: &[u8]) -> Result<Head, ErrorReply> {
    if !body.starts_with(b"#!") {
        return Ok(Head::default());
    }
    let Some(bytes) = body.iter().position(|&byte| byte == b'\n') else {
        return Err(const { ErrorReply::fixed("ERR Invalid script shebang") });
    };
    let words = words::split_owned(&body[..bytes]).unwrap_or_default();
    let words: Vec<_> = words.iter().map(|it| String::from_utf8_lossy(it)).collect();
    let Some((engine, options)) = words.split_first() else {
        return Err(const { ErrorReply::fixed("ERR Invalid engine in script shebang") });
    };
    if engine != "#!lua" {
        let text = format!("ERR Unexpected engine in script shebang: {engine}");
        return Err(ErrorReply::new(text));
    }
    let mut head = Head {
        bytes,
        ..Head::default()
    };
    for option in options {
        let Some(flags) = option.strip_prefix("flags=") else {
            let text = format!("ERR Unknown lua shebang option: {option}");
            return Err(ErrorReply::new(text));
        };
        for flag in flags.split(',').filter(|_| !flags.is_empty()) {
            if !FLAGS.contains(&flag) {
                let text = format!("ERR Unexpected flag in script shebang: {flag}");
                return Err(ErrorReply::new(text));
            }
            head.is_read_only |= flag == NO_WRITES;
            head.allows_oom |= flag == ALLOW_OOM;
        }
    }
    Ok(head)
}

const NO_WRITES: &str = "no-writes";

const ALLOW_OOM: &str = "allow-oom";

/// The others mean nothing to a node of its own.
const FLAGS: &[&str] = &[
    NO_WRITES,
    ALLOW_OOM,
    "allow-stale",
    "no-cluster",
    "allow-cross-slot-keys",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    #[test]
    fn the_first_line_is_read_and_its_end_stays() {
        assert_eq!(read(b"return 1").unwrap(), Head::default());
        assert_eq!(
            read(b"#!lua\nreturn 1").unwrap(),
            Head {
                bytes: 5,
                ..Head::default()
            }
        );
        let head = read(b"#!lua flags=allow-stale,no-writes\nreturn 1").unwrap();
        assert_eq!(
            head,
            Head {
                bytes: 33,
                is_read_only: true,
                allows_oom: false
            }
        );
    }

    /// Planted: words end at spaces alone, so that these are refused.
    #[test]
    fn words_may_be_quoted_as_everywhere() {
        for line in [
            "#!lua flags='no-writes'",
            "#!lua flags=\"no-writes\"",
            "#!lua 'flags=no-writes'",
            "#!\"lua\" flags=no\"-writes\"",
            "#!lua\tflags=\"no-\\x77rites\" ",
            "#!lua flags='allow-stale,no-writes' flags=''",
        ] {
            let head = read(format!("{line}\nreturn 1").as_bytes()).unwrap();
            assert!(head.is_read_only, "{line}");
            assert_eq!(head.bytes, line.len());
        }
        for line in ["#!lua flags='no-writes", "#!lua flags='no-writes'x", "#!\""] {
            let error = read(format!("{line}\nreturn 1").as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "ERR Invalid engine in script shebang");
        }
    }

    #[test]
    fn wrong_first_lines_are_refused_in_redis_words() {
        let cases: [(&[u8], &str); 4] = [
            (b"#!lua", "ERR Invalid script shebang"),
            (
                b"#!js\nreturn 1",
                "ERR Unexpected engine in script shebang: #!js",
            ),
            (
                b"#!lua name=a\nreturn 1",
                "ERR Unknown lua shebang option: name=a",
            ),
            (
                b"#!lua flags=foo\nreturn 1",
                "ERR Unexpected flag in script shebang: foo",
            ),
        ];
        for (body, text) in cases {
            assert_eq!(read(body).unwrap_err().to_string(), text);
        }
    }
}
