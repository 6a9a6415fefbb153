//! The live table of `quorlock cluster up` and of `cluster status --watch`, on a terminal of 40 columns.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::num::NonZero;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use quorlock_testkit::{Wire, becomes_so, eventually, pause};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use vt100::Parser;

use crate::locks::addresses;
use crate::shell::{Shell, lives, pids};
use crate::terminal::Session;

const ROWS: u16 = 20;
const COLUMNS: u16 = 40;

fn on_terminal(shell: &Shell, command: &str) -> Session {
    on_terminal_of(shell, (ROWS, COLUMNS), command)
}

/// A command on a terminal of so many rows and columns. Before it and behind it the terminal says how it is set.
pub(crate) fn on_terminal_of(shell: &Shell, size: (u16, u16), command: &str) -> Session {
    let (rows, columns) = size;
    let script = format!(
        "trap : INT; stty rows {rows} cols {columns}; export TERM=xterm; stty -g; {command}; code=$?; stty -g; exit $code"
    );
    Session::start(shell, &script)
}

/// The terminal after all that has been written to it.
fn terminal(session: &Session) -> Parser {
    of_size(session, ROWS, COLUMNS)
}

pub(crate) fn of_size(session: &Session, rows: u16, columns: u16) -> Parser {
    let size = |count| NonZero::new(count).unwrap();
    let mut parser = Parser::new(size(rows), size(columns), 0);
    parser.process(&session.output());
    parser
}

fn await_screen(session: &Session, wanted: &[&str]) {
    await_screen_of(session, (ROWS, COLUMNS), wanted);
}

/// Waits for a screen whose lines suit. Every line that is looked for begins as one of the screen does.
pub(crate) fn await_screen_of(session: &Session, size: (u16, u16), wanted: &[&str]) {
    let mut last = String::new();
    eventually(&format!("a screen with {wanted:?}"), || {
        let shown = of_size(session, size.0, size.1).screen().contents();
        let begins = |wanted: &&str| shown.lines().any(|line| line.starts_with(*wanted));
        let is_it = wanted.iter().all(begins);
        if shown != last {
            eprintln!("{shown}\n");
            last = shown;
        }
        is_it
    });
}

/// Waits until the nodes serve. Gives what the ready file says.
fn await_nodes(shell: &Shell, session: &Session) -> Value {
    let ready = shell.file("ready.json");
    eventually("the cluster is ready", || ready.exists());
    let count = 5;
    let rows = (1..=count).map(|number| {
        let mark = if number == 1 { ">" } else { " " };
        format!("{mark} {number}  serving")
    });
    let rows: Vec<String> = rows.collect();
    let mut wanted: Vec<&str> = rows.iter().map(String::as_str).collect();
    wanted.push("5 of 5 serve: locks can be taken (3");
    await_screen(session, &wanted);
    serde_json::from_str(&fs::read_to_string(ready).unwrap()).unwrap()
}

/// The terminal shows its own screen and the cursor, and is set as it was. Gives all that stands on it.
fn restored(session: &Session) -> String {
    // So large that nothing has scrolled away.
    let parser = of_size(session, 200, 400);
    let screen = parser.screen();
    assert!(!screen.alternate_screen() && !screen.hide_cursor());
    let left = screen.contents();
    let settings: Vec<&str> = left.lines().filter(is_setting).collect();
    assert_eq!(settings.len(), 2, "{left}");
    assert_eq!(settings[0], settings[1], "{left}");
    left
}

/// Whether `stty -g` has printed this.
fn is_setting(line: &&str) -> bool {
    let is_digit = |byte: u8| byte == b':' || byte.is_ascii_hexdigit();
    line.len() > 60 && line.bytes().all(is_digit)
}

/// The terminal that this process has.
fn device(pid: u64) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/fd/1")).unwrap()
}

fn stty(device: &Path, words: &[&str]) {
    let mut command = Command::new("stty");
    let status = command.arg("-F").arg(device).args(words).status();
    assert!(status.unwrap().success());
}

/// Nothing reads the terminal any more, it is full, and the table has more to draw.
fn stall(session: &Session, device: &Path) {
    session.stop_reading();
    let mut options = OpenOptions::new();
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let terminal = options.write(true).custom_flags(flags).open(device);
    let mut terminal = terminal.unwrap();
    // The kernel moves some of it on for a while.
    while becomes_so(SETTLED, || terminal.write(&[0; 512]).is_ok()) {}
    for rows in ["30", "40", "50"] {
        stty(device, &["rows", rows]);
        pause(SETTLED);
    }
}

/// The terminal is set as before, after all that did not get to it in time.
fn set_as_before(session: &Session) {
    let output = session.output();
    let output = String::from_utf8_lossy(&output);
    let before = output.lines().find(is_setting).unwrap();
    assert!(output.trim_end().ends_with(before), "{output:?}");
    assert!(output.matches(before).count() > 1, "{output:?}");
}

fn process(pid: u64) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

pub(crate) const UP: &str = "\"$Q\" cluster up --base-port 0 --ready-file ready.json";

#[test]
fn keys_kill_and_restart_nodes_and_the_terminal_is_given_back() {
    let shell = Shell::new();
    let mut session = on_terminal(&shell, UP);
    let ready = await_nodes(&shell, &session);
    assert!(terminal(&session).screen().alternate_screen());
    assert!(terminal(&session).screen().hide_cursor());

    session.types("2k");
    let killed = [
        "> 2  down (killed)",
        "4 of 5 serve",
        "[n2] killed with kill -9",
    ];
    await_screen(&session, &killed);
    session.types("k");
    await_screen(&session, &["node 2 is down; start it with"]);
    session.types("r");
    await_screen(&session, &["[n2] started", "[n2] serves", "5 of 5 serve"]);
    session.types("3t");
    await_screen(
        &session,
        &["> 3  down (stopped cleanly)", "[n3] stopped cleanly"],
    );
    session.types("4p");
    await_screen(&session, &["> 4  paused", "[n4] paused"]);
    session.types("p");
    await_screen(&session, &["> 4  serving", "[n4] goes on"]);
    session.types("?");
    await_screen(&session, &["k  kill -9; it stays down"]);
    session.types(" b");
    await_screen(&session, &["Any key: back to the table"]);
    assert!(!terminal(&session).screen().alternate_screen());
    session.types("x");
    await_screen(&session, &["> 4  serving"]);

    session.types("q");
    session.ends_with(0);
    let left = restored(&session);
    for line in [
        "Cluster 'dev' is up: 5 nodes serve, a lock needs 3.",
        "  shell      export QUORLOCK_NODES=redis://127.0.0.1:",
        "Cluster 'dev' is down: ",
    ] {
        let begins = |shown: &str| shown.starts_with(line);
        assert_eq!(left.lines().filter(|it| begins(it)).count(), 1, "{left}");
    }
    assert!(!left.contains("killed with kill -9"), "{left}");
    assert!(pids(&ready).into_iter().all(|pid| !lives(pid)));
}

#[test]
fn a_table_needs_no_locale() {
    let shell = Shell::new();
    let mut session = on_terminal(&shell, &format!("LANG= LC_ALL=C {UP}"));
    await_nodes(&shell, &session);
    session.types("1");
    await_screen(&session, &["> 1  serving"]);
    session.types("q");
    session.ends_with(0);
    restored(&session);
    assert!(session.output().is_ascii(), "a terminal may show no more");
}

#[test]
fn a_node_that_hangs_holds_up_neither_the_table_nor_its_end() {
    let shell = Shell::new();
    let mut session = on_terminal(&shell, UP);
    let ready = await_nodes(&shell, &session);
    // Behind the supervisor's back.
    let hung = process(pids(&ready)[1]);
    kill_process(hung, Signal::STOP).unwrap();
    await_screen(&session, &["  2  does not answer", "4 of 5 serve"]);
    // The supervisor waits for it, and the table waits for neither.
    session.types("2r");
    await_screen(&session, &["restart node 2 ..."]);
    session.types("3");
    await_screen(&session, &["> 3  serving", "restart node 2 ..."]);
    kill_process(process(pids(&ready)[3]), Signal::KILL).unwrap();
    await_screen(&session, &["  4  connection refused"]);
    kill_process(hung, Signal::CONT).unwrap();
    let again = [
        "[n2] started",
        "[n4] ended by itself (signal 9)",
        "4 of 5 serve",
    ];
    await_screen(&session, &again);
    session.types("\x03");
    session.ends_with(0);
    restored(&session);
    assert!(pids(&ready).into_iter().all(|pid| !lives(pid)));
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let shell = Shell::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let mut session = on_terminal(&shell, UP);
        let ready = await_nodes(&shell, &session);
        kill_process(process(ready["pid"].as_u64().unwrap()), signal).unwrap();
        session.ends_with(0);
        assert!(restored(&session).contains("Cluster 'dev' is down: 5 of 5"));
        assert!(pids(&ready).into_iter().all(|pid| !lives(pid)));
    }
}

#[test]
fn a_terminal_that_is_closed_ends_the_cluster() {
    let shell = Shell::new();
    let session = on_terminal(&shell, UP);
    let ready = await_nodes(&shell, &session);
    drop(session);
    let supervisor = ready["pid"].as_u64().unwrap();
    eventually("the supervisor ends", || !lives(supervisor));
    assert!(pids(&ready).into_iter().all(|pid| !lives(pid)));
    assert_eq!(shell.states(), ["down"; 5]);
    let stopped = shell.file(".quorlock/dev/node-1/incarnation-0000000001.stopped");
    assert!(stopped.exists(), "cleanly");
}

#[test]
fn a_terminal_that_is_not_read_holds_up_neither_the_cluster_nor_its_end() {
    let shell = Shell::new();
    let mut session = on_terminal(&shell, &format!("{UP} --ephemeral"));
    let ready = await_nodes(&shell, &session);
    let nodes = addresses(&shell);
    let supervisor = ready["pid"].as_u64().unwrap();
    stall(&session, &device(supervisor));
    let mut status = shell.command(&["cluster", "status"]).spawn().unwrap();
    let answers = becomes_so(ANSWER_TIME, || status.try_wait().unwrap().is_some());
    assert!(answers, "the supervisor answers");
    assert!(status.wait().unwrap().success());
    shell.succeed(&["cluster", "kill", "5"]);
    for node in &nodes[..4] {
        assert_eq!(Wire::connect(node.as_str()).ask("PING"), "+PONG");
    }
    kill_process(process(supervisor), Signal::TERM).unwrap();
    assert!(becomes_so(END_TIME, || !lives(supervisor)), "it ends");
    session.read_again();
    session.ends_with(0);
    set_as_before(&session);
}

#[test]
fn a_terminal_that_is_read_again_shows_the_table_as_it_is() {
    let shell = Shell::new();
    let mut session = on_terminal(&shell, &format!("{UP} --ephemeral"));
    let ready = await_nodes(&shell, &session);
    let supervisor = ready["pid"].as_u64().unwrap();
    let device = device(supervisor);
    stall(&session, &device);
    shell.succeed(&["cluster", "kill", "5"]);
    stty(&device, &["rows", &ROWS.to_string()]);
    session.read_again();
    await_screen(
        &session,
        &["  4  serving", "  5  down (killed)", "4 of 5 serve"],
    );
    stall(&session, &device);
    kill_process(process(supervisor), Signal::TERM).unwrap();
    session.read_again();
    session.ends_with(0);
    assert!(restored(&session).contains("' is down: "));
}

#[test]
fn a_watch_whose_terminal_is_not_read_ends_by_a_signal() {
    let mut shell = Shell::new();
    shell.up(&["--base-port", "0", "--ephemeral", "--nodes", "1"]);
    let watch = "sh -c 'echo $$ > pid; exec \"$Q\" cluster status --watch'";
    let mut session = on_terminal(&shell, watch);
    await_screen(&session, &["1 of 1 serve"]);
    let pid = fs::read_to_string(shell.file("pid")).unwrap();
    let pid = pid.trim().parse().unwrap();
    stall(&session, &device(pid));
    kill_process(process(pid), Signal::TERM).unwrap();
    assert!(becomes_so(END_TIME, || !lives(pid)), "it ends");
    session.read_again();
    session.ends_with(0);
    set_as_before(&session);
}

#[test]
fn what_is_pasted_does_nothing_and_a_table_that_was_stopped_is_drawn_again() {
    let shell = Shell::new();
    let mut session = on_terminal(&shell, &format!("{UP} --ephemeral"));
    let ready = await_nodes(&shell, &session);
    assert!(terminal(&session).screen().bracketed_paste());
    session.types(&format!("\x1b[200~{}\x1b[201~3", "2ktrpbq".repeat(2_000)));
    await_screen(&session, &["> 3  serving", "5 of 5 serve"]);

    let pid = ready["pid"].as_u64().unwrap();
    kill_process(process(pid), Signal::STOP).unwrap();
    // As a shell does that takes the terminal meanwhile.
    stty(&device(pid), &["sane"]);
    let drawn = |session: &Session| {
        let output = session.output();
        String::from_utf8_lossy(&output)
            .matches("Cluster '")
            .count()
    };
    let before = drawn(&session);
    kill_process(process(pid), Signal::CONT).unwrap();
    eventually("all of it is drawn again", || drawn(&session) > before);
    session.types("4");
    await_screen(&session, &["> 4  serving", "5 of 5 serve"]);
    session.types("q");
    session.ends_with(0);
    restored(&session);
    assert!(!terminal(&session).screen().bracketed_paste());
}

#[test]
fn a_terminal_that_cannot_or_shall_not_show_a_table_gets_lines() {
    let shell = Shell::new();
    for command in [
        format!("{UP} --no-tui --nodes 1"),
        format!("TERM=dumb {UP} --nodes 1"),
        format!("stty rows 600 cols 600; {UP} --nodes 1"),
        format!("{UP} --nodes 1 < /dev/null"),
    ] {
        let mut session = on_terminal(&shell, &command);
        session.shows("Stop it with Ctrl-C or: quorlock cluster down");
        assert!(!session.output().contains(&0x1b), "{command}");
        session.types("\x03");
        session.ends_with(0);
    }
}

#[test]
fn a_cluster_is_watched_from_another_terminal_until_q() {
    let mut shell = Shell::new();
    shell.up(&["--base-port", "0"]);
    let mut session = on_terminal(&shell, "\"$Q\" cluster status --watch");
    await_screen(&session, &["  1  serving", "5 of 5 serve", "? help  q end"]);
    session.types("k");
    for node in ["1", "2", "3"] {
        shell.succeed(&["cluster", "kill", node]);
    }
    await_screen(
        &session,
        &["  1  down (killed)", "2 of 5 serve: no lock can be taken"],
    );
    session.types("q");
    session.ends_with(69);
    assert!(restored(&session).contains("Cluster 'dev': 2 of 5 nodes serve"));

    let watched = shell
        .command(&["cluster", "status", "--watch"])
        .spawn()
        .unwrap();
    shell.succeed(&["cluster", "restart", "1"]);
    shell.succeed(&["cluster", "down"]);
    let watched = crate::shell::Ended::of(watched.wait_with_output().unwrap());
    assert_eq!(watched.code, Some(69), "{}", watched.stderr);
    let first = watched.stdout.lines().next().unwrap();
    assert!(
        first.starts_with("Cluster 'dev': 2 of 5 nodes serve"),
        "{first}"
    );
    let last = watched.stdout.trim_end().lines().next_back().unwrap();
    assert!(last.starts_with("Cluster 'dev' is stopped"), "{last}");
}

/// In which what goes on beside a terminal that is not read has come to rest.
const SETTLED: Duration = Duration::from_millis(300);
/// What a command waits for, beside a terminal that is not read.
const ANSWER_TIME: Duration = Duration::from_secs(3);
const END_TIME: Duration = Duration::from_secs(10);
