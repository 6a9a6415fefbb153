//! `quorlock experiment compare`: from arguments to a directory with results.
//!
//! Invariant: after every step the directory holds all that was measured until then, marked as not complete.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use quorlock_experiment::cell::FsyncMode;
use quorlock_experiment::compare::{
    Comparing, Comparison, ComparisonEvent, ComparisonOutcome, ComparisonPlan, ComparisonRound,
    ComparisonSetup, FinishedSteps, InstalledServices, Kind, Load,
};
use quorlock_experiment::engine::Cancel;
use quorlock_experiment::{report, results};

use super::progress::{Manner, ProgressDisplay};
use super::run_options::{self, RunOptions, Texts};
use super::{cancel, compare_progress, environment, failed, found};
use crate::exit_code::Failure;
use crate::output::Format;
use crate::tls_options::TlsFlags;
use crate::{clock, duration};

/// Arguments of `quorlock experiment compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What is compared: quorlock, redis-server, valkey-server, etcd, postgresql, client; all by default
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    services: Vec<Kind>,
    /// In which fsync modes, where a service has them: always, everysec, no, none (no log at all); all by default
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    fsync: Vec<FsyncMode>,
    /// A PostgreSQL server that runs already, as postgresql://user@host/database; without TLS
    #[arg(
        long,
        value_name = "URL",
        env = "QUORLOCK_POSTGRESQL_URL",
        hide_env_values = true
    )]
    postgresql: Option<String>,
    /// A system that runs already, on which our own client takes locks: redis+sentinel://, redis-cluster://, etcd:// or
    /// postgresql://, or one of these with TLS; one of each kind; several times, or with blanks between them
    #[arg(
        long,
        value_name = "ADDRESS",
        value_delimiter = ' ',
        env = "QUORLOCK_SYSTEMS",
        hide_env_values = true
    )]
    system: Vec<String>,
    #[command(flatten)]
    tls: TlsFlags,
    /// How often each service is measured, in turns
    #[arg(long, default_value_t = 5, conflicts_with = "resume")]
    rounds: u32,
    /// How long each load of a round goes on
    #[arg(long, default_value = "2s", value_parser = duration::parse, conflicts_with = "resume")]
    round: Duration,
    /// Callers with a lock of their own each
    #[arg(long, default_value_t = 8, conflicts_with = "resume")]
    callers: u32,
    /// Callers that want the same lock
    #[arg(long, default_value_t = 4, conflicts_with = "resume")]
    contenders: u32,
    /// How often each fault is tried; 0 leaves faults out
    #[arg(long, default_value_t = 1, conflicts_with = "resume")]
    fault_trials: u32,
    #[command(flatten)]
    run: RunOptions,
}

impl Arguments {
    fn found(&self) -> Result<InstalledServices, Failure> {
        let tls = self.tls.clone().or(TlsFlags::of_environment());
        found::find(self.postgresql.as_deref(), &self.system, &tls)
    }
}

/// Carries it out.
pub(crate) fn run(arguments: &Arguments, format: Format) -> Result<ExitCode, Failure> {
    let cancel = cancel::on_signals()?;
    let baseline = arguments.run.baseline()?;
    let (found, mut run) = match &arguments.run.resume {
        Some(directory) => resume(arguments, directory, baseline)?,
        None => begin(arguments, baseline, &cancel)?,
    };
    let (manner, format) = arguments.run.manner(format);
    let comparing = Comparing::new(found, run.directory.join(SCRATCH)).map_err(failed)?;
    run.carry_out(comparing, &cancel, manner, format)
}

/// Makes the directory of a new comparison.
fn begin(
    arguments: &Arguments,
    baseline: Option<Comparison>,
    cancel: &Cancel,
) -> Result<(InstalledServices, ComparisonRun), Failure> {
    let chosen = |given: &[FsyncMode]| match given {
        [] => FsyncMode::ALL.to_vec(),
        given => given.to_vec(),
    };
    let kinds = match &arguments.services[..] {
        [] => &Kind::ALL[..],
        given => given,
    };
    let mut plan = ComparisonPlan {
        services: Vec::new(),
        skipped: Vec::new(),
        rounds: arguments.rounds,
        round: arguments.round,
        callers: arguments.callers,
        contenders: arguments.contenders,
        fault_trials: arguments.fault_trials,
    };
    plan.check().map_err(Failure::usage)?;
    let found = arguments.found()?;
    let (versions, skipped) = found::sorted(&found, kinds, &chosen(&arguments.fsync));
    plan.services = versions.iter().map(|(service, _)| *service).collect();
    plan.skipped = skipped;
    if plan.services.is_empty() {
        let reason = plan.skipped.first().map(|it| it.reason.clone());
        return Err(failed(format!(
            "nothing was compared: {}",
            reason.unwrap_or_else(|| "no service was named".to_owned())
        )));
    }
    if cancel.is_cancelled() {
        return Err(failed(super::INTERRUPTED_EARLY));
    }
    let name = format!("compare-{}", environment::run_name(clock::wall()));
    let directory =
        results::make_directory(&arguments.run.dir, &name, SPACE_MIB).map_err(failed)?;
    arguments.run.point_latest("latest-compare", &directory);
    let setup = ComparisonSetup {
        plan,
        versions,
        environment: environment::facts(&directory),
    };
    let run = ComparisonRun {
        finished: FinishedSteps::create(&directory, &setup).map_err(failed)?,
        setup,
        before: ComparisonOutcome::default(),
        directory,
        baseline,
    };
    Ok((found, run))
}

/// Takes up a comparison that was interrupted, where everything is as it was.
fn resume(
    arguments: &Arguments,
    directory: &Path,
    baseline: Option<Comparison>,
) -> Result<(InstalledServices, ComparisonRun), Failure> {
    let (finished, mut setup, before) = FinishedSteps::resume(directory).map_err(failed)?;
    let found = arguments.found()?;
    let cannot = |what: &dyn std::fmt::Display| {
        failed(format!("{} cannot go on: {what}", directory.display()))
            .remedy("a comparison holds figures of the same programs on the same machine: begin another without --resume")
    };
    let mut versions = Vec::new();
    for service in &setup.plan.services {
        let version = found.version(*service);
        let version =
            version.map_err(|why| cannot(&format!("{service} is not there now: {why}")))?;
        versions.push((*service, version));
    }
    let facts = environment::facts(directory);
    if let Some(difference) = setup.difference(&versions, &facts) {
        return Err(cannot(&difference));
    }
    // Who reads the report has to know that its figures are of two moments.
    if setup.has_more_than(&before) {
        let now = facts.into_iter().find(|(name, _)| name == "date");
        let resumed = now.map(|(_, date)| ("resumed".to_owned(), date));
        setup.environment.extend(resumed);
        setup.write(directory).map_err(failed)?;
    }
    let run = ComparisonRun {
        finished,
        setup,
        before,
        directory: directory.to_owned(),
        baseline,
    };
    Ok((found, run))
}

/// What is to be carried out, and where it is kept.
struct ComparisonRun {
    setup: ComparisonSetup,
    finished: FinishedSteps,
    /// What was carried out before it was interrupted.
    before: ComparisonOutcome,
    directory: PathBuf,
    baseline: Option<Comparison>,
}

impl ComparisonRun {
    fn carry_out(
        &mut self,
        mut comparing: Comparing,
        cancel: &Cancel,
        manner: Manner,
        format: Format,
    ) -> Result<ExitCode, Failure> {
        let plan = self.setup.plan.clone();
        let mut shown = ProgressDisplay::new(manner, &self.directory);
        let mut so_far = self.before.clone();
        let mut unwritten = None;
        let outcome = comparing.run(&plan, so_far.clone(), cancel, &mut |event| {
            compare_progress::tell(&mut shown, event);
            if matches!(event, ComparisonEvent::Begins { .. }) {
                return;
            }
            so_far.add(event);
            let listed = self.finished.add(event).map_err(failed);
            if let Err(failure) = listed.and_then(|()| self.leave(&so_far, false).map(drop)) {
                unwritten.get_or_insert(failure);
                cancel.cancel();
            }
        });
        shown.end();
        // Left there only by what failed, whose logs say why.
        let _is_not_empty = std::fs::remove_dir(self.directory.join(SCRATCH));
        if let Some(failure) = unwritten {
            return Err(failure);
        }
        let summary = self.leave(&outcome, true)?;
        let texts: Texts<Comparison> = (report::services_text, report::services_baseline_text);
        let (baseline, place) = (self.baseline.as_ref(), &self.directory);
        run_options::show(
            &summary,
            baseline,
            texts,
            place,
            "summary.json, rounds.csv",
            format,
        );
        self.verdict(&summary, &outcome)
    }

    /// Writes everything that is known so far.
    fn leave(&self, outcome: &ComparisonOutcome, is_over: bool) -> Result<Comparison, Failure> {
        let ComparisonSetup {
            plan,
            versions,
            environment,
        } = &self.setup;
        let summary = Comparison::of(plan, environment.clone(), versions, outcome, is_over);
        let text = serde_json::to_string_pretty(&summary).map_err(failed)? + "\n";
        let write =
            |name: &str, bytes: &[u8]| results::write(&self.directory, name, bytes).map_err(failed);
        write("summary.json", text.as_bytes())?;
        write("rounds.csv", table(&outcome.rounds).as_bytes())?;
        for (name, bytes) in report::services_files(&summary, self.baseline.as_ref()) {
            write(&name, &bytes)?;
        }
        Ok(summary)
    }

    fn verdict(
        &self,
        summary: &Comparison,
        outcome: &ComparisonOutcome,
    ) -> Result<ExitCode, Failure> {
        let place = self.directory.display();
        if outcome.is_cancelled {
            let what = format!("interrupted; what was measured until then is in {place}");
            let how = format!("go on with: quorlock experiment compare --resume {place}");
            return Err(failed(what).remedy(how));
        }
        if let Some((service, why)) = outcome.failures.first() {
            let number = outcome.failures.len();
            return Err(failed(format!(
                "{number} of {} services could not be tried to the end; the first, {service}: {why}",
                self.setup.plan.services.len()
            ))
            .remedy(format!("what was measured is in {place}; go on with: --resume {place}")));
        }
        Ok(ExitCode::from(u8::from(summary.defects() > 0)))
    }
}

fn table(rounds: &[ComparisonRound]) -> String {
    let mut text =
        "service,round,load,seconds,locks,p50_us,p99_us,failed,overlaps,in_order\n".to_owned();
    for round in rounds {
        for (name, load) in [("apart", &round.apart), ("together", &round.together)] {
            let Load {
                seconds,
                cycles,
                failed,
                overlaps,
                in_order,
                ..
            } = load;
            let [p50, p99] = match load.acquire_us {
                Some(us) => us.map(|us| format!("{us:.0}")),
                None => Default::default(),
            };
            let (service, number) = (round.service, round.number);
            text.push_str(&format!(
                "{service},{number},{name},{seconds:.3},{cycles},{p50},{p99},{failed},{overlaps},{in_order}\n"
            ));
        }
    }
    text
}

/// Where services have their data, in the directory of the run.
const SCRATCH: &str = "services";
/// What the services of a round take at most: a member of etcd sets 64 MiB aside.
const SPACE_MIB: u64 = 512;

pub(super) const HELP: &str = "\
Callers take and give back locks of Quorlock, redis-server, valkey-server (five nodes each, with our own client), etcd (one
member, and three), if a URL is given of a PostgreSQL server, and with our own client on the systems that --system names:
each with a lock of its own, and all of them the same one. Then a process is killed, power is lost, a holder is gone: is
there still one holder at a time? Services are started on free ports of this machine in directories of their own, one at a
time, and ended and removed again. What is not installed is named and skipped.

Exit codes: 0 carried out, 1 a lock of Quorlock had two holders where none are allowed, 2 it could not be carried out,
64 wrong usage.

Examples:
  quorlock experiment compare                                     everything that is installed, in about ten minutes
  quorlock experiment compare --services quorlock,etcd --fsync always,everysec --fault-trials 0
  quorlock experiment compare --resume experiments/latest-compare  what an interruption has left
  quorlock experiment compare --postgresql postgresql://postgres@127.0.0.1/postgres
  quorlock experiment compare --services client --system etcd://e1,e2,e3  our own client on etcd alone
  quorlock experiment compare --services client --system etcds://e1,e2,e3 --cacert ca.pem  the same with TLS";
