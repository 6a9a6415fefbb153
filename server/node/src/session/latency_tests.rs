//! What LATENCY answers of what the node has measured.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use quorlock_engine::RawTime;
use quorlock_persistence::MemoryDisk;

use crate::clock::SettableClock;
use crate::config::Config;
use crate::core::latency::LatencyEvent;
use crate::core::state::NodeState;
use crate::core::wait::DurabilityWait;
use crate::protocol::Output;
use crate::session::batch::SlowCall;
use crate::session::{Batch, Session};
use crate::start::for_tests;

fn node(threshold_ms: &str) -> Arc<NodeState> {
    let (disk, clock) = (MemoryDisk::new(), SettableClock::new());
    clock.advance(Duration::from_secs(200_000));
    let mut config = Config::default();
    config
        .set("latency-monitor-threshold", &[threshold_ms])
        .unwrap();
    let (node, mut preparer, _) = for_tests::started(config, Arc::new(disk), Arc::new(clock));
    preparer.prepare().unwrap();
    node
}

/// The last reply of those to some requests.
fn ask(node: &Arc<NodeState>, session: &mut Session, request: &str) -> String {
    let mut batch = Batch::new(node, node.clock.raw());
    let (mut wait, mut replies) = (DurabilityWait::default(), Output::default());
    let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    batch.execute(session, &words, &mut wait, &mut replies);
    let reply = replies.single_run().map(<[u8]>::to_vec).unwrap_or_default();
    String::from_utf8(reply).unwrap()
}

/// Notes samples of an event, each this many seconds before the node's clock, so many milliseconds long.
fn note(node: &NodeState, event: LatencyEvent, samples: &[(u64, u64)]) {
    let now_ns = node.clock.raw().as_nanos();
    for (ago_s, took_ms) in samples {
        let at_raw = RawTime::from_nanos(now_ns - ago_s * 1_000_000_000);
        node.latency.note(event, took_ms * 1_000_000, at_raw);
    }
}

#[test]
fn samples_are_shown_by_event_and_forgotten_by_name() {
    let node = node("10");
    let mut session = for_tests::session(&node);
    let now_s = node.clock.wall_us() / 1_000_000;
    note(&node, LatencyEvent::Command, &[(30, 50), (3, 20)]);
    note(&node, LatencyEvent::SyncAlways, &[(1, 11), (1, 9)]);
    let mut ask = |request: &str| ask(&node, &mut session, request).replace("\r\n", " ");
    let (old, new, sync) = (now_s - 30, now_s - 3, now_s - 1);
    assert_eq!(
        ask("LATENCY LATEST"),
        format!("*2 *4 $16 aof-fsync-always :{sync} :11 :11 *4 $7 command :{new} :20 :50 ")
    );
    assert_eq!(
        ask("LATENCY HISTORY command"),
        format!("*2 *2 :{old} :50 *2 :{new} :20 ")
    );
    assert_eq!(ask("LATENCY HISTORY Command"), "*0 ");
    let doctor = ask("LATENCY DOCTOR");
    for words in [
        "\n1. aof-fsync-always: 1 latency spikes (average 11ms,",
        "\n2. command: 2 latency spikes (average 35ms, mean deviation 15ms, period 15.00 sec). Worst all time event 50ms.\n",
        "\n- SLOWLOG GET ",
        "\n- Replies wait for the disk ",
    ] {
        assert!(doctor.contains(words), "{words} in {doctor}");
    }
    assert_eq!(ask("LATENCY RESET nosuch command fast-command"), ":1 ");
    assert_eq!(ask("LATENCY RESET"), ":1 ");
    assert_eq!(ask("LATENCY LATEST"), "*0 ");
    assert!(ask("LATENCY DOCTOR").contains("No latency spike was observed"));
    ask("CONFIG SET latency-monitor-threshold 0");
    assert!(ask("LATENCY DOCTOR").contains("is disabled"));
    let no_event = "x".repeat(1_000);
    let refusal = ask(&format!("LATENCY GRAPH {no_event}"));
    let expected = format!(
        "-ERR No samples available for event '{}' ",
        &no_event[..128]
    );
    assert_eq!(refusal, expected);
}

/// What Redis 7.0 draws of the same samples.
#[test]
fn a_graph_is_that_of_redis() {
    let node = node("10");
    let mut session = for_tests::session(&node);
    let samples = [
        (100_000, 120),
        (7_300, 303),
        (3_700, 200),
        (70, 250),
        (4, 121),
    ];
    note(&node, LatencyEvent::Command, &samples);
    let reply = ask(&node, &mut session, "LATENCY GRAPH command");
    let (_, graph) = reply.split_once("\r\n").unwrap();
    let expected = [
        "command - high 303 ms, low 120 ms (all time high 303 ms)",
        &"-".repeat(80),
        " #   ",
        " | # ",
        " |#| ",
        "_|||_",
        "     ",
        "12114",
        "dhhms",
        "\r\n",
    ];
    assert_eq!(graph, expected.join("\n"));
}

#[test]
fn histograms_are_of_the_commands_that_are_named() {
    let node = node("0");
    let mut session = for_tests::session(&node);
    let mut ask = |request: &str| ask(&node, &mut session, request).replace("\r\n", " ");
    for request in ["SET a 1", "SET a 1", "GET a", "CLIENT ID", "CLIENT GETNAME"] {
        ask(request);
    }
    // The clock of these nodes measures nothing: every command takes no time at all.
    let calls = |name: &str, calls| {
        let bytes = name.len();
        format!("${bytes} {name} *4 $5 calls :{calls} $14 histogram_usec *2 :1 :{calls} ")
    };
    let both = format!("*4 {}{}", calls("set", 2), calls("get", 1));
    assert_eq!(ask("LATENCY HISTOGRAM Set GET nosuch set"), both);
    assert_eq!(
        ask("LATENCY HISTOGRAM client|id"),
        format!("*2 {}", calls("client|id", 1))
    );
    assert!(ask("LATENCY HISTOGRAM client").starts_with("*4 "));
    assert!(ask("LATENCY HISTOGRAM").starts_with("*10 "));
    ask("CONFIG SET latency-tracking no");
    assert_eq!(ask("LATENCY HISTOGRAM"), "*0 ");
    ask("CONFIG SET latency-tracking yes");
    ask("CONFIG RESETSTAT");
    assert_eq!(ask("LATENCY HISTOGRAM set"), "*0 ");
}

#[test]
fn commands_are_noted_by_the_flags_of_their_rows() {
    let node = node("0");
    let mut session = for_tests::session(&node);
    // No command takes any time here, so one that is noted was measured as longer.
    let requests: [(&[&[u8]], LatencyEvent); 4] = [
        (&[b"GET", b"a"], LatencyEvent::FastCommand),
        (&[b"KEYS", b"*"], LatencyEvent::Command),
        (&[b"EXEC"], LatencyEvent::Command),
        (&[b"CONFIG", b"GET", b"a"], LatencyEvent::Command),
    ];
    ask(
        &node,
        &mut session,
        "CONFIG SET latency-monitor-threshold 5",
    );
    let ended_raw = node.clock.raw();
    let slow = |took_ns| SlowCall { took_ns, ended_raw };
    for (words, event) in requests {
        let mut batch = Batch::new(&node, ended_raw);
        let request = super::named_request::NamedRequest::of(words);
        batch.note_slow(&session, request, slow(4_999_999));
        assert!(node.latency.noted(event).is_none());
        batch.note_slow(&session, request, slow(5_000_000));
        assert!(node.latency.forget(event), "{event:?}");
    }
    assert_eq!(node.slow_log().len(), 0, "5 ms are not slow");
}
