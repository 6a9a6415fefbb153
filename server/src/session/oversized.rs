//! Requests that are too large to be kept: refused by name, in their order, wherever the connection is.

use quorlock_engine::{ErrorReply, Reply, spec_named};

use crate::core::commit::Failure;
use crate::protocol::{Output, Oversized};
use crate::session::batch::{Answer, Batch, Next};
use crate::session::dispatch::NOAUTH;
use crate::session::{Session, absent, introspection, numbers};

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
        self.refuse_call(numbers::of_request(&words));
        let answer = self.refusal(session, oversized).map(Answer::Reply);
        if session.is_tracking() {
            session.note_executed(&words);
        }
        self.respond(session, answer, &mut Default::default(), replies)
    }

    fn refusal(&mut self, session: &mut Session, oversized: &Oversized) -> Result<Reply, Failure> {
        if !session.is_authenticated {
            return Ok(Reply::Error(NOAUTH));
        }
        let words = oversized.words();
        let name = words.first().copied().unwrap_or_default();
        let spec = spec_named(name).map(|spec| (spec.name, spec.about.subcommands));
        let row = || introspection::named(name).map(|row| (row.name, row.parts()));
        let Some((name, parts)) = spec.or_else(row) else {
            let unknown = match name {
                b"" => ErrorReply::new(format!("ERR no command has such a name: {oversized}")),
                _ => absent::refusal(&words[..1]),
            };
            return session.refuse("", unknown, self);
        };
        session.note_command(name, parts, &words);
        let error = ErrorReply::new(format!(
            "ERR '{name}' was not executed: {oversized}. Nothing was changed"
        ));
        session.refuse(name, error, self)
    }
}
