//! A request without a reply yet: what it waits for, until when, and what comes of it then.
//!
//! It blocks its own connection and no other. `event_loop/pending.rs` lists such requests by the number that has to be
//! reached and by the end of their time; each iteration takes out what is met (`event_loop/waits.rs`). What moves such a
//! number wakes the worker. A new thing to wait for is a [`Condition`], its row in [`Condition::traits`], and in `EventLoop::reached`
//! how far it has come.
//!
//! Of what is durable the answer is true in every mode: the local count is 1 only when everything that the
//! connection wrote, or was told of, is synced. A node has no replicas, so it waits for none: what
//! cannot happen would only end with the timeout.

use quorlock_engine::{ErrorReply, RawTime, Reply};
use quorlock_persistence::Position;

use crate::core::clients::WaitState;
use crate::core::state::NodeState;
use crate::core::upstream::UNANSWERED;

/// A request without a reply yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) condition: Condition,
    /// Up to where the log has to be synced at once for this; [`Position::ZERO`] where it waits for something else.
    pub(crate) position: Position,
    /// Raw-clock reading at which it is answered whatever has happened; `None`: there is no end.
    pub(crate) until_raw: Option<RawTime>,
}

/// What the connection does after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Everything that arrived is executed.
    Read,
    /// Send what there is, and execute nothing more until this is over.
    Wait(Pending),
    /// Send what there is and close.
    Close,
}

impl Next {
    /// Whether the request was not executed, and is to be executed again.
    pub(crate) fn comes_again(self) -> bool {
        matches!(self, Self::Wait(pending) if pending.condition.traits().outcome == Outcome::Execute)
    }
}

/// What a request waits for. Those of one iteration go on in the order of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// The log is synced up to the position of the request, or has failed.
    Synced,
    /// A key has an element for it, which comes as a delivery.
    Element,
    /// Nothing but the end of its time.
    Time,
    /// A segment of the log was made, or could not be.
    Segment,
    /// The pause of the node is over, and all who came before have had their turn.
    PauseOver,
    /// Enough of what was published is handed out.
    BacklogBelow,
    /// The node's upstream has executed it; the reply comes as a delivery.
    Upstream,
    /// The same for what its client alone wants, and which may take long: the upstream ends it when the client goes.
    UpstreamWait,
}

impl Condition {
    /// What follows from the condition alone, one row for each.
    pub(crate) fn traits(self) -> ConditionTraits {
        use Outcome::{Answer, Execute};
        use WaitState::{Blocked, Element, Paused};
        let row = |outcome, shown_as, is_for_client_alone, is_owed_at_stop| ConditionTraits {
            outcome,
            shown_as,
            is_for_client_alone,
            is_owed_at_stop,
        };
        match self {
            Self::Synced => row(Answer, Some(Blocked), false, true),
            // Who waits for an element is on the engine's list: only who takes it off ends the wait.
            Self::Element => row(Answer, Some(Element), true, false),
            Self::Time => row(Answer, Some(Blocked), false, true),
            Self::Segment => row(Execute, None, false, true),
            Self::PauseOver => row(Execute, Some(Paused), true, false),
            Self::BacklogBelow => row(Execute, None, false, false),
            // It is being executed: no other client may end that.
            Self::Upstream => row(Answer, None, false, true),
            Self::UpstreamWait => row(Answer, None, true, false),
        }
    }
}

/// What follows from a condition alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionTraits {
    pub(crate) outcome: Outcome,
    /// What other clients see of it, and may end; nothing where the node alone is to blame for the wait.
    pub(crate) shown_as: Option<WaitState>,
    /// Whether nobody would get what it waits for once the client sends no more.
    pub(crate) is_for_client_alone: bool,
    /// Whether a node that stops still answers it: what it waits for comes without another client.
    pub(crate) is_owed_at_stop: bool,
}

/// What comes once the condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The request is answered.
    Answer,
    /// The request was not executed: it is now, as if it had just come.
    Execute,
}

impl Pending {
    /// Without an end but the condition.
    pub(crate) const fn on(condition: Condition) -> Self {
        Self {
            condition,
            position: Position::ZERO,
            until_raw: None,
        }
    }

    /// What the client is told if it has not got what it waits for by now.
    pub(crate) fn reply(self, node: &NodeState) -> Reply {
        match self.condition {
            Condition::Synced => {
                let is_synced = is_synced(node, self.position);
                match node.commit.failure() {
                    Some(failure) if !is_synced => Reply::Error(ErrorReply::new(format!(
                        "MISCONF {failure}. Whether what this connection has written is on disk is \
                         unknown: treat its locks as not granted. The node stops"
                    ))),
                    _ => acknowledged(is_synced),
                }
            }
            Condition::Element => Reply::NilArray,
            Condition::Upstream | Condition::UpstreamWait => Reply::Error(UNANSWERED),
            _ => Reply::Ok,
        }
    }
}

/// Whether a power loss loses nothing up to this position.
pub(super) fn is_synced(node: &NodeState, position: Position) -> bool {
    node.commit.synced() >= position
}

/// The reply of WAITAOF: whether this node has synced it, and how many replicas have, of which there are none.
pub(super) fn acknowledged(is_synced: bool) -> Reply {
    Reply::Array(vec![
        Reply::Integer(i64::from(is_synced)),
        Reply::Integer(0),
    ])
}
