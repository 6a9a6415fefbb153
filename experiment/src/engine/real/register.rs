//! What the locks protect: a row for each lock, which holders read, change and write back.
//!
//! It refuses a holder whose fence is smaller than the largest it has seen, and takes everything from holders without
//! fences, which come with 0. Each holder counts its update by adding one to the number that
//! it has read, so that the database itself shows at the end that an update is missing; whose, the checks find in the
//! record.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client::{Client, Held, Scene};
#[cfg(feature = "sqlite")]
use super::database as store;
#[cfg(not(feature = "sqlite"))]
use super::map as store;
use super::register_row::RegisterRow;
use crate::engine::EngineError;
use crate::history::{Occurrence, Who};

pub use store::name as database_name;

/// All registers of a trial.
#[derive(Clone)]
pub(super) struct Registers {
    database: store::Database,
    order: Arc<Mutex<WriteOrder>>,
}

/// Held while a row is read or written and that is noted, so that the record has the order of the database.
#[derive(Default)]
struct WriteOrder {
    writes: u64,
    acknowledged: BTreeMap<String, u64>,
    failure: Option<String>,
}

/// One client's way to them: a connection of its own, and what it remembers of what it has read.
pub(super) struct RegisterClient {
    connection: Mutex<store::Connection>,
    seen: Mutex<BTreeMap<u64, u64>>,
    order: Arc<Mutex<WriteOrder>>,
}

impl Registers {
    /// Makes the database of a trial in its directory.
    pub(super) fn create(directory: &Path) -> Result<Registers, EngineError> {
        Ok(Registers {
            database: store::Database::create(directory).map_err(failed)?,
            order: Arc::default(),
        })
    }

    /// A client connects.
    pub(super) fn connect(&self) -> Result<RegisterClient, EngineError> {
        Ok(RegisterClient {
            connection: Mutex::new(self.database.connect().map_err(failed)?),
            seen: Mutex::default(),
            order: Arc::clone(&self.order),
        })
    }

    /// Once all clients are done: notes how many updates the database has acknowledged, and how many it counts.
    pub(super) fn read_back(&self, scene: &Scene) -> Result<(), EngineError> {
        let order = lock(&self.order);
        if let Some(failure) = &order.failure {
            return Err(failed(failure));
        }
        let connection = self.database.connect().map_err(failed)?;
        for (lock, writes) in &order.acknowledged {
            let row = connection.stored(lock).map_err(failed)?;
            let what = Occurrence::Stored {
                lock: lock.clone(),
                writes: *writes,
                count: row.count,
            };
            scene.note(Who::Harness, what);
        }
        Ok(())
    }
}

impl RegisterClient {
    /// The holder reads the row of its lock.
    pub(super) fn read(&self, client: &Client, held: &Held) {
        let mut order = lock(&self.order);
        match lock(&self.connection).read(&held.lock, held.fence) {
            Ok(Some(row)) => {
                lock(&self.seen).insert(held.hold, row.count);
                let (lock, hold, value) = (held.lock.clone(), held.hold, row.write);
                client.note(Occurrence::Read { lock, hold, value });
            }
            Ok(None) => note_stale(client, held),
            Err(error) => order.fail(&error),
        }
    }

    /// The holder adds one to what it has read, and writes that. One that was refused when it read writes nothing.
    pub(super) fn write(&self, client: &Client, held: &Held) {
        let mut order = lock(&self.order);
        let Some(seen) = lock(&self.seen).get(&held.hold).copied() else {
            return;
        };
        let row = RegisterRow {
            write: order.writes + 1,
            count: seen + 1,
        };
        match lock(&self.connection).write(&held.lock, held.fence, row) {
            Ok(false) => note_stale(client, held),
            Ok(true) => {
                order.writes = row.write;
                *order.acknowledged.entry(held.lock.clone()).or_default() += 1;
                let (lock, hold, value) = (held.lock.clone(), held.hold, row.write);
                client.note(Occurrence::Wrote { lock, hold, value });
            }
            Err(error) => order.fail(&error),
        }
    }
}

fn note_stale(client: &Client, held: &Held) {
    let (lock, hold) = (held.lock.clone(), held.hold);
    client.note(Occurrence::Stale { lock, hold });
}

impl WriteOrder {
    /// The first failure is reported at the end: it is none of the nodes'.
    fn fail(&mut self, error: &store::Error) {
        self.failure.get_or_insert_with(|| error.to_string());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: impl std::fmt::Display) -> EngineError {
    EngineError::failed(format_args!("the database of the trial: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_another_connection_has_written_it() {
        let home = tempfile::tempdir().expect("a directory");
        let database = store::Database::create(home.path()).expect("it is made");
        let connect = || database.connect().expect("it is there");
        let (one, other) = (connect(), connect());
        let read = |lock, fence| one.read(lock, fence).expect("it answers");
        assert_eq!(read("x", 0), Some(RegisterRow::default()));
        for count in 1..=2 {
            let row = RegisterRow {
                write: count + 10,
                count,
            };
            assert!(other.write("x", 0, row).expect("it takes it"));
            assert_eq!(read("x", 0), Some(row));
            assert_eq!(one.stored("x").expect("it answers"), row);
        }
        assert_eq!(read("y", 0), Some(RegisterRow::default()));
        assert!(!database_name().is_empty());
    }

    #[test]
    fn a_row_refuses_a_smaller_fence_than_it_was_read_or_written_with() {
        let home = tempfile::tempdir().expect("a directory");
        let database = store::Database::create(home.path()).expect("it is made");
        let row = RegisterRow { write: 1, count: 1 };
        let connection = database.connect().expect("it is there");
        let read = |fence| connection.read("x", fence).expect("it answers");
        let write = |fence| connection.write("x", fence, row).expect("it answers");
        assert!(read(7).is_some() && write(7) && write(7));
        assert_eq!((read(6), write(6)), (None, false));
        assert!(read(9).is_some(), "the next holder reads");
        assert!(!write(7), "and the one before writes no more");
        assert!(write(9));
    }
}
