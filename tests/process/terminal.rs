//! `quorlock` on a terminal, which `script` of util-linux provides.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use quorlock_testkit::{Wire, binary, eventually};
use rustix::process::Signal;

use crate::locks::addresses;
use crate::shell::{Shell, await_end, send};

/// A shell script on a terminal of its own.
pub(crate) struct Session {
    child: Child,
    output: std::path::PathBuf,
}

impl Session {
    pub(crate) fn start(shell: &Shell, script: &str) -> Self {
        let output = shell.file("terminal.out");
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-f", "-c", script, "/dev/null"]);
        command
            .current_dir(shell.path())
            .env("SHELL", "/bin/sh")
            .env("Q", binary::quorlock());
        command.env_remove("QUORLOCK_NODES").stdin(Stdio::piped());
        command
            .stdout(fs::File::create(&output).unwrap())
            .stderr(Stdio::null());
        Self {
            child: command.spawn().unwrap(),
            output,
        }
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    /// Nothing reads the terminal from now on, as with a connection that hangs.
    pub(crate) fn stop_reading(&self) {
        send(&self.child, Signal::STOP);
    }

    /// What has been written meanwhile comes to the terminal now.
    pub(crate) fn read_again(&self) {
        send(&self.child, Signal::CONT);
    }

    /// All bytes that have come to the terminal.
    pub(crate) fn output(&self) -> Vec<u8> {
        fs::read(&self.output).unwrap()
    }

    pub(crate) fn shows(&self, text: &str) {
        eventually(text, || {
            fs::read_to_string(&self.output).unwrap().contains(text)
        });
    }

    pub(crate) fn ends_with(&mut self, code: i32) {
        let status = await_end(&mut self.child);
        let shown = fs::read_to_string(&self.output).unwrap();
        assert_eq!(status.code(), Some(code), "{shown}");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // With its terminal gone the rest of a test that failed ends as well.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn cluster() -> Shell {
    let mut shell = Shell::new();
    shell.up_of(1, &["--in-process", "--ephemeral"]);
    shell
}

#[test]
fn the_command_reads_the_terminal_and_hears_ctrl_c() {
    let shell = cluster();
    let script = r#""$Q" run a -- sh -c 'echo started; read x; echo "got $x"; exec cat'"#;
    let mut session = Session::start(&shell, script);
    session.shows("started");
    session.types("one\n");
    session.shows("got one");
    session.types("\x03");
    session.ends_with(130);
}

#[test]
fn the_terminal_goes_back_to_the_script_that_ran_it() {
    let shell = cluster();
    let script = r#""$Q" run a -- true; echo after; read x; echo "got $x"; exit 4"#;
    let mut session = Session::start(&shell, script);
    session.shows("after");
    session.types("two\n");
    session.shows("got two");
    session.ends_with(4);
}

#[test]
fn in_a_pipeline_the_command_gets_the_terminal_when_it_reads() {
    let shell = cluster();
    let script = r#""$Q" run a -- sh -c 'echo started; read x; echo "got $x"' | cat"#;
    let mut session = Session::start(&shell, script);
    session.shows("started");
    session.types("three\n");
    session.shows("got three");
    session.ends_with(0);
}

#[test]
fn ctrl_z_stops_both_and_both_go_on() {
    let shell = cluster();
    // Interactive, so that the shell has job control and gives the terminal to its jobs.
    let mut session = Session::start(&shell, "exec sh -i");
    session.types("\"$Q\" run a -- sh -c 'echo st\"\"arted; read x; echo \"got $x\"; exit 6'\n");
    session.shows("started");
    session.types("\x1a");
    session.shows("not renewed meanwhile");
    session.types("fg\n");
    session.types("four\n");
    session.shows("got four");
    session.types("exit $?\n");
    session.ends_with(6);
}

#[test]
fn force_release_asks_and_ends_only_the_token_that_it_has_shown() {
    let shell = cluster();
    let set = |token: &str| {
        for address in addresses(&shell) {
            let set = Wire::connect(address.as_str()).ask(&format!("SET job {token} PX 60000"));
            assert_eq!(set, "+OK");
        }
    };
    let ask = || Session::start(&shell, "exec \"$Q\" force-release job");
    set("old");
    let mut refused = ask();
    refused.shows("Type yes:");
    refused.types("no\n");
    refused.ends_with(1);
    assert_eq!(shell.quorlock(&["who", "job"]).code, Some(0));

    let mut late = ask();
    late.shows("Type yes:");
    set("new");
    late.types("yes\n");
    late.ends_with(70);
    let who = shell.succeed(&["who", "job", "--json"]);
    assert!(
        who.contains("\"token\":\"new\""),
        "the new holder keeps it: {who}"
    );

    let mut agreed = ask();
    agreed.shows("Type yes:");
    agreed.types("yes\n");
    agreed.ends_with(0);
    assert_eq!(shell.quorlock(&["who", "job"]).code, Some(1));
}
