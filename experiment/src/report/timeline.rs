//! A trial as lanes: what each node did, what each client was told, for the lock of the directed schedule.

use crate::checks::holds;
use crate::history::{Occurrence, TrialRecord, Who};
use crate::trial::Trial;

/// The lanes of one trial.
pub(super) struct Timeline {
    pub(super) title: String,
    /// The last moment that is shown.
    pub(super) until_ns: u64,
    pub(super) from_ns: u64,
    pub(super) lanes: Vec<Lane>,
    /// Spans with two holders at once.
    pub(super) overlaps: Vec<(u64, u64)>,
    /// When the fault began.
    pub(super) fault_ns: Option<u64>,
}

/// A node or a client.
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) is_node: bool,
    pub(super) spans: Vec<StateSpan>,
}

/// What a node or a client is in for a while.
pub(super) struct StateSpan {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) state: State,
}

impl StateSpan {
    fn new(from_ns: u64, to_ns: u64, state: State) -> StateSpan {
        StateSpan {
            from_ns,
            to_ns,
            state,
        }
    }
}

/// What it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Holds the lock, or grants it: client A.
    HeldByA,
    /// Client B.
    HeldByB,
    /// Does not run.
    Down,
    /// In its restart delay.
    Waiting,
    /// Stands still.
    Paused,
}

/// The lock that is shown.
pub(super) const LOCK: &str = "directed";

impl Timeline {
    pub(super) fn of(trial: &Trial, records: &[TrialRecord]) -> Timeline {
        let time_of = |wanted: &dyn Fn(&Occurrence) -> bool| {
            let found = records.iter().find(|record| wanted(&record.what));
            found.map(|record| record.at_ns)
        };
        let fault_ns = time_of(&|what| matches!(what, Occurrence::FaultBegins));
        let healed_ns = time_of(&|what| matches!(what, Occurrence::Healed { .. }));
        let holds: Vec<_> = holds(records)
            .into_iter()
            .filter(|hold| hold.lock == LOCK && letter(&hold.who).is_some())
            .collect();
        let begin_ns = holds.first().map_or(0, |hold| hold.from_ns);
        let last_ns = records.last().map_or(0, |record| record.at_ns);
        let until_ns = healed_ns.unwrap_or(last_ns).max(begin_ns + 1);
        let mut lanes = Vec::new();
        // A primary that stands for one node has a replica beside it.
        let named = records.iter().filter_map(|record| match record.who {
            Who::Node(number) => Some(number),
            _ => None,
        });
        let last = named.fold(trial.cell.nodes, u8::max);
        for node in 1..=last {
            let mut spans = granted(records, node, &holds, until_ns);
            spans.extend(states(records, &Who::Node(node), until_ns));
            lanes.push(Lane {
                name: format!("node {node}"),
                is_node: true,
                spans,
            });
        }
        for name in ["A", "B"] {
            let who = Who::Client(name.to_owned());
            let own = holds.iter().filter(|hold| hold.who == who);
            let mut spans: Vec<StateSpan> = own
                .filter_map(|hold| {
                    let to_ns = hold.valid_to_ns.min(until_ns);
                    Some(StateSpan::new(hold.from_ns, to_ns, letter(&hold.who)?))
                })
                .collect();
            spans.extend(states(records, &who, until_ns));
            lanes.push(Lane {
                name: format!("client {name}"),
                is_node: false,
                spans,
            });
        }
        let violations = trial.verdict.violations.iter();
        let own = violations.filter(|found| found.lock == LOCK);
        let margin_ns = (until_ns - begin_ns) / 20;
        Timeline {
            title: trial.cell.id(),
            from_ns: begin_ns.saturating_sub(margin_ns),
            until_ns,
            lanes,
            overlaps: own
                .map(|found| (found.from_ns, found.from_ns + found.length_ns))
                .collect(),
            fault_ns,
        }
    }
}

fn letter(who: &Who) -> Option<State> {
    match who {
        Who::Client(name) if name == "A" => Some(State::HeldByA),
        Who::Client(name) if name == "B" => Some(State::HeldByB),
        _ => None,
    }
}

/// When a node had the lock: from its grant to the end of the hold, without the time in which it was down, and no longer
/// once it has forgotten it.
fn granted(
    records: &[TrialRecord],
    node: u8,
    holds: &[crate::checks::HoldInterval],
    until_ns: u64,
) -> Vec<StateSpan> {
    let of_node = |record: &&TrialRecord| record.who == Who::Node(node);
    let mut spans = Vec::new();
    for hold in holds {
        let Some(state) = letter(&hold.who) else {
            continue;
        };
        let granted = records.iter().filter(of_node).any(
            |record| matches!(record.what, Occurrence::Granted { hold: of, .. } if of == hold.hold),
        );
        if !granted {
            continue;
        }
        let forgot = records.iter().filter(of_node).find(
            |record| matches!(record.what, Occurrence::Forgot { hold: of, .. } if of == hold.hold),
        );
        let end_ns = hold.valid_to_ns.min(until_ns);
        let mut downtimes = states(records, &Who::Node(node), until_ns);
        downtimes.retain(|span| {
            span.state == State::Down && span.from_ns > hold.from_ns && span.from_ns < end_ns
        });
        // What it forgot is noted once it runs again: its last downtime before that took it.
        let fatal = forgot.and_then(|forgot| {
            let is_before = |span: &StateSpan| span.from_ns < forgot.at_ns;
            downtimes.iter().rposition(is_before)
        });
        downtimes.truncate(fatal.map_or(downtimes.len(), |fatal| fatal + 1));
        let mut from_ns = hold.from_ns;
        for down in &downtimes {
            spans.push(StateSpan::new(from_ns, down.from_ns, state));
            from_ns = down.to_ns;
        }
        if fatal.is_none() && from_ns < end_ns {
            spans.push(StateSpan::new(from_ns, end_ns, state));
        }
    }
    spans
}

/// When somebody was down, waited or stood still.
fn states(records: &[TrialRecord], who: &Who, until_ns: u64) -> Vec<StateSpan> {
    let mut spans: Vec<StateSpan> = Vec::new();
    let mut open: Option<(u64, State)> = None;
    for record in records.iter().filter(|record| record.who == *who) {
        let next = match record.what {
            Occurrence::Killed | Occurrence::PowerLost | Occurrence::Stopped => Some(State::Down),
            Occurrence::Waiting { .. } => Some(State::Waiting),
            Occurrence::Paused => Some(State::Paused),
            Occurrence::Serving | Occurrence::Resumed => None,
            _ => continue,
        };
        if let Some((from_ns, state)) = open.take() {
            let to_ns = record.at_ns.min(until_ns);
            spans.push(StateSpan::new(from_ns, to_ns, state));
        }
        open = next.map(|state| (record.at_ns, state));
    }
    if let Some((from_ns, state)) = open {
        spans.push(StateSpan::new(from_ns, until_ns, state));
    }
    spans.retain(|span| span.from_ns < span.to_ns);
    spans
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::checks::judge;
    use crate::engine::Measured;

    const MS: u64 = 1_000_000;

    fn record(at_ms: u64, who: Who, what: Occurrence) -> TrialRecord {
        TrialRecord {
            at_ns: at_ms * MS,
            who,
            what,
        }
    }

    fn acquired(at_ms: u64, name: &str, hold: u64, until_ms: u64) -> TrialRecord {
        let what = Occurrence::Acquired {
            lock: LOCK.to_owned(),
            hold,
            token: String::new(),
            valid_until_ns: until_ms * MS,
            nodes: Vec::new(),
            fence: None,
        };
        record(at_ms, Who::Client(name.to_owned()), what)
    }

    /// Node 3 loses A's lock in a power cut, and B takes it.
    pub(in crate::report) fn amnesia() -> (Trial, Vec<TrialRecord>) {
        let mut records = vec![acquired(100, "A", 1, 1100)];
        let lock = || LOCK.to_owned();
        for node in 1..=3 {
            let what = Occurrence::Granted {
                lock: lock(),
                hold: 1,
            };
            records.push(record(101, Who::Node(node), what));
        }
        records.push(record(200, Who::Harness, Occurrence::FaultBegins));
        records.push(record(210, Who::Node(3), Occurrence::PowerLost));
        records.push(record(220, Who::Node(3), Occurrence::Started));
        records.push(record(240, Who::Node(3), Occurrence::Serving));
        let what = Occurrence::Forgot {
            lock: lock(),
            hold: 1,
        };
        records.push(record(241, Who::Node(3), what));
        records.push(acquired(300, "B", 2, 1300));
        for node in 3..=5 {
            let what = Occurrence::Granted {
                lock: lock(),
                hold: 2,
            };
            records.push(record(301, Who::Node(node), what));
        }
        records.push(record(
            1400,
            Who::Harness,
            Occurrence::Healed { bound_ns: MS },
        ));
        let trial = Trial {
            cell: "no/off/power-loss-one/5".parse().expect("a cell"),
            number: 1,
            seed: 1,
            engine: "real".to_owned(),
            measured: Measured::default(),
            verdict: judge(&records),
        };
        (trial, records)
    }

    fn spans(timeline: &Timeline, lane: usize) -> Vec<(u64, u64, State)> {
        let spans = timeline.lanes[lane].spans.iter();
        spans
            .map(|span| (span.from_ns / MS, span.to_ns / MS, span.state))
            .collect()
    }

    #[test]
    fn lanes_show_who_had_the_lock_where_and_when_two_had_it() {
        let (trial, records) = amnesia();
        let timeline = Timeline::of(&trial, &records);
        assert_eq!(timeline.lanes.len(), 7);
        assert_eq!(spans(&timeline, 0), [(100, 1100, State::HeldByA)]);
        assert_eq!(
            spans(&timeline, 2),
            [
                (100, 210, State::HeldByA),
                (300, 1300, State::HeldByB),
                (210, 240, State::Down)
            ]
        );
        assert_eq!(spans(&timeline, 5), [(100, 1100, State::HeldByA)]);
        assert_eq!(spans(&timeline, 6), [(300, 1300, State::HeldByB)]);
        assert_eq!(timeline.overlaps, [(300 * MS, 1100 * MS)]);
    }

    #[test]
    fn each_downtime_cuts_a_grant_until_one_takes_it() {
        let (trial, mut records) = amnesia();
        let forgot = records
            .iter()
            .position(|record| matches!(record.what, Occurrence::Forgot { .. }))
            .expect("it is forgotten");
        records.remove(forgot);
        for (at_ms, what) in [(400, Occurrence::Killed), (430, Occurrence::Serving)] {
            records.push(record(at_ms, Who::Node(1), what));
        }
        for (at_ms, what) in [(600, Occurrence::PowerLost), (640, Occurrence::Serving)] {
            records.push(record(at_ms, Who::Node(1), what));
        }
        records.sort_by_key(|record| record.at_ns);
        let has_it = |records: &[TrialRecord], lane| -> Vec<(u64, u64)> {
            let spans = spans(&Timeline::of(&trial, records), lane).into_iter();
            let own = spans.filter(|(_, _, state)| *state == State::HeldByA);
            own.map(|(from, to, _)| (from, to)).collect()
        };
        assert_eq!(has_it(&records, 0), [(100, 400), (430, 600), (640, 1100)]);
        assert_eq!(has_it(&records, 2), [(100, 210), (240, 1100)]);
        let lock = LOCK.to_owned();
        let forgot = record(641, Who::Node(1), Occurrence::Forgot { lock, hold: 1 });
        records.insert(records.len() - 1, forgot);
        assert_eq!(has_it(&records, 0), [(100, 400), (430, 600)]);
    }
}
