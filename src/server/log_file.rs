//! The file of the directive `logfile`, which others may move away or remove while the node runs.
//!
//! logrotate renames it and tells nobody: redis-server opens the file for each line, and its Debian
//! package relies on that. Here the file is kept open, so that a node without free descriptors can
//! still say so, and opened anew where another file or none has its name: with each line, and when
//! [`LogFile::look`] is called, so that a node with nothing to say has its file as well.

use std::fs::{self, File, OpenOptions, Permissions};
use std::future::pending;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Writes each line to the file that has the name at that moment, which is made where it is missing.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Why lines go elsewhere, as long as they do: it is said once.
    trouble: Option<String>,
}

impl LogFile {
    /// Opens the file, and makes it for its owner alone if it does not exist; its directory must exist.
    ///
    /// # Errors
    ///
    /// The system's, where it cannot be opened for appending.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let file = append_to(&path)?;
        let state = State {
            file,
            trouble: None,
        };
        Ok(Self {
            path,
            state: Mutex::new(state),
        })
    }

    /// Makes the file anew if it was moved away.
    pub(super) fn look(&self) {
        self.with_state(|state| {
            if let Err(error) = self.follow(state) {
                // Where even that cannot be said, nobody listens.
                let _ = self.say_once(state, &error);
            }
        });
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // A line that a panic has cut is no reason to lose the others.
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens the file anew where its name means another one or none, for those who could read the last one.
    fn follow(&self, state: &mut State) -> io::Result<()> {
        let named = fs::metadata(&self.path).map(|named| (named.dev(), named.ino()));
        let opened = state.file.metadata()?;
        if named.as_ref().ok() != Some(&(opened.dev(), opened.ino())) {
            state.file = append_to(&self.path)?;
            if named.is_err() {
                let mode = Permissions::from_mode(opened.mode() & 0o777);
                // Where the system refuses, it is its owner's alone.
                let _ = state.file.set_permissions(mode);
            }
        }
        Ok(())
    }

    fn write_line(&self, line: &[u8]) -> io::Result<()> {
        self.with_state(|state| {
            let written = self.follow(state).and_then(|()| state.file.write_all(line));
            match written {
                Ok(()) => {
                    state.trouble = None;
                    Ok(())
                }
                // Standard error has it instead, so that what follows is not lost.
                Err(error) => self
                    .say_once(state, &error)
                    .and_then(|()| io::stderr().lock().write_all(line)),
            }
        })
    }

    /// Says on standard error that the file cannot be written, and why.
    fn say_once(&self, state: &mut State, error: &io::Error) -> io::Result<()> {
        let trouble = format!("cannot write the log file {}: {error}", self.path.display());
        if state.trouble.as_ref() == Some(&trouble) {
            return Ok(());
        }
        let said = format!("{trouble}; messages go here until it can be written\n");
        state.trouble = Some(trouble);
        io::stderr().lock().write_all(said.as_bytes())
    }
}

/// Takes a whole line, as `tracing_subscriber` writes it.
impl Write for &LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_line(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Looks after the file for ever, if there is one.
pub(crate) async fn kept(file: Option<&LogFile>) {
    let Some(file) = file else {
        return pending().await;
    };
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        file.look();
    }
}

fn append_to(path: &PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

/// A file that was moved away is made anew within a second.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
