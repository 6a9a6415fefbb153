//! `quorlock cluster compose`, `systemd` and `kubernetes`, and `quorlock node health`: what containers are run by.

use std::fs;
use std::path::Path;

use quorlock_testkit::{Certificates, Process};

use crate::shell::Shell;

fn packaged(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join("packaging").join(path)).unwrap()
}

#[test]
fn what_is_printed_is_what_packaging_has_with_the_nodes_of_the_local_cluster() {
    let mut shell = Shell::new();
    let print = |shell: &Shell, what| shell.succeed(&["cluster", what]);
    let compose = packaged("docker/compose.yaml");
    let manifests = packaged("kubernetes/nodes.yaml");
    assert_eq!(print(&shell, "compose"), compose);
    assert_eq!(print(&shell, "kubernetes"), manifests);
    let files = print(&shell, "systemd");
    assert!(files.contains(&packaged("systemd/quorlock@.service")));

    let ready = shell.up_of(3, &["--appendfsync", "always"]);
    let url = ready["nodes"][0]["url"].as_str().unwrap();
    let port = url.rsplit(':').next().unwrap();
    let three = print(&shell, "kubernetes");
    let nodes = |text: &str, name: &str| text.matches(name).count();
    assert_eq!(nodes(&three, ".quorlock:"), 3, "{three}");
    for part in ["replicas: 3\n", "cluster-size 3\n", "appendfsync always\n"] {
        assert!(three.contains(part), "{part}");
    }
    assert!(three.contains(&format!("containerPort: {port} ")));
    assert_eq!(nodes(&print(&shell, "compose"), "<<: *node"), 3);
    let files = print(&shell, "systemd");
    assert_eq!(nodes(&files, "\nnode lock"), 3, "{files}");
    assert!(files.contains("\ncluster-size 3\n"), "{files}");
}

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
    let tls = shell.quorlock(&["node", "health", "--port", port, "--alive", "--tls"]);
    assert_eq!(tls.code, Some(1));
    let what = "what answers speaks no TLS; without metrics-tls yes, leave --tls out";
    assert!(tls.stderr.contains(what), "{}", tls.stderr);
}

#[test]
fn the_health_check_asks_an_endpoint_with_tls() {
    let shell = Shell::in_memory();
    Certificates::write_to(shell.path());
    fs::create_dir(shell.file("data")).unwrap();
    let mut command = shell.command(&["server", "--dir", "data", "--port", "0"]);
    command.args(["--metrics-port", "0", "--metrics-tls", "yes"]);
    // Its certificate is for another host, which does not matter here.
    let files = ["--tls-cert-file", "../elsewhere-node.pem", "--tls-key-file"];
    command.args(files).arg("../elsewhere-node.key");
    let mut node = Process::start(&mut command, &shell.file("out")).unwrap();
    let line = node.await_line("metrics at https://127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).unwrap();
    let port = port.split('/').next().unwrap();
    shell.succeed(&["node", "health", "--port", port, "--alive", "--tls"]);
    let plain = shell.quorlock(&["node", "health", "--port", port, "--alive"]);
    assert_eq!(plain.code, Some(1));
    assert!(plain.stderr.contains("add --tls"), "{}", plain.stderr);
}
