//! The table at sizes that there are and at those that there should not be.

use std::path::PathBuf;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::state::{Page, State};
use super::table;
use crate::cluster::info::{Figures, ServingState};
use crate::cluster::latencies::Latencies;
use crate::cluster::load::CallerFigures;
use crate::cluster::snapshot::Snapshot;
use crate::cluster::view::{LocalCluster, NodeView, ProcessState};
use crate::reply::NodeReply;

/// A table of so many nodes, all of which serve.
pub(super) fn shown(count: u16) -> State {
    let nodes: Vec<NodeView> = (1..=count).map(serving_node).collect();
    let serving = |calls| {
        let answer = move |seconds| ServingState::Serving {
            keys: 12,
            uptime_seconds: seconds,
            figures: Figures {
                operations_per_second: 1_840,
                log_bytes: 2_300_000,
                unsynced: 3,
                is_full: false,
                ahead_ms: Some(0),
                latencies: counted(calls),
            },
        };
        let uptimes = [59, 61, 3_700, 90_000, 4_000_000].into_iter().cycle();
        uptimes.take(count.into()).map(answer).collect::<Vec<_>>()
    };
    let cluster = LocalCluster {
        name: "dev".to_owned(),
        directory: PathBuf::from("/srv/app/.quorlock/dev"),
        pid: 7,
        quorum: nodes.len() / 2 + 1,
        appendfsync: "everysec".to_owned(),
        cacert: None,
        page: None,
        ephemeral: false,
        in_process: false,
        resumed: false,
        note: String::new(),
        ready: true,
        nodes,
    };
    let mut state = State::new(true);
    for calls in [700, 900] {
        state.look(Snapshot {
            cluster: cluster.clone(),
            answers: serving(calls),
        });
    }
    state
}

/// So many calls that took at most 16 microseconds.
fn counted(calls: i64) -> Latencies {
    let text = |text: &str| NodeReply::Text(text.as_bytes().to_vec());
    let steps = NodeReply::Array(vec![NodeReply::Integer(16), NodeReply::Integer(calls)]);
    let facts = NodeReply::Array(vec![text("histogram_usec"), steps]);
    Latencies::read(&NodeReply::Array(vec![text("set"), facts]))
}

/// One of its nodes.
pub(super) fn node(state: &mut State, number: usize) -> &mut NodeView {
    let snapshot = state.snapshot.as_mut().expect("it was looked at");
    &mut snapshot.cluster.nodes[number - 1]
}

fn serving_node(number: u16) -> NodeView {
    NodeView {
        number,
        id: "id".to_owned(),
        url: format!("redis://127.0.0.1:{}", 7_000 + number),
        port: 7_000 + number,
        direct_port: 7_000 + number,
        is_cut: false,
        delay_ms: 0,
        is_disk_full: false,
        pid: Some(100 + u32::from(number)),
        dir: PathBuf::new(),
        log: PathBuf::new(),
        process: ProcessState::Running,
    }
}

/// Five nodes, of which one each is killed, paused, ahead in time and in its restart delay.
fn faulty() -> State {
    let mut state = shown(5);
    node(&mut state, 2).process = ProcessState::Killed;
    node(&mut state, 3).process = ProcessState::Paused;
    let snapshot = state.snapshot.as_mut().expect("it was looked at");
    snapshot.answers[1] = ServingState::Silent;
    snapshot.answers[2] = ServingState::Silent;
    figures(&mut snapshot.answers[3]).ahead_ms = Some(31_002);
    snapshot.answers[4] = ServingState::RestartDelay {
        remaining_ms: 7_200,
    };
    state.selected = 2;
    state.note("[n2] killed with kill -9; it stays down until: quorlock cluster restart 2");
    state
}

fn figures(answer: &mut ServingState) -> &mut Figures {
    match answer {
        ServingState::Serving { figures, .. } => figures,
        _ => panic!("it does not serve"),
    }
}

/// The lines of the screen, without the spaces at their ends.
fn lines(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it is in memory");
    let drawn = terminal.draw(|frame| table::draw(frame, state));
    drawn.expect("it is in memory");
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(move |x| buffer[(x, y)].symbol());
    let line = |y| row(y).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn a_screen_of_80_columns_has_all_of_it() {
    let shown = lines(&faulty(), 80, 24);
    let top = [
        "Cluster 'dev', appendfsync everysec, in /srv/app/.quorlock/dev",
        "2 of 5 serve: no lock can be taken (3 needed)",
        "node state                      uptime  keys ops/s   p99 log MiB unsynced  clock",
        "  1  serving                       59s    12  1840  16us     2.1        3      0",
        "> 2  down (killed)                   -     -     -     -       -        -      -",
        "  3  paused                          -     -     -     -       -        -      -",
        "  4  serving                        1d    12  1840  16us     2.1        3   +31s",
        "  5  restart delay, 7.2 s left       -     -     -     -       -        -      -",
        "",
        "[n2] killed with kill -9; it stays down until: quorlock cluster restart 2",
    ];
    assert_eq!(shown[..10], top, "{shown:#?}");
    let keys = "? help  q stop all  1-9 select  k kill  r restart  p pause  l log  b paste";
    assert_eq!(shown[23], keys);
}

#[test]
fn a_narrow_screen_leaves_columns_out_and_no_state() {
    let shown = lines(&faulty(), 40, 15);
    let expected = [
        "Cluster 'dev', appendfsync everysec, in",
        "2 of 5 serve: no lock can be taken (3",
        "needed)",
        "node state                        uptime",
        "  1  serving                         59s",
        "> 2  down (killed)                     -",
        "  3  paused                            -",
        "  4  serving                          1d",
        "  5  restart delay, 7.2 s left         -",
        "",
        "[n2] killed with kill -9; it stays down",
        "until: quorlock cluster restart 2",
        "",
        "",
        "? help  q stop all  1-9 select  k kill",
    ];
    assert_eq!(shown, expected, "{shown:#?}");
}

#[test]
fn the_last_columns_are_left_out_first() {
    let state = shown(3);
    for (width, last) in [
        (80, "clock"),
        (79, "unsynced"),
        (70, "log MiB"),
        (60, "p99"),
        (54, "ops/s"),
    ] {
        let heading = &lines(&state, width, 24)[2];
        assert!(heading.ends_with(last), "{width}: {heading}");
    }
}

#[test]
fn a_full_disk_and_a_refused_connection_are_said_in_their_cells() {
    let mut state = shown(5);
    node(&mut state, 1).is_disk_full = true;
    node(&mut state, 2).is_disk_full = true;
    let snapshot = state.snapshot.as_mut().expect("it was looked at");
    for full in [1, 2] {
        figures(&mut snapshot.answers[full]).is_full = true;
    }
    let why = "connection refused".to_owned();
    snapshot.answers[4] = ServingState::Unreached { why };
    let shown = lines(&state, 40, 24);
    let expected = [
        "2 of 5 serve: no lock can be taken (3",
        "> 1  serving, disk full              59s",
        "  2  disk full: takes no locks    1m 01s",
        "  5  connection refused                -",
    ];
    for line in expected {
        let is_there = shown.iter().any(|shown| shown == line);
        assert!(is_there, "{line}: {shown:#?}");
    }
}

#[test]
fn the_end_of_a_log_is_shown_on_any_screen() {
    let mut state = faulty();
    node(&mut state, 2).log = PathBuf::from("/srv/node-2.log");
    state.page = Page::Log;
    state.log = (0..300)
        .map(|line| format!("line {line} of this log of a node\n"))
        .collect();
    let shown = lines(&state, 40, 15);
    assert_eq!(shown[0], "Log of node 2, /srv/node-2.log");
    assert_eq!(shown[13], "line 299 of this log of a node");
    assert_eq!(shown[3], "line 289 of this log of a node");
    assert_eq!(shown[14], "l, Esc  back to the table  1-9 select");
    let tiny = lines(&state, 10, 3);
    assert_eq!(tiny, ["2 of 5", "log of a", "node"]);
    state.log = "evil \u{1b}]0;title\u{7} log".to_owned();
    assert_eq!(lines(&state, 40, 15)[3], "evil \\u{1b}]0;title\\u{7} log");
}

#[test]
fn what_callers_do_stands_under_the_verdict_and_a_rate_is_of_a_second() {
    let mut state = faulty();
    let mut figures = CallerFigures {
        callers: 20,
        is_on: true,
        ..CallerFigures::default()
    };
    for (at_ms, taken) in [(0, 100), (500, 300), (2_000, 1_100), (2_500, 1_101)] {
        figures.taken = taken;
        state.look_at_load(Some(figures), Duration::from_millis(at_ms));
    }
    let line = |state: &State, width| lines(state, width, 24)[2 + usize::from(width < 80)].clone();
    let all = "load: 500 locks/s, 1101 locks taken, 0 with two holders (20 callers)";
    assert_eq!(line(&state, 80), all);
    assert_eq!(line(&state, 40), "load: 500 locks/s, 1101 locks taken, 0 w");
    let odd = CallerFigures {
        is_on: false,
        refused: 3,
        lost: 1,
        overlaps: 2,
        ..figures
    };
    state.look_at_load(Some(odd), Duration::from_millis(2_600));
    let all = "load: resting, 1101 locks taken, 2 with two holders, 3 calls without a quorum, 1 l";
    assert_eq!(line(&state, 82), all);
    state.look_at_load(None, Duration::from_millis(2_700));
    assert!(line(&state, 80).starts_with("node state"), "no load");
}

#[test]
fn no_size_and_no_name_break_the_screen() {
    let hostile = "\u{1b}[2J\u{7}\u{202e}evil\n\r\t\u{200d}\u{5bc6}\u{5bc6}\u{301}".repeat(40);
    let mut state = faulty();
    let snapshot = state.snapshot.as_mut().expect("it was looked at");
    snapshot.cluster.name.clone_from(&hostile);
    snapshot.cluster.directory = PathBuf::from(&hostile);
    node(&mut state, 1).process = ProcessState::Ended(hostile.clone());
    state.note(&hostile);
    let shown = lines(&state, 80, 24).join("\n");
    assert!(shown.contains("\\u{1b}[2J"), "{shown}");
    state.log.clone_from(&hostile);
    for page in [Page::Table, Page::Help, Page::Log] {
        state.page = page;
        for (width, height) in [(80, 24), (40, 15), (10, 3)] {
            let shown = lines(&state, width, height).concat();
            let is_odd = |one: char| one.is_control() || one == '\u{202e}';
            assert!(!shown.contains(is_odd), "{shown:?}");
        }
        for size in 0..30_u16 {
            lines(&state, size, 30 - size);
            lines(&state, size, size / 3);
        }
    }
    lines(&State::new(false), 0, 0);
}

#[test]
fn a_tiny_screen_shows_the_verdict_and_the_node_that_is_selected() {
    let shown = lines(&faulty(), 10, 3);
    assert_eq!(shown, ["2 of 5", "node state", "> 2  down"], "{shown:#?}");
}

#[test]
fn of_many_nodes_the_selected_one_is_seen() {
    let mut state = shown(64);
    state.selected = 50;
    for event in 0..9 {
        state.note(&format!("event {event}"));
    }
    let shown = lines(&state, 80, 24);
    assert!(
        shown.iter().any(|line| line.starts_with("> 50 ")),
        "{shown:#?}"
    );
    let events = shown.iter().filter(|line| line.starts_with("event "));
    let events: Vec<&String> = events.collect();
    assert_eq!(
        events,
        ["event 4", "event 5", "event 6", "event 7", "event 8"]
    );
}

#[test]
fn before_the_first_look_and_while_something_is_done_it_says_so() {
    assert_eq!(lines(&State::new(true), 40, 1), ["the nodes are starting"]);
    let mut state = shown(1);
    state.pending = Some("restart node 1".to_owned());
    assert_eq!(lines(&state, 40, 15)[14], "restart node 1 ...");
    state.page = Page::Help;
    let help = lines(&state, 40, 15);
    assert_eq!(help[1], "k  kill -9; it stays down", "{help:#?}");
    assert_eq!(help[12], "Any other key: back to the table", "{help:#?}");
}
