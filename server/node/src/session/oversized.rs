//! Requests that are too large to be kept: refused by name, in their order, wherever the connection is.

use quorlock_engine::{ErrorReply, Reply};

use crate::core::commit::Failure;
use crate::protocol::{Output, Oversized};
use crate::session::Session;
use crate::session::batch::{Answer, Batch};
use crate::session::dispatch::NOAUTH;
use crate::session::named_request::NamedRequest;
use crate::session::pending::Next;

impl Batch<'_> {
    /// Refuses a request that is too large to be kept, and appends the reply.
    pub(crate) fn refuse(
        &mut self,
        session: &mut Session,
        oversized: &Oversized,
        replies: &mut Output,
    ) -> Next {
        self.commands += 1;
        self.under_lock += 1;
        let words = oversized.words();
        let request = NamedRequest::of(&words);
        self.refuse_call(request.counted_as());
        let answer = self.refusal(session, oversized, request);
        let answer = answer.map(Answer::Reply);
        if session.is_tracking() {
            session.note_executed(request);
        }
        self.respond(session, answer, &mut Default::default(), replies)
    }

    fn refusal(
        &mut self,
        session: &mut Session,
        oversized: &Oversized,
        request: NamedRequest<'_>,
    ) -> Result<Reply, Failure> {
        if !session.is_authenticated {
            return Ok(Reply::Error(NOAUTH));
        }
        let Some(spec) = request.spec else {
            let unknown = match request.arguments {
                [] | [b"", ..] => {
                    ErrorReply::new(format!("ERR no command has such a name: {oversized}"))
                }
                [name, ..] => request.unknown(&[name]),
            };
            return session.refuse(request, unknown, self);
        };
        session.note_command(request);
        let error = ErrorReply::new(format!(
            "ERR '{}' was not executed: {oversized}. Nothing was changed",
            spec.name
        ));
        session.refuse(request, error, self)
    }
}
