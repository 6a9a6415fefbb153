//! Reads configuration text: one directive per line, `#` comments, quotes, `include`.
//!
//! Bounds: bytes and number of files of one configuration together, bytes of one line, depth of
//! includes. A later line overrides an earlier one.

use std::io::{Read, Take};
use std::path::{Path, PathBuf};

use super::catalogue::named;
use super::directive::INCLUDE;
use super::error::{ConfigError, Origin, Problem};
use super::password::IN_ARGUMENTS;
use super::{Config, Files, value};

/// Applies the lines of text to a configuration, within bounds that hold for all texts together.
pub(super) struct Reader<'a> {
    files: &'a dyn Files,
    bytes_left: u64,
    files_left: usize,
    /// Whether the file that holds the password is read as well.
    reads_password: bool,
    /// Lines that ask for what a node cannot be, unless a later line takes it back, as
    /// `redis.conf --daemonize no` does.
    refused: Vec<(&'static str, ConfigError)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(files: &'a dyn Files) -> Self {
        Self {
            files,
            bytes_left: BYTES_MAX,
            files_left: FILES_MAX,
            reads_password: true,
            refused: Vec::new(),
        }
    }

    /// One that leaves the file alone that holds the password.
    pub(super) fn without_password(files: &'a dyn Files) -> Self {
        Self {
            reads_password: false,
            ..Self::new(files)
        }
    }

    /// Reads the file named on the command line and remembers where it is.
    pub(super) fn read_file(
        &mut self,
        config: &mut Config,
        path: &Path,
    ) -> Result<(), ConfigError> {
        let text = self.load(path)?;
        config.file = self.files.absolute(path);
        self.apply_text(config, &text, None, 0)
    }

    /// Reads from an open stream, such as standard input.
    pub(super) fn read_stream(
        &mut self,
        config: &mut Config,
        stream: &mut dyn Read,
    ) -> Result<(), ConfigError> {
        let text = self.load_stream(stream.take(self.bytes_left + 1), Path::new("-"))?;
        self.apply_text(config, &text, None, 0)
    }

    /// Carries out one line. Nothing happens for an empty line or a comment.
    pub(super) fn apply_line(
        &mut self,
        config: &mut Config,
        line: &[u8],
        origin: Origin,
        depth: usize,
    ) -> Result<(), ConfigError> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(());
        }
        let refuse = |problem| ConfigError::Line {
            origin: origin.clone(),
            text: shown(line),
            problem,
        };
        let words = words(line).map_err(refuse)?;
        let Some((name, values)) = words.split_first() else {
            return Ok(());
        };
        if !name.eq_ignore_ascii_case(INCLUDE) {
            let outcome = config.set(name, values);
            let outcome = match self.reads_password {
                true => outcome.and_then(|()| config.read_password(self.files)),
                false => outcome,
            };
            let outcome = outcome.map_err(refuse);
            if name.eq_ignore_ascii_case("requirepass")
                && origin == Origin::CommandLine
                && config.requirepass.is_some()
            {
                config.replace_notice(name, Some(IN_ARGUMENTS.to_owned()));
            }
            return self.settle(name, outcome);
        }
        let path = value::one(values)
            .and_then(|path| included(path, depth))
            .map_err(refuse)?;
        if self.files_left == 0 {
            return Err(refuse(Problem::new(format!(
                "more than {FILES_MAX} files are included"
            ))));
        }
        let text = self.load(&path)?;
        self.apply_text(config, &text, Some(&path), depth + 1)
    }

    /// Says whether the configuration as a whole can be accepted. Called after the last line.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        self.refused
            .into_iter()
            .next()
            .map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The last line about a directive decides, also about whether it is refused.
    fn settle(&mut self, name: &str, outcome: Result<(), ConfigError>) -> Result<(), ConfigError> {
        let Some(directive) = named(name).filter(|directive| directive.is_overridable()) else {
            return outcome;
        };
        self.refused.retain(|(name, _)| *name != directive.name);
        if let Err(error) = outcome {
            self.refused.push((directive.name, error));
        }
        Ok(())
    }

    fn apply_text(
        &mut self,
        config: &mut Config,
        text: &[u8],
        included: Option<&Path>,
        depth: usize,
    ) -> Result<(), ConfigError> {
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line_number = index + 1;
            let origin = match included {
                Some(path) => Origin::Included {
                    path: path.to_owned(),
                    line: line_number,
                },
                None => Origin::File { line: line_number },
            };
            self.apply_line(config, line, origin, depth)?;
        }
        Ok(())
    }

    fn load(&mut self, path: &Path) -> Result<Vec<u8>, ConfigError> {
        self.files_left = self.files_left.saturating_sub(1);
        let file = self
            .files
            .open(path)
            .map_err(|error| ConfigError::Unreadable {
                path: path.to_owned(),
                error,
            })?;
        self.load_stream(file.take(self.bytes_left + 1), path)
    }

    /// Reads what the stream has, but never more than one byte beyond the bound.
    fn load_stream(
        &mut self,
        mut stream: Take<impl Read>,
        path: &Path,
    ) -> Result<Vec<u8>, ConfigError> {
        let mut text = Vec::new();
        stream
            .read_to_end(&mut text)
            .map_err(|error| ConfigError::Unreadable {
                path: path.to_owned(),
                error,
            })?;
        match self.bytes_left.checked_sub(text.len() as u64) {
            Some(left) => self.bytes_left = left,
            None => {
                let path = path.to_owned();
                return Err(ConfigError::TooLarge {
                    path,
                    bytes_max: BYTES_MAX,
                });
            }
        }
        Ok(text)
    }
}

/// The words of a line of a configuration file, in quotes or not.
///
/// # Errors
/// When it is too long, is no text, or has a quote that does not end.
pub fn words(line: &[u8]) -> Result<Vec<String>, Problem> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Problem::new(format!(
            "the line has more than {LINE_BYTES_MAX} bytes"
        )));
    }
    if line.contains(&0) {
        return Err(Problem::new(
            "the line contains a NUL byte; is this a text file?",
        ));
    }
    quorlock_engine::words::split_owned(line)
        .map_err(|_| Problem::new("Unbalanced quotes in configuration line"))?
        .into_iter()
        .map(|word| String::from_utf8(word).map_err(|_| Problem::new("the line is not UTF-8")))
        .collect()
}

fn included(path: &str, depth: usize) -> Result<PathBuf, Problem> {
    if depth >= DEPTH_MAX {
        Err(Problem::new(format!(
            "includes are nested more than {DEPTH_MAX} deep; does a file include itself?"
        )))
    } else if path.contains(['*', '?', '[']) {
        Err(Problem::new("include takes no patterns; name each file"))
    } else {
        Ok(PathBuf::from(path))
    }
}

/// The line as it appears in a message: short, on one line, and without a password.
fn shown(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let name = line.split_whitespace().next().unwrap_or_default();
    if named(name.trim_matches(['"', '\''])).is_some_and(|directive| directive.is_secret()) {
        return format!("{name} (hidden)");
    }
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let mut text: String = line.chars().take(SHOWN_CHARS_MAX).map(visible).collect();
    if line.chars().nth(SHOWN_CHARS_MAX).is_some() {
        text.push_str("...");
    }
    text
}

/// Redis's own, fully commented file has about 100 KiB.
pub(super) const BYTES_MAX: u64 = 4 * 1024 * 1024;
const FILES_MAX: usize = 64;
const LINE_BYTES_MAX: usize = 64 * 1024;
const DEPTH_MAX: usize = 8;
const SHOWN_CHARS_MAX: usize = 200;
