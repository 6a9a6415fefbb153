//! The lanes of a trial for a terminal, in a hundred columns.

use super::timeline::{LOCK, State, StateSpan, Timeline};
use crate::checks::TrialVerdict;
use crate::history::{Occurrence, TrialRecord};
use crate::trial::Trial;

/// The timeline of the lock of the directed schedule.
pub fn timeline_text(trial: &Trial, records: &[TrialRecord]) -> String {
    let timeline = Timeline::of(trial, records);
    let length_ns = timeline.until_ns.saturating_sub(timeline.from_ns).max(1);
    let column = |at_ns: u64| {
        let past_ns = u128::from(at_ns.saturating_sub(timeline.from_ns));
        let column = past_ns * COLUMNS as u128 / u128::from(length_ns);
        usize::try_from(column).unwrap_or(COLUMNS).min(COLUMNS - 1)
    };
    let mut text = String::new();
    for lane in &timeline.lanes {
        let empty = if lane.is_node { '.' } else { ' ' };
        let mut row = vec![empty; COLUMNS];
        for StateSpan {
            from_ns,
            to_ns,
            state,
        } in &lane.spans
        {
            let (from, to) = (column(*from_ns), column(*to_ns));
            row[from..=to].fill(sign(*state));
        }
        text.push_str(&format!(
            "{:<9} {}\n",
            lane.name,
            row.iter().collect::<String>()
        ));
    }
    let mut row = vec![' '; COLUMNS];
    for (from_ns, to_ns) in &timeline.overlaps {
        row[column(*from_ns)..=column(*to_ns)].fill('!');
    }
    if let Some(fault_ns) = timeline.fault_ns {
        row[column(fault_ns)] = '^';
    }
    text.push_str(&format!(
        "{:<9} {}\n",
        "",
        row.iter().collect::<String>().trim_end()
    ));
    let seconds = length_ns / 1_000_000;
    text.push_str(&format!(
        "A, B: has the lock   x: down   ~: restart delay   #: stands still   ^: fault   !: two holders\n\
         {seconds} ms from edge to edge; "
    ));
    match trial
        .verdict
        .violations
        .iter()
        .map(|found| found.length_ns)
        .max()
    {
        Some(ns) => text.push_str(&format!(
            "two clients held the lock for {} ms.",
            ns / 1_000_000
        )),
        None => text.push_str("never two holders."),
    }
    text.push_str(&updates(&trial.verdict));
    for record in records {
        text.push_str(&stored(&record.what, trial.cell.fences.are_on()));
    }
    text
}

/// What became of updates, and of holders that came late.
fn updates(verdict: &TrialVerdict) -> String {
    let mut text = String::new();
    if verdict.lost_updates > 0 {
        let lost = verdict.lost_updates;
        text.push_str(&format!(
            " {lost} update of what the lock protects was lost."
        ));
    }
    match verdict.refused_holders {
        0 => {}
        1 => text.push_str(" A write with an old fence was refused."),
        refused => text.push_str(&format!(
            " {refused} writers with an old fence were refused."
        )),
    }
    text
}

/// What the database came to, where it shows that an update is missing, or that fences have kept them all.
fn stored(what: &Occurrence, is_fenced: bool) -> String {
    match what {
        Occurrence::Stored {
            lock,
            writes,
            count,
        } if is_fenced && lock == LOCK && count == writes => format!(
            "\nUpdates of '{lock}' that the database acknowledged: {writes}. It holds {count}: none is missing."
        ),
        Occurrence::Stored {
            lock,
            writes,
            count,
        } if count < writes => format!(
            "\nThe database acknowledged {writes} updates of '{lock}'. Each added one to what its writer had read, and\n\
             it holds {count}: {} missing.",
            match writes - count {
                1 => "1 update is".to_owned(),
                missing => format!("{missing} updates are"),
            }
        ),
        _ => String::new(),
    }
}

fn sign(state: State) -> char {
    match state {
        State::HeldByA => 'A',
        State::HeldByB => 'B',
        State::Down => 'x',
        State::Waiting => '~',
        State::Paused => '#',
    }
}

const COLUMNS: usize = 88;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Who;
    use crate::report::timeline::tests::amnesia;

    #[test]
    fn an_update_that_is_missing_in_the_database_is_told() {
        let (trial, mut records) = amnesia();
        let stored = |writes, count| TrialRecord {
            at_ns: 0,
            who: Who::Harness,
            what: Occurrence::Stored {
                lock: "directed".to_owned(),
                writes,
                count,
            },
        };
        records.push(stored(2, 2));
        assert!(!timeline_text(&trial, &records).contains("missing"));
        for (count, part) in [
            (2, "holds 2: 1 update is missing"),
            (1, "holds 1: 2 updates are missing"),
        ] {
            records.push(stored(3, count));
            let text = timeline_text(&trial, &records);
            assert!(text.contains(part), "{text}");
            assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        }
    }

    #[test]
    fn two_holders_are_marked_under_both() {
        let (trial, records) = amnesia();
        let text = timeline_text(&trial, &records);
        let lines: Vec<&str> = text.lines().collect();
        let of = |sign: char, line: usize| {
            let found = lines[line].char_indices().skip(10);
            let columns: Vec<usize> = found
                .filter(|(_, it)| *it == sign)
                .map(|(at, _)| at)
                .collect();
            (columns.first().copied(), columns.last().copied())
        };
        assert_eq!(of('!', 7).0, of('B', 6).0, "{text}");
        assert_eq!(of('!', 7).1, of('A', 5).1, "{text}");
        assert!(
            lines[2].contains("xx") && text.contains("for 800 ms"),
            "{text}"
        );
        assert!(lines.iter().all(|line| line.len() <= 100), "{text}");
    }
}
