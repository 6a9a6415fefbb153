//! The password of AUTH, and the file that it may be read from.
//!
//! Invariant: it appears in no message. A file is read once: behind its directive, or when the node starts.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::directive::Directive;
use super::times::{path, show_path};
use super::value::{one, text};
use super::{Config, Files, Problem};

/// The password of AUTH. It appears in no message, not even a debug one.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// None when it is empty: then nobody has to authenticate.
    pub(super) fn new(password: String) -> Option<Self> {
        (!password.is_empty()).then_some(Self(password))
    }

    /// The password itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(hidden)")
    }
}

/// Its directive.
pub(super) const DIRECTIVE: Directive = Directive::live(
    "requirepass",
    "\"\"",
    "up to 512 bytes",
    "The password that AUTH and HELLO must give. Empty: none.",
    set,
    show,
);

/// That of its file.
pub(super) const FILE: Directive = Directive::used(
    "requirepass-file",
    "\"\"",
    "a path",
    "A file that holds the password instead, as its only line. It is read at the start.",
    |c, v| set_file(c, path(one(v)?)?),
    |c| show_path(&c.requirepass_file),
);

fn set(config: &mut Config, values: &[String]) -> Result<(), Problem> {
    config.requirepass = Password::new(text(one(values)?, BYTES_MAX)?);
    config.requirepass_file = None;
    Ok(())
}

fn show(config: &Config) -> String {
    let password = config.requirepass.as_ref();
    password.map_or_else(String::new, |password| password.0.clone())
}

/// `requirepass-file`. An empty name takes back what an earlier line has read.
fn set_file(config: &mut Config, path: Option<PathBuf>) -> Result<(), Problem> {
    match path {
        None if config.requirepass_file.is_none() => {}
        None => (config.requirepass, config.requirepass_file) = (None, None),
        Some(path) => {
            (config.requirepass, config.requirepass_file) = (None, Some(path));
        }
    }
    Ok(())
}

impl Config {
    /// Reads the file that holds the password, if one does and was not read yet.
    pub fn read_password(&mut self, files: &dyn Files) -> Result<(), Problem> {
        if let (None, Some(path)) = (&self.requirepass, &self.requirepass_file) {
            self.requirepass = Some(read(files, path)?);
            let notice = files.is_public(path).then(|| PUBLIC_FILE.to_owned());
            self.replace_notice("requirepass-file", notice);
        }
        Ok(())
    }
}

/// An empty file is refused: it would leave the node open to everybody.
fn read(files: &dyn Files, path: &Path) -> Result<Password, Problem> {
    let mut bytes = Vec::new();
    let bytes_max = BYTES_MAX + LINE_END_BYTES_MAX;
    files
        .open(path)
        .and_then(|file| file.take(bytes_max as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| Problem::new(format!("the file cannot be read: {error}")))?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = String::from_utf8(line.to_vec()).ok();
    line.and_then(|line| text(&line, BYTES_MAX).ok())
        .and_then(Password::new)
        .ok_or_else(|| {
            Problem::new(format!(
                "the file must hold the password and nothing else: one line of UTF-8, 1 to {BYTES_MAX} bytes"
            ))
        })
}

/// What a start says of a password among the arguments.
pub(super) const IN_ARGUMENTS: &str = "every user of this machine can read the arguments of a process (ps), this \
    password too, and with it take or release every lock: write it into a configuration file, or into a file for \
    requirepass-file, that others may not read";

/// What a start says of a file that others may read.
const PUBLIC_FILE: &str = "every user of this machine can read the file, and with the password take or release every \
    lock: take away their permission with chmod o-r";

const BYTES_MAX: usize = 512;
const LINE_END_BYTES_MAX: usize = 2;
