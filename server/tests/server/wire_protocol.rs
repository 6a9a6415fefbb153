//! What a client sees of a node on the wire: greetings, introductions, refusals, limits.

use std::time::Duration;

use quorlock_testkit::Wire;

use crate::machine::with_node;

#[test]
fn hello_introduces_the_node_in_both_protocols() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        let two = client.ask("HELLO");
        assert!(
            two.contains("proto, :2") && two.contains("version, 7.2.4"),
            "{two}"
        );
        let three = client.ask("HELLO 3 SETNAME worker");
        assert!(
            three.contains("proto, :3") && three.contains("modules, []"),
            "{three}"
        );
        assert_eq!(client.ask("CLIENT GETNAME"), "worker");
        assert_eq!(client.ask("GET missing"), "_");
        assert_eq!(
            client.ask("HELLO 4"),
            "-NOPROTO unsupported protocol version"
        );
        assert!(
            client
                .ask("HELLO x")
                .starts_with("-ERR Protocol version is not an integer")
        );
        assert!(
            client
                .ask("HELLO 2 WHAT")
                .starts_with("-ERR Syntax error in HELLO option")
        );
        assert_eq!(client.ask("RESET"), "+RESET");
        assert_eq!(client.ask("GET missing"), "nil");
    });
}

#[test]
fn a_password_is_asked_for_before_anything_else() {
    with_node(&[("requirepass", &["secret"])], |node, _| {
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("GET a"), "-NOAUTH Authentication required.");
        assert_eq!(client.ask("NOSUCH"), "-NOAUTH Authentication required.");
        assert!(
            client
                .ask("HELLO 3")
                .starts_with("-NOAUTH HELLO must be called")
        );
        assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS"));
        assert!(client.ask("AUTH other secret").starts_with("-WRONGPASS"));
        assert_eq!(client.ask("AUTH default secret"), "+OK");
        assert_eq!(client.ask("SET a token NX PX 1000"), "+OK");
        let mut client = Wire::connect(node.address());
        assert!(
            client
                .ask("HELLO 3 AUTH default secret")
                .contains("server, quorlock")
        );
        let mut client = Wire::connect(node.address());
        client.send(b"*1\r\n$20000\r\n");
        assert!(client.reply().contains("unauthenticated bulk length"));
        assert_eq!(client.reply(), "<closed>");
    });
}

/// Redis lets one connection guess without end.
#[test]
fn a_connection_ends_after_ten_wrong_passwords_in_a_row() {
    with_node(&[("requirepass", &["secret"])], |node, _| {
        for guess in [
            "AUTH wrong",
            "AUTH other secret",
            "HELLO 3 AUTH default wrong",
        ] {
            let mut client = Wire::connect(node.address());
            for _ in 0..9 {
                assert!(client.ask(guess).starts_with("-WRONGPASS"), "{guess}");
            }
            assert_eq!(
                client.ask("AUTH secret"),
                "+OK",
                "the ninth is not the last"
            );
            client.send(format!("{guess}\r\n").repeat(9).as_bytes());
            assert!((0..9).all(|_| client.reply().starts_with("-WRONGPASS")));
            // It stays who it was, and a new beginning gives no further guesses.
            assert_eq!(client.ask("SET a token"), "+OK");
            assert_eq!(client.ask("RESET"), "+RESET");
            client.send(format!("{guess}\r\nAUTH secret\r\n").as_bytes());
            assert!(client.reply().starts_with("-WRONGPASS"));
            assert_eq!(client.reply(), "<closed>");
        }
    });
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        for _ in 0..20 {
            assert!(client.ask("AUTH other secret").starts_with("-WRONGPASS"));
        }
        assert_eq!(client.ask("PING"), "+PONG", "there is nothing to guess");
    });
}

#[test]
fn client_commands_show_who_is_connected() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        assert_eq!(
            client.ask("CLIENT SETNAME bad\nname"),
            "-ERR Client names cannot contain spaces, newlines or special characters."
        );
        assert_eq!(client.ask("CLIENT SETINFO LIB-NAME mylib"), "+OK");
        assert_eq!(client.ask("CLIENT SETINFO LIB-VER 1.2"), "+OK");
        assert!(
            client
                .ask("CLIENT SETINFO LIB-X 1")
                .starts_with("-ERR Unrecognized option")
        );
        assert!(
            client
                .ask("CLIENT MAINT_NOTIFICATIONS ON")
                .starts_with("-ERR unknown subcommand")
        );
        let id = client.ask("CLIENT ID").trim_start_matches(':').to_owned();
        let line = client.ask("CLIENT INFO");
        assert!(
            line.starts_with(&format!("id={id} ")) && line.contains("lib-name=mylib"),
            "{line}"
        );
        let _second = Wire::connect(node.address());
        assert!(client.ask(&format!("CLIENT LIST ID {id}")).lines().count() == 1);
        assert!(client.ask("CLIENT LIST").contains("cmd=client"));
    });
}

#[test]
fn databases_are_apart_and_bounded() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("SET a zero PX 60000"), "+OK");
        assert_eq!(client.ask("SELECT 15"), "+OK");
        assert_eq!(client.ask("GET a"), "nil");
        assert_eq!(client.ask("SELECT 16"), "-ERR DB index is out of range");
        assert_eq!(
            client.ask("SELECT x"),
            "-ERR value is not an integer or out of range"
        );
        assert_eq!(client.ask("DBSIZE"), ":0");
    });
}

#[test]
fn information_names_what_drivers_read() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        client.ask("SET a token PX 60000");
        for (field, value) in [
            ("redis_version", "7.2.4"),
            ("redis_mode", "standalone"),
            ("role", "master"),
            ("connected_slaves", "0"),
            ("loading", "0"),
            ("aof_enabled", "1"),
            ("restart_delay", "0"),
            ("db0", "keys=1,expires=1,avg_ttl=0"),
        ] {
            assert_eq!(client.info(field), value, "{field}");
        }
        assert_eq!(client.info("quorlock_node_id"), node.id().to_string());
        assert_eq!(client.info("run_id").len(), 40);
        assert!(!client.ask("INFO server").contains("# Keyspace"));
    });
}

#[test]
fn configuration_is_shown_by_pattern_and_never_the_password() {
    with_node(&[("appendfsync", &["always"])], |node, _| {
        let mut client = Wire::connect(node.address());
        assert_eq!(
            client.ask("CONFIG GET appendfsync"),
            "[appendfsync, always]"
        );
        assert_eq!(client.ask("CONFIG GET nosuch"), "[]");
        assert!(
            client
                .ask("CONFIG GET append* databases")
                .contains("databases, 16")
        );
        assert_eq!(
            client.ask("CONFIG GET port"),
            format!("[port, {}]", node.address().port())
        );
        assert!(
            client
                .ask("CONFIG SET port 1")
                .starts_with("-ERR CONFIG SET")
        );
    });
}

#[test]
fn commands_describe_themselves() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        let count: usize = client
            .ask("COMMAND COUNT")
            .trim_start_matches(':')
            .parse()
            .unwrap();
        assert!(count > 50, "{count}");
        assert!(
            client
                .ask("COMMAND INFO get nosuch")
                .starts_with("[[get, :2, [")
        );
        assert!(client.ask("COMMAND DOCS set").contains("summary"));
        let unknown = client.ask("NOSUCH a b");
        assert_eq!(
            unknown,
            "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "
        );
        assert_eq!(
            client.ask("GET"),
            "-ERR wrong number of arguments for 'get' command"
        );
        assert!(
            client
                .ask("CLUSTER INFO")
                .contains("cluster support disabled")
        );
        assert_eq!(client.ask("WAIT 1 10"), ":0");
    });
}

#[test]
fn hostile_bytes_end_one_connection_and_nothing_else() {
    with_node(&[], |node, _| {
        for bytes in [
            b"*2147483648\r\n".as_slice(),
            b"*1\r\n$-2\r\n",
            b"*1\r\n:5\r\n",
            b"*1\r\n$999999999999999999999\r\n",
            b"GET \"unbalanced\r\n",
        ] {
            let mut client = Wire::connect(node.address());
            client.send(bytes);
            assert!(
                client.reply().starts_with("-ERR Protocol error: "),
                "{bytes:?}"
            );
            assert_eq!(client.reply(), "<closed>");
        }
        for bytes in [b"POST / HTTP/1.1\r\n".as_slice(), b"Host: localhost\r\n"] {
            let mut client = Wire::connect(node.address());
            client.send(bytes);
            assert_eq!(client.reply(), "<closed>");
        }
        let mut client = Wire::connect(node.address());
        client.send(b"\r\n*0\r\n*-1\r\nPING\r\n");
        assert_eq!(client.reply(), "+PONG");
    });
}

#[test]
fn a_pipeline_is_answered_in_order_however_it_is_cut() {
    with_node(&[("appendfsync", &["always"])], |node, _| {
        let mut client = Wire::connect(node.address());
        let mut bytes = Vec::new();
        for number in 0..3_000 {
            let value = format!("v{number}");
            bytes.extend_from_slice(
                format!(
                    "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n$2\r\nPX\r\n$5\r\n60000\r\n",
                    value.len()
                )
                .as_bytes(),
            );
            bytes.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        }
        for part in bytes.chunks(7_919) {
            client.send(part);
        }
        for number in 0..3_000 {
            assert_eq!(client.reply(), "+OK");
            assert_eq!(client.reply(), format!("v{number}"));
        }
    });
}

#[test]
fn quit_and_shutdown_close() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        assert_eq!(client.ask("QUIT"), "+OK");
        assert_eq!(client.reply(), "<closed>");
        let mut client = Wire::connect(node.address());
        for wrong in [
            "WHAT",
            "SAVE NOSAVE",
            "nosave now SAVE",
            "ABORT NOW",
            "SAVE ABORT",
        ] {
            let reply = client.ask(&format!("SHUTDOWN {wrong}"));
            assert_eq!(reply, "-ERR syntax error", "{wrong}");
        }
        for abort in ["ABORT", "abort ABORT"] {
            let reply = client.ask(&format!("SHUTDOWN {abort}"));
            assert_eq!(reply, "-ERR No shutdown in progress.", "{abort}");
        }
        assert_eq!(client.ask("SHUTDOWN NOSAVE"), "<closed>");
    });
}

#[test]
fn too_many_clients_are_told_so() {
    with_node(&[("maxclients", &["2"])], |node, _| {
        let mut first = Wire::connect(node.address());
        let mut second = Wire::connect(node.address());
        assert_eq!(first.ask("PING"), "+PONG");
        assert_eq!(second.ask("PING"), "+PONG");
        assert_eq!(
            Wire::connect(node.address()).reply(),
            "-ERR max number of clients reached"
        );
    });
}

#[test]
fn a_burst_of_connections_does_not_pass_maxclients() {
    with_node(&[("maxclients", &["2"])], |node, _| {
        let mut clients: Vec<Wire> = (0..40).map(|_| Wire::connect(node.address())).collect();
        // The first two are served; the others were refused before they asked.
        let mut refused = clients.split_off(2);
        for client in &mut clients {
            // A connection can be open before the node has accepted it.
            assert_eq!(client.ask("PING"), "+PONG");
        }
        for client in &mut clients {
            assert_eq!(client.info("connected_clients"), "2");
        }
        for client in &mut refused {
            assert_eq!(client.reply(), "-ERR max number of clients reached");
        }
    });
}

#[test]
fn a_client_is_idle_since_its_last_turn_and_never_while_it_asks() {
    with_node(&[], |node, clock| {
        let mut quiet = Wire::connect(node.address());
        assert_eq!(quiet.ask("SET a 1"), "+OK");
        let mut asking = Wire::connect(node.address());
        assert_eq!(asking.ask("PING"), "+PONG");
        clock.advance(Duration::from_secs(5));
        let list = asking.ask("CLIENT LIST");
        assert!(list.contains("idle=5 "), "the quiet one: {list}");
        assert!(list.contains("idle=0 "), "the one who asks: {list}");
        assert!(asking.ask("CLIENT INFO").contains("idle=0 "));
        assert_eq!(quiet.ask("GET a"), "1");
        let list = asking.ask("CLIENT LIST");
        assert!(!list.contains("idle=5 "), "it was heard of: {list}");
    });
}
