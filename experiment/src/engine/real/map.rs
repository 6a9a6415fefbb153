//! The registers of a trial as a map in memory: for those who build without the feature `sqlite`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::register_row::RegisterRow;

pub(super) type Error = Infallible;

/// What holds the registers.
pub fn name() -> String {
    "a map in memory (built without the feature sqlite)".to_owned()
}

/// The database of a trial.
#[derive(Clone)]
pub(super) struct Database(Connection);

/// One client's way to it.
#[derive(Clone, Default)]
pub(super) struct Connection(Arc<Mutex<BTreeMap<String, (u64, RegisterRow)>>>);

impl Database {
    pub(super) fn create(_directory: &Path) -> Result<Database, Error> {
        Ok(Database(Connection::default()))
    }

    pub(super) fn connect(&self) -> Result<Connection, Error> {
        Ok(self.0.clone())
    }
}

impl Connection {
    /// Reads a row for a holder with this fence, which the row remembers; none where it remembers a larger one.
    pub(super) fn read(&self, lock: &str, fence: u64) -> Result<Option<RegisterRow>, Error> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (newest, row) = rows.entry(lock.to_owned()).or_default();
        if *newest > fence {
            return Ok(None);
        }
        *newest = fence;
        Ok(Some(*row))
    }

    /// The row as it stands, whatever its fence.
    pub(super) fn stored(&self, lock: &str) -> Result<RegisterRow, Error> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(rows.get(lock).map(|(_, row)| *row).unwrap_or_default())
    }

    /// Writes a row unless it remembers a larger fence. Says whether it did.
    pub(super) fn write(&self, lock: &str, fence: u64, row: RegisterRow) -> Result<bool, Error> {
        let is_new = self.read(lock, fence)?.is_some();
        if is_new {
            let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            rows.insert(lock.to_owned(), (fence, row));
        }
        Ok(is_new)
    }
}
