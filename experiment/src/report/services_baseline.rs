//! A comparison of services beside an earlier one: what changed, and where no change was detected.

use super::comparison::baseline_text;
use crate::compare::{Blow, Comparison, LoadFigures, ServiceSummary, Survival};

/// A line per service that one of them has measured.
pub fn services_baseline_text(comparison: &Comparison, baseline: &Comparison) -> String {
    baseline_text(lines(comparison, baseline))
}

pub(super) fn lines(comparison: &Comparison, baseline: &Comparison) -> Vec<String> {
    let row_of = |of: &Comparison, wanted: &ServiceSummary| {
        let mut rows = of.services.iter();
        rows.find(|row| row.service == wanted.service).cloned()
    };
    let mut lines = Vec::new();
    for now in &comparison.services {
        lines.push(match row_of(baseline, now) {
            Some(before) => line(&before, now),
            None => format!("{}: only in this run", now.service),
        });
    }
    for before in &baseline.services {
        if row_of(comparison, before).is_none() {
            lines.push(format!("{}: only in the baseline", before.service));
        }
    }
    lines
}

fn line(before: &ServiceSummary, now: &ServiceSummary) -> String {
    let mut parts = vec![
        format!("locks/s {}", change(&before.apart, &now.apart)),
        format!("one lock/s {}", change(&before.together, &now.together)),
    ];
    for blow in Blow::ALL {
        let violated = |row: &ServiceSummary| row.fault(blow).map(holders);
        let (was, is) = (violated(before), violated(now));
        if let (Some(was), Some(is)) = (was, is)
            && was != is
        {
            parts.push(format!("{blow}: {is} (was {was})"));
        }
    }
    format!("{}: {}", now.service, parts.join("; "))
}

/// How a rate changed; ranges of rounds that overlap show no change.
fn change(before: &Option<LoadFigures>, now: &Option<LoadFigures>) -> String {
    match (before, now) {
        (Some(before), Some(now)) => {
            let ([was, lowest, highest], [is, low, high]) = (before.rate, now.rate);
            match low <= highest && lowest <= high {
                true => "no change detected".to_owned(),
                false => format!("x {:.2}", is / was.max(f64::MIN_POSITIVE)),
            }
        }
        _ => "not comparable".to_owned(),
    }
}

fn holders(fault: &Survival) -> &'static str {
    match (fault.trials, fault.violated) {
        (0, _) => "not tried",
        (_, 0) => "one holder",
        _ => "two holders",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::BlowOutcome;
    use crate::compare::summary::tests::{comparison, outcome};

    #[test]
    fn a_rate_changed_where_no_round_of_one_run_is_among_those_of_the_other() {
        let before = comparison(&outcome());
        assert_eq!(
            lines(&before, &before)[0],
            "quorlock/always: locks/s no change detected; one lock/s no change detected"
        );
        let mut faster = outcome();
        for round in &mut faster.rounds {
            round.apart.cycles *= 4;
        }
        let fault = &mut faster.faults[0];
        (fault.violated, fault.outcome) = (1, BlowOutcome::TwoHolders);
        faster
            .rounds
            .retain(|round| round.service != before.services[1].service);
        let now = comparison(&faster);
        assert_eq!(
            lines(&now, &before),
            [
                "quorlock/always: locks/s x 4.00; one lock/s no change detected; \
                 power-loss-worst-case: two holders (was one holder)",
                "etcd/1: locks/s x 4.00; one lock/s no change detected",
                "quorlock/no: only in the baseline",
            ]
        );
        let alone = lines(&before, &now);
        assert!(
            alone.contains(&"quorlock/no: only in this run".to_owned()),
            "{alone:?}"
        );
    }
}
