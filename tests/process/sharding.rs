//! Commands with a list of several clusters, which share out the names of locks.

use std::fs;

use quorlock_testkit::NodeProcess;
use serde_json::Value;

use crate::shell::{Ended, Shell};

/// Three clusters of a node each. `backup` is on the first, `report` on the second, and on the third where that is listed.
struct Clusters {
    shell: Shell,
    nodes: [NodeProcess; 3],
}

impl Clusters {
    fn start() -> Self {
        let shell = Shell::in_memory();
        let node = |name| NodeProcess::start(shell.path(), name, &[]);
        let nodes = ["east", "west", "north"].map(node);
        Self { shell, nodes }
    }

    fn two(&self) -> String {
        let [east, west, _] = self.nodes.each_ref().map(NodeProcess::url);
        format!("east={east};west={west}")
    }

    fn three(&self) -> String {
        format!("{};north={}", self.two(), self.nodes[2].url())
    }

    /// Lists two, while clients are given the list of three.
    fn changing(&self) -> String {
        format!("{};next=east,west,north", self.two())
    }

    fn with(&self, list: &str, words: &[&str]) -> Ended {
        let mut command = self.shell.command(words);
        Ended::of(command.env("QUORLOCK_NODES", list).output().unwrap())
    }

    fn succeed(&self, list: &str, words: &[&str]) -> String {
        let ended = self.with(list, words);
        assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
        ended.stdout
    }

    fn fails(&self, list: &str, words: &[&str], code: i32, part: &str) {
        let ended = self.with(list, words);
        let said = format!("{words:?}: {}", ended.stderr);
        assert_eq!(ended.code, Some(code), "{said}");
        assert!(ended.stderr.contains(part), "{said}");
    }

    /// How many of the nodes have this lock, by a look at each.
    fn have(&self, name: &str) -> [bool; 3] {
        let has = |node: &NodeProcess| node.ask(&["EXISTS", name]).unwrap() == ":1";
        self.nodes.each_ref().map(has)
    }
}

fn rows(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn each_command_asks_the_cluster_of_the_name() {
    let clusters = Clusters::start();
    let list = clusters.two();
    for (name, on) in [
        ("backup", [true, false, false]),
        ("report", [false, true, false]),
    ] {
        let token = clusters.succeed(&list, &["acquire", name, "--ttl", "1m"]);
        let token = token.trim();
        assert_eq!(clusters.have(name), on);
        clusters.fails(&list, &["run", name, "-n", "--", "true"], 75, "is held by");
        clusters.fails(&list, &["wait", name, "-n"], 75, "is held");
        assert!(clusters.succeed(&list, &["who", name]).contains("is held"));
        clusters.succeed(&list, &["extend", name, token, "--ttl", "2m"]);
        clusters.succeed(&list, &["release", name, token]);
        assert_eq!(clusters.have(name), [false; 3]);
    }
    // A permit is extended under a name of its own, on the cluster of its semaphore.
    let script = "\"$0\" extend \"$QUORLOCK_NAME\" \"$QUORLOCK_TOKEN\"";
    let program = clusters.shell.command(&[]).get_program().to_owned();
    let program = program.to_str().unwrap();
    let words = [
        "run",
        "--permits",
        "2",
        "report",
        "--",
        "sh",
        "-c",
        script,
        program,
    ];
    clusters.succeed(&list, &words);

    let apart = "'backup' on 'east', 'report' on 'west'";
    clusters.fails(&list, &["run", "backup", "report", "--", "true"], 64, apart);
    clusters.succeed(&list, &["run", "backup {n}", "report {n}", "--", "true"]);
    // The order of the list, and a prefix that is said apart, change nothing.
    let [east, west, _] = clusters.nodes.each_ref().map(NodeProcess::url);
    let other = format!("west={west} east={east}");
    let token = clusters.succeed(&list, &["acquire", "app:backup"]);
    assert_eq!(clusters.have("app:backup"), [false, true, false]);
    clusters.succeed(
        &other,
        &["release", "backup", token.trim(), "--prefix", "app:"],
    );
}

#[test]
fn locks_status_and_doctor_show_each_cluster_by_its_name() {
    let mut clusters = Clusters::start();
    let list = clusters.two();
    for name in ["backup", "report"] {
        clusters.succeed(&list, &["acquire", name, "--ttl", "1m"]);
    }
    let text = clusters.succeed(&list, &["locks"]);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    let parts = [
        "cluster 'east'",
        "backup",
        "1 lock, 1 held",
        "cluster 'west'",
        "report",
    ];
    assert!(parts.map(at).is_sorted(), "{text}");
    let locks = rows(&clusters.succeed(&list, &["locks", "--json"]));
    let named: Vec<_> = locks
        .iter()
        .map(|row| (row["cluster"].as_str(), row["name"].as_str()))
        .collect();
    assert_eq!(
        named,
        [
            (Some("east"), Some("backup")),
            (Some("east"), None),
            (Some("west"), Some("report")),
            (Some("west"), None)
        ]
    );
    let status = clusters.succeed(&list, &["status"]);
    assert!(
        status.contains("cluster 'east'") && status.contains("cluster 'west'"),
        "{status}"
    );
    let found = |list: &str| {
        let ended = clusters.with(list, &["doctor", "--json"]);
        rows(&ended.stdout)
    };
    let kinds = |rows: &[Value]| serde_json::to_string(rows).unwrap();
    assert_eq!(found(&list)[1]["cluster"], "west");
    assert!(!kinds(&found(&list)).contains("unnamed-clusters"));
    let unnamed = list.replace("east=", "").replace("west=", "");
    assert!(kinds(&found(&unnamed)[..1]).contains("unnamed-clusters"));

    // One that is down has no bearing on the other's locks.
    clusters.nodes[1].kill();
    let [east, west, _] = clusters.nodes.each_ref().map(NodeProcess::url);
    let shown = clusters.with(&format!("west={west};east={east}"), &["locks"]);
    assert_eq!(shown.code, Some(69), "{}", shown.stderr);
    assert!(shown.stdout.contains("backup"), "{}", shown.stdout);
    assert!(shown.stderr.contains("'west'"), "{}", shown.stderr);
    let status = clusters.with(&list, &["status", "--json"]);
    assert_eq!(status.code, Some(69));
    let can_lock: Vec<_> = rows(&status.stdout)
        .iter()
        .map(|row| row["can_lock"].clone())
        .collect();
    assert_eq!(can_lock, [true, false]);
    clusters.succeed(&list, &["run", "nightly", "--", "true"]);
    clusters.fails(
        &list,
        &["run", "report", "-n", "--", "true"],
        69,
        "no quorum",
    );
}

#[test]
fn a_name_that_moves_rests_until_the_next_list_and_the_others_go_on() {
    let clusters = Clusters::start();
    let (old, changing, new) = (clusters.two(), clusters.changing(), clusters.three());
    let words = [
        "run",
        "--fence",
        "report",
        "--",
        "sh",
        "-c",
        "echo $QUORLOCK_FENCE",
    ];
    let fence = |list: &str| -> u64 { clusters.succeed(list, &words).trim().parse().unwrap() };
    let before = [(); 3].map(|()| fence(&old))[2];
    let token = clusters.succeed(&old, &["acquire", "report", "--ttl", "1m"]);
    let moves = "'report' moves from cluster 'west' to 'north'";
    for words in [
        &["run", "report", "--", "true"][..],
        &["acquire", "report"],
        &["elect", "report"],
        &["run", "--permits", "2", "report", "--", "true"],
    ] {
        clusters.fails(&changing, words, 69, moves);
    }
    clusters.succeed(&changing, &["run", "backup", "--", "true"]);

    // What is held is seen, extended and released where it is.
    let text = clusters.succeed(&changing, &["locks"]);
    assert!(
        text.contains("moves to 'north'") && text.contains("; 1 move to another"),
        "{text}"
    );
    let locks = rows(&clusters.succeed(&changing, &["locks", "--json"]));
    let moving: u64 = locks.iter().filter_map(|row| row["moving"].as_u64()).sum();
    assert_eq!(moving, 1, "{locks:?}");
    clusters.succeed(&changing, &["extend", "report", token.trim()]);
    clusters.succeed(&changing, &["release", "report", token.trim()]);

    // No fence of the new cluster is below one of the old.
    clusters.succeed(&clusters.nodes[2].url(), &["node", "sync", "--trust-disks"]);
    let unlisted = "names no nodes of 'north'";
    clusters.fails(&changing, &["members", "raise-fences"], 64, unlisted);
    clusters.succeed(&new, &["members", "raise-fences"]);
    let after = fence(&new);
    assert!(after > before, "{after} {before}");
    clusters.succeed(&new, &["acquire", "report"]);
    assert_eq!(clusters.have("report"), [false, false, true]);
}

#[test]
fn what_has_the_nodes_of_one_cluster_says_so_and_a_file_names_several() {
    let clusters = Clusters::start();
    let list = clusters.two();
    for words in [
        &["agent", "--port", "0"][..],
        &["members"],
        &["page"],
        &["node", "sync"],
    ] {
        clusters.fails(
            &list,
            words,
            64,
            "shares names of locks out among clusters: 'east', 'west'",
        );
    }
    let wrong = list.replace("west=", "east=");
    clusters.fails(&wrong, &["status"], 64, "two clusters are called 'east'");
    let [east, west, _] = clusters.nodes.each_ref().map(NodeProcess::url);
    let text = format!("cluster east\nnode {east}\ncluster west\nnode {west}\n");
    fs::write(clusters.shell.file("nodes.conf"), text).unwrap();
    let words = ["acquire", "report", "--nodes-file", "nodes.conf"];
    clusters.shell.succeed(&words);
    assert_eq!(clusters.have("report"), [false, true, false]);
    // A flag as well, whose commas clap takes for its own.
    clusters.shell.succeed(&["locks", "--nodes", &list]);
    clusters.fails(
        &list,
        &["run", "report", "-n", "--", "true"],
        75,
        "is held by",
    );
}
