//! WAITAOF: true in every mode, on disks that are slow, fail, or lose the power; and it holds up
//! nobody but its own connection.

use quorlock_testkit::eventually;

use crate::machine::gate::GatedNode;
use crate::machine::{MODES, Machine, run, wire};

#[test]
fn while_a_sync_is_slow_waitaof_waits_and_everybody_else_goes_on() {
    run(async {
        for mode in ["everysec", "no"] {
            let gated = GatedNode::start(&[("appendfsync", mode)]).await;
            let (mut client, mut other) = gated.wires();
            // The first grant raises the promise, which is synced in every mode. The segment
            // ahead is made at the start; its sync must not be what is waited for.
            assert_eq!(client.ask("SET a token NX PX 30000"), "+OK");
            assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1, :0]");
            gated.gate.set_closed(true);
            client.send(b"SET b token NX PX 30000\r\nWAITAOF 1 0 500\r\nGET b\r\n");
            assert_eq!(client.reply(), "+OK");
            other.await_info("blocked_clients", "1");
            assert_eq!(other.ask("SET c token NX PX 30000"), "+OK", "{mode}");
            assert_eq!(other.ask("WAITAOF 0 0 0"), "[:0, :0]", "{mode}");
            gated.machine.advance_ms(499);
            assert_eq!(other.info("blocked_clients"), "1");
            gated.machine.advance_ms(1);
            assert_eq!(client.reply(), "[:0, :0]", "the time is up");
            assert_eq!(client.reply(), "token", "its later request waited");
            // Without a timeout: until the sync, the client, or the node ends it.
            let mut gone = wire(&gated.node);
            assert_eq!(gone.ask("SET d token NX PX 30000"), "+OK");
            gone.send(b"WAITAOF 1 0 0\r\n");
            other.await_info("blocked_clients", "1");
            gone.reset();
            other.await_info("blocked_clients", "0");
            // Who sends no more may still read.
            client.send(b"WAITAOF 1 0 0\r\n");
            client.end();
            other.await_info("blocked_clients", "1");
            gated.gate.set_closed(false);
            assert_eq!(client.reply(), "[:1, :0]", "{mode}");
            assert_eq!(client.reply(), "<closed>", "{mode}");
        }
    });
}

/// Nobody else asks for that sync: time stands still, and there is no reply that needs it.
#[test]
fn what_was_written_without_a_reply_is_synced_for_who_waits_for_it() {
    run(async {
        for mode in MODES {
            let machine = Machine::new();
            let node = machine.start_in(mode).await;
            let mut client = wire(&node);
            client.send(b"CLIENT REPLY SKIP\r\nSET a b\r\nWAITAOF 1 0 0\r\n");
            assert_eq!(client.reply(), "[:1, :0]", "{mode}");
        }
    });
}

/// Waiting is not being idle: `timeout` begins anew with the reply.
#[test]
fn a_long_wait_does_not_count_as_silence() {
    run(async {
        let directives = [("appendfsync", "everysec"), ("timeout", "5")];
        let gated = GatedNode::start(&directives).await;
        let (mut client, mut silent) = gated.wires();
        assert_eq!(client.ask("SET a token PX 30000"), "+OK");
        assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1, :0]");
        gated.gate.set_closed(true);
        client.send(b"SET b token PX 30000\r\nWAITAOF 1 0 1000\r\n");
        assert_eq!(client.reply(), "+OK");
        silent.await_info("blocked_clients", "1");
        // What it sends meanwhile is kept for later, and counted now.
        let mut bytes_in = || -> u64 { silent.info("total_net_input_bytes").parse().unwrap() };
        let before = bytes_in();
        client.send(&b"PING\r\n".repeat(500));
        let mut questions = 0;
        eventually("what it sends is counted", || {
            questions += 1;
            assert!(questions < 50, "the questions alone are as many bytes");
            bytes_in() >= before + 3_000
        });
        gated.machine.advance_ms(1_000);
        assert_eq!(client.reply(), "[:0, :0]");
        for _ in 0..500 {
            assert_eq!(client.reply(), "+PONG");
        }
        client.send(b"WAITAOF 1 0 10000\r\n");
        silent.await_info("blocked_clients", "1");
        for _ in 0..2 {
            gated.machine.advance_ms(4_000);
            assert_eq!(silent.ask("PING"), "+PONG");
        }
        gated.machine.advance_ms(2_000);
        assert_eq!(client.reply(), "[:0, :0]");
        gated.machine.advance_ms(4_000);
        assert_eq!(
            silent.reply(),
            "<closed>",
            "so idle clients were looked for"
        );
        assert_eq!(client.ask("PING"), "+PONG");
    });
}

/// A worker syncs itself until it has met a long sync. From then on the log thread does it, and
/// everybody who does not wait for it goes on.
#[test]
fn long_syncs_leave_the_worker_one_after_the_other() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "always")]).await;
        let (mut client, mut other) = gated.wires();
        let set = b"SET a token PX 30000\r\n";
        for round in 0..5 {
            gated.gate.set_closed(true);
            client.send(set);
            if round == 0 {
                gated.gate.await_thread("quorlock-0");
                gated.machine.advance_ms(20);
            } else {
                // Should the last sync have answered both, the next one waits for both on this clock.
                gated.machine.advance_ms(20);
                gated.gate.await_thread("quorlock-log");
                assert_eq!(other.ask("GET b"), "nil", "{round}");
                other.send(set);
            }
            gated.gate.set_closed(false);
            assert_eq!(client.reply(), "+OK", "{round}");
            if round > 0 {
                assert_eq!(other.reply(), "+OK", "{round}");
            }
        }
    });
}

#[test]
fn an_orderly_stop_answers_who_waits_and_is_never_held_up() {
    run(async {
        let gated = GatedNode::start(&[("appendfsync", "no")]).await;
        let (mut client, mut other) = gated.wires();
        assert_eq!(client.ask("SET a token NX PX 30000"), "+OK");
        assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1, :0]");
        gated.gate.set_closed(true);
        client.send(b"SET b token NX PX 30000\r\nWAITAOF 1 0 0\r\n");
        assert_eq!(client.reply(), "+OK");
        other.await_info("blocked_clients", "1");
        gated.node.request_stop();
        gated.gate.set_closed(false);
        assert_eq!(client.reply(), "[:1, :0]", "SHUTDOWN is synced behind it");
        gated.node.stopped().await.unwrap();
    });
}

#[test]
fn what_waitaof_called_synced_survives_a_power_loss_in_every_mode() {
    run(async {
        for mode in MODES {
            for protocol in ["2", "3"] {
                let machine = Machine::with_power_loss();
                let node = machine.start_in(mode).await;
                let mut client = wire(&node);
                client.ask(&format!("HELLO {protocol}"));
                assert_eq!(
                    client.ask("WAITAOF 1 0 0"),
                    "[:1, :0]",
                    "nothing was written"
                );
                for number in 0..20 {
                    let set = format!("SET {number} token NX PX 50000");
                    assert_eq!(client.ask(&set), "+OK");
                }
                assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1, :0]");
                machine.lose_power();
                node.crash().await;
                let directives = [("appendfsync", mode), ("restart-delay", "off")];
                let node = machine.start(&directives).await;
                let mut client = wire(&node);
                assert_eq!(client.ask("DBSIZE"), ":20", "{mode}");
            }
        }
    });
}

#[test]
fn waitaof_answers_like_redis_and_waits_for_no_replica() {
    run(async {
        let machine = Machine::new();
        let node = machine.start_in("everysec").await;
        let mut client = wire(&node);
        for (command, reply) in [
            ("WAITAOF 0 0 0", "[:1, :0]"),
            ("WAITAOF 1 1 0", "[:1, :0]"),
            (
                "WAITAOF 2 0 0",
                "-ERR value is out of range, value must between 0 and 1",
            ),
            (
                "WAITAOF x 0 0",
                "-ERR value is not an integer or out of range",
            ),
            (
                "WAITAOF 1 -1 0",
                "-ERR value is out of range, must be positive",
            ),
            (
                "WAITAOF 1 0 x",
                "-ERR timeout is not an integer or out of range",
            ),
            ("WAITAOF 1 0 -1", "-ERR timeout is negative"),
            (
                "WAITAOF 1 0",
                "-ERR wrong number of arguments for 'waitaof' command",
            ),
            ("WAIT 1 0", ":0"),
            ("WAIT x 0", "-ERR value is not an integer or out of range"),
            ("WAIT 0 -1", "-ERR timeout is negative"),
        ] {
            assert_eq!(client.ask(command), reply, "{command}");
        }
        let script = client.ask_words(&["EVAL", "return redis.call('waitaof', 1, 0, 0)", "0"]);
        assert!(script.starts_with("-ERR"), "{script}");
        node.stop().await.unwrap();
        let node = machine.start(&[("appendonly", "no")]).await;
        let mut client = wire(&node);
        assert_eq!(
            client.ask("WAITAOF 1 0 0"),
            "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."
        );
        assert_eq!(client.ask("WAITAOF 0 0 0"), "[:0, :0]");
    });
}

#[test]
fn waitaof_never_says_1_when_the_sync_fails() {
    run(async {
        for mode in ["everysec", "no"] {
            let machine = Machine::new();
            let node = machine.start_in(mode).await;
            let mut client = wire(&node);
            // The first grant raises the promise, which is synced in every mode.
            assert_eq!(client.ask("SET a token NX PX 30000"), "+OK");
            machine.fail_syncs();
            client.send(b"SET b token NX PX 30000\r\nWAITAOF 1 0 0\r\n");
            // A segment that is made ahead may have met the failure first: then the node ends at once.
            let is_refused = |reply: &str| {
                ["-MISCONF", "-ERR", "<closed>"]
                    .iter()
                    .any(|how| reply.starts_with(how))
            };
            let first = client.reply();
            assert!(first == "+OK" || is_refused(&first), "{first}");
            let reply = client.reply();
            assert!(is_refused(&reply), "{mode}: {reply}");
            assert!(node.stopped().await.is_err());
        }
    });
}
