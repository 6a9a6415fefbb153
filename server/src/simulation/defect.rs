//! Wrong orders of the node's steps, planted on purpose, to show that the exploration of crashes notices them.
//!
//! They are put together here from the node's parts; nothing in the node knows of them. A real node never
//! contains this file's feature.

use quorlock_engine::SnapshotCursor;
use quorlock_engine::control::{Control, Durability, Record, kind};
use quorlock_persistence::Kind;

use crate::node::commit::Failure;
use crate::node::core::Phase;
use crate::node::log_thread::Job;
use crate::simulation::{Node, Wait};

impl Node {
    /// SHUTDOWN is put on record and synced, and requests are still executed after it.
    ///
    /// # Errors
    /// When the log failed.
    pub fn stop_early(&mut self) -> Result<(), Failure> {
        {
            let mut core = self.shared.lock()?;
            let now = core.time.node_now(&*self.shared.clock);
            core.append(now, &Record::Shutdown(None));
        }
        self.commit()
    }

    /// The orderly stop of a node that waits, which forgets what it still owes.
    ///
    /// # Errors
    /// When the log failed.
    pub fn stop_without_debt(self) -> Result<(), Failure> {
        {
            let mut core = self.shared.lock()?;
            let now = core.time.node_now(&*self.shared.clock);
            core.phase = Phase::Stopped("it is stopping");
            core.append(now, &Record::Shutdown(None));
        }
        self.shared.commit.write_and_sync(&self.shared.core)
    }

    /// Grants as soon as the delay is over, before SERVING is written or synced.
    ///
    /// # Errors
    /// When the log failed.
    pub fn serve_at_once(&mut self) -> Result<(), Failure> {
        let mut core = self.shared.lock()?;
        let now = core.time.node_now(&*self.shared.clock);
        core.append(now, &Record::Serving);
        core.phase = Phase::Serving;
        drop(core);
        self.shared.signals.serving.send_replace(true);
        Ok(())
    }

    /// Executes a request and puts the promise that it needs on record after the grant; the reply does not wait for
    /// it.
    pub fn execute_before_promise(&mut self, arguments: &[&[u8]]) -> (Vec<u8>, Wait) {
        // After a failure nothing is granted any more.
        let on_record_ns = self.shared.lock().map_or(u64::MAX, |mut core| {
            std::mem::replace(&mut core.promise.on_record_ns, u64::MAX)
        });
        let (reply, wait) = self.execute(arguments);
        if let Ok(mut core) = self.shared.lock() {
            core.promise.on_record_ns = on_record_ns;
            let longest_ns = core.promise.longest_ns;
            if let Some(promise_ns) = core.promise.grant(longest_ns) {
                let now = core.time.node_now(&*self.shared.clock);
                core.append(now, &Record::Promise(promise_ns));
            }
        }
        (reply, wait)
    }

    /// Puts a lower promise on record, and goes on granting under the higher one.
    ///
    /// # Errors
    /// When the log failed.
    pub fn lower_promise_on_record(&mut self) -> Result<(), Failure> {
        {
            let mut core = self.shared.lock()?;
            let now = core.time.node_now(&*self.shared.clock);
            core.append(now, &Record::Promise(0));
        }
        self.commit()
    }

    /// Writes a checkpoint whose end comes before its parts.
    ///
    /// # Errors
    /// When the log failed.
    pub fn compact_end_first(&mut self) -> Result<(), Failure> {
        {
            let mut core = self.shared.lock()?;
            let now = core.time.node_now(&*self.shared.clock);
            let control = Control {
                start: self.shared.start,
                serving: core.phase == Phase::Serving,
                weakest: self.shared.durability(),
                promise_ns: core.promise.on_record_ns,
            };
            let mut payload = Vec::new();
            Record::Control(control).encode(&mut payload);
            let nanos = now.as_nanos();
            let opening = Kind::checkpoint_begin(kind::CONTROL);
            core.appender.append(opening, nanos, &payload);
            let end = Kind::checkpoint_end(kind::END);
            core.appender.append(end, nanos, &[]);
        }
        self.commit()?;
        self.work_on_log()?;
        let mut part = Vec::new();
        let mut cursor = Some(SnapshotCursor::default());
        while let Some(from) = cursor {
            {
                let mut core = self.shared.lock()?;
                let now = core.time.node_now(&*self.shared.clock);
                cursor = core.engine.snapshot(from, self.part_bytes, &mut part);
                if !part.is_empty() && self.shared.durability() != Durability::Volatile {
                    let kind = Kind::new(kind::SNAPSHOT);
                    core.appender.append(kind, now.as_nanos(), &part);
                }
            }
            self.write()?;
        }
        self.shared.log_thread.send(Job::Prepare);
        Ok(())
    }
}
