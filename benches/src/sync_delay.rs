//! Makes every sync of a program take longer, as on a slower disk, and nothing else of it.
//!
//! The program runs under a seccomp filter that stops what can make data durable and asks this
//! process. A sync is let go on when its delay is over, each by its own deadline: those of several
//! threads run side by side. strace would slow all calls of a thread once it has injected into one.
//!
//! No other system call is a way round the delay. `fsync` and its kin are always stopped, and
//! `pwritev2` by its flags. A file opened with O_DSYNC (or O_SYNC, which includes it) is opened here
//! on behalf of the program, which gets it under a number from a reserved range; writes are stopped
//! by that number, and are delayed if the descriptor has O_DSYNC indeed. So no other write pays for
//! being looked at, such as replies to clients. A copy of such a descriptor stays in the range, and
//! `dup2`, which could leave it, fails. Asynchronous interfaces (io_uring, io_submit) and `openat2`
//! do not exist under the filter. What is left out: a descriptor passed through a socket.

mod calls;
mod kernel;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Resource, getrlimit, pidfd_getfd, pidfd_open,
};

use crate::clock;
use crate::cores::Cores;
use crate::failure::{Doing, Failure};
use calls::Kind;
use kernel::Listener;

/// Descriptors with O_DSYNC that one program may have at a time.
const RESERVED: u32 = 64;

/// Keeps the kernel's table of descriptors small where the limit is high.
const NUMBER_MAX: u32 = 4096;

/// How much of a path is read at a time: pages are multiples of it.
const PATH_CHUNK: usize = 256;

/// The kernel's own limit.
const PATH_BYTES_MAX: usize = 4096;

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
        let first_number = first_reserved_number();
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
                first_number,
                waiting: VecDeque::new(),
                seen: injector_seen,
            }
            .run();
        });
        // The filter is for good, so a thread that ends takes it; its children inherit it.
        let child = thread::scope(|scope| {
            let starter = scope.spawn(|| {
                let listener = Listener::install(&calls::filter(first_number))
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
        let probe = || Listener::install(&calls::filter(first_reserved_number())).map(drop);
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

/// Just below the limit of descriptors: programs get the lowest free number, so that few others
/// come there. A program may raise its limit, not this range.
fn first_reserved_number() -> u32 {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| u32::try_from(limit).ok());
    limit
        .unwrap_or(NUMBER_MAX)
        .min(NUMBER_MAX)
        .saturating_sub(RESERVED)
}

/// Answers the notifications of one program.
struct Injector {
    listener: Listener,
    delay: Duration,
    first_number: u32,
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
                if let Ok(notification) = self.listener.receive() {
                    self.take(&notification);
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

    fn take(&mut self, notification: &libc::seccomp_notif) {
        let caller = Caller::of(notification);
        let id = notification.id;
        let outcome = match calls::kind(&notification.data) {
            Some(Kind::Write(argument)) if !caller.is_synchronous(argument) => {
                self.listener.resume(id)
            }
            Some(Kind::Sync | Kind::Write(_)) => {
                let since = clock::now();
                self.waiting.push_back(Waiting { id, since });
                Ok(())
            }
            Some(Kind::Open { folder, path }) => self.open(&caller, id, folder, path),
            Some(Kind::Duplicate) => self.duplicate(&caller, id),
            Some(Kind::Refused) | None => self.listener.fail(id, Errno::NOSYS),
        };
        if let Err(error) = outcome {
            let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            // Another error: the caller has died meanwhile.
            let _ = self.listener.fail(id, error);
        }
    }

    /// Opens a file for synchronous writes on behalf of the caller, with the arguments it gave.
    fn open(
        &self,
        caller: &Caller<'_>,
        id: u64,
        folder: Option<usize>,
        path: usize,
    ) -> io::Result<()> {
        let path = caller.folder(folder).join(caller.path(path)?);
        if !self.listener.is_waiting(id) {
            return Ok(());
        }
        let after_path = if folder.is_some() { 2 } else { 1 };
        let flags = OFlags::from_bits_retain(caller.lower_half(after_path));
        let mode = Mode::from_raw_mode(caller.lower_half(after_path + 1));
        let file = openat(CWD, path, flags | OFlags::CLOEXEC, mode)?;
        self.give(caller, id, &file, flags.contains(OFlags::CLOEXEC))
    }

    /// Copies a descriptor of the reserved range within it.
    fn duplicate(&self, caller: &Caller<'_>, id: u64) -> io::Result<()> {
        let number = libc::c_long::from(caller.data.nr);
        let command = caller.lower_half(1).cast_signed();
        let on_exec = match (number, command) {
            (libc::SYS_fcntl, libc::F_DUPFD_CLOEXEC) => true,
            (libc::SYS_fcntl, libc::F_DUPFD) | (libc::SYS_dup, _) => false,
            (libc::SYS_fcntl, _) => return self.listener.resume(id),
            // The number is the caller's choice, so that it would leave the range.
            _ if caller.is_synchronous(0) => return self.listener.fail(id, Errno::PERM),
            _ => return self.listener.resume(id),
        };
        if !caller.is_synchronous(0) {
            return self.listener.resume(id);
        }
        self.give(caller, id, &caller.descriptor(0)?, on_exec)
    }

    fn give(
        &self,
        caller: &Caller<'_>,
        id: u64,
        file: &OwnedFd,
        is_closed_on_exec: bool,
    ) -> io::Result<()> {
        let end = self.first_number.saturating_add(RESERVED);
        let is_free = |number: &u32| {
            // The descriptors of a process: links that lead to no path.
            fs::symlink_metadata(caller.entry("fd").join(number.to_string())).is_err()
        };
        let number = (self.first_number..end).find(is_free).ok_or(Errno::MFILE)?;
        self.listener
            .answer_with(id, file.as_fd(), number, is_closed_on_exec)
    }
}

/// The thread whose call waits, as the kernel's process file system shows it.
struct Caller<'a> {
    thread: u32,
    data: &'a libc::seccomp_data,
}

impl<'a> Caller<'a> {
    fn of(notification: &'a libc::seccomp_notif) -> Self {
        Self {
            thread: notification.pid,
            data: &notification.data,
        }
    }

    fn entry(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.thread.to_string()).join(name)
    }

    /// An argument that is flags or a descriptor.
    fn lower_half(&self, argument: usize) -> u32 {
        let half = self.data.args[argument] & u64::from(u32::MAX);
        u32::try_from(half).unwrap_or_default()
    }

    /// Whether the descriptor that this argument names was opened for synchronous writes.
    fn is_synchronous(&self, argument: usize) -> bool {
        let number = self.lower_half(argument).to_string();
        let facts = fs::read_to_string(self.entry("fdinfo").join(number)).unwrap_or_default();
        let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|text| i32::from_str_radix(text.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_DSYNC != 0)
    }

    /// What a path that is not absolute begins from.
    fn folder(&self, argument: Option<usize>) -> PathBuf {
        let number = argument.map(|argument| self.lower_half(argument).cast_signed());
        match number {
            Some(number) if number >= 0 => self.entry("fd").join(number.to_string()),
            _ => self.entry("cwd"),
        }
    }

    /// The path that this argument points to, in the caller's memory.
    fn path(&self, argument: usize) -> io::Result<PathBuf> {
        let memory = File::open(self.entry("mem"))?;
        let mut address = self.data.args[argument];
        let mut text = Vec::new();
        let mut chunk = [0; PATH_CHUNK];
        while text.len() < PATH_BYTES_MAX {
            // Up to a multiple of the chunk's size: what follows the path need not be mapped.
            let offset = usize::try_from(address).map_err(io::Error::other)? % PATH_CHUNK;
            let part = &mut chunk[offset..];
            memory.read_exact_at(part, address)?;
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(&part[..end]);
                return Ok(OsString::from_vec(text).into());
            }
            text.extend_from_slice(part);
            address = address.saturating_add(part.len() as u64);
        }
        Err(Errno::NAMETOOLONG.into())
    }

    /// A descriptor of the caller, as one of this process.
    fn descriptor(&self, argument: usize) -> io::Result<OwnedFd> {
        let facts = fs::read_to_string(self.entry("status"))?;
        let process = facts.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let process = process.and_then(|text| text.trim().parse().ok());
        let process = process.and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        let number = self.lower_half(argument).cast_signed();
        Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?)
    }
}

#[cfg(test)]
mod tests;
