//! The directory of a run: what was asked for, every trial, every record, and what is made of them.
//!
//! Invariant: a trial is on disk, with its records, before the next begins, and nothing that is there is overwritten but
//! what is made anew from the trials. So a run can be interrupted at any moment and goes on from there.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::history::TrialRecord;
use crate::plan::Plan;
pub use crate::step_log::ResultsError;
use crate::step_log::{StepLog, at, compact, read_json, replace};
use crate::trial::Trial;

/// The directory of a run that goes on.
#[derive(Debug)]
pub struct Results {
    directory: PathBuf,
    trials: StepLog<Trial>,
    table: File,
    history: File,
}

/// What a run was begun with: `plan.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSetup {
    /// What is to be carried out.
    pub plan: Plan,
    /// By which engine.
    pub engine: String,
}

#[derive(Serialize)]
struct Line<'a> {
    cell: String,
    trial: u32,
    #[serde(flatten)]
    record: &'a TrialRecord,
}

#[derive(Deserialize)]
struct ReadLine {
    #[serde(deserialize_with = "from_id")]
    cell: Cell,
    trial: u32,
    #[serde(flatten)]
    record: TrialRecord,
}

fn from_id<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Cell, D::Error> {
    let id = String::deserialize(from)?;
    id.parse().map_err(serde::de::Error::custom)
}

impl Results {
    /// Makes the directory `name` below `parent` for a run, or with a number behind it.
    ///
    /// # Errors
    /// If it cannot be made, or has too little space.
    pub fn create(
        parent: &Path,
        name: &str,
        plan: &Plan,
        engine: &str,
    ) -> Result<Results, ResultsError> {
        let trials = plan.cells.len() as u64 * u64::from(plan.trials);
        let needed_mib = NODES_MIB + trials.saturating_mul(TRIAL_KIB) / 1024;
        let directory = make_directory(parent, name, needed_mib)?;
        let begun = RunSetup {
            plan: plan.clone(),
            engine: engine.to_owned(),
        };
        let text = json(&begun);
        replace(&directory.join(PLAN), text.as_bytes())?;
        let mut results = Results::open(&directory)?;
        let written = results.table.write_all(header().as_bytes());
        written.map_err(at(&directory.join(TABLE)))?;
        Ok(results)
    }

    /// Takes up a run that was interrupted: the plan, and the trials that are there. A last line that was cut off while
    /// it was written is left out, and its trial is carried out once more.
    ///
    /// # Errors
    /// If files cannot be read or are damaged.
    pub fn resume(directory: &Path) -> Result<(Results, RunSetup, Vec<Trial>), ResultsError> {
        let begun: RunSetup = read_json(&directory.join(PLAN))?;
        let trials = StepLog::<Trial>::resume(directory.join(TRIALS), |_, _| Ok(()))?.1;
        let rows: Vec<String> = trials.iter().map(row).collect();
        let table = format!("{}{}", header(), rows.concat());
        replace(&directory.join(TABLE), table.as_bytes())?;
        keep_records_of(directory, &trials)?;
        Ok((Results::open(directory)?, begun, trials))
    }

    fn open(directory: &Path) -> Result<Results, ResultsError> {
        let open = |name: &str| {
            let path = directory.join(name);
            let file = OpenOptions::new().create(true).append(true).open(&path);
            file.map_err(at(&path))
        };
        Ok(Results {
            directory: directory.to_owned(),
            trials: StepLog::open(directory.join(TRIALS))?,
            table: open(TABLE)?,
            history: open(HISTORY)?,
        })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Keeps a trial. Its records come first: a trial that is listed has all of them.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn add(&mut self, trial: &Trial, records: &[TrialRecord]) -> Result<(), ResultsError> {
        let cell = trial.cell.id();
        let mut lines = String::new();
        for record in records {
            let line = Line {
                cell: cell.clone(),
                trial: trial.number,
                record,
            };
            lines.push_str(&compact(&line));
            lines.push('\n');
        }
        let directory = &self.directory;
        let written = self.history.write_all(lines.as_bytes());
        written.map_err(at(&directory.join(HISTORY)))?;
        let written = self.table.write_all(row(trial).as_bytes());
        written.map_err(at(&directory.join(TABLE)))?;
        self.trials.add(trial)
    }

    /// Writes a file that is made from the trials, replacing what was there as a whole. `name` may lie in a folder.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ResultsError> {
        write(&self.directory, name, bytes)
    }
}

/// Makes the directory `name` below `parent` for results, where so much space is needed. Where another run has the
/// name, as one of the same second, a number stands behind it.
///
/// # Errors
/// If it cannot be made, or has too little space.
pub fn make_directory(parent: &Path, name: &str, needed_mib: u64) -> Result<PathBuf, ResultsError> {
    fs::create_dir_all(parent).map_err(at(parent))?;
    check_space(parent, needed_mib)?;
    let mut directory = parent.join(name);
    let mut number = 1_u32;
    loop {
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(at(&directory)(error)),
        }
        directory = parent.join(format!("{name}-{number}"));
    }
}

/// Writes a file of results, replacing what was there as a whole. `name` may lie in a folder.
///
/// # Errors
/// If the disk does not take it.
pub fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), ResultsError> {
    let path = directory.join(name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(at(folder))?;
    }
    replace(&path, bytes)
}

/// The records of these trials, of each by its number, in the order of time.
///
/// # Errors
/// If the history cannot be read, or a line in the middle is damaged.
pub fn read_history(
    directory: &Path,
    wanted: &[(Cell, u32)],
) -> Result<BTreeMap<(Cell, u32), Vec<TrialRecord>>, ResultsError> {
    let path = directory.join(HISTORY);
    let file = File::open(&path).map_err(at(&path))?;
    let mut found: BTreeMap<(Cell, u32), Vec<TrialRecord>> = BTreeMap::new();
    let mut damaged = None;
    for (index, line) in io::BufReader::new(file).lines().enumerate() {
        let line = line.map_err(at(&path))?;
        // Only the last line may have been cut off.
        if let Some((line, reason)) = damaged.take() {
            return Err(ResultsError::Damaged { path, line, reason });
        }
        match serde_json::from_str::<ReadLine>(&line) {
            Ok(line) => {
                let of = (line.cell, line.trial);
                if wanted.contains(&of) {
                    found.entry(of).or_default().push(line.record);
                }
            }
            Err(error) => damaged = Some((index + 1, error.to_string())),
        }
    }
    Ok(found)
}

/// Leaves out the records of trials that are not listed: their records were written, and the trial itself was not, when
/// the run was interrupted. They will be carried out once more.
fn keep_records_of(directory: &Path, trials: &[Trial]) -> Result<(), ResultsError> {
    let listed: Vec<(Cell, u32)> = trials
        .iter()
        .map(|trial| (trial.cell, trial.number))
        .collect();
    let path = directory.join(HISTORY);
    let beside = directory.join(format!("{HISTORY}.new"));
    let from = io::BufReader::new(File::open(&path).map_err(at(&path))?);
    let mut to = io::BufWriter::new(File::create(&beside).map_err(at(&beside))?);
    for line in from.lines() {
        let line = line.map_err(at(&path))?;
        let of = serde_json::from_str::<ReadLine>(&line).map(|line| (line.cell, line.trial));
        if of.is_ok_and(|of| listed.contains(&of)) {
            writeln!(to, "{line}").map_err(at(&beside))?;
        }
    }
    to.flush().map_err(at(&beside))?;
    fs::rename(&beside, &path).map_err(at(&path))
}

fn header() -> String {
    COLUMNS.map(|(name, _)| name).join(",") + "\n"
}

fn row(trial: &Trial) -> String {
    COLUMNS.map(|(_, value)| value(trial)).join(",") + "\n"
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn check_space(parent: &Path, needed_mib: u64) -> Result<(), ResultsError> {
    let space = rustix::fs::statvfs(parent).map_err(|error| at(parent)(error.into()))?;
    let free_mib = space.f_bavail.saturating_mul(space.f_frsize) / (1 << 20);
    match free_mib < needed_mib {
        true => Err(ResultsError::Space {
            path: parent.to_owned(),
            free_mib,
            needed_mib,
        }),
        false => Ok(()),
    }
}

type Column = (&'static str, fn(&Trial) -> String);

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.3}"))
}

const COLUMNS: [Column; 24] = [
    ("fsync", |trial| trial.cell.fsync.to_string()),
    ("restart_delay", |trial| trial.cell.delay.to_string()),
    ("fault", |trial| trial.cell.fault.to_string()),
    ("nodes", |trial| trial.cell.nodes.to_string()),
    ("trial", |trial| trial.number.to_string()),
    ("seed", |trial| trial.seed.to_string()),
    ("engine", |trial| trial.engine.clone()),
    ("violations", |trial| {
        trial.verdict.violations.len().to_string()
    }),
    ("believed", |trial| trial.verdict.believed.len().to_string()),
    ("updates", |trial| trial.verdict.updates.to_string()),
    ("lost_updates", |trial| {
        trial.verdict.lost_updates.to_string()
    }),
    ("missing_updates", |trial| {
        let missing = trial.verdict.missing_updates;
        missing.map_or_else(String::new, |missing| missing.to_string())
    }),
    ("stuck", |trial| trial.verdict.stuck.len().to_string()),
    ("acquired", |trial| trial.measured.acquired.to_string()),
    ("standing", |trial| trial.measured.standing.to_string()),
    ("lost", |trial| trial.measured.lost.to_string()),
    ("load_cycles", |trial| {
        trial.measured.load_cycles.to_string()
    }),
    ("recovery_ms", |trial| number(trial.measured.recovery_ms)),
    ("delay_ms", |trial| number(trial.measured.delay_ms)),
    ("unavailable_ms", |trial| {
        number(trial.measured.unavailable_ms)
    }),
    ("waited_ms", |trial| number(trial.measured.waited_ms)),
    ("fences", |trial| trial.cell.fences.to_string()),
    ("disordered_fences", |trial| {
        trial.verdict.disordered_fences.to_string()
    }),
    ("refused_holders", |trial| {
        trial.verdict.refused_holders.to_string()
    }),
];

const PLAN: &str = "plan.json";
const TRIALS: &str = "trials.jsonl";
const TABLE: &str = "trials.csv";
const HISTORY: &str = "history.jsonl";
/// What the data of all nodes of a trial take while it goes on.
const NODES_MIB: u64 = 256;
/// What a trial leaves in the results.
const TRIAL_KIB: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Occurrence, Who};
    use crate::preset::Preset;

    fn trial(number: u32) -> Trial {
        Trial {
            cell: "no/off/power-loss-one/5".parse().expect("a cell"),
            number,
            seed: 7,
            engine: "real".to_owned(),
            measured: Default::default(),
            verdict: Default::default(),
        }
    }

    fn begun(home: &Path) -> Results {
        Results::create(home, "run", &Preset::Quick.plan(1), "real").expect("it is new")
    }

    #[test]
    fn runs_of_one_second_and_seed_have_directories_of_their_own() {
        let home = tempfile::tempdir().expect("a directory");
        let run = || begun(home.path()).directory().to_owned();
        let names = ["run", "run-2", "run-3"].map(|name| home.path().join(name));
        assert_eq!([run(), run(), run()], names);
        let at_once: std::collections::HashSet<PathBuf> = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
            let ended = runs.into_iter().map(|run| run.join().expect("it ends"));
            ended.collect()
        });
        assert_eq!(at_once.len(), 8);
    }

    #[test]
    fn a_trial_that_was_cut_off_while_it_was_written_is_left_out() {
        let home = tempfile::tempdir().expect("a directory");
        let mut results = begun(home.path());
        let record = |at_ns| TrialRecord {
            at_ns,
            who: Who::Harness,
            what: Occurrence::FaultBegins,
        };
        results.add(&trial(1), &[record(1)]).expect("there is room");
        results.add(&trial(2), &[record(1)]).expect("there is room");
        let directory = results.directory().to_owned();
        drop(results);
        let path = directory.join(TRIALS);
        let text = fs::read_to_string(&path).expect("it is there");
        fs::write(&path, &text[..text.len() - 9]).expect("it can be cut");
        let (mut results, _begun, trials) = Results::resume(&directory).expect("it can go on");
        assert_eq!(trials, [trial(1)]);
        // Carried out once more, the trial is there once, and so is what belongs to it.
        results.add(&trial(2), &[record(2)]).expect("there is room");

        // Only a last line may be cut off.
        for damaged in [
            format!("nonsense\n{text}"),
            format!("nonsense\n{}", &text[..9]),
        ] {
            fs::write(&path, damaged).expect("it can be damaged");
            let error = Results::resume(&directory).expect_err("it is damaged");
            assert!(error.to_string().contains("line 1"), "{error}");
        }
        let table = fs::read_to_string(directory.join(TABLE)).expect("it is there");
        assert!(
            table.starts_with("fsync,restart_delay,") && table.lines().count() == 3,
            "{table}"
        );
        let cell = trial(1).cell;
        let read = read_history(&directory, &[(cell, 1), (cell, 2)]).expect("it is whole");
        assert_eq!(read.get(&(cell, 1)), Some(&vec![record(1)]));
        assert_eq!(read.get(&(cell, 2)), Some(&vec![record(2)]));
        let history = fs::read_to_string(directory.join(HISTORY)).expect("it is there");
        assert!(history.starts_with(r#"{"cell":"no/off/power-loss-one/5","trial":1,"at_ns":1,"#));
    }
}
