//! The restart delay and its limits: keys that no delay covers, nodes without a log, first starts,
//! lost logs. On a disk in memory that loses what was not synced, and a clock that tests move.

use quorlock_testkit::Wire;

use crate::machine::said::said;
use crate::machine::{Directives, Machine, run, wire};

const EVERYSEC: Directives<'static> = &[("appendfsync", "everysec")];
const ALWAYS: Directives<'static> = &[("appendfsync", "always")];
const NO: Directives<'static> = &[("appendfsync", "no")];
const NO_LOG: Directives<'static> = &[("appendonly", "no")];

/// What no delay could cover is on the disk before the reply, in every mode that keeps a log.
#[test]
fn keys_without_ttl_or_beyond_the_cap_survive_a_power_loss_without_a_delay() {
    run(async {
        for mode in [EVERYSEC, NO, ALWAYS] {
            let machine = Machine::with_power_loss();
            let node = machine.start(mode).await;
            let mut client = wire(&node);
            assert_eq!(client.ask("SET a forever"), "+OK");
            assert_eq!(client.ask("SET b long NX PX 120000"), "+OK");
            assert_eq!(
                client.info("ttl_bound_ms"),
                "0",
                "no delay could cover them"
            );
            node.crash().await;
            machine.lose_power();
            let trusting = [mode[0], ("trust-fsync", "yes")];
            let node = machine.start(&trusting).await;
            let length_ms = if mode == ALWAYS { 0 } else { 10 };
            assert_eq!(said(&node).length_ms, length_ms, "{mode:?}");
            machine.advance_ms(11);
            node.serving().await.unwrap();
            let mut client = wire(&node);
            assert_eq!(client.ask("GET a"), "forever");
            assert_eq!(client.ask("GET b"), "long");
        }
        // As Redis does it: the delay covers at least the cap.
        let as_mode: Directives<'_> = &[("appendfsync", "no"), ("no-ttl-durability", "as-mode")];
        let machine = Machine::with_power_loss();
        let node = machine.granting(as_mode, "SET b long NX PX 120000").await;
        node.crash().await;
        machine.lose_power();
        assert_eq!(said(&machine.start(as_mode).await).length_ms, 61_210);
    });
}

/// `appendonly no` keeps its promises in the log, and nothing else: said in README and the book.
#[test]
fn without_a_log_only_the_delay_protects_and_only_up_to_the_cap() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(NO_LOG).await;
        let mut client = wire(&node);
        assert_eq!(client.ask("SET a forever"), "+OK");
        assert_eq!(client.ask("SET b long NX PX 120000"), "+OK");
        assert_eq!(client.ask("SET c token NX PX 3000"), "+OK");
        assert_eq!(
            client.info("ttl_bound_ms"),
            "60000",
            "the cap, for the long one"
        );
        node.crash().await;
        let node = machine.start(NO_LOG).await;
        assert_eq!(said(&node).length_ms, 61_210);
        machine.advance_ms(61_211);
        node.serving().await.unwrap();
        let mut client = wire(&node);
        assert_eq!(
            client.ask("GET a"),
            "nil",
            "forgotten, and no delay covers it"
        );
        assert_eq!(
            client.ask("GET b"),
            "nil",
            "forgotten, although it still had 58 s"
        );
        // A clean stop knows what it forgets: it waits for the longest lock, beyond the cap too.
        assert_eq!(client.ask("SET b long NX PX 120000"), "+OK");
        node.stop().await.unwrap();
        assert_eq!(said(&machine.start(NO_LOG).await).left_ms, 120_000);
    });
}

/// What INFO says follows what CONFIG SET changes; what the log holds decides the next start.
#[test]
fn a_cap_and_a_mode_changed_live_are_told_and_outlive_the_run() {
    run(async {
        let machine = Machine::new();
        let node = machine.start(ALWAYS).await;
        let mut client = wire(&node);
        assert_eq!(client.info("restart_cap_ms"), "60000");
        assert_eq!(client.ask("CONFIG SET restart-delay-max 120s"), "+OK");
        assert_eq!(client.info("restart_cap_ms"), "120000");
        assert_eq!(client.ask("SET a token NX PX 100000"), "+OK");
        assert_eq!(client.info("ttl_bound_ms"), "100000");
        assert_eq!(client.ask("CONFIG SET restart-delay-max 1s"), "+OK");
        assert_eq!(client.ask("CONFIG SET appendfsync everysec"), "+OK");
        assert_eq!(
            client.info("ttl_bound_ms"),
            "100000",
            "what was granted was granted"
        );
        node.crash().await;
        let node = machine.start(ALWAYS).await;
        let said = said(&node);
        assert_eq!((said.stop.as_str(), said.left_ms), ("unclean", 102_010));
        assert_eq!(wire(&node).info("restart_weakest_mode"), "everysec");
        assert_eq!(wire(&node).info("restart_ttl_bound_ms"), "100000");
    });
}

#[test]
fn the_first_start_waits_where_the_directive_or_what_is_configured_says_so() {
    let rows: [(Directives<'_>, bool); 11] = [
        (&[("first-start", "auto")], false),
        (&[("first-start", "serve")], false),
        (&[("first-start", "wait")], true),
        (&[("first-start", "auto"), ("port", "0")], false),
        (&[("first-start", "auto"), ("appendonly", "no")], false),
        (&[("first-start", "auto"), ("bind", "0.0.0.0")], true),
        (&[("first-start", "serve"), ("bind", "0.0.0.0")], false),
        // On loopback as well: a sidecar or a tunnel lets others in.
        (&[("first-start", "auto"), ("cluster-size", "5")], true),
        (&[("first-start", "auto"), ("cluster-id", "blue")], true),
        (&[("first-start", "auto"), ("appendfsync", "always")], true),
        (&[("first-start", "serve"), ("cluster-size", "5")], false),
    ];
    run(async {
        for (directives, waits) in rows {
            let machine = Machine::new();
            let node = machine.start(directives).await;
            let what = format!("{directives:?}");
            let mut client = Wire::connect((std::net::Ipv4Addr::LOCALHOST, node.address().port()));
            assert_eq!(client.info("restart_last_stop"), "unknown", "{what}");
            let length_ms = client.info("restart_delay_length_ms");
            assert_eq!(length_ms, if waits { "61210" } else { "0" }, "{what}");
            assert_eq!(node.is_serving(), !waits, "{what}");
            let reply = client.ask("GET a");
            assert_eq!(
                reply.contains("quorlock node init"),
                waits,
                "{what}: {reply}"
            );
            // A stop inside the delay changes nothing; vouching for the past does.
            node.stop().await.unwrap();
            let node = machine.start(directives).await;
            assert_eq!(node.is_serving(), !waits, "{what}, once more");
            node.stop().await.unwrap();
            let vouching: Directives<'_> = &[("first-start", "serve")];
            assert!(
                machine.start(vouching).await.is_serving(),
                "{what}, vouched for"
            );
        }
    });
}

/// The log is gone, `node.id` is there: nobody can vouch for what was granted.
#[test]
fn an_identity_without_its_log_waits_the_cap_whatever_first_start_says() {
    run(async {
        for first_start in ["auto", "serve", "wait"] {
            for is_clean in [true, false] {
                let machine = Machine::new();
                let node = machine.start(ALWAYS).await;
                let id = node.id();
                assert_eq!(wire(&node).ask("SET a token NX PX 10000"), "+OK");
                if is_clean {
                    node.stop().await.unwrap();
                } else {
                    node.crash().await;
                }
                remove_log(&machine);
                let node = machine.start(&[("first-start", first_start)]).await;
                assert_eq!(node.id(), id);
                let said = said(&node);
                assert_eq!(
                    (said.stop.as_str(), said.length_ms, said.cause.as_str()),
                    ("emptied", 61_210, "emptied"),
                    "{first_start}, clean: {is_clean}"
                );
            }
        }
    });
}

fn remove_log(machine: &Machine) {
    use quorlock_server::Disk;
    let disk = machine.disk();
    for entry in disk.list().unwrap() {
        if entry.name.starts_with("segment-") {
            disk.remove(&entry.name).unwrap();
        }
    }
    disk.sync_dir().unwrap();
}
