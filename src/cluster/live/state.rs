//! All that a live table shows, as plain data.

use std::collections::VecDeque;
use std::time::Duration;

use crate::cluster::latencies::RecentLatencies;
use crate::cluster::load::CallerFigures;
use crate::cluster::snapshot::Snapshot;
use crate::duration::whole_ms;

/// What is on the screen, and which node the keys mean.
#[derive(Debug, Default)]
pub(super) struct State {
    /// None until the first look is over.
    pub(super) snapshot: Option<Snapshot>,
    /// Of the nodes, in their order.
    pub(super) latencies: Vec<RecentLatencies>,
    /// Number of the node that keys act on.
    pub(super) selected: u16,
    pub(super) page: Page,
    /// The last lines of the log of the node that is selected, where they are shown.
    pub(super) log: String,
    /// The last events, the newest last.
    pub(super) events: VecDeque<String>,
    /// What the supervisor was asked to do and has not done yet.
    pub(super) pending: Option<String>,
    /// Callers that take locks, if any do.
    pub(super) load: Option<LoadShown>,
    /// Whether keys change the cluster; else they only end the table.
    pub(super) can_act: bool,
}

/// What callers have come to, and how fast.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadShown {
    pub(super) figures: CallerFigures,
    pub(super) taken_per_second: u64,
    /// When the rate was taken, and how many locks had been held by then.
    since: (Duration, u64),
}

/// What fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    Table,
    Help,
    Log,
    /// The lines to paste, which stand on the terminal behind the table.
    Banner,
}

impl State {
    pub(super) fn new(can_act: bool) -> Self {
        Self {
            selected: 1,
            can_act,
            ..Self::default()
        }
    }

    /// Takes in a look at the nodes.
    pub(super) fn look(&mut self, snapshot: Snapshot) {
        let count = snapshot.answers.len();
        self.latencies.resize_with(count, RecentLatencies::default);
        for (recent, answer) in self.latencies.iter_mut().zip(&snapshot.answers) {
            recent.look(answer.figures().map(|figures| &figures.latencies));
        }
        self.snapshot = Some(snapshot);
    }

    /// Takes in what callers have come to by now.
    pub(super) fn look_at_load(&mut self, figures: Option<CallerFigures>, now: Duration) {
        self.load = figures.map(|figures| {
            let since = self.load.map_or((now, figures.taken), |load| load.since);
            let rate = self.load.map_or(0, |load| load.taken_per_second);
            let passed = now.saturating_sub(since.0);
            let (since, taken_per_second) = match passed < RATE_STEP {
                true => (since, rate),
                false => {
                    let taken = figures.taken.saturating_sub(since.1);
                    let rate = taken.saturating_mul(1_000) / whole_ms(passed).max(1);
                    ((now, figures.taken), rate)
                }
            };
            LoadShown {
                figures,
                taken_per_second,
                since,
            }
        });
    }

    /// Adds an event, on one line, and forgets the oldest.
    pub(super) fn note(&mut self, event: &str) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event.replace('\n', "; "));
    }
}

const EVENTS: usize = 5;
const RATE_STEP: Duration = Duration::from_secs(1);
