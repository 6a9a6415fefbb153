//! What systemd is told, on the socket that it would listen on.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use quorlock_testkit::{Process, Wire, observed_now};

use crate::shell::Shell;

/// systemd's end, and a directory.
struct Systemd {
    shell: Shell,
    socket: UnixDatagram,
}

impl Systemd {
    fn new() -> Self {
        let shell = Shell::in_memory();
        let socket = UnixDatagram::bind(shell.file("notify")).unwrap();
        let time = Some(Duration::from_secs(30));
        socket.set_read_timeout(time).unwrap();
        Self { shell, socket }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.shell.command(words);
        command.env("NOTIFY_SOCKET", self.shell.file("notify"));
        command
    }

    /// Starts a node in a directory that was made for it.
    fn start(&self, words: &[&str], watchdog_us: Option<&str>) -> Process {
        let mut command = self.command(&["server", "--dir", "data", "--port", "0"]);
        command.args(["--supervised", "systemd"]).args(words);
        if let Some(time) = watchdog_us {
            command.env("WATCHDOG_USEC", time);
        }
        Process::start(&mut command, &self.shell.file("out")).unwrap()
    }

    /// What is said next.
    fn next(&self) -> String {
        let mut buffer = [0; 1024];
        // A signal, such as that a process of another test has ended, interrupts it.
        let length = loop {
            match self.socket.recv(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received.unwrap(),
            }
        };
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// All that is said up to the first that has this line.
    fn until(&self, line: &str) -> Vec<String> {
        let mut said = vec![self.next()];
        while !said.last().unwrap().contains(line) {
            said.push(self.next());
        }
        said
    }
}

/// Has a node killed that has granted a lock of this many milliseconds.
fn killed(systemd: &Systemd, ttl_ms: u32) {
    systemd.shell.succeed(&["node", "init", "data"]);
    let mut node = systemd.start(&[], None);
    let set = format!("SET a t NX PX {ttl_ms}");
    assert_eq!(Wire::connect(node.address()).ask(&set), "+OK");
    systemd.until("STATUS=serving\n");
    node.kill();
}

#[test]
fn systemd_is_told_that_a_node_is_ready_serves_and_stops() {
    let systemd = Systemd::new();
    systemd.shell.succeed(&["node", "init", "data"]);
    let mut node = systemd.start(&[], None);
    let ready = systemd.next();
    assert!(ready.starts_with("READY=1\nSTATUS="), "{ready}");
    // Its sockets are open.
    let said = node.output();
    assert!(said.contains("Listening on 127.0.0.1:"), "{said}");
    assert_eq!(Wire::connect(node.address()).ask("PING"), "+PONG");
    if !ready.contains("STATUS=serving\n") {
        assert_eq!(systemd.next(), "STATUS=serving\n");
    }
    Wire::connect(node.address()).send(b"SHUTDOWN\r\n");
    assert_eq!(node.await_end().code(), Some(0));
    let last = systemd.next();
    assert!(last.starts_with("STOPPING=1\nSTATUS=stop"), "{last}");
}

#[test]
fn the_restart_delay_is_counted_down_and_a_node_may_be_ready_behind_it() {
    let systemd = Systemd::new();
    killed(&systemd, 3000);
    let mut node = systemd.start(&[], None);
    let said = systemd.until("STATUS=serving\n");
    let delay = "STATUS=restart delay: serves no locks for another ";
    assert!(
        said[0].starts_with(&format!("READY=1\n{delay}")),
        "{said:?}"
    );
    assert!(said[0].contains(" s (unclean stop"), "{said:?}");
    assert!(said.len() >= 4, "each second: {said:?}");
    assert!(
        said[1..said.len() - 1]
            .iter()
            .all(|it| it.starts_with(delay)),
        "{said:?}"
    );
    let set = "SET b t NX PX 3000";
    assert_eq!(Wire::connect(node.address()).ask(set), "+OK");
    node.kill();

    let mut node = systemd.start(&["--supervised-ready", "serving"], None);
    let said = systemd.until("READY=1\n");
    assert_eq!(said.last().unwrap(), "READY=1\nSTATUS=serving\n");
    let waiting = format!("EXTEND_TIMEOUT_USEC=30000000\n{delay}");
    let (_, before) = said.split_last().unwrap();
    assert!(!before.is_empty(), "{said:?}");
    assert!(before.iter().all(|it| it.starts_with(&waiting)), "{said:?}");
    node.stop();
    assert!(systemd.next().starts_with("STOPPING=1\n"));
}

#[test]
fn a_node_with_a_thread_that_hangs_is_not_kept_alive() {
    const ALIVE: &str = "WATCHDOG=1\n";
    let systemd = Systemd::new();
    systemd.shell.succeed(&["node", "init", "data"]);
    let limit = ["--script-time-limit", "6s"];
    let mut node = systemd.start(&limit, Some("400000"));
    systemd.until(ALIVE);
    // A script holds up its worker until its time is over. Its steps are long, or their number would end it first.
    let mut client = Wire::connect(node.address());
    let script = "local text = string.rep('a', 1000000) while true do text:upper() end";
    let script = ["EVAL", script, "0"];
    client.send_words(&script);
    let (mut longest, begun) = (Duration::ZERO, observed_now());
    let (mut last, mut said) = (begun, 0);
    while observed_now().saturating_sub(begun) < Duration::from_secs(9) {
        systemd.until(ALIVE);
        let now = observed_now();
        longest = longest.max(now.saturating_sub(last));
        last = now;
        said += 1;
    }
    // Twice in the time of systemd, for 9 s and what had not been read yet.
    assert!(said <= 50, "{said}");
    assert!(longest >= Duration::from_millis(2000), "{longest:?}");
    let reply = client.reply();
    assert!(reply.starts_with('-'), "{reply}");
    node.stop();
}
