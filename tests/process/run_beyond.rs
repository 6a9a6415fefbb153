//! What `quorlock run` cannot prevent, and has to say: it was frozen itself, or what it started is another user's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use quorlock_testkit::eventually;
use rustix::process::{Pid, Signal, getuid, kill_process};

use crate::run::{addresses, cluster, take_away};
use crate::run_end::Running;
use crate::shell::{Shell, lives, send};

#[test]
fn a_wrapper_that_was_frozen_for_longer_than_its_lease_ends_the_command_and_says_that_it_was_late()
{
    let shell = cluster();
    let script = "trap 'exit 3' TERM; echo $$; while :; do sleep 0.01; done";
    let running = Running::start(&shell, &["--ttl", "1s"], script);
    let command = running.pids(1)[0];
    send(&running.child, Signal::STOP);
    // Its lease is over as soon as somebody else has the lock.
    let mut other = String::new();
    eventually("the lock is free", || {
        let ended = shell.quorlock(&["acquire", "lost", "--ttl", "10m", "--no-wait"]);
        other = ended.stdout;
        ended.code == Some(0)
    });
    assert!(lives(command), "nobody was there to stop it");
    send(&running.child, Signal::CONT);
    let (ended, _) = running.ended();
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    for part in [
        "the lock 'lost' was lost while the command ran",
        "but only after the lease was over: somebody else may have worked at the same time",
        "its work may be half done: check it before running it again",
    ] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    assert!(!lives(command));
    // Whoever has it now keeps it.
    shell.succeed(&["extend", "lost", other.trim(), "--ttl", "10m"]);
}

#[test]
#[ignore = "needs root"]
fn what_becomes_another_user_is_named_with_what_can_be_done() {
    let shell = cluster();
    let other_user = OtherUser::prepare(&shell);
    // In a session of its own, as daemons are, and left behind.
    let becomes = other_user.becomes.display();
    let script = format!(
        "setsid {becomes} --reuid=0 sleep 1000 & echo $!; \
         while ! [ -e go ]; do sleep 0.01; done; exit 4"
    );
    let running = Running::spawn(
        &shell,
        other_user.run(&shell, &["--grace", "100ms"], &script),
    );
    let escaped = running.pids(1)[0];
    eventually("it is another user's", || owner(escaped) == Some(0));
    fs::write(shell.file("go"), "").unwrap();
    let (ended, _) = running.ended();
    let is_left = lives(escaped);
    kill(escaped);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(is_left, "{}", ended.stderr);
    for part in [
        "the command left a process behind, which could not be ended and goes on without the lock: ",
        &format!("{escaped} (sleep)"),
        "it runs as another user or hangs in the kernel: stop it by its number",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[test]
#[ignore = "needs root"]
fn a_command_that_becomes_another_user_and_loses_its_lock_is_said_to_go_on() {
    let shell = cluster();
    let other_user = OtherUser::prepare(&shell);
    let becomes = other_user.becomes.display();
    let script = format!("echo $$; exec {becomes} --reuid=0 sleep 1000");
    let options = ["--ttl", "3s", "--grace", "100ms"];
    let running = Running::spawn(&shell, other_user.run(&shell, &options, &script));
    let escaped = running.pids(1)[0];
    eventually("it is another user's", || owner(escaped) == Some(0));
    take_away(&shell, "lost", 3);
    let (ended, _) = running.ended();
    let goes_on = lives(escaped);
    kill(escaped);
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    assert!(goes_on, "{}", ended.stderr);
    for part in [
        "The command could not be stopped and goes on without the lock",
        &format!("Still running without the lock: {escaped} (sleep)"),
        "it runs as another user or hangs in the kernel: stop it by its number",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

fn kill(pid: u64) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have been ended by what is tested.
    let _gone = kill_process(pid, Signal::KILL);
}

/// The real user of a process.
fn owner(pid: u64) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().next()?.parse().ok()
}

/// An ordinary user, and a program that makes it root, as sudo would.
struct OtherUser {
    program: PathBuf,
    becomes: PathBuf,
}

impl OtherUser {
    fn prepare(shell: &Shell) -> Self {
        let setpriv = Path::new("/usr/bin/setpriv");
        assert!(getuid().is_root(), "only root becomes another user");
        let everybody =
            |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        let (program, becomes) = (shell.file("quorlock"), shell.file("become"));
        fs::copy(quorlock_testkit::binary::quorlock(), &program).unwrap();
        fs::copy(setpriv, &becomes).unwrap();
        everybody(shell.path(), 0o755).unwrap();
        everybody(&becomes, 0o4755).unwrap();
        Self { program, becomes }
    }

    /// `quorlock run` as an ordinary user.
    fn run(&self, shell: &Shell, options: &[&str], script: &str) -> Command {
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(&self.program).args(["run", "lost", "--nodes"]);
        command.arg(addresses(shell).join(","));
        command.args(options).args(["--", "sh", "-c", script]);
        command
            .current_dir(shell.path())
            .env_remove("QUORLOCK_NODES");
        command
    }
}
