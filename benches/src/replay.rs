//! The log that a start replays: locks of which four fifths are deleted again.
//!
//! The locks that stay have an hour, so that the replay finds them whenever it comes.

use std::io::{Read, Write};

use crate::failure::{Doing, Failure};
use crate::server::Server;

/// Sent at once, so that a node that syncs what has so long a TTL syncs seldom.
const LOCKS_PER_BATCH: u64 = 1000;
const DELETED_PER_BATCH: u64 = 800;
const OPERATIONS_PER_BATCH: u64 = LOCKS_PER_BATCH + DELETED_PER_BATCH;

/// Has the server log so many operations, in whole batches, and returns how many locks stay.
pub(crate) fn write_log(server: &Server, operations: u64) -> Result<u64, Failure> {
    let doing = "writing the log to replay";
    let mut connection = server.connect()?;
    let mut expected: Vec<u8> = Vec::new();
    (0..LOCKS_PER_BATCH).for_each(|_| expected.extend(b"+OK\r\n"));
    (0..DELETED_PER_BATCH).for_each(|_| expected.extend(b":1\r\n"));
    let mut replies = vec![0; expected.len()];
    let batches = operations / OPERATIONS_PER_BATCH;
    for batch in 0..batches {
        connection.write_all(&requests(batch)).doing(doing)?;
        connection.read_exact(&mut replies).doing(doing)?;
        if replies != expected {
            return Err(Failure::new(format!("{doing}: a command was refused")));
        }
    }
    Ok(batches * (LOCKS_PER_BATCH - DELETED_PER_BATCH))
}

fn requests(batch: u64) -> Vec<u8> {
    let name = |index: u64| format!("lock:{:012}", batch * LOCKS_PER_BATCH + index);
    let mut requests = Vec::new();
    for index in 0..LOCKS_PER_BATCH {
        let token = "0123456789abcdef0123";
        let command = ["SET", &name(index), token, "NX", "PX", "3600000"];
        requests.extend(quorlock_testkit::request(&command));
    }
    for index in 0..DELETED_PER_BATCH {
        requests.extend(quorlock_testkit::request(&["DEL", &name(index)]));
    }
    requests
}
