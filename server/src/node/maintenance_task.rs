//! Carries out what the maintenance asks for: on the node's thread, with timers and the log thread.

use crate::node::commit::Failure;
use crate::node::log_thread::Job;
use crate::node::maintenance::{Maintenance, News, Step, View, Wake, Work};
use crate::node::report::StartReport;
use crate::node::shared::Shared;

/// Runs until the node is asked to stop.
///
/// # Errors
/// When the log failed.
pub(crate) async fn run(shared: &Shared, maintenance: &mut Maintenance) -> Result<(), Failure> {
    let mut stop = shared.signals.stop.subscribe();
    tokio::select! {
        biased;
        _ = stop.wait_for(|is_asked| *is_asked) => Ok(()),
        outcome = live(shared, maintenance) => outcome,
    }
}

async fn live(shared: &Shared, maintenance: &mut Maintenance) -> Result<(), Failure> {
    loop {
        let progress = shared.commit.progress();
        let step = shared.next_step(maintenance)?;
        match step.work {
            Work::Sync => {
                shared.perform(Work::Write)?;
                shared.synced().await?;
            }
            Work::MakeSegment => shared.segment_made().await?,
            work @ (Work::None | Work::Write | Work::Commit) => shared.perform(work)?,
        }
        shared.conclude(&step);
        match step.wake {
            Wake::Soon => tokio::task::yield_now().await,
            Wake::After(pause) => tokio::time::sleep(pause).await,
            Wake::At { raw_ns, after_sync } => tokio::select! {
                () = shared.clock.pause_until(raw_ns) => {}
                () = shared.activity.notified() => {}
                () = progress, if after_sync => {}
            },
        }
    }
}

impl Shared {
    /// Takes the next step of the maintenance.
    ///
    /// # Errors
    /// When the log failed.
    pub(crate) fn next_step(&self, maintenance: &mut Maintenance) -> Result<Step, Failure> {
        self.statistics.sample_rate(self.clock.raw_ns());
        let view = View {
            clock: &*self.clock,
            settings: &self.settings,
            rewrites: &self.rewrites,
            log: self.commit.size(),
            synced: self.commit.synced(),
        };
        Ok(maintenance.next(&mut *self.lock()?, view))
    }

    /// Puts START on record, and SERVING where there is nothing to wait for.
    ///
    /// # Errors
    /// When the log failed.
    pub(crate) fn begin(&self, maintenance: &mut Maintenance) -> Result<(), Failure> {
        let step = maintenance.start(&mut *self.lock()?, &*self.clock);
        self.perform(step.work)?;
        if maintenance.is_about_to_serve() {
            let step = self.next_step(maintenance)?;
            self.perform(step.work)?;
            self.conclude(&step);
        }
        Ok(())
    }

    /// The orderly stop.
    ///
    /// # Errors
    /// When the log failed, now or before.
    pub(crate) fn shut_down(&self, maintenance: &mut Maintenance) -> Result<(), Failure> {
        let step = maintenance.stop(&mut *self.lock()?, &*self.clock);
        self.perform(step.work)
    }

    /// Does work on the log that holds up this thread.
    ///
    /// # Errors
    /// When the log failed.
    pub(crate) fn perform(&self, work: Work) -> Result<(), Failure> {
        match work {
            Work::None => return Ok(()),
            Work::Write => self.log_writer.write(&self.core)?,
            Work::Commit | Work::Sync => self.log_writer.write_and_sync(&self.core)?,
            Work::MakeSegment => self.log_thread.send(Job::Prepare),
        }
        self.log_thread.after_write(self);
        Ok(())
    }

    /// What is left of a step once its work is done.
    pub(crate) fn conclude(&self, step: &Step) {
        if step.prepares {
            self.log_thread.send(Job::Prepare);
        }
        if let Some(news) = step.news {
            self.tell(news);
        }
    }

    fn tell(&self, news: News) {
        match news {
            News::Serves { now, unlogged } => {
                let id = self.shown_id();
                StartReport::tell_of_unlogged(&id, unlogged.left_ns, unlogged.without_ttl);
                self.report.served(&id, now);
                self.signals.serving.send_replace(true);
            }
            News::WallClockSet { off_by_us } => {
                tell_of_wall(off_by_us, self.config.clock_drift_millionths);
            }
            News::NoRoomForCheckpoint => {
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
