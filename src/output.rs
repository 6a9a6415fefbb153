//! What the command says: results on standard output, remarks on standard error.
//!
//! With `--json` a result is one JSON object on one line and a failure is one too. Writing to a
//! closed pipe is not an error: the reader that closed it wants no more. Only what must not get
//! lost, a lock's token, is delivered or fails.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::exit_code::Failure;

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for people and shells.
    Text,
    /// One JSON object per line.
    Json,
}

impl Format {
    pub(crate) fn from_json_flag(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }

    /// Writes a result: the text for people, or the value for programs.
    pub(crate) fn result(self, text: impl fmt::Display, value: &impl Serialize) {
        match self {
            Self::Text => line(text),
            Self::Json => match serde_json::to_string(value) {
                Ok(text) => line(text),
                Err(error) => remark(format_args!("this result has no JSON form: {error}")),
            },
        }
    }

    /// Writes a result without which the caller can do nothing, and says if that did not work.
    pub(crate) fn deliver(self, text: &[u8], value: &impl Serialize) -> io::Result<()> {
        let json;
        let bytes = match self {
            Self::Text => text,
            Self::Json => {
                json = serde_json::to_vec(value)?;
                &json
            }
        };
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.write_all(b"\n")?;
        stdout.flush()
    }

    /// Writes the answer to a question: where it cannot be written, the command has failed. Who has read enough of it
    /// wants no more, which is no failure.
    pub(crate) fn answer(self, text: &str, value: &impl Serialize) -> Result<(), Failure> {
        was_written(self.deliver(text.as_bytes(), value))
    }

    /// Reports a failure: as text on standard error, or as JSON on standard output.
    pub(crate) fn failure(self, failure: &Failure) {
        match self {
            Self::Text => remark(failure),
            // On a full disk it has to be said somewhere.
            Self::Json if self.deliver(b"", &failure.value()).is_err() => remark(failure),
            Self::Json => {}
        }
    }
}

/// What became of an answer on standard output.
pub(crate) fn was_written(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let what = format!("the answer cannot be written to standard output: {error}");
            Err(Failure::failed(what))
        }
        _ => Ok(()),
    }
}

/// Writes one line (or several) to standard output.
pub(crate) fn line(text: impl fmt::Display) {
    let mut stdout = io::stdout().lock();
    let _closed_pipe = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// Writes a remark to standard error, with the command's name in front.
pub(crate) fn remark(text: impl fmt::Display) {
    let _closed_pipe = writeln!(io::stderr().lock(), "quorlock: {text}");
}

/// A word of a command line to paste: a shell reads it as this text.
pub(crate) fn shell_word(text: impl fmt::Display) -> String {
    let text = text.to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+,:=@%".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Whether people watch standard output, so that a line may be rewritten in place.
pub(crate) fn is_watched() -> bool {
    io::stdout().is_terminal()
}

/// Back to the beginning of the line, and nothing on it. For terminals.
pub(crate) const ERASE_LINE: &str = "\r\x1b[2K";
