//! What a server costs or does when nobody asks it for much: while a million keys expire, with nothing to do, and for
//! connections that say nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock;
use crate::failure::{Doing, Failure};
use crate::server::Server;
use crate::workload::Probed;

/// So many keys expire at one moment, or none do. Returns the longest time that a PING had to wait from then until they are
/// gone, or as long as that usually takes, of those that were sent every millisecond whether or not the ones before had
/// been answered. With nobody to ask: the longest that a thread which sleeps to every millisecond was late.
pub(crate) fn longest_wait(
    server: &Server,
    keys: u64,
    probed: Probed,
) -> Result<Duration, Failure> {
    let expires = match probed {
        Probed::ExpiringKeys => true,
        Probed::LivingKeys => false,
        Probed::Nobody => return Ok(latest_wake_up(PROBED_BEFORE + PROBED_WITHOUT)),
    };
    let doing = "writing the keys that may expire";
    let mut connection = server.connect()?;
    // Long enough for a server that takes 50,000 a second.
    let storm = clock::now() + Duration::from_secs(2) + Duration::from_micros(keys * 20);
    let expiry = if expires { storm } else { storm + LIVES };
    let expected = b"+OK\r\n".repeat(usize::try_from(KEYS_PER_BATCH).doing(doing)?);
    let mut replies = vec![0; expected.len()];
    for batch in 0..keys / KEYS_PER_BATCH {
        let left = expiry.saturating_sub(clock::now()).as_millis();
        let mut requests = Vec::new();
        for index in 0..KEYS_PER_BATCH {
            let name = format!("lock:{:012}", batch * KEYS_PER_BATCH + index);
            let token = "0123456789abcdef0123";
            let command = ["SET", &name, token, "NX", "PX", &left.to_string()];
            requests.extend(quorlock_testkit::request(&command));
        }
        connection.write_all(&requests).doing(doing)?;
        connection.read_exact(&mut replies).doing(doing)?;
        if replies != expected {
            return Err(Failure::new(format!("{doing}: a command was refused")));
        }
    }
    if clock::now() + PROBED_BEFORE > storm {
        return Err(Failure::new(format!("{doing}: it has taken too long")));
    }
    wait_until(storm.saturating_sub(PROBED_BEFORE));
    if !expires {
        return worst_ping(server, PROBED_BEFORE + PROBED_WITHOUT);
    }
    let mut worst = worst_ping(server, PROBED_BEFORE + PROBED_AFTER)?;
    while server.ask(&["DBSIZE"])? != "0" {
        if clock::now() > expiry + GONE_MAX {
            return Err(Failure::new("keys that have expired are still there"));
        }
        worst = worst.max(worst_ping(server, PROBED_AFTER)?);
    }
    Ok(worst)
}

fn worst_ping(server: &Server, time: Duration) -> Result<Duration, Failure> {
    let doing = "probing a server";
    let mut sender = server.connect()?;
    let mut reader = sender.try_clone().doing(doing)?;
    let start = clock::now();
    let count = u32::try_from(time.as_millis()).doing(doing)?;
    let due = move |index| start + Duration::from_millis(1) * index;
    let sending = std::thread::spawn(move || {
        (0..count).try_for_each(|index| {
            wait_until(due(index));
            sender.write_all(b"PING\r\n")
        })
    });
    let mut worst = Duration::ZERO;
    let mut reply = [0; b"+PONG\r\n".len()];
    for index in 0..count {
        reader.read_exact(&mut reply).doing(doing)?;
        worst = worst.max(clock::now().saturating_sub(due(index)));
    }
    match sending.join() {
        Ok(sent) => sent.doing(doing)?,
        Err(_) => return Err(Failure::new("the thread that probes a server panicked")),
    }
    Ok(worst)
}

/// What every PING has to wait that is sent when a thread wakes up.
fn latest_wake_up(time: Duration) -> Duration {
    let start = clock::now();
    let moments = (1..).map(|index| start + Duration::from_millis(1) * index);
    let moments = moments.take_while(|due| *due <= start + time);
    let late = moments.map(|due| {
        wait_until(due);
        clock::now().saturating_sub(due)
    });
    late.max().unwrap_or_default()
}

/// What a server with nothing to do has spent.
pub(crate) struct Idle {
    /// Of a second.
    pub(crate) cpu_us: f64,
    /// A second.
    pub(crate) wakeups: f64,
}

/// Looks at a server for so long, asking it for nothing.
pub(crate) fn idle(server: &Server, time: Duration) -> Result<Idle, Failure> {
    let (cpu, wakeups) = (server.cpu()?, server.wakeups()?);
    wait_until(clock::now() + time);
    let cpu = server.cpu()?.saturating_sub(cpu);
    let wakeups = server.wakeups()?.saturating_sub(wakeups);
    Ok(Idle {
        cpu_us: cpu.as_secs_f64() * 1e6 / time.as_secs_f64(),
        wakeups: wakeups as f64 / time.as_secs_f64(),
    })
}

/// The resident memory that one of so many connections takes that have said a PING and then nothing.
pub(crate) fn bytes_per_connection(server: &Server, count: u64) -> Result<f64, Failure> {
    let doing = "opening many connections";
    allow_descriptors(count + SPARE_DESCRIPTORS)?;
    let before = server.resident_bytes()?;
    let mut streams: Vec<TcpStream> = Vec::new();
    for _ in 0..count {
        let mut stream = server.connect()?;
        stream.write_all(b"PING\r\n").doing(doing)?;
        stream
            .read_exact(&mut [0; b"+PONG\r\n".len()])
            .doing(doing)?;
        streams.push(stream);
    }
    // Redis gives buffers back that were not used for two seconds.
    wait_until(clock::now() + Duration::from_secs(5));
    let grown = server.resident_bytes()?.saturating_sub(before);
    drop(streams);
    Ok(grown as f64 / count as f64)
}

fn allow_descriptors(count: u64) -> Result<(), Failure> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(count),
        ..limit
    };
    setrlimit(Resource::Nofile, raised).doing(format!("raising the limit on files to {count}"))
}

#[allow(
    clippy::disallowed_methods,
    reason = "this thread has nothing else to do but wait"
)]
fn wait_until(moment: Duration) {
    let left = moment.saturating_sub(clock::now());
    std::thread::sleep(left);
}

const KEYS_PER_BATCH: u64 = 1000;
const PROBED_BEFORE: Duration = Duration::from_millis(500);
const PROBED_AFTER: Duration = Duration::from_secs(1);
/// As long as a node takes to free a million keys.
const PROBED_WITHOUT: Duration = Duration::from_secs(6);
/// Keys that do not expire while they are looked at.
const LIVES: Duration = Duration::from_secs(3600);
/// Until then all have to be gone.
const GONE_MAX: Duration = Duration::from_secs(60);
const SPARE_DESCRIPTORS: u64 = 100;
