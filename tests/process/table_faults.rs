//! The keys of the live table that need more than a process: faults of nodes in memory, and logs; and what it says of commands and clocks.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;

use quorlock_testkit::{Wire, eventually};

use crate::locks::addresses;
use crate::shell::Shell;
use crate::table::{UP, await_screen_of, of_size, on_terminal_of};
use crate::terminal::Session;

const WIDE: (u16, u16) = (24, 100);
const NARROW: (u16, u16) = (20, 40);

/// All that is on the screen, with one blank for each space and end of a line.
fn words(session: &Session, size: (u16, u16)) -> String {
    let shown = of_size(session, size.0, size.1).screen().contents();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn await_words(session: &Session, size: (u16, u16), wanted: &str) {
    let mut last = String::new();
    eventually(wanted, || {
        let shown = words(session, size);
        let is_there = shown.contains(wanted);
        if shown != last {
            eprintln!("{shown}\n");
            last = shown;
        }
        is_there
    });
}

/// The cells of the row that begins so.
fn row(session: &Session, begin: &str) -> Vec<String> {
    let shown = of_size(session, WIDE.0, WIDE.1).screen().contents();
    let row = shown.lines().find(|line| line.starts_with(begin));
    let cells = row.unwrap_or_default().split_whitespace();
    cells.map(str::to_owned).collect()
}

#[test]
fn keys_fill_a_disk_and_move_a_clock_of_a_node_in_memory() {
    let shell = Shell::new();
    let up = format!("{UP} --nodes 3 --ephemeral");
    let mut session = on_terminal_of(&shell, WIDE, &up);
    await_screen_of(&session, WIDE, &["> 1  serving", "3 of 3 serve"]);
    session.types("2j");
    let clock = |begin: &str| row(&session, begin).last().cloned();
    eventually("its clock is ahead", || {
        clock("> 2  serving").as_deref() == Some("+31s")
    });
    assert_eq!(clock("  1  serving").as_deref(), Some("0"));
    await_screen_of(
        &session,
        WIDE,
        &["[n2] clocks advanced by 31 s, 31 s in all"],
    );
    session.types("d");
    let full = ["> 2  serving, disk full", "[n2] its disk is full"];
    await_screen_of(&session, WIDE, &full);
    session.types("d");
    await_screen_of(
        &session,
        WIDE,
        &["[n2] reached as before, and no disk is full"],
    );
    eventually("it has room", || {
        row(&session, "> 2  serving ")
            .get(3)
            .is_some_and(|cell| cell != "disk")
    });
    session.types("l");
    await_words(&session, WIDE, "nodes inside the supervisor write no log");
    session.types("q");
    session.ends_with(0);
}

#[test]
fn keys_say_what_to_start_where_a_node_uses_the_disk_and_the_clock_of_the_machine() {
    let shell = Shell::new();
    let mut session = on_terminal_of(&shell, NARROW, &format!("{UP} --nodes 1"));
    await_screen_of(&session, NARROW, &["> 1  serving", "1 of 1 serve"]);
    for (key, why) in [
        (
            "j",
            "read the machine's clock, which no command moves; nothing was done",
        ),
        (
            "d",
            "on this machine's disk, which no command fills; nothing was done",
        ),
    ] {
        session.types(key);
        await_words(&session, NARROW, why);
        let shown = words(&session, NARROW);
        let remedy = "quorlock cluster up --ephemeral ?";
        assert!(shown.contains(remedy), "in the last line: {shown}");
    }
    session.types("q");
    session.ends_with(0);
}

#[test]
fn the_log_of_a_node_is_shown_as_it_grows_and_its_control_characters_do_nothing() {
    let shell = Shell::new();
    let mut session = on_terminal_of(&shell, NARROW, &format!("{UP} --nodes 1"));
    await_screen_of(&session, NARROW, &["> 1  serving", "1 of 1 serve"]);
    let log = shell.file(".quorlock/dev/node-1.log");
    let append = |text: &str| {
        let log = OpenOptions::new().append(true).open(&log);
        log.unwrap().write_all(text.as_bytes()).unwrap();
    };
    append("\x1b[2J\x1b]0;evil\x07 line\n");
    session.types("l");
    let first = [
        "Log of node 1, ",
        "\\u{1b}[2J\\u{1b}]0;evil\\u{7} line",
        "l, Esc  back",
    ];
    await_screen_of(&session, NARROW, &first);
    append("a later line\n");
    await_screen_of(&session, NARROW, &["a later line"]);
    for leaves in ["\x1b", "l", "q"] {
        session.types(leaves);
        await_screen_of(&session, NARROW, &["> 1  serving", "? help"]);
        session.types("l");
        await_screen_of(&session, NARROW, &["Log of node 1, "]);
    }
    session.types("\x03");
    session.ends_with(0);
}

#[test]
fn the_latency_of_commands_is_shown_where_there_are_any() {
    let shell = Shell::new();
    let up = format!("{UP} --nodes 1 --ephemeral");
    let mut session = on_terminal_of(&shell, WIDE, &up);
    await_screen_of(&session, WIDE, &["> 1  serving", "1 of 1 serve"]);
    let p99 = || row(&session, "> 1  serving").get(6).cloned();
    let mut uptimes = BTreeSet::new();
    eventually("it was looked at several times", || {
        let row = row(&session, "> 1  serving");
        let own = row.get(6).is_none_or(|p99| p99 == "-");
        assert!(own, "the table's own questions do not count: {row:?}");
        uptimes.extend(row.get(3).cloned());
        uptimes.len() > 2
    });
    let mut client = Wire::connect(addresses(&shell).remove(0).as_str());
    eventually("its commands took some time", || {
        assert_eq!(client.ask("PING"), "+PONG");
        p99().is_some_and(|cell| cell.ends_with("us") || cell.ends_with("ms"))
    });
    session.types("q");
    session.ends_with(0);
}
