//! What operators ask over a socket: LATENCY, on a machine whose clock a test moves and on this one, MEMORY and DEBUG OBJECT.

use std::time::Duration;

use quorlock_server::Node;

use crate::machine::gate::GatedNode;
use crate::machine::{run, wire, with_node};

/// A sync, and a direct write, are noted with what they took, and what is short is not.
#[test]
fn a_long_sync_or_direct_write_is_an_event_of_its_mode() {
    run(async {
        for (mode, is_direct, event) in [
            ("always", false, "aof-fsync-always"),
            ("always", true, "aof-write"),
        ] {
            let directives = [("appendfsync", mode), ("latency-monitor-threshold", "100")];
            let slow = match is_direct {
                true => GatedNode::start_direct(&directives).await,
                false => GatedNode::start(&directives).await,
            };
            let mut client = wire(&slow.node);
            assert_eq!(client.ask("SET a token PX 30000"), "+OK");
            assert_eq!(client.ask("LATENCY LATEST"), "[]");
            slow.gate.set_closed(true);
            client.send(b"SET b token PX 30000\r\n");
            slow.gate.await_thread("quorlock-");
            slow.machine.clock.advance(Duration::from_millis(250));
            slow.gate.set_closed(false);
            assert_eq!(client.reply(), "+OK");
            let latest = client.ask("LATENCY LATEST");
            assert!(latest.contains(event), "{event} in {latest}");
            assert!(latest.ends_with(":250, :250]]"), "{latest}");
            assert!(client.ask("LATENCY DOCTOR").contains("wait for the disk"));
        }
    });
}

#[test]
fn a_long_script_is_an_event_where_the_monitor_is_on() {
    run(async {
        let limit = &["5000"];
        let node = Node::builder()
            .ephemeral()
            .directive("script-time-limit", limit);
        let node = node.start().await.unwrap();
        let mut client = wire(&node);
        let script = "local n = 0 for i = 1, 100000 do n = n + i % 7 end return 1";
        let long = ["EVAL", script, "0"];
        assert_eq!(client.ask_words(&long), ":1");
        assert!(client.ask("LATENCY DOCTOR").contains("is disabled"));
        let set = "CONFIG SET latency-monitor-threshold 1";
        assert_eq!(client.ask(set), "+OK");
        assert_eq!(client.ask_words(&long), ":1");
        let history = client.ask("LATENCY HISTORY command");
        assert!(history.starts_with("[[:"), "{history}");
        let graph = client.ask("LATENCY GRAPH command");
        assert!(graph.starts_with("command - high "), "{graph}");
        assert!(client.ask("LATENCY HISTOGRAM eval").contains("eval"));
        assert_eq!(client.ask("LATENCY RESET"), ":1");
        assert_eq!(client.ask("LATENCY HISTORY command"), "[]");
    });
}

/// With RESP3 a client gets maps, numbers and texts, as from Redis.
#[test]
fn memory_and_debug_object_tell_of_the_keys_of_a_node() {
    with_node(&[("enable-debug-command", &["local"])], |node, _| {
        let mut client = wire(node);
        let resp2 = client.ask("MEMORY STATS");
        assert!(resp2.contains("keys.count, :0,"), "{resp2}");
        client.ask("HELLO 3");
        assert_eq!(client.ask("SET a token PX 30000"), "+OK");
        let stats = client.ask("MEMORY STATS");
        assert!(stats.contains("keys.count"), "{stats}");
        assert!(stats.contains("keys.bytes-per-key"), "{stats}");
        assert!(client.ask("MEMORY DOCTOR").contains("1 keys take "));
        let object = client.ask("DEBUG OBJECT a");
        assert!(object.starts_with("+Value at:0x"), "{object}");
        assert_eq!(client.ask("DEBUG OBJECT b"), "-ERR no such key");
    });
    with_node(&[], |node, _| {
        let refused = wire(node).ask("DEBUG OBJECT a");
        assert!(refused.starts_with("-ERR DEBUG command not allowed"));
    });
}
