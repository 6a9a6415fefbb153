//! `quorlock experiment crash-recovery`: from arguments to a directory with results.

use std::process::ExitCode;
use std::time::Duration;

use quorlock_experiment::cell::{Cell, Delay, Fault, FenceCheck, FsyncMode};
use quorlock_experiment::engine::real::database_name;
use quorlock_experiment::engine::{Cancel, TrialEngine};
use quorlock_experiment::plan::Plan;
use quorlock_experiment::preset::Preset;
use quorlock_experiment::report;
use quorlock_experiment::results::{self, Results};
use quorlock_experiment::run::{self, RunOutcome};
use quorlock_experiment::summary::Summary;
use quorlock_experiment::trial::Trial;

use super::crash_progress::CrashProgress;
use super::progress::{Manner, ProgressDisplay};
use super::run_options::{self, RunOptions, Texts};
use super::tried::{self, NodeKind, Product};
use super::{cancel, environment, failed};
use crate::exit_code::Failure;
use crate::output::Format;
use crate::{clock, duration};

/// Arguments of `quorlock experiment crash-recovery`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// quick (under a minute), standard (about ten), thorough (hours)
    #[arg(long, default_value_t = Preset::Quick, conflicts_with = "resume")]
    preset: Preset,
    /// When logs reach the disk: always, everysec, no, none (no log at all)
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    fsync: Vec<FsyncMode>,
    /// How long nodes wait after a start: auto, trust-fsync, off, or a share of what is needed such as 50%
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    restart_delay: Vec<Delay>,
    /// What goes wrong; `--fault help` lists the faults
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    fault: Vec<Fault>,
    /// How many nodes: 1, 3, 5
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    nodes: Vec<u8>,
    /// Whether locks have fences that the register checks: off, on
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    fences: Vec<FenceCheck>,
    /// Just this combination, such as everysec/off/power-loss-one/5; may be given several times
    #[arg(long, conflicts_with_all = ["fsync", "restart_delay", "fault", "nodes", "fences", "resume"])]
    cell: Vec<Cell>,
    /// How often each combination is tried
    #[arg(long, conflicts_with = "resume")]
    trials: Option<u32>,
    /// How long the locks of the schedules last
    #[arg(long, value_parser = duration::parse, conflicts_with = "resume")]
    ttl: Option<Duration>,
    /// The nodes' restart-delay-max, which they wait after the loss of power
    #[arg(long, value_parser = duration::parse, conflicts_with = "resume")]
    restart_delay_max: Option<Duration>,
    /// What the nodes are: processes on this machine, or simulated ones, thousands of trials a minute
    #[arg(long, value_enum, default_value_t = NodeKind::Real, conflicts_with = "resume")]
    engine: NodeKind,
    /// Whose nodes: quorlock, or redis-server as the baseline
    #[arg(long, value_enum, default_value_t = Product::Quorlock, conflicts_with = "resume")]
    server: Product,
    /// All that is random comes from it
    #[arg(long, default_value_t = 1, conflicts_with = "resume")]
    seed: u64,
    #[command(flatten)]
    run: RunOptions,
}

/// Carries it out.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let cancel = cancel::on_signals()?;
    let baseline = arguments.run.baseline()?;
    let scratch = std::env::temp_dir();
    let (results, plan, before, tried) = match &arguments.run.resume {
        Some(directory) => {
            let (results, begun, before) = Results::resume(directory).map_err(failed)?;
            (results, begun.plan, before, tried::of_name(&begun.engine))
        }
        None => {
            let plan = plan(arguments)?;
            let tried = (arguments.engine, arguments.server);
            let engine = tried::engine(tried.0, tried.1, &scratch)?;
            if cancel.is_cancelled() {
                return Err(failed(super::INTERRUPTED_EARLY));
            }
            let name = format!("{}-{:04x}", environment::run_name(clock::wall()), plan.seed);
            let results = Results::create(&arguments.run.dir, &name, &plan, engine.name());
            let results = results.map_err(failed)?;
            arguments.run.point_latest("latest", results.directory());
            (results, plan, Vec::new(), tried)
        }
    };
    let (manner, format) = arguments.run.manner(format);
    let (nodes, product) = tried;
    let run = CrashRun {
        results,
        plan,
        before,
    };
    let mut engine = tried::engine(nodes, product, &run.results.directory().join(SCRATCH))?;
    run.carry_out(&mut *engine, &cancel, manner, baseline.as_ref(), format)
}

/// What is to be carried out, and where it is kept.
struct CrashRun {
    results: Results,
    plan: Plan,
    /// What was carried out before it was interrupted.
    before: Vec<Trial>,
}

impl CrashRun {
    /// Carries a plan out and leaves everything in its directory.
    fn carry_out(
        self,
        engine: &mut dyn TrialEngine,
        cancel: &Cancel,
        manner: Manner,
        baseline: Option<&Summary>,
        format: Format,
    ) -> Result<ExitCode, Failure> {
        let (mut results, plan) = (self.results, self.plan);
        let mut environment = environment::facts(results.directory());
        environment.push(("seed".to_owned(), plan.seed.to_string()));
        if engine.name() != tried::SIMULATED {
            environment.push(("database".to_owned(), database_name()));
        }
        let mut progress = CrashProgress::new(ProgressDisplay::new(manner, results.directory()));
        let outcome = run::run(
            &plan,
            engine,
            &mut results,
            self.before,
            cancel,
            &mut |event| progress.tell(&event),
        );
        progress.shown.end();
        let outcome = outcome.map_err(failed)?;
        // Left there only by trials that failed, whose logs say why.
        let _is_not_empty = std::fs::remove_dir(results.directory().join(SCRATCH));
        let RunOutcome {
            trials,
            skipped,
            failures,
            ..
        } = &outcome;
        let summary = Summary::of(&plan, engine.name(), environment, trials, skipped);
        leave(&results, &summary, trials, baseline)?;
        let directory = results.directory().display();
        let texts: Texts<Summary> = (report::text, report::comparison_text);
        run_options::show(&summary, baseline, texts, results.directory(), DATA, format);
        if !failures.is_empty() {
            return Err(failed(format!(
                "{} trials could not be carried out; the first: {}",
                failures.len(),
                failures[0]
            ))
            .remedy(format!(
                "what was tried is in {directory}; go on with: --resume {directory}"
            )));
        }
        if outcome.is_cancelled {
            return Err(failed(format!(
                "interrupted; what was tried until then is in {directory}"
            ))
            .remedy(format!(
                "go on with: quorlock experiment crash-recovery --resume {directory}"
            )));
        }
        if let (true, Some(skipped)) = (trials.is_empty(), summary.skipped.last()) {
            let number = summary.skipped.len();
            return Err(failed(format!(
                "nothing was tried: {number} combinations were skipped; {}: {}",
                skipped.cell, skipped.reason
            )));
        }
        let has_defect = summary.cells.iter().any(|cell| cell.is_defect());
        Ok(ExitCode::from(u8::from(has_defect)))
    }
}

/// Shows a single trial of a cell, for a story; nothing is kept.
pub(super) fn replay(product: Product, cell: Cell, format: Format) -> Result<ExitCode, Failure> {
    let cancel = cancel::on_signals()?;
    let home = std::env::temp_dir().join(format!("quorlock-experiment-{}", std::process::id()));
    let mut plan = Preset::Quick.plan(1);
    plan.cells = vec![cell];
    let mut engine = tried::engine(NodeKind::Real, product, &home.join("run").join(SCRATCH))?;
    let mut results = Results::create(&home, "run", &plan, engine.name()).map_err(failed)?;
    let outcome = run::run(
        &plan,
        &mut *engine,
        &mut results,
        Vec::new(),
        &cancel,
        &mut |_| {},
    );
    let wanted: Vec<(Cell, u32)> = vec![(cell, 1)];
    let records = results::read_history(results.directory(), &wanted);
    let _stays = std::fs::remove_dir_all(&home);
    let outcome = outcome.map_err(failed)?;
    let (Some(trial), Ok(records)) = (outcome.trials.first(), records) else {
        let skipped = outcome.skipped.iter().map(|skipped| &skipped.reason);
        let why = outcome.failures.iter().chain(skipped).next();
        let why = why.map_or("interrupted", String::as_str);
        return Err(failed(format!("the story could not be replayed: {why}")));
    };
    let records = records.get(&(cell, 1)).map_or(&[][..], Vec::as_slice);
    format.result(report::timeline_text(trial, records), &trial.verdict);
    Ok(ExitCode::SUCCESS)
}

fn plan(arguments: &Arguments) -> Result<Plan, Failure> {
    let mut plan = arguments.preset.plan(arguments.seed);
    let mut axes = arguments.preset.axes();
    let is_chosen = !(arguments.fsync.is_empty()
        && arguments.restart_delay.is_empty()
        && arguments.fault.is_empty()
        && arguments.nodes.is_empty()
        && arguments.fences.is_empty());
    choose(&mut axes.fsync, &arguments.fsync);
    choose(&mut axes.delay, &arguments.restart_delay);
    choose(&mut axes.fault, &arguments.fault);
    choose(&mut axes.nodes, &arguments.nodes);
    choose(&mut axes.fences, &arguments.fences);
    if is_chosen {
        (plan.cells, plan.skipped) = axes.cells().map_err(Failure::usage)?;
    }
    if !arguments.cell.is_empty() {
        if let Some((cell, reason)) = first_refused(&arguments.cell) {
            return Err(Failure::usage(format!("{cell} makes no sense: {reason}")));
        }
        plan.cells.clone_from(&arguments.cell);
        plan.skipped.clear();
    }
    plan.trials = arguments.trials.unwrap_or(plan.trials);
    plan.ttl = arguments.ttl.unwrap_or(plan.ttl);
    plan.restart_delay_max = arguments
        .restart_delay_max
        .unwrap_or(plan.restart_delay_max);
    plan.check().map_err(Failure::usage)?;
    Ok(plan)
}

fn choose<T: Clone>(axis: &mut Vec<T>, chosen: &[T]) {
    if !chosen.is_empty() {
        *axis = chosen.to_vec();
    }
}

fn first_refused(cells: &[Cell]) -> Option<(&Cell, &'static str)> {
    cells.iter().find_map(|cell| Some((cell, cell.refusal()?)))
}

/// Writes everything that is made from the trials.
fn leave(
    results: &Results,
    summary: &Summary,
    trials: &[Trial],
    baseline: Option<&Summary>,
) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(summary).map_err(failed)?;
    let write = |name: &str, text: &str| results.write(name, text.as_bytes()).map_err(failed);
    write("summary.json", &text)?;
    write("repro.txt", &report::repro(summary, trials))?;
    let wanted = report::timelines(trials);
    let records = results::read_history(results.directory(), &wanted).map_err(failed)?;
    for (name, content) in report::files(summary, trials, &records, baseline) {
        results.write(&name, &content).map_err(failed)?;
    }
    Ok(())
}

const DATA: &str = "summary.json, trials.csv, history.jsonl, repro.txt";
/// Where the nodes of a trial have their data, in the directory of the run.
const SCRATCH: &str = "nodes";

pub(super) const HELP: &str = "\
Five nodes, clients of our library and a fault per trial. A holds a lock, the fault strikes, B wants the same lock;
beside them other clients take and give back locks. Everything that clients are told is recorded and checked: no lock
has two holders at once, and every lock is to be had again once the fault is over.

Exit codes: 0 as expected, 1 mutual exclusion was violated where that is a defect, 2 it could not be carried out,
64 wrong usage.

Examples:
  quorlock experiment crash-recovery                                    what a power cut takes, in under a minute
  quorlock experiment crash-recovery --preset standard                  every fault, in about ten minutes
  quorlock experiment crash-recovery --fsync no --restart-delay off,50%,auto
  quorlock experiment crash-recovery --cell everysec/off/power-loss-one/5 --trials 20
  quorlock experiment crash-recovery --engine simulated --trials 1000
  quorlock experiment crash-recovery --fault client-pause --fences off,on
  quorlock experiment crash-recovery --server redis-server --restart-delay off --fsync always,no,none";
