//! What a node says about each command that a script calls, before it runs.

use std::fmt;
use std::sync::Arc;

use crate::error::ErrorReply;

/// Decides whether the user of a script may call a command; the refusal, if not.
#[derive(Clone)]
pub struct CommandGuard(Arc<Refuses>);

type Refuses = dyn Fn(&[&[u8]]) -> Option<ErrorReply> + Send + Sync;

impl CommandGuard {
    /// Asks this before each command. The first argument is the name of one that exists, and they are right in number.
    pub fn new(refuses: impl Fn(&[&[u8]]) -> Option<ErrorReply> + Send + Sync + 'static) -> Self {
        Self(Arc::new(refuses))
    }

    pub(crate) fn check(&self, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
        (self.0)(arguments).map_or(Ok(()), Err)
    }
}

impl fmt::Debug for CommandGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CommandGuard")
    }
}
