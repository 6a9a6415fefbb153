//! What a run tries: our own nodes, as processes or simulated, or redis-server as the baseline.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use quorlock_experiment::engine::Engine;
use quorlock_experiment::engine::real::{Launcher, RealEngine, Server};
use quorlock_experiment::engine::simulated::SimulatedEngine;

use super::node::MARK;
use crate::exit_code::Failure;
use crate::launch::{self, Bond};

/// What the nodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Nodes {
    /// Processes on this machine.
    Real,
    /// Simulated ones, thousands of trials a minute.
    Simulated,
}

/// Whose nodes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Product {
    Quorlock,
    RedisServer,
}

/// The engine of a run.
///
/// # Errors
/// If there is no such engine, or what it needs is not on this machine.
pub(super) fn engine(
    nodes: Nodes,
    product: Product,
    scratch: &Path,
) -> Result<Box<dyn Engine>, Failure> {
    let server = match (nodes, product) {
        (Nodes::Simulated, Product::Quorlock) => return Ok(Box::new(SimulatedEngine)),
        (Nodes::Simulated, Product::RedisServer) => {
            return Err(
                super::failed("redis-server cannot be simulated; nothing was tried")
                    .remedy("leave --engine simulated out"),
            );
        }
        (Nodes::Real, Product::Quorlock) => Server::quorlock(own()),
        (Nodes::Real, Product::RedisServer) => redis()?,
    };
    let engine = RealEngine::new(server, scratch.to_owned()).map_err(super::failed)?;
    Ok(Box::new(engine))
}

/// What an engine of this name has tried.
pub(super) fn of_name(name: &str) -> (Nodes, Product) {
    match name {
        SIMULATED => (Nodes::Simulated, Product::Quorlock),
        name if Server::is_redis(name) => (Nodes::Real, Product::RedisServer),
        _ => (Nodes::Real, Product::Quorlock),
    }
}

/// Nodes that are this executable, and end with this process.
fn own() -> Launcher {
    Arc::new(|boot| {
        let mut command: Command =
            launch::command(Bond::Killed, &launch::own_executable(), "quorlock".as_ref());
        match boot {
            None => command.arg("server"),
            Some(boot) => command
                .arg(MARK)
                .arg(std::process::id().to_string())
                .arg(boot.to_string()),
        };
        command
    })
}

fn redis() -> Result<Server, Failure> {
    let told = Command::new(REDIS).arg("--version").output();
    let told = told.map_err(|error| {
        super::failed(format!(
            "{REDIS} cannot be started: {error}; nothing was tried"
        ))
        .remedy("install it (Debian: apt-get install redis-server), or leave --server out")
    })?;
    let text = String::from_utf8_lossy(&told.stdout);
    let version = text
        .split("v=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let launcher: Launcher =
        Arc::new(|_| launch::command(Bond::Killed, REDIS.as_ref(), REDIS.as_ref()));
    Ok(Server::redis(
        launcher,
        version.unwrap_or("of an unknown version"),
    ))
}

const REDIS: &str = "redis-server";
pub(super) const SIMULATED: &str = "simulated";
