//! `quorlock cluster up --tls`: its commands need no flags, others need one file, and the cluster remembers how it speaks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use quorlock_testkit::{Certificates, Process, Wire, binary, eventually};
use serde_json::Value;

use crate::shell::{Ended, Shell};

const THREE: [&str; 5] = ["--tls", "--nodes", "3", "--base-port", "0"];

/// Every command that finds the cluster of its directory.
fn use_all_commands(shell: &Shell, lock: &str) {
    let words = ["run", lock, "--wait", "5s", "--", "echo", "held"];
    assert_eq!(shell.succeed(&words).trim(), "held");
    let token = shell.succeed(&["acquire", lock, "--ttl", "1h"]);
    for words in [
        &["locks"][..],
        &["who", lock],
        &["status"],
        &["extend", lock, token.trim()],
        &["release", lock, token.trim()],
        &["cluster", "status"],
    ] {
        shell.succeed(words);
    }
    // It finds that a disk in memory is none.
    let found = shell.quorlock(&["doctor"]).stdout;
    assert!(found.contains("3 of 3 nodes vote"), "{found}");
}

fn urls(said: &Value) -> Vec<String> {
    let nodes = said["nodes"].as_array().unwrap().iter();
    nodes
        .map(|node| node["url"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn its_commands_need_no_flags_and_other_clients_one_file() {
    let mut shell = Shell::in_memory();
    let ready = shell.up(&THREE);
    let authority = ready["cacert"].as_str().unwrap();
    for (name, mode) in [("ca.pem", 0o600), ("node.pem", 0o600), ("node.key", 0o600)] {
        let about = fs::metadata(shell.file(&format!(".quorlock/dev/{name}"))).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, mode, "{name}");
    }
    let folder = fs::metadata(shell.file(".quorlock/dev")).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    let urls = urls(&ready);
    assert!(
        urls.iter()
            .all(|url| url.starts_with("rediss://127.0.0.1:"))
    );
    let banner = shell.up_output();
    assert!(banner.contains(&format!("QUORLOCK_NODES={}", urls.join(","))));
    assert!(
        banner.contains(&format!("--cacert {authority} ")),
        "{banner}"
    );

    use_all_commands(&shell, "a");
    shell.succeed(&["cluster", "kill", "3"]);
    shell.succeed(&["run", "a", "--", "true"]);
    let said = shell.succeed(&["cluster", "restart", "3"]);
    assert!(said.contains("restart delay"), "{said}");
    shell.succeed(&["cluster", "pause", "3"]);
    shell.succeed(&["cluster", "resume", "3"]);
    let mut command = shell.command(&["agent", "--port", "0"]);
    let mut agent = Process::start(&mut command, &shell.file("agent.log")).unwrap();
    let line = agent.await_line("find the agent under redis://");
    let (_, address) = line.rsplit_once("://").unwrap();
    assert_eq!(
        Wire::connect(address.trim()).ask("SET b me NX PX 9000"),
        "+OK"
    );

    let elsewhere = Shell::in_memory();
    let words = ["run", "c", "--", "true"];
    let mut command = elsewhere.command(&words);
    command.env("QUORLOCK_NODES", urls.join(","));
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("its certificate is of no authority"),
        "{said}"
    );
    let mut command = elsewhere.command(&words);
    command.env("QUORLOCK_NODES", urls.join(","));
    let output = command.env("QUORLOCK_CACERT", authority).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn variables_of_another_cluster_do_not_concern_it_and_empty_ones_are_none() {
    let mut shell = Shell::in_memory();
    let ready = shell.up(&["--tls", "--nodes", "1", "--base-port", "0"]);
    let (nodes, authority) = (urls(&ready).join(","), ready["cacert"].as_str().unwrap());
    let said = |flags: &[&str], value: &str, nodes: &str| {
        let mut command = shell.command(&[&["run", "a"], flags, &["--", "true"]].concat());
        for name in ["QUORLOCK_CACERT", "QUORLOCK_CERT", "QUORLOCK_KEY"] {
            command.env(name, value);
        }
        Ended::of(command.env("QUORLOCK_NODES", nodes).output().unwrap())
    };
    let flag = ["--cacert", authority];
    for (flags, value, nodes) in [
        (&[][..], "/no/such/file", ""),
        (&[], "", ""),
        (&flag, "", ""),
        (&flag, "", &nodes),
    ] {
        let ended = said(flags, value, nodes);
        assert_eq!(ended.code, Some(0), "{flags:?} {value:?}: {}", ended.stderr);
    }
    for (flags, nodes) in [(&["--cacert", "/no/such/file"][..], ""), (&[], &nodes)] {
        let ended = said(flags, "/no/such/file", nodes);
        assert!(ended.stderr.contains("/no/such/file"), "{}", ended.stderr);
    }
}

#[test]
fn it_remembers_that_it_speaks_tls_and_makes_certificates_anew_before_they_end() {
    let shell = Shell::in_memory();
    let up = |more: &[&str]| shell.succeed(&[&["cluster", "up", "--detach"], more].concat());
    let down = || shell.succeed(&["cluster", "down"]);
    let authority = || fs::read_to_string(shell.file(".quorlock/dev/ca.pem")).unwrap();
    up(&THREE);
    let first = authority();
    down();
    let ended = shell.quorlock(&["cluster", "status", "--json"]).json();
    assert!(urls(&ended)[0].starts_with("rediss://"), "{ended}");
    assert!(Path::new(ended["cacert"].as_str().unwrap()).is_file());
    let said = up(&["--in-process"]);
    assert!(said.contains("It was made with --tls"), "{said}");
    use_all_commands(&shell, "a");
    assert_eq!(authority(), first);
    down();

    // Near the end, of a clock that was ahead, without one of the files, and with one that was cut off.
    let file = |name: &str| shell.file(&format!(".quorlock/dev/{name}"));
    let shift_days = |days: i64| {
        let manifest = file("cluster.json");
        let mut stored: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        let end = stored["issued"]["end"].as_i64().unwrap();
        stored["issued"]["end"] = (end + days * 86_400).into();
        fs::write(&manifest, stored.to_string()).unwrap();
    };
    let damages: [&dyn Fn(); 4] = [
        &|| shift_days(-336),
        &|| shift_days(2),
        &|| fs::remove_file(file("node.key")).unwrap(),
        &|| fs::write(file("ca.pem"), &authority()[..200]).unwrap(),
    ];
    let mut before = first;
    for damage in damages {
        damage();
        let said = up(&["--tls"]);
        assert!(said.contains("clients have to read"), "{said}");
        let now = authority();
        assert_ne!(now, before);
        before = now;
        shell.succeed(&["run", "a", "--", "true"]);
        down();
    }
    shell.succeed(&["cluster", "clean"]);
    assert!(!shell.file(".quorlock").exists(), "its own files are all");

    up(&["--nodes", "1", "--base-port", "0"]);
    down();
    let refused = shell.quorlock(&["cluster", "up", "--tls"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("made without --tls"),
        "{}",
        refused.stderr
    );
    assert!(!shell.file(".quorlock/dev/node.key").exists());
}

#[test]
fn the_lines_to_paste_can_be_pasted_whatever_its_directory_is_called() {
    let mut shell = Shell::in_memory();
    let directory = "it's a \"d\\r\"";
    let words = ["--tls", "--nodes", "1", "--base-port", "0", "--dir"];
    let ready = shell.up(&[&words[..], &[directory]].concat());
    let authority = ready["cacert"].as_str().unwrap();
    let banner = shell.up_output();
    let pasted = banner
        .lines()
        .find(|line| line.contains("export QUORLOCK_CACERT"));
    let script = format!("{}; printf %s \"$QUORLOCK_CACERT\"", pasted.unwrap());
    let read = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(
        String::from_utf8(read.stdout).unwrap(),
        authority,
        "{script}"
    );
    // As Rust, Python and JavaScript write a string.
    let literal = serde_json::to_string(authority).unwrap();
    assert_eq!(banner.matches(&literal).count(), 3, "{banner}");
    shell.succeed(&["cluster", "down", "--dir", directory]);
    let ended = shell.quorlock(&["cluster", "status", "--dir", directory]);
    let (_, command) = ended.stdout.split_once("start it with: quorlock ").unwrap();
    let up = format!("{} {command} --detach", binary::quorlock().display());
    let up = Command::new("sh")
        .args(["-c", &up.replace('\n', " ")])
        .current_dir(shell.path())
        .output()
        .unwrap();
    assert!(up.status.success(), "{up:?}");
    shell.succeed(&["cluster", "down", "--dir", directory]);
}

#[test]
fn its_status_says_why_a_certificate_is_not_accepted() {
    let mut shell = Shell::in_memory();
    let ready = shell.up(&["--tls", "--nodes", "1", "--base-port", "0"]);
    Certificates::write_to(shell.path());
    let authority = ready["cacert"].as_str().unwrap();
    fs::copy(shell.file("authority.pem"), authority).unwrap();
    let ended = shell.quorlock(&["cluster", "status"]);
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    let why = "does not answer: TLS: its certificate is of no authority in";
    assert!(ended.stdout.contains(why), "{}", ended.stdout);
    let ended = shell.quorlock(&["cluster", "status", "--json"]).json();
    let node = &ended["nodes"][0];
    assert_eq!(node["state"], "no-answer");
    assert!(node["why"].as_str().unwrap().contains("of no authority"));
}

#[test]
fn nodes_in_memory_speak_tls_behind_their_network() {
    let mut shell = Shell::in_memory();
    let ready = shell.up(&[&THREE[..], &["--ephemeral"]].concat());
    let folder = Path::new(ready["dir"].as_str().unwrap());
    assert_eq!(ready["cacert"].as_str(), folder.join("ca.pem").to_str());
    use_all_commands(&shell, "a");
    for words in [
        &["lose-power", "1"][..],
        &["restart", "1"],
        &["advance", "1d"],
        &["slow", "2", "5ms"],
        &["heal"],
        &["cut", "2"],
        &["pause", "3"],
        &["resume", "3"],
    ] {
        shell.succeed(&[&["cluster"], words].concat());
    }
    assert_eq!(shell.states(), ["serving", "cut", "serving"]);
    shell.succeed(&["run", "a", "--", "true"]);
    shell.succeed(&["cluster", "down"]);
    eventually("its certificates go with it", || !folder.exists());
}
