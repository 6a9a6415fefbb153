//! LATENCY: what took as long as `latency-monitor-threshold`, and how long the calls of each command took.
//!
//! A command is measured where commandstats measure it (`core/calls.rs`), a sync and a write of the log where the metrics
//! do. No clock is read for this beside.

use std::collections::BTreeSet;

use quorlock_engine::{ErrorReply, Flags, RawTime, Reply};

use crate::core::commit::Failure;
use crate::core::latency::{LatencyEvent, LatencySample, Series};
use crate::core::state::NodeState;
use crate::session::Session;
use crate::session::answered::Answered;
use crate::session::batch::{Answer, Batch};
use crate::session::latency_graph::graph;
use crate::session::named_request::NamedRequest;

/// The event of a command that took long.
pub(super) fn event_of(request: NamedRequest<'_>) -> LatencyEvent {
    match request.flags().contains(Flags::FAST) {
        true => LatencyEvent::FastCommand,
        false => LatencyEvent::Command,
    }
}

pub(super) fn latency(_: &mut Session, batch: &mut Batch<'_>, arguments: &[&[u8]]) -> Answered {
    let request = NamedRequest::of(arguments);
    request.check()?;
    let now = Now::of(batch)?;
    let node = batch.node;
    let monitor = &node.latency;
    let reply = match (request.names().1, &arguments[2..]) {
        ("latest", _) => {
            let noted = LatencyEvent::ALL.into_iter();
            let noted = noted.filter_map(|event| latest(event, &monitor.noted(event)?, now));
            Reply::Array(noted.collect())
        }
        ("history", [name]) => {
            let noted = LatencyEvent::named(name).and_then(|event| monitor.noted(event));
            let noted = noted.unwrap_or_default();
            Reply::Array(noted.samples().map(|it| sample(it, now)).collect())
        }
        ("reset", names) => {
            let is_named =
                |event: &LatencyEvent| names.is_empty() || names.contains(&event.name().as_bytes());
            let forgotten = LatencyEvent::ALL.into_iter().filter(is_named);
            Reply::count(forgotten.filter(|event| monitor.forget(*event)).count())
        }
        ("graph", [name]) => match LatencyEvent::named(name).and_then(|event| {
            let noted = monitor.noted(event)?;
            Some((event, noted))
        }) {
            Some((event, noted)) => text(graph(event.name(), &noted, now.raw)),
            None => Reply::Error(no_samples(name)),
        },
        ("doctor", _) => text(report(node, now.raw)),
        ("histogram", names) => histograms(node, names),
        _ => Reply::help("LATENCY", HELP),
    };
    Ok(Answer::Reply(reply))
}

/// Readings of two clocks at one moment.
#[derive(Clone, Copy)]
struct Now {
    raw: RawTime,
    wall_us: u64,
}

impl Now {
    fn of(batch: &mut Batch<'_>) -> Result<Self, Failure> {
        let (_, now) = batch.executor()?;
        let wall_us = now.wall_us;
        let raw = batch.raw();
        Ok(Self { raw, wall_us })
    }
}

fn text(text: String) -> Reply {
    Reply::Verbatim(*b"txt", text.into_bytes())
}

fn number(number: u64) -> Reply {
    let number = i64::try_from(number);
    Reply::Integer(number.expect("it is a count of calls, or a time in a unit above nanoseconds"))
}

fn sample(sample: LatencySample, now: Now) -> Reply {
    let unix_s = sample.unix_s(now.raw, now.wall_us);
    Reply::Array(vec![number(unix_s), number(sample.took_ms)])
}

fn latest(event: LatencyEvent, noted: &Series, now: Now) -> Option<Reply> {
    let latest = noted.latest()?;
    Some(Reply::Array(vec![
        Reply::bulk(event.name()),
        number(latest.unix_s(now.raw, now.wall_us)),
        number(latest.took_ms),
        number(noted.max_ms),
    ]))
}

fn no_samples(name: &[u8]) -> ErrorReply {
    let shown = &name[..name.len().min(SHOWN_BYTES_MAX)];
    let shown = String::from_utf8_lossy(shown);
    ErrorReply::new(format!("ERR No samples available for event '{shown}'"))
}

/// What LATENCY DOCTOR says: a line of each event, and where to look.
fn report(node: &NodeState, now_raw: RawTime) -> String {
    let mut events = Vec::new();
    for event in LatencyEvent::ALL {
        if let Some(noted) = node.latency.noted(event) {
            events.push((event, noted.summary(now_raw)));
        }
    }
    let is_on = node.settings.latency_from_ns() < u64::MAX;
    if events.is_empty() {
        return match is_on {
            true => NOTHING_NOTED,
            false => OFF,
        }
        .to_owned();
    }
    let mut report = "Latency spikes were observed on this node:\n\n".to_owned();
    for (place, (event, summary)) in events.iter().enumerate() {
        report.push_str(&format!("{}. {}: {summary}\n", place + 1, event.name()));
    }
    report.push_str("\nWhere to look:\n\n");
    let has = |wanted: &[LatencyEvent]| events.iter().any(|(event, _)| wanted.contains(event));
    let mut advise = |is_wanted: bool, advice: &str| {
        if is_wanted {
            report.push_str(&format!("- {advice}\n"));
        }
    };
    let of_commands = has(&[LatencyEvent::Command, LatencyEvent::FastCommand]);
    let logs_slow = node.settings.slow_from_ns() <= node.settings.latency_from_ns();
    advise(of_commands && logs_slow, SLOWLOG);
    advise(of_commands && !logs_slow, SLOWLOG_LATER);
    advise(has(&[LatencyEvent::FastCommand]), FAST);
    advise(
        has(&[LatencyEvent::SyncAlways, LatencyEvent::Write]),
        DISK_OF_REPLIES,
    );
    advise(
        has(&[LatencyEvent::SyncEverysec, LatencyEvent::SyncNo]),
        DISK,
    );
    advise(!is_on, IS_OFF_NOW);
    report
}

/// The calls of all commands, or of those that are named, by how long they took. Each is shown once, however often it is named.
fn histograms(node: &NodeState, names: &[&[u8]]) -> Reply {
    let wanted: BTreeSet<Vec<u8>> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let is_wanted = |shown: &str| {
        let container = shown.split('|').next().unwrap_or_default();
        let mut accepted = [shown, container].into_iter();
        names.is_empty() || accepted.any(|name| wanted.contains(name.as_bytes()))
    };
    if !node.configured(|it| it.latency.tracking) {
        return Reply::Map(Vec::new());
    }
    let mut shown = Vec::new();
    for (command, name) in node.calls.names().filter(|(_, name)| is_wanted(name)) {
        let calls = node.calls.count(command).calls_by_duration();
        let Some((_, all)) = calls.last().copied() else {
            continue;
        };
        let calls = calls.into_iter();
        let calls = calls.map(|(up_to_ns, calls)| (number(up_to_ns / 1_000), number(calls)));
        shown.push((
            Reply::bulk(name),
            Reply::Map(vec![
                (Reply::bulk("calls"), number(all)),
                (Reply::bulk("histogram_usec"), Reply::Map(calls.collect())),
            ]),
        ));
    }
    Reply::Map(shown)
}

/// How much of a name is shown that is no event's.
const SHOWN_BYTES_MAX: usize = 128;

const OFF: &str = "Latency monitoring is disabled on this node. CONFIG SET latency-monitor-threshold <milliseconds> enables it.\n";
const NOTHING_NOTED: &str = "No latency spike was observed since latency monitoring was enabled.\n";
const SLOWLOG: &str = "SLOWLOG GET shows which commands were slow, INFO latencystats and LATENCY HISTOGRAM how long each takes.";
const SLOWLOG_LATER: &str = "SLOWLOG does not note all of these commands. CONFIG SET slowlog-log-slower-than to at most \
     the latency monitor threshold, in microseconds, and look there when it happens again.";
const FAST: &str = "A fast command that takes long has waited: for a script or another long command, or for a processor. \
     Look for scripts in SLOWLOG, and at the load of the machine.";
const DISK_OF_REPLIES: &str = "Replies wait for the disk under appendfsync always, and while nothing is synced no lock is \
     granted. Look for other programs that write to the same disk, and for a disk that is made for syncs.";
const DISK: &str = "No reply about a lock with a TTL waits for these syncs, but they say how far the log is behind. Look \
     for other programs that write to the same disk.";
const IS_OFF_NOW: &str = "Latency monitoring is disabled now, so this is about the past.";

const HELP: &[&str] = &[
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
    "    If no commands are specified then all histograms are replied.",
];
