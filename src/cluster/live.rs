//! A table of a running cluster that is drawn again and again, with keys.
//!
//! A thin loop: what is shown is data ([`state`]), a key is an action by [`keys`], and [`table`] draws. Looks at the nodes are
//! taken beside it, so that a node that hangs holds up no key. What the keys do to nodes, the supervisor does, as for the
//! commands of other terminals. A terminal that is not read misses frames, and holds up nothing.

mod columns;
mod keys;
mod printable;
mod screen;
mod state;
mod table;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::control::{Call, ControlReply, ControlRequest};
use super::event::Announcement;
use super::load::LoadSwitch;
use super::logs;
use super::snapshot::Snapshot;
use super::view::LocalCluster;
use crate::clock;
use crate::exit_code::Failure;
use keys::KeyAction;
pub(super) use screen::Screen;
use state::{Page, State};

/// Where a table has its news from, and whom it asks.
#[derive(Debug)]
pub(super) struct LiveSources {
    /// The last look. The table ends when there will be no more.
    pub(super) looks: watch::Receiver<Option<Snapshot>>,
    pub(super) announcements: mpsc::Receiver<Announcement>,
    /// The supervisor, where keys may change the cluster.
    pub(super) supervisor: Option<mpsc::Sender<Call>>,
    /// Callers that take locks, if any do.
    pub(super) load: Option<LoadSwitch>,
}

/// Shows the table until the user ends it, or until there are no more looks.
///
/// # Errors
/// When the terminal is lost.
pub(super) async fn show(screen: Screen, sources: LiveSources) -> io::Result<()> {
    let LiveSources {
        mut looks,
        mut announcements,
        supervisor,
        load,
    } = sources;
    let mut pressed = read_keys();
    let mut events = Vec::new();
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let mut live = Live {
        screen,
        state: State::new(supervisor.is_some()),
        supervisor,
        answer: None,
        load,
    };
    loop {
        // A frame is what has changed since the last one, so none may be left out once it is drawn.
        let is_drawn = live.screen.is_written();
        if is_drawn {
            live.draw()?;
        }
        tokio::select! {
            () = live.screen.written(), if !is_drawn => {}
            // Without a frame after each of them, so that what is pasted holds up no key behind it.
            count = pressed.recv_many(&mut events, KEYS_MAX) => {
                if count == 0 {
                    // Without keys nobody could end the table.
                    return Err(io::Error::other("the terminal cannot be read"));
                }
                for event in events.drain(..) {
                    if live.take_event(&event) {
                        return Ok(());
                    }
                }
            }
            _ = continued.recv() => live.screen.retake()?,
            look = looks.changed() => match look {
                Ok(()) => {
                    let snapshot = looks.borrow_and_update().clone();
                    live.look(snapshot);
                    live.state.look_at_load(live.load.as_ref().map(LoadSwitch::figures), clock::now());
                }
                Err(_) => return Ok(()),
            },
            Some(announcement) = announcements.recv() => {
                live.announce(announcement)?;
                // Those that are there already stay beside each other on the terminal's own screen.
                while let Ok(announcement) = announcements.try_recv() {
                    live.announce(announcement)?;
                }
            }
            answer = answered(&mut live.answer) => live.take_answer(answer),
        }
    }
}

struct Live {
    screen: Screen,
    state: State,
    supervisor: Option<mpsc::Sender<Call>>,
    answer: Option<oneshot::Receiver<ControlReply>>,
    load: Option<LoadSwitch>,
}

impl Live {
    fn draw(&mut self) -> io::Result<()> {
        match self.state.page {
            Page::Banner => self.screen.hint(),
            Page::Table | Page::Help | Page::Log => self.screen.draw(&self.state),
        }
    }

    fn look(&mut self, snapshot: Option<Snapshot>) {
        if let Some(snapshot) = snapshot {
            self.state.look(snapshot);
        }
        self.read_log();
    }

    /// Reads the end of the log that is shown.
    fn read_log(&mut self) {
        let state = &mut self.state;
        if state.page == Page::Log {
            let cluster = state.snapshot.as_ref().map(|snapshot| &snapshot.cluster);
            let node = cluster.and_then(|cluster| cluster.node(state.selected));
            state.log = node.map_or_else(String::new, |node| logs::tail(&node.log, LOG_LINES));
        }
    }

    fn announce(&mut self, announcement: Announcement) -> io::Result<()> {
        match announcement {
            Announcement::Event(text) => self.state.note(&text),
            Announcement::Text(text) => self.screen.print(&text)?,
        }
        Ok(())
    }

    /// Takes in a key; a change of size and what is pasted are none. Says whether it ends the table.
    fn take_event(&mut self, event: &Event) -> bool {
        let action = event
            .as_key_event()
            .and_then(|key| keys::press(&self.state, key));
        match action {
            None => {}
            Some(KeyAction::Quit) => return true,
            Some(KeyAction::Select(number)) => {
                self.state.selected = number;
                self.read_log();
            }
            Some(KeyAction::Show(page)) => {
                self.state.page = page;
                self.read_log();
            }
            Some(KeyAction::Say(words)) => self.state.note(words),
            Some(KeyAction::Ask(words, request)) => self.ask(words, request),
            Some(KeyAction::FlipLoad) => {
                if let Some(load) = &self.load {
                    load.flip();
                }
            }
        }
        false
    }

    fn ask(&mut self, words: &str, request: ControlRequest) {
        let (answer, answered) = oneshot::channel();
        let call = Call { request, answer };
        let sent = self.supervisor.as_ref().map(|it| it.try_send(call));
        if matches!(sent, Some(Ok(()))) {
            self.answer = Some(answered);
            self.state.pending = Some(format!("{words} node {}", self.state.selected));
        } else {
            self.state.note("the supervisor is busy; nothing was done");
        }
    }

    /// What was done is an event that the supervisor announces.
    fn take_answer(&mut self, answer: Option<ControlReply>) {
        self.answer = None;
        self.state.pending = None;
        if let Some(ControlReply::Refused { what, remedy, .. }) = answer {
            self.state.note(&format!("{what}; {remedy}"));
        }
    }
}

async fn answered(answer: &mut Option<oneshot::Receiver<ControlReply>>) -> Option<ControlReply> {
    match answer {
        Some(answer) => answer.await.ok(),
        None => pending().await,
    }
}

/// Reads the terminal in a thread of its own, until the receiver is gone.
fn read_keys() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(KEYS_MAX);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let event = match event::poll(KEY_STEP) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            if !event.is_ok_and(|event| sender.blocking_send(event).is_ok()) {
                return;
            }
        }
    });
    receiver
}

/// Looks at a cluster twice a second, for the table of its supervisor. A supervisor that is busy with a node is not waited for:
/// the nodes that were last known are asked meanwhile.
pub(super) async fn look_on(
    supervisor: mpsc::Sender<Call>,
    looks: watch::Sender<Option<Snapshot>>,
) {
    let mut steps = interval(LOOK_STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut asked, mut known) = (None, None);
    while !looks.is_closed() {
        steps.tick().await;
        let view = asked.get_or_insert_with(|| Box::pin(view(&supervisor)));
        if let Ok(view) = timeout(LOOK_STEP, view).await {
            asked = None;
            known = view;
        }
        if let Some(cluster) = &known {
            looks.send_replace(Some(Snapshot::take(cluster.clone()).await));
        }
    }
}

async fn view(supervisor: &mpsc::Sender<Call>) -> Option<LocalCluster> {
    let (answer, answered) = oneshot::channel();
    let request = ControlRequest::Status;
    supervisor.send(Call { request, answer }).await.ok()?;
    match answered.await.ok()? {
        ControlReply::Done { cluster, .. } => Some(*cluster),
        ControlReply::Refused { .. } => None,
    }
}

/// What is said where [`show`] or [`Screen::open`] fails.
pub(super) fn unusable(error: io::Error) -> Failure {
    Failure::failed(format!("this terminal cannot show a table: {error}"))
}

pub(super) const LOOK_STEP: Duration = Duration::from_millis(500);
const KEY_STEP: Duration = Duration::from_millis(100);
const KEYS_MAX: usize = 1024;
/// As many as a tall terminal has.
const LOG_LINES: usize = 200;
