//! The registers of a trial as a table of a SQLite database, one file in the trial's directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) use rusqlite::Error;
use rusqlite::OptionalExtension as _;

use super::register::RegisterRow;

/// What holds the registers.
pub fn name() -> String {
    format!("SQLite {}", rusqlite::version())
}

/// The database of a trial.
#[derive(Clone)]
pub(super) struct Database {
    file: PathBuf,
}

/// One client's connection.
pub(super) struct Connection(rusqlite::Connection);

impl Database {
    pub(super) fn create(directory: &Path) -> Result<Database, Error> {
        let database = Database {
            file: directory.join("registers.sqlite"),
        };
        let connection = database.connect()?.0;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute_batch(TABLE)?;
        Ok(database)
    }

    pub(super) fn connect(&self) -> Result<Connection, Error> {
        let connection = rusqlite::Connection::open(&self.file)?;
        connection.busy_timeout(BUSY_MAX)?;
        // Nothing strikes the database, and its syncs would be in the way of the nodes'.
        connection.pragma_update(None, "synchronous", "off")?;
        Ok(Connection(connection))
    }
}

impl Connection {
    pub(super) fn read(&self, lock: &str) -> Result<RegisterRow, Error> {
        let mut select = self.0.prepare(SELECT)?;
        let row = select.query_row([lock], |row| {
            Ok(RegisterRow {
                write: row.get(0)?,
                count: row.get(1)?,
            })
        });
        Ok(row.optional()?.unwrap_or_default())
    }

    pub(super) fn write(&self, lock: &str, row: RegisterRow) -> Result<(), Error> {
        let values = (lock, row.write, row.count);
        self.0.execute(UPSERT, values).map(drop)
    }
}

const BUSY_MAX: Duration = Duration::from_secs(5);
const TABLE: &str = "CREATE TABLE registers (lock TEXT PRIMARY KEY, write_id INTEGER NOT NULL, \
    updates INTEGER NOT NULL) STRICT";
const SELECT: &str = "SELECT write_id, updates FROM registers WHERE lock = ?1";
const UPSERT: &str = "INSERT INTO registers (lock, write_id, updates) VALUES (?1, ?2, ?3) \
    ON CONFLICT (lock) DO UPDATE SET write_id = excluded.write_id, updates = excluded.updates";
