//! CONFIG SET of where the metrics are read: the endpoint moves, opens and closes while the node runs, or stays where it is.

use std::net::{SocketAddr, TcpListener, TcpStream};

use quorlock_server::Node;
use quorlock_testkit::Wire;

use crate::machine::with_node;
use crate::metrics::{at, get};

fn set(client: &mut Wire, name: &str, value: &str) -> String {
    client.ask_words(&["CONFIG", "SET", name, value])
}

fn assert_at(node: &Node, address: &str, port: u16) {
    let here = at(node);
    assert_eq!(here.to_string(), format!("{address}:{port}"));
}

fn answers(address: &str, port: u16) -> bool {
    let address: SocketAddr = format!("{address}:{port}").parse().unwrap();
    TcpStream::connect(address).is_ok() && get(address, "/healthz").status == 200
}

#[test]
fn the_endpoint_moves_to_another_address_and_leaves_the_old_one() {
    with_node(&[("metrics-port", &["0"])], |node, _| {
        let mut client = Wire::connect(node.address());
        let port = at(node).port();
        assert!(answers("127.0.0.1", port));
        assert_eq!(set(&mut client, "metrics-bind", "127.0.0.2"), "+OK");
        assert_at(node, "127.0.0.2", port);
        assert!(answers("127.0.0.2", port));
        assert!(!answers("127.0.0.1", port), "it is closed at once");
        // The old one is in the way of the new one, both times.
        assert_eq!(set(&mut client, "metrics-bind", "*"), "+OK");
        assert!(answers("127.0.0.1", port) && answers("127.0.0.3", port));
        assert_eq!(
            set(&mut client, "metrics-bind", "127.0.0.1 127.0.0.2"),
            "+OK"
        );
        assert!(answers("127.0.0.1", port) && answers("127.0.0.2", port));
        assert!(!answers("127.0.0.3", port));
        let shown = client.ask("CONFIG GET metrics-bind");
        assert_eq!(shown, "[metrics-bind, 127.0.0.1 127.0.0.2]");
    });
}

#[test]
fn a_move_that_fails_leaves_the_endpoint_and_everything_else_as_it_was() {
    with_node(
        &[("metrics-port", &["0"]), ("metrics-bind", &["*"])],
        |node, _| {
            let mut client = Wire::connect(node.address());
            let port = at(node).port();
            let taken = TcpListener::bind("0.0.0.0:0").unwrap();
            let other = taken.local_addr().unwrap().port().to_string();
            let reply =
                client.ask_words(&["CONFIG", "SET", "timeout", "7", "metrics-port", &other]);
            assert!(
                reply.contains("related to argument 'metrics-port'"),
                "{reply}"
            );
            assert!(reply.contains("cannot be listened on"), "{reply}");
            let stays = format!("the metrics stay at 0.0.0.0:{port}");
            assert!(reply.ends_with(&stays), "{reply}");
            // `*` has to give way to the first address before the second one fails, and gets its place back.
            let reply = set(&mut client, "metrics-bind", "127.0.0.1 192.0.2.1");
            assert!(reply.contains("192.0.2.1"), "{reply}");
            assert!(reply.ends_with(&stays), "{reply}");
            assert!(answers("127.0.0.1", port) && answers("127.0.0.2", port));
            for (name, value) in [
                ("timeout", "0"),
                ("metrics-port", "0"),
                ("metrics-bind", "*"),
            ] {
                let shown = client.ask(&format!("CONFIG GET {name}"));
                assert_eq!(shown, format!("[{name}, {value}]"));
            }
        },
    );
}

#[test]
fn the_endpoint_opens_and_closes_while_the_node_runs() {
    with_node(&[], |node, _| {
        let mut client = Wire::connect(node.address());
        assert_eq!(node.metrics_address(), None);
        for _ in 0..2 {
            assert_eq!(set(&mut client, "metrics-port", "0"), "+OK");
            let port = at(node).port();
            let answer = get(at(node), "/metrics");
            assert!(answer.body.contains("quorlock_serving"), "{}", answer.body);
            assert_eq!(set(&mut client, "metrics-port", "off"), "+OK");
            assert_eq!(node.metrics_address(), None);
            assert!(!answers("127.0.0.1", port));
        }
        for wrong in ["abc", "-1", "65536"] {
            assert_eq!(
                set(&mut client, "metrics-port", wrong),
                "-ERR CONFIG SET failed (possibly related to argument 'metrics-port') - argument must be off, or 0 to 65535"
            );
        }
        let reply = set(&mut client, "metrics-tls", "yes");
        assert!(reply.contains("can't set immutable config"), "{reply}");
    });
}
