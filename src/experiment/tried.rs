//! What a run tries: our own nodes, as processes or simulated, or redis-server as the baseline.

use std::path::Path;

use quorlock_experiment::engine::Engine;
use quorlock_experiment::engine::real::{RealEngine, Server};
use quorlock_experiment::engine::simulated::SimulatedEngine;

use super::programs;
use crate::exit_code::Failure;

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
                Failure::usage("redis-server cannot be simulated; nothing was tried")
                    .remedy("leave --engine simulated out"),
            );
        }
        (Nodes::Real, Product::Quorlock) => programs::quorlock(),
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

fn redis() -> Result<Server, Failure> {
    programs::redis().map_err(|why| {
        super::failed(format!("{why}; nothing was tried"))
            .remedy("install it (Debian: apt-get install redis-server), or leave --server out")
    })
}

pub(super) const SIMULATED: &str = "simulated";
