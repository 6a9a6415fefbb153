//! The page of a comparison: verdict, table, what survived, charts, what each service is.

use std::collections::BTreeSet;

use super::chart::Chart;
use super::page::{self, TableCell, escaped, framed, judged, number, word};
use super::services::{grouped, lines, survival};
use super::services_baseline;
use super::table::dash;
use crate::compare::{
    Blow, BlowOutcome, Comparison, LoadFigures, Service, ServiceSummary, Survival,
};

/// The page.
pub(super) fn page(
    comparison: &Comparison,
    charts: &[Chart],
    baseline: Option<&Comparison>,
) -> String {
    let mut body = format!(
        "<h1>The same locks on several lock services</h1><p class=\"soft\">Quorlock experiment compare.{}</p>",
        match comparison.is_complete {
            true => "",
            false => " <strong>Not complete: some steps of the plan were not carried out.</strong>",
        }
    );
    body.push_str(&page::verdict(comparison.defects() > 0, &lines(comparison)));
    let rows = comparison.services.iter();
    body.push_str(&page::table("How fast", &SPEEDS, rows.map(speeds)));
    faults(&mut body, comparison);
    for chart in charts {
        body.push_str(&page::figure(chart.title, &chart.svg));
    }
    if let Some(baseline) = baseline {
        let lines = services_baseline::lines(comparison, baseline);
        body.push_str(&page::listed(page::BASELINE, &lines));
    }
    services(&mut body, comparison);
    body.push_str(METHOD);
    facts(&mut body, comparison);
    body.push_str(&format!(
        "<h2>Once more</h2><pre>{}</pre>",
        escaped(&repeat(comparison))
    ));
    framed("Quorlock: lock services compared", &body)
}

fn speeds(row: &ServiceSummary) -> Vec<TableCell> {
    let mut cells = vec![word(row.service), word(row.service.is())];
    for figures in [row.apart.as_ref(), row.together.as_ref()] {
        let ms = |of: fn(&LoadFigures) -> [f64; 3]| {
            figures.map_or_else(dash, |figures| format!("{:.2}", of(figures)[0] / 1e3))
        };
        cells.push(number(spread(figures)));
        cells.push(number(ms(|figures| figures.p50_us)));
        cells.push(number(ms(|figures| figures.p99_us)));
    }
    let failed = row.apart.iter().chain(&row.together);
    let failed: u64 = failed.map(|figures| figures.failed).sum();
    cells.push(number(failed));
    cells
}

/// `2500 (2400 to 2600)`: the median round, the lowest and the highest.
fn spread(figures: Option<&LoadFigures>) -> String {
    figures.map_or_else(dash, |figures| {
        let [median, low, high] = figures.rate;
        format!("{median:.0} ({low:.0} to {high:.0})")
    })
}

fn faults(body: &mut String, comparison: &Comparison) {
    if comparison.plan.fault_trials == 0 {
        return;
    }
    let rows = comparison.services.iter();
    let title = "What survives which fault";
    body.push_str(&page::table(title, &FAULTS, rows.clone().map(survivals)));
    let reasons = rows.flat_map(|row| &row.faults).filter_map(|fault| {
        let reason = fault.reason.as_ref()?;
        Some(format!("{}, {}: {reason}", fault.service, fault.blow))
    });
    body.push_str(&page::folded("Not tried", &reasons.collect::<Vec<_>>()));
}

fn survivals(row: &ServiceSummary) -> Vec<TableCell> {
    let mut cells = vec![word(row.service)];
    for blow in Blow::ALL {
        let fault = row.fault(blow);
        cells.push(judged(fault.map_or("", class_of), survival(fault)));
        if blow == Blow::Kill {
            let ms = |of: fn(&Survival) -> Option<f64>| {
                let ms = fault.and_then(of);
                number(ms.map_or_else(dash, |ms| format!("{ms:.0}")))
            };
            cells.push(ms(|fault| fault.no_locks_ms));
            cells.push(ms(|fault| fault.waited_ms));
        }
    }
    cells
}

fn class_of(fault: &Survival) -> &'static str {
    match (fault.outcome, fault.blow) {
        (BlowOutcome::TwoHolders, _) => "bad",
        (BlowOutcome::OneHolder, Blow::HolderGone) | (BlowOutcome::NotTried, _) => "",
        (BlowOutcome::OneHolder, _) => "good",
    }
}

fn services(body: &mut String, comparison: &Comparison) {
    body.push_str("<h2>What they are</h2><dl>");
    for ServiceSummary {
        service,
        version,
        is,
        ..
    } in &comparison.services
    {
        body.push_str(&format!(
            "<dt>{}</dt><dd>{}, version {}</dd>",
            escaped(&service.to_string()),
            escaped(is),
            escaped(version)
        ));
    }
    body.push_str("</dl>");
    for (title, lines) in [
        ("Skipped", grouped(&comparison.skipped)),
        ("Failed", grouped(&comparison.failed)),
    ] {
        body.push_str(&page::listed(title, &lines));
    }
}

fn facts(body: &mut String, comparison: &Comparison) {
    let plan = &comparison.plan;
    let own = [
        ("rounds", plan.rounds.to_string()),
        ("each load", format!("{} ms", plan.round.as_millis())),
        ("callers with a lock each", plan.callers.to_string()),
        ("callers of one lock", plan.contenders.to_string()),
        ("trials of each fault", plan.fault_trials.to_string()),
    ];
    body.push_str(&page::facts(&own, &comparison.environment));
}

/// The line that carries out the same once more; addresses of systems are left out, they may hold a password.
fn repeat(comparison: &Comparison) -> String {
    let plan = &comparison.plan;
    let mut names: Vec<&str> = Vec::new();
    let mut modes: Vec<&str> = Vec::new();
    for service in &plan.services {
        names.push(service.kind().word());
        if let Service::Nodes(_, fsync) = service {
            modes.push(fsync.word());
        }
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    modes.retain(|mode| seen.insert(*mode));
    let fsync = match modes.is_empty() {
        true => String::new(),
        false => format!(" --fsync {}", modes.join(",")),
    };
    let mut url = match names.contains(&"postgresql") {
        true => " --postgresql URL".to_owned(),
        false => String::new(),
    };
    let services = plan.services.iter();
    let systems = services.filter(|service| matches!(service, Service::Client(_)));
    url.push_str(&" --system ADDRESS".repeat(systems.count()));
    format!(
        "quorlock experiment compare --services {}{fsync} --rounds {} --round {}ms --callers {} --contenders {} --fault-trials {}{url}",
        names.join(","),
        plan.rounds,
        plan.round.as_millis(),
        plan.callers,
        plan.contenders,
        plan.fault_trials
    )
}

const SPEEDS: [(&str, &str); 9] = [
    ("service", "word"),
    ("what it is", "word"),
    ("locks/s", ""),
    ("p50 ms", ""),
    ("p99 ms", ""),
    ("one lock/s", ""),
    ("p50 ms", ""),
    ("p99 ms", ""),
    ("failed", ""),
];

const FAULTS: [(&str, &str); 7] = [
    ("service", "word"),
    ("killed: holders", "word"),
    ("no locks ms", ""),
    ("B waited ms", ""),
    ("killed, worst", "word"),
    ("power cut, worst", "word"),
    ("holder gone", "word"),
];

const METHOD: &str = "<h2>How to read this</h2>\
<p>Services take turns, round by round, each started anew in an empty directory and ended before the next, all with the same \
callers on the same machine. A figure is the median round; behind rates stand the lowest and the highest. <em>Locks/s</em> is \
what callers with a lock of their own each take and give back, <em>failed</em> counts calls that failed; <em>one lock/s</em> how often a lock that all of them want \
changes hands.</p>\
<p><strong>They are not the same thing.</strong> Redlock asks five independent nodes and needs three; it survives two that \
are gone, and its locks end with time. A raft group agrees on every lock and keeps it through the loss of a minority; one \
member alone survives nothing while it is down. An advisory lock lives in one database server and ends with the session of \
its holder. Whatever holds locks, a client that stands still for too long is no holder any more and may not know it.</p>\
<p><em>Killed</em>: client A has a lock of 3 s, one process (the leader of a raft group) is killed with kill -9 and starts \
again at once, and client B wants the same lock; <em>no locks</em> is the time until any other lock was to be had. The \
<em>worst cases</em> of Redlock are those of the crash-recovery experiment: A holds a bare majority with the struck node in \
it, and a power cut takes what was not synced. <em>Holder gone</em>: the program of A ends without giving its lock back; \
when B had it. A session ends with its connection, also where the program of its holder lives on and does not know \
yet.</p>";

#[cfg(test)]
mod tests {
    use crate::compare::summary::tests::{comparison, outcome};
    use crate::report::page::tests::unclosed;
    use crate::report::services_files;

    #[test]
    fn a_page_needs_nothing_else_and_shows_every_service() {
        let files = services_files(&comparison(&outcome()), None);
        let (name, page) = &files[0];
        let page = String::from_utf8(page.clone()).expect("it is text");
        assert_eq!(name, "report.html");
        for outside in ["src=", "href=", "@import", "url(http", "<script", "<b>"] {
            assert!(!page.contains(outside), "{outside}");
        }
        for part in [
            "&lt;b&gt;fast",
            "2000 (1000 to 3000)",
            "<dt>etcd/1</dt>",
            "postgresql: no server &lt;was&gt; named",
            "--services quorlock,etcd --fsync always,no --rounds 3 --round 2000ms",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(files.iter().any(|(name, _)| name == "svg/apart.svg"));
    }

    #[test]
    fn every_tag_that_is_opened_is_closed() {
        let comparison = comparison(&outcome());
        for (name, content) in services_files(&comparison, Some(&comparison)) {
            let content = String::from_utf8(content).expect("it is text");
            assert_eq!(unclosed(&content), Vec::<String>::new(), "{name}");
        }
    }

    #[test]
    fn what_is_not_complete_says_so() {
        let mut outcome = outcome();
        outcome.is_cancelled = true;
        let files = services_files(&comparison(&outcome), None);
        let page = String::from_utf8(files[0].1.clone()).expect("it is text");
        assert!(page.contains("<strong>Not complete") && page.contains("NOT COMPLETE"));
    }
}
