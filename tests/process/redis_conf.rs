//! A redis.conf as Debian's package installs it, and a configuration that cannot be written.

use std::fs::{self, File};
use std::process::Command;

use quorlock_testkit::{Process, Wire, binary};

use crate::doctor::with_mount;
use crate::shell::Shell;

#[test]
#[ignore = "needs redis-server's file, as Debian installs it"]
fn the_redis_conf_of_debian_starts_a_node_and_hides_nothing_that_matters() {
    const DEBIAN: &str = "/etc/redis/redis.conf";
    File::open(DEBIAN).expect("the package redis-server is installed, and its file may be read");
    let shell = Shell::in_memory();
    shell.succeed(&["node", "init", "data"]);
    let mut command = shell.command(&["server", DEBIAN, "--dir", "data", "--port", "0"]);
    command.args(["--logfile", "", "--pidfile", "node.pid"]);
    let mut node = Process::start(&mut command, &shell.file("out")).unwrap();
    node.await_line("Ready to accept connections tcp");
    let mut client = Wire::connect(node.address());
    assert_eq!(client.ask("SET a t NX PX 60000"), "+OK");
    assert_eq!(client.ask("CONFIG GET daemonize"), "[daemonize, no]");
    let said = node.output();
    let lines = |part: &str| said.lines().filter(|line| line.contains(part)).count();
    let inert = said
        .lines()
        .find(|line| line.contains("directives are accepted without effect"))
        .expect("what has no effect is said");
    for name in [
        "rdbcompression",
        "repl-diskless-sync",
        "hz",
        "jemalloc-bg-thread",
    ] {
        assert!(inert.contains(&format!(" {name}")), "{name}: {inert}");
        assert_eq!(lines(name), 1, "{name}: {said}");
    }
    assert!(inert.len() < 2500, "{inert}");
    assert_eq!(lines("daemonize: "), 1, "{said}");
    assert_eq!(lines("a node stays in the foreground"), 1, "{said}");
    assert_eq!(lines("serves no locks for up to 61.2 s"), 1, "{said}");
    // Among so few lines each is read.
    assert!(lines(" # ") <= 5, "{said}");
    node.stop();
}

/// As under `ProtectSystem=` of systemd, or in an image.
#[test]
#[ignore = "needs root: a directory is mounted read-only"]
fn a_configuration_in_a_directory_that_is_read_only_stays_as_it_is() {
    let shell = Shell::in_memory();
    shell.succeed(&["node", "init", "data"]);
    let (folder, file) = (shell.file("etc"), shell.file("etc/node.conf"));
    fs::create_dir(&folder).unwrap();
    let text = "# ours\nport 0\ndir data\ntimeout 5\n";
    fs::write(&file, text).unwrap();
    let scene = with_mount("--bind etc etc && mount -o remount,bind,ro etc");
    let mut command = Command::new(&scene[0]);
    command.args(&scene[1..]).arg(binary::quorlock());
    command.args(["server", "etc/node.conf"]);
    command.current_dir(shell.path());
    let mut node = Process::start(&mut command, &shell.file("out")).unwrap();
    node.await_line("Ready to accept connections tcp");
    let mut client = Wire::connect(node.address());
    assert_eq!(client.ask("CONFIG SET timeout 6"), "+OK");
    assert_eq!(
        client.ask("CONFIG REWRITE"),
        "-ERR Rewriting config file: Read-only file system"
    );
    assert_eq!(client.ask("CONFIG GET timeout"), "[timeout, 6]");
    assert_eq!(client.ask("SET a t NX PX 60000"), "+OK");
    let said = node.output();
    assert!(said.contains("node.conf is what it was"), "{said}");
    node.stop();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}
