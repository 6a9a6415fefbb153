//! INFO commandstats, errorstats and latencystats: what counts as a call, as a refusal and as a failure, as in Redis 7.0,
//! against which these requests were tried.

use quorlock_testkit::Wire;

use crate::machine::{wire, with_node};

/// `cmdstat_<name>` without the times: calls, rejected calls, failed calls.
fn counts(client: &mut Wire) -> Vec<String> {
    let page = client.ask("INFO COMMANDSTATS");
    let mut lines: Vec<String> = page
        .split("\r\n")
        .filter_map(|line| line.strip_prefix("cmdstat_"))
        .map(|line| {
            let (name, fields) = line.split_once(':').unwrap();
            let value = |field: &str| {
                let mut words = fields.split(',').filter_map(|word| word.split_once('='));
                words.find(|(name, _)| *name == field).unwrap().1.to_owned()
            };
            let [usec, _] = [value("usec"), value("usec_per_call")];
            assert!(usec.parse::<u64>().is_ok(), "{line}");
            let [calls, rejected, failed] = ["calls", "rejected_calls", "failed_calls"].map(value);
            format!("{name} {calls} {rejected} {failed}")
        })
        .collect();
    lines.sort_unstable();
    lines
}

fn errors(client: &mut Wire) -> Vec<String> {
    let page = client.ask("INFO errorstats");
    let lines = page.split("\r\n");
    let codes = lines.filter_map(|line| line.strip_prefix("errorstat_"));
    codes.map(str::to_owned).collect()
}

const REQUESTS: &[&[&str]] = &[
    &["SET", "a", "1"],
    &["GET", "a"],
    &["GET"],
    &["LPUSH", "a", "x"],
    &["CLIENT", "SETNAME", "x"],
    &["CLIENT", "NOSUCH"],
    &[
        "EVAL",
        "redis.call('set','b','1'); return redis.call('get','b')",
        "0",
    ],
    &["EVAL", "return redis.pcall('lpush','a','x')", "0"],
    &["EVAL", "return redis.call('lpush','a','x')", "0"],
    &["EVAL", "return redis.pcall('get')", "0"],
    &["EVAL", "return redis.pcall('nosuch')", "0"],
    &["EVAL", "return redis.error_reply('MINE x')", "0"],
    &["MULTI"],
    &["SET", "c", "1"],
    &["GET"],
    &["EXEC"],
    &["MULTI"],
    &["SET", "c", "1"],
    &["LPUSH", "c", "x"],
    &["EXEC"],
    &["nosuch"],
    &["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"],
    &["EXEC"],
    &["SUBSCRIBE", "channel"],
    &["GET", "a"],
    &["UNSUBSCRIBE", "channel"],
    &["PING"],
    &["OBJECT", "ENCODING", "a"],
    &["OBJECT", "HELP"],
    &["OBJECT"],
    &["OBJECT", "NOSUCH", "x"],
];

/// Planted: a refusal counts as a failure; commands of scripts and of transactions do not count; a subcommand counts as
/// its command.
#[test]
fn calls_refusals_and_failures_count_as_in_redis_and_anew_after_a_reset() {
    with_node(&[("workers", &["1"])], |node, _| {
        let mut client = wire(node);
        assert_eq!(client.ask("CONFIG RESETSTAT"), "+OK");
        for request in REQUESTS {
            client.ask_words(request);
        }
        assert_eq!(
            counts(&mut client),
            [
                "client|setname 1 0 0",
                "config|resetstat 1 0 0",
                "eval 6 0 5",
                "evalsha 1 0 1",
                "exec 3 0 2",
                "get 2 4 0",
                "lpush 4 0 4",
                "multi 2 0 0",
                "object 0 1 0",
                "object|encoding 1 0 0",
                "object|help 1 0 0",
                "ping 1 0 0",
                "set 3 0 0",
                "subscribe 1 0 0",
                "unsubscribe 1 0 0",
            ]
        );
        let expected = [
            "ERR:count=10",
            "EXECABORT:count=1",
            "MINE:count=1",
            "NOSCRIPT:count=1",
            "WRONGTYPE:count=4",
        ];
        assert_eq!(errors(&mut client), expected);
        let latencies = client.ask("INFO latencystats");
        for name in ["get", "client|setname", "eval"] {
            let line = format!("latency_percentiles_usec_{name}:p50=");
            assert!(latencies.contains(&line), "{latencies}");
        }
        assert_eq!(client.ask("CONFIG RESETSTAT"), "+OK");
        assert_eq!(counts(&mut client), ["config|resetstat 1 0 0"]);
        assert!(errors(&mut client).is_empty());
    });
}

/// Planted: only errors that are answered at once count.
#[test]
fn errors_that_end_a_wait_count_as_others_do() {
    with_node(&[("workers", &["2"])], |node, _| {
        let (mut waiter, mut other) = (wire(node), wire(node));
        let id = waiter.ask("CLIENT ID");
        assert_eq!(other.ask("SET target token"), "+OK");
        assert_eq!(other.ask("CONFIG RESETSTAT"), "+OK");
        waiter.send(b"BLPOP queue 0\r\n");
        other.await_info("blocked_clients", "1");
        let unblock = format!("CLIENT UNBLOCK {} ERROR", &id[1..]);
        assert_eq!(other.ask(&unblock), ":1");
        assert!(waiter.reply().starts_with("-UNBLOCKED "));
        waiter.send(b"BLMOVE queue target LEFT LEFT 0\r\n");
        other.await_info("blocked_clients", "1");
        assert_eq!(other.ask("RPUSH queue element"), ":1");
        assert!(waiter.reply().starts_with("-WRONGTYPE "));
        assert_eq!(
            errors(&mut other),
            ["UNBLOCKED:count=1", "WRONGTYPE:count=1"]
        );
        assert_eq!(other.info("total_error_replies"), "2");
        let counts = counts(&mut other);
        for line in ["blmove 1 0 1", "blpop 1 0 1"] {
            assert!(counts.iter().any(|count| count == line), "{counts:?}");
        }
    });
}

/// As in Redis the long sections are shown where they are asked for.
#[test]
fn tools_that_read_the_usual_sections_are_sent_the_short_one() {
    with_node(&[], |node, _| {
        let mut client = wire(node);
        let usual = client.ask("INFO");
        assert!(usual.contains("# Errorstats"));
        assert!(!usual.contains("# Commandstats") && !usual.contains("# Latencystats"));
        for words in ["INFO all", "INFO everything"] {
            let page = client.ask(words);
            for title in ["# Commandstats", "# Errorstats", "# Latencystats"] {
                assert!(page.contains(title), "{words}");
            }
        }
    });
}

/// All that Redis counts anew. What expires afterwards is counted from zero.
#[test]
fn resetstat_counts_keys_and_connections_anew_as_well() {
    with_node(&[], |node, clock| {
        let mut client = wire(node);
        let counted = [
            "expired_keys",
            "keyspace_hits",
            "keyspace_misses",
            "total_connections_received",
            "total_error_replies",
        ];
        let all = |client: &mut Wire| counted.map(|field| client.info(field));
        let count = |client: &mut Wire| {
            client.ask("SET gone 1 PX 1000");
            client.ask("GET gone");
            clock.advance(std::time::Duration::from_secs(2));
            client.ask("GET gone");
            client.ask("INCR");
            client.await_info("expired_keys", "1");
        };
        count(&mut client);
        assert_eq!(all(&mut client), ["1", "1", "1", "1", "1"]);
        assert_eq!(client.ask("CONFIG RESETSTAT"), "+OK");
        assert_eq!(all(&mut client), ["0", "0", "0", "0", "0"]);
        let mut other = wire(node);
        count(&mut other);
        assert_eq!(all(&mut client), ["1", "1", "1", "1", "1"]);
    });
}
