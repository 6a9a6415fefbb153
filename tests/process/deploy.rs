//! `quorlock node health`: what containers are run by.

use std::fs;

use quorlock_testkit::Process;

use crate::shell::Shell;

#[test]
fn the_health_of_a_node_is_what_its_endpoint_says() {
    let shell = Shell::new();
    let nobody = shell.quorlock(&["node", "health", "--port", "1"]);
    assert_eq!(nobody.code, Some(1), "{}", nobody.stderr);
    assert!(nobody.stderr.contains("127.0.0.1:1: Connection refused"));

    fs::create_dir(shell.file("data")).unwrap();
    let words = [
        "server",
        "--dir",
        "data",
        "--port",
        "0",
        "--metrics-port",
        "0",
    ];
    let mut node = Process::start(
        shell.command(&words).args(["--first-start", "wait"]),
        &shell.file("out"),
    )
    .unwrap();
    let line = node.await_line("metrics at http://127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).unwrap();
    let port = port.split('/').next().unwrap();
    let ready = shell.quorlock(&["node", "health", "--port", port]);
    assert_eq!(ready.code, Some(1), "it is in its restart delay");
    assert!(
        ready.stderr.contains("/readyz answers 503: "),
        "{}",
        ready.stderr
    );
    shell.succeed(&["node", "health", "--port", port, "--alive"]);
}
