//! Syncs that take 0.1, 1 and 5 seconds: what goes on meanwhile, and for how long nothing does.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use quorlock_testkit::{Connection, Reply, observed_now, pause};

use crate::check::{Bench, Check, Need, Record};
use crate::check_directory::CheckDirectory;
use crate::examine::{Finding, Rule, examine};
use crate::phase::{PHASE_MAX, listening, make_segment_ahead};
use crate::strace::{Attached, Injection};
use crate::stream::{Shape, Stream};
use crate::subject::{Ended, Launch, Mode, Subject};
use crate::traffic::Traffic;

const KIND: &str = "slow sync";

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for mode in Mode::ALL {
        for delay_ms in [100, 1_000, 5_000] {
            let name = |what: &str| format!("slow/{}/{delay_ms}/{what}", mode.name());
            let delay = Duration::from_millis(delay_ms);
            checks.push(Check::new(KIND, name("serve"), Need::Attach, {
                move |bench, record| serve(bench, record, mode, delay)
            }));
            checks.push(Check::new(KIND, name("stop"), Need::Attach, {
                move |bench, record| stop(bench, record, mode, delay)
            }));
        }
    }
    checks
}

/// A node with slow syncs, and what it was asked before they became slow.
struct Slowed {
    directory: CheckDirectory,
    launch: Launch,
    node: Subject,
    address: SocketAddr,
    stream: Stream,
    _attached: Attached,
}

impl Slowed {
    fn start(bench: &Bench, mode: Mode, delay: Duration) -> io::Result<Self> {
        let directory = CheckDirectory::new(&bench.scratch)?;
        let launch = Launch::new(bench, mode);
        let mut node = launch.start(&directory)?;
        let address = listening(&mut node, &directory)?;
        // Only locks whose TTL a delay covers: others wait for a sync in every mode. The longest
        // TTL is granted now, so that the promise need not rise later.
        let shape = Shape {
            large_bytes: 0,
            only_covered: true,
        };
        let mut stream = Stream::new("a", 3, shape);
        let came = Traffic::open(address, std::slice::from_ref(&stream))?.run(
            std::slice::from_mut(&mut stream),
            40,
            1,
        );
        let mut connection = Connection::open(address)?;
        connection.ask(&["SET", "r:longest", "1", "PX", "3600000"])?;
        connection.ask(&[
            "SET",
            "r:renewed",
            "me",
            "NX",
            "PX",
            &RENEWED_MS.to_string(),
        ])?;
        if !came.is_fine() {
            return Err(io::Error::other(format!("preparing failed: {came:?}")));
        }
        make_segment_ahead(address)?;
        let effect = format!("delay_enter={}", delay.as_micros());
        let injection = Injection::new("fdatasync,fsync", &effect, "1+");
        let trace = directory.file("attach.trace");
        let attached = Attached::to(node.id(), None, &injection, &trace)?;
        Ok(Self {
            directory,
            launch,
            node,
            address,
            stream,
            _attached: attached,
        })
    }
}

/// Reads, grants and renewals beside slow syncs; then death, and nothing acknowledged is lost.
fn serve(bench: &Bench, record: &mut Record, mode: Mode, delay: Duration) -> io::Result<()> {
    let mut slowed = Slowed::start(bench, mode, delay)?;
    let mut finding = Finding::default();
    let mut waits = Waits::default();
    let mut reader = Connection::open(slowed.address)?;
    let mut renewer = Connection::open(slowed.address)?;
    let mut traffic = Traffic::open(slowed.address, std::slice::from_ref(&slowed.stream))?;
    let until = observed_now() + (delay * 3).max(Duration::from_secs(2));
    while observed_now() < until {
        let streams = std::slice::from_mut(&mut slowed.stream);
        let came = waits.write.time(|| traffic.run(streams, 1, 1));
        if !came.is_fine() {
            finding.flaw(format!("a slow sync made the node fail: {came:?}"));
            break;
        }
        waits.read.time(|| reader.ask(&["GET", "r:longest"]))?;
        let renewed = waits.renewal.time(|| renewer.ask(&RENEW))?;
        if renewed != Reply::Integer(1) {
            finding.flaw(format!(
                "a renewal in time was answered {renewed:?}: the lock is lost"
            ));
            break;
        }
        pause(Duration::from_millis(20));
    }
    waits.judge(mode, delay, &mut finding);
    record.figures.push(waits.figure());
    slowed.node.kill();
    finding.heard(&slowed.node);
    let Slowed {
        directory,
        launch,
        stream,
        ..
    } = &slowed;
    let rule = Rule {
        needs_delay: mode != Mode::Always,
        ..Rule::default()
    };
    finding.join(examine(launch, directory, std::slice::from_ref(stream), rule).tolerating("r:"));
    finding.acknowledged = stream.acknowledged();
    record.add(None, &finding);
    Ok(())
}

/// SIGTERM while syncs are slow: the node takes its time, and stops cleanly.
fn stop(bench: &Bench, record: &mut Record, mode: Mode, delay: Duration) -> io::Result<()> {
    let mut slowed = Slowed::start(bench, mode, delay)?;
    let mut finding = Finding::default();
    // Something that is not synced yet.
    let mut connection = Connection::open(slowed.address)?;
    connection.ask(&RENEW)?;
    let asked = observed_now();
    slowed.node.terminate();
    let ended = slowed.node.end(delay * 4 + PHASE_MAX);
    let took = observed_now().saturating_sub(asked);
    record
        .figures
        .push(format!("stopped after {} ms", took.as_millis()));
    if ended != Some(Ended::Exited(0)) {
        finding.flaw(format!("SIGTERM under slow syncs came to {ended:?}"));
    }
    finding.heard(&slowed.node);
    let Slowed {
        directory,
        launch,
        stream,
        ..
    } = &slowed;
    let rule = Rule {
        needs_delay: mode != Mode::Always,
        may_be_clean: true,
        ..Rule::default()
    };
    let after = examine(launch, directory, std::slice::from_ref(stream), rule).tolerating("r:");
    finding.acknowledged = after.acknowledged;
    finding.join(after);
    record.add(None, &finding);
    Ok(())
}

/// How long replies took.
#[derive(Default)]
struct Waits {
    write: Longest,
    read: Longest,
    renewal: Longest,
}

impl Waits {
    fn judge(&self, mode: Mode, delay: Duration, finding: &mut Finding) {
        if mode == Mode::Always {
            // A renewal always changes something; other writes may have nothing to sync.
            if let Some(least) = self.renewal.least.filter(|least| *least < delay) {
                finding.flaw(format!(
                    "acknowledged after {least:?}, before its sync had ended"
                ));
            }
            return;
        }
        // Not the sync's length: nothing waits for it.
        let bound = (delay / 2).max(Duration::from_millis(500));
        for (what, longest) in [
            ("write", &self.write),
            ("read", &self.read),
            ("renewal", &self.renewal),
        ] {
            if longest.most > bound {
                let most = longest.most;
                finding.flaw(format!("a {what} took {most:?} beside syncs of {delay:?}"));
            }
        }
    }

    fn figure(&self) -> String {
        let ms = |longest: &Longest| longest.most.as_millis();
        format!(
            "{} writes; the slowest write took {} ms, read {} ms, renewal {} ms",
            self.write.count,
            ms(&self.write),
            ms(&self.read),
            ms(&self.renewal)
        )
    }
}

#[derive(Default)]
struct Longest {
    count: u64,
    most: Duration,
    least: Option<Duration>,
}

impl Longest {
    fn time<T>(&mut self, action: impl FnOnce() -> T) -> T {
        let began = observed_now();
        let result = action();
        let took = observed_now().saturating_sub(began);
        self.count += 1;
        self.most = self.most.max(took);
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        result
    }
}

/// A lock that its owner keeps renewing. Longer than two of the slowest syncs, since in `always`
/// a renewal waits for one that is under way and for its own.
const RENEWED_MS: u64 = 20_000;
const RENEW: [&str; 6] = [
    "EVAL",
    "if redis.call('get', KEYS[1]) == ARGV[1] then \
     return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end",
    "1",
    "r:renewed",
    "me",
    "20000",
];
