//! Is the log whole, and if not, where does it break and what would a start do about it?
//!
//! Invariant: an unfavourable finding was made twice in a row at the same place. While a node writes, a
//! single look may see half of a write, or miss a segment that was just removed; the second sees more.

use std::path::Path;
use std::time::Duration;

use quorlock_engine::restart::Stop;
use quorlock_engine::{Mutations, PayloadError};
use quorlock_persistence::{Inspection, Judgement, LogSummary, Position, StartSpace, hexadecimal};

use super::finding::{DirectoryFinding, FindingKind};
use super::{DataDirectory, Unreadable, hash_seed, options};
use crate::clock::{Reading, SystemClock};
use crate::config::Config;
use quorlock_node::past::fingerprint::is_own;
use quorlock_node::past::{self, Directory, Location, Log, NodeIdentity, Past, PastError};

/// What a log is found to be: whether a start may be tried, at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Everything that was written is there.
    Whole,
    /// It is interrupted, or gone, in a way that a start copes with.
    Broken,
    /// A start refuses.
    Refused,
}

/// What was found in a data directory, by [`check`].
#[derive(Clone, Debug)]
pub struct DirectoryReport {
    /// The directory.
    pub directory: String,
    /// The verdict.
    pub state: State,
    /// The process that has the directory: `None` if it is free, `Some(None)` if its id is not known.
    pub holder: Option<Option<u32>>,
    /// The node, if it is known.
    pub node: Option<String>,
    /// The first thing that is wrong.
    pub finding: Option<DirectoryFinding>,
    /// What a start would read; `None` if it would refuse before.
    pub summary: Option<LogSummary>,
    /// What a start with the default configuration would do; `None` if it would refuse, or runs.
    pub next_start: Option<NextStart>,
    /// Where the node was just writing, if it runs: what follows is not judged.
    pub moving_tail: Option<Location>,
}

/// What the next start would do: how long a restart of this node would be without locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextStart {
    /// How the last run ended.
    pub stop: Stop,
    /// The delay in which it would serve no locks.
    pub delay: Option<RemainingDelay>,
    /// Where it would go on with the log.
    pub space: StartSpace,
}

/// A restart delay, if the start came now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemainingDelay {
    /// What is left of it.
    pub left: Duration,
    /// What made it necessary, for people.
    pub reason: &'static str,
}

/// Looks at a data directory and judges its log.
///
/// # Errors
/// When it cannot be looked at, or holds nothing of a node.
pub fn check(directory: &Path) -> Result<DirectoryReport, Unreadable> {
    let data_directory = DataDirectory::open(directory)?;
    let look = || {
        let before = data_directory.holder()?;
        let report = look(&data_directory)?;
        let holder = data_directory.holder()?.or(before);
        Ok((report, holder))
    };
    match settled(look)? {
        Some((report, holder)) => Ok(judged(report, holder)),
        None => Err(Unreadable::Restless {
            directory: data_directory.name(),
            looks: LOOKS_MAX,
        }),
    }
}

/// Looks until nothing is found, or the same twice in a row; `None` if that never happens.
fn settled<T>(
    mut look: impl FnMut() -> Result<(DirectoryReport, T), Unreadable>,
) -> Result<Option<(DirectoryReport, T)>, Unreadable> {
    let mut last: Option<DirectoryFinding> = None;
    for _ in 0..LOOKS_MAX {
        let (report, beside) = look()?;
        match &report.finding {
            Some(finding) if last.as_ref().is_none_or(|last| !last.is_same_as(finding)) => {
                last = Some(finding.clone());
            }
            _ => return Ok(Some((report, beside))),
        }
    }
    Ok(None)
}

/// The verdict, with what a running node is just writing left out of it.
fn judged(mut report: DirectoryReport, holder: Option<Option<u32>>) -> DirectoryReport {
    report.holder = holder;
    if holder.is_some() {
        report.next_start = None;
        let mut take = |kind: FindingKind| report.finding.take_if(|finding| finding.kind == kind);
        // It has started.
        take(FindingKind::NoSpace);
        // It may just be starting: its marker comes before its first record.
        take(FindingKind::Emptied);
        if let Some(finding) = take(FindingKind::Break) {
            report.moving_tail = Some(Location {
                file: finding.file,
                offset: finding.offset.unwrap_or(0),
            });
        }
    }
    report.state = match &report.finding {
        None => State::Whole,
        Some(finding) if finding.kind.is_survived() => State::Broken,
        Some(_) => State::Refused,
    };
    report
}

fn look(data_directory: &DataDirectory) -> Result<DirectoryReport, Unreadable> {
    let mut report = DirectoryReport {
        directory: data_directory.name(),
        state: State::Whole,
        holder: None,
        node: None,
        finding: None,
        summary: None,
        next_start: None,
        moving_tail: None,
    };
    let known = match data_directory.identity() {
        Ok(known) => known,
        Err(error) => {
            report.finding = Some(of_past(data_directory, error));
            return Ok(report);
        }
    };
    report.node = known.as_ref().map(|identity| identity.id.to_string());
    let inspection = data_directory.inspection()?;
    let has_segments = !inspection.segments().is_empty();
    if !has_segments && known.is_none() {
        return Err(Unreadable::NoLog {
            directory: data_directory.name(),
        });
    }
    let judgement = match inspection.judge(&options(known.as_ref())) {
        Ok(judgement) => judgement,
        Err(error) => {
            report.finding = Some(DirectoryFinding::of_error(&error));
            return Ok(report);
        }
    };
    if report.node.is_none() {
        let named = judgement.summary.node_id;
        report.node = named.map(|id| hexadecimal(&id));
    }
    match read_past(data_directory, known.as_ref(), &inspection, &judgement) {
        Ok(past) => {
            let broken = judgement
                .summary
                .break_at
                .as_ref()
                .map(DirectoryFinding::of_break);
            report.finding = broken.or_else(|| emptied(data_directory, &past, has_segments));
            let space = data_directory.start_space(known.as_ref());
            report.next_start = Some(NextStart::of(&past, space));
            if let StartSpace::None(bytes) = space {
                let directory = data_directory.name();
                report.finding = Some(DirectoryFinding::of_missing_space(directory, bytes));
                report.next_start = None;
            }
        }
        Err(error) => report.finding = Some(of_past(data_directory, error)),
    }
    let mut summary = judgement.summary;
    summary.foreign_files.retain(|name| !is_own(name));
    report.summary = has_segments.then_some(summary);
    Ok(report)
}

/// What is wrong with a log that holds nothing of what its node did.
fn emptied(
    data_directory: &DataDirectory,
    past: &Past,
    has_segments: bool,
) -> Option<DirectoryFinding> {
    let what = match has_segments {
        true => "the log holds no start, but an incarnation-* file tells of one",
        false => "the directory has a node.id and not one segment of a log",
    };
    let finding = || {
        DirectoryFinding::new(
            FindingKind::Emptied,
            data_directory.name(),
            None,
            what.to_owned(),
        )
    };
    (past.verdict.stop == Stop::Emptied).then(finding)
}

/// The past that a start with the default configuration would see now.
pub(super) fn read_past(
    data_directory: &DataDirectory,
    identity: Option<&NodeIdentity>,
    inspection: &Inspection,
    judgement: &Judgement,
) -> Result<Past, PastError> {
    let directory = Directory {
        disk: &*data_directory.view,
        identity,
        log: Log::Viewed(inspection, judgement),
    };
    let history = directory.log.history(is_understood)?;
    let (now, policy) = (Reading::now(&SystemClock), past::policy(&Config::default()));
    Past::judge(&directory, history, &now, &policy)
}

/// Reads a payload as a start does, and keeps nothing of it.
pub(super) fn is_understood(_: Position, payload: &[u8]) -> Result<(), PayloadError> {
    Mutations::of(payload, hash_seed())?.try_for_each(|mutation| mutation.map(drop))
}

/// What is found wrong with a past that a start cannot read.
pub(crate) fn of_past(data_directory: &DataDirectory, error: PastError) -> DirectoryFinding {
    let directory = data_directory.name();
    match error {
        PastError::BadIdentity { file, reason } => {
            DirectoryFinding::new(FindingKind::BadIdentity, file, None, reason)
        }
        PastError::Interrupted { directory } => {
            let what = "an import was interrupted, and a part of the locks is missing: remove this directory, and import again";
            DirectoryFinding::new(FindingKind::BadIdentity, directory, None, what.to_owned())
        }
        PastError::Disk(error) => {
            DirectoryFinding::new(FindingKind::Unreadable, directory, None, error.to_string())
        }
        PastError::Log(error) => DirectoryFinding::of_error(&error.into()),
        PastError::Released { directory } => {
            let what = "the log ends with a release: the node was to be moved".to_owned();
            DirectoryFinding::new(FindingKind::Released, directory, None, what)
        }
        PastError::NotUnderstood {
            position,
            location,
            error,
        } => {
            let what = format!("the frame at position {position} is whole, but {error}");
            let offset = location.as_ref().map(|location| location.offset);
            let file = location.map_or(directory, |location| location.file);
            DirectoryFinding::new(FindingKind::NotUnderstood, file, offset, what)
        }
    }
}

impl NextStart {
    pub(super) fn of(past: &Past, space: StartSpace) -> Self {
        let now_ns = past.seen.now.as_nanos();
        let delay = past.verdict.delay.map(|pending| {
            let left_ns = pending.until.as_nanos().saturating_sub(now_ns);
            RemainingDelay {
                left: Duration::from_nanos(left_ns),
                reason: pending.cause.delay_reason(),
            }
        });
        Self {
            stop: past.verdict.stop,
            delay,
            space,
        }
    }
}

/// A finding has to be made twice in a row; a running node may change the directory in between.
const LOOKS_MAX: u32 = 12;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;

    fn report(offset: Option<u64>) -> DirectoryReport {
        let found = |offset| {
            let (file, what) = ("segment".to_owned(), "what".to_owned());
            DirectoryFinding::new(FindingKind::DurableDataLost, file, Some(offset), what)
        };
        DirectoryReport {
            directory: String::new(),
            state: State::Whole,
            holder: None,
            node: None,
            finding: offset.map(found),
            summary: None,
            next_start: None,
            moving_tail: None,
        }
    }

    /// Looks in this order; gives the offset of what counts in the end, and how many looks it took.
    fn outcome(looks: &[Option<u64>]) -> Option<(Option<u64>, usize)> {
        let mut taken = 0;
        let found = settled(|| {
            let look = looks[taken % looks.len()];
            taken += 1;
            Ok((report(look), ()))
        });
        let (report, ()) = found.unwrap()?;
        let offset = report.finding.and_then(|finding| finding.offset);
        Some((offset, taken))
    }

    #[test]
    fn a_finding_counts_when_it_is_made_twice_in_a_row() {
        assert_eq!(outcome(&[None]), Some((None, 1)));
        // Half a write was seen, and then all of it.
        assert_eq!(outcome(&[Some(4096), None]), Some((None, 2)));
        assert_eq!(outcome(&[Some(4096), Some(4096)]), Some((Some(4096), 2)));
        assert_eq!(outcome(&[Some(1), Some(2), Some(2)]), Some((Some(2), 3)));
        assert_eq!(outcome(&[Some(1), Some(2)]), None, "it never settles");
    }

    #[test]
    fn the_moving_end_of_a_running_node_is_not_judged() {
        let mut found = report(Some(7));
        found.finding.as_mut().unwrap().kind = FindingKind::Break;
        let running = judged(found.clone(), Some(Some(1)));
        assert_eq!((running.state, running.finding), (State::Whole, None));
        let tail = Location {
            file: "segment".to_owned(),
            offset: 7,
        };
        assert_eq!(running.moving_tail, Some(tail));
        assert_eq!(judged(found, None).state, State::Broken);
        let mut starting = report(None);
        let what = "no start yet".to_owned();
        let emptied = DirectoryFinding::new(FindingKind::Emptied, String::new(), None, what);
        starting.finding = Some(emptied.clone());
        let running = judged(starting.clone(), Some(None));
        assert_eq!((running.state, running.finding), (State::Whole, None));
        assert_eq!(judged(starting, None).finding, Some(emptied));
        // What is lost is lost, no matter which process runs.
        let lost = judged(report(Some(7)), Some(None));
        assert_eq!(lost.state, State::Refused);
    }
}
