//! What the log thread does next, as a state machine: events come in, and what is ready comes out.
//!
//! A commit may be put off for a while, so that clients that are about to ask share it (`core/linger.rs`). A commit and a
//! segment that are both asked for take turns, so that neither waits for more than one of the other.
//!
//! Knows no thread, no clock and no disk. The log thread and the simulation carry out what is ready (`core/log_work.rs`).

use quorlock_engine::RawTime;

use crate::core::linger::Linger;
use crate::core::log_queue::LogEvent;
use crate::core::next_commit::{Done, Requests};

/// What is known from one event to the next.
#[derive(Default)]
pub struct LogSchedule {
    /// The sync of this second was asked for since the time was last looked at.
    is_sync_asked_for: bool,
    /// When it begins, if it was asked for.
    sync_due_raw: Option<RawTime>,
    /// A segment is asked for, and these wait for it.
    segment: Option<Vec<Done>>,
    linger: Linger,
    /// The last thing that was ready was a commit.
    was_commit: bool,
    is_stopping: bool,
}

/// What is to be done now.
pub enum Ready {
    /// Write all that is appended, and sync it.
    Commit,
    /// Sync all that is written.
    SyncOfSecond,
    /// Make the next segment, and then report it to these.
    Prepare(Vec<Done>),
    /// Nothing before the next event, or before the raw clock shows this.
    Wait(Option<RawTime>),
    /// The log thread ends.
    Stop,
}

/// A sync of the log thread that took long.
#[derive(Clone, Copy, Debug)]
pub struct LongSync {
    /// How many replies it has released.
    pub answered: usize,
    /// How many waited for the next one before those.
    pub ahead: usize,
    /// When it ended.
    pub ended_raw: RawTime,
    /// How long it took.
    pub sync_ns: u64,
}

impl LogSchedule {
    /// Takes an event. The time is looked at by [`LogSchedule::ready`] alone: a clock that a test moves at each reading
    /// would else make an event of each event.
    pub(crate) fn receive(&mut self, event: LogEvent) {
        match event {
            LogEvent::SyncSoon => self.is_sync_asked_for = true,
            LogEvent::Prepare(done) => self.segment.get_or_insert_default().extend(done),
            LogEvent::Question(answer) => answer(),
            LogEvent::Stop => self.is_stopping = true,
            // Requests and time are looked at in any case.
            LogEvent::Commit | LogEvent::TimeMoved => {}
        }
    }

    /// What is to be done, which the caller does before it asks again. `requests`: those for the next commit.
    pub fn ready(&mut self, requests: &mut Requests, now_raw: RawTime) -> Ready {
        if std::mem::take(&mut self.is_stopping) {
            return Ready::Stop;
        }
        if std::mem::take(&mut self.is_sync_asked_for) {
            self.sync_due_raw = Some(now_raw.plus_nanos(SYNC_EVERY_NS));
        }
        let commit_raw = requests.due_raw(&mut self.linger, now_raw);
        let is_due = |due_raw: Option<RawTime>| due_raw.is_some_and(|due_raw| due_raw <= now_raw);
        let is_after_commit = std::mem::take(&mut self.was_commit);
        if is_due(commit_raw) && !(is_after_commit && self.segment.is_some()) {
            self.was_commit = true;
            return Ready::Commit;
        }
        if is_due(self.sync_due_raw) {
            self.sync_due_raw = None;
            return Ready::SyncOfSecond;
        }
        if let Some(done) = self.segment.take() {
            return Ready::Prepare(done);
        }
        Ready::Wait([commit_raw, self.sync_due_raw].into_iter().flatten().min())
    }

    /// A long sync has ended: the next commit is put off for those whom it has answered. Returns until when at the latest.
    pub fn note_long_sync(&mut self, sync: LongSync) -> Option<RawTime> {
        self.linger
            .begin(sync.answered, sync.ahead, sync.ended_raw, sync.sync_ns);
        self.linger.latest_raw()
    }
}

/// `appendfsync everysec`.
const SYNC_EVERY_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::core::next_commit::CommitRequest;
    use crate::core::next_commit::NextCommit;

    const START: RawTime = RawTime::from_nanos(5_000_000_000);

    fn after(nanos: u64) -> RawTime {
        START.plus_nanos(nanos)
    }

    /// What is ready, in a word.
    fn ready(schedule: &mut LogSchedule, next: &NextCommit, now_raw: RawTime) -> String {
        let ready = schedule.ready(&mut next.lock(), now_raw);
        match ready {
            Ready::Commit => {
                drop(next.take());
                "commit".to_owned()
            }
            Ready::SyncOfSecond => "sync".to_owned(),
            Ready::Prepare(done) => format!("prepare for {}", done.len()),
            Ready::Wait(None) => "wait".to_owned(),
            Ready::Wait(Some(until_raw)) => format!("wait {}", until_raw.nanos_since(now_raw)),
            Ready::Stop => "stop".to_owned(),
        }
    }

    #[test]
    fn the_sync_of_a_second_begins_a_second_after_it_was_asked_for() {
        let (mut schedule, next) = (LogSchedule::default(), NextCommit::default());
        assert_eq!(ready(&mut schedule, &next, START), "wait");
        schedule.receive(LogEvent::SyncSoon);
        assert_eq!(ready(&mut schedule, &next, START), "wait 1000000000");
        let early = after(999_999_999);
        assert_eq!(ready(&mut schedule, &next, early), "wait 1");
        schedule.receive(LogEvent::TimeMoved);
        assert_eq!(ready(&mut schedule, &next, after(1_000_000_000)), "sync");
        assert_eq!(ready(&mut schedule, &next, after(1_000_000_000)), "wait");
    }

    /// Planted: a commit that is due always goes first.
    #[test]
    fn commits_and_segments_take_turns() {
        let (mut schedule, next) = (LogSchedule::default(), NextCommit::default());
        let mut seen = Vec::new();
        for _ in 0..4 {
            next.ask(CommitRequest::URGENT);
            schedule.receive(LogEvent::Commit);
            schedule.receive(LogEvent::Prepare(Some(Box::new(|| {}))));
            seen.push(ready(&mut schedule, &next, START));
        }
        assert_eq!(seen, ["commit", "prepare for 2", "commit", "prepare for 2"]);
    }

    #[test]
    fn a_segment_is_made_while_a_commit_is_put_off() {
        let (mut schedule, next) = (LogSchedule::default(), NextCommit::default());
        let latest_raw = schedule.note_long_sync(LongSync {
            answered: 4,
            ahead: 0,
            ended_raw: START,
            sync_ns: 4_000_000,
        });
        assert_eq!(latest_raw, Some(after(4_000_000)));
        assert_eq!(
            ready(&mut schedule, &next, START),
            "wait",
            "nothing is asked for"
        );
        next.ask(CommitRequest {
            replies: 1,
            is_urgent: false,
            asked_raw: START,
        });
        assert_eq!(ready(&mut schedule, &next, START), "wait 1000000");
        schedule.receive(LogEvent::Prepare(None));
        assert_eq!(ready(&mut schedule, &next, START), "prepare for 0");
        assert_eq!(ready(&mut schedule, &next, after(1_000_000)), "commit");
    }

    #[test]
    fn a_stop_goes_before_all_else_and_reports_to_those_who_wait() {
        let (mut schedule, next) = (LogSchedule::default(), NextCommit::default());
        let (sender, ended) = channel::<()>();
        let done = move || drop(sender);
        schedule.receive(LogEvent::Prepare(Some(Box::new(done))));
        schedule.receive(LogEvent::Stop);
        next.ask(CommitRequest::URGENT);
        assert_eq!(ready(&mut schedule, &next, START), "stop");
        drop(schedule);
        assert!(
            ended.recv().is_err(),
            "it is dropped, which reports the end"
        );
    }
}
