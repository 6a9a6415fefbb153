//! A password is replaced on all nodes while callers take locks.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;

use quorlock_testkit::{Connection, Process};

use crate::callers::Callers;
use crate::shell::Shell;

fn node(shell: &Shell, number: usize, password: &str) -> (Process, SocketAddr) {
    let folder = format!("node{number}");
    fs::create_dir(shell.file(&folder)).unwrap();
    let mut command = shell.command(&["server", "--port", "0", "--dir", &folder]);
    command.args(["--first-start", "serve", "--requirepass", password]);
    let output = shell.file(&format!("{folder}.out"));
    let mut process = Process::start(&mut command, &output).unwrap();
    let address = process.address();
    process.await_line("Ready to accept connections");
    (process, address)
}

/// The file that callers read is replaced as a whole, as a rotation does.
fn write_password(shell: &Shell, password: &str) {
    let draft = shell.file("draft");
    fs::write(&draft, format!("{password}\n")).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(draft, shell.file("password")).unwrap();
}

fn set_user(address: SocketAddr, password: &str, rule: &str) {
    let mut connection = Connection::open(address).unwrap();
    for words in [
        ["AUTH", password].as_slice(),
        &["ACL", "SETUSER", "default", rule],
    ] {
        let reply = connection.ask(words).unwrap().to_string();
        assert_eq!(reply, "+OK", "{words:?}");
    }
}

#[test]
fn a_password_is_replaced_while_callers_take_locks() {
    let shell = Shell::in_memory();
    let nodes: Vec<_> = (0..5).map(|number| node(&shell, number, "first")).collect();
    let lines = nodes.iter().map(|(_, address)| format!("node {address}\n"));
    let file = lines.collect::<String>() + "password-file password\n";
    fs::write(shell.file("nodes.conf"), file).unwrap();
    write_password(&shell, "first");
    let callers = Callers::start(&shell);
    for [old, new] in [["first", "second"], ["second", "third"]] {
        for (_, address) in &nodes {
            set_user(*address, old, &format!(">{new}"));
            callers.go_round(&shell);
        }
        write_password(&shell, new);
        // Who has read the old one has ended then.
        callers.go_round(&shell);
        for (_, address) in &nodes {
            set_user(*address, new, &format!("<{old}"));
            callers.go_round(&shell);
        }
    }
    callers.end(&shell);
    // The first one is nobody's any more.
    let mut connection = Connection::open(nodes[0].1).unwrap();
    let reply = connection.ask(&["AUTH", "first"]).unwrap().to_string();
    assert!(reply.contains("WRONGPASS"), "{reply}");
}
