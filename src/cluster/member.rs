//! One node of a running cluster: its process, or its place inside the supervisor.
//!
//! A process is this executable as `quorlock server` with directives. It is only ever signalled
//! by its parent, before it was reaped, so its id cannot belong to another process.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use super::embedded::{EmbeddedNode, LaunchMode, directives};
use super::home::ClusterHome;
use super::info::ServingState;
use super::machine::Machine;
use super::manifest::Entry;
use super::proxy::LinkConditions;
use super::view::{NodeView, ProcessState};
use crate::duration;
use crate::launch::{self, Bond};

/// A node and what runs it.
#[derive(Debug)]
pub(super) struct ClusterMember {
    pub(super) entry: Entry,
    home: ClusterHome,
    mode: LaunchMode,
    instance: NodeInstance,
    state: ProcessState,
    /// Ends when it is started again: nodes inside the supervisor have no process whose number would say which is meant.
    pub(super) life: Arc<Life>,
    /// Its last answer.
    pub(super) serving: ServingState,
    /// What an ephemeral node runs on, and what it is reached by, from one start to the next.
    pub(super) machine: Machine,
    network: watch::Sender<LinkConditions>,
}

/// From one start of a node to the next.
#[derive(Debug, Default)]
pub(super) struct Life;

#[derive(Debug)]
enum NodeInstance {
    Absent,
    Process(Child),
    Embedded(EmbeddedNode),
}

impl ClusterMember {
    pub(super) fn new(entry: Entry, home: ClusterHome, mode: LaunchMode) -> Self {
        Self {
            entry,
            home,
            mode,
            instance: NodeInstance::Absent,
            state: ProcessState::Stopped,
            life: Arc::default(),
            serving: ServingState::Silent,
            machine: Machine::new(),
            network: watch::Sender::default(),
        }
    }

    /// Starts the node if it does not run.
    pub(super) async fn start(&mut self) -> io::Result<()> {
        if !matches!(self.instance, NodeInstance::Absent) {
            return Ok(());
        }
        self.instance = if self.mode.ephemeral {
            let (machine, network) = (&self.machine, self.network.subscribe());
            let node = EmbeddedNode::start_in_memory(&self.entry, &self.mode, machine, network);
            let node = node.await?;
            // Of a node in memory nothing is known before.
            self.entry.id = node.id();
            NodeInstance::Embedded(node)
        } else if self.mode.in_process {
            let node = EmbeddedNode::start(&self.entry, &self.home, &self.mode);
            NodeInstance::Embedded(node.await?)
        } else {
            NodeInstance::Process(self.spawn()?)
        };
        self.state = ProcessState::Running;
        self.life = Arc::default();
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
        command.arg("--dir").arg(self.home.node_directory(number));
        for (name, value) in directives(&self.mode, self.entry.port) {
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
        !matches!(self.instance, NodeInstance::Absent)
    }

    pub(super) fn is_embedded(&self) -> bool {
        matches!(self.instance, NodeInstance::Embedded(_))
    }

    pub(super) fn state(&self) -> &ProcessState {
        &self.state
    }

    /// Sends a signal to the node's process, if it has one.
    fn signal(&self, signal: Signal) {
        if let NodeInstance::Process(child) = &self.instance {
            // It may have ended meanwhile; it is a zombie then, for it was not reaped.
            let _ended = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Ends the node at once, without a chance to write anything, and waits for its end.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.instance, NodeInstance::Absent) {
            NodeInstance::Absent => return Ok(()),
            NodeInstance::Embedded(node) => node.crash().await,
            NodeInstance::Process(mut child) => match child.kill().and_then(|()| child.wait()) {
                // It had ended by itself and was only waiting to be reaped.
                Ok(status) if describe(status).is_none() => {
                    self.state = ProcessState::Stopped;
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => {
                    self.instance = NodeInstance::Process(child);
                    return Err(error);
                }
            },
        }
        self.change_network(|network| network.is_paused = false);
        self.state = ProcessState::Killed;
        Ok(())
    }

    /// Ends a node in memory as a power cut does. It may be down already, and loses what it has left unsynced.
    pub(super) async fn lose_power(&mut self) -> io::Result<()> {
        if let NodeInstance::Embedded(node) = &mut self.instance {
            // No client hears of what is synced from now on.
            node.disconnect().await;
        }
        let left = self.machine.synced();
        self.kill().await?;
        self.machine.boot_from(left);
        self.state = ProcessState::Killed;
        Ok(())
    }

    pub(super) fn pause(&mut self) {
        self.signal(Signal::STOP);
        self.change_network(|network| network.is_paused = true);
        self.state = ProcessState::Paused;
    }

    pub(super) fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.change_network(|network| network.is_paused = false);
        self.state = ProcessState::Running;
    }

    /// Changes what the network before a node in memory does; other nodes have none.
    pub(super) fn change_network(&self, change: impl FnOnce(&mut LinkConditions)) {
        self.network.send_modify(change);
    }

    /// Asks the node to stop cleanly; the end is seen by [`Self::reap`].
    pub(super) async fn ask_to_stop(&mut self) {
        match std::mem::replace(&mut self.instance, NodeInstance::Absent) {
            NodeInstance::Embedded(node) => {
                self.change_network(|network| network.is_paused = false);
                self.state = match node.stop().await {
                    Ok(()) => ProcessState::Stopped,
                    Err(error) => ProcessState::Ended(error.to_string()),
                };
            }
            instance => self.instance = instance,
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

    /// Notices that the node has ended by itself, and says how.
    pub(super) fn reap(&mut self) -> Option<&ProcessState> {
        let ended =
            match &mut self.instance {
                NodeInstance::Absent => None,
                NodeInstance::Embedded(node) => node.end(),
                NodeInstance::Process(child) => child.try_wait().ok().flatten().map(|status| {
                    describe(status).map_or(ProcessState::Stopped, ProcessState::Ended)
                }),
            };
        self.state = ended?;
        self.instance = NodeInstance::Absent;
        Some(&self.state)
    }

    /// Waits for a node inside the supervisor to serve where its restart delay has passed.
    pub(super) async fn leave_delay(&self) {
        if let NodeInstance::Embedded(node) = &self.instance {
            node.leave_delay().await;
        }
    }

    /// Where the supervisor reaches the node, whatever the network before it does.
    pub(super) fn direct_port(&self) -> u16 {
        match &self.instance {
            NodeInstance::Embedded(node) => node.port(),
            NodeInstance::Absent | NodeInstance::Process(_) => self.entry.port,
        }
    }

    /// The authority of its certificate, where it speaks TLS.
    pub(super) fn cacert(&self) -> Option<PathBuf> {
        self.mode.tls.as_ref().map(|it| it.authority.clone())
    }

    pub(super) fn view(&self) -> NodeView {
        let number = self.entry.number;
        let network = *self.network.borrow();
        let pid = match &self.instance {
            NodeInstance::Absent => None,
            NodeInstance::Process(child) => Some(child.id()),
            NodeInstance::Embedded(_) => Some(std::process::id()),
        };
        NodeView {
            number,
            id: self.entry.id.clone(),
            url: self.entry.url(self.mode.tls.is_some()),
            port: self.entry.port,
            direct_port: self.direct_port(),
            is_cut: network.is_cut,
            delay_ms: duration::whole_ms(network.delay),
            is_disk_full: self.machine.is_full(),
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
