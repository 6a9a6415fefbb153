//! What a node says about each command that a script calls, before it runs.

use std::fmt;
use std::sync::Arc;

use crate::error::ErrorReply;

/// Decides whether the user of a script may call a command; the refusal, if not.
#[derive(Clone)]
pub struct CommandGuard(Arc<Refuses>);

type Refuses = dyn Fn(&[&[u8]], Purpose) -> Option<ErrorReply> + Send + Sync;

/// What a script asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It calls the command.
    Call,
    /// It only wants to know, and may have given too few arguments.
    Question,
}

impl CommandGuard {
    /// Asks this before each command. The first argument is the name of a command that exists.
    pub fn new(
        refuses: impl Fn(&[&[u8]], Purpose) -> Option<ErrorReply> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(refuses))
    }

    /// What it says to a command.
    pub fn refuses(&self, arguments: &[&[u8]], purpose: Purpose) -> Option<ErrorReply> {
        (self.0)(arguments, purpose)
    }

    pub(crate) fn check(&self, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
        (self.0)(arguments, Purpose::Call).map_or(Ok(()), Err)
    }

    pub(crate) fn allows(&self, arguments: &[&[u8]]) -> bool {
        (self.0)(arguments, Purpose::Question).is_none()
    }
}

impl fmt::Debug for CommandGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CommandGuard")
    }
}
