//! Why a connection to a node could not be made, or broke.

use std::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::Arc;

/// Why a connection to a node could not be made, or broke: in words, and with the system's own error where there was
/// one. Two are equal if their words and the kinds of their errors are.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { quorlock_testkit::block_on(example()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::ErrorKind;
/// use quorlock_client::{AcquireError, Cause, NodeAnswer, Redlock, Wait};
///
/// let nobody = Redlock::builder().node("redis://127.0.0.1:1").build()?;
/// let error = nobody.lock("backup").wait(Wait::None).acquire().await.unwrap_err();
/// let AcquireError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
/// let NodeAnswer::Not(Cause::Unreachable(error)) = &nodes[0].answer else { panic!("{}", nodes[0]) };
/// assert_eq!(error.kind(), Some(ErrorKind::ConnectionRefused)); // is it started, at this port?
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ConnectionError {
    text: Arc<str>,
    source: Option<Arc<io::Error>>,
}

impl ConnectionError {
    /// The kind of the system's error; none where the connection was given up without one, as for a node that went
    /// silent. What does not speak the protocol is [`InvalidData`](io::ErrorKind::InvalidData).
    #[must_use]
    pub fn kind(&self) -> Option<io::ErrorKind> {
        self.source.as_ref().map(|error| error.kind())
    }

    /// The system's error, if there was one.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        self.source.as_deref()
    }

    /// What failed with this error.
    pub(crate) fn while_doing(what: &str, error: io::Error) -> Self {
        Self {
            text: Arc::from(format!("{what} failed: {error}")),
            source: Some(Arc::new(error)),
        }
    }

    fn compared(&self) -> (&str, Option<io::ErrorKind>) {
        (&self.text, self.kind())
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        Self {
            text: Arc::from(error.to_string()),
            source: Some(Arc::new(error)),
        }
    }
}

/// An error of which only the words are known.
impl From<&str> for ConnectionError {
    fn from(text: &str) -> Self {
        Self {
            text: Arc::from(text),
            source: None,
        }
    }
}

impl PartialEq for ConnectionError {
    fn eq(&self, other: &Self) -> bool {
        self.compared() == other.compared()
    }
}

impl Eq for ConnectionError {}

impl Hash for ConnectionError {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.compared().hash(state);
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for ConnectionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, kind) = self.compared();
        write!(formatter, "ConnectionError({text:?}, {kind:?})")
    }
}

impl Error for ConnectionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.io_error().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Cause;

    #[test]
    fn errors_of_another_kind_differ_also_where_their_words_do_not() {
        let of = |kind| ConnectionError::from(io::Error::new(kind, "it broke"));
        let reset = || of(io::ErrorKind::ConnectionReset);
        assert_eq!(reset(), reset());
        assert_ne!(reset(), of(io::ErrorKind::BrokenPipe));
        assert_ne!(reset(), ConnectionError::from("it broke"));
        assert_ne!(
            reset(),
            io::Error::from(io::ErrorKind::ConnectionReset).into()
        );
        let reading = ConnectionError::while_doing("reading", io::ErrorKind::TimedOut.into());
        assert_eq!(reading.to_string(), "reading failed: timed out");
        assert_eq!(reading.kind(), Some(io::ErrorKind::TimedOut));
    }

    #[test]
    fn the_systems_error_is_the_source() {
        let refused = io::Error::from_raw_os_error(111);
        let cause = Cause::Unreachable(refused.into());
        assert!(
            cause
                .to_string()
                .starts_with("unreachable: Connection refused")
        );
        let source = cause
            .source()
            .and_then(|error| error.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(111));
        assert!(Cause::Unreachable("it babbles".into()).source().is_none());
        assert!(Cause::Silent.source().is_none());
    }
}
