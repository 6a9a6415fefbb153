//! TLS of a node as another stack sees it: versions, ciphers, compression and renegotiation, asked for by openssl's `s_client`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::tls::Nodes;

/// What `s_client` says with these flags, which is sent these lines.
fn probe(nodes: &Nodes, flags: &[&str], lines: &str) -> String {
    let address = format!("localhost:{}", nodes.ports[0]);
    // It would go on for ever where the node does.
    let mut command = Command::new("timeout");
    command.args(["10", "openssl", "s_client", "-connect", &address]);
    command.args(["-CAfile", "authority.pem", "-verify_return_error"]);
    command.args(["-cert", "client.pem", "-key", "client.key"]);
    command.args(flags).current_dir(nodes.shell.path());
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = command.spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    // It may have ended by then.
    let _written = input.write_all(lines.as_bytes());
    let output = client.wait_with_output().unwrap();
    drop(input);
    [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat()
}

const PING: &str = "PING\r\nQUIT\r\n";

fn assert_served(nodes: &Nodes, flags: &[&str], part: &str) {
    let said = probe(nodes, &[flags, &["-ign_eof"]].concat(), PING);
    assert!(
        said.contains("+PONG") && said.contains(part),
        "{flags:?}: {said}"
    );
}

fn assert_refused(nodes: &Nodes, flags: &[&str], alert: &str) {
    let said = probe(nodes, &[flags, &["-ign_eof"]].concat(), PING);
    assert!(!said.contains("+PONG"), "{flags:?}: {said}");
    assert!(said.contains(alert), "{flags:?}: {said}");
}

#[test]
#[ignore = "needs openssl"]
fn old_versions_and_weak_ciphers_are_refused() {
    let nodes = Nodes::start(&["node"]);
    assert_served(&nodes, &["-tls1_3"], "New, TLSv1.3");
    assert_served(&nodes, &["-tls1_2"], "New, TLSv1.2");
    assert_served(&nodes, &["-tls1_2", "-comp"], "Compression: NONE");
    // Openssl itself speaks these at this level alone, and with ciphers that a node does not have.
    for version in ["-tls1", "-tls1_1"] {
        let flags = [version, "-cipher", "ALL:@SECLEVEL=0"];
        assert_refused(&nodes, &flags, "alert handshake failure");
    }
    for ciphers in [
        "AES128-SHA",
        "AES256-GCM-SHA384",
        "ECDHE+AES128+SHA1",
        "aNULL",
        "eNULL",
        "DHE",
    ] {
        let ciphers = format!("{ciphers}:@SECLEVEL=0");
        assert_refused(
            &nodes,
            &["-tls1_2", "-cipher", &ciphers],
            "alert handshake failure",
        );
    }
}

#[test]
#[ignore = "needs openssl"]
fn versions_of_tls_are_changed_while_the_node_runs() {
    let nodes = Nodes::start(&["node"]);
    for (protocols, served, refused) in [
        ("TLSv1.3", "-tls1_3", "-tls1_2"),
        ("TLSv1.2", "-tls1_2", "-tls1_3"),
    ] {
        let set = format!("CONFIG SET tls-protocols {protocols}\r\nQUIT\r\n");
        let said = probe(&nodes, &["-ign_eof"], &set);
        assert!(said.contains("+OK"), "{said}");
        assert_served(&nodes, &[served], protocols);
        assert_refused(&nodes, &[refused], "alert protocol version");
    }
}

#[test]
#[ignore = "needs openssl"]
fn a_client_that_renegotiates_is_refused_and_others_are_served() {
    let nodes = Nodes::start(&["node"]);
    // A line that begins with R renegotiates.
    let said = probe(&nodes, &["-tls1_2"], "R\nPING\r\n");
    assert!(said.contains("RENEGOTIATING"), "{said}");
    assert!(!said.contains("+PONG"), "{said}");
    assert_served(&nodes, &["-tls1_2"], "New, TLSv1.2");
}
