//! `quorlock agent` in front of a small cluster.

use std::io::{BufRead as _, BufReader, ErrorKind};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::time::Duration;

use quorlock_testkit::{Process, Wire, eventually};
use rustix::process::Signal;

use crate::run::cluster;
use crate::shell::Shell;

/// An agent, and a connection to it.
pub(crate) fn agent(shell: &Shell, words: &[&str], output: &str) -> (Process, Wire) {
    let (agent, address) = agent_at(shell, words, output);
    (agent, Wire::connect(address))
}

/// An agent, and its address.
pub(crate) fn agent_at(shell: &Shell, words: &[&str], output: &str) -> (Process, String) {
    let words = [&["agent", "--port", "0"][..], words].concat();
    let mut command = shell.command(&words);
    let mut agent = Process::start(&mut command, &shell.file(output)).unwrap();
    let line = agent.await_line("find the agent under redis://");
    let address = line.rsplit("redis://").next().unwrap().trim().to_owned();
    (agent, address)
}

#[test]
fn a_lock_of_one_agent_is_a_lock_for_the_others_and_outlives_them() {
    let shell = cluster();
    let (mut first, mut wire) = agent(&shell, &[], "first.log");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    assert_eq!(wire.ask("GET job"), "me");
    first.kill();
    let (mut second, mut wire) = agent(&shell, &[], "second.log");
    assert_eq!(wire.ask("SET job you NX PX 60000"), "nil");
    // Whoever asks the nodes themselves is kept out as well.
    let held = shell.quorlock(&["run", "job", "-n", "--", "true"]);
    assert_eq!(held.code, Some(75), "{}", held.stderr);
    let release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    let release = |owner| ["EVAL", release, "1", "job", owner];
    assert_eq!(wire.ask_words(&release("you")), ":0");
    assert_eq!(wire.ask_words(&release("me")), ":1");
    let free = shell.quorlock(&["run", "job", "-n", "--", "true"]);
    assert_eq!(free.code, Some(0), "{}", free.stderr);
    second.signal(Signal::TERM);
    assert_eq!(second.await_end().code(), Some(0), "{}", second.output());
}

#[test]
fn whoever_looks_sees_which_caller_of_which_agent_holds_a_lock() {
    let shell = cluster();
    let (_agent, mut wire) = agent(&shell, &[], "agent.log");
    assert_eq!(wire.ask("CLIENT SETNAME billing"), "+OK");
    assert_eq!(wire.ask("CLIENT SETINFO LIB-NAME redis-py"), "+OK");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    let shown = shell.succeed(&["who", "job"]);
    let caller = shown.split("holder:").nth(1).unwrap_or_default();
    assert!(caller.trim().starts_with("billing 127.0.0.1:"), "{shown}");
    assert!(caller.contains(" (redis-py), agent on "), "{shown}");
    let granted = wire.ask("LOCK.ACQUIRE own me 60000 OWNER rack-4");
    assert!(granted.contains("me~attempt-"), "{granted}");
    let shown = shell.succeed(&["who", "own"]);
    assert!(shown.contains("rack-4 (token"), "its own words: {shown}");
}

#[test]
fn a_majority_that_is_away_is_an_error_and_no_answer() {
    let shell = cluster();
    let (_agent, mut wire) = agent(&shell, &[], "agent.log");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    let down = shell.quorlock(&["cluster", "down"]);
    assert_eq!(down.code, Some(0), "{}", down.stderr);
    for request in [
        "GET job",
        "SET job you NX PX 1000",
        "SET other you NX PX 1000",
        "DEL job",
    ] {
        let answer = wire.ask(request);
        assert!(answer.starts_with("-NOQUORUM "), "{request}: {answer}");
        assert!(answer.contains("127.0.0.1:"), "{answer}");
    }
}

#[test]
fn a_message_through_one_agent_reaches_who_listens_at_another_one_once() {
    let shell = cluster();
    let (_first, mut listener) = agent(&shell, &[], "first.log");
    let (_second, mut wire) = agent(&shell, &[], "second.log");
    assert_eq!(listener.ask("SUBSCRIBE news"), "[subscribe, news, :1]");
    assert_eq!(listener.ask("PSUBSCRIBE n*"), "[psubscribe, n*, :2]");
    let refused = listener.ask("GET a");
    assert!(refused.contains("are allowed in this context"), "{refused}");
    for text in ["one", "two"] {
        assert_eq!(wire.ask_words(&["PUBLISH", "news", text]), ":2");
        assert_eq!(listener.reply(), format!("[message, news, {text}]"));
        assert_eq!(listener.reply(), format!("[pmessage, n*, news, {text}]"));
    }
    assert_eq!(listener.ask("UNSUBSCRIBE news"), "[unsubscribe, news, :1]");
    // The nodes hear of it later than the caller, and count who has left until then.
    eventually("a channel that was left is not counted", || {
        let heard = wire.ask_words(&["PUBLISH", "news", "three"]);
        assert_eq!(listener.reply(), "[pmessage, n*, news, three]");
        heard == ":1"
    });
    assert_eq!(listener.ask("RESET"), "+RESET");
    assert_eq!(listener.ask("SET a me NX PX 60000"), "+OK");
    let listed = listener.ask("LOCK.LIST a*");
    assert!(
        listed.contains("name, a, type, string, token, me~attempt-"),
        "{listed}"
    );
    let down = shell.quorlock(&["cluster", "down"]);
    assert_eq!(down.code, Some(0), "{}", down.stderr);
    let refused = wire.ask("SUBSCRIBE news");
    assert!(refused.starts_with("-NOQUORUM "), "{refused}");
}

#[test]
fn lock_commands_give_fences_and_a_place_in_line_and_who_hangs_up_gets_no_lock() {
    let shell = cluster();
    let (_first, mut wire) = agent(&shell, &[], "first.log");
    let (_second, address) = agent_at(&shell, &[], "second.log");
    let granted = wire.ask("LOCK.ACQUIRE job me 30000 FENCE OWNER rack-4");
    assert!(granted.starts_with("[:1, :1, me~attempt-"), "{granted}");
    // The nodes keep it for longer than its caller counts, and no restart delay would cover that.
    let longer = wire.ask("LOCK.ACQUIRE other me 60000 FENCE");
    assert!(longer.contains("longer than restart-delay-max"), "{longer}");
    let mut next = Wire::connect(&address);
    let info = next.ask("LOCK.INFO job");
    assert!(info.ends_with("owner, rack-4, fence, :1]"), "{info}");
    let mut gone = Wire::connect(&address);
    let wait = |owner| {
        [
            "LOCK.ACQUIRE",
            "job",
            owner,
            "30000",
            "FENCE",
            "WAIT",
            "60000",
        ]
    };
    gone.send_words(&wait("gone"));
    assert!(!gone.answers_within(Duration::from_millis(200)));
    drop(gone);
    next.send_words(&wait("you"));
    assert!(!next.answers_within(Duration::from_millis(200)));
    assert_eq!(wire.ask("LOCK.RELEASE job me"), ":1");
    let granted = next.reply();
    assert!(granted.starts_with("[:1, :2, you~attempt-"), "{granted}");
    assert_eq!(next.ask("LOCK.FORCE-RELEASE job you"), ":1");
    // The one that has gone was the first in line.
    assert_eq!(wire.ask("EXISTS job"), ":0");
}

#[test]
fn locks_end_with_their_connection_where_that_is_asked_for() {
    let shell = cluster();
    let (_agent, address) = agent_at(&shell, &["--release-on-disconnect"], "agent.log");
    let (_other, mut kept) = agent(&shell, &[], "other.log");
    let mut wire = Wire::connect(&address);
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    let fenced = wire.ask("LOCK.ACQUIRE fenced me 30000 FENCE");
    assert!(fenced.starts_with("[:1, "), "{fenced}");
    assert_eq!(kept.ask("SET kept me NX PX 60000"), "+OK");
    drop((wire, kept));
    let mut wire = Wire::connect(&address);
    for name in ["job", "fenced"] {
        eventually(name, || wire.ask(&format!("EXISTS {name}")) == ":0");
    }
    assert_eq!(wire.ask("EXISTS kept"), ":1");
}

#[test]
fn a_session_ends_with_its_connections_and_its_locks_with_it() {
    let shell = cluster();
    let (_agent, address) = agent_at(&shell, &[], "agent.log");
    let connect = || Wire::connect(&address);
    let (mut alone, mut one, mut other) = (connect(), connect(), connect());
    assert_eq!(alone.ask("LOCK.SESSION ON"), "+OK");
    assert_eq!(alone.ask("SET alone me NX PX 60000"), "+OK");
    // It stays in its session.
    assert_eq!(alone.ask("RESET"), "+RESET");
    for (wire, name) in [(&mut one, "a"), (&mut other, "b")] {
        assert_eq!(wire.ask("LOCK.SESSION ON jobs"), "+OK");
        assert_eq!(wire.ask(&format!("SET {name} me NX PX 60000")), "+OK");
    }
    drop((alone, one));
    let mut wire = connect();
    eventually("alone", || wire.ask("EXISTS alone") == ":0");
    assert_eq!(wire.ask("EXISTS a"), ":1");
    assert_eq!(wire.ask("SET others me NX PX 60000"), "+OK");
    drop(other);
    for name in ["a", "b"] {
        eventually(name, || wire.ask(&format!("EXISTS {name}")) == ":0");
    }
    assert_eq!(wire.ask("EXISTS others"), ":1");
}

#[test]
fn what_stands_behind_two_dashes_is_for_its_connections() {
    let shell = cluster();
    let (_agent, mut wire) = agent(&shell, &["--", "--requirepass", "secret"], "agent.log");
    assert!(wire.ask("GET job").starts_with("-NOAUTH "));
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    let refused = shell.quorlock(&["agent", "--", "--no-such-directive", "1"]);
    assert_eq!(refused.code, Some(64), "{}", refused.stderr);
}

/// What the port of the metrics answers.
fn http(port: u16, path: &str) -> String {
    let mut client = Wire::connect(("127.0.0.1", port));
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    String::from_utf8(client.rest()).unwrap()
}

/// Takes a lock that no pattern names, and one with a script. One that `jo?` names was taken before, and refused.
fn assert_counted_by_pattern(wire: &mut Wire, port: u16) {
    assert_eq!(wire.ask("SET other me NX PX 60000"), "+OK");
    let take = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";
    let hash = wire.ask_words(&["SCRIPT", "LOAD", take]);
    let taken = wire.ask_words(&["EVALSHA", &hash, "1", "order:7", "me", "60000"]);
    assert_eq!(taken, "+OK");
    let metrics = http(port, "/metrics");
    for (pattern, outcome, count) in [
        ("jo?", "acquired", 1),
        ("jo?", "refused", 1),
        ("jo?", "released", 0),
        ("order:*", "acquired", 1),
        ("order:*", "refused", 0),
        ("", "acquired", 1),
    ] {
        let labels = format!("pattern=\"{pattern}\",outcome=\"{outcome}\"");
        let sample = format!("quorlock_agent_locks_total{{{labels}}} {count}.0");
        assert!(metrics.contains(&sample), "{sample} in {metrics}");
    }
    for pattern in ["jo?", "order:*"] {
        let sample =
            format!("quorlock_agent_lock_acquire_seconds_count{{pattern=\"{pattern}\"}} 1");
        assert!(metrics.contains(&sample), "{sample} in {metrics}");
    }
    wire.ask("DEL order:7");
    let metrics = http(port, "/metrics");
    let sample = "quorlock_agent_lock_hold_seconds_count{pattern=\"order:*\"} 1";
    assert!(metrics.contains(sample), "{metrics}");
}

#[test]
fn info_and_the_metrics_tell_of_the_nodes_and_of_what_was_answered() {
    let shell = cluster();
    let words = ["--", "--metrics-port", "0", "--loglevel", "notice"];
    let patterns = ["--metrics-lock-patterns", "order:*", "jo?"];
    let words = [&words[..], &patterns].concat();
    let (mut agent, mut wire) = agent(&shell, &words, "agent.log");
    let line = agent.await_line("metrics at http://127.0.0.1:");
    let port = line.split("http://127.0.0.1:").nth(1).unwrap();
    let port: u16 = port.split('/').next().unwrap().parse().unwrap();
    let is_ready = || http(port, "/readyz").starts_with("HTTP/1.1 200 OK");
    eventually("a majority can vote", is_ready);
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    assert_eq!(wire.ask("SET job you NX PX 60000"), "nil");
    for _ in 0..3 {
        assert!(wire.ask("LPUSH list value").starts_with("-NOTALOCK "));
    }
    let info = wire.ask("INFO");
    for part in [
        "# Agent",
        "agent_ready:1",
        "agent_nodes_voting:3",
        "agent_acquired:1",
        "agent_refused:1",
        "agent_not_a_lock:3",
        "agent_requests_under_way:0",
        "# Nodes",
        "node3:address=redis://127.0.0.1:",
        ",state=votes,",
    ] {
        assert!(info.contains(part), "{part} in {info}");
    }
    assert!(!wire.ask("INFO server").contains("# Nodes"));
    assert_counted_by_pattern(&mut wire, port);
    let metrics = http(port, "/metrics");
    let sample = "quorlock_agent_replies_total{outcome=\"not_a_lock\"} 3.0";
    assert!(metrics.contains(sample), "{metrics}");
    assert!(
        metrics.contains("quorlock_agent_nodes_voting 3.0"),
        "{metrics}"
    );
    assert!(!metrics.contains("redis_db_keys"), "it has none");
    let refusals = |output: &str| output.matches("refused LPUSH with -NOTALOCK").count();
    let output = agent.output();
    assert_eq!(refusals(&output), 1, "{output}");
    assert!(!output.contains("value"), "{output}");

    shell.succeed(&["cluster", "down"]);
    eventually("every node is away", || {
        let answer = http(port, "/readyz");
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("0 of 3 nodes can vote, and 2 must")
    });
    assert!(http(port, "/healthz").starts_with("HTTP/1.1 200 OK"));
    assert!(wire.ask("INFO nodes").contains(",state=away,"));
    agent.await_line("no lock can be taken: ");
}

#[test]
fn systemd_is_told_that_an_agent_is_ready_only_when_a_majority_can_vote() {
    let shell = cluster();
    shell.succeed(&["cluster", "pause", "1"]);
    shell.succeed(&["cluster", "pause", "2"]);
    let path = shell.file("notify");
    let notify = UnixDatagram::bind(&path).unwrap();
    notify
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut command = shell.command(&["agent", "--port", "0"]);
    command.env("NOTIFY_SOCKET", &path);
    let _agent = Process::start(&mut command, &shell.file("agent.log")).unwrap();
    let next = || {
        let mut buffer = [0; 256];
        // A signal, such as that a process of another test has ended, interrupts it.
        let length = loop {
            match notify.recv(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received.unwrap(),
            }
        };
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!(
        next(),
        "STATUS=waiting for nodes: 1 of 3 can vote, and 2 must\n"
    );
    shell.succeed(&["cluster", "resume", "1"]);
    let mut last = next();
    while last.starts_with("STATUS=waiting ") {
        last = next();
    }
    assert_eq!(last, "STATUS=2 of 3 nodes could vote at the start\n");
    assert_eq!(next(), "READY=1\n");
}

#[test]
fn an_agent_serves_the_sockets_that_systemd_has_opened() {
    let shell = cluster();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let path = shell.file("agent.sock");
    let socket = UnixListener::bind(&path).unwrap();
    let program = shell.command(&[]).get_program().to_owned();
    // As systemd hands them over: from descriptor 3 on, to this process number.
    let hand_over = "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_PID=$$ LISTEN_FDS=2 exec \"$@\"";
    let begin = |words: &[&str]| {
        let (tcp, unix) = (listener.try_clone().unwrap(), socket.try_clone().unwrap());
        let mut command = Command::new("sh");
        command
            .args(["-c", hand_over, "sh"])
            .arg(&program)
            .arg("agent")
            .args(words);
        command
            .current_dir(shell.path())
            .env_remove("QUORLOCK_NODES");
        command
            .stdin(Stdio::from(OwnedFd::from(tcp)))
            .stdout(Stdio::from(OwnedFd::from(unix)))
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    // Whoever connects before the agent listens is served then.
    let mut tcp = Wire::connect(address);
    let mut unix = Wire::connect_unix(&path);
    let mut agent = begin(&[]);
    let mut line = String::new();
    BufReader::new(agent.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    if !line.contains(&address.to_string()) {
        agent.kill().unwrap();
        panic!("it listens elsewhere: {line}");
    }
    assert_eq!(tcp.ask("SET job me NX PX 60000"), "+OK");
    assert_eq!(unix.ask("GET job"), "me");
    assert_eq!(unix.ask("SHUTDOWN NOSAVE"), "<closed>");
    assert!(agent.wait().unwrap().success());
    assert!(path.exists(), "its name is systemd's");
    let refused = begin(&["--port", "0"]).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(64), "{text}");
    assert!(text.contains("systemd has opened the sockets"), "{text}");
}

#[test]
fn two_agents_on_one_port_or_socket_are_refused_in_words() {
    let shell = cluster();
    let path = shell.file("agent.sock");
    let path = path.to_str().unwrap();
    let (_first, wire) = agent(&shell, &[], "first.log");
    drop(wire);
    let output = std::fs::read_to_string(shell.file("first.log")).unwrap();
    let port = output.trim().rsplit(':').next().unwrap();
    let second = shell.quorlock(&["agent", "--port", port]);
    assert_eq!(second.code, Some(1), "{}", second.stdout);
    assert!(
        second.stderr.contains("another with --port"),
        "{}",
        second.stderr
    );
    let words = ["agent", "--port", "0", "--unixsocket", path];
    let mut command = shell.command(&words);
    let mut socket = Process::start(&mut command, &shell.file("socket.log")).unwrap();
    socket.await_line("find the agent under unix://");
    let second = shell.quorlock(&words);
    assert_eq!(second.code, Some(1), "{}", second.stdout);
    let told = &second.stderr;
    assert!(
        told.contains("another process answers there") && told.contains("--unixsocket"),
        "{told}"
    );
    assert_eq!(Wire::connect_unix(path.as_ref()).ask("PING"), "+PONG");
}

#[test]
fn a_list_of_nodes_that_has_changed_is_told_on_sighup_and_not_taken_over() {
    let shell = cluster();
    let addresses = shell.file("nodes.conf");
    let list = shell.succeed(&["cluster", "status", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let urls = list["nodes"].as_array().unwrap().iter();
    let lines: Vec<String> = urls
        .map(|node| format!("node {}\n", node["url"].as_str().unwrap()))
        .collect();
    std::fs::write(&addresses, lines.concat()).unwrap();
    let words = ["--nodes-file", addresses.to_str().unwrap()];
    let (mut agent, mut wire) = agent(&shell, &words, "agent.log");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    agent.signal(Signal::HUP);
    agent.await_line("Received SIGHUP: the list of nodes is the same as before");
    std::fs::write(&addresses, lines[..2].concat()).unwrap();
    agent.signal(Signal::HUP);
    agent.await_line("A running agent keeps the list that it was started with: restart it");
    std::fs::write(&addresses, "node\n").unwrap();
    agent.signal(Signal::HUP);
    agent.await_line("nodes.conf, line 1: ");
    assert_eq!(wire.ask("GET job"), "me");
}

#[test]
fn whoever_has_its_key_sees_the_page_of_an_agent_and_there_is_none_unasked() {
    let shell = cluster();
    let (mut agent, mut wire) = agent(&shell, &["--page-port", "0"], "agent.log");
    assert_eq!(wire.ask("SET job me NX PX 60000"), "+OK");
    let line = agent.await_line("in a browser: http://127.0.0.1:");
    let address = line.rsplit("http://127.0.0.1:").next().unwrap();
    let (port, query) = address.trim().split_once("/?").unwrap();
    let get = |query: &str| {
        let mut client = Wire::connect(("127.0.0.1", port.parse::<u16>().unwrap()));
        let path = format!("/api/v1/cluster{query}");
        client.send(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes());
        String::from_utf8(client.rest()).unwrap()
    };
    let shown = get(&format!("?{query}"));
    assert!(shown.starts_with("HTTP/1.1 200 OK"), "{shown}");
    assert!(shown.contains("\"name\":\"job\""), "{shown}");
    let refused = get("");
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let taken = ["agent", "--port", "0", "--page-port", port];
    let taken = shell.quorlock(&taken);
    assert_eq!(taken.code, Some(1), "{}", taken.stderr);
    assert!(
        taken.stderr.contains("cannot listen on"),
        "{}",
        taken.stderr
    );
    let names = format!("--port and --page-port are both {port}");
    for (bind, code) in [
        (&[][..], 64),
        (&["--", "--bind", "127.0.0.1"][..], 64),
        (&["--", "--bind", "*"][..], 64),
        // Both could listen there: the page finds its own port taken.
        (&["--", "--bind", "127.0.0.2"][..], 1),
    ] {
        let words = ["agent", "--port", port, "--page-port", port];
        let both = shell.quorlock(&[&words[..], bind].concat());
        assert_eq!(both.code, Some(code), "{bind:?}: {}", both.stderr);
        assert_eq!(both.stderr.contains(&names), code == 64, "{}", both.stderr);
    }

    let (without, _wire) = self::agent(&shell, &[], "without.log");
    assert!(!without.output().contains("browser"));
}
