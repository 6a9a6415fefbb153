//! One node as a process of its own: its directory, its port, its lives.
//!
//! Invariant: a node that is made to lose power is killed under the storage backend for experiments, which has kept
//! everything that was not synced in the process's own memory, and starts again in another boot.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use quorlock_client_rules::inspection::node_reply::InfoText;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep, timeout};

use super::ask::ask;
use super::fake_clock::FakeClock;
use super::server::ServerProgram;
use crate::cell::{Cell, FsyncMode};
use crate::engine::EngineError;
use crate::engine::process::{Process, last_words};
use crate::plan::Plan;

/// A node.
pub(super) struct NodeProcess {
    pub(super) number: u8,
    pub(super) port: u16,
    directory: PathBuf,
    server: ServerProgram,
    fsync: FsyncMode,
    directives: Vec<(&'static str, String)>,
    /// Which boot its next start belongs to; none on the machine of every day.
    boot: Option<u64>,
    /// The wall clock that it is shown instead of this machine's.
    fake_clock: Option<FakeClock>,
    process: Option<Process>,
}

impl NodeProcess {
    /// A node that does not run yet, in a directory of its own below `parent`.
    pub(super) fn new(
        server: &ServerProgram,
        cell: &Cell,
        plan: &Plan,
        parent: &Path,
        number: u8,
        port: u16,
    ) -> io::Result<NodeProcess> {
        let directory = parent.join(format!("node-{number}"));
        fs::create_dir(&directory)?;
        Ok(NodeProcess {
            number,
            port,
            directory,
            server: server.clone(),
            fsync: cell.fsync,
            directives: server.directives(cell, plan),
            boot: server.needs_machine(cell.fault).then_some(1),
            fake_clock: server.fake_clock(cell.fault, parent, number)?,
            process: None,
        })
    }

    /// Starts the process.
    pub(super) fn start(&mut self) -> Result<(), EngineError> {
        let mut command = (self.server.launcher)(self.boot);
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .arg("--dir")
            .arg(&self.directory);
        for (name, value) in &self.directives {
            command.arg(format!("--{name}")).arg(value);
        }
        if let Some(clock) = &self.fake_clock {
            clock.show(&mut command);
        }
        let orders = match self.boot {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        let started = Process::start(command, orders, &self.log_path());
        let failed = |error| self.failed(format_args!("cannot be started: {error}"));
        self.process = Some(started.map_err(failed)?);
        Ok(())
    }

    /// Changes a directive for its next start.
    pub(super) fn configure(&mut self, name: &'static str, value: String) {
        self.directives.retain(|(known, _)| *known != name);
        self.directives.push((name, value));
    }

    /// Waits until the node answers, whatever it answers.
    pub(super) async fn await_answer(&mut self) -> Result<(), EngineError> {
        let give_up = Instant::now() + START_MAX;
        while ask(self.port, &[b"PING"]).await.is_err() {
            let process = self.process.as_mut();
            let ended = process.is_none_or(Process::has_ended);
            if ended || Instant::now() > give_up {
                return Err(self.failed_as_logged(match ended {
                    true => "ended when it started",
                    false => "does not answer",
                }));
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// `kill -9`, and waits for the end.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    /// The power goes: what the process has kept from the disk is gone with it, and the next start is in another boot.
    pub(super) fn lose_power(&mut self) -> Result<(), EngineError> {
        self.kill();
        self.boot = self.boot.map(|boot| boot + 1);
        let forgotten = self.server.forget_unsynced(&self.directory, self.fsync);
        forgotten.map_err(|error| {
            let node = self.number;
            EngineError::failed(format_args!(
                "what was not synced of node {node} cannot be taken: {error}"
            ))
        })
    }

    /// Asks it to end in an orderly way, and waits for that.
    pub(super) async fn stop(&mut self) -> Result<(), EngineError> {
        self.signal(Signal::TERM);
        let give_up = Instant::now() + STOP_MAX;
        while let Some(process) = &mut self.process {
            match process.0.try_wait() {
                Ok(None) if Instant::now() < give_up => sleep(LOOK_AGAIN).await,
                Ok(Some(status)) if status.success() => self.process = None,
                outcome => {
                    let what = format_args!("did not stop in an orderly way ({outcome:?})");
                    return Err(self.failed_as_logged(what));
                }
            }
        }
        Ok(())
    }

    /// Stops its process without ending it.
    pub(super) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            // It is not reaped yet, so its id is nobody else's; it may have ended.
            let _ended = kill_process(Pid::from_child(&process.0), signal);
        }
    }

    /// Gives its machine an order.
    pub(super) fn order(&mut self, order: &str) -> Result<(), EngineError> {
        let process = self.process.as_mut();
        let orders = process.and_then(|process| process.0.stdin.as_mut());
        let given = orders.map(|orders| writeln!(orders, "{order}").and_then(|()| orders.flush()));
        match given {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failed(format_args!("takes no orders: {order}"))),
        }
    }

    /// Lets each of its syncs take so much longer.
    pub(super) fn delay_syncs(&mut self, ms: u64) -> Result<(), EngineError> {
        self.order(&format!("sync-delay {ms}"))
    }

    /// Sets its wall clock, by so much from the true time.
    pub(super) fn step_wall(&mut self, ms: i64) -> Result<(), EngineError> {
        match &self.fake_clock {
            None => self.order(&format!("wall-step {ms}")),
            Some(clock) => clock.step(ms).map_err(|error| {
                let node = self.number;
                EngineError::failed(format_args!(
                    "the clock of node {node} cannot be set: {error}"
                ))
            }),
        }
    }

    /// Fills what the node has set aside on its disk, until it refuses to write. The keys are gone soon.
    pub(super) async fn use_up_space(&self) -> Result<(), EngineError> {
        let value = vec![b'f'; FILLER_BYTES];
        for number in 0..FILLERS_MAX {
            let key = format!("filler-{number}");
            let words: [&[u8]; 5] = [b"SET", key.as_bytes(), &value, b"PX", b"300"];
            if ask(self.port, &words).await.is_err() {
                return Ok(());
            }
        }
        Err(self.failed("goes on writing though its disk is full"))
    }

    /// A field of INFO as a number.
    pub(super) async fn info(&self, field: &str) -> Option<f64> {
        let reply = ask(self.port, &[b"INFO", b"everything"]).await.ok()?;
        InfoText::new(reply.text()?).number(field)
    }

    /// Whether the node knows the lock under this token.
    pub(super) async fn holds(&self, lock: &str, token: &[u8]) -> Option<bool> {
        let words: [&[u8]; 2] = [b"GET", lock.as_bytes()];
        let answer = timeout(LOOK_MAX, ask(self.port, &words)).await.ok()?;
        Some(answer.ok()?.text() == Some(token))
    }

    /// All that is in its files, for a look at them while it does not run.
    pub(super) fn disk(&self) -> Vec<Vec<u8>> {
        let folder = self.directory.join("appendonlydir");
        let directories = [&self.directory, &folder].map(|path| fs::read_dir(path).ok());
        let entries = directories.into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| fs::read(entry.ok()?.path()).ok());
        // Segments are made ahead and are zeros where nothing is written yet.
        let written = files.map(|mut bytes| {
            let end = bytes.iter().rposition(|byte| *byte != 0);
            bytes.truncate(end.map_or(0, |end| end + 1));
            bytes
        });
        written.collect()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.with_extension("log")
    }

    fn failed(&self, what: impl Display) -> EngineError {
        EngineError::failed(format_args!("node {} {what}", self.number))
    }

    fn failed_as_logged(&self, what: impl Display) -> EngineError {
        let words = last_words(&self.log_path());
        self.failed(format_args!("{what}. The end of its log:\n{words}"))
    }
}

const START_MAX: Duration = Duration::from_secs(20);
const STOP_MAX: Duration = Duration::from_secs(10);
/// A node that stands still is not waited for.
const LOOK_MAX: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const FILLER_BYTES: usize = 1 << 20;
/// More than a node sets aside.
const FILLERS_MAX: u32 = 128;
