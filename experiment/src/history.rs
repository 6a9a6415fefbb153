//! What happened in a trial, as one record per event: `history.jsonl`.
//!
//! Times are the observer's: nanoseconds of true time since the beginning of the trial, read by the engine and never by
//! what is under test.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::words::text_in_files;

/// Whose event it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Who {
    /// A client, by its name: `A` and `B` in directed schedules, `load-3` in the load.
    Client(String),
    /// A node, from 1 on.
    Node(u8),
    /// Whoever carries out the experiment.
    Harness,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// True time since the beginning of the trial.
    pub at_ns: u64,
    /// Whose event it is.
    pub who: Who,
    /// What happened.
    #[serde(flatten)]
    pub what: Occurrence,
}

/// What happened. `hold` numbers the holds of a trial; all events of one carry its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[allow(
    missing_docs,
    reason = "the fields are what their names say, times in ns of true time"
)]
pub enum Occurrence {
    /// A client asks for a lock.
    Asked { lock: String },
    /// A client got a lock, by a majority of which `nodes` are known.
    Acquired {
        lock: String,
        hold: u64,
        token: String,
        valid_until_ns: u64,
        nodes: Vec<u8>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<u64>,
    },
    /// A client did not get the lock.
    Refused { lock: String, why: String },
    /// The validity of a hold moved on.
    Extended {
        lock: String,
        hold: u64,
        valid_until_ns: u64,
    },
    /// The application looked and saw that its lock is valid.
    SeenValid { lock: String, hold: u64 },
    /// The client noticed that the lock is lost.
    Lost { lock: String, hold: u64 },
    /// The client gives the lock back: others may hold it from here on.
    ReleaseAsked { lock: String, hold: u64 },
    /// The release is over.
    Released { lock: String, hold: u64 },
    /// The holder has read the register that the lock protects.
    Read { lock: String, hold: u64, value: u64 },
    /// The holder has written the register; what it wrote rests on the value that it has read.
    Wrote { lock: String, hold: u64, value: u64 },
    /// The register has refused the holder, to read or to write: it has seen a larger fence.
    Stale { lock: String, hold: u64 },
    /// At the end of the trial: how many updates of the register the database has acknowledged, and how many it counts.
    Stored {
        lock: String,
        writes: u64,
        count: u64,
    },
    /// A node was seen to hold the lock.
    Granted { lock: String, hold: u64 },
    /// A node that has granted the lock no longer knows it, although it is neither released nor expired.
    Forgot { lock: String, hold: u64 },
    /// A node's process starts.
    Started,
    /// A node refuses locks for so long, as it says.
    Waiting { ms: u64 },
    /// A node grants locks.
    Serving,
    /// A node was killed; its page cache stays.
    Killed,
    /// A node has lost power.
    PowerLost,
    /// A node has stopped in an orderly way.
    Stopped,
    /// A node or a client stands still.
    Paused,
    /// It goes on.
    Resumed,
    /// A client's way to a node is cut.
    Cut { node: u8 },
    /// It is whole again.
    Joined { node: u8 },
    /// Each sync of a node takes so much longer; 0 ends it.
    SyncDelayed { ms: u64 },
    /// A node's disk has no space left.
    DiskFull,
    /// It has space again.
    DiskFreed,
    /// A node's wall clock was set.
    ClockStepped { ms: i64 },
    /// The fault of the cell begins.
    FaultBegins,
    /// All faults have ended: from here on every lock must be to be had within so much time.
    Healed { bound_ns: u64 },
    /// Words for people.
    Said { text: String },
}

/// Collects the records of one trial; shared by all who take part.
#[derive(Debug, Default)]
pub struct TrialHistory {
    records: Mutex<Vec<TrialRecord>>,
}

impl TrialHistory {
    /// Notes an event.
    pub fn note(&self, at_ns: u64, who: Who, what: Occurrence) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.push(TrialRecord { at_ns, who, what });
    }

    /// What is there so far, in the order of time.
    pub fn records(&self) -> Vec<TrialRecord> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = records.clone();
        records.sort_by_key(|record| record.at_ns);
        records
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Client(name) => write!(f, "client {name}"),
            Who::Node(number) => write!(f, "node {number}"),
            Who::Harness => f.write_str("harness"),
        }
    }
}

impl FromStr for Who {
    type Err = String;

    fn from_str(text: &str) -> Result<Who, String> {
        match text.split_once(' ') {
            None if text == "harness" => Ok(Who::Harness),
            Some(("client", name)) => Ok(Who::Client(name.to_owned())),
            Some(("node", number)) => {
                let number = number
                    .parse()
                    .map_err(|_| format!("'{text}' names no node"))?;
                Ok(Who::Node(number))
            }
            _ => Err(format!(
                "'{text}' is neither a client, nor a node, nor the harness"
            )),
        }
    }
}

text_in_files!(Who);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_flat_line_and_is_read_again() {
        let record = TrialRecord {
            at_ns: 17,
            who: Who::Client("A".to_owned()),
            what: Occurrence::Extended {
                lock: "directed".to_owned(),
                hold: 3,
                valid_until_ns: 90,
            },
        };
        let line = serde_json::to_string(&record).expect("a record has a text");
        assert_eq!(
            line,
            r#"{"at_ns":17,"who":"client A","event":"extended","lock":"directed","hold":3,"valid_until_ns":90}"#
        );
        assert_eq!(
            serde_json::from_str::<TrialRecord>(&line).expect("as it was written"),
            record
        );
        for who in [Who::Node(5), Who::Harness] {
            assert_eq!(who.to_string().parse(), Ok(who));
        }
    }
}
