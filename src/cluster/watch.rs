//! `quorlock cluster status --watch`: the state of a cluster, again and again.
//!
//! On a terminal it is the table of `quorlock cluster up`, with no keys that change the cluster. Elsewhere it is what
//! `quorlock cluster status` prints, once a second. It ends with the cluster, with the exit code of its last look.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::ClusterDirectory;
use super::event::Announcement;
use super::home::ClusterHome;
use super::live::{self, LOOK_STEP, LiveSources, Screen, unusable};
use super::queued_output::QueuedOutput;
use super::snapshot::Snapshot;
use super::status::{self, StatusReport};
use crate::clock;
use crate::exit_code::Failure;
use crate::output::{Format, was_written};
use crate::runtime;
use crate::signals::CaughtSignals;

/// Shows the state of a cluster until the user has seen enough.
pub(super) fn run(cluster: &ClusterDirectory, format: Format) -> Result<ExitCode, Failure> {
    let home = cluster.find()?;
    if format == Format::Text && home.is_running() && Screen::is_available() {
        let terminal = QueuedOutput::open().map_err(unusable)?;
        let shown = show_table(&home, &terminal);
        terminal.finish();
        shown?;
        let report = StatusReport::of(&home)?;
        let _terminal_is_gone = terminal.send(format!("{}\n", report.text).as_bytes());
        terminal.finish();
        return Ok(report.code);
    }
    loop {
        let report = StatusReport::of(&home)?;
        let text = format!("{}\n", report.text);
        if let Err(error) = format.deliver(text.as_bytes(), &report.value) {
            return was_written(Err(error)).map(|()| report.code);
        }
        if !report.is_running {
            return Ok(report.code);
        }
        clock::block_for(LINES_STEP);
    }
}

fn show_table(home: &ClusterHome, terminal: &QueuedOutput) -> Result<(), Failure> {
    let (seen, looks) = watch::channel(None);
    let (announcer, announcements) = mpsc::channel(1);
    let sources = LiveSources {
        load: None,
        looks,
        announcements,
        supervisor: None,
    };
    let watched = home.clone();
    runtime::block_on(async {
        let mut ends = CaughtSignals::that_end().map_err(unusable)?;
        let screen = Screen::open(terminal.clone()).map_err(unusable)?;
        // The supervisor is asked over a socket that blocks, and may be busy for a while.
        thread::spawn(move || look_on(&watched, &seen, &announcer));
        tokio::select! {
            _ = ends.next() => Ok(()),
            shown = live::show(screen, sources) => shown.map_err(unusable),
        }
    })
}

/// Looks at the cluster twice a second, until it has ended or no table shows it.
fn look_on(
    home: &ClusterHome,
    seen: &watch::Sender<Option<Snapshot>>,
    announcer: &mpsc::Sender<Announcement>,
) {
    while home.is_running() && !seen.is_closed() {
        match status::look(home) {
            Ok(snapshot) => {
                seen.send_replace(Some(snapshot));
            }
            Err(failure) => {
                let _still_shown = announcer.try_send(Announcement::Event(failure.what));
            }
        }
        clock::block_for(LOOK_STEP);
    }
}

const LINES_STEP: Duration = Duration::from_secs(1);
