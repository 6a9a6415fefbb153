//! `quorlock status` and `quorlock doctor`: how the nodes do together, and what is wrong with them.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use quorlock_testkit::{NodeProcess, Wire};
use serde_json::Value;

use crate::locks::five;
use crate::shell::{Ended, Shell};

#[test]
fn a_node_in_its_restart_delay_and_one_that_is_down_are_shown_and_the_code_says_if_locks_can_be_taken()
 {
    let shell = five();
    let all = shell.quorlock(&["status"]);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    let verdict =
        "5 of 5 nodes vote, a lock needs 3: locks can be taken, and 2 more nodes may fail";
    assert_eq!(all.stdout.lines().last(), Some(verdict));

    // A node that has granted nothing has nothing to wait for.
    shell.succeed(&["acquire", "job", "--ttl", "1m"]);
    shell.succeed(&["cluster", "kill", "4"]);
    shell.succeed(&["cluster", "kill", "5"]);
    shell.succeed(&["cluster", "restart", "4"]);
    let some = shell.quorlock(&["status"]);
    assert_eq!(some.code, Some(0), "{}", some.stderr);
    assert!(some.stdout.contains("restart delay, "), "{}", some.stdout);
    assert!(some.stdout.contains("cannot be reached"), "{}", some.stdout);
    assert!(
        some.stdout.contains("no more node may fail"),
        "{}",
        some.stdout
    );

    shell.succeed(&["cluster", "kill", "3"]);
    let few = shell.quorlock(&["status"]);
    assert_eq!(few.code, Some(69), "{}", few.stdout);
    assert!(
        few.stdout.contains("until restart delays are over"),
        "{}",
        few.stdout
    );
    let few = shell.quorlock(&["status", "--json"]).json();
    assert_eq!(
        (&few["votes"], &few["can_lock"]),
        (&2.into(), &false.into())
    );
    let states: Vec<&str> = few["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        [
            "serving",
            "serving",
            "no-answer",
            "restart-delay",
            "no-answer"
        ]
    );
    let left = few["nodes"][3]["restart_delay_remaining_ms"]
        .as_u64()
        .unwrap();
    assert!((1..=62_000).contains(&left), "{left}");
}

#[test]
fn a_cluster_that_is_down_is_named_with_the_command_that_starts_it() {
    let mut shell = Shell::new();
    shell.up(&["--nodes", "3", "--base-port", "0", "--in-process"]);
    shell.succeed(&["cluster", "down"]);
    for command in ["status", "doctor"] {
        let down = shell.quorlock(&[command]);
        assert_eq!(down.code, Some(69), "{}", down.stdout);
        assert!(
            down.stderr.contains("start it with: quorlock cluster up"),
            "{}",
            down.stderr
        );
    }
}

/// Three nodes that know how many they are.
fn nodes(shell: &Shell, directives: [&[&str]; 3]) -> Vec<NodeProcess> {
    let node = |(number, directives): (usize, &[&str])| {
        let sized = [&["--cluster-size", "3"], directives].concat();
        NodeProcess::start(shell.path(), &format!("node-{number}"), &sized)
    };
    directives.into_iter().enumerate().map(node).collect()
}

const COLUMNS: [&str; 7] = [
    "node",
    "id",
    "round trip",
    "fsync",
    "clock",
    "version",
    "state",
];

/// The rows of a table of nodes, cell by cell: columns begin where their headings do.
fn cells(table: &str, rows: usize) -> Vec<[String; 7]> {
    let mut lines = table.lines();
    let headings = lines.next().unwrap();
    let starts = COLUMNS.map(|name| headings.find(name).unwrap());
    let row = |line: &str| {
        std::array::from_fn(|column| {
            let end = starts.get(column + 1).copied().unwrap_or(line.len());
            let cell = line.get(starts[column]..end.min(line.len()));
            cell.unwrap_or_default().trim().to_owned()
        })
    };
    lines.take(rows).map(row).collect()
}

/// The number of a cell such as `+12 ms`.
fn number(cell: &str, unit: &str) -> i64 {
    let number = cell.strip_suffix(unit);
    let number = number.unwrap_or_else(|| panic!("{cell} is in {unit}"));
    number.trim().parse().unwrap()
}

#[test]
fn each_column_of_status_is_what_its_node_says() {
    let shell = Shell::in_memory();
    let modes = ["always", "everysec", "everysec"].map(|mode| ["--appendfsync", mode]);
    let [first, second, third] = &modes;
    let mut nodes = nodes(&shell, [first, second, third]);
    nodes[2].kill();
    let urls: Vec<String> = nodes.iter().map(NodeProcess::url).collect();
    let mut waiting = Wire::connect(urls[0].trim_start_matches("redis://"));
    waiting.ask("SET job holder PX 60000");
    waiting.ask("HELLO 3");
    assert_eq!(waiting.ask("LOCK.WAIT job waiter"), ":1");
    let list = urls.join(",");

    let status = shell.quorlock(&["status", "--nodes", &list]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    let rows = cells(&status.stdout, 3);
    let json = shell
        .quorlock(&["status", "--json", "--nodes", &list])
        .json();
    for (at, mode) in ["always", "everysec"].into_iter().enumerate() {
        let [node, id, round_trip, fsync, clock, version, state] = &rows[at];
        let whole_id = nodes[at].info("quorlock_node_id").unwrap();
        let whole_version = format!("quorlock {}", nodes[at].info("quorlock_version").unwrap());
        assert_eq!(
            (node, fsync, state),
            (&urls[at], &mode.to_owned(), &"serving".to_owned())
        );
        let beginning = id.strip_suffix("...").unwrap();
        assert!(
            beginning.len() > 4 && whole_id.starts_with(beginning),
            "{id}: {whole_id}"
        );
        assert!(number(round_trip, "us") > 0, "{round_trip}");
        assert!(
            number(clock, "ms").abs() < NEAR_MS,
            "it is the same clock: {clock}"
        );
        assert_eq!(*version, whole_version);

        let value = &json["nodes"][at];
        assert_eq!(value["id"], *whole_id);
        assert_eq!(value["incarnation"], 1);
        assert_eq!(value["cluster_size"], 3);
        assert_eq!(value["version"], *whole_version);
        assert_eq!(value["fsync"], mode);
        assert!(value["round_trip_us"].as_u64().unwrap() > 0, "{value}");
        assert!(
            value["clock_ahead_ms"].as_i64().unwrap().abs() < NEAR_MS,
            "{value}"
        );
        assert_eq!(value["lock_waiters"], i32::from(at == 0));
        assert_eq!(value["votes"], true);
    }
    let [node, unknown @ .., state] = &rows[2];
    assert_eq!(*node, urls[2]);
    assert_eq!(*unknown, ["-"; 5]);
    assert!(state.contains("cannot be reached"), "{state}");
    let value = &json["nodes"][2];
    assert_eq!(
        (&value["votes"], &value["fsync"]),
        (&false.into(), &Value::Null)
    );
    assert!(
        value["why"].as_str().unwrap().contains("cannot be reached"),
        "{value}"
    );
}

/// Both clocks are read on one machine, which may be busy in between.
const NEAR_MS: i64 = 5_000;

/// What the doctor finds on these nodes.
pub(crate) fn doctor(shell: &Shell, urls: &[String]) -> (Ended, Vec<Value>) {
    let ended = shell.quorlock(&["doctor", "--json", "--nodes", &urls.join(",")]);
    let findings = ended.json()["findings"].as_array().unwrap().clone();
    (ended, findings)
}

/// The finding of this kind about a node.
pub(crate) fn found<'f>(findings: &'f [Value], kind: &str) -> &'f Value {
    let found = findings.iter().find(|finding| finding["kind"] == kind);
    let found = found.unwrap_or_else(|| panic!("{kind}: {findings:?}"));
    assert!(!found["remedy"].as_str().unwrap().is_empty(), "{found}");
    found
}

/// It asks no node, and leaves nothing behind.
#[test]
fn the_doctor_measures_the_disk_of_a_directory() {
    let shell = Shell::in_memory();
    let directory = shell.path().to_str().unwrap();
    let before = std::fs::read_dir(directory).unwrap().count();
    let ended = shell.quorlock(&["doctor", "--json", "--dir", directory]);
    let found = ended.json();
    assert!(found["syncs"].as_u64().unwrap() > 0, "{found}");
    assert!(found["least_us"].as_u64() <= found["median_us"].as_u64());
    let count = found["findings"].as_array().unwrap().len();
    assert_eq!(ended.code, Some(i32::from(count > 0)), "{found}");
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), before);
    let ended = shell.quorlock(&["doctor", "--dir", "/dev/shm"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("tmpfs is memory"), "{}", ended.stdout);
    let ended = shell.quorlock(&["doctor", "--dir", "/proc"]);
    assert_eq!(ended.code, Some(66), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("can be written and synced in /proc"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_doctor_finds_what_is_wrong_with_a_list_of_nodes() {
    let shell = Shell::in_memory();
    let always: &[&str] = &["--appendfsync", "always"];
    let good = nodes(&shell, [always; 3]);
    let urls: Vec<String> = good.iter().map(NodeProcess::url).collect();

    let (ended, findings) = doctor(&shell, &urls);
    let problems = findings
        .iter()
        .filter(|finding| finding["severity"] == "problem");
    assert_eq!(problems.count(), 0, "{findings:?}");
    // The nodes of these tests take an empty directory for a new node.
    assert_eq!(
        (
            ended.code,
            found(&findings, "first-start-serves")["severity"].as_str()
        ),
        (Some(1), Some("warning"))
    );

    let twice = [
        urls[0].clone(),
        urls[1].clone(),
        urls[0].replace("127.0.0.1", "localhost"),
    ];
    let (ended, findings) = doctor(&shell, &twice);
    assert_eq!(ended.code, Some(1));
    assert_eq!(found(&findings, "same-node")["node"], twice[2]);

    let (ended, findings) = doctor(&shell, &urls[..2]);
    assert_eq!(ended.code, Some(69), "none of them votes in a list of two");
    found(&findings, "other-size");
    found(&findings, "even-number");

    let absent = quorlock_testkit::ReservedPort::new().unwrap();
    let closed = format!("redis://127.0.0.1:{}", absent.number());
    let (ended, findings) = doctor(
        &shell,
        &[&urls[..2], std::slice::from_ref(&closed)].concat(),
    );
    assert_eq!(ended.code, Some(1));
    let silent = found(&findings, "no-answer");
    assert_eq!(
        (&silent["node"], &silent["severity"]),
        (&closed.into(), &"problem".into())
    );
}

#[test]
fn the_doctor_finds_nodes_that_refuse_that_belong_elsewhere_or_that_are_none() {
    let shell = Shell::in_memory();
    let locked: &[&str] = &["--requirepass", "secret"];
    let other: &[&str] = &["--cluster-id", "blue"];
    let own: &[&str] = &["--cluster-id", "red"];
    let nodes = nodes(&shell, [own, locked, other]);
    let urls: Vec<String> = nodes.iter().map(NodeProcess::url).collect();
    let (ended, findings) = doctor(&shell, &urls);
    assert_eq!(ended.code, Some(69));
    let refusal = found(&findings, "no-answer");
    assert!(
        refusal["what"].as_str().unwrap().contains("NOAUTH"),
        "{refusal}"
    );
    assert!(
        refusal["remedy"].as_str().unwrap().contains("password"),
        "{refusal}"
    );
    found(&findings, "mixed-clusters");
    found(&findings, "delay-after-crash");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _read = stream.read(&mut [0; 256]);
            let _written = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let web = format!("redis://127.0.0.1:{port}");
    let (_, findings) = doctor(&shell, &[urls[0].clone(), web.clone()]);
    let silent = findings
        .iter()
        .find(|finding| finding["node"] == web)
        .unwrap();
    assert!(
        silent["what"]
            .as_str()
            .unwrap()
            .contains("does not speak Redis's protocol"),
        "{silent}"
    );
    assert!(
        silent["remedy"].as_str().unwrap().contains("TLS"),
        "{silent}"
    );

    let login = urls[1].replace("redis://", "redis://:wrong@");
    let (ended, findings) = doctor(&shell, &[login]);
    assert!(
        !ended.stdout.contains("wrong@"),
        "no password is shown: {}",
        ended.stdout
    );
    assert!(
        found(&findings, "no-answer")["what"]
            .as_str()
            .unwrap()
            .contains("WRONGPASS")
    );
}
