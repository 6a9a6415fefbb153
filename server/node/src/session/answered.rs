//! What a command of the node comes to: an answer, a refusal, or a node that has failed.

use quorlock_engine::{ErrorReply, Reply};

use crate::core::commit::Failure;
use crate::session::batch::Answer;

/// What a command of the node comes to.
pub(crate) type Answered = Result<Answer, Unanswered>;

/// Why a command of the node has no answer of its own.
pub(crate) enum Unanswered {
    /// It is refused with this error.
    Refused(ErrorReply),
    /// The node has failed.
    Failed(Failure),
}

impl From<ErrorReply> for Unanswered {
    fn from(error: ErrorReply) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Unanswered {
    /// The error is the answer.
    pub(super) fn into_answer(self) -> Result<Answer, Failure> {
        match self {
            Self::Refused(error) => Ok(Answer::Reply(Reply::Error(error))),
            Self::Failed(failure) => Err(failure),
        }
    }
}
