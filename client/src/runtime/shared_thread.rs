//! The thread that the clients of a process share.
//!
//! Invariant: it starts with the first client and ends with the last one. Clients arrive and the thread ends under one lock, so
//! none arrives at a thread that has ended. No call takes that lock: only a client that is built, and the thread's end.

use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::mpsc;

use super::client_io::Arrival;
use super::process::Process;
use super::thread::{self, RunningClients};

/// The shared thread of one process.
struct OfProcess {
    process: Process,
    arriving: Mutex<Option<mpsc::UnboundedSender<Arrival>>>,
    /// That of a process which was forked from this one. The fork may have copied the lock above while it was taken by a
    /// thread that stayed behind.
    of_child: OnceLock<Box<OfProcess>>,
}

static FIRST: OnceLock<OfProcess> = OnceLock::new();

/// Has a client run on the shared thread, which starts where it does not run.
pub(super) fn admit(arrival: Arrival) -> io::Result<()> {
    let of_process = OfProcess::current();
    let mut arriving = of_process.arriving();
    // A thread that has panicked takes no client.
    let refused = match &*arriving {
        Some(running) => running.send(arrival).err().map(|refused| refused.0),
        None => Some(arrival),
    };
    let Some(arrival) = refused else {
        return Ok(());
    };
    *arriving = Some(thread::start(arrival, |clients| of_process.run(clients))?);
    Ok(())
}

impl OfProcess {
    fn new() -> Self {
        Self {
            process: Process::current(),
            arriving: Mutex::new(None),
            of_child: OnceLock::new(),
        }
    }

    fn current() -> &'static Self {
        let mut found = FIRST.get_or_init(Self::new);
        while !found.process.is_current() {
            found = found.of_child.get_or_init(|| Box::new(Self::new()));
        }
        found
    }

    async fn run(&self, mut clients: RunningClients) {
        loop {
            clients.run().await;
            let mut arriving = self.arriving();
            if !clients.is_awaited() {
                *arriving = None;
                return;
            }
        }
    }

    fn arriving(&self) -> MutexGuard<'_, Option<mpsc::UnboundedSender<Arrival>>> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
