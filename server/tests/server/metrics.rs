//! The HTTP endpoint for monitoring: what it says, and that it says the truth.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::machine::{Directives, EIO, Machine, run, wire};
use quorlock_server::Node;

pub(crate) const METRICS: Directives<'static> =
    &[("metrics-port", "0"), ("appendfsync", "everysec")];

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    request(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n"),
    )
}

pub(crate) fn request(address: SocketAddr, text: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // A peer that resets after its answer has answered all the same.
    let _ = stream.read_to_end(&mut bytes);
    let answer = String::from_utf8(bytes).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Answer {
        status: head
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

pub(crate) fn at(node: &Node) -> SocketAddr {
    node.metrics_address().unwrap()
}

/// The value of a series, named with its labels as they are written.
fn value(text: &str, series: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in:\n{text}"))
        .parse()
        .unwrap()
}

#[test]
fn it_is_off_unless_asked_for_and_on_loopback_unless_told_otherwise() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(&[]).await;
        assert_eq!(node.metrics_address(), None);
        node.stop().await.unwrap();
        let node = machine.start(METRICS).await;
        assert!(at(&node).ip().is_loopback());
        // A port that is taken stops the start before anything is written.
        let taken = at(&node).port().to_string();
        let other = Machine::new();
        let error = other
            .try_start(&[("metrics-port", &taken)])
            .await
            .unwrap_err();
        let error = error.to_string();
        assert!(error.contains("the directive metrics-port"), "{error}");
        use quorlock_server::Disk;
        assert_eq!(other.disk().list().unwrap(), []);
        let address = at(&node);
        node.stop().await.unwrap();
        assert!(
            TcpStream::connect(address).is_err(),
            "it ends with the node"
        );
    });
}

#[test]
fn metrics_say_what_happened_under_the_names_that_dashboards_know() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(METRICS).await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a token NX PX 30000"), "+OK");
        assert_eq!(client.ask("SET b forever"), "+OK");
        assert_eq!(client.ask("GET a"), "token");
        assert_eq!(client.ask("GET none"), "nil");
        assert!(client.ask("NONSENSE").starts_with('-'));
        let answer = get(at(&node), "/metrics");
        assert_eq!(answer.status, 200);
        assert!(
            answer
                .head
                .contains("content-type: application/openmetrics-text; version=1.0.0")
        );
        let text = answer.body;
        assert!(text.ends_with("# EOF\n"), "{text}");
        for (series, expected) in [
            ("redis_up", 1.0),
            ("redis_connected_clients", 1.0),
            ("redis_connected_slaves", 0.0),
            ("redis_commands_processed_total", 5.0),
            ("redis_connections_received_total", 1.0),
            ("redis_keyspace_hits_total", 1.0),
            ("redis_keyspace_misses_total", 1.0),
            ("redis_db_keys{db=\"db0\"}", 2.0),
            ("redis_db_keys_expiring{db=\"db0\"}", 1.0),
            ("redis_db_keys{db=\"db7\"}", 0.0),
            ("quorlock_locks_held", 1.0),
            ("quorlock_locks_without_ttl", 1.0),
            ("quorlock_lock_grants_total{pattern=\"\"}", 1.0),
            (
                "quorlock_lock_refusals_total{pattern=\"\",reason=\"held\"}",
                0.0,
            ),
            (
                "quorlock_lock_hold_seconds_bucket{le=\"+Inf\",pattern=\"\"}",
                0.0,
            ),
            ("redis_aof_enabled", 1.0),
            ("redis_aof_last_write_status", 1.0),
            ("quorlock_error_replies_total", 1.0),
            ("quorlock_serving", 1.0),
            ("quorlock_incarnation", 1.0),
            ("quorlock_ttl_bound_seconds", 30.0),
            ("quorlock_restart_delay_max_seconds", 60.0),
            ("quorlock_restart_delay_seconds", 0.0),
            ("quorlock_restart_delay_remaining_seconds", 0.0),
            (
                "quorlock_last_stop_info{stop=\"unknown\",clean=\"unknown\",delay_cause=\"none\"}",
                1.0,
            ),
        ] {
            assert_eq!(value(&text, series), expected, "{series}");
        }
        assert!(value(&text, "redis_memory_used_rss_bytes") > 1e6);
        assert!(value(&text, "redis_aof_current_size_bytes") > 1e5);
        // SET b was synced before its reply.
        let syncs = value(&text, "quorlock_sync_duration_seconds_count");
        assert!(syncs >= 2.0, "{syncs}");
        let last = value(&text, "quorlock_sync_duration_seconds_bucket{le=\"+Inf\"}");
        assert_eq!(last, syncs, "buckets are cumulative");
        for secret in ["token", "forever", "none "] {
            assert!(!text.contains(secret), "{text}");
        }
        every_line_is_well_formed(&text);
    });
}

/// Scripts choose the words of their errors: a lock's name, a password, a line of its own.
#[test]
fn errors_have_the_nodes_own_codes_or_other() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(METRICS).await;
        let mut client = wire(&node);
        for number in 0..200 {
            let script = format!("return redis.error_reply('hunter{number} x')");
            assert!(
                client
                    .ask_words(&["EVAL", &script, "0"])
                    .starts_with("-hunter")
            );
        }
        for word in ["a\\n1", "\\\"} 7", "\\\"}\\nhunter2"] {
            let script = format!("return redis.error_reply(\"{word} x\")");
            client.ask_words(&["EVAL", &script, "0"]);
        }
        client.ask("LPUSH a x");
        assert!(client.ask("GET a").starts_with("-WRONGTYPE"));
        let text = get(at(&node), "/metrics").body;
        assert!(!text.contains("hunter"), "{text}");
        let errors = text
            .lines()
            .filter(|line| line.starts_with("redis_errors_total"));
        let mut errors: Vec<_> = errors.collect();
        errors.sort_unstable();
        let expected = ["{err=\"WRONGTYPE\"} 1", "{err=\"other\"} 203"];
        assert_eq!(
            errors,
            expected.map(|rest| format!("redis_errors_total{rest}"))
        );
        every_line_is_well_formed(&text);
    });
}

/// The book said so, and nothing showed it.
#[test]
fn a_nodes_name_is_shown_in_info_and_metrics() {
    run(async {
        let machine = Machine::new();
        let named: Directives<'_> = &[("metrics-port", "0"), ("node-name", "east-1")];
        let node = machine.start(named).await;
        assert_eq!(wire(&node).info("quorlock_node_name"), "east-1");
        let text = get(at(&node), "/metrics").body;
        assert!(text.contains("name=\"east-1\""), "{text}");
        node.stop().await.unwrap();
        let node = machine.start(METRICS).await;
        assert_eq!(wire(&node).info("quorlock_node_name"), "");
    });
}

/// Each series belongs to a family that was described before it, once.
fn every_line_is_well_formed(text: &str) {
    let mut families: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap().to_owned();
            assert!(!families.contains(&name), "twice: {name}");
            families.push(name);
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let family = families.last().unwrap();
            assert!(name.starts_with(family.as_str()), "{name} under {family}");
            let number = line.rsplit(' ').next().unwrap();
            assert!(number.parse::<f64>().unwrap().is_finite(), "{line}");
        }
    }
    assert!(families.len() > 30);
}

#[test]
fn readiness_follows_the_restart_delay() {
    run(async {
        let machine = Machine::new();
        let node = machine.granting(METRICS, "SET a token NX PX 10000").await;
        assert_eq!(get(at(&node), "/readyz").status, 200);
        node.crash().await;
        let node = machine.start(METRICS).await;
        let answer = get(at(&node), "/readyz");
        assert_eq!(answer.status, 503);
        assert!(answer.head.contains("retry-after: 11"), "{}", answer.head);
        assert_eq!(
            answer.body,
            "in its restart delay, serves no locks for another 10.2 s (unclean stop)\n"
        );
        assert_eq!(
            get(at(&node), "/healthz").status,
            200,
            "it is well, and waits"
        );
        let text = get(at(&node), "/metrics").body;
        assert_eq!(value(&text, "quorlock_restart_delay_seconds"), 10.21);
        assert_eq!(
            value(&text, "quorlock_restart_delay_remaining_seconds"),
            10.21
        );
        assert_eq!(value(&text, "quorlock_serving"), 0.0);
        let stop = "quorlock_last_stop_info{stop=\"unclean\",clean=\"no\",delay_cause=\"unclean\"}";
        assert_eq!(value(&text, stop), 1.0);
        machine.advance_ms(10_211);
        node.serving().await.unwrap();
        let answer = get(at(&node), "/readyz");
        assert_eq!((answer.status, answer.body.as_str()), (200, "serving\n"));
        let text = get(at(&node), "/metrics").body;
        assert_eq!(
            value(&text, "quorlock_restart_delay_remaining_seconds"),
            0.0
        );
        assert_eq!(
            value(&text, "quorlock_restart_delay_seconds"),
            10.21,
            "what it was"
        );
        assert!(value(&text, "quorlock_restart_waited_seconds") >= 10.21);
    });
}

#[test]
fn a_failed_log_is_neither_ready_nor_healthy() {
    run(async {
        let machine = Machine::new();
        let always: Directives<'_> = &[("metrics-port", "0"), ("appendfsync", "always")];
        let node = machine.start(always).await;
        let address = at(&node);
        // Held open before the failure: the node ends soon after it.
        let streams: Vec<TcpStream> = (0..2).map(|_| connect(address)).collect();
        assert_eq!(get(address, "/healthz").status, 200);
        let mut client = wire(&node);
        machine.disk().fail_sync_after(0, EIO);
        let reply = client.ask("SET a token NX PX 10000");
        let is_refused = reply.starts_with("-MISCONF") || reply.contains("grants no more");
        assert!(is_refused, "{reply}");
        for (mut stream, path) in streams.into_iter().zip(["/healthz", "/readyz"]) {
            let sent = write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\n\r\n");
            let mut answer = String::new();
            // The node may have ended already: then nobody answers, which is no "healthy" either.
            if sent.is_ok() && stream.read_to_string(&mut answer).is_ok() && !answer.is_empty() {
                assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            }
        }
    });
}

#[test]
fn the_metrics_have_the_limit_of_memory_and_the_classes_of_locks() {
    run(async {
        let machine = Machine::new();
        let directives: Directives<'_> = &[
            ("metrics-port", "0"),
            ("maxmemory", "100mb"),
            ("metrics-lock-patterns", "job:*"),
        ];
        let node = machine.start(directives).await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET job:1 token NX PX 30000"), "+OK");
        assert_eq!(client.ask("SET job:1 other NX PX 30000"), "nil");
        assert_eq!(client.ask("DEL job:1"), ":1");
        assert_eq!(client.ask("SET other token NX PX 30000"), "+OK");
        let text = get(at(&node), "/metrics").body;
        for (series, expected) in [
            ("redis_memory_max_bytes", 104_857_600.0),
            ("quorlock_lock_grants_total{pattern=\"job:*\"}", 1.0),
            ("quorlock_lock_grants_total{pattern=\"\"}", 1.0),
            (
                "quorlock_lock_refusals_total{pattern=\"job:*\",reason=\"held\"}",
                1.0,
            ),
            (
                "quorlock_lock_ends_total{pattern=\"job:*\",how=\"released\"}",
                1.0,
            ),
            (
                "quorlock_lock_ends_total{pattern=\"\",how=\"released\"}",
                0.0,
            ),
            (
                "quorlock_lock_hold_seconds_bucket{le=\"+Inf\",pattern=\"job:*\"}",
                1.0,
            ),
        ] {
            assert_eq!(value(&text, series), expected, "{series}");
        }
        assert!(!text.contains("job:1"), "{text}");
        every_line_is_well_formed(&text);
        assert_eq!(client.ask("CONFIG SET maxmemory 1gb"), "+OK");
        let text = get(at(&node), "/metrics").body;
        assert_eq!(value(&text, "redis_memory_max_bytes"), 1_073_741_824.0);
    });
}
