//! Whose nodes are tried: our own, or redis-server as the baseline.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::fake_clock::FakeClock;
use crate::cell::{Cell, Delay, Fault, FsyncMode};
use crate::plan::Plan;

/// How a node's process is started: the program and its first words, to which directives are added. A node of a boot is
/// one on the [machine](crate::machine::MachineControls) of the experiment, which takes orders on its standard input.
pub type Launcher = Arc<dyn Fn(Option<u64>) -> Command + Send + Sync>;

/// Whose nodes.
#[derive(Clone)]
pub struct ServerProgram {
    pub(super) launcher: Launcher,
    name: String,
    is_redis: bool,
}

impl ServerProgram {
    /// Our own.
    pub fn quorlock(launcher: Launcher) -> ServerProgram {
        ServerProgram {
            launcher,
            name: "real".to_owned(),
            is_redis: false,
        }
    }

    /// redis-server of this version, in the same schedules. A power cut takes its append-only file back to what was
    /// synced: all of it with `always`, nothing since the start with `no`. With `everysec` its syncs would have to be
    /// watched, which is not done.
    pub fn redis(launcher: Launcher, version: &str) -> ServerProgram {
        ServerProgram {
            launcher,
            name: format!("{REDIS} {version}"),
            is_redis: true,
        }
    }

    /// valkey-server of this version, which takes the same directives.
    pub fn valkey(launcher: Launcher, version: &str) -> ServerProgram {
        ServerProgram {
            name: format!("{VALKEY} {version}"),
            ..ServerProgram::redis(launcher, version)
        }
    }

    /// Whether an engine of this name tried redis-server, or its like.
    pub fn is_redis(name: &str) -> bool {
        name.starts_with(REDIS) || name.starts_with(VALKEY)
    }

    /// What it is called in files and reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why it cannot be tried in this cell.
    pub(super) fn refusal(&self, cell: &Cell) -> Option<&'static str> {
        let restarts = cell.fault.restarted(cell.nodes) > 0;
        match (cell.fsync, cell.fault) {
            (_, Fault::Failover) if !self.is_redis => {
                Some("Quorlock has no asynchronous replicas: try it with --server redis-server")
            }
            _ if !self.is_redis => None,
            _ if cell.fences.are_on() => Some("redis-server takes no fences"),
            (_, Fault::CapLowered | Fault::ModeChanged) => {
                Some("redis-server has no restart delay that a configuration could spoil")
            }
            (_, Fault::ExtensionLost | Fault::ReleaseLost) => Some(
                "redis-server before 7.2 cannot be asked to sync a grant, so nobody knows what else is lost",
            ),
            _ if restarts && cell.delay != Delay::Off => {
                Some("redis-server has no restart delay: try it with --restart-delay off")
            }
            (_, Fault::SlowSync | Fault::DiskFull) => {
                Some("redis-server runs on the machine of every day, whose disk nobody changes")
            }
            (_, Fault::WallClockStep) if FakeClock::library().is_none() => {
                Some("libfaketime is not on this machine (Debian: apt-get install libfaketime)")
            }
            (FsyncMode::Everysec, fault) if fault.is_power_loss() => {
                Some("what redis-server has synced with everysec is not watched")
            }
            _ => None,
        }
    }

    /// Whether the nodes run on the machine of the experiment. Others run on that of every day, whose page cache survives
    /// them.
    pub(super) fn needs_machine(&self, fault: Fault) -> bool {
        !self.is_redis && fault.needs_machine()
    }

    /// The wall clock that a process of redis-server is shown where the fault sets it.
    pub(super) fn fake_clock(
        &self,
        fault: Fault,
        parent: &Path,
        number: u8,
    ) -> io::Result<Option<FakeClock>> {
        let is_shown = self.is_redis && fault == Fault::WallClockStep;
        let library = FakeClock::library().filter(|_| is_shown);
        let file = parent.join(format!("node-{number}.clock"));
        library
            .map(|library| FakeClock::new(&library, &file))
            .transpose()
    }

    pub(super) fn directives(&self, cell: &Cell, plan: &Plan) -> Vec<(&'static str, String)> {
        let mut directives = cell.directives(plan.ttl, plan.restart_delay_max).to_vec();
        if self.is_redis {
            directives.truncate(2);
            directives.push(("save", String::new()));
            directives.push(("auto-aof-rewrite-percentage", "0".to_owned()));
        }
        directives
    }

    /// Takes from the directory of a node that was killed what a power cut takes from it, where the process has not kept
    /// it in its own memory.
    pub(super) fn forget_unsynced(&self, directory: &Path, fsync: FsyncMode) -> io::Result<()> {
        if !self.is_redis || fsync == FsyncMode::Always || fsync == FsyncMode::None {
            return Ok(());
        }
        for entry in fs::read_dir(directory.join("appendonlydir"))? {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(".incr.aof") {
                fs::OpenOptions::new().write(true).open(&path)?.set_len(0)?;
            }
        }
        Ok(())
    }
}

const REDIS: &str = "redis-server";
const VALKEY: &str = "valkey-server";
