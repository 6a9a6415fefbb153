//! `report.html`: one page that needs nothing else, on paper, on a telephone, offline, by day and by night.

use super::chart::Chart;
use super::page::{self, TableCell, escaped, framed, judged, number, word};
use super::{comparison, table, verdict};
use crate::cell::{Cell, Fault, FenceCheck};
use crate::engine::real::ServerProgram;
use crate::summary::{CellSummary, Summary};

/// The page.
pub(super) fn page(
    summary: &Summary,
    timelines: &[(String, Cell, String)],
    charts: &[Chart],
    repeat: &str,
    baseline: Option<&Summary>,
) -> String {
    let mut body = format!(
        "<h1>What a crash takes from each fsync mode</h1>\
         <p class=\"soft\">Quorlock crash-recovery experiment, {} engine.{}</p>",
        escaped(&summary.engine),
        match summary.is_complete {
            true => "",
            false =>
                " <strong>Not complete: some trials of the plan were not carried out.</strong>",
        }
    );
    let is_bad = summary.cells.iter().any(CellSummary::is_defect);
    body.push_str(&page::verdict(is_bad, &verdict::lines(summary)));
    if !timelines.is_empty() {
        body.push_str(KEY);
    }
    for (_, cell, svg) in timelines {
        body.push_str(&page::figure(&in_words(cell), svg));
    }
    let rows = summary.cells.iter().map(row);
    let title = "Every combination that was tried";
    body.push_str(&page::table(title, &COLUMNS, rows));
    body.push_str(&page::folded("Not tried", &table::skipped(summary)));
    for chart in charts {
        body.push_str(&page::figure(chart.title, &chart.svg));
    }
    if let Some(baseline) = baseline {
        let lines = comparison::lines(summary, baseline);
        body.push_str(&page::listed(page::BASELINE, &lines));
    }
    body.push_str(METHOD);
    if summary
        .cells
        .iter()
        .any(|cell| cell.missing_updates.is_some())
    {
        body.push_str(METHOD_UPDATES);
    }
    body.push_str(match summary.engine.as_str() {
        "simulated" => METHOD_SIMULATED,
        engine if ServerProgram::is_redis(engine) => METHOD_REDIS,
        _ => METHOD_REAL,
    });
    facts(&mut body, summary);
    body.push_str(&format!(
        "<h2>Once more</h2><p>repro.txt has this line, and one for each trial that struck.</p><pre>{}</pre>",
        escaped(repeat)
    ));
    framed("Quorlock: crash recovery", &body)
}

fn row(cell: &CellSummary) -> Vec<TableCell> {
    let class = match (cell.is_defect(), cell.violated) {
        (true, _) => "bad",
        (false, 0) => "good",
        (false, _) => "bad",
    };
    let figure = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let [p50, p99] = match cell.acquire_us {
        Some([p50, p99, _]) => [Some(p50 / 1e3), Some(p99 / 1e3)],
        None => [None, None],
    };
    let forgotten = match cell.standing {
        0 => "-".to_owned(),
        standing if cell.lost == 0 => format!("0 of {standing}"),
        standing => format!("{} of {standing}, {} at most", cell.lost, cell.lost_max),
    };
    let spread = cell.throughput.map_or_else(
        || "-".to_owned(),
        |[median, low, high]| match cell.trials {
            1 => format!("{median:.0}"),
            _ => format!("{median:.0} ({low:.0} to {high:.0})"),
        },
    );
    let words = [
        word(cell.cell.fsync),
        word(cell.cell.delay),
        word(match cell.cell.fences {
            FenceCheck::Off => cell.cell.fault.to_string(),
            FenceCheck::On => format!("{}, fences", cell.cell.fault),
        }),
        judged(class, table::violations(cell)),
        word(table::mark(cell)),
    ];
    let figures = [
        cell.cell.nodes.to_string(),
        forgotten,
        spread,
        figure(p50, 2),
        figure(p99, 2),
        figure(cell.recovery_ms, 0),
        figure(cell.unavailable_ms, 0),
        figure(cell.waited_ms, 0),
        match cell.updates {
            0 => "-".to_owned(),
            updates => match cell.missing_updates {
                Some(missing) if missing > 0 => format!(
                    "{} of {updates}, {missing} missing in the database",
                    cell.lost_updates
                ),
                _ => format!("{} of {updates}", cell.lost_updates),
            },
        },
    ];
    words.into_iter().chain(figures.map(number)).collect()
}

fn facts(body: &mut String, summary: &Summary) {
    let plan = &summary.plan;
    let own = [
        ("trials of each combination", plan.trials.to_string()),
        ("ttl of the locks", format!("{} ms", plan.ttl.as_millis())),
        (
            "restart-delay-max",
            format!("{} ms", plan.restart_delay_max.as_millis()),
        ),
    ];
    body.push_str(&page::facts(&own, &summary.environment));
}

fn in_words(cell: &Cell) -> String {
    let power = match cell.fault {
        Fault::PowerLossOne => "one node loses power",
        Fault::PowerLossMajority => "a majority loses power",
        Fault::PowerLossAll => "all nodes lose power",
        Fault::ProcessKill => "one node is killed",
        Fault::CleanRestart => "one node restarts in an orderly way",
        Fault::Failover => "the primary fails and its asynchronous replica is promoted",
        Fault::WallClockStep => "the wall clock of one node is set",
        Fault::ExtensionLost => "power goes right after an extension",
        Fault::ReleaseLost => "power goes right after a release",
        Fault::CapLowered => "power goes, and the cap is lowered before the start",
        Fault::ModeChanged => "power goes, and the mode is changed before the start",
        other => other.word(),
    };
    format!(
        "fsync {}, restart delay {}: {power}",
        cell.fsync, cell.delay
    )
}

const COLUMNS: [(&str, &str); 14] = [
    ("fsync", "word"),
    ("restart delay", "word"),
    ("fault", "word"),
    ("two holders", "word"),
    ("", "word"),
    ("nodes", ""),
    ("forgotten", ""),
    ("locks/s", ""),
    ("p50 ms", ""),
    ("p99 ms", ""),
    ("recovery ms", ""),
    ("no locks ms", ""),
    ("B waited ms", ""),
    ("lost updates", ""),
];

pub(super) const KEY: &str = "<h2>One lock, lane by lane</h2><p class=\"key\">\
<span><i style=\"background:var(--a)\"></i>A has the lock</span><span><i style=\"background:#e69f00\"></i>B has it</span>\
<span><i style=\"background:var(--down);outline:1px solid #888\"></i>down</span>\
<span><i style=\"background:repeating-linear-gradient(45deg,#6b7880 0 2px,#b9c2c9 2px 5px)\"></i>restart delay</span>\
<span><i style=\"background:radial-gradient(circle,#444 1.2px,#fff 1.7px) 0 0/5px 5px\"></i>stands still</span>\
<span><i style=\"background:#d55e0038;outline:2px solid #d55e00;outline-offset:-2px\"></i>two holders</span>\
<span><i style=\"background:var(--lane)\"></i>free</span></p>";

const METHOD: &str = "<h2>How to read this</h2>\
<p>In each trial client A takes a lock, a fault strikes, and client B wants the same lock. Where one node starts again, A \
holds its lock on a bare majority with that node in it and is cut off from the others: the worst case that Redlock's \
authors describe. <em>Two holders</em> counts trials in which both were told at the same time that they hold it, by an \
observer's clock; behind it stands the longest overlap, or the upper end of the 95 % interval where none was seen. \
<em>Forgotten</em> counts acknowledged locks that were no longer on the disk of a node after the crash, in all trials and \
in the worst.</p>";

const METHOD_REAL: &str = "<p>Nodes are processes. A killed one loses nothing in any fsync mode, because the kernel keeps \
what it has written. Where power is lost, nodes run on a storage backend that keeps back all that was not synced in their \
own memory, so that killing them takes what a power cut may take at most; they start again in another boot. Figures of \
throughput and latency come from clients that take and give back locks of their own before the fault; all nodes and all \
clients share one machine.</p>";

const METHOD_UPDATES: &str = "<p>What a lock protects is a row of a database, which holders read, change and write back. \
<em>Lost updates</em> counts writes that rest on a value which another holder had replaced meanwhile. Each holder adds one to \
what it has read, and the row is read back at the end of the trial: <em>missing in the database</em> counts updates that it \
has acknowledged and no longer counts. Only a database that refuses writes of an earlier holder (fencing) can prevent \
that.</p>";

const METHOD_SIMULATED: &str = "<p>Nodes, clients, network, disks and clocks are simulated in one thread: the same rules \
as in the processes, thousands of trials a minute, power lost between any two changes of a disk, and the same seed always \
the same trial. Times are the simulation's; it has no throughput.</p>";

const METHOD_REDIS: &str = "<p>Nodes are processes of redis-server, as the baseline. A killed one loses nothing, because \
the kernel keeps what it has written. A power cut takes its append-only file back to what was synced; redis-server has no \
restart delay. A wall clock is set by libfaketime, which comes between the process and the C library. In <em>failover</em> a \
primary is killed and its replica, which lags behind, is promoted by hand. Figures of throughput and latency come from clients that take and give back locks of their own before the \
fault; all nodes and all clients share one machine.</p>";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;
    use crate::report::page::tests::unclosed;
    use crate::report::timeline::tests::amnesia;
    use crate::report::{Records, files, text};
    use crate::trial::Trial;

    fn run() -> (Summary, Vec<Trial>, Records) {
        let (trial, records) = amnesia();
        let mut plan = Preset::Quick.plan(1);
        plan.cells = vec![trial.cell];
        let environment = vec![(
            "processor".to_owned(),
            "<script>alert(1)</script>".to_owned(),
        )];
        let trials = vec![trial];
        let summary = Summary::of(&plan, "real", environment, &trials, &[]);
        let of = (trials[0].cell, 1);
        (summary, trials, Records::from([(of, records)]))
    }

    fn page_of(summary: &Summary, trials: &[Trial], records: &Records) -> String {
        let files = files(summary, trials, records, Some(summary));
        let (name, page) = &files[0];
        assert_eq!(name, "report.html");
        String::from_utf8(page.clone()).expect("it is text")
    }

    #[test]
    fn a_page_needs_nothing_else_and_shows_every_cell() {
        let (summary, trials, records) = run();
        let page = page_of(&summary, &trials, &records);
        for outside in ["src=", "href=", "@import", "url(http", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("&lt;script&gt;"));
        assert!(page.contains("class=\"overlap\"") && page.contains("1 of 1, 800 ms"));
        assert_eq!(page.matches("<tr>").count(), 2);
        // The restart delay has a pattern of its own, for whoever tells no colours apart.
        assert!(page.contains("<pattern id=\"waiting\""));
        assert!(
            page.contains("<pre>quorlock experiment crash-recovery --cell no/off/power-loss-one/5")
        );
    }

    #[test]
    fn a_page_says_what_its_nodes_were() {
        let (mut summary, trials, records) = run();
        for (engine, word) in [
            ("real", "storage backend"),
            ("simulated", "in one thread"),
            ("redis-server 7.0.15", "as the baseline"),
        ] {
            summary.engine = engine.to_owned();
            let page = page_of(&summary, &trials, &records);
            assert_eq!(page.matches(word).count(), 1, "{engine}");
        }
    }

    #[test]
    fn every_tag_that_is_opened_is_closed() {
        let (summary, trials, records) = run();
        for (name, content) in files(&summary, &trials, &records, None) {
            let content = String::from_utf8(content).expect("it is text");
            assert_eq!(unclosed(&content), Vec::<String>::new(), "{name}");
        }
    }

    #[test]
    fn a_run_without_trials_says_so() {
        let plan = Preset::Quick.plan(1);
        let summary = Summary::of(&plan, "real", Vec::new(), &[], &[]);
        let page = page_of(&summary, &[], &Records::new());
        assert!(page.contains("Not complete") && text(&summary).contains("NOT COMPLETE"));
    }

    #[test]
    fn a_defect_stands_first() {
        let (mut summary, trials, records) = run();
        summary.cells[0].expected = crate::cell::Expectation::None;
        assert!(text(&summary).contains("DEFECT in 1 cells"));
        let page = page_of(&summary, &trials, &records);
        assert!(page.contains("verdict bad"));
    }
}
