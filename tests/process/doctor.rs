//! `quorlock doctor` on nodes that are set up badly, each really so: what it finds, with its remedy and its exit code.
//!
//! Servers of others and wrong clocks are in `tests/interop/inspection/`.

use std::process::Command;

use quorlock_testkit::{NodeProcess, eventually};
use serde_json::Value;

use crate::relay::rewriting;
use crate::shell::Shell;
use crate::status::{doctor, found};
use crate::tls;

/// What every node of these tests has, and none of the faults.
const GOOD: [&str; 8] = [
    "--cluster-size",
    "3",
    "--appendfsync",
    "always",
    "--first-start",
    "wait",
    // A process may open 1,024 files everywhere, and more only on some machines. The doctor notes that it would rather have 1,000 clients.
    "--maxclients",
    "500",
];

/// Three nodes, of which the first has these directives besides. They are made as an operator makes them.
fn three(shell: &Shell, of_first: &[&str]) -> Vec<NodeProcess> {
    let node = |number: usize| {
        let name = format!("node-{number}");
        shell.succeed(&["node", "init", &name]);
        let own: &[&str] = if number == 0 { of_first } else { &[] };
        NodeProcess::start_on(shell.path(), &name, &[&GOOD[..], own].concat())
    };
    (0..3).map(node).collect()
}

fn urls(nodes: &[NodeProcess]) -> Vec<String> {
    nodes.iter().map(NodeProcess::url).collect()
}

/// What is found on these nodes. The exit code says the worst of it.
fn examine(shell: &Shell, urls: &[String]) -> Vec<Value> {
    let (ended, findings) = doctor(shell, urls);
    let is_work = |finding: &Value| finding["severity"] != "note";
    let code = match ended.json()["can_lock"].as_bool() {
        Some(true) => i32::from(findings.iter().any(is_work)),
        _ => 69,
    };
    assert_eq!(ended.code, Some(code), "{findings:?}");
    for finding in &findings {
        assert!(finding["remedy"].as_str().unwrap().len() > 3, "{finding}");
    }
    findings
}

/// The finding of this kind, which is about this node, and its severity and remedy.
fn assert_found(findings: &[Value], (kind, severity): (&str, &str), node: &str, remedy: &str) {
    let of_node = |finding: &&Value| finding["kind"] == kind && finding["node"] == node;
    let finding = findings.iter().find(of_node);
    let finding = finding.unwrap_or_else(|| panic!("{kind} of {node}: {findings:?}"));
    assert_eq!(finding["severity"], severity, "{finding}");
    assert!(
        finding["remedy"].as_str().unwrap().contains(remedy),
        "{finding}"
    );
}

/// On a disk in memory `fast-sync` would be found as well. A note is about the machine, as that the nodes share it.
#[test]
fn the_doctor_finds_no_problem_with_nodes_that_are_set_up_well() {
    let shell = Shell::new();
    let nodes = three(&shell, &[]);
    let findings = examine(&shell, &urls(&nodes));
    let is_work =
        |finding: &&Value| finding["severity"] != "note" && finding["kind"] != "fast-sync";
    let unexpected: Vec<&Value> = findings.iter().filter(is_work).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

#[test]
fn the_doctor_finds_what_directives_of_a_node_cost() {
    for (directives, kind, severity, remedy) in [
        (
            ["--appendfsync", "no"],
            "delay-after-crash",
            "note",
            "appendfsync always",
        ),
        (
            ["--appendonly", "no"],
            "delay-after-stop",
            "note",
            "appendonly yes",
        ),
        (
            ["--restart-delay", "off"],
            "no-restart-delay",
            "problem",
            "restart-delay auto",
        ),
        (
            ["--first-start", "serve"],
            "first-start-serves",
            "warning",
            "quorlock node init",
        ),
        (["--maxclients", "40"], "few-clients", "note", "maxclients"),
    ] {
        let shell = Shell::in_memory();
        let nodes = three(&shell, &directives);
        let findings = examine(&shell, &urls(&nodes));
        assert_found(&findings, (kind, severity), &nodes[0].url(), remedy);
        let takes_40 = |it: &Value| it["what"].as_str().unwrap().contains("takes 40:");
        assert_eq!(findings.iter().any(takes_40), kind == "few-clients");
    }
}

#[test]
fn the_doctor_finds_nodes_that_do_not_know_the_size_of_their_cluster() {
    let shell = Shell::in_memory();
    let node = |name| NodeProcess::start(shell.path(), name, &[]);
    let nodes = ["a", "b", "c"].map(node);
    let findings = examine(&shell, &urls(&nodes));
    let kind = ("no-cluster-size", "warning");
    assert_found(&findings, kind, &nodes[0].url(), "--cluster-size");
    let count = findings
        .iter()
        .filter(|finding| finding["kind"] == kind.0)
        .count();
    assert_eq!(count, 3, "{findings:?}");
}

/// Two processes with one identity: the copy waits for its restart delay first, and is found in it.
#[test]
fn the_doctor_finds_a_directory_that_was_copied() {
    let shell = Shell::new();
    let mut nodes = three(&shell, &[]);
    nodes[0].stop();
    let copied = Command::new("cp")
        .args(["-r", "node-0", "copy"])
        .current_dir(shell.path())
        .status();
    assert!(copied.unwrap().success());
    nodes[0].start_again();
    let copy = NodeProcess::start_on(shell.path(), "copy", &GOOD);
    let with_copy = [nodes[0].url(), nodes[1].url(), copy.url()];
    let findings = examine(&shell, &with_copy);
    let kind = ("same-node", "problem");
    assert_found(&findings, kind, &copy.url(), "quorlock node init");
    let what = found(&findings, "same-node")["what"].as_str().unwrap();
    let original = format!("has the identity of {}: ", nodes[0].url());
    assert!(what.contains(&original), "{what}");
    let status = shell.quorlock(&["status", "--nodes", &with_copy.join(",")]);
    assert_eq!(status.code, Some(0), "{}", status.stdout);
    assert!(status.stdout.contains("no more node may fail"));
    // With none but the two of them there is no majority.
    let alone = [nodes[0].url(), copy.url(), copy.url()];
    assert_found(&examine(&shell, &alone), kind, &copy.url(), "node init");
}

#[test]
fn the_doctor_finds_a_node_that_waits_after_a_crash_and_one_that_is_down() {
    let shell = Shell::new();
    let mut nodes = three(&shell, &["--appendfsync", "everysec"]);
    let taken = nodes[0].ask(&["SET", "job", "token", "NX", "PX", "60000"]);
    assert_eq!(taken.unwrap(), "+OK");
    nodes[0].kill();
    let urls = urls(&nodes);
    let findings = examine(&shell, &urls);
    let down = ("no-answer", "problem");
    assert_found(&findings, down, &urls[0], "start the node");
    nodes[0].start_again();
    let findings = examine(&shell, &urls);
    let waits = ("restart-delay", "warning");
    assert_found(&findings, waits, &urls[0], "appendfsync always");
    nodes[1].kill();
    // One waits and one is down: no majority.
    let findings = examine(&shell, &urls);
    assert_found(&findings, waits, &urls[0], "wait");
    assert_found(&findings, down, &urls[1], "start the node");
}

#[test]
fn the_doctor_finds_a_node_whose_process_may_open_too_few_files() {
    let shell = Shell::in_memory();
    let mut nodes = three(&shell, &[]);
    nodes[0].stop();
    let scene = ["sh", "-c", "ulimit -n 300; exec \"$@\"", "sh"];
    nodes[0].start_again_by(&scene.map(str::to_owned));
    let findings = examine(&shell, &urls(&nodes));
    let kind = ("few-files", "warning");
    assert_found(&findings, kind, &nodes[0].url(), "ulimit -n");
}

#[test]
fn the_doctor_finds_a_node_whose_memory_is_full() {
    let shell = Shell::in_memory();
    let nodes = three(&shell, &["--maxmemory", "1mb"]);
    let value = "v".repeat(500_000);
    let full = |number: usize| {
        let name = format!("key-{number}");
        let taken = nodes[0].ask(&["SET", &name, &value]);
        taken.unwrap().contains("OOM")
    };
    assert!((0..5).any(full), "its memory has room");
    let findings = examine(&shell, &urls(&nodes));
    let kind = ("memory-full", "problem");
    assert_found(&findings, kind, &nodes[0].url(), "raise maxmemory");
}

#[test]
fn the_doctor_finds_a_change_of_members_that_has_not_ended() {
    let shell = Shell::in_memory();
    // A change begins when locks of clients with another list have ended, which is so long after the start of a node.
    let node = |name, size| {
        let directives = ["--cluster-size", size, "--restart-delay-max", "600"];
        NodeProcess::start(shell.path(), name, &directives)
    };
    let nodes = ["a", "b", "c"].map(|name| node(name, "3"));
    let fourth = node("d", "4");
    let list = urls(&nodes);
    let joined = list.join(",");
    eventually("the change begins", || {
        let words = ["members", "add", &fourth.url(), "--nodes", &joined];
        shell.quorlock(&words).code == Some(0)
    });
    let findings = examine(&shell, &list);
    let finding = found(&findings, "members-change");
    assert_eq!(finding["severity"], "warning");
    let remedy = finding["remedy"].as_str().unwrap();
    assert!(remedy.contains("quorlock members end"), "{remedy}");
}

#[test]
fn the_doctor_finds_tls_that_is_not_spoken_as_the_node_does() {
    let nodes = tls::Nodes::start(&["node"]);
    let secure = format!("rediss://localhost:{}", nodes.ports[0]);
    let plain = secure.replace("rediss", "redis");
    let node = NodeProcess::start(nodes.shell.path(), "plain", &[]);
    let to_plain = node.url().replace("redis", "rediss");
    for (url, what, remedy) in [
        (&plain, "connection broke", "rediss:// with it"),
        (&secure, "its certificate is of no authority", "--cacert"),
        (&to_plain, "speaks no TLS", "redis:// without TLS"),
    ] {
        let findings = examine(&nodes.shell, std::slice::from_ref(url));
        assert_found(&findings, ("no-answer", "problem"), url, remedy);
        let finding = found(&findings, "no-answer");
        assert!(
            finding["what"].as_str().unwrap().contains(what),
            "{url}: {finding}"
        );
    }
    let words = ["doctor", "--json", "--cacert", "authority.pem", "--nodes"];
    let ended = nodes
        .shell
        .quorlock(&[&words[..], &[secure.as_str()]].concat());
    assert_eq!(ended.code, Some(69), "{}", ended.stdout);
    let findings = ended.json()["findings"].as_array().unwrap().clone();
    assert_found(&findings, ("no-answer", "problem"), &secure, "--cert");
    let finding = found(&findings, "no-answer");
    assert!(
        finding["what"]
            .as_str()
            .unwrap()
            .contains("a certificate of the client"),
        "{finding}"
    );
}

/// What makes the machine another one for a node alone, whose process it becomes then.
pub(crate) fn with_mount(words: &str) -> Vec<String> {
    let script = format!("mount {words} && exec \"$@\"");
    let scene = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    scene.map(str::to_owned).to_vec()
}

#[test]
#[ignore = "needs root: a small file system is mounted"]
fn the_doctor_finds_a_node_that_cannot_write_its_log() {
    let shell = Shell::in_memory();
    // Its directory is empty when it is mounted.
    let mut nodes = three(&shell, &["--first-start", "serve"]);
    nodes[0].stop();
    let directory = shell.file("node-0");
    // Two segments of its log fit.
    let mount = format!("-t tmpfs -o size=2400k tmpfs {}", directory.display());
    nodes[0].start_again_by(&with_mount(&mount));
    let urls = urls(&nodes);
    let is_about = |finding: &Value| finding["kind"] == "log-fails";
    let findings = examine(&shell, &urls);
    assert!(!findings.iter().any(is_about), "it has room: {findings:?}");
    let value = "v".repeat(60_000);
    let is_refused = |number: usize| {
        let taken = nodes[0].ask(&["SET", &format!("key-{number}"), &value]);
        taken.unwrap().contains("MISCONF the log has no room")
    };
    assert!((0..200).any(is_refused), "its disk has room");
    let findings = examine(&shell, &urls);
    assert_found(&findings, ("log-fails", "problem"), &urls[0], "make room");
}

#[test]
#[ignore = "needs root: another file is mounted where the kernel names its clock"]
fn the_doctor_finds_a_machine_whose_clock_is_slow() {
    let shell = Shell::in_memory();
    let mut nodes = three(&shell, &[]);
    nodes[0].stop();
    let source = shell.file("source");
    std::fs::write(&source, "hpet\n").unwrap();
    let mount = format!(
        "--bind {} /sys/devices/system/clocksource/clocksource0/current_clocksource",
        source.display()
    );
    nodes[0].start_again_by(&with_mount(&mount));
    let findings = examine(&shell, &urls(&nodes));
    let kind = ("slow-clock", "warning");
    assert_found(&findings, kind, &nodes[0].url(), "dmesg");
    let finding = found(&findings, kind.0);
    let what = finding["what"].as_str().unwrap();
    assert!(what.contains("the time from hpet"), "{what}");
}

#[test]
fn the_doctor_finds_a_node_of_another_version() {
    let shell = Shell::in_memory();
    let nodes = three(&shell, &[]);
    let mut urls = urls(&nodes);
    let version = nodes[2].info("quorlock_version").unwrap();
    let other = format!("9{}", &version[1..]);
    let texts = [&version, &other].map(|version| format!("quorlock_version:{version}"));
    let address = rewriting(urls[2].trim_start_matches("redis://"), texts);
    urls[2] = format!("redis://{address}");
    let findings = examine(&shell, &urls);
    let finding = found(&findings, "versions");
    assert_eq!(finding["severity"], "warning");
    assert!(finding["node"].is_null(), "{finding}");
    let what = finding["what"].as_str().unwrap();
    assert!(
        what.ends_with(&format!("quorlock {version}, quorlock {other}")),
        "{what}"
    );
}
