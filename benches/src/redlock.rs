//! The rows about the Redlock client: acquire and release on five of the peer's servers.
//!
//! The load is a program of its own outside the workspace, since the library that ours is compared with brings its own
//! versions of everything.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::cores;
use crate::failure::{Doing, Failure};
use crate::measure::QUICK_DIVISOR;
use crate::options::Options;
use crate::report::{Figures, Row};
use crate::server::{Server, Setup};
use crate::workload::{Broken, Opponent, Workload};

/// What the load prints.
#[derive(Deserialize)]
struct Seen {
    cycles_per_second: f64,
    median_us: f64,
    p99_us: f64,
    cpu_us_per_cycle: f64,
    failed: u64,
}

/// What the load prints of callers that give up together.
#[derive(Deserialize)]
struct SeenCrowd {
    busy: u32,
    thread_busy_ms: f64,
    longest_unanswered_ms: f64,
    lock_beside_lives: bool,
}

/// One side of a row.
#[derive(Clone, Copy)]
struct Side {
    library: &'static str,
    broken: Broken,
}

/// Measures one row: both sides in turn, each time five fresh servers.
pub(crate) fn row(
    options: &Options,
    workload: &Workload,
    broken: Broken,
    servers: &Setup,
) -> Result<Row, Failure> {
    let load = build()?;
    let (ours, peer) = match workload.opponent {
        Opponent::AllWell => ("quorlock", "quorlock"),
        _ => ("quorlock", "rslock"),
    };
    let sides = [
        Side {
            library: ours,
            broken,
        },
        Side {
            library: peer,
            broken: Broken::Nothing,
        },
    ];
    let cycles = workload.scaled(if options.quick { QUICK_DIVISOR } else { 1 });
    let mut figures = [Figures::default(), Figures::default()];
    for round in 0..options.rounds {
        for turn in 0..2 {
            let side = (round + turn) % 2;
            let seen = measure_once(&load, servers, sides[side], workload.connections, cycles)?;
            figures[side]
                .operations_per_second
                .push(seen.cycles_per_second);
            figures[side].median_latency_us.push(seen.median_us);
            figures[side].p99_latency_us.push(seen.p99_us);
            figures[side]
                .cpu_us_per_operation
                .push(seen.cpu_us_per_cycle);
        }
    }
    let [ours, peer] = figures;
    Ok(Row::new(workload, ours, peer))
}

/// Measures callers that give up together: many, and a hundredth of them.
pub(crate) fn crowd(
    options: &Options,
    workload: &Workload,
    servers: &Setup,
) -> Result<Row, Failure> {
    let load = build()?;
    let many = match options.quick {
        true => workload.connections / 20,
        false => workload.connections,
    };
    let mut figures = [Figures::default(), Figures::default()];
    for round in 0..options.rounds {
        for turn in 0..2 {
            let side = (round + turn) % 2;
            let callers = [many, many / 100][side];
            let seen = crowd_once(&load, servers, callers)?;
            let cpu_us = seen.thread_busy_ms * 1e3 / f64::from(callers);
            figures[side].cpu_us_per_operation.push(cpu_us);
            figures[side].stall_ms.push(seen.longest_unanswered_ms);
        }
    }
    let [ours, peer] = figures;
    Ok(Row::new(workload, ours, peer))
}

fn crowd_once(load: &Path, setup: &Setup, callers: u32) -> Result<SeenCrowd, Failure> {
    let servers: Vec<_> = (0..NODES)
        .map(|_| Server::start(setup))
        .collect::<Result<_, _>>()?;
    cores::pin(setup.cores.load)?;
    let doing = "running callers that give up together";
    let callers_text = callers.to_string();
    let output = Command::new(load)
        .args(["crowd", &addresses(&servers), &callers_text, "0"])
        .stderr(Stdio::inherit())
        .output()
        .doing(doing)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let seen: SeenCrowd = serde_json::from_str(text.trim()).doing(doing)?;
    if seen.busy != callers || !seen.lock_beside_lives {
        let (busy, lives) = (seen.busy, seen.lock_beside_lives);
        return Err(Failure::new(format!(
            "{busy} of {callers} callers were told that the lock is held, and the lock beside it lives: {lives}"
        )));
    }
    Ok(seen)
}

fn addresses(servers: &[Server]) -> String {
    let addresses = servers
        .iter()
        .map(|server| format!("redis://127.0.0.1:{}", server.port()));
    addresses.collect::<Vec<_>>().join(",")
}

fn measure_once(
    load: &Path,
    setup: &Setup,
    side: Side,
    callers: u32,
    cycles: u64,
) -> Result<Seen, Failure> {
    let mut servers = Vec::new();
    for _ in 0..NODES {
        servers.push(Server::start(setup)?);
    }
    let nodes = addresses(&servers);
    cores::pin(setup.cores.load)?;
    let doing = "running the load of a Redlock client";
    let mut process = Command::new(load)
        .args([
            side.library,
            &nodes,
            &callers.to_string(),
            &cycles.to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .doing(doing)?;
    let mut output = BufReader::new(process.stdout.take().ok_or_else(|| Failure::new(doing))?);
    let mut line = String::new();
    output.read_line(&mut line).doing(doing)?;
    // The client knows the nodes when they break; what it takes to notice belongs to the figures.
    for server in &mut servers[..BROKEN_NODES] {
        match side.broken {
            Broken::Nothing => {}
            Broken::Dead => server.kill()?,
            Broken::Hung => server.hang()?,
        }
    }
    if let Some(mut input) = process.stdin.take() {
        input.write_all(b"go\n").doing(doing)?;
    }
    let mut text = String::new();
    output.read_to_string(&mut text).doing(doing)?;
    process.wait().doing(doing)?;
    let seen: Seen = serde_json::from_str(text.trim()).doing(doing)?;
    if seen.failed > 0 {
        let (library, failed) = (side.library, seen.failed);
        return Err(Failure::new(format!(
            "{library} did not acquire {failed} free locks"
        )));
    }
    Ok(seen)
}

/// Builds the load beside the harness.
fn build() -> Result<PathBuf, Failure> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("redlock/Cargo.toml");
    let harness = std::env::current_exe().doing("looking for the built program")?;
    let target = harness.with_file_name("redlock-load");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .status()
        .doing("starting cargo")?;
    if !status.success() {
        return Err(Failure::new("the load of the Redlock rows does not build"));
    }
    Ok(target.join("release/quorlock-redlock-load"))
}

const NODES: usize = 5;
const BROKEN_NODES: usize = 2;
