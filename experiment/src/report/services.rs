//! Lock services side by side: the table for a terminal, the sentences, and the files of a comparison.

use super::table::{aligned, by_reason, dash};
use super::{chart, services_page};
use crate::cell::FsyncMode;
use crate::compare::{
    Blow, BlowOutcome, Comparison, Kind, LoadFigures, ServiceSummary, SkippedService, Survival,
};

/// The table and the sentences, for a terminal.
pub fn services_text(comparison: &Comparison) -> String {
    let mut rows: Vec<[String; 9]> = vec![HEADER.map(str::to_owned)];
    rows.extend(comparison.services.iter().map(row));
    let mut text = aligned(&rows, WORDS);
    text.push_str(
        "\none lock/s: callers that want the same lock. Killed, power cut: one holder at a time? holder gone: when somebody \
         else had its lock.\n\n",
    );
    for line in lines(comparison) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The report and its figures: names of files, and what they hold.
pub fn services_files(
    comparison: &Comparison,
    baseline: Option<&Comparison>,
) -> Vec<(String, Vec<u8>)> {
    let charts = chart::services(comparison);
    let page = services_page::page(comparison, &charts, baseline);
    let page = ("report.html".to_owned(), page.into_bytes());
    let charts = charts.into_iter().map(chart::Chart::into_file);
    std::iter::once(page).chain(charts).collect()
}

fn row(row: &ServiceSummary) -> [String; 9] {
    [
        row.service.to_string(),
        row.service.is().to_owned(),
        rate(row.apart.as_ref()),
        times(row.apart.as_ref()),
        rate(row.together.as_ref()),
        times(row.together.as_ref()),
        killed(row),
        survival(row.fault(Blow::PowerWorst)),
        survival(row.fault(Blow::HolderGone)),
    ]
}

pub(super) fn rate(figures: Option<&LoadFigures>) -> String {
    figures.map_or_else(dash, |figures| format!("{:.0}", figures.rate[0]))
}

pub(super) fn times(figures: Option<&LoadFigures>) -> String {
    figures.map_or_else(dash, |figures| {
        let [p50, p99] = [figures.p50_us[0] / 1e3, figures.p99_us[0] / 1e3];
        format!("{p50:.1} / {p99:.1}")
    })
}

/// Both ways of killing a process in one word: the worse one.
fn killed(row: &ServiceSummary) -> String {
    let faults = [Blow::KillWorst, Blow::Kill].map(|blow| row.fault(blow));
    let bad = |fault: &Option<&Survival>| fault.is_some_and(|it| it.violated > 0);
    let tried =
        |fault: &Option<&Survival>| fault.is_some_and(|it| it.outcome != BlowOutcome::NotTried);
    let worst = faults.iter().find(|fault| bad(fault));
    let shown = worst.or_else(|| faults.iter().find(|fault| tried(fault)));
    let shown = shown.or(faults.first());
    survival(shown.copied().flatten())
}

/// What a fault came to, in a few words.
pub(super) fn survival(fault: Option<&Survival>) -> String {
    match fault {
        None => dash(),
        Some(fault) => match (fault.outcome, fault.blow) {
            (BlowOutcome::NotTried, _) => "not tried".to_owned(),
            (BlowOutcome::TwoHolders, _) => format!("TWO, {:.0} ms", fault.overlap_ms),
            (_, Blow::HolderGone) => match fault.waited_ms {
                Some(ms) => format!("{ms:.0} ms"),
                None => dash(),
            },
            (BlowOutcome::OneHolder, _) => "one".to_owned(),
        },
    }
}

/// The sentences, the most important first: whether our own nodes broke a promise.
pub(super) fn lines(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    if !comparison.is_complete {
        lines.push("NOT COMPLETE: some steps of the plan were not carried out.".to_owned());
    }
    lines.extend(own(comparison));
    lines.extend(
        Kind::ALL
            .into_iter()
            .filter_map(|kind| speeds(comparison, kind)),
    );
    lines.extend(comparison.services.iter().filter_map(holders));
    lines.extend(comparison.services.iter().filter_map(order));
    let has_own = comparison.services.iter();
    let has_own = has_own
        .map(|row| row.service.kind())
        .any(|kind| kind == Kind::Quorlock);
    if has_own && comparison.is_of_debug_build() {
        let said = "This is a debug build of Quorlock, which is many times slower: its figures are nobody's.";
        lines.push(said.to_owned());
    }
    if !comparison.plan.has_enough_rounds() {
        let rounds = comparison.plan.rounds;
        lines.push(format!(
            "Only {rounds} of at least five rounds: the figures are a hint, not a comparison."
        ));
    }
    let failed = grouped(&comparison.failed);
    lines.extend(failed.into_iter().map(|line| format!("failed {line}")));
    let skipped = grouped(&comparison.skipped);
    if !skipped.is_empty() {
        let number = comparison.skipped.len();
        lines.push(format!(
            "Skipped: {number} of {}.",
            number + comparison.plan.services.len()
        ));
    }
    lines.extend(skipped.into_iter().map(|line| format!("skipped {line}")));
    lines
}

fn own(comparison: &Comparison) -> Option<String> {
    let own = comparison.services.iter();
    let own: Vec<&ServiceSummary> = own.filter(|row| row.service.is_ours()).collect();
    let faults = own.iter().flat_map(|row| &row.faults);
    let trials: u32 = faults.map(|fault| fault.trials).sum();
    let shared = own.iter().filter_map(|row| row.together.as_ref());
    let changes: u64 = shared.map(|figures| figures.cycles).sum();
    match comparison.defects() {
        _ if own.is_empty() => None,
        0 => Some(format!(
            "Quorlock: one holder at a time, in {trials} trials of faults and when the wanted lock changed hands {changes} \
             times."
        )),
        number => Some(format!(
            "DEFECT: {number} locks of Quorlock had two holders where none are allowed. Please report it with \
             summary.json."
        )),
    }
}

/// How many locks a second a product gave in each of its settings.
fn speeds(comparison: &Comparison, kind: Kind) -> Option<String> {
    let rows = comparison.services.iter();
    let settings: Vec<String> = rows
        .filter(|row| row.service.kind() == kind)
        .filter_map(|row| {
            let [rate, ..] = row.apart.as_ref()?.rate;
            let name = row.service.to_string();
            let setting = name.split_once('/').map(|(_, setting)| setting);
            Some(match (setting, kind) {
                (None, _) => format!("{rate:.0}"),
                (Some(system), Kind::Client) => format!("{rate:.0} on {system}"),
                (Some("1"), Kind::Etcd) => format!("{rate:.0} with 1 member"),
                (Some(members), Kind::Etcd) => format!("{rate:.0} with {members} members"),
                (Some(mode), _) if mode == FsyncMode::None.word() => {
                    format!("{rate:.0} without a log")
                }
                (Some(mode), _) => format!("{rate:.0} with fsync {mode}"),
            })
        })
        .collect();
    (!settings.is_empty()).then(|| format!("{kind}: locks a second: {}.", settings.join(", ")))
}

/// Where a service of others had two holders.
fn holders(row: &ServiceSummary) -> Option<String> {
    let bad = row.faults.iter().filter(|fault| fault.violated > 0);
    let mut cases: Vec<String> = bad
        .map(|fault| {
            let Survival {
                blow,
                violated,
                trials,
                overlap_ms,
                ..
            } = fault;
            format!("{blow}, in {violated} of {trials} trials, for up to {overlap_ms:.0} ms")
        })
        .collect();
    if row.overlaps() > 0 {
        cases.push(format!("{} times under load", row.overlaps()));
    }
    (!cases.is_empty()).then(|| format!("{}: two holders: {}.", row.service, cases.join("; ")))
}

/// Whether callers that want the same lock get it in the order in which they asked.
fn order(row: &ServiceSummary) -> Option<String> {
    let figures = row.together.as_ref()?;
    let ([percent, ..], [longest, ..]) = (figures.in_order_percent?, figures.longest_turns?);
    Some(format!(
        "{}: the wanted lock went to the caller that had asked first in {percent:.1} % of the cases, and the longest wait was \
         {longest:.1} turns of all callers.",
        row.service
    ))
}

/// A line per reason, with all that it concerns.
pub(super) fn grouped(skipped: &[SkippedService]) -> Vec<String> {
    let all = skipped.iter();
    let all = all.map(|skipped| (skipped.service.to_string(), skipped.reason.as_str()));
    let lines = by_reason(all).into_iter();
    lines
        .map(|(reason, services)| format!("{}: {reason}", services.join(", ")))
        .collect()
}

const HEADER: [&str; 9] = [
    "service",
    "what it is",
    "locks/s",
    "p50 / p99 ms",
    "one lock/s",
    "p50 / p99 ms",
    "killed",
    "power cut",
    "holder gone",
];
const WORDS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::summary::tests::{comparison, outcome};
    use crate::compare::{ComparisonOutcome, ComparisonPlan, DEBUG_BUILD, Service, SystemKind};

    #[test]
    fn our_client_on_other_systems_is_one_line_of_speeds_and_answers_for_those_that_lose_no_lock() {
        let mut outcome = outcome();
        for round in &mut outcome.rounds {
            round.service = Service::Client(SystemKind::Etcd);
        }
        let plan = ComparisonPlan {
            services: vec![Service::Client(SystemKind::Etcd)],
            ..comparison(&outcome).plan
        };
        let lines = |outcome: &ComparisonOutcome| {
            let summary = Comparison::of(&plan, Vec::new(), &[], outcome, true);
            lines(&summary).join("\n")
        };
        let told = lines(&outcome);
        for part in [
            "client: locks a second: 2000 on etcd.",
            "Quorlock: one holder at a time",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        outcome.rounds[0].together.overlaps = 1;
        let told = lines(&outcome);
        assert!(told.contains("DEFECT: 1 locks of Quorlock"), "{told}");
    }

    #[test]
    fn a_table_has_a_row_for_each_service_and_names_what_was_skipped() {
        let text = services_text(&comparison(&outcome()));
        let rows: Vec<&str> = text.lines().collect();
        assert!(
            rows[1].starts_with("quorlock/always  5 nodes, Redlock"),
            "{text}"
        );
        for part in [
            "2000",
            "0.2 / 0.4",
            "quorlock: locks a second: 2000 with fsync always, 2000 with fsync no.",
            "etcd: locks a second: 2000 with 1 member.",
            "quorlock/no: the wanted lock went to the caller that had asked first in 99.0 % of the cases, and the longest wait was 2.0 turns",
            "Quorlock: one holder at a time, in 1 trials of faults",
            "Only 3 of at least five rounds",
            "Skipped: 1 of 5.\nskipped postgresql: no server <was> named",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(rows.iter().take(4).all(|row| row.len() <= 130), "{text}");
    }

    #[test]
    fn a_debug_build_is_named() {
        let mut comparison = comparison(&outcome());
        assert!(!services_text(&comparison).contains("debug build"));
        let build = ("quorlock".to_owned(), format!("0.1.0 {DEBUG_BUILD}"));
        comparison.environment.push(build);
        assert!(services_text(&comparison).contains("a debug build of Quorlock"));
    }

    #[test]
    fn two_holders_are_named_with_the_fault() {
        let mut outcome = outcome();
        let fault = &mut outcome.faults[0];
        fault.outcome = BlowOutcome::TwoHolders;
        (fault.violated, fault.overlap_ms) = (1, 1413.2);
        let text = services_text(&comparison(&outcome));
        assert!(text.contains("DEFECT: 1 locks of Quorlock"), "{text}");
        assert!(text.contains("TWO, 1413 ms"), "{text}");
        assert!(
            text.contains("power-loss-worst-case, in 1 of 1 trials"),
            "{text}"
        );
    }
}
