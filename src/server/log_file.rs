//! The file of the directive `logfile`, which others may move away or remove while the node runs.
//!
//! logrotate renames it and tells nobody: redis-server opens the file for each line, and its Debian
//! package relies on that. Here the file is kept open, so that a node without free descriptors can
//! still say so, and opened anew where another file or none has its name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Writes each line to the file that has the name at that moment, which is made where it is missing.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Why lines went elsewhere, as long as they do: it is said once.
    trouble: Option<String>,
}

impl LogFile {
    /// Opens the file, and makes it if it does not exist; its directory must exist.
    ///
    /// # Errors
    ///
    /// The system's, where it cannot be opened for appending.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        Ok(Self {
            file: append_to(&path)?,
            path,
            trouble: None,
        })
    }

    /// Opens the file anew where its name means another one or none.
    fn follow(&mut self) -> io::Result<()> {
        let named = fs::metadata(&self.path).map(|named| (named.dev(), named.ino()));
        let opened = self.file.metadata()?;
        if named.ok() != Some((opened.dev(), opened.ino())) {
            self.file = append_to(&self.path)?;
        }
        Ok(())
    }

    /// Says once why, and writes to standard error, so that what follows is not lost.
    fn write_elsewhere(&mut self, error: &io::Error, line: &[u8]) -> io::Result<()> {
        let mut output = io::stderr().lock();
        let trouble = format!("cannot write the log file {}: {error}", self.path.display());
        if self.trouble.as_ref() != Some(&trouble) {
            // The line itself matters more.
            let _said = writeln!(
                output,
                "{trouble}; messages go here until it can be written"
            );
            self.trouble = Some(trouble);
        }
        output.write_all(line)
    }
}

/// Takes a whole line, as `tracing_subscriber` writes it.
impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.follow().and_then(|()| self.file.write_all(line)) {
            Ok(()) => self.trouble = None,
            Err(error) => self.write_elsewhere(&error, line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn append_to(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
