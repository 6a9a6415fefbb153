//! One row: both sides in turn, each time a fresh server in an empty folder.

use std::time::Duration;

use crate::clock;
use crate::cores;
use crate::expired;
use crate::failure::Failure;
use crate::load::{self, Seen, Writers};
use crate::options::Options;
use crate::quiet;
use crate::replay;
use crate::report::{Figures, Row};
use crate::server::{Server, Setup};
use crate::statistics::Summary;
use crate::sync_delay::SyncDelay;
use crate::workload::{Opponent, Probed, Traffic, Workload};

pub(crate) const QUICK_DIVISOR: u64 = 20;
/// A server that wakes up once in two seconds does so ten times.
const QUICK_IDLE_SECONDS: u64 = 20;
const WARM_UP_DIVISOR: u64 = 20 * QUICK_DIVISOR;

/// Measures one row, or says why it cannot be measured here.
pub(crate) fn row(
    options: &Options,
    workload: &Workload,
    ours: Setup,
    peer: Setup,
) -> Result<Row, Failure> {
    if workload.sync_delay.is_some()
        && let Err(reason) = SyncDelay::probe()
    {
        return Ok(Row::skipped(workload, &reason));
    }
    let peer = match workload.opponent {
        Opponent::Ours(log) => Setup {
            log,
            ..ours.clone()
        },
        _ => peer,
    };
    let sides = [ours, peer];
    let mut figures = [Figures::default(), Figures::default()];
    for round in 0..options.rounds {
        // Who goes first changes, so that neither always meets the warmer machine.
        for turn in 0..2 {
            let side = (round + turn) % 2;
            measure_once(options, workload, &sides[side], &mut figures[side])?;
        }
    }
    let [ours, peer] = figures;
    Ok(Row::new(workload, ours, peer))
}

fn measure_once(
    options: &Options,
    workload: &Workload,
    setup: &Setup,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let (mut server, start) = Server::start_time(setup)?;
    cores::pin(setup.cores.load)?;
    let operations = workload.scaled(if options.quick { QUICK_DIVISOR } else { 1 });
    let (before, is_done) = match workload.traffic {
        Traffic::Replay => {
            let locks = replay::write_log(&server, operations)?;
            figures.start_ms.push(server.restart()?.as_secs_f64() * 1e3);
            (Duration::ZERO, count(&server)? == locks)
        }
        Traffic::Start => {
            figures.start_ms.push(start.as_secs_f64() * 1e3);
            (Duration::ZERO, true)
        }
        Traffic::Probe(_)
        | Traffic::ExpiredEvents { .. }
        | Traffic::Idle
        | Traffic::IdleConnections => {
            measure_quiet(options, workload, &server, operations, figures)?
        }
        _ => measure_load(options, workload, &server, operations, figures)?,
    };
    if !is_done {
        return Err(did_not(workload, setup, "did not do the work"));
    }
    let spent = server.cpu()?.saturating_sub(before);
    let per_operation = spent.as_secs_f64() * 1e6 / operations as f64;
    figures.cpu_us_per_operation.push(per_operation);
    if setup.sync_delay.is_some() {
        let delays = server.take_sync_delays();
        let delays = delays.iter().map(|delay| delay.as_secs_f64() * 1e6);
        let delay = Summary::of(delays)
            .ok_or_else(|| did_not(workload, setup, "synced in a way that was not delayed"))?;
        figures.sync_delay_us.push(delay.median);
    }
    Ok(())
}

/// A server that is asked for little. Returns the CPU it had spent before, and whether it did what it should.
fn measure_quiet(
    options: &Options,
    workload: &Workload,
    server: &Server,
    operations: u64,
    figures: &mut Figures,
) -> Result<(Duration, bool), Failure> {
    let before = server.cpu()?;
    match workload.traffic {
        Traffic::Probe(probed) => {
            let stall = quiet::longest_wait(server, operations, probed)?;
            figures.stall_ms.push(stall.as_secs_f64() * 1e3);
            let left = match probed {
                Probed::ExpiringKeys | Probed::Nobody => 0,
                Probed::LivingKeys => operations,
            };
            return Ok((before, count(server)? == left));
        }
        Traffic::ExpiredEvents { writers } => {
            let start = |count| Writers::start(&options.load, server, count);
            let _writers = (writers > 0).then(|| start(writers)).transpose()?;
            let latest = expired::latest_event(server, operations)?;
            figures.stall_ms.push(latest.as_secs_f64() * 1e3);
        }
        Traffic::Idle => {
            let seconds = match options.quick {
                true => QUICK_IDLE_SECONDS,
                false => operations,
            };
            let idle = quiet::idle(server, Duration::from_secs(seconds))?;
            figures.idle_cpu_us_per_second.push(idle.cpu_us);
            figures.wakeups_per_second.push(idle.wakeups);
        }
        _ => {
            let bytes = quiet::bytes_per_connection(server, operations)?;
            figures.bytes_per_connection.push(bytes);
        }
    }
    Ok((before, true))
}

/// The same for one under load.
fn measure_load(
    options: &Options,
    workload: &Workload,
    server: &Server,
    operations: u64,
    figures: &mut Figures,
) -> Result<(Duration, bool), Failure> {
    match workload.traffic {
        Traffic::Fill => {
            load::warm_up_without_keys(&options.load, server, workload)?;
            let before = server.cpu()?;
            let memory = server.resident_bytes()?;
            let seen = load::run(&options.load, server, workload, operations)?;
            figures.push_seen(&seen);
            let grown = server.resident_bytes()?.saturating_sub(memory);
            let locks = count(server)?;
            figures.bytes_per_lock.push(grown as f64 / locks as f64);
            // Random names meet now and then.
            Ok((before, locks > operations - operations / 100))
        }
        Traffic::ReadBesideAcquire { writers } => {
            load::write_read_keys(&options.load, server)?;
            let _writers = Writers::start(&options.load, server, writers)?;
            warm_up(options, workload, server)?;
            let before = server.cpu()?;
            let (start, locks) = (clock::now(), count(server)?);
            let seen = load::run(&options.load, server, workload, operations)?;
            figures.push_seen(&seen);
            let taken = count(server)?.saturating_sub(locks);
            let elapsed = clock::now().saturating_sub(start).as_secs_f64();
            figures
                .writes_beside_per_second
                .push(taken as f64 / elapsed);
            Ok((before, taken > 0))
        }
        _ => {
            warm_up(options, workload, server)?;
            let before = server.cpu()?;
            let seen = load::run(&options.load, server, workload, operations)?;
            figures.push_seen(&seen);
            let leaves_none = workload.traffic.leaves_no_key();
            Ok((before, (count(server)? == 0) == leaves_none))
        }
    }
}

/// Connecting, first pages and first segments are not what is measured, nor are their syncs.
fn warm_up(options: &Options, workload: &Workload, server: &Server) -> Result<(), Failure> {
    let operations = workload.scaled(WARM_UP_DIVISOR);
    load::run(&options.load, server, workload, operations)?;
    server.take_sync_delays();
    Ok(())
}

fn count(server: &Server) -> Result<u64, Failure> {
    let text = server.ask(&["DBSIZE"])?;
    let none = || Failure::new(format!("DBSIZE was answered {text:?}"));
    text.parse().map_err(|_| none())
}

fn did_not(workload: &Workload, setup: &Setup, what: &str) -> Failure {
    let program = setup.program.display();
    Failure::new(format!("{}: {program} {what}", workload.name))
}

impl Figures {
    fn push_seen(&mut self, seen: &Seen) {
        self.operations_per_second.push(seen.operations_per_second);
        self.median_latency_us.extend(seen.median_latency_us);
        self.p99_latency_us.extend(seen.p99_latency_us);
    }
}
