//! The commands of one append-only file, each with its offset.
//!
//! Invariants: memory is bounded by what a node takes as one request, whatever the lengths in the file claim. A
//! command is given out only if its bytes are exactly those that Redis writes for its arguments, so that damage to a
//! length or a line end is found where it is. The bytes of an argument carry no checksum: damage there is not found.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use quorlock_engine::JOURNAL_BYTES_MAX;
use quorlock_node::protocol::{Arguments, Limits, RequestParser};

use super::{ImportError, open};

/// An append-only file that is read from its beginning.
#[derive(Debug)]
pub(super) struct CommandReader<R = File> {
    path: PathBuf,
    source: R,
    parser: RequestParser,
    buffer: Vec<u8>,
    /// Where in the buffer the next command begins.
    next: usize,
    /// Where that is in the file.
    offset: u64,
    has_ended: bool,
}

/// What comes next in a file.
#[derive(Debug)]
pub(super) enum FileItem<'a> {
    /// A command.
    Command {
        /// Where it begins.
        offset: u64,
        /// Its arguments, the name first.
        arguments: Arguments<'a>,
    },
    /// The file ends here, within a command.
    Partial {
        /// Where that command begins.
        offset: u64,
    },
    /// The file ends here.
    End {
        /// How long it is.
        offset: u64,
    },
}

impl CommandReader {
    /// Opens a file. One that begins with a snapshot (RDB) is refused.
    pub(super) fn open(path: &Path) -> Result<Self, ImportError> {
        Ok(Self::of(path, open(path)?))
    }
}

impl<R: Read> CommandReader<R> {
    pub(super) fn of(path: &Path, source: R) -> Self {
        Self {
            path: path.to_owned(),
            source,
            parser: RequestParser::new(Limits::authenticated(REQUEST_BYTES_MAX, REQUEST_BYTES)),
            buffer: Vec::new(),
            next: 0,
            offset: 0,
            has_ended: false,
        }
    }

    /// What comes next.
    pub(super) fn next_item(&mut self) -> Result<FileItem<'_>, ImportError> {
        loop {
            match self.find()? {
                Step::Found(length) => {
                    let (offset, begin) = (self.offset, self.next);
                    self.skip(length);
                    let bytes = &self.buffer[begin..begin + length];
                    let arguments = arguments_of(bytes)
                        .ok_or_else(|| self.damaged(offset, NOT_CANONICAL.to_owned()))?;
                    return Ok(FileItem::Command { offset, arguments });
                }
                Step::Skipped => {}
                Step::Incomplete if !self.has_ended => self.fill()?,
                Step::Incomplete => {
                    let offset = self.offset;
                    return match self.rest().is_empty() {
                        true => Ok(FileItem::End { offset }),
                        false => Ok(FileItem::Partial { offset }),
                    };
                }
            }
        }
    }

    /// What is left of the file behind the last command, once its end was reached.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.next..]
    }

    /// The bytes of its memory.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity() + self.parser.memory()
    }

    /// That the file is not what Redis has written, from this offset on.
    pub(super) fn damaged(&self, offset: u64, what: String) -> ImportError {
        ImportError::Damaged {
            file: self.path.clone(),
            offset,
            what,
        }
    }

    /// Looks for a command, or a line that is none, at the beginning of what was read.
    fn find(&mut self) -> Result<Step, ImportError> {
        let offset = self.offset;
        let rest = &mut self.buffer[self.next..];
        match rest.first() {
            None => return Ok(Step::Incomplete),
            Some(b'*') if is_line_of_text(rest) => {
                return Err(self.damaged(offset, LINE_FEED.to_owned()));
            }
            Some(b'*') => {}
            Some(b'#') => return self.skip_annotation(),
            Some(b'R') if offset == 0 && !self.has_ended && rest.len() < SNAPSHOT_MAGIC.len() => {
                return Ok(Step::Incomplete);
            }
            Some(b'R') if offset == 0 && rest.starts_with(SNAPSHOT_MAGIC) => {
                return Err(ImportError::Snapshot {
                    file: self.path.clone(),
                });
            }
            Some(&byte) => {
                let shown = std::ascii::escape_default(byte);
                return Err(self.damaged(
                    offset,
                    format!("a command has to begin here, with '*', and there is '{shown}'"),
                ));
            }
        }
        let found = self.parser.next_request(rest);
        match found {
            Err(error) => Err(self.damaged(offset, error.to_string())),
            Ok(_) if self.parser.is_discarding() => Err(self.damaged(offset, TOO_LARGE.to_owned())),
            Ok(None) => Ok(Step::Incomplete),
            Ok(Some(request)) if request.is_oversized() => {
                Err(self.damaged(offset, TOO_LARGE.to_owned()))
            }
            Ok(Some(_)) => Ok(Step::Found(self.parser.take_consumed())),
        }
    }

    /// A line that begins with `#` says when the commands behind it were executed (`aof-timestamp-enabled`).
    fn skip_annotation(&mut self) -> Result<Step, ImportError> {
        let line = self.rest().iter().position(|byte| *byte == b'\n');
        match line {
            Some(end) => {
                self.skip(end + 1);
                Ok(Step::Skipped)
            }
            None if self.rest().len() > ANNOTATION_BYTES_MAX => {
                Err(self.damaged(self.offset, "a line without an end".to_owned()))
            }
            None => Ok(Step::Incomplete),
        }
    }

    fn skip(&mut self, length: usize) {
        self.next += length;
        self.offset += length as u64;
    }

    fn fill(&mut self) -> Result<(), ImportError> {
        self.buffer.drain(..self.next);
        self.next = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + CHUNK_BYTES, 0);
        let read = loop {
            match self.source.read(&mut self.buffer[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let read = read.map_err(|cause| ImportError::Unreadable {
            path: self.path.clone(),
            cause,
        })?;
        self.buffer.truncate(filled + read);
        self.has_ended = read == 0;
        Ok(())
    }
}

enum Step {
    /// A command of so many bytes.
    Found(usize),
    /// A line that is none.
    Skipped,
    /// More has to be read.
    Incomplete,
}

/// The arguments of these bytes, if Redis writes exactly these bytes for them.
fn arguments_of(bytes: &[u8]) -> Option<Arguments<'_>> {
    let (count, mut rest) = header(bytes, b'*')?;
    let mut arguments = Arguments::new();
    for _ in 0..count {
        let (length, behind) = header(rest, b'$')?;
        let (argument, behind) = behind.split_at_checked(length)?;
        arguments.push(argument);
        rest = behind.strip_prefix(b"\r\n")?;
    }
    (rest.is_empty() && count > 0).then_some(arguments)
}

/// Whether the first line ends with LF alone.
fn is_line_of_text(bytes: &[u8]) -> bool {
    let end = bytes
        .iter()
        .take(DIGITS_MAX)
        .position(|byte| *byte == b'\n');
    end.is_some_and(|end| !bytes[..end].ends_with(b"\r"))
}

/// Whether these bytes, with which a file ends, are the beginning of what Redis writes: a line that is no command, or a command.
pub(super) fn is_beginning(bytes: &[u8]) -> bool {
    if bytes.starts_with(b"#") {
        return true;
    }
    let Some((count, mut rest)) = header(bytes, b'*') else {
        return is_header_cut(bytes, b'*');
    };
    for _ in 0..count {
        let Some((length, behind)) = header(rest, b'$') else {
            return is_header_cut(rest, b'$');
        };
        let Some((_, behind)) = behind.split_at_checked(length) else {
            return true;
        };
        let Some(next) = behind.strip_prefix(LINE_END) else {
            return LINE_END.starts_with(behind);
        };
        rest = next;
    }
    false
}

/// Whether these bytes are a header without its end.
fn is_header_cut(bytes: &[u8], mark: u8) -> bool {
    let Some((first, digits)) = bytes.split_first() else {
        return true;
    };
    let digits = digits.strip_suffix(b"\r").unwrap_or(digits);
    *first == mark && digits.len() < DIGITS_MAX && digits.iter().all(u8::is_ascii_digit)
}

/// A mark, a number in its shortest form, and a line end; with what follows.
fn header(bytes: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let bytes = bytes.strip_prefix(&[mark])?;
    let end = bytes
        .iter()
        .take(DIGITS_MAX)
        .position(|byte| *byte == b'\r')?;
    let (digits, rest) = bytes.split_at(end);
    let is_shortest = digits == b"0" || !digits.starts_with(b"0");
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && is_shortest;
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    Some((number.parse().ok()?, rest.strip_prefix(b"\r\n")?))
}

/// Where in these bytes another command seems to begin. Behind the beginning of a command that was cut off there is none,
/// unless a value holds the text of one.
pub(super) fn another_command(bytes: &[u8]) -> Option<usize> {
    let lines = bytes.windows(LINE_END.len()).enumerate();
    let mut begins = lines
        .filter(|(_, two)| *two == LINE_END)
        .map(|(at, _)| at + LINE_END.len());
    begins.find(|begin| {
        let rest = &bytes[*begin..];
        header(rest, b'*').is_some_and(|(_, behind)| header(behind, b'$').is_some())
    })
}

const LINE_END: &[u8] = b"\r\n";

const SNAPSHOT_MAGIC: &[u8] = b"REDIS";

const LINE_FEED: &str = "its lines end with LF alone, and Redis ends them with CR LF: the file was converted as if it were text";

pub(super) const NOT_CANONICAL: &str = "the lengths of this command do not fit its bytes";

const TOO_LARGE: &str = "this command claims to be larger than what a node takes at once (7 MiB)";

/// What a node takes as one request. What a command changes at once has to fit a frame of the log, so no larger one could be
/// executed.
const REQUEST_BYTES: u32 = 16 << 20;
const REQUEST_BYTES_MAX: usize = 512 << 20;

const ANNOTATION_BYTES_MAX: usize = 1024;

const CHUNK_BYTES: usize = 64 << 10;

/// Of a number of 64 bits, and its line end.
const DIGITS_MAX: usize = 21;

const _: () = assert!(JOURNAL_BYTES_MAX <= 7 << 20, "as the text says");
