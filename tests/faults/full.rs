//! A disk without space: what is refused, what still works, and that the node resumes.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use quorlock_testkit::{Connection, Reply, becomes_so};

use crate::check::{Bench, Check, Need, Record};
use crate::check_directory::CheckDirectory;
use crate::direct;
use crate::examine::{Finding, Rule, examine};
use crate::mount::Mount;
use crate::phase::{LOG_THREAD, listening, make_segment_ahead};
use crate::strace::{Attached, Injection};
use crate::stream::{SMALL, Shape, Stream};
use crate::subject::{Ended, Launch, Mode, Subject};
use crate::traffic::{Traffic, streams};

const KIND: &str = "full disk";

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for mode in Mode::ALL {
        let name = |what: &str| format!("full/{}/{what}", mode.name());
        checks.push(Check::new(KIND, name("injected"), Need::Attach, {
            move |bench, record| injected(bench, record, mode)
        }));
        checks.push(Check::new(KIND, name("tmpfs"), Need::Root, {
            move |bench, record| tmpfs(bench, record, mode)
        }));
        checks.push(Check::new(KIND, name("inodes"), Need::Root, {
            move |bench, record| inodes(bench, record, mode)
        }));
    }
    checks.push(Check::new(KIND, "full/start", Need::Root, too_small));
    checks
}

/// Every attempt to make a segment fails with ENOSPC, until strace is taken away.
fn injected(bench: &Bench, record: &mut Record, mode: Mode) -> io::Result<()> {
    let mut filled = Filled::start(bench, CheckDirectory::new(&bench.scratch)?, mode)?;
    // By its name: where syncs take long the log thread writes frames as well.
    let injection = Injection::new("pwrite64", "error=ENOSPC", "1+")
        .about(filled.directory.next_unfinished_segment()?);
    let trace = filled.directory.file("attach.trace");
    let attached = Attached::to(filled.node.id(), Some(LOG_THREAD), &injection, &trace)?;
    filled.fill()?;
    drop(attached);
    filled.resume()?;
    record.add(None, &filled.end());
    Ok(())
}

/// A real file system that is really full, until a file is removed.
fn tmpfs(bench: &Bench, record: &mut Record, mode: Mode) -> io::Result<()> {
    let directory = CheckDirectory::new(&bench.scratch)?;
    let mount = Mount::on(&directory, "size=80m")?;
    let ballast = mount.fill(60)?;
    let mut filled = Filled::start(bench, directory, mode)?;
    filled.fill()?;
    fs::remove_file(ballast)?;
    filled.resume()?;
    record.add(None, &filled.end());
    Ok(())
}

/// A file system with room but without inodes.
fn inodes(bench: &Bench, record: &mut Record, mode: Mode) -> io::Result<()> {
    let directory = CheckDirectory::new(&bench.scratch)?;
    // The directory itself, the lock, the identity, two segments.
    let mount = Mount::on(&directory, "size=80m,nr_inodes=5")?;
    let mut filled = Filled::start(bench, directory, mode)?;
    filled.fill()?;
    mount.remount("nr_inodes=1000")?;
    filled.resume()?;
    record.add(None, &filled.end());
    Ok(())
}

/// No space for the segment of a start: a new node refuses and says why, another one goes on in the segment that it has, and both
/// have everything once there is space.
fn too_small(bench: &Bench, record: &mut Record) -> io::Result<()> {
    let launch = Launch::new(bench, Mode::Everysec);
    let mut finding = Finding::default();
    let directory = CheckDirectory::new(&bench.scratch)?;
    let tiny = Mount::on(&directory, "size=64k")?;
    refuses_for_space(&launch, &directory, &mut finding)?;
    tool_says(
        &launch,
        &directory,
        &mut finding,
        &["check"],
        "has no space for another segment",
    )?;
    let repair = ["repair", "--accept-lost-locks"];
    tool_says(&launch, &directory, &mut finding, &repair, "no repair: ")?;
    tool_says(
        &launch,
        &directory,
        &mut finding,
        &repair,
        "free some space",
    )?;
    drop(tiny);
    let directory = CheckDirectory::new(&bench.scratch)?;
    // One segment fits, and neither one ahead nor the first one of another start.
    let mount = Mount::on(&directory, "size=1200k")?;
    let mut node = launch.start(&directory)?;
    let mut streams = streams(31, SMALL);
    let came = Traffic::open(listening(&mut node, &directory)?, &streams)?.run(&mut streams, 6, 3);
    if !came.is_fine() {
        finding.flaw(format!("with just enough space: {came:?}"));
    }
    node.kill();
    finding.heard(&node);
    // What is there is gone on with.
    tool_says(
        &launch,
        &directory,
        &mut finding,
        &["check"],
        "once the last one is full it grants nothing",
    )?;
    let mut node = launch.start(&directory)?;
    let mut connection = Connection::open(listening(&mut node, &directory)?)?;
    let reply = connection.ask(&["PING"])?;
    if reply != Reply::Status("PONG".into()) {
        finding.flaw(format!("a start on a full disk answers {reply:?}"));
    }
    node.kill();
    finding.heard(&node);
    mount.remount("size=40m")?;
    let rule = Rule {
        needs_delay: true,
        ..Rule::default()
    };
    let mut after = examine(&launch, &directory, &streams, rule);
    after.join(finding);
    record.add(None, &after);
    Ok(())
}

/// `quorlock log` with these words says this of a directory.
fn tool_says(
    launch: &Launch,
    directory: &CheckDirectory,
    finding: &mut Finding,
    words: &[&str],
    expected: &str,
) -> io::Result<()> {
    let mut command = Command::new(&launch.program);
    let output = command
        .arg("log")
        .args(words)
        .arg(directory.data())
        .output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if !said.contains(expected) {
        finding.flaw(format!("{words:?} does not say {expected:?}: {said}"));
    }
    Ok(())
}

fn refuses_for_space(
    launch: &Launch,
    directory: &CheckDirectory,
    finding: &mut Finding,
) -> io::Result<()> {
    let mut node = launch.start(directory)?;
    let outcome = node.listening();
    let says_so = node.said().contains("free some space");
    if outcome != Err(Ended::Exited(1)) || !says_so {
        let said = node.last_words();
        finding.flaw(format!(
            "without space a start came to {outcome:?}:\n    {said}"
        ));
    }
    finding.heard(&node);
    Ok(())
}

/// A node whose disk fills up.
struct Filled {
    directory: CheckDirectory,
    launch: Launch,
    node: Subject,
    address: SocketAddr,
    streams: Vec<Stream>,
    finding: Finding,
}

impl Filled {
    fn start(bench: &Bench, directory: CheckDirectory, mode: Mode) -> io::Result<Self> {
        let mut launch = Launch::new(bench, mode);
        // It may be a file system of its own.
        launch.is_direct &= direct::is_taken_in(&directory.data());
        let mut node = launch.start(&directory)?;
        let address = listening(&mut node, &directory)?;
        make_segment_ahead(address)?;
        let mut connection = Connection::open(address)?;
        connection.ask(&["SET", "r:held", "me", "PX", "3000000"])?;
        Ok(Self {
            directory,
            launch,
            node,
            address,
            streams: streams(
                17,
                Shape {
                    large_bytes: 400 << 10,
                    ..SMALL
                },
            ),
            finding: Finding::default(),
        })
    }

    /// Writes until the node refuses; it must refuse, and go on answering.
    fn fill(&mut self) -> io::Result<()> {
        let came = Traffic::open(self.address, &self.streams)?.run(&mut self.streams, 200, 1);
        if came.refused.is_empty() || came.has_failed() || !came.wrong.is_empty() {
            self.finding.flaw(format!("a full disk came to {came:?}"));
        }
        let mut connection = Connection::open(self.address)?;
        let large = "x".repeat(400 << 10);
        let mut expect = |words: &[&str], is_right: fn(&Reply) -> bool| {
            let reply = connection.ask(words)?;
            if !is_right(&reply) {
                let name = words[0];
                self.finding
                    .flaw(format!("{name} on a full disk answered {reply:?}"));
            }
            io::Result::Ok(())
        };
        expect(
            &["SET", "r:new", &large, "PX", "3000000"],
            |reply| matches!(reply, Reply::Error(text) if text.starts_with("MISCONF")),
        )?;
        expect(&["GET", "r:held"], |reply| reply.text() == "me")?;
        expect(&["PING"], |reply| *reply == Reply::Status("PONG".into()))?;
        // What gives back must work for as long as there is any room.
        expect(&RELEASE, |reply| *reply == Reply::Integer(1))
    }

    /// Space is back: writes are accepted within a few seconds, without a restart.
    fn resume(&mut self) -> io::Result<()> {
        let mut connection = Connection::open(self.address)?;
        let large = "x".repeat(400 << 10);
        let has_resumed = becomes_so(RESUME_MAX, || {
            let reply = connection.ask(&["SET", "r:new", &large, "PX", "3000000"]);
            matches!(reply, Ok(Reply::Status(_)))
        });
        if !has_resumed {
            self.finding
                .flaw("does not resume although there is space again");
            return Ok(());
        }
        let came = Traffic::open(self.address, &self.streams)?.run(&mut self.streams, 5, 2);
        if !came.is_fine() {
            self.finding.flaw(format!("after it resumed: {came:?}"));
        }
        let info = connection.ask(&["INFO", "persistence"])?.text();
        if !info.contains("aof_last_write_status:ok") {
            self.finding.flaw("INFO still says that the disk is full");
        }
        Ok(())
    }

    fn end(mut self) -> Finding {
        self.node.kill();
        self.finding.heard(&self.node);
        let rule = Rule {
            needs_delay: self.launch.mode != Mode::Always,
            ..Rule::default()
        };
        let mut after =
            examine(&self.launch, &self.directory, &self.streams, rule).tolerating("r:");
        after.join(self.finding);
        after
    }
}

const RELEASE: [&str; 5] = [
    "EVAL",
    "if redis.call('get', KEYS[1]) == ARGV[1] then \
     return redis.call('del', KEYS[1]) else return 0 end",
    "1",
    "r:held",
    "me",
];

const RESUME_MAX: Duration = Duration::from_secs(10);
