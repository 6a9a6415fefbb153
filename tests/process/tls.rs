//! TLS between the commands and nodes: what a certificate that is wrong comes to, one place for files and flags, and
//! certificates that are replaced while locks are held.

use std::fs;

use quorlock_testkit::{Certificates, Process, free_port};
use rustix::process::Signal;

use crate::callers::Callers;
use crate::shell::Shell;

/// Nodes that speak TLS alone.
pub(crate) struct Nodes {
    pub(crate) shell: Shell,
    certificates: Certificates,
    processes: Vec<Process>,
    pub(crate) ports: Vec<u16>,
}

impl Nodes {
    /// One for each of these certificates.
    pub(crate) fn start(names: &[&str]) -> Self {
        let shell = Shell::in_memory();
        let certificates = Certificates::write_to(shell.path());
        let (mut processes, mut ports) = (Vec::new(), Vec::new());
        for (number, name) in names.iter().enumerate() {
            let (port, folder) = (free_port(), format!("node{number}"));
            fs::create_dir(shell.file(&folder)).unwrap();
            for end in ["pem", "key"] {
                let own = shell.file(&format!("{folder}/node.{end}"));
                fs::copy(certificates.path(&format!("{name}.{end}")), own).unwrap();
            }
            let mut command = shell.command(&["server", "--port", "0", "--bind", "127.0.0.1"]);
            command.args(["--tls-port", &port.to_string(), "--dir", &folder]);
            command.args(["--tls-cert-file", "node.pem", "--tls-key-file", "node.key"]);
            command.args(["--tls-ca-cert-file", &certificates.path("authority.pem")]);
            command.args(["--first-start", "serve"]);
            let output = shell.file(&format!("{folder}.out"));
            let mut process = Process::start(&mut command, &output).unwrap();
            process.await_line("Ready to accept connections");
            processes.push(process);
            ports.push(port);
        }
        Self {
            shell,
            certificates,
            processes,
            ports,
        }
    }

    fn list(&self) -> String {
        let address = |port: &u16| format!("127.0.0.1:{port}");
        self.ports.iter().map(address).collect::<Vec<_>>().join(",")
    }

    /// These words, and the flags of a client with this certificate.
    fn said(&self, words: &[&str], shows: Option<&str>) -> (Option<i32>, String) {
        let mut command = self.shell.command(words);
        command.args(["--tls", "--cacert", "authority.pem"]);
        if let Some(name) = shows {
            command.args([
                "--cert",
                &format!("{name}.pem"),
                "--key",
                &format!("{name}.key"),
            ]);
        }
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_said_of_each_node() {
    let nodes = Nodes::start(&["expired-node", "elsewhere-node", "other-node"]);
    let reasons = [
        "its certificate has expired",
        "its certificate is not for the name 'localhost'",
        "its certificate is of no authority in authority.pem",
    ];
    let remedies = ["replace the node's", "--cacert", "--cacert"];
    for ((port, reason), remedy) in nodes.ports.iter().zip(reasons).zip(remedies) {
        let one = format!("localhost:{port}");
        let words = ["acquire", "a", "--no-wait", "--nodes", &one];
        let (code, said) = nodes.said(&words, Some("client"));
        assert_eq!(code, Some(69), "{said}");
        assert!(said.contains(reason), "{reason}: {said}");
        assert!(said.contains(remedy), "{remedy}: {said}");
    }
    // The node itself says so of its own certificate.
    for (number, is_over) in [(0, true), (1, false)] {
        let log = nodes.shell.file(&format!("node{number}.out"));
        let log = fs::read_to_string(log).unwrap();
        assert_eq!(log.contains("the certificate ended "), is_over, "{log}");
    }
    // A name in place of the host's.
    let elsewhere = format!("localhost:{}", nodes.ports[1]);
    let words = ["acquire", "a", "--no-wait", "--nodes", &elsewhere];
    let named = [&words[..], &["--sni", "elsewhere.example"]].concat();
    let (code, said) = nodes.said(&named, Some("client"));
    assert_eq!(code, Some(0), "{said}");
    for (shows, part) in [
        (None, "it wants a certificate of the client"),
        (
            Some("other-client"),
            "it does not accept the client's certificate in other-client.pem",
        ),
        (
            Some("expired-client"),
            "it does not accept the client's certificate in expired-client.pem",
        ),
    ] {
        let (code, said) = nodes.said(&named, shows);
        assert_eq!(code, Some(69), "{said}");
        assert!(said.contains(part), "{part}: {said}");
    }
    let (code, said) = nodes.said(&["acquire", "a", "--cert", "client.pem"], None);
    assert_eq!(code, Some(64), "{said}");
    let plain = format!("redis://{elsewhere}");
    let ended = nodes
        .shell
        .quorlock(&["acquire", "a", "--no-wait", "--nodes", &plain]);
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(ended.stderr.contains("rediss://"), "{}", ended.stderr);
    let words = [
        "acquire",
        "a",
        "--no-wait",
        "--nodes",
        &plain,
        "--cacert",
        "authority.pem",
    ];
    let ended = nodes.shell.quorlock(&words);
    for said in ["is spoken to without TLS", "--tls", "rediss://, etcds://"] {
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}

#[test]
fn locks_are_seen_and_ended_over_tls() {
    let nodes = Nodes::start(&["node", "node", "node"]);
    let list = nodes.list();
    let said = |words: &[&str], shows| nodes.said(&[words, &["--nodes", &list]].concat(), shows);
    let (code, text) = said(&["acquire", "a"], Some("client"));
    assert_eq!(code, Some(0), "{text}");
    for words in [
        &["locks"][..],
        &["who", "a"],
        &["status"],
        &["force-release", "a", "--yes"],
    ] {
        let (code, text) = said(words, Some("client"));
        assert_eq!(code, Some(0), "{words:?}: {text}");
    }
    let (code, text) = said(&["locks"], None);
    assert_eq!(code, Some(69), "{text}");
    let wants = "it wants a certificate of the client";
    assert!(text.contains(wants), "{text}");
}

#[test]
fn the_file_of_nodes_says_what_flags_say() {
    let nodes = Nodes::start(&["node"]);
    let text = format!(
        "node localhost:{}\ntls yes\ncacert authority.pem\ncert client.pem\nkey client.key\n",
        nodes.ports[0]
    );
    fs::write(nodes.shell.file("nodes.conf"), text).unwrap();
    let words = ["run", "a", "--nodes-file", "nodes.conf", "--", "true"];
    nodes.shell.succeed(&words);
    let list = format!("rediss://localhost:{}", nodes.ports[0]);
    let mut command = nodes.shell.command(&["run", "a", "--", "true"]);
    for (name, value) in [
        ("QUORLOCK_NODES", list.as_str()),
        ("QUORLOCK_CACERT", "authority.pem"),
        ("QUORLOCK_CERT", "client.pem"),
        ("QUORLOCK_KEY", "client.key"),
    ] {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn certificates_are_replaced_while_locks_are_held_and_taken() {
    let mut nodes = Nodes::start(&["node", "node", "node"]);
    let file = nodes
        .ports
        .iter()
        .map(|port| format!("node localhost:{port}\n"));
    let file = file.collect::<String>()
        + "tls yes\ncacert authority.pem\ncert client.pem\nkey client.key\n";
    fs::write(nodes.shell.file("nodes.conf"), file).unwrap();
    let callers = Callers::start(&nodes.shell);
    for round in 0..12_usize {
        let (node, name) = (round % 3, ["second-node", "node"][round / 3 % 2]);
        for end in ["pem", "key"] {
            let own = nodes.shell.file(&format!("node{node}/node.{end}"));
            fs::copy(nodes.certificates.path(&format!("{name}.{end}")), own).unwrap();
        }
        nodes.processes[node].signal(Signal::HUP);
        callers.go_round(&nodes.shell);
    }
    for node in &mut nodes.processes {
        node.await_line("new connections use the files of TLS as they are now");
    }
    // What cannot be used changes nothing.
    fs::write(nodes.shell.file("node0/node.pem"), "nothing").unwrap();
    nodes.processes[0].signal(Signal::HUP);
    nodes.processes[0].await_line("there is no certificate in it");
    callers.go_round(&nodes.shell);
    callers.end(&nodes.shell);
}
