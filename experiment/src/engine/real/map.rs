//! The registers of a trial as a map in memory: for those who build without the feature `sqlite`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::register::RegisterRow;

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
pub(super) struct Connection(Arc<Mutex<BTreeMap<String, RegisterRow>>>);

impl Database {
    pub(super) fn create(_directory: &Path) -> Result<Database, Error> {
        Ok(Database(Connection::default()))
    }

    pub(super) fn connect(&self) -> Result<Connection, Error> {
        Ok(self.0.clone())
    }
}

impl Connection {
    pub(super) fn read(&self, lock: &str) -> Result<RegisterRow, Error> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(rows.get(lock).copied().unwrap_or_default())
    }

    pub(super) fn write(&self, lock: &str, row: RegisterRow) -> Result<(), Error> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.insert(lock.to_owned(), row);
        Ok(())
    }
}
