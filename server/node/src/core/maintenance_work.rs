//! What the steps of the maintenance do to a node: for its thread and for the simulation.

use std::time::Duration;

use quorlock_engine::{Discarded, RawTime};

use crate::core::commit::Failure;
use crate::core::log_queue::LogEvent;
use crate::core::maintenance::{Maintenance, MaintenanceNotice, Step, View, Wake, Work};
use crate::core::report::StartReport;
use crate::core::state::NodeState;

impl NodeState {
    /// Takes the next step of the maintenance. What is to be freed besides is better dropped elsewhere. Where the step has
    /// made a part of a checkpoint, [`NodeState::note_part`] is to be called at once.
    ///
    /// # Errors
    /// When the log failed.
    pub fn next_step(
        &self,
        maintenance: &mut Maintenance,
        now_raw: RawTime,
    ) -> Result<(Step, Discarded), Failure> {
        self.statistics.sample_rate(now_raw);
        let (mut executor, now) = self.lock_now()?;
        let view = View {
            now: now.node,
            settings: &self.settings,
            rewrites: &self.rewrites,
            log: self.commit.size(),
            synced: self.commit.synced(),
        };
        let mut step = maintenance.next(&mut executor, view);
        executor.serve_postponed(now);
        // Who waited for the expiry may have set a deadline before the next one.
        if executor.take_wake_request() {
            step.wake = Wake::Soon;
        }
        if executor.has_postponed() {
            step.wake = Wake::After(POSTPONED_PAUSE);
        }
        let has_published = self.deliveries.publish(&mut executor, &self.clients);
        let discarded = executor.engine.take_discarded();
        drop(executor);
        if has_published {
            self.deliveries.wake();
        }
        Ok((step, discarded))
    }

    /// The part of a checkpoint that the last step has made has held the engine until now.
    pub fn note_part(&self, maintenance: &mut Maintenance, now_raw: RawTime) {
        maintenance.note_part(now_raw, &self.rewrites);
    }

    /// Puts START on record, and SERVING where there is nothing to wait for.
    ///
    /// # Errors
    /// When the log failed.
    pub(crate) fn begin(
        &self,
        maintenance: &mut Maintenance,
        now_raw: RawTime,
    ) -> Result<(), Failure> {
        let (mut executor, now) = self.lock_now()?;
        let step = maintenance.start(&mut executor, now.node);
        drop(executor);
        self.perform(step.work, now_raw)?;
        if maintenance.is_about_to_serve() {
            let (step, _) = self.next_step(maintenance, now_raw)?;
            self.perform(step.work, now_raw)?;
            self.conclude(&step);
        }
        Ok(())
    }

    /// The orderly stop.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub fn shut_down(
        &self,
        maintenance: &mut Maintenance,
        now_raw: RawTime,
    ) -> Result<(), Failure> {
        let (mut executor, now) = self.lock_now()?;
        let step = maintenance.stop(&mut executor, now.node);
        drop(executor);
        self.perform(step.work, now_raw)
    }

    /// Does work on the log that holds up this thread.
    ///
    /// # Errors
    /// When the log failed.
    pub fn perform(&self, work: Work, now_raw: RawTime) -> Result<(), Failure> {
        match work {
            Work::None => return Ok(()),
            Work::Write => self.write_without_waiting()?,
            Work::Commit | Work::Sync => self.log_writer.write_and_sync(&self.executor)?,
            // Nobody waits: the step is asked for again.
            Work::MakeSegment => self
                .log_queue
                .send(LogEvent::Prepare(Some(Box::new(|| {})))),
        }
        self.after_write(now_raw);
        Ok(())
    }

    /// What is left of a step once its work is done.
    pub fn conclude(&self, step: &Step) {
        if step.prepares {
            self.log_queue.send(LogEvent::Prepare(None));
        }
        if let Some(announcement) = step.announcement {
            self.tell(announcement);
        }
    }

    fn tell(&self, announcement: MaintenanceNotice) {
        match announcement {
            MaintenanceNotice::Serves { now, unlogged } => {
                let id = self.shown_id();
                StartReport::tell_of_unlogged(&id, unlogged.left_ns, unlogged.without_ttl);
                self.facts.report.served(&id, now);
                self.signals.serving.set();
            }
            MaintenanceNotice::WallClockSet { off_by_us } => {
                tell_of_wall(off_by_us, self.config.clock_drift_millionths);
            }
            MaintenanceNotice::NoRoomForCheckpoint => {
                tracing::warn!("compaction was given up: the log has no room for it");
            }
        }
    }
}

fn tell_of_wall(off_by_us: u64, drift_ppm: u32) {
    let seconds = off_by_us / 1_000_000;
    let until_there = off_by_us / u64::from(drift_ppm.max(1));
    tracing::warn!(
        "the wall clock was set: it is {seconds} s off what TIME shows. No lock and no delay \
         changes. TIME follows within the drift bound and is there in about {until_there} s; until \
         then EXAT, PXAT, EXPIREAT and PEXPIREAT mean another moment than the wall clock does. \
         Relative TTLs are not concerned"
    );
}

/// Until the next look whether the log has room for clients that could be served.
const POSTPONED_PAUSE: Duration = Duration::from_millis(5);
