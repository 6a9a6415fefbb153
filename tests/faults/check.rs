//! A check: a name, a kind, and what it does. Running all of them, and adding up.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::examine::Finding;
use crate::strace::Abilities;

/// What the checks run on.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The `quorlock` program.
    pub(crate) program: PathBuf,
    /// Where nodes have their directories.
    pub(crate) scratch: PathBuf,
    /// Every call, every byte.
    pub(crate) is_thorough: bool,
    pub(crate) abilities: Abilities,
    /// The file system of the nodes' directories takes direct writes.
    pub(crate) takes_direct: bool,
    pub(crate) is_root: bool,
}

/// What a check needs of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// strace may start a program.
    Start,
    /// strace may attach to a running one.
    Attach,
    /// The same, and a file system that takes direct writes.
    Direct,
    /// To mount a file system, and to become another user.
    Root,
}

type Procedure = Box<dyn Fn(&Bench, &mut Record) -> io::Result<()> + Send + Sync>;

/// One check. Its runs differ in a number, where the fault is.
pub(crate) struct Check {
    /// Unique, with slashes: what `--only` takes.
    pub(crate) name: String,
    /// Checks of one kind make one row of the report.
    pub(crate) kind: &'static str,
    pub(crate) need: Need,
    procedure: Procedure,
}

impl Check {
    pub(crate) fn new(
        kind: &'static str,
        name: impl Into<String>,
        need: Need,
        procedure: impl Fn(&Bench, &mut Record) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            kind,
            need,
            procedure: Box::new(procedure),
        }
    }

    fn missing(&self, bench: &Bench) -> Option<&'static str> {
        let (is_there, what) = match self.need {
            Need::Nothing => (true, ""),
            Need::Start => (bench.abilities.starts, "strace is missing or may not trace"),
            Need::Direct if !bench.takes_direct => (
                false,
                "the file system of the nodes' directories takes no direct writes",
            ),
            Need::Attach | Need::Direct => (
                bench.abilities.attaches,
                "strace may not attach to a process (kernel.yama.ptrace_scope)",
            ),
            Need::Root => (bench.is_root, "needs root"),
        };
        (!is_there).then_some(what)
    }
}

/// What the runs of one check came to.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The only run wanted, by its number.
    pub(crate) only: Option<u64>,
    pub(crate) faults: u64,
    pub(crate) runs: u64,
    pub(crate) acknowledged: u64,
    pub(crate) losses: u64,
    pub(crate) panics: u64,
    /// The number of the run, and what was wrong.
    pub(crate) failures: Vec<(Option<u64>, String)>,
    /// What is worth saying of a check that passed.
    pub(crate) figures: Vec<String>,
    /// Why a part was left out.
    pub(crate) skipped: Vec<String>,
}

impl Record {
    /// A run with one fault, whose number is `nth`.
    pub(crate) fn add(&mut self, nth: Option<u64>, finding: &Finding) {
        self.faults += 1;
        self.runs += 1;
        self.acknowledged += finding.acknowledged;
        self.losses += finding.losses.len() as u64;
        self.panics += finding.panics;
        if !finding.is_fine() {
            let lost = finding.losses.iter().map(|loss| format!("LOST: {loss}"));
            let all: Vec<String> = lost.chain(finding.flaws.iter().cloned()).collect();
            self.failures.push((nth, all.join("\n    ")));
        }
    }

    /// Whether this run is wanted.
    pub(crate) fn wants(&self, nth: u64) -> bool {
        self.only.is_none_or(|only| only == nth)
    }

    fn join(&mut self, other: &Self) {
        self.faults += other.faults;
        self.runs += other.runs;
        self.acknowledged += other.acknowledged;
        self.losses += other.losses;
        self.panics += other.panics;
    }
}

/// The sums of all checks.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) kinds: BTreeMap<&'static str, Record>,
    /// Checks, and those of them that failed, by kind.
    pub(crate) checks: BTreeMap<&'static str, u64>,
    pub(crate) failed: BTreeMap<&'static str, u64>,
    pub(crate) passed: u64,
    pub(crate) skipped: Vec<String>,
}

impl Totals {
    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    fn add(&mut self, check: &Check, record: &Record) {
        self.kinds.entry(check.kind).or_default().join(record);
        // A check counts once, however many runs it made: thousands of flipped bits are one check.
        let has_failed = !record.failures.is_empty();
        *self.failed.entry(check.kind).or_default() += u64::from(has_failed);
        *self.checks.entry(check.kind).or_default() += 1;
        self.passed += u64::from(!has_failed);
        for why in &record.skipped {
            self.skipped.push(format!("{}: {why}", check.name));
        }
    }
}

/// Runs the checks that `only` selects, on `jobs` threads; each is told to `tell` when it ends.
pub(crate) fn run_all(
    bench: &Bench,
    checks: &[Check],
    only: &[String],
    jobs: usize,
    tell: impl Fn(&Check, &Record) + Sync,
) -> Totals {
    let wanted: Vec<(&Check, Option<u64>)> = checks
        .iter()
        .filter_map(|check| Some((check, selected(&check.name, only)?)))
        .collect();
    let next = AtomicUsize::new(0);
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((check, nth)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let record = run_one(bench, check, *nth, &totals);
                    if let Some(record) = record {
                        tell(check, &record);
                        let mut totals = totals.lock().expect("no holder of the sums panics");
                        totals.add(check, &record);
                    }
                }
            });
        }
    });
    totals.into_inner().expect("no holder of the sums panics")
}

fn run_one(
    bench: &Bench,
    check: &Check,
    only: Option<u64>,
    totals: &Mutex<Totals>,
) -> Option<Record> {
    if let Some(missing) = check.missing(bench) {
        let mut totals = totals.lock().expect("no holder of the sums panics");
        totals.skipped.push(format!("{}: {missing}", check.name));
        return None;
    }
    let mut record = Record {
        only,
        ..Record::default()
    };
    if let Err(error) = (check.procedure)(bench, &mut record) {
        let text = format!("the check could not be carried out: {error}");
        record.failures.push((None, text));
    }
    Some(record)
}

/// Whether a check is wanted: `Some(None)` for all of its runs, `Some(Some(n))` for one of them.
fn selected(name: &str, only: &[String]) -> Option<Option<u64>> {
    if only.is_empty() {
        return Some(None);
    }
    only.iter().find_map(|wish| {
        if name.starts_with(wish.as_str()) {
            return Some(None);
        }
        let nth = wish.strip_prefix(name)?.strip_prefix('/')?;
        nth.parse().ok().map(Some)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_its_beginning_or_one_run_select_a_check() {
        let wish = |text: &str| [text.to_owned()];
        assert_eq!(selected("kill/no", &[]), Some(None));
        assert_eq!(selected("kill/no", &wish("kill")), Some(None));
        assert_eq!(selected("kill/no", &wish("kill/no/7")), Some(Some(7)));
        assert_eq!(selected("kill/no", &wish("kill/yes")), None);
        assert_eq!(selected("kill/no", &wish("kill/no/x")), None);
    }
}
