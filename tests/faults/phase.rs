//! The phases of a node's life in which a fault can strike, each as a run that can be repeated.
//!
//! A run goes from an image of the data directory to the node's death, or to the end of the
//! phase if the fault was not met.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use quorlock_testkit::{Connection, Reply, becomes_so, pause};

use crate::check::Bench;
use crate::check_directory::{CheckDirectory, Image};
use crate::direct;
use crate::examine::{Finding, Rule};
use crate::strace::{Attached, Injection};
use crate::stream::{SMALL, Shape, Stream};
use crate::subject::{Ended, Launch, Mode, START_TRACE, Subject};
use crate::traffic::{Came, Traffic, streams};

/// A phase of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In an empty directory.
    FirstStart,
    /// After a kill (in mode `no` after a clean stop), with data.
    Restart,
    /// Small writes of every kind.
    Serve,
    /// Large writes, so that the log goes on in the next segment.
    Rotate,
    /// So much written that the log compacts itself.
    Compact,
    /// BGREWRITEAOF, and writes beside it.
    Rewrite,
    /// From `always` to a weaker mode while it serves.
    Switch,
    /// SIGTERM.
    Stop,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FirstStart => "first-start",
            Self::Restart => "restart",
            Self::Serve => "serve",
            Self::Rotate => "rotate",
            Self::Compact => "compact",
            Self::Rewrite => "rewrite",
            Self::Switch => "switch",
            Self::Stop => "stop",
        }
    }

    /// Whether faults are there from the first instruction on; in the other phases strace
    /// attaches to a node that serves.
    pub(crate) fn is_start(self) -> bool {
        matches!(self, Self::FirstStart | Self::Restart)
    }
}

/// A phase, made ready to be run again and again.
pub(crate) struct Stage {
    pub(crate) phase: Phase,
    pub(crate) directory: CheckDirectory,
    pub(crate) launch: Launch,
    image: Option<Image>,
    base: Vec<Stream>,
}

/// How a run of a phase ended.
pub(crate) struct Played {
    pub(crate) streams: Vec<Stream>,
    pub(crate) ended: Option<Ended>,
    pub(crate) came: Came,
    pub(crate) finding: Finding,
    /// Something was acknowledged in a weaker mode than the one the node was started with.
    pub(crate) is_weakened: bool,
}

impl Stage {
    pub(crate) fn set(bench: &Bench, phase: Phase, mode: Mode, seed: u64) -> io::Result<Self> {
        let mut launch = Launch::new(bench, mode);
        if phase == Phase::Compact {
            launch = launch.with(&["--auto-aof-rewrite-min-size", "2mb"]);
        }
        let mut stage = Self {
            phase,
            directory: CheckDirectory::new(&bench.scratch)?,
            launch,
            image: None,
            base: streams(seed, SMALL),
        };
        if phase != Phase::FirstStart {
            stage.prepare()?;
        }
        Ok(stage)
    }

    /// Whether a node that died in this phase must wait.
    pub(crate) fn rule(&self, played: &Played) -> Rule {
        let mut rule = self.rule_for(&played.streams);
        rule.needs_delay |= played.is_weakened;
        rule
    }

    /// The same, where nothing was written in the phase.
    pub(crate) fn rule_for(&self, streams: &[Stream]) -> Rule {
        let acknowledged: u64 = streams.iter().map(Stream::acknowledged_now).sum();
        let was_clean = self.phase == Phase::Restart && !self.base_is_killed();
        Rule {
            needs_delay: self.launch.mode != Mode::Always && acknowledged > 0 && !was_clean,
            may_be_clean: was_clean || self.phase == Phase::Stop,
            is_damaged: false,
            has_compacted: matches!(self.phase, Phase::Compact | Phase::Rewrite),
            may_seem_moved: false,
            may_give_time_back: false,
        }
    }

    /// Puts the data back as it was before the phase; returns what it holds.
    pub(crate) fn reset(&self) -> io::Result<Vec<Stream>> {
        match &self.image {
            Some(image) => self.directory.restore(image)?,
            None => self.directory.empty()?,
        }
        for trace in [START_TRACE, ATTACH_TRACE] {
            // There is none before the first run.
            let _ = fs::remove_file(self.directory.file(trace));
        }
        Ok(self.base.clone())
    }

    /// Whether the fault was met in the last run. Deaths are not marked by strace.
    pub(crate) fn was_injected(&self) -> bool {
        [START_TRACE, ATTACH_TRACE].iter().any(|trace| {
            let text = fs::read_to_string(self.directory.file(trace)).unwrap_or_default();
            text.contains("(INJECTED)") || text.contains("(DELAYED)")
        })
    }

    /// Runs the phase once with this fault.
    pub(crate) fn play(&self, thread: Option<&str>, injection: &Injection) -> io::Result<Played> {
        let mut played = Played {
            streams: self.reset()?,
            ended: None,
            came: Came::default(),
            finding: Finding::default(),
            is_weakened: false,
        };
        if self.phase.is_start() {
            self.play_start(injection, &mut played)?;
        } else {
            self.play_attached(thread, injection, &mut played)?;
        }
        Ok(played)
    }

    fn base_is_killed(&self) -> bool {
        self.phase == Phase::Restart && self.launch.mode != Mode::No
    }

    /// Gives the node some data, and keeps an image of it.
    fn prepare(&mut self) -> io::Result<()> {
        let mut node = self.launch.start(&self.directory)?;
        let address = listening(&mut node, &self.directory)?;
        let mut traffic = Traffic::open(address, &self.base)?;
        let mut came = traffic.run(&mut self.base, 6, 3);
        if self.phase == Phase::Rewrite && came.is_fine() {
            // So much that a checkpoint takes many steps, and something can happen between them.
            self.reshape(300 << 10);
            came = traffic.run(&mut self.base, 8, 2);
            self.reshape(0);
        }
        if !came.is_fine() {
            return Err(io::Error::other(format!("preparing failed: {came:?}")));
        }
        make_segment_ahead(address)?;
        if self.base_is_killed() {
            node.kill();
        } else {
            node.terminate();
            node.end(PHASE_MAX);
            self.base.iter_mut().for_each(Stream::begin_run);
        }
        self.image = Some(self.directory.take_image("image")?);
        Ok(())
    }

    fn reshape(&mut self, large_bytes: usize) {
        for stream in &mut self.base {
            stream.set_shape(Shape {
                large_bytes,
                ..SMALL
            });
        }
    }

    fn play_start(&self, injection: &Injection, played: &mut Played) -> io::Result<()> {
        let launch = self.launch.clone().injecting(injection.clone());
        let mut node = launch.start(&self.directory)?;
        if let Ok(address) = node.listening() {
            // It may be this that meets the fault.
            let _made_or_not = make_segment_ahead(address);
        }
        played.ended = node.has_ended().then(|| node.end(PHASE_MAX)).flatten();
        node.kill();
        played.finding.heard(&node);
        Ok(())
    }

    fn play_attached(
        &self,
        thread: Option<&str>,
        injection: &Injection,
        played: &mut Played,
    ) -> io::Result<()> {
        let mut node = self.launch.start(&self.directory)?;
        let address = listening(&mut node, &self.directory)?;
        make_segment_ahead(address)?;
        if self.phase == Phase::Stop {
            write(address, 4, 3, played);
        }
        let before = self.directory.segments()?;
        let trace = self.directory.file(ATTACH_TRACE);
        let mut injection = injection.clone();
        if self.phase == Phase::Rotate && is_log_thread(thread) && injection.calls == "pwrite64" {
            // The segment it makes: where syncs take long it writes frames as well.
            injection = injection.about(self.directory.next_unfinished_segment()?);
        }
        let attached = Attached::to(node.id(), thread, &injection, &trace)?;
        match self.phase {
            Phase::Stop => node.terminate(),
            Phase::Rotate => write_large(address, 100 << 10, 8, played),
            Phase::Compact => write_large(address, 100 << 10, 10, played),
            Phase::Rewrite => rewrite(address, played),
            Phase::Switch => self.switch(address, played),
            _ => {
                if is_log_thread(thread) {
                    leave_the_sync_to_the_log_thread(&mut played.streams);
                }
                // A round may be one write, or change nothing: so many that each call is met as often as `kill` asks.
                write(address, 12, 4, played);
            }
        }
        if played.came.has_failed() {
            await_fail_stop(&mut node, address, played);
        } else {
            self.settle(&mut node, thread, &before);
        }
        played.ended = node.has_ended().then(|| node.end(PHASE_MAX)).flatten();
        node.kill();
        drop(attached);
        played.finding.heard(&node);
        Ok(())
    }

    /// Writes, changes the mode, and writes in the weaker one.
    fn switch(&self, address: SocketAddr, played: &mut Played) {
        write(address, 2, 3, played);
        let weaker = if self.launch.mode == Mode::Always {
            Mode::Everysec
        } else {
            Mode::No
        };
        let words = ["CONFIG", "SET", "appendfsync", weaker.name()];
        let is_switched = Connection::open(address)
            .and_then(|mut connection| connection.ask(&words))
            .is_ok_and(|reply| reply == Reply::Status("OK".to_owned()));
        let before = acknowledged(&played.streams);
        if is_switched {
            write(address, 4, 3, played);
        }
        played.is_weakened = acknowledged(&played.streams) > before;
    }

    /// How long a node may take to end of what it met: a busy machine delays one whose log has failed.
    fn end_of_a_fault(&self) -> Duration {
        Duration::from_millis(if self.was_injected() { 1000 } else { 30 })
    }

    /// Waits until the node has done on its own what the phase is about.
    fn settle(&self, node: &mut Subject, thread: Option<&str>, before: &[(PathBuf, u64)]) {
        let has_more = || {
            let count = self
                .directory
                .segments()
                .map_or(0, |segments| segments.len());
            count > before.len() && self.directory.is_prepared()
        };
        match self.phase {
            Phase::Stop => {
                node.end(PHASE_MAX);
            }
            Phase::Serve if is_log_thread(thread) && self.launch.mode == Mode::Everysec => {
                node.end(SYNC_OF_A_SECOND);
            }
            Phase::Rotate if is_log_thread(thread) => {
                becomes_so(PHASE_MAX, || node.has_ended() || has_more());
                // The name may be there although making it durable failed.
                node.end(self.end_of_a_fault());
            }
            // Whichever thread fails: a worker may, after the last write of the traffic was acknowledged.
            Phase::Compact | Phase::Rewrite => {
                // Everything older than the checkpoint is removed, oldest first.
                let is_gone = |(path, _): &(PathBuf, u64)| !path.exists();
                becomes_so(PHASE_MAX, || {
                    node.has_ended() || before.iter().rev().skip(2).all(is_gone)
                });
                node.end(self.end_of_a_fault());
            }
            _ => pause(Duration::from_millis(5)),
        }
    }
}

fn acknowledged(streams: &[Stream]) -> u64 {
    streams.iter().map(Stream::acknowledged).sum()
}

/// Asks for a compaction, writes beside it, and waits for its end.
fn rewrite(address: SocketAddr, played: &mut Played) {
    let asked =
        Connection::open(address).and_then(|mut connection| connection.ask(&["BGREWRITEAOF"]));
    if let Ok(Reply::Error(text)) = asked {
        played.finding.flaw(format!("BGREWRITEAOF answered {text}"));
    }
    write(address, 4, 3, played);
    becomes_so(PHASE_MAX, || {
        let info = Connection::open(address)
            .and_then(|mut connection| connection.ask(&["INFO", "persistence"]));
        info.map_or(true, |text| {
            !text.text().contains("aof_rewrite_in_progress:1")
        })
    });
}

fn is_log_thread(thread: Option<&str>) -> bool {
    thread == Some(LOG_THREAD)
}

/// Writes whose replies wait for no sync, so that one is left for the log thread to do.
fn leave_the_sync_to_the_log_thread(streams: &mut [Stream]) {
    for stream in streams {
        stream.set_shape(Shape {
            only_covered: true,
            ..SMALL
        });
    }
}

fn write_large(address: SocketAddr, large_bytes: usize, rounds: usize, played: &mut Played) {
    for stream in &mut played.streams {
        stream.set_shape(Shape {
            large_bytes,
            ..SMALL
        });
    }
    write(address, rounds, 2, played);
}

fn write(address: SocketAddr, rounds: usize, depth: usize, played: &mut Played) {
    // The node may die while it is connected to: then nothing was asked.
    let Ok(mut traffic) = Traffic::open(address, &played.streams) else {
        return;
    };
    let came = traffic.run(&mut played.streams, rounds, depth);
    for wrong in &came.wrong {
        played.finding.flaw(wrong);
    }
    played.came = came;
}

/// A node whose log has failed acknowledges nothing any more, to nobody, and ends.
fn await_fail_stop(node: &mut Subject, address: SocketAddr, played: &mut Played) {
    let has_ended = becomes_so(FAIL_STOP_MAX, || {
        let reply = Connection::open(address)
            .and_then(|mut late| late.ask(&["SET", "a:late", "1", "PX", "60000"]));
        if matches!(reply, Ok(Reply::Status(_))) {
            played
                .finding
                .flaw("a write was acknowledged after the log had failed");
        }
        node.has_ended()
    });
    if !has_ended {
        played.finding.flaw("the log failed, and the node goes on");
    }
}

/// Waits until the node listens. One that has to write its log directly does so then.
pub(crate) fn listening(node: &mut Subject, directory: &CheckDirectory) -> io::Result<SocketAddr> {
    let address = node.listening().map_err(|ended| {
        let said = node.last_words();
        io::Error::other(format!("the node does not start ({ended:?}):\n    {said}"))
    })?;
    if node.is_direct && !direct::writes_newest(node.id(), directory)? {
        return Err(io::Error::other(
            "the node does not write its log directly: a fault would strike another way of writing",
        ));
    }
    Ok(address)
}

/// Lets the node make a segment of its log ahead, which one that has logged little has not: a transaction with a script
/// may need so much room, whatever it does. The reply waits for it. A node that waits out a delay makes none.
pub(crate) fn make_segment_ahead(address: SocketAddr) -> io::Result<()> {
    let mut connection = Connection::open(address)?;
    for words in [&["MULTI"][..], &["EVAL", "return 0", "0"], &["EXEC"]] {
        connection.ask(words)?;
    }
    Ok(())
}

/// The thread that reads, executes and answers.
pub(crate) const WORKER: &str = "quorlock-0";
/// The thread that keeps the house: ticks, the parts of a checkpoint, the orderly stop.
pub(crate) const NODE: &str = "quorlock-node";
/// The thread that makes segments and syncs once a second.
pub(crate) const LOG_THREAD: &str = "quorlock-log";

const ATTACH_TRACE: &str = "attach.trace";
const FAIL_STOP_MAX: Duration = Duration::from_secs(10);
pub(crate) const PHASE_MAX: Duration = Duration::from_secs(15);
const SYNC_OF_A_SECOND: Duration = Duration::from_millis(1_300);
