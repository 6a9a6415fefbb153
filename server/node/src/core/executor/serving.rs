//! Clients that wait for an element are served behind the command that wrote one, under the same lock.

use quorlock_engine::Moment;

use crate::core::executor::room::GROUP_BYTES_MAX;
use crate::core::executor::{Executor, Phase, ServedBehind};
use crate::core::wait::DurabilityWait;

impl Executor {
    /// Serves the clients that wait and can have what they wait for, each with a group of its own. Those
    /// that would need a segment of the log that is late are left for later.
    pub(super) fn serve(&mut self, now: Moment) {
        self.has_unserved = false;
        while self.engine.has_ready() && !self.has_postponed() {
            self.begin(true);
            self.effects.room.is_retried = self.is_segment_late();
            let Some(served) = self.engine.serve_next(now, &mut self.effects) else {
                self.has_unserved = self.effects.lacks_room();
                break;
            };
            let mut wait = DurabilityWait::default();
            let published = self.outbox.len();
            self.log(now.node, &mut wait);
            self.served.push(ServedBehind {
                served,
                wait,
                published,
            });
            self.served_count += 1;
        }
        if self.has_postponed() {
            self.appender.want_spare();
        }
    }

    /// How many clients that waited were served so far.
    pub(crate) fn served_count(&self) -> u64 {
        self.served_count
    }

    /// Whether clients could have what they wait for, and the log has no room for that yet.
    pub(crate) fn has_postponed(&self) -> bool {
        let lacks_room = self.has_unserved || self.lacks_room_beside_kept_back(2 * GROUP_BYTES_MAX);
        self.engine.has_ready() && lacks_room && self.is_segment_late()
    }

    /// Serves those that were left for later.
    pub(crate) fn serve_postponed(&mut self, now: Moment) {
        if self.engine.has_ready() && self.phase == Phase::Serving {
            self.serve(now);
        }
    }
}
