//! What a run tries: our own nodes, as processes or simulated, or redis-server as the baseline.

use std::path::Path;

use quorlock_experiment::engine::TrialEngine;
use quorlock_experiment::engine::real::{RealEngine, ServerProgram};
use quorlock_experiment::engine::simulated::SimulatedEngine;

use super::programs;
use crate::exit_code::Failure;

/// What the nodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum NodeKind {
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
    nodes: NodeKind,
    product: Product,
    scratch: &Path,
) -> Result<Box<dyn TrialEngine>, Failure> {
    let server = match (nodes, product) {
        (NodeKind::Simulated, Product::Quorlock) => return Ok(Box::new(SimulatedEngine)),
        (NodeKind::Simulated, Product::RedisServer) => {
            return Err(
                Failure::usage("redis-server cannot be simulated; nothing was tried")
                    .remedy("leave --engine simulated out"),
            );
        }
        (NodeKind::Real, Product::Quorlock) => programs::quorlock(),
        (NodeKind::Real, Product::RedisServer) => redis()?,
    };
    let engine = RealEngine::new(server, scratch.to_owned()).map_err(super::failed)?;
    Ok(Box::new(engine))
}

/// What an engine of this name has tried.
pub(super) fn of_name(name: &str) -> (NodeKind, Product) {
    match name {
        SIMULATED => (NodeKind::Simulated, Product::Quorlock),
        name if ServerProgram::is_redis(name) => (NodeKind::Real, Product::RedisServer),
        _ => (NodeKind::Real, Product::Quorlock),
    }
}

fn redis() -> Result<ServerProgram, Failure> {
    programs::redis().map_err(|why| {
        super::failed(format!("{why}; nothing was tried"))
            .remedy("install it (Debian: apt-get install redis-server), or leave --server out")
    })
}

pub(super) const SIMULATED: &str = "simulated";
