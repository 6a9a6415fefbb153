//! Is the log whole, and if not, where does it break and what would a start do about it?
//!
//! Invariant: an unfavourable finding was made twice in a row at the same place. While a node writes, a
//! single look may see half of a write, or miss a segment that was just removed; the second sees more.

use std::path::Path;
use std::time::Duration;

use quorlock_engine::control::{Record, kind};
use quorlock_engine::restart::{self, History, Policy, RestartDelay, Seen, Stop};
use quorlock_engine::{NodeTime, changes};
use quorlock_persistence::{Frame, Inspection, Judgement, Summary};

use super::finding::{Finding, FindingKind};
use super::{Place, Unreadable, hash_seed, options};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::node::StartError;
use crate::node::place::is_own;

/// What a log is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Everything that was written is there.
    Whole,
    /// It breaks off, or is gone, in a way that a start copes with.
    Broken,
    /// A start refuses.
    Refused,
}

/// What was found in a data directory.
#[derive(Clone, Debug)]
pub struct Report {
    /// The directory.
    pub directory: String,
    /// The verdict.
    pub state: State,
    /// The process that has the directory: `None` if nobody has, `Some(None)` if its id is not known.
    pub holder: Option<Option<u32>>,
    /// The node, if it is known.
    pub node: Option<String>,
    /// The first thing that is wrong.
    pub finding: Option<Finding>,
    /// What a start would read; `None` if it would refuse before.
    pub summary: Option<Summary>,
    /// What a start with the default configuration would do; `None` if it would refuse, or runs.
    pub next_start: Option<NextStart>,
    /// Where the node was just writing, if it runs: what follows is not judged.
    pub moving_tail: Option<(String, u64)>,
}

/// What the next start would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextStart {
    /// How the last run ended.
    pub last_stop: &'static str,
    /// How long it would take no part, and why.
    pub delay: Option<(Duration, &'static str)>,
}

/// Looks at a data directory and judges its log.
///
/// # Errors
/// When it cannot be looked at, or holds nothing of a node.
pub fn check(directory: &Path) -> Result<Report, Unreadable> {
    let place = Place::open(directory)?;
    let look = || {
        let before = place.holder()?;
        let report = look(&place)?;
        let holder = place.holder()?.or(before);
        Ok((report, holder))
    };
    match settled(look)? {
        Some((report, holder)) => Ok(judged(report, holder)),
        None => Err(Unreadable::Restless {
            directory: place.name(),
            looks: LOOKS_MAX,
        }),
    }
}

/// Looks until nothing is found, or the same twice in a row; `None` if that never happens.
fn settled<T>(
    mut look: impl FnMut() -> Result<(Report, T), Unreadable>,
) -> Result<Option<(Report, T)>, Unreadable> {
    let mut last: Option<Finding> = None;
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
fn judged(mut report: Report, holder: Option<Option<u32>>) -> Report {
    report.holder = holder;
    if holder.is_some() {
        report.next_start = None;
        if let Some(finding) = report
            .finding
            .take_if(|finding| finding.kind == FindingKind::Break)
        {
            report.moving_tail = Some((finding.file, finding.offset.unwrap_or(0)));
        }
    }
    let is_emptied = |next: &NextStart| next.last_stop == Stop::Emptied.reason();
    if report.finding.is_none() && report.next_start.as_ref().is_some_and(is_emptied) {
        let what = "the log holds no start, but an incarnation-* file tells of one".to_owned();
        let directory = report.directory.clone();
        report.finding = Some(Finding::new(FindingKind::Emptied, directory, None, what));
    }
    report.state = match &report.finding {
        None => State::Whole,
        Some(finding) if finding.kind.is_survived() => State::Broken,
        Some(_) => State::Refused,
    };
    report
}

fn look(place: &Place) -> Result<Report, Unreadable> {
    let mut report = Report {
        directory: place.name(),
        state: State::Whole,
        holder: None,
        node: None,
        finding: None,
        summary: None,
        next_start: None,
        moving_tail: None,
    };
    let known = match place.identity() {
        Ok(known) => known,
        Err(error) => {
            report.finding = Some(bad_identity(place, &error));
            return Ok(report);
        }
    };
    report.node = known.as_ref().map(|identity| identity.id.to_string());
    let inspection = place.inspection()?;
    if inspection.segments().is_empty() {
        if known.is_none() {
            return Err(Unreadable::NoLog {
                directory: place.name(),
            });
        }
        let what = "the directory has a node.id and not one segment of a log".to_owned();
        let directory = place.name();
        report.finding = Some(Finding::new(FindingKind::Emptied, directory, None, what));
        return Ok(report);
    }
    let judgement = match inspection.judge(&options(known.as_ref())) {
        Ok(judgement) => judgement,
        Err(error) => {
            report.finding = Some(Finding::of_error(&error));
            return Ok(report);
        }
    };
    if report.node.is_none() {
        let named = judgement.summary.node_id;
        report.node = named.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
    }
    match read_history(&inspection, &judgement)? {
        Ok(history) => {
            report.finding = judgement.summary.break_at.as_ref().map(Finding::of_break);
            let is_known = known.is_some();
            report.next_start = Some(next_start(place, &history, &judgement.summary, is_known));
        }
        Err(finding) => report.finding = Some(finding),
    }
    let mut summary = judgement.summary;
    summary.foreign_files.retain(|name| !is_own(name));
    report.summary = Some(summary);
    Ok(report)
}

fn bad_identity(place: &Place, error: &StartError) -> Finding {
    let file = place.view.path().join("node.id").display().to_string();
    let kind = match error {
        StartError::BadIdentity { .. } => FindingKind::BadIdentity,
        _ => FindingKind::Unreadable,
    };
    Finding::new(kind, file, None, error.to_string())
}

/// Reads every payload, as a start would; what is not understood is a finding.
pub(super) fn read_history(
    inspection: &Inspection,
    judgement: &Judgement,
) -> Result<Result<History, Finding>, Unreadable> {
    let mut history = History::default();
    for part in &judgement.parts {
        let content = match inspection.read(part) {
            Ok(content) => content,
            Err(error) => return Ok(Err(Finding::of_error(&error.into()))),
        };
        for frame in content.frames() {
            if let Err(what) = note(&mut history, &frame.frame) {
                let segments = inspection.segments();
                let segment = segments
                    .iter()
                    .find(|segment| segment.number == part.number);
                let file = segment.map_or_else(String::new, |segment| segment.file.clone());
                let what = format!(
                    "the frame at position {} is whole, but {what}",
                    frame.frame.position
                );
                let offset = Some(frame.offset);
                return Ok(Err(Finding::new(
                    FindingKind::NotUnderstood,
                    file,
                    offset,
                    what,
                )));
            }
        }
    }
    Ok(Ok(history))
}

/// Takes note of a frame as a start does.
///
/// # Errors
/// What is not understood about it.
pub(super) fn note(history: &mut History, frame: &Frame<'_>) -> Result<(), String> {
    let time = NodeTime::from_nanos(frame.node_time_ns);
    match frame.kind {
        kind::GROUP | kind::SNAPSHOT => {
            history.frame(time);
            let all = changes(frame.payload, hash_seed()).map_err(|error| error.to_string())?;
            for change in all {
                change.map_err(|error| error.to_string())?;
            }
        }
        kind::END => history.frame(time),
        code => {
            let record = Record::decode(code, frame.payload).map_err(|error| error.to_string())?;
            history.record(time, &record);
        }
    }
    Ok(())
}

/// What a start with the default configuration would decide now.
pub(super) fn next_start(
    place: &Place,
    history: &History,
    summary: &Summary,
    has_identity: bool,
) -> NextStart {
    let clock = SystemClock;
    let raw_ns = clock.raw_ns();
    let (is_same_boot, base, base_raw_ns) =
        history.rebase(clock.boot(), raw_ns, clock.boottime_ns());
    let home = crate::node::place::Place::of(place.view.path());
    // Where the names cannot be read, the longer delay is the honest announcement.
    let newest_marker = home.newest_incarnation(&*place.view);
    let has_marker = newest_marker.map_or(true, |incarnation| incarnation > 0);
    let seen = Seen {
        now: restart::node_time(base, base_raw_ns, raw_ns).unwrap_or(base),
        is_same_boot,
        is_whole: summary.only_zeros_follow,
        is_same_place: history.start.is_none_or(|start| {
            start.place == home.fingerprint(start.incarnation, history.is_shut_down)
        }),
        has_identity: has_identity || has_marker,
        has_marker,
    };
    let verdict = history.judge(&seen, &default_policy());
    NextStart {
        last_stop: verdict.stop.reason(),
        delay: verdict.delay.map(|pending| {
            let left_ns = pending.until.as_nanos().saturating_sub(seen.now.as_nanos());
            (Duration::from_nanos(left_ns), pending.cause.delay_reason())
        }),
    }
}

fn default_policy() -> Policy {
    let config = Config::default();
    Policy {
        restart_delay: RestartDelay::Auto,
        trusts_fsync: config.trust_fsync,
        cap_ns: u64::try_from(config.restart_delay_max.as_nanos()).unwrap_or(u64::MAX),
        drift_ppm: u64::from(config.clock_drift_millionths),
        first_start_waits: false,
        vouches_for_first_start: false,
    }
}

/// A finding has to be made twice in a row; a running node may change the directory in between.
const LOOKS_MAX: u32 = 12;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
    use super::*;

    fn report(offset: Option<u64>) -> Report {
        let found = |offset| {
            let (file, what) = ("segment".to_owned(), "what".to_owned());
            Finding::new(FindingKind::DurableDataLost, file, Some(offset), what)
        };
        Report {
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
        assert_eq!(running.moving_tail, Some(("segment".to_owned(), 7)));
        assert_eq!(judged(found, None).state, State::Broken);
        // What is lost is lost, whoever runs.
        let lost = judged(report(Some(7)), Some(None));
        assert_eq!(lost.state, State::Refused);
    }
}
