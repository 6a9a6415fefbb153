//! CLIENT REPLY: whether a connection gets replies. What it listens to reaches it in any case.

use quorlock_engine::{ErrorReply, Reply};

use crate::protocol::{Output, reply};
use crate::session::Session;
use crate::session::batch::Answer;
use crate::session::executed::{Executed, ReplyContent};
use crate::session::made_once::MadeOnce;

/// The replies that a connection wants.
#[derive(Debug, Default)]
pub(super) struct ReplyMode {
    wanted: WantedReplies,
    /// One was not sent since this was last asked.
    has_suppressed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WantedReplies {
    #[default]
    All,
    None,
    /// All but the one to the next request.
    AllButNext,
    /// All but the one to this request.
    AllButThis,
}

impl Session {
    /// Whether the client wants the reply to the present request.
    pub(crate) fn wants_replies(&self) -> bool {
        matches!(
            self.replies.wanted,
            WantedReplies::All | WantedReplies::AllButNext
        )
    }

    /// Appends a reply, if the client wants it.
    pub(crate) fn write(&mut self, replies: &mut Output, answer: &Reply) {
        let is_wanted = self.wants_replies();
        // What comes of listening is no reply, SUBSCRIBE's confirmation included.
        if is_wanted || matches!(answer, Reply::Push(_)) {
            reply::write(replies, answer, self.caller.protocol);
        } else {
            self.replies.has_suppressed = true;
        }
    }

    /// The same for a reply that is not made for this client.
    pub(crate) fn write_made(&mut self, replies: &mut Output, answer: &MadeOnce) {
        if self.wants_replies() {
            replies.push_shared(answer.rendered(self.caller.protocol));
        } else {
            self.replies.has_suppressed = true;
        }
    }

    /// The same for what EXEC answers.
    pub(crate) fn write_executed(&mut self, replies: &mut Output, executed: &Executed) {
        if executed.is_wanted {
            reply::write_array_header(replies, executed.parts.len());
        }
        let mut has_suppressed = !executed.is_wanted;
        for part in &executed.parts {
            for one in part.content.replies() {
                if part.is_wanted || matches!(one, Reply::Push(_)) {
                    reply::write(replies, one, part.protocol);
                } else {
                    has_suppressed = true;
                }
            }
            match &part.content {
                ReplyContent::Made(made) if part.is_wanted => {
                    replies.push_shared(made.rendered(part.protocol));
                }
                _ => {}
            }
            if part.is_last {
                break;
            }
        }
        self.replies.has_suppressed |= has_suppressed;
    }

    /// Notes that a request has had its reply, sent or not.
    pub(crate) fn note_answered(&mut self) {
        self.replies.wanted = match self.replies.wanted {
            WantedReplies::AllButNext => WantedReplies::AllButThis,
            WantedReplies::AllButThis => WantedReplies::All,
            other => other,
        };
    }

    /// RESET: all replies are wanted again, as in Redis behind its own where CLIENT REPLY SKIP came before it.
    pub(super) fn reset_replies(&mut self) {
        self.replies.wanted = match self.replies.wanted {
            WantedReplies::AllButThis => WantedReplies::AllButThis,
            _ => WantedReplies::All,
        };
    }

    /// Whether a reply was not sent since the last call: nothing waits for the log then.
    pub(crate) fn take_unanswered(&mut self) -> bool {
        std::mem::take(&mut self.replies.has_suppressed)
    }

    pub(super) fn set_replies(&mut self, mode: &[u8]) -> Answer {
        let is = |word: &[u8]| mode.eq_ignore_ascii_case(word);
        let wanted = match self.replies.wanted {
            _ if is(b"on") => WantedReplies::All,
            _ if is(b"off") => WantedReplies::None,
            WantedReplies::None if is(b"skip") => WantedReplies::None,
            _ if is(b"skip") => WantedReplies::AllButNext,
            _ => return Answer::Reply(Reply::Error(ErrorReply::SYNTAX)),
        };
        self.replies.wanted = wanted;
        match wanted {
            WantedReplies::All => Answer::Reply(Reply::Ok),
            _ => Answer::Nothing,
        }
    }
}
