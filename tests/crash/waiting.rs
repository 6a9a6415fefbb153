//! The client that waits for an element: what it gets, and when.

use super::model::{Execution, Expected, Keys, Moment, State};
use super::oracle::Oracle;
use super::request::Request;

/// A client that waits for an element.
#[derive(Clone, Debug)]
pub(crate) struct WaitingClient {
    pub(crate) session: u64,
    pub(crate) database: u8,
    pub(crate) request: Request,
}

/// It is served.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    /// Who waited.
    pub(crate) session: u64,
    pub(crate) text: String,
    pub(crate) reply: Vec<u8>,
    pub(crate) after: State,
}

impl Oracle {
    pub(super) fn execution<'a>(
        &self,
        now: Moment,
        database: u8,
        keys: &'a mut Keys,
    ) -> Execution<'a> {
        Execution {
            now,
            rules: self.rules,
            database,
            keys,
            messages: Vec::new(),
            between: Vec::new(),
        }
    }

    /// What the client gets that waits, if these keys have it.
    pub(super) fn serve(&self, now: Moment, keys: &Keys) -> Option<Serving> {
        let waiting = self.waiting.as_ref()?;
        let mut keys = keys.clone();
        let mut execution = self.execution(now, waiting.database, &mut keys);
        let Expected::Exactly(reply) = execution.run(&waiting.request.words) else {
            return None;
        };
        let messages = execution.messages;
        (!reply.is_empty()).then(|| Serving {
            session: waiting.session,
            text: format!("served: {}", waiting.request.text()),
            reply,
            after: State { keys, messages },
        })
    }

    /// A client waits no longer that was told something else.
    pub(crate) fn end_wait(&mut self, session: u64) {
        self.waiting.take_if(|waiting| waiting.session == session);
    }
}
