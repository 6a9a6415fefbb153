//! The steps of a run that are over, one on each line of a file, so that a run which was interrupted goes on with the rest.
//!
//! Invariant: a step is on its line as a whole, or it is carried out once more: a last line that was cut off while it was
//! written is left out. A line in the middle that no run has written is an error, which names it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The list of steps, which grows.
#[derive(Debug)]
pub(crate) struct StepLog<Step> {
    file: File,
    path: PathBuf,
    steps: PhantomData<fn(Step)>,
}

impl<Step: Serialize + DeserializeOwned> StepLog<Step> {
    /// A list that goes on behind what is there.
    pub(crate) fn open(path: PathBuf) -> Result<StepLog<Step>, ResultsError> {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(at(&path))?;
        Ok(StepLog {
            file,
            path,
            steps: PhantomData,
        })
    }

    /// Takes up a list that was interrupted. `admit` is given the steps before each one, and says what is wrong with it.
    ///
    /// # Errors
    /// If the file cannot be read or written, or is damaged.
    pub(crate) fn resume(
        path: PathBuf,
        admit: impl Fn(&[Step], &Step) -> Result<(), String>,
    ) -> Result<(StepLog<Step>, Vec<Step>), ResultsError> {
        let mut steps = Vec::new();
        let mut text = String::new();
        for (index, step) in read_lines(&path)?.into_iter().enumerate() {
            if let Err(reason) = admit(&steps, &step) {
                let line = index + 1;
                return Err(ResultsError::Damaged { path, line, reason });
            }
            text.push_str(&(compact(&step) + "\n"));
            steps.push(step);
        }
        replace(&path, text.as_bytes())?;
        Ok((StepLog::open(path)?, steps))
    }

    /// Lists a step that is over.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub(crate) fn add(&mut self, step: &Step) -> Result<(), ResultsError> {
        let line = compact(step) + "\n";
        let written = self.file.write_all(line.as_bytes());
        written.map_err(at(&self.path))
    }
}

/// Why results cannot be kept.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// A file cannot be written or read.
    #[error("{}: {source}. What was written before is kept", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds what no run has written.
    #[error("{}, line {line}: {reason}. The run cannot go on from a damaged file: restore it, or begin anew", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The disk is nearly full.
    #[error("{} has {free_mib} MiB of free space, and a run of this plan takes up to {needed_mib} MiB: free some, or name another directory", path.display())]
    Space {
        /// Where.
        path: PathBuf,
        /// What is free.
        free_mib: u64,
        /// What is needed.
        needed_mib: u64,
    },
}

/// What a file holds as JSON.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ResultsError> {
    let text = fs::read_to_string(path).map_err(at(path))?;
    serde_json::from_str(&text).map_err(|error| ResultsError::Damaged {
        path: path.to_owned(),
        line: error.line(),
        reason: error.to_string(),
    })
}

/// What a file holds line by line. A last line that was cut off while it was written is left out.
fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, ResultsError> {
    let text = fs::read_to_string(path).map_err(at(path))?;
    let lines: Vec<&str> = text.lines().collect();
    let mut values = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(value) => values.push(value),
            Err(_) if index + 1 == lines.len() && !text.ends_with('\n') => {}
            Err(error) => {
                return Err(ResultsError::Damaged {
                    path: path.to_owned(),
                    line: index + 1,
                    reason: error.to_string(),
                });
            }
        }
    }
    Ok(values)
}

/// A value as one line, without its end.
pub(crate) fn compact(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> ResultsError {
    let path = path.to_owned();
    move |source| ResultsError::File { path, source }
}

/// Replaces a file as a whole.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), ResultsError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    fs::write(&beside, bytes).map_err(at(&beside))?;
    fs::rename(&beside, path).map_err(at(path))
}
