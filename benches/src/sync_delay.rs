//! Makes every sync of a program take longer, as on a slower disk, and nothing else of it.
//!
//! The program runs under a seccomp filter that stops what can make data durable and asks this
//! process. A sync is let go on when its delay is over, each by its own deadline: those of several
//! threads run side by side. strace would slow all calls of a thread once it has injected into one.
//!
//! `fsync`, `fdatasync` and `sync_file_range` are what servers call; `calls` has the few others. A way round them
//! fails under the filter: O_DSYNC, io_uring and their kin. What is left out: a descriptor passed through a socket.

mod calls;
mod kernel;

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock;
use crate::cores::Cores;
use crate::failure::{Doing, Failure};
use kernel::Listener;

/// The delay of one running program and of what it starts.
pub(crate) struct SyncDelay {
    seen: Seen,
}

/// How long each sync was held back, in reality.
type Seen = Arc<Mutex<Vec<Duration>>>;

impl SyncDelay {
    /// Starts the program with every sync delayed. The program inherits the affinity of the calling
    /// thread; the timing of the delays may use both cores.
    pub(crate) fn start(
        command: &mut Command,
        delay: Duration,
        cores: Cores,
    ) -> Result<(Child, Self), Failure> {
        let seen = Seen::default();
        let (sender, receiver) = mpsc::channel();
        let injector_seen = Arc::clone(&seen);
        // It ends when the last filtered process has ended.
        thread::spawn(move || {
            let Ok(listener) = receiver.recv() else {
                return;
            };
            // Best effort both: less precise delays show in what was seen.
            let _ = cores.pin_to_all();
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            Injector {
                listener,
                delay,
                waiting: VecDeque::new(),
                seen: injector_seen,
            }
            .run();
        });
        // The filter is for good, so a thread that ends takes it; its children inherit it.
        let child = thread::scope(|scope| {
            let starter = scope.spawn(|| {
                let listener = Listener::install(&calls::filter())
                    .doing("installing a seccomp filter with a listener")?;
                let _ = sender.send(listener);
                let program = command.get_program().display().to_string();
                command.spawn().doing(format!("starting {program}"))
            });
            starter.join()
        });
        let child = child.map_err(|_| Failure::new("starting a delayed program panicked"))??;
        Ok((child, Self { seen }))
    }

    /// Whether programs can be delayed here; a sandbox, for example, may forbid it.
    pub(crate) fn probe() -> Result<(), Failure> {
        let probe = || Listener::install(&calls::filter()).map(drop);
        thread::spawn(probe)
            .join()
            .map_err(|_| Failure::new("probing seccomp panicked"))?
            .doing("seccomp user notification is not permitted here")
    }

    /// The delays since the last call.
    pub(crate) fn take_seen(&self) -> Vec<Duration> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Answers the notifications of one program.
struct Injector {
    listener: Listener,
    delay: Duration,
    /// All have the same delay: the first is due first.
    waiting: VecDeque<Waiting>,
    seen: Seen,
}

struct Waiting {
    id: u64,
    since: Duration,
}

impl Injector {
    fn run(mut self) {
        loop {
            self.resume_due();
            let wait = self
                .waiting
                .front()
                .map(|first| (first.since + self.delay).saturating_sub(clock::now()));
            let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
            let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
            match poll(&mut ready, wait.as_ref()) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(_) => return,
            }
            let events = ready[0].revents();
            if events.contains(PollFlags::IN) {
                // An error: the caller has died meanwhile.
                if let Ok(id) = self.listener.receive() {
                    let since = clock::now();
                    self.waiting.push_back(Waiting { id, since });
                }
            } else if events.intersects(PollFlags::HUP | PollFlags::ERR) {
                return;
            }
        }
    }

    fn resume_due(&mut self) {
        while let Some(first) = self.waiting.front() {
            let waited = clock::now().saturating_sub(first.since);
            if waited < self.delay {
                return;
            }
            // An error: the caller has died meanwhile.
            let _ = self.listener.resume(first.id);
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(waited);
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
