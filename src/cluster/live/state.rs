//! All that a live table shows, as plain data.

use std::collections::VecDeque;

use crate::cluster::snapshot::Snapshot;

/// What is on the screen, and which node the keys mean.
#[derive(Debug)]
pub(super) struct State {
    /// None until the first look is over.
    pub(super) snapshot: Option<Snapshot>,
    /// Number of the node that keys act on.
    pub(super) selected: u16,
    pub(super) page: Page,
    /// The last events, the newest last.
    pub(super) events: VecDeque<String>,
    /// What the supervisor was asked to do and has not done yet.
    pub(super) pending: Option<String>,
    /// Whether keys change the cluster; else they only end the table.
    pub(super) can_act: bool,
}

/// What fills the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Table,
    Help,
    /// The lines to paste, which stand on the terminal behind the table.
    Banner,
}

impl State {
    pub(super) fn new(can_act: bool) -> Self {
        Self {
            snapshot: None,
            selected: 1,
            page: Page::Table,
            events: VecDeque::new(),
            pending: None,
            can_act,
        }
    }

    /// Adds an event, on one line, and forgets the oldest.
    pub(super) fn note(&mut self, event: &str) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event.replace('\n', "; "));
    }
}

pub(super) const EVENTS: usize = 5;
