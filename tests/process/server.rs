//! `quorlock server` and `quorlock node init`: start, signals, log and exit codes.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use quorlock_testkit::{Process, Wire, binary, eventually};
use rustix::process::Signal;

use crate::log_bad_input::run_unprivileged;
use crate::shell::Shell;

/// Starts a node in `data`, which nobody has used before.
fn start(shell: &Shell, words: &[&str]) -> Process {
    fs::create_dir_all(shell.file("data")).unwrap();
    let mut command = shell.command(&["server", "--dir", "data", "--bind", "127.0.0.1"]);
    command.args(["--first-start", "serve"]).args(words);
    Process::start(&mut command, &shell.file("out")).unwrap()
}

/// The same, once it has chosen a port and is ready.
fn serving(shell: &Shell, words: &[&str]) -> Process {
    let mut node = start(shell, &[&["--port", "0"], words].concat());
    node.await_line(READY);
    node
}

fn ask(node: &mut Process, command: &str) -> String {
    Wire::connect(node.address()).ask(command)
}

const READY: &str = "* Ready to accept connections tcp";

#[test]
fn a_node_stops_cleanly_on_sigterm_and_keeps_its_locks() {
    let shell = Shell::new();
    for (answer, signal) in [("+OK", Signal::TERM), ("nil", Signal::INT)] {
        let mut node = serving(&shell, &["--pidfile", "node.pid"]);
        let reply = ask(&mut node, "SET a t NX PX 60000");
        assert_eq!(reply, answer, "{}", node.output());
        let pid_file = shell.file("data/node.pid");
        assert_eq!(
            fs::read_to_string(&pid_file).unwrap(),
            format!("{}\n", node.id())
        );
        node.signal(Signal::HUP);
        assert_eq!(ask(&mut node, "PING"), "+PONG", "SIGHUP does not end it");
        node.signal(signal);
        assert_eq!(node.await_end().code(), Some(0), "{}", node.output());
        assert!(node.output().contains("bye bye"));
        assert!(!pid_file.exists());
        let line = node.output().lines().next().unwrap().to_owned();
        assert!(
            line.starts_with(&format!("{}:M ", node.id())),
            "Redis's look: {line}"
        );
    }
}

/// As when a terminal's Ctrl-C reaches a supervisor and its nodes at once. Nobody has insisted.
#[test]
fn a_node_that_is_told_twice_at_once_stops_cleanly() {
    for signals in [[Signal::TERM, Signal::INT], [Signal::INT, Signal::TERM]] {
        for _ in 0..5 {
            let shell = Shell::new();
            let mut node = serving(&shell, &[]);
            signals.iter().for_each(|signal| node.signal(*signal));
            assert_eq!(node.await_end().code(), Some(0), "{}", node.output());
            assert!(!node.output().contains("You insist"));
        }
    }
}

#[test]
fn a_socket_that_every_user_may_replace_is_warned_of() {
    for (mode, is_warned_of) in [(0o777, true), (0o1777, false), (0o755, false)] {
        let shell = Shell::new();
        fs::create_dir(shell.file("sockets")).unwrap();
        fs::set_permissions(shell.file("sockets"), fs::Permissions::from_mode(mode)).unwrap();
        let path = shell.file("sockets/node.sock");
        let words = ["--port", "0", "--unixsocket", path.to_str().unwrap()];
        let mut node = start(&shell, &words);
        eventually("the node is ready", || {
            node.output().contains("Ready to accept connections unix")
        });
        node.signal(Signal::TERM);
        node.await_end();
        let told = node.output();
        let warning = "every user of this machine may replace the unix socket";
        assert_eq!(told.contains(warning), is_warned_of, "{mode:o}: {told}");
    }
}

#[test]
fn a_password_comes_from_a_file_and_wrong_ones_are_told_with_the_address() {
    let shell = Shell::new();
    fs::write(shell.file("password"), "visible\n").unwrap();
    fs::set_permissions(shell.file("password"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut node = serving(&shell, &["--requirepass-file", "password"]);
    assert!(ask(&mut node, "PING").starts_with("-NOAUTH"));
    assert_eq!(ask(&mut node, "AUTH visible"), "+OK");
    for _ in 0..30 {
        let mut client = Wire::connect(node.address());
        client.send(&b"AUTH gue\xc3\xa9ss\r\n".repeat(10));
        let answer = String::from_utf8(client.rest()).unwrap();
        assert_eq!(answer.matches("-WRONGPASS").count(), 10, "{answer}");
    }
    node.signal(Signal::TERM);
    node.await_end();
    let told = node.output();
    let lines: Vec<_> = told
        .lines()
        .filter(|line| line.contains("AUTH failed"))
        .collect();
    assert!((1..30).contains(&lines.len()), "{told}");
    assert!(lines[0].contains(" addr=127.0.0.1:"), "{told}");
    assert!(lines[0].contains("after 10 its connection ends"), "{told}");
    for secret in ["visible", "gu", "ps)"] {
        assert!(!told.contains(secret), "{secret}: {told}");
    }
    // Among the arguments it is not safe, and an empty file is no password.
    let mut node = serving(&shell, &["--requirepass", "visible"]);
    node.signal(Signal::TERM);
    node.await_end();
    let told = node.output();
    assert!(
        told.contains("requirepass") && told.contains("arguments of a process (ps)"),
        "{told}"
    );
    assert!(!told.contains("visible"), "{told}");
    fs::write(shell.file("password"), "").unwrap();
    let mut node = start(&shell, &["--port", "0", "--requirepass-file", "password"]);
    assert_eq!(node.await_end().code(), Some(64));
    assert!(
        node.output().contains("one line of UTF-8"),
        "{}",
        node.output()
    );
}

#[test]
fn shutdown_ends_the_process() {
    let shell = Shell::new();
    let mut node = serving(&shell, &[]);
    let mut client = Wire::connect(node.address());
    client.send(b"SHUTDOWN\r\n");
    assert_eq!(node.await_end().code(), Some(0), "{}", node.output());
}

#[test]
fn a_start_that_fails_says_why_and_ends_with_1_or_with_64_where_its_words_are_wrong() {
    let shell = Shell::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let all: [(&[&str], _); 4] = [
        (&["--port", &port], 1),
        (&["--port", "many"], 64),
        (&["--prot", "7"], 64),
        (&["--dir", "/proc/nowhere", "--port", "0"], 1),
    ];
    for (words, code) in all {
        let mut node = start(&shell, words);
        assert_eq!(
            node.await_end().code(),
            Some(code),
            "{words:?}: {}",
            node.output()
        );
        assert!(!node.output().is_empty(), "{words:?}");
    }
}

#[test]
fn a_time_that_cannot_be_is_told_with_its_directive_and_what_to_write() {
    let shell = Shell::new();
    // A node whose time passes ends as well.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (unit, seconds) = ("such as 500ms or 1.5s", "write whole seconds, such as 60");
    for (directive, value, remedy) in [
        ("authentication-timeout", "soon", unit),
        ("request-timeout", "5d", unit),
        ("send-timeout", "-1s", unit),
        ("restart-delay-max", "1.5", unit),
        (
            "restart-delay-max",
            "25h",
            "between 1 and 86400000 milliseconds",
        ),
        (
            "script-time-limit",
            "2h",
            "between 1 and 60000 milliseconds",
        ),
        (
            "restart-delay",
            "never",
            "auto, always, off, or a time in milliseconds",
        ),
        ("shutdown-timeout", "5s", seconds),
        ("timeout", "soon", seconds),
        ("tcp-keepalive", "-1", seconds),
    ] {
        let line = format!("{directive} {value}");
        fs::write(shell.file("node.conf"), format!("port {port}\n{line}\n")).unwrap();
        let option = format!("--{directive}");
        let by_file = ["server", "node.conf"];
        let by_option = ["server", "--port", &port, &option, value];
        let places = [
            (&by_file[..], "the configuration file, at line 2"),
            (&by_option[..], "the command line"),
        ];
        for (words, place) in places {
            let ended = shell.quorlock(words);
            assert_eq!(ended.code, Some(64), "{line}: {}", ended.stderr);
            for part in [place, directive, value, remedy] {
                assert!(
                    ended.stderr.contains(part),
                    "{line}, {part}: {}",
                    ended.stderr
                );
            }
        }
    }
}

#[test]
fn a_configuration_that_cannot_be_rewritten_is_said_and_stays_in_force() {
    let shell = Shell::new();
    let [data, folder] = ["data", "etc"].map(|name| shell.file(name));
    fs::create_dir(&data).unwrap();
    fs::create_dir(&folder).unwrap();
    let file = folder.join("node.conf");
    let dir = data.display();
    let text = format!("port 0\ndir {dir}\nfirst-start serve\ntimeout 5\n");
    fs::write(&file, &text).unwrap();
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(&file, 0o444);
    set_mode(&folder, 0o555);
    let words = ["server", file.to_str().unwrap()];
    let mut node = run_unprivileged(&shell, 0o700, &words);
    node.await_line(READY);
    assert_eq!(ask(&mut node, "CONFIG SET timeout 6"), "+OK");
    assert_eq!(
        ask(&mut node, "CONFIG REWRITE"),
        "-ERR Rewriting config file: Permission denied"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let files = fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, 1, "half a file is left");
    assert_eq!(ask(&mut node, "CONFIG GET timeout"), "[timeout, 6]");
    assert_eq!(ask(&mut node, "SET a token NX PX 60000"), "+OK");
    // As in Redis, a file that may not be written is replaced where its folder may be.
    set_mode(&folder, 0o777);
    assert_eq!(ask(&mut node, "CONFIG REWRITE"), "+OK");
    let rewritten = fs::read_to_string(&file).unwrap();
    assert!(rewritten.contains("\ntimeout 6\n"), "{rewritten}");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o444);
}

/// Nodes have no bus between them, and none takes another one for its replica.
#[test]
fn a_node_listens_on_its_port_alone() {
    let shell = Shell::new();
    let mut node = serving(&shell, &[]);
    let port = node.address().port();
    assert_eq!(ports_of(node.id()), [port]);
}

/// The ports on which a process listens.
fn ports_of(process: u32) -> Vec<u16> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let targets = files.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let targets: Vec<String> = targets.map(|it| it.display().to_string()).collect();
    let mut ports = Vec::new();
    for family in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/{process}/net/{family}"));
        for line in table.unwrap_or_default().lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (local, state, inode) = (words[1], words[3], words[9]);
            if state == "0A" && targets.contains(&format!("socket:[{inode}]")) {
                let (_, port) = local.rsplit_once(':').unwrap();
                ports.push(u16::from_str_radix(port, 16).unwrap());
            }
        }
    }
    ports
}

#[test]
fn two_nodes_do_not_share_a_directory() {
    let shell = Shell::new();
    let _first = serving(&shell, &[]);
    let mut second = start(&shell, &["--port", "0"]);
    assert_eq!(second.await_end().code(), Some(1), "{}", second.output());
}

#[test]
fn the_name_redis_server_starts_a_node() {
    let shell = Shell::new();
    let link = shell.file("redis-server");
    symlink(binary::quorlock(), &link).unwrap();
    let version = std::process::Command::new(&link)
        .arg("--version")
        .output()
        .unwrap();
    assert!(version.status.success());
    assert!(String::from_utf8(version.stdout).unwrap().contains("v="));
}

/// A client with two of the five nodes and one with the other three both held the lock.
#[test]
fn the_five_sample_configurations_refuse_clients_that_list_other_nodes_than_all_five() {
    let shell = Shell::in_memory();
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/redlock");
    let (mut nodes, mut addresses) = (Vec::new(), Vec::new());
    for number in 1..=5 {
        shell.succeed(&["node", "init", &format!("./node-{number}")]);
        let sample = format!("{samples}/node-{number}.conf");
        let mut command = shell.command(&["server", &sample, "--port", "0"]);
        let output = shell.file(&format!("out-{number}"));
        nodes.push(Process::start(&mut command, &output).unwrap());
    }
    for node in &mut nodes {
        node.await_line(READY);
        addresses.push(format!("127.0.0.1:{}", node.address().port()));
    }
    let all = addresses.join(",");
    let acquire = |nodes: &str| shell.quorlock(&["acquire", "a", "--no-wait", "--nodes", nodes]);
    for part in [&addresses[..2], &addresses[2..], &addresses[..1]] {
        let refused = acquire(&part.join(","));
        assert_eq!(refused.code, Some(69), "{}", refused.stderr);
        let reason = "its cluster has 5 nodes, another number than are listed: does not vote; list all of them";
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
    let held = acquire(&all);
    assert_eq!(held.code, Some(0), "{}", held.stderr);
    assert_eq!(acquire(&all).code, Some(75), "it is held");
    for node in &nodes {
        let output = node.output();
        assert!(!output.contains("cluster-size"), "it has one: {output}");
    }
}

#[test]
fn a_node_without_a_size_says_what_that_costs_and_one_that_was_made_with_it_does_not() {
    const NO_SIZE: &str = "clients that list other nodes than each other can hold the same lock";
    for (name, words, mark) in [
        ("alone", &[][..], Some('*')),
        ("named", &["--cluster", "blue"], Some('#')),
        ("sized", &["--cluster", "blue", "--cluster-size", "5"], None),
        ("said to be alone", &["--cluster-size", "1"], None),
    ] {
        let shell = Shell::new();
        let init = [&["node", "init", "data"], words].concat();
        let ended = shell.quorlock(&init);
        assert_eq!(ended.code, Some(0), "{name}: {}", ended.stderr);
        let mut node = serving(&shell, &[]);
        node.signal(Signal::TERM);
        node.await_end();
        let output = node.output();
        let line = output.lines().find(|line| line.contains(NO_SIZE));
        assert_eq!(line.is_some(), mark.is_some(), "{name}: {output}");
        if let (Some(line), Some(mark)) = (line, mark) {
            assert!(line.contains(&format!(" {mark} node ")), "{name}: {line}");
        }
    }
}

#[test]
fn node_init_makes_no_node_of_a_cluster_that_no_configuration_can_name() {
    let shell = Shell::new();
    for words in [
        ["--cluster", "two words"],
        ["--cluster", "a\nid 7"],
        ["--cluster-size", "65"],
        ["--cluster-size", "many"],
    ] {
        let init = ["node", "init", "data", words[0], words[1]];
        let ended = shell.quorlock(&init);
        assert_eq!(ended.code, Some(64), "{words:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(words[0]),
            "{words:?}: {}",
            ended.stderr
        );
        assert!(!shell.file("data").exists(), "{words:?}");
    }
    let ended = shell.quorlock(&["node", "init", "--help"]);
    assert!(
        !ended.stdout.contains("no client is refused"),
        "{}",
        ended.stdout
    );
}

#[test]
fn what_a_node_makes_is_its_users_alone() {
    let shell = Shell::new();
    let mode = |name: &str| {
        let about = fs::metadata(shell.file(name)).unwrap();
        about.permissions().mode() & 0o777
    };
    shell.succeed(&["node", "init", "above/data"]);
    assert_eq!(mode("above/data"), 0o700, "names and sizes tell of locks");
    // One that exists is its administrator's.
    fs::create_dir(shell.file("data")).unwrap();
    fs::set_permissions(shell.file("data"), fs::Permissions::from_mode(0o750)).unwrap();
    shell.succeed(&["node", "init", "data"]);
    assert_eq!(mode("data"), 0o750);
    fs::write(shell.file("node.conf"), "port 0\n").unwrap();
    fs::set_permissions(shell.file("node.conf"), fs::Permissions::from_mode(0o640)).unwrap();
    let mut command = shell.command(&["server", "node.conf", "--dir", "data"]);
    command.args(["--pidfile", "node.pid", "--unixsocket", "node.sock"]);
    command.args(["--unixsocketperm", "770"]);
    let mut node = Process::start(&mut command, &shell.file("out")).unwrap();
    node.await_line("Ready to accept connections unix");
    let mut client = Wire::connect_unix(&shell.file("data/node.sock"));
    assert_eq!(client.ask("CONFIG REWRITE"), "+OK");
    assert_eq!(mode("node.conf"), 0o640, "as it was");
    assert_eq!(mode("data/node.sock"), 0o770, "as was said");
    for entry in fs::read_dir(shell.file("data")).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("node.sock") {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    }
    node.stop();
}

#[test]
fn a_node_is_initialised_once() {
    let shell = Shell::new();
    let said = shell.quorlock(&["node", "init", "data", "--json"]).json();
    assert_eq!(said["id"].as_str().unwrap().len(), 40);
    let again = shell.quorlock(&["node", "init", "data"]);
    assert_eq!(again.code, Some(1), "{}", again.stderr);
    let mut node = serving(&shell, &["--first-start", "wait"]);
    let reply = ask(&mut node, "SET a t NX PX 60000");
    assert_eq!(reply, "+OK", "it serves at once");
    node.signal(Signal::TERM);
    node.await_end();
}
