//! `quorlock cluster up --ephemeral`, as a test suite uses it: nodes that lose their power, are cut off and slow, and whose
//! clocks are advanced, by commands of any process that knows the cluster's directory.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use quorlock_testkit::{Wire, eventually, observed_now, pause};
use rustix::process::Signal;
use serde_json::Value;

use crate::run::{addresses, take_away};
use crate::shell::{Ended, Shell, await_end, pids, send};

/// Three nodes in memory.
fn three(more: &[&str]) -> Shell {
    let mut shell = Shell::new();
    let words = ["--nodes", "3", "--base-port", "0", "--ephemeral"];
    shell.up(&[&words, more].concat());
    shell
}

/// What a command says that is refused with this code.
fn refused(shell: &Shell, words: &[&str], code: i32) -> String {
    let ended = shell.quorlock(&[&["cluster"], words].concat());
    assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.stderr);
    ended.stderr
}

fn acquires(shell: &Shell, name: &str) -> Option<i32> {
    shell.quorlock(&["acquire", name, "--no-wait"]).code
}

#[test]
fn one_line_says_where_the_nodes_are_and_its_directory_leads_to_the_commands() {
    let mut shell = Shell::new();
    shell.up(&["--ephemeral", "--base-port", "0", "--json"]);
    let output = shell.up_output();
    let line: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    assert_eq!(line["nodes"].as_array().unwrap().len(), 5);
    assert_eq!(line["quorum"], 3);
    let elsewhere = Shell::new();
    let directory = line["dir"].as_str().unwrap();
    for node in ["1", "2"] {
        elsewhere.succeed(&["cluster", "kill", node, "--dir", directory]);
    }
    assert_eq!(acquires(&shell, "a"), Some(0), "three are left");
    elsewhere.succeed(&["cluster", "cut", "3", "--dir", directory]);
    assert_eq!(acquires(&shell, "b"), Some(69), "two are no majority");
}

#[test]
fn an_advance_ends_locks_and_restart_delays() {
    let shell = three(&[]);
    shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    assert_eq!(acquires(&shell, "a"), Some(75));
    let said = shell.succeed(&["cluster", "advance", "3599s"]);
    assert!(
        said.contains("clients' own clocks have not moved"),
        "{said}"
    );
    assert_eq!(acquires(&shell, "a"), Some(75), "a second is left");
    shell.succeed(&["cluster", "advance", "2s"]);
    assert_eq!(acquires(&shell, "a"), Some(0));

    take_away(&shell, "b", 3);
    shell.succeed(&["cluster", "kill", "3"]);
    shell.succeed(&["cluster", "restart", "3"]);
    assert_eq!(shell.states()[2], "restart-delay");
    shell.succeed(&["cluster", "advance", "2h"]);
    eventually("all serve", || {
        shell.states() == ["serving", "serving", "serving"]
    });
}

#[test]
fn who_has_advanced_a_node_beyond_its_restart_delay_finds_it_serving() {
    let shell = three(&[]);
    let address = addresses(&shell).remove(0);
    // The delay is as long as what the node may have granted.
    let take = "SET a 1 NX PX 50000";
    assert_eq!(Wire::connect(&address).ask(take), "+OK");
    for _ in 0..20 {
        shell.succeed(&["cluster", "kill", "1"]);
        shell.succeed(&["cluster", "restart", "1"]);
        let mut client = Wire::connect(&address);
        let waits = client.ask(take);
        assert!(waits.contains("RESTARTDELAY"), "{waits}");
        shell.succeed(&["cluster", "advance", "30d", "--node", "1"]);
        assert_eq!(client.ask(take), "+OK");
    }
}

#[test]
fn a_node_that_is_killed_again_in_its_restart_delay_is_reported_at_most_once_for_each_start() {
    let shell = three(&[]);
    take_away(&shell, "a", 3);
    for _ in 0..3 {
        shell.succeed(&["cluster", "kill", "1"]);
        shell.succeed(&["cluster", "restart", "1"]);
    }
    pause(Duration::from_secs(1));
    let output = shell.up_output();
    let reports = output.matches("[n1] is in its restart delay").count();
    // One that is killed at once may have none.
    assert!((1..=3).contains(&reports), "{output}");
}

#[test]
fn one_node_can_be_ahead_of_the_others() {
    let shell = three(&[]);
    take_away(&shell, "a", 3);
    shell.succeed(&["cluster", "advance", "61s", "--node", "1"]);
    let held = addresses(&shell);
    let held = held.iter().map(|it| Wire::connect(it).ask("EXISTS a"));
    assert_eq!(held.collect::<Vec<_>>(), [":0", ":1", ":1"]);
    assert_eq!(acquires(&shell, "a"), Some(75), "two hold it");
}

#[test]
fn advances_at_once_add_up() {
    let shell = three(&[]);
    let words = ["cluster", "advance", "10s"];
    let commands = (0..8).map(|_| shell.command(&words).spawn().unwrap());
    for command in commands.collect::<Vec<_>>() {
        let ended = Ended::of(command.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let said = shell.succeed(&["cluster", "advance", "1ms"]);
    assert!(said.contains("80 s in all"), "{said}");
}

#[test]
fn a_node_that_loses_its_power_forgets_what_it_had_not_synced() {
    for (end, exists) in [("kill", ":1"), ("lose-power", ":0")] {
        let shell = three(&["--appendfsync", "no"]);
        let address = addresses(&shell).remove(1);
        let mut client = Wire::connect(&address);
        // Else a key that no restart delay covers is synced in every mode.
        let directive = "CONFIG SET no-ttl-durability as-mode";
        assert_eq!(client.ask(directive), "+OK");
        assert_eq!(client.ask("SET first token"), "+OK");
        assert_eq!(client.ask("SET a token"), "+OK");
        shell.succeed(&["cluster", end, "2"]);
        assert_eq!(shell.states(), ["serving", "down", "serving"]);
        assert!(TcpStream::connect(&address).is_err(), "nothing listens");
        shell.succeed(&["cluster", "restart", "2"]);
        shell.succeed(&["cluster", "advance", "30d"]);
        eventually("it serves", || shell.states()[1] == "serving");
        assert_eq!(Wire::connect(&address).ask("EXISTS a"), exists, "{end}");
    }
    let shell = three(&["--appendfsync", "always"]);
    let address = addresses(&shell).remove(1);
    assert_eq!(Wire::connect(&address).ask("SET a token"), "+OK");
    // Killed before: the power then goes from a machine without a node.
    shell.succeed(&["cluster", "kill", "2"]);
    shell.succeed(&["cluster", "lose-power", "2"]);
    shell.succeed(&["cluster", "restart", "2"]);
    shell.succeed(&["cluster", "advance", "30d"]);
    eventually("it serves", || shell.states()[1] == "serving");
    assert_eq!(Wire::connect(&address).ask("EXISTS a"), ":1");
}

#[test]
fn what_a_client_sends_to_a_node_that_is_held_up_arrives_later() {
    let shell = three(&[]);
    let address = addresses(&shell).remove(0);
    for (begin, end, state) in [
        (&["cut", "1"][..], &["heal", "1"][..], "cut"),
        (&["cut", "1"], &["heal"], "cut"),
        (&["pause", "1"], &["resume", "1"], "paused"),
        (&["slow", "1", "1m"], &["heal"], "serving"),
    ] {
        let mut before = Wire::connect(&address);
        assert_eq!(before.ask("PING"), "+PONG");
        shell.succeed(&[&["cluster"], begin].concat());
        assert_eq!(shell.states(), [state, "serving", "serving"]);
        before.send(b"PING\r\n");
        // It can connect, as far as it knows.
        let mut since = Wire::connect(&address);
        since.send(b"PING\r\n");
        let soon = Duration::from_millis(50);
        assert!(!before.answers_within(soon) && !since.answers_within(soon));
        shell.succeed(&["run", "a", "--", "true"]);
        shell.succeed(&[&["cluster"], end].concat());
        let replies = (before.reply(), since.reply());
        assert_eq!(
            replies,
            ("+PONG".to_owned(), "+PONG".to_owned()),
            "{begin:?}"
        );
        assert_eq!(shell.states(), ["serving", "serving", "serving"]);
    }
}

#[test]
fn a_node_whose_disk_is_full_takes_no_locks_once_its_space_is_used_up_until_it_is_healed() {
    let shell = three(&["--appendfsync", "no"]);
    let address = addresses(&shell).remove(0);
    let mut client = Wire::connect(&address);
    shell.succeed(&["cluster", "disk-full", "1"]);
    assert_eq!(client.ask("SET a 1 NX PX 3600000"), "+OK");
    let status = shell.succeed(&["cluster", "status"]);
    assert!(status.contains("serving, disk full"), "{status}");
    let fill = format!("SET filler {} PX 3600000", "x".repeat(100 << 10));
    eventually("its space is used up", || {
        client.ask(&fill).starts_with("-MISCONF")
    });
    assert_eq!(shell.states(), ["log-fails", "serving", "serving"]);
    assert_eq!(acquires(&shell, "b"), Some(0), "two are a majority");
    shell.succeed(&["cluster", "disk-full", "2"]);
    assert_eq!(client.ask("DEL a"), ":1", "a release goes on");
    shell.succeed(&["cluster", "heal"]);
    eventually("it takes locks again", || {
        client.ask("SET a 1 NX PX 3600000") == "+OK"
    });
    eventually("all serve", || {
        shell.states() == ["serving", "serving", "serving"]
    });
    let status = shell.succeed(&["cluster", "status"]);
    assert!(!status.contains("full"), "{status}");
}

#[test]
fn a_node_starts_again_on_a_full_disk() {
    let shell = three(&[]);
    shell.succeed(&["cluster", "disk-full", "2"]);
    for end in ["kill", "lose-power"] {
        shell.succeed(&["cluster", end, "2"]);
        shell.succeed(&["cluster", "restart", "2"]);
        shell.succeed(&["cluster", "advance", "30d", "--node", "2"]);
        eventually("it answers", || {
            ["serving", "log-fails"].contains(&&*shell.states()[1])
        });
    }
}

#[test]
fn a_pipe_that_is_full_holds_up_neither_the_cluster_nor_its_end() {
    let shell = Shell::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    // As much as a pipe holds.
    writer.write_all(&[b'x'; 64 << 10]).unwrap();
    let words = [
        "cluster",
        "up",
        "--ephemeral",
        "--base-port",
        "0",
        "--ready-file",
        "ready.json",
    ];
    let mut up = shell.command(&words).stdout(writer).spawn().unwrap();
    let ready = shell.file("ready.json");
    eventually("the cluster is ready", || ready.exists());
    shell.succeed(&["cluster", "kill", "1"]);
    shell.succeed(&["cluster", "down"]);
    assert_eq!(await_end(&mut up).code(), Some(0));
    drop(reader);
}

#[test]
fn a_failure_waits_for_no_reader_of_a_full_pipe() {
    let shell = Shell::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'x'; 64 << 10]).unwrap();
    let up = ["cluster", "up", "--json", "--ephemeral", "--base-port", "0"];
    // It fails once all nodes serve.
    let words = [&up[..], &["--ready-file", "missing/ready.json"]].concat();
    let mut up = shell.command(&words).stdout(writer).spawn().unwrap();
    assert_eq!(await_end(&mut up).code(), Some(1));
    drop(reader);
    let mut said = String::new();
    up.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("missing/ready.json"), "{said:?}");
    let ended = shell.quorlock(&words);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let last = ended.stdout.lines().last().unwrap();
    for part in ["\"error\"", "cannot write", "missing/ready.json"] {
        assert!(last.contains(part), "{last}");
    }
}

#[test]
fn a_slow_node_answers_after_the_delay_of_both_ways() {
    let shell = three(&[]);
    shell.succeed(&["cluster", "slow", "2", "150ms"]);
    let mut client = Wire::connect(addresses(&shell).remove(1));
    let began = observed_now();
    assert_eq!(client.ask("PING"), "+PONG");
    assert!(observed_now() - began >= Duration::from_millis(300));
    let status = shell.succeed(&["cluster", "status"]);
    assert!(status.contains("slow by 150 ms each way"), "{status}");
}

#[test]
fn a_node_that_is_cut_off_stays_so_when_it_is_restarted() {
    let shell = three(&[]);
    shell.succeed(&["cluster", "kill", "1"]);
    shell.succeed(&["cluster", "cut", "1"]);
    assert_eq!(shell.states()[0], "down");
    let said = shell.succeed(&["cluster", "restart", "1"]);
    assert!(said.contains("node 1: started; it"), "{said}");
    assert_eq!(shell.states()[0], "cut");
    // A machine that hangs does so no longer once it was restarted.
    shell.succeed(&["cluster", "heal"]);
    shell.succeed(&["cluster", "pause", "1"]);
    shell.succeed(&["cluster", "kill", "1"]);
    assert!(refused(&shell, &["resume", "1"], 1).contains("node 1 is down"));
    shell.succeed(&["cluster", "restart", "1"]);
    eventually("it serves", || shell.states()[0] == "serving");
    assert_eq!(
        Wire::connect(addresses(&shell).remove(0)).ask("PING"),
        "+PONG"
    );
}

#[test]
fn a_node_that_a_client_has_shut_down_is_known_to_be_down() {
    let shell = three(&[]);
    Wire::connect(addresses(&shell).remove(2)).send(b"SHUTDOWN\r\n");
    eventually("it is down", || shell.states()[2] == "down");
    assert!(refused(&shell, &["pause", "3"], 1).contains("node 3 is down"));
    shell.succeed(&["cluster", "restart", "3"]);
    assert_eq!(shell.states(), ["serving", "serving", "serving"]);
}

#[test]
fn nodes_on_a_disk_and_with_the_machines_clock_refuse_and_say_why() {
    for mode in [&["--in-process"][..], &[]] {
        let mut shell = Shell::new();
        shell.up(&[&["--nodes", "1", "--base-port", "0"], mode].concat());
        shell.succeed(&["acquire", "a", "--ttl", "1h"]);
        for (words, why) in [
            (&["lose-power", "1"][..], "on this machine's disk"),
            (&["cut", "1"], "this machine's own network"),
            (&["slow", "1", "1s"], "this machine's own network"),
            (&["heal"], "this machine's own network"),
            (&["disk-full", "1"], "on this machine's disk"),
            (&["advance", "2h"], "locks end by their ttl"),
            (&["advance", "2h", "--node", "1"], "which no command moves"),
        ] {
            let said = refused(&shell, words, 1);
            assert!(said.contains(why), "{words:?}: {said}");
            assert!(said.contains("nothing was done"), "{words:?}: {said}");
            assert!(said.contains("cluster up --ephemeral"), "{words:?}: {said}");
        }
        if mode == ["--in-process"] {
            let said = refused(&shell, &["pause", "1"], 1);
            assert!(said.contains("or with --ephemeral"), "{said}");
        }
        assert_eq!(shell.states(), ["serving"]);
        assert_eq!(acquires(&shell, "a"), Some(75), "it is held");
    }
}

#[test]
fn wrong_nodes_and_times_are_refused_and_change_nothing() {
    let shell = three(&[]);
    shell.succeed(&["acquire", "a", "--ttl", "1h"]);
    for (words, why) in [
        (&["cut", "4"][..], "numbered 1 to 3"),
        (&["heal", "4"], "numbered 1 to 3"),
        (&["lose-power", "65535"], "numbered 1 to 3"),
        (&["disk-full", "4"], "numbered 1 to 3"),
        (&["slow", "4", "1s"], "numbered 1 to 3"),
        (&["advance", "1s", "--node", "4"], "numbered 1 to 3"),
        (&["cut", "0"], "numbered from 1"),
        (&["cut", "-1"], "-1"),
        (&["cut", "65536"], "not the number of a node"),
        (&["slow", "1", "-1s"], "is negative"),
        (&["slow", "1", "0"], "too short"),
        (&["slow", "1", "61s"], "the longest is 1m"),
        (&["slow", "1"], "TIME"),
        (&["advance", "-5s"], "is negative"),
        (&["advance", "0s"], "too short"),
        (&["advance", "5"], "no unit"),
        (&["advance", "366d"], "the longest is 365d"),
        (&["advance"], "TIME"),
    ] {
        let said = refused(&shell, words, 64);
        assert!(said.contains(why), "{words:?}: {said}");
    }
    assert_eq!(shell.states(), ["serving", "serving", "serving"]);
    assert_eq!(acquires(&shell, "a"), Some(75));
}

#[test]
fn a_cluster_in_memory_whose_supervisor_was_killed_is_not_taken_for_one_that_can_come_back() {
    let mut shell = three(&[]);
    let status = shell.quorlock(&["cluster", "status", "--json"]).json();
    let directory = status["dir"].as_str().unwrap().to_owned();
    shell.supervisor().signal(Signal::KILL);
    shell.supervisor().await_end();
    assert!(
        std::path::Path::new(&directory)
            .join("control.sock")
            .exists()
    );
    for words in [&["advance", "1s"][..], &["cut", "1"], &["kill", "1"]] {
        let said = refused(&shell, words, 1);
        assert!(said.contains("is not running"), "{said}");
        assert!(said.contains("their locks are gone"), "{said}");
        assert!(said.contains(&format!("clean --dir {directory}")), "{said}");
    }
    let status = shell.quorlock(&["cluster", "status"]);
    assert!(
        status.stdout.contains("their locks are gone"),
        "{}",
        status.stdout
    );
    shell.succeed(&["cluster", "clean", "--dir", &directory]);
    assert!(!std::path::Path::new(&directory).exists());
    let said = refused(&shell, &["advance", "1s", "--dir", &directory], 1);
    assert!(said.contains("there is no cluster in"), "{said}");
}

#[test]
fn a_cluster_that_is_ended_while_it_starts_leaves_nothing_behind() {
    let (shell, temporary) = (Shell::new(), tempfile::tempdir().unwrap());
    let names = || std::fs::read_dir(temporary.path()).unwrap().count();
    for _ in 0..5 {
        let mut up = shell.command(&["cluster", "up", "--ephemeral", "--base-port", "0", "--json"]);
        let up = up.env("TMPDIR", temporary.path()).spawn().unwrap();
        eventually("its directory", || names() > 0);
        send(&up, Signal::TERM);
        let ended = Ended::of(up.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(names(), 0);
    }
}

#[test]
fn a_node_that_is_restarted_over_and_over_keeps_no_descriptors() {
    let mut shell = Shell::new();
    let words = ["--nodes", "3", "--base-port", "0", "--ephemeral"];
    let pid = pids(&shell.up(&words))[0];
    let descriptors = || {
        std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .count()
    };
    let restart = || shell.succeed(&["cluster", "restart", "1"]);
    restart();
    let before = descriptors();
    for _ in 0..10 {
        restart();
    }
    eventually("none is kept", || descriptors() < before + 5);
}
