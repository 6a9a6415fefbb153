//! Unix sockets: who may use them, what is replaced and what stays, alone and beside TCP.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use quorlock_server::{Node, StartError};
use quorlock_testkit::{Wire, free_port};

use crate::machine::{configured, run, wire};

async fn start(path: &Path, port: &str) -> Result<Node, StartError> {
    let path = path.to_str().unwrap();
    let directives: [(&str, &[&str]); 2] = [("unixsocket", &[path]), ("unixsocketperm", &["700"])];
    // An ephemeral node has chosen a port.
    let builder = configured(&directives).ephemeral();
    builder.directive("port", &[port]).start().await
}

fn ask(path: &Path, request: &str) -> String {
    Wire::connect_unix(path).ask(request)
}

#[test]
fn clients_of_this_machine_use_the_socket_and_it_goes_with_the_node() {
    run(async {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("node.sock");
        let node = start(&path, "0").await.unwrap();
        assert_eq!(node.address().port(), 0, "no TCP");
        assert_eq!(node.unix_socket().as_deref(), Some(&*path));
        assert_eq!(ask(&path, "SET a 1 NX PX 30000"), "+OK");
        let shown = path.display();
        let info = ask(&path, "CLIENT INFO");
        for part in [
            format!(" addr={shown}:0 laddr={shown}:0 "),
            " flags=U ".to_owned(),
        ] {
            assert!(info.contains(&part), "{info}");
        }
        assert_eq!(ask(&path, "CLIENT KILL 127.0.0.1:1"), "-ERR No such client");
        assert_eq!(ask(&path, &format!("CLIENT KILL {shown}:0")), "+OK");
        let about = std::fs::symlink_metadata(&path).unwrap();
        assert!(about.file_type().is_socket());
        assert_eq!(about.permissions().mode() & 0o777, 0o700);
        node.stop().await.unwrap();
        assert!(!path.exists(), "its name goes with it");
        // Beside TCP, and told of.
        let other = tempfile::tempdir().unwrap();
        let path = other.path().join("node.sock");
        let directives: [(&str, &[&str]); 1] = [("unixsocket", &[path.to_str().unwrap()])];
        let node = configured(&directives)
            .ephemeral()
            .directive("port", &[&free_port().to_string()]);
        let node = node.start().await.unwrap();
        let mut client = wire(&node);
        assert_eq!(
            client.info("listener1"),
            format!("name=unix,bind={}", path.display())
        );
        assert_eq!(ask(&path, "PING"), "+PONG");
        node.stop().await.unwrap();
    });
}

#[test]
fn only_a_socket_on_which_nobody_answers_is_replaced() {
    run(async {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("node.sock");
        // What a killed process has left.
        drop(UnixListener::bind(&path).unwrap());
        let node = start(&path, "0").await.unwrap();
        assert_eq!(ask(&path, "PING"), "+PONG");
        let error = start(&path, "0").await.unwrap_err().to_string();
        assert!(error.contains("another process answers there"), "{error}");
        assert_eq!(ask(&path, "PING"), "+PONG", "it stays who it was");
        // Somebody else has taken the name meanwhile: that is not the node's to remove.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "kept").unwrap();
        node.stop().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        let error = start(&path, "0").await.unwrap_err().to_string();
        for part in [
            "no socket has this name, and stays",
            "the directive unixsocket",
            "no lock is affected",
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    });
}
