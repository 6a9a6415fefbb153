//! The supervisor: parent of all nodes, for as long as the cluster runs.
//!
//! It starts the nodes, reports what happens to them, carries out the requests of other
//! terminals, and stops all of them at the end. A node that was killed or that ended stays down
//! until somebody restarts it: to try out a failure is to see it.

use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use quorlock_server::show_duration;
use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet, LocalSet, spawn_local};
use tokio::time::interval;

use super::control::{Call, ControlReply, converse};
use super::event::Reporter;
use super::home::ClusterHome;
use super::info::{self, ServingState, ServingState::RestartDelay, ServingState::Serving};
use super::live::{self, LiveSources, Screen};
use super::load::CallerLoad;
use super::member::{ClusterMember, Life, STOP_PATIENCE};
use super::view::{LocalCluster, ProcessState};
use super::{banner, ready_file};
use crate::exit_code::Failure;
use crate::output::{Format, shell_word};
use crate::signals::CaughtSignals;

/// What a supervisor starts with.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) home: ClusterHome,
    pub(super) members: Vec<ClusterMember>,
    /// What others see of the cluster, but for its nodes.
    pub(super) view: LocalCluster,
    pub(super) ready_file: Option<PathBuf>,
    /// How many callers take locks on which nodes, if any do.
    pub(super) load: Option<(usize, Vec<String>)>,
    pub(super) format: Format,
    /// The terminal, where it shows a live table.
    pub(super) screen: Option<Screen>,
}

/// A running cluster.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) plan: Plan,
    pub(super) reporter: Reporter,
    pub(super) observations: mpsc::Sender<ProcessObservation>,
    conversations: JoinSet<()>,
    load: Option<CallerLoad>,
}

/// What a node answered in a life that may be over.
#[derive(Debug)]
pub(super) struct ProcessObservation {
    number: u16,
    life: Weak<Life>,
    state: ServingState,
}

/// The task of a live table.
type Table = JoinHandle<io::Result<()>>;

/// Why the supervisor ends.
#[derive(Debug)]
pub(super) enum SupervisionEnd {
    Signal,
    Request(tokio::sync::oneshot::Sender<ControlReply>),
}

/// What the kernel reports to a supervisor.
struct KernelSignals {
    ends: CaughtSignals,
    child: Signal,
}

/// Runs a cluster until a signal or a request ends it, and stops it.
pub(super) async fn supervise(
    plan: Plan,
    reporter: Reporter,
    listener: UnixListener,
    ends: CaughtSignals,
) -> Result<(), Failure> {
    let unheard = |error| Failure::failed(format!("cannot listen for signals: {error}"));
    let mut signals = KernelSignals {
        ends,
        child: signal(SignalKind::child()).map_err(unheard)?,
    };
    let (observations, mut observed) = mpsc::channel(64);
    let mut supervisor = Supervisor {
        plan,
        reporter,
        observations,
        conversations: JoinSet::new(),
        load: None,
    };
    let end = supervisor.watch_over(&mut signals, &mut observed, &listener);
    // Connections to the nodes stay on this thread.
    let end = LocalSet::new().run_until(end).await;
    let load = supervisor.load.take().map(CallerLoad::end);
    supervisor.stop_all(&mut signals).await;
    let mut closing_words = supervisor.closing_words();
    if let Some(load) = load {
        closing_words.push_str(&format!("\nThe load: {load}"));
    }
    match end {
        Ok(SupervisionEnd::Signal) => supervisor.reporter.cluster(&closing_words),
        Ok(SupervisionEnd::Request(answer)) => {
            let cluster = Box::new(supervisor.view());
            supervisor.reporter.cluster(&closing_words);
            let _caller_went_away = answer.send(ControlReply::Done {
                text: closing_words,
                cluster,
            });
        }
        Err(failure) => return Err(failure),
    }
    let conversations = std::mem::take(&mut supervisor.conversations);
    let _hung_callers = tokio::time::timeout(LAST_ANSWERS_TIME, conversations.join_all()).await;
    match load.filter(|load| load.overlaps > 0) {
        Some(_) => Err(Failure::failed(
            "a lock had two holders; the lines above say which and when",
        )),
        None => Ok(()),
    }
}

impl Supervisor {
    /// Starts the nodes, and takes in what comes until the cluster has to end.
    async fn watch_over(
        &mut self,
        signals: &mut KernelSignals,
        observed: &mut mpsc::Receiver<ProcessObservation>,
        listener: &UnixListener,
    ) -> Result<SupervisionEnd, Failure> {
        for member in &mut self.plan.members {
            start(member, &self.observations).await?;
        }
        let (calls, mut called) = mpsc::channel(16);
        let mut overlaps = self.make_load()?;
        let mut table = self.show_table(&calls);
        let mut load_steps = interval(LOAD_STEP);
        loop {
            tokio::select! {
                _ = signals.ends.next() => return Ok(SupervisionEnd::Signal),
                ended = end_of(&mut table) => match ended {
                    Ok(()) => return Ok(SupervisionEnd::Signal),
                    Err(error) => self.reporter.cluster(format_args!(
                        "the live table has ended ({error}); what happens is printed line by line from here on"
                    )),
                },
                _ = signals.child.recv() => self.reap()?,
                Some(observation) = observed.recv() => self.observe(observation)?,
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        self.conversations.spawn(converse(stream, calls.clone()));
                    }
                }
                Some(call) = called.recv() => {
                    // A node inside this process ends without a signal.
                    self.reap()?;
                    if let Some(end) = self.answer(call).await {
                        return Ok(end);
                    }
                }
                Some(overlap) = overlaps.recv() => self.reporter.cluster(overlap),
                _ = load_steps.tick(), if table.is_none() => self.show_load(),
                Some(_ended) = self.conversations.join_next() => {}
            }
        }
    }

    /// Makes the callers that take locks, if any are to. They rest until all nodes serve. Returns where overlaps are reported.
    fn make_load(&mut self) -> Result<mpsc::UnboundedReceiver<String>, Failure> {
        let (sender, overlaps) = mpsc::unbounded_channel();
        if let Some((callers, nodes)) = self.plan.load.take() {
            let cacert = self.plan.view.cacert.clone();
            self.load = Some(CallerLoad::begin(callers, nodes, cacert, sender)?);
        }
        Ok(overlaps)
    }

    /// Says what the callers have come to, where no table shows it.
    fn show_load(&mut self) {
        let Some(load) = &self.load else { return };
        let figures = load.switch().figures();
        if figures.is_on {
            let callers = figures.callers;
            (self.reporter).cluster(format_args!("load of {callers} callers: {figures}"));
        }
    }

    /// Shows the live table in a task of its own, if there is a terminal for it.
    fn show_table(&mut self, calls: &mpsc::Sender<Call>) -> Option<Table> {
        let screen = self.plan.screen.take()?;
        let (seen, looks) = tokio::sync::watch::channel(None);
        let (announcer, announcements) = mpsc::channel(64);
        self.reporter.show_on(announcer);
        spawn_local(live::look_on(calls.clone(), seen));
        let sources = LiveSources {
            looks,
            announcements,
            supervisor: Some(calls.clone()),
            load: self.load.as_ref().map(CallerLoad::switch),
        };
        Some(spawn_local(live::show(screen, sources)))
    }

    /// Notices processes that ended. During the start that is the end of the whole cluster.
    pub(super) fn reap(&mut self) -> Result<(), Failure> {
        for member in &mut self.plan.members {
            let number = member.entry.number;
            let Some(ended) = member.reap() else { continue };
            let how = match ended {
                ProcessState::Ended(how) => how.clone(),
                _ if self.plan.view.in_process => "stopped cleanly".to_owned(),
                _ => "exit code 0".to_owned(),
            };
            member.serving = ServingState::Silent;
            let log = self.plan.home.node_log(number);
            if !self.plan.view.ready {
                let tail = super::logs::tail(&log, LOG_LINES_SHOWN);
                return Err(
                    Failure::failed(format!("node {number} did not start: {how}"))
                        .remedy(format!("the end of {}:\n{tail}", log.display())),
                );
            }
            let see = match self.plan.view.in_process {
                true => String::new(),
                false => format!(", see {}", log.display()),
            };
            self.reporter.node(
                number,
                format_args!(
                    "ended by itself ({how}){see}; start it with: quorlock cluster restart {number}"
                ),
            );
        }
        Ok(())
    }

    /// Takes in what a node answered, and announces what changed by it.
    fn observe(&mut self, observation: ProcessObservation) -> Result<(), Failure> {
        let ProcessObservation {
            number,
            life,
            state,
        } = observation;
        let is_it =
            |member: &&mut ClusterMember| member.entry.number == number && member.is_running();
        let member = self.plan.members.iter_mut().find(is_it);
        let Some(member) = member.filter(|_| life.strong_count() > 0) else {
            return Ok(());
        };
        let before = std::mem::replace(&mut member.serving, state.clone());
        match (&before, &state) {
            (RestartDelay { .. }, RestartDelay { .. }) => self.count_down(),
            (_, RestartDelay { remaining_ms }) => {
                let left = show_duration(Duration::from_millis(*remaining_ms));
                self.reporter.node(
                    number,
                    format_args!(
                        "is in its restart delay and serves no locks for another {left}, until every \
                         lock it may have forgotten has expired"
                    ),
                );
            }
            (RestartDelay { .. }, Serving { .. }) => {
                self.reporter
                    .node(number, "serves again, its restart delay is over");
            }
            (_, Serving { .. }) if self.plan.view.ready => self.reporter.node(number, "serves"),
            _ => {}
        }
        self.announce_if_ready()
    }

    /// Shows on a terminal how long the nodes in their restart delay still wait.
    fn count_down(&mut self) {
        let members = self.plan.members.iter();
        let delays = members.filter_map(|member| match member.serving {
            RestartDelay { remaining_ms } => Some(remaining_ms),
            _ => None,
        });
        let (count, longest) =
            delays.fold((0, 0), |(count, longest), ms| (count + 1, ms.max(longest)));
        let left = show_duration(Duration::from_millis(longest));
        let nodes = if count == 1 {
            "1 node"
        } else {
            &format!("{count} nodes")
        };
        self.reporter
            .provisional(format_args!("restart delay: {nodes}, {left} left"));
    }

    fn announce_if_ready(&mut self) -> Result<(), Failure> {
        let mut members = self.plan.members.iter();
        if self.plan.view.ready || !members.all(|member| member.serving.is_serving()) {
            return Ok(());
        }
        self.plan.view.ready = true;
        if let Some(load) = &self.load {
            load.switch().set(true);
        }
        let view = self.view();
        match self.plan.format {
            Format::Text => {
                let banner = banner::banner(&view);
                self.reporter.write(banner);
                self.reporter
                    .write("Stop it with Ctrl-C or: quorlock cluster down");
            }
            Format::Json => self.reporter.write(ready_file::value(&view)),
        }
        match &self.plan.ready_file {
            Some(path) => ready_file::write(path, &view),
            None => Ok(()),
        }
    }

    /// Stops all nodes cleanly; a second signal, or patience running out, kills what is left.
    async fn stop_all(&mut self, signals: &mut KernelSignals) {
        let mut deadline = std::pin::pin!(tokio::time::sleep(STOP_PATIENCE));
        for member in &mut self.plan.members {
            member.ask_to_stop().await;
        }
        while self.plan.members.iter().any(ClusterMember::is_running) {
            tokio::select! {
                _ = signals.child.recv() => {}
                () = tokio::time::sleep(REAP_STEP) => {}
                _ = signals.ends.next() => self.kill_all().await,
                () = &mut deadline => self.kill_all().await,
            }
            for member in &mut self.plan.members {
                member.reap();
            }
        }
    }

    async fn kill_all(&mut self) {
        for member in &mut self.plan.members {
            if let Err(error) = member.kill().await {
                let number = member.entry.number;
                self.reporter
                    .node(number, format_args!("could not be killed: {error}"));
            }
        }
    }

    fn closing_words(&self) -> String {
        let (count, name) = (self.plan.members.len(), self.plan.home.name());
        let is_clean = |member: &&ClusterMember| *member.state() == ProcessState::Stopped;
        let clean = self.plan.members.iter().filter(is_clean).count();
        let data = if self.plan.view.ephemeral {
            "its data is gone".to_owned()
        } else {
            let word = shell_word(self.plan.home.directory().display());
            format!("locks and data stay; resume with: quorlock cluster up --dir {word}")
        };
        format!("Cluster '{name}' is down: {clean} of {count} nodes stopped cleanly, {data}")
    }

    pub(super) fn view(&self) -> LocalCluster {
        LocalCluster {
            nodes: self.plan.members.iter().map(ClusterMember::view).collect(),
            ..self.plan.view.clone()
        }
    }
}

/// Waits until the user of the table ends the cluster, or until the table has lost its terminal.
async fn end_of(table: &mut Option<Table>) -> io::Result<()> {
    let Some(running) = table else {
        return pending().await;
    };
    let ended = running.await;
    *table = None;
    ended.map_err(io::Error::other).flatten()
}

/// Starts a node, and has it watched.
pub(super) async fn start(
    member: &mut ClusterMember,
    observations: &mpsc::Sender<ProcessObservation>,
) -> Result<(), Failure> {
    let number = member.entry.number;
    let started = member.start().await;
    started.map_err(|error| Failure::failed(format!("cannot start node {number}: {error}")))?;
    member.serving = ServingState::Silent;
    let (port, life) = (member.direct_port(), Arc::downgrade(&member.life));
    let observations = observations.clone();
    spawn_local(watch(number, port, member.cacert(), life, observations));
    Ok(())
}

/// Asks a node how it is until it serves or is started anew, or until no caller waits for the answer.
async fn watch(
    number: u16,
    port: u16,
    cacert: Option<PathBuf>,
    life: Weak<Life>,
    observations: mpsc::Sender<ProcessObservation>,
) {
    while life.strong_count() > 0 {
        let state = info::ask(port, cacert.as_deref()).await;
        let serves = state.is_serving();
        let observation = ProcessObservation {
            number,
            life: Weak::clone(&life),
            state,
        };
        if observations.send(observation).await.is_err() || serves {
            return;
        }
        tokio::time::sleep(WATCH_STEP).await;
    }
}

/// How often the load is shown line by line.
const LOAD_STEP: Duration = Duration::from_secs(10);
const WATCH_STEP: Duration = Duration::from_millis(100);
const REAP_STEP: Duration = Duration::from_millis(100);
const LAST_ANSWERS_TIME: Duration = Duration::from_secs(1);
const LOG_LINES_SHOWN: usize = 5;
