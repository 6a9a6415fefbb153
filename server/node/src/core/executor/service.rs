//! Whether the node serves locks, and what a command is told while it does not.

use std::time::Duration;

use quorlock_clock::show_duration;
use quorlock_engine::{ErrorReply, Flags, NodeTime, Spec};

use crate::core::executor::{Executor, Phase};

impl Executor {
    /// Why this command is not executed now: the node serves no locks, or keys take too much memory for what adds to them.
    pub(crate) fn refuses(&self, now: NodeTime, spec: &Spec) -> Option<ErrorReply> {
        self.refuses_transaction(now, needs_service(spec))
            .or_else(|| {
                self.engine
                    .refuses_to_grow(spec.flags.contains(Flags::DENY_OOM))
            })
    }

    /// Why no transaction is executed now that needs the node to serve locks.
    pub(crate) fn refuses_transaction(
        &self,
        now: NodeTime,
        needs_service: bool,
    ) -> Option<ErrorReply> {
        let is_served = self.phase == Phase::Serving;
        (!is_served && needs_service).then(|| self.refusal(now))
    }

    /// What is left of the restart delay; none outside of it.
    pub(crate) fn delay_left(&self, now: NodeTime) -> Option<Duration> {
        match &self.phase {
            Phase::Waiting(until, _) => Some(until.saturating_since(now)),
            Phase::Serving | Phase::Stopped(_) => None,
        }
    }

    /// Why the node serves no locks right now: the code, the milliseconds left and the node's id as
    /// fields, and a sentence.
    fn refusal(&self, now: NodeTime) -> ErrorReply {
        let text = match &self.phase {
            Phase::Serving => "ERR serving".to_owned(),
            Phase::Stopped(why) => format!("ERR node {} grants no more: {why}", self.rules.node_id),
            Phase::Waiting(until, reason) => {
                let left_ns = until.as_nanos().saturating_sub(now.as_nanos());
                let left_ms = left_ns.div_ceil(1_000_000);
                let left = show_duration(Duration::from_millis(left_ms));
                let code = if self.rules.answers_loading {
                    "LOADING"
                } else {
                    "RESTARTDELAY"
                };
                let id = &self.rules.node_id;
                let advice = self.rules.advice;
                format!(
                    "{code} {left_ms} {id} this node is in its restart delay and serves no locks for \
                     another {left} ({reason}{advice})"
                )
            }
        };
        ErrorReply::new(text)
    }
}

/// Whether only a node that serves locks executes this command.
pub(crate) fn needs_service(spec: &Spec) -> bool {
    spec.flags.contains(Flags::SCRIPT) || spec.flags.contains(Flags::TOUCHES_KEYS)
}
