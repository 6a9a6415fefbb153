//! The registers of a trial as a table of a SQLite database, one file in the trial's directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) use rusqlite::Error;
use rusqlite::OptionalExtension as _;

use super::register_row::RegisterRow;

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
    /// Reads a row for a holder with this fence, which the row remembers; none where it remembers a larger one.
    pub(super) fn read(&self, lock: &str, fence: u64) -> Result<Option<RegisterRow>, Error> {
        let mut claim = self.0.prepare(CLAIM)?;
        claim.query_row((lock, fence), row_of).optional()
    }

    /// The row as it stands, whatever its fence.
    pub(super) fn stored(&self, lock: &str) -> Result<RegisterRow, Error> {
        let mut select = self.0.prepare(SELECT)?;
        let row = select.query_row([lock], row_of).optional()?;
        Ok(row.unwrap_or_default())
    }

    /// Writes a row unless it remembers a larger fence. Says whether it did.
    pub(super) fn write(&self, lock: &str, fence: u64, row: RegisterRow) -> Result<bool, Error> {
        let values = (lock, row.write, row.count, fence);
        Ok(self.0.execute(UPSERT, values)? > 0)
    }
}

fn row_of(row: &rusqlite::Row<'_>) -> Result<RegisterRow, Error> {
    Ok(RegisterRow {
        write: row.get(0)?,
        count: row.get(1)?,
    })
}

const BUSY_MAX: Duration = Duration::from_secs(5);
const TABLE: &str = "CREATE TABLE registers (lock TEXT PRIMARY KEY, write_id INTEGER NOT NULL, \
    updates INTEGER NOT NULL, fence INTEGER NOT NULL) STRICT";
// A fence that is noted when its holder reads keeps an older holder from writing between that and the holder's own write.
const CLAIM: &str = "INSERT INTO registers (lock, write_id, updates, fence) VALUES (?1, 0, 0, ?2) \
    ON CONFLICT (lock) DO UPDATE SET fence = excluded.fence WHERE fence <= excluded.fence \
    RETURNING write_id, updates";
const SELECT: &str = "SELECT write_id, updates FROM registers WHERE lock = ?1";
const UPSERT: &str = "INSERT INTO registers (lock, write_id, updates, fence) VALUES (?1, ?2, ?3, ?4) \
    ON CONFLICT (lock) DO UPDATE SET write_id = excluded.write_id, updates = excluded.updates, fence = excluded.fence \
    WHERE fence <= excluded.fence";
