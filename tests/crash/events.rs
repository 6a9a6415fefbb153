//! What happens while a node runs, in the order in which it does: requests that are executed, bytes that leave, and
//! changes of the disk.

use std::sync::{Arc, Mutex, MutexGuard};

use quorlock_node::simulation::Observer;
use quorlock_persistence::{MemoryDisk, Point};

use super::time::WorldClock;

/// One of them.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Executed(Executed),
    Sent(Sent),
    Changed(Point),
}

/// A request that was executed.
#[derive(Clone, Debug)]
pub(crate) struct Executed {
    /// The number of the client's session.
    pub(crate) session: u64,
    pub(crate) words: Vec<Vec<u8>>,
    /// Empty where the client is blocked.
    pub(crate) reply: Vec<u8>,
    /// How many clients that waited for an element were served until then.
    pub(crate) served: u64,
    pub(crate) raw_ns: u64,
    pub(crate) true_ns: u64,
}

/// Bytes that the client may know from here on.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) session: u64,
    pub(crate) bytes: Vec<u8>,
    /// The disk at that moment.
    pub(crate) disk: MemoryDisk,
}

/// The events of one run of a node.
#[derive(Debug)]
pub(crate) struct Events {
    disk: MemoryDisk,
    clock: Arc<WorldClock>,
    happened: Mutex<Vec<Event>>,
}

/// Notes what happens to one session.
struct Watcher {
    events: Arc<Events>,
    session: u64,
}

impl Events {
    pub(crate) fn new(disk: MemoryDisk, clock: Arc<WorldClock>) -> Arc<Events> {
        Arc::new(Events {
            disk,
            clock,
            happened: Mutex::default(),
        })
    }

    pub(crate) fn watcher(self: &Arc<Self>, session: u64) -> Arc<dyn Observer> {
        Arc::new(Watcher {
            events: Arc::clone(self),
            session,
        })
    }

    /// What has happened since the last call.
    pub(crate) fn take(&self) -> Vec<Event> {
        let mut happened = self.happened();
        happened.extend(self.disk.take_points().into_iter().map(Event::Changed));
        std::mem::take(&mut *happened)
    }

    fn happened(&self) -> MutexGuard<'_, Vec<Event>> {
        self.happened
            .lock()
            .expect("no holder of the events can panic")
    }
}

impl Observer for Watcher {
    fn executed(&self, arguments: &[&[u8]], reply: &[u8], served: u64) {
        let clock = &self.events.clock;
        let executed = Executed {
            session: self.session,
            words: arguments.iter().map(|word| word.to_vec()).collect(),
            reply: reply.to_vec(),
            served,
            raw_ns: clock.raw_ns(),
            true_ns: clock.true_ns(),
        };
        self.events.happened().push(Event::Executed(executed));
    }

    fn sent(&self, bytes: &[u8]) {
        let disk = &self.events.disk;
        let mut happened = self.events.happened();
        happened.extend(disk.take_points().into_iter().map(Event::Changed));
        happened.push(Event::Sent(Sent {
            session: self.session,
            bytes: bytes.to_vec(),
            disk: disk.after_process_end(),
        }));
    }
}
