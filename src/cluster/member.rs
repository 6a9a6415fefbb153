//! One node of a running cluster: its process, or its place inside the supervisor.
//!
//! A process is this executable as `quorlock server` with directives. It is only ever signalled
//! by its parent, before it was reaped, so its id cannot belong to another process.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use quorlock_server::MemoryDisk;
use rustix::process::{Pid, Signal, kill_process};

use super::embedded::{EmbeddedNode, LaunchMode, directives};
use super::home::ClusterHome;
use super::info::ServingState;
use super::manifest::Entry;
use super::view::{NodeView, ProcessState};
use crate::launch::{self, Bond};

/// A node and what runs it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) entry: Entry,
    home: ClusterHome,
    mode: LaunchMode,
    body: Body,
    state: ProcessState,
    /// Its last answer.
    pub(super) serving: ServingState,
    /// What an ephemeral node inside this process keeps from one start to the next.
    memory: Arc<MemoryDisk>,
}

#[derive(Debug)]
enum Body {
    Absent,
    Process(Child),
    Embedded(EmbeddedNode),
}

impl Member {
    pub(super) fn new(entry: Entry, home: ClusterHome, mode: LaunchMode) -> Self {
        Self {
            entry,
            home,
            mode,
            body: Body::Absent,
            state: ProcessState::Stopped,
            serving: ServingState::Silent,
            memory: Arc::default(),
        }
    }

    /// Starts the node if it does not run.
    pub(super) async fn start(&mut self) -> io::Result<()> {
        if !matches!(self.body, Body::Absent) {
            return Ok(());
        }
        self.body = if self.mode.in_process {
            let disk = Arc::clone(&self.memory);
            let node = EmbeddedNode::start(&self.entry, &self.home, &self.mode, disk).await?;
            // Of a node in memory nothing is known before.
            self.entry.id = node.id();
            Body::Embedded(node)
        } else {
            Body::Process(self.spawn()?)
        };
        self.state = ProcessState::Running;
        Ok(())
    }

    fn spawn(&self) -> io::Result<Child> {
        let number = self.entry.number;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.home.node_log(number))?;
        let mut command = launch::own(Bond::Killed);
        command.arg("server");
        command.arg("--port").arg(self.entry.port.to_string());
        command.arg("--dir").arg(self.home.node_directory(number));
        for (name, value) in directives(&self.mode) {
            command.arg(format!("--{name}")).arg(value);
        }
        command.current_dir(self.home.directory());
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
    }

    pub(super) fn is_running(&self) -> bool {
        !matches!(self.body, Body::Absent)
    }

    pub(super) fn is_embedded(&self) -> bool {
        matches!(self.body, Body::Embedded(_))
    }

    pub(super) fn state(&self) -> &ProcessState {
        &self.state
    }

    /// Sends a signal to the node's process, if it has one.
    fn signal(&self, signal: Signal) {
        if let Body::Process(child) = &self.body {
            // It may have ended meanwhile; it is a zombie then, for it was not reaped.
            let _ended = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Ends the node at once, without a chance to write anything, and waits for its end.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.body, Body::Absent) {
            Body::Absent => return Ok(()),
            Body::Embedded(node) => node.crash().await,
            Body::Process(mut child) => match child.kill().and_then(|()| child.wait()) {
                // It had ended by itself and was only waiting to be reaped.
                Ok(status) if describe(status).is_none() => {
                    self.state = ProcessState::Stopped;
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => {
                    self.body = Body::Process(child);
                    return Err(error);
                }
            },
        }
        self.state = ProcessState::Killed;
        Ok(())
    }

    pub(super) fn pause(&mut self) {
        self.signal(Signal::STOP);
        self.state = ProcessState::Paused;
    }

    pub(super) fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.state = ProcessState::Running;
    }

    /// Asks the node to stop cleanly; the end is seen by [`Self::reap`].
    pub(super) async fn ask_to_stop(&mut self) {
        match std::mem::replace(&mut self.body, Body::Absent) {
            Body::Embedded(node) => {
                self.state = match node.stop().await {
                    Ok(()) => ProcessState::Stopped,
                    Err(error) => ProcessState::Ended(error.to_string()),
                };
            }
            body => self.body = body,
        }
        self.signal(Signal::TERM);
        if self.state == ProcessState::Paused {
            self.signal(Signal::CONT);
        }
    }

    /// Stops the node cleanly and waits for it, with force in the end. Says whether it was clean.
    pub(super) async fn stop(&mut self) -> io::Result<bool> {
        self.ask_to_stop().await;
        let step = Duration::from_millis(5);
        let mut left = STOP_PATIENCE;
        while self.is_running() && left > Duration::ZERO {
            self.reap();
            tokio::time::sleep(step).await;
            left = left.saturating_sub(step);
        }
        self.kill().await?;
        Ok(self.state == ProcessState::Stopped)
    }

    /// Notices the end of the node's process, and says how it ended.
    pub(super) fn reap(&mut self) -> Option<&ProcessState> {
        let Body::Process(child) = &mut self.body else {
            return None;
        };
        let status = child.try_wait().ok().flatten()?;
        self.body = Body::Absent;
        self.state = match describe(status) {
            None => ProcessState::Stopped,
            Some(how) => ProcessState::Ended(how),
        };
        Some(&self.state)
    }

    pub(super) fn view(&self) -> NodeView {
        let number = self.entry.number;
        let pid = match &self.body {
            Body::Absent => None,
            Body::Process(child) => Some(child.id()),
            Body::Embedded(_) => Some(std::process::id()),
        };
        NodeView {
            number,
            id: self.entry.id.clone(),
            url: self.entry.url(),
            port: self.entry.port,
            pid,
            dir: self.home.node_directory(number),
            log: self.home.node_log(number),
            process: self.state.clone(),
        }
    }
}

/// How a process ended; None if cleanly.
fn describe(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => Some("an unknown end".to_owned()),
    }
}

/// A node that has not stopped after this time is killed.
pub(super) const STOP_PATIENCE: Duration = Duration::from_secs(10);
