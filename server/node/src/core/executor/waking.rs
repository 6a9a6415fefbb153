//! Who is woken: those who wait for locks, and the maintenance, which wakes them when the time has come.

use std::time::Duration;

use quorlock_engine::{Effects, NodeTime};

use crate::core::executor::Executor;

impl Executor {
    /// Wakes those who wait for locks that the last group has freed. They are told what its reply tells.
    pub(super) fn hand_over(&mut self, now: NodeTime) {
        let Effects {
            journal, published, ..
        } = &mut self.effects;
        if !journal.is_empty() {
            self.engine.hand_over(now, journal, published);
        }
    }

    /// Wakes those who wait for locks and whose turn has come by time. Returns how long it is until the next one's, zero
    /// if there is more.
    pub(crate) fn hand_over_due(&mut self, now: NodeTime) -> Option<Duration> {
        if self.engine.next_hand_over()? <= now {
            let mut published = Vec::new();
            self.engine
                .hand_over_due(now, HAND_OVERS_PER_STEP, &mut published);
            let wait = self.wait_for_all();
            self.outbox
                .extend(&mut self.engine, published.into_iter(), wait);
        }
        let next = self.engine.next_hand_over()?;
        Some(next.saturating_since(now))
    }

    /// The maintenance sleeps until `at`, and asks to be woken by a write of a key that ends before that.
    pub(crate) fn sleep_until(&mut self, at: NodeTime) {
        self.maintained_at = Some(at);
    }

    /// The maintenance is awake.
    pub(crate) fn awake(&mut self) {
        self.maintained_at = None;
    }

    /// Whether the maintenance asked to be woken, and there is a reason: a key ends well before it comes back. Says so once.
    pub(crate) fn take_wake_request(&mut self) -> bool {
        let Some(at) = self.maintained_at else {
            return false;
        };
        let next = self.engine.next_deadline();
        let mut is_early = next.is_some_and(|next| next.saturating_add(WAKE_SLACK) <= at);
        is_early |= self.engine.next_hand_over().is_some_and(|next| next < at);
        if is_early {
            self.maintained_at = None;
        }
        is_early
    }
}

/// Some tens of microseconds.
const HAND_OVERS_PER_STEP: usize = 64;

/// A key that ends so little before the maintenance comes back is not worth a wake-up.
const WAKE_SLACK: Duration = Duration::from_millis(5);
