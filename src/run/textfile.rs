//! What a run came to, as a file for the textfile collector of Prometheus's node_exporter.
//!
//! The file is one job's on one machine. Its counts go on from what the file says when the run has ended, so nothing else keeps them. A run that
//! is killed writes nothing: that the last success is long ago is what an alert looks at.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::clock;
use crate::exit_code::{BUSY, Failure, LOST, NO_QUORUM};
use crate::output::remark;

/// A run under way.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    /// The labels of all lines: the job, which has the name of the file, and the lock.
    labels: String,
    counts: BTreeMap<&'static str, u64>,
    last_success: Option<f64>,
    began: Duration,
    taken: Option<Duration>,
    is_busy: bool,
}

impl Record {
    /// To be called before a lock is taken: refuses what is no file of runs.
    pub(super) fn begin(path: &Path, name: &str) -> Result<Self, Failure> {
        if path.extension() != Some(OsStr::new("prom")) {
            let what = format!(
                "the collector reads no file like {}; nothing was sent",
                path.display()
            );
            return Err(Failure::usage(what).remedy("let the name end with .prom"));
        }
        read(path).map_err(|error| {
            let what = format!(
                "the textfile {} cannot be used: {error}; nothing was sent",
                path.display()
            );
            Failure::usage(what).remedy(
                "name another file with --textfile, one for each job, in a folder that is there",
            )
        })?;
        let run = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            path: path.to_owned(),
            labels: format!("run=\"{}\",name=\"{}\"", escaped(&run), escaped(name)),
            counts: OUTCOMES.map(|outcome| (outcome, 0)).into(),
            last_success: None,
            began: clock::now(),
            taken: None,
            is_busy: false,
        })
    }

    /// The lock is held now.
    pub(super) fn taken(&mut self) {
        self.taken = Some(clock::now());
    }

    /// Somebody else holds it, which may not be shown by the exit code.
    pub(super) fn busy(&mut self) {
        self.is_busy = true;
    }

    /// Writes what it came to. That this fails changes nothing about the run.
    pub(super) fn end(mut self, result: &Result<u8, Failure>) {
        let (now, ended) = (clock::now(), clock::wall().as_secs_f64());
        let (outcome, code) = match result {
            _ if self.is_busy => ("busy", result.as_ref().map_or_else(|it| it.exit, |it| *it)),
            Ok(0) => ("done", 0),
            Ok(code) => ("failed", *code),
            Err(failure) => (
                match failure.code {
                    BUSY => "busy",
                    LOST => "lost",
                    NO_QUORUM => "no-quorum",
                    _ => "error",
                },
                failure.exit,
            ),
        };
        if let Err(error) = self.add(outcome, code, (now, ended)) {
            remark(format_args!(
                "cannot write the textfile {}: {error}; the metrics of this run are missing",
                self.path.display()
            ));
        }
    }

    /// Adds this run to those that have ended before, whichever began first.
    fn add(
        &mut self,
        outcome: &'static str,
        code: u8,
        (now, ended): (Duration, f64),
    ) -> io::Result<()> {
        let _others_wait = turn(&self.path);
        let before = read(&self.path)?;
        self.take_over(&before);
        *self.counts.entry(outcome).or_default() += 1;
        if outcome == "done" {
            self.last_success = Some(ended);
        }
        replace(&self.path, &self.text((now, ended), code))
    }

    fn text(&self, (now, ended): (Duration, f64), code: u8) -> String {
        let waited = self.taken.unwrap_or(now).saturating_sub(self.began);
        let held = self.taken.map(|taken| now.saturating_sub(taken));
        let held = held.unwrap_or_default().as_secs_f64();
        let labels = &self.labels;
        let mut text = FIRST.to_owned();
        for (outcome, count) in &self.counts {
            let _ = writeln!(text, "{RUNS}{{{labels},outcome=\"{outcome}\"}} {count}");
        }
        for (metric, help, value) in [
            (
                "end_timestamp_seconds",
                "When the last run ended.",
                Some(ended),
            ),
            (
                LAST_SUCCESS,
                "When the last run ended whose command ended with 0.",
                self.last_success,
            ),
            (
                "exit_code",
                "The exit code of the last run.",
                Some(f64::from(code)),
            ),
            (
                "wait_seconds",
                "How long the last run waited for its lock.",
                Some(waited.as_secs_f64()),
            ),
            (
                "hold_seconds",
                "How long the last run held its lock.",
                Some(held),
            ),
        ] {
            let Some(value) = value else { continue };
            let metric = format!("{LAST}{metric}");
            let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} gauge");
            let _ = writeln!(text, "{metric}{{{labels}}} {value}");
        }
        text
    }

    /// Takes over the counts and the last success. Lines of another name are another job's.
    fn take_over(&mut self, text: &str) {
        let labels = &self.labels;
        let success = format!("{LAST}{LAST_SUCCESS}{{{labels}}} ");
        for line in text.lines() {
            if let Some(value) = line.strip_prefix(&success) {
                self.last_success = value.parse().ok().filter(|value: &f64| value.is_finite());
            }
            for (outcome, count) in &mut self.counts {
                let counted = format!("{RUNS}{{{labels},outcome=\"{outcome}\"}} ");
                if let Some(value) = line.strip_prefix(&counted) {
                    *count = value.parse().unwrap_or(0);
                }
            }
        }
    }
}

/// Holds up other runs that write into the folder: without it one of two that end together would not be counted. Whoever holds it
/// for longer than a moment is not waited for.
fn turn(path: &Path) -> Option<File> {
    let folder = File::open(folder(path)).ok()?;
    for _ in 0..TURN_TRIES {
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Some(folder);
        }
        clock::block_for(TURN_STEP);
    }
    None
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The text of a file of runs, nothing where there is no file. What is anything else would be destroyed.
fn read(path: &Path) -> io::Result<String> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_file() => {}
        Ok(_) => return Err(io::Error::other("it is no file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A folder that is not there is found now, and not when the run has ended.
            return fs::metadata(folder(path)).map(|_| String::new());
        }
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match text.is_empty() || text.starts_with(FIRST) {
        true => Ok(text),
        false => Err(io::Error::other("it was not written by quorlock run")),
    }
}

/// Readers see the old file or the new one. The collector reads no file whose name does not end with `.prom`, and may be another
/// user. Whoever may write into the folder cannot have another file written: the draft is new.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let _left_by_another_with_this_number = fs::remove_file(&draft);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).open(&draft)?;
    let written = file
        .set_permissions(Permissions::from_mode(0o644))
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _not_there = fs::remove_file(&draft);
    }
    written
}

/// As the value of a label.
fn escaped(name: &str) -> String {
    let name = name.replace('\\', "\\\\").replace('"', "\\\"");
    name.replace('\n', "\\n")
}

const FIRST: &str = "\
# HELP quorlock_run_runs_total Runs by what they came to: done (the command ended with 0), failed (with another code), busy (somebody else held the lock), lost (the lock was), no-quorum (too few nodes), error.
# TYPE quorlock_run_runs_total counter
";
const RUNS: &str = "quorlock_run_runs_total";
const LAST: &str = "quorlock_run_last_";
const LAST_SUCCESS: &str = "success_timestamp_seconds";
const OUTCOMES: [&str; 6] = ["done", "failed", "busy", "lost", "no-quorum", "error"];
const TURN_TRIES: u32 = 100;
const TURN_STEP: Duration = Duration::from_millis(10);
/// A file of ours is shorter, with the longest name.
const BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str, name: &str) -> Record {
        let mut record = Record::begin(Path::new("/none.prom"), name).unwrap();
        record.take_over(text);
        record
    }

    #[test]
    fn counts_and_the_last_success_go_on_in_the_next_run() {
        let mut first = record("", "a\"b\nc");
        *first.counts.get_mut("busy").unwrap() = 7;
        first.last_success = Some(1_700_000_000.5);
        let text = first.text((clock::now(), 1_700_000_001.0), 75);
        let next = record(&text, "a\"b\nc");
        assert_eq!(next.counts["busy"], 7);
        assert_eq!(next.last_success, Some(1_700_000_000.5));
        assert_eq!(record(&text, "other").counts["busy"], 0);
        assert!(
            text.contains("quorlock_run_last_exit_code{run=\"none\",name=\"a\\\"b\\nc\"} 75\n"),
            "{text}"
        );
    }

    #[test]
    fn a_damaged_file_loses_counts_and_nothing_else() {
        let text = record("", "a").text((clock::now(), 1.0), 0);
        for cut in 0..text.len() {
            record(&text[..cut], "a");
        }
        let hostile = format!(
            "{RUNS}{{run=\"none\",name=\"a\",outcome=\"done\"}} -1e999\n{LAST}{LAST_SUCCESS}{{run=\"none\",name=\"a\"}} NaN\n"
        );
        let record = record(&hostile, "a");
        assert_eq!((record.counts["done"], record.last_success), (0, None));
    }
}
