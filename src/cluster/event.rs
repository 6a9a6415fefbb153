//! What a supervisor reports while it runs: one line per event.
//!
//! People get `[n3] text`, programs get one JSON object per line. A detached supervisor writes
//! to a file in the cluster's directory. Escape codes are only ever sent to a terminal.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::home::ClusterHome;
use super::queued_output::QueuedOutput;
use crate::output::{self, ERASE_LINE, Format};

/// What a live table is given in place of lines.
#[derive(Debug)]
pub(super) enum Announcement {
    /// Of passing interest.
    Event(String),
    /// To be left on the terminal.
    Text(String),
}

/// Where lines go.
#[derive(Debug)]
pub(super) enum EventTarget {
    /// The log of a supervisor in the background.
    Log(File),
    /// Standard output.
    Output(QueuedOutput),
}

impl EventTarget {
    /// Standard output, where lines go there.
    pub(super) fn output(&self) -> Option<&QueuedOutput> {
        match self {
            Self::Log(_) => None,
            Self::Output(output) => Some(output),
        }
    }
}

/// Where events go.
#[derive(Debug)]
pub(super) struct Reporter {
    format: Format,
    target: EventTarget,
    /// A live table that has the terminal, as long as it is there.
    table: Option<mpsc::Sender<Announcement>>,
    /// Whether a line that will be rewritten stands on the terminal.
    is_provisional: bool,
}

impl Reporter {
    pub(super) fn new(format: Format, target: EventTarget) -> Self {
        Self {
            format,
            target,
            table: None,
            is_provisional: false,
        }
    }

    /// From now on this table shows the events, until it ends.
    pub(super) fn show_on(&mut self, table: mpsc::Sender<Announcement>) {
        self.table = Some(table);
    }

    /// Reports something that happened to a node.
    pub(super) fn node(&mut self, number: u16, text: impl fmt::Display) {
        match self.format {
            Format::Text => {
                self.announce(Announcement::Event(format!("[n{number}] {text}")));
            }
            Format::Json => self.write(json!({ "node": number, "event": text.to_string() })),
        }
    }

    /// Reports something that happened to the cluster.
    pub(super) fn cluster(&mut self, text: impl fmt::Display) {
        match self.format {
            Format::Text => self.announce(Announcement::Event(text.to_string())),
            Format::Json => self.write(json!({ "event": text.to_string() })),
        }
    }

    /// Shows the state of something that goes on, on a terminal only; the next line replaces it.
    pub(super) fn provisional(&mut self, text: impl fmt::Display) {
        if self.has_table() || self.format != Format::Text {
            return;
        }
        if let EventTarget::Output(terminal) = &self.target
            && output::is_watched()
            && terminal.is_idle()
        {
            let _closed = terminal.send(format!("{ERASE_LINE}{text}").as_bytes());
            self.is_provisional = true;
        }
    }

    fn has_table(&self) -> bool {
        self.table.as_ref().is_some_and(|table| !table.is_closed())
    }

    fn announce(&mut self, announcement: Announcement) {
        let sent = match &self.table {
            Some(table) => table.try_send(announcement),
            None => Err(TrySendError::Closed(announcement)),
        };
        // A table that cannot keep up misses it.
        if let Err(TrySendError::Closed(Announcement::Event(text) | Announcement::Text(text))) =
            sent
        {
            self.print(&text);
        }
    }

    /// Writes text that is not an event, such as the banner.
    pub(super) fn write(&mut self, text: impl fmt::Display) {
        self.announce(Announcement::Text(text.to_string()));
    }

    fn print(&mut self, text: &str) {
        match &mut self.target {
            EventTarget::Log(file) => {
                let _full_disk = writeln!(file, "{text}");
            }
            // Who does not read misses the line, once enough is waiting.
            EventTarget::Output(output) if output.has_room() => {
                let erase = match std::mem::take(&mut self.is_provisional) {
                    true => ERASE_LINE,
                    false => "",
                };
                let was_idle = output.is_idle();
                let _closed = output.send(format!("{erase}{text}\n").as_bytes());
                // Who reads has the line before the reply to what has caused it, or the ready file.
                if was_idle {
                    output.wait(LINE_TIME);
                }
            }
            EventTarget::Output(_) => {}
        }
    }
}

/// The log of a supervisor in the background.
pub(super) fn open_log(home: &ClusterHome) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).open(home.events_log())
}

const LINE_TIME: Duration = Duration::from_millis(200);
