//! Each finding from the nodes that show it.

use super::super::node_reply::NodeReply;
use super::*;

/// A node with an INFO of `name:value` pairs and with directives of `name=value` pairs.
fn node(host: &str, text: &str) -> Examined {
    let (settings, info): (Vec<&str>, Vec<&str>) =
        text.split(' ').partition(|pair| pair.contains('='));
    let settings = settings.iter().filter_map(|pair| pair.split_once('='));
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Examined {
        address: format!("redis://{host}:7001"),
        host: Some(host.to_owned()),
        fails_over: false,
        facts: NodeFacts::read(&NodeReply::Text(info.join("\r\n").into_bytes())),
        ahead_ms: Some(0),
        settings: settings.collect(),
    }
}

/// A node of a cluster of three that keeps what it has said, with more pairs.
fn quorlock(id: &str, more: &str) -> Examined {
    let info = "quorlock_version:1 quorlock_cluster_size:3";
    node(id, &format!("run_id:{id} {info} {more}"))
}

fn good(id: &str) -> Examined {
    quorlock(id, "quorlock_appendfsync:always quorlock_sync_usec:90")
}

/// The kinds, each with its severity.
fn found_in(nodes: &[Examined]) -> String {
    let facts: Vec<_> = nodes.iter().map(|node| node.facts.clone()).collect();
    let view = ClusterView::of(&facts, false);
    let findings = examine(nodes, &view);
    assert!(
        findings
            .iter()
            .all(|one| !one.what.is_empty() && !one.remedy.is_empty())
    );
    let kinds = findings
        .iter()
        .map(|one| format!("{}:{}", one.severity.name(), one.kind));
    kinds.collect::<Vec<_>>().join(" ")
}

/// What is found where two nodes are good and this is the third.
fn found_beside_good(third: Examined) -> String {
    found_in(&[good("a"), good("b"), third])
}

#[test]
fn nothing_is_found_where_all_is_well() {
    assert_eq!(found_beside_good(good("c")), "");
}

#[test]
fn what_is_wrong_with_a_node_is_found() {
    for (more, expected) in [
        (
            "quorlock_appendfsync:always restart_delay_remaining_ms:9000",
            "warning:restart-delay",
        ),
        ("quorlock_appendfsync:everysec", "note:delay-after-crash"),
        ("quorlock_appendfsync:off", "note:delay-after-stop"),
        (
            "quorlock_appendfsync:always quorlock_sync_usec:3",
            "warning:fast-sync",
        ),
        (
            "quorlock_appendfsync:always restart-delay=off",
            "problem:no-restart-delay",
        ),
        (
            "quorlock_appendfsync:always first-start=serve",
            "warning:first-start-serves",
        ),
        ("quorlock_appendfsync:always role:slave", "problem:replica"),
        (
            "quorlock_appendfsync:always cluster_enabled:1",
            "problem:redis-cluster",
        ),
        ("quorlock_appendfsync:always loading:1", "warning:starting"),
        (
            "quorlock_appendfsync:always quorlock_gateway_lacks:INSERT",
            "problem:lacking-rights",
        ),
    ] {
        assert_eq!(found_beside_good(quorlock("c", more)), expected, "{more}");
    }
    for (text, expected) in [
        (
            "run_id:c quorlock_version:1 quorlock_appendfsync:always",
            "warning:no-cluster-size",
        ),
        (
            "run_id:c quorlock_version:1 quorlock_cluster_size:5 quorlock_appendfsync:always",
            "problem:other-size",
        ),
        (
            "quorlock_version:1 quorlock_cluster_size:3 quorlock_appendfsync:always",
            "problem:unidentified",
        ),
        (
            "run_id:c redis_version:7 aof_enabled:0 maxmemory_policy:allkeys-lru",
            "problem:no-log problem:evicts warning:wall-clock warning:versions",
        ),
        (
            "run_id:c redis_version:7 aof_enabled:1 appendfsync=everysec",
            "problem:forgets-in-a-crash warning:wall-clock warning:versions",
        ),
    ] {
        assert_eq!(found_beside_good(node("c", text)), expected, "{text}");
    }
}

#[test]
fn a_node_that_was_removed_is_to_be_listed_no_more() {
    let finding = |size| of_state(&NodeState::OtherSize(size), &[]).unwrap();
    assert!(finding(255).remedy.starts_with("list it no more"));
    assert!(finding(5).what.contains("has 5 nodes"));
}

#[test]
fn what_is_wrong_between_nodes_is_found() {
    let silent = Examined {
        facts: Err("cannot be reached: Connection refused".to_owned()),
        ..good("c")
    };
    assert_eq!(found_beside_good(silent), "problem:no-answer");
    let sentinels = Examined {
        fails_over: true,
        ..good("c")
    };
    assert_eq!(found_beside_good(sentinels), "problem:fails-over");
    let ahead_ms = Some(-5_000);
    let ahead = Examined {
        ahead_ms,
        ..good("c")
    };
    assert_eq!(found_beside_good(ahead), "note:clock");
    assert_eq!(
        found_beside_good(good("a")),
        "problem:same-node warning:one-machine"
    );
    let of = |id: &str, cluster: &str| {
        quorlock(
            id,
            &format!("quorlock_appendfsync:always quorlock_cluster_id:{cluster}"),
        )
    };
    let nodes = [of("a", "red"), of("b", "red"), of("c", "blue")];
    assert_eq!(found_in(&nodes), "problem:other-cluster");
    let nodes = [of("a", "red"), of("b", "blue"), of("c", "green")];
    assert_eq!(found_in(&nodes), ["problem:mixed-clusters"; 3].join(" "));
    // What it says of its log and of its cluster is of no node.
    let agent = "quorlock_version:1 quorlock_agent:1 quorlock_appendfsync:everysec";
    assert_eq!(found_beside_good(node("c", agent)), "problem:agent");
}

#[test]
fn an_even_number_a_single_node_and_one_machine_are_named() {
    let sized = |host: &str, id: &str, size: usize| {
        let info = "quorlock_version:1 quorlock_appendfsync:always";
        node(
            host,
            &format!("run_id:{id} {info} quorlock_cluster_size:{size}"),
        )
    };
    assert_eq!(
        found_in(&[sized("a", "a", 2), sized("b", "b", 2)]),
        "warning:even-number"
    );
    assert_eq!(found_in(&[sized("a", "a", 1)]), "warning:one-node");
    let local = ["a", "b", "c"].map(|id| sized("127.0.0.1", id, 3));
    assert_eq!(found_in(&local), "note:one-machine");
}

#[test]
fn what_a_node_has_no_room_for_is_found() {
    for (more, expected) in [
        ("aof_last_write_status:err", "problem:log-fails"),
        ("aof_last_write_status:ok", ""),
        ("used_memory:899 maxmemory:1000", ""),
        ("used_memory:900 maxmemory:1000", "warning:memory-full"),
        ("used_memory:1000 maxmemory:1000", "problem:memory-full"),
        ("used_memory:1000 maxmemory:0", ""),
        ("connected_clients:8999 maxclients:10000", ""),
        (
            "connected_clients:9000 maxclients:10000",
            "warning:few-clients",
        ),
        ("connected_clients:1 maxclients:999", "note:few-clients"),
        ("connected_clients:7 maxclients:12", "note:few-clients"),
        ("connected_clients:8 maxclients:12", "warning:few-clients"),
        (
            "connected_clients:1 maxclients:928 quorlock_maxclients_wanted:10000",
            "warning:few-files",
        ),
        (
            "connected_clients:900 maxclients:928 quorlock_maxclients_wanted:10000",
            "warning:few-clients warning:few-files",
        ),
        (
            "connected_clients:1 maxclients:5000 quorlock_maxclients_wanted:5000",
            "",
        ),
        ("quorlock_clock_source:tsc", ""),
        ("quorlock_clock_source:hpet", "warning:slow-clock"),
    ] {
        let node = quorlock("c", &format!("quorlock_appendfsync:always {more}"));
        assert_eq!(found_beside_good(node), expected, "{more}");
    }
}

#[test]
fn nodes_fail_together_that_share_a_kernel_whatever_their_addresses_are() {
    let on = |id: &str, machine: &str, disk: &str| {
        let place = format!("quorlock_machine:{machine} quorlock_file_system:{disk}");
        quorlock(id, &format!("quorlock_appendfsync:always {place}"))
    };
    let found = |nodes: [Examined; 3]| {
        let facts: Vec<_> = nodes.iter().map(|node| node.facts.clone()).collect();
        let findings = examine(&nodes, &ClusterView::of(&facts, false));
        let mut found = findings.into_iter().filter(|one| one.kind == "one-machine");
        found.next().map(|one| (one.severity, one.what))
    };
    assert_eq!(
        found([on("a", "m1", "7"), on("b", "m2", "7"), on("c", "m3", "7")]),
        None
    );
    let (severity, what) =
        found([on("a", "m1", "7"), on("b", "m2", "7"), on("c", "m1", "7")]).unwrap();
    assert_eq!(severity, Severity::Warning);
    assert!(
        what.starts_with("2 nodes are on one machine and one disk"),
        "{what}"
    );
    let (_, what) = found([on("a", "m1", "7"), on("b", "m1", "8"), on("c", "m1", "7")]).unwrap();
    assert!(what.starts_with("3 nodes are on one machine, "), "{what}");
    // One address, and a machine behind it for each.
    let behind_one = |id: &str, machine: &str| Examined {
        host: Some("proxy".to_owned()),
        ..on(id, machine, "7")
    };
    let apart = [
        behind_one("a", "m1"),
        behind_one("b", "m2"),
        behind_one("c", "m3"),
    ];
    assert_eq!(found(apart), None);
}

#[test]
fn a_remedy_fits_the_reason_of_the_silence() {
    for (why, part) in [
        ("refused the login: WRONGPASS invalid", "password"),
        ("refused: NOPERM this user", "right to run"),
        ("refused: ERR unknown command 'INFO'", "its own name"),
        (
            "the connection broke: it does not speak Redis's protocol",
            "TLS",
        ),
        (
            "cannot be reached: TLS: what answers there speaks no TLS: name its tls-port",
            "redis:// without TLS",
        ),
        (
            "cannot be reached: TLS: its certificate is of no authority in a.pem",
            "--cacert",
        ),
        (
            "cannot be reached: TLS: its certificate has expired: replace it, and send the node SIGHUP",
            "replace the node's certificate",
        ),
        (
            "cannot be reached: TLS: its certificate is not valid yet: is a clock wrong?",
            "correct the clock",
        ),
        (
            "the connection broke: TLS: it wants a certificate of the client: name one, and its key",
            "--cert",
        ),
        (
            "cannot be reached: failed to lookup address information",
            "host's name",
        ),
        ("does not answer", "firewall"),
        ("no connection in time over TLS", "redis://"),
    ] {
        assert!(remedy_for_silence(why).contains(part), "{why}");
    }
}
