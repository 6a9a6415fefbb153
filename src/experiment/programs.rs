//! The programs of lock services on this machine: their versions, and how their processes are started so that they end
//! with this one.

use std::io::ErrorKind;
use std::process::Command;
use std::sync::Arc;

use quorlock_experiment::compare::Etcd;
use quorlock_experiment::engine::real::{Launcher, ServerProgram};

use super::node::MARK;
use crate::launch::{self, Bond};

/// Nodes that are this executable.
pub(super) fn quorlock() -> ServerProgram {
    let launcher: Launcher = Arc::new(|boot| {
        let mut command = launch::own(Bond::Killed);
        match boot {
            None => command.arg("server"),
            Some(boot) => command
                .arg(MARK)
                .arg(std::process::id().to_string())
                .arg(boot.to_string()),
        };
        command
    });
    ServerProgram::quorlock(launcher)
}

/// redis-server, or why it cannot be started.
pub(super) fn redis() -> Result<ServerProgram, String> {
    let version = version(REDIS, "v=")?;
    Ok(ServerProgram::redis(launcher(REDIS), &version))
}

/// valkey-server, or why it cannot be started.
pub(super) fn valkey() -> Result<ServerProgram, String> {
    let version = version(VALKEY, "v=")?;
    Ok(ServerProgram::valkey(launcher(VALKEY), &version))
}

/// etcd, or why it cannot be started.
pub(super) fn etcd() -> Result<Etcd, String> {
    Ok(Etcd {
        version: version(ETCD, "etcd Version: ")?,
        launcher: launcher(ETCD),
    })
}

fn launcher(program: &'static str) -> Launcher {
    Arc::new(move |_| launch::command(Bond::Killed, program.as_ref(), program.as_ref()))
}

/// What a program says behind this mark when it is asked for its version.
fn version(program: &str, mark: &str) -> Result<String, String> {
    let told = Command::new(program).arg("--version").output();
    let told = told.map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{program} is not installed"),
        _ => format!("{program} cannot be started: {error}"),
    })?;
    let text = String::from_utf8_lossy(&told.stdout);
    let words = text.split(mark).nth(1).map(str::split_whitespace);
    let version = words.and_then(|mut words| words.next());
    Ok(version.unwrap_or("of an unknown version").to_owned())
}

const REDIS: &str = "redis-server";
const VALKEY: &str = "valkey-server";
const ETCD: &str = "etcd";
