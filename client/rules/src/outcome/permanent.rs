//! Which causes last: what no wait changes.
//!
//! Invariant: in doubt a cause passes. A wait that goes on can be interrupted, and one that was ended
//! for nothing has lost its place. Nothing here decides whether a call ends.

use std::io::ErrorKind;

use super::cause::{Cause, FENCE_MAX};

impl Cause {
    /// Whether this lasts until somebody changes the list of nodes, a node's settings or a user's
    /// rights, so that waiting for it comes to nothing.
    ///
    /// A node that is away, silent, loading, full, a replica or in its restart delay may come back,
    /// and a name that cannot be resolved may be again; what refuses the login, the list or a command
    /// that locks need does not change by itself.
    ///
    /// # Example
    /// ```
    /// # use quorlock_client::Cause;
    /// assert!(Cause::OtherSize { size: 5 }.is_permanent()); // not all of its nodes are listed
    /// assert!(!Cause::Silent.is_permanent());
    /// ```
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::OtherCluster { .. } | Self::OtherSize { .. } | Self::SameNode(_) => true,
            Self::Agent => true,
            Self::MixedClusters { may_pass, .. } => !may_pass,
            Self::Invalid(_) | Self::WithoutFences | Self::FencesLost => true,
            Self::WithoutSharedLocks => true,
            // Nodes that are away may be nearer to this one than those that have answered.
            Self::NoNextFence { fence } => *fence == FENCE_MAX,
            // Clients come and go; passwords and protected mode stay.
            Self::LoginRefused(text) => !text.contains("max number of clients"),
            Self::Refused(text) | Self::Unidentified(text) => {
                LASTING.iter().any(|words| text.contains(words))
            }
            // What answers there is no node: something else, or one behind TLS.
            Self::Unreachable(error) => error.kind() == Some(ErrorKind::InvalidData),
            Self::Silent
            | Self::Delayed { .. }
            | Self::WentBack { .. }
            | Self::Replaced { .. }
            | Self::NotOurs
            | Self::NotWaitedFor
            | Self::NotConnected => false,
        }
    }
}

/// Words of a server, and of this client about one, that the same question gets again: a right or a
/// command that is missing, a ttl above what the node allows, a database that does not exist, a node of Redis Cluster, no identity,
/// a lock or names that another system does not keep.
const LASTING: [&str; 10] = [
    "NOPERM",
    "unknown command",
    "DB index is out of range",
    "MOVED ",
    "names no run_id",
    "is longer than restart-delay-max",
    "keeps no locks for readers",
    "keeps one name a lock",
    "in different hash slots",
    "bytes on PostgreSQL",
];

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::outcome::ConnectionError;

    #[test]
    fn settings_last_and_conditions_pass() {
        let text = |text: &str| Arc::<str>::from(text);
        let broken = |kind: ErrorKind| Cause::Unreachable(io::Error::from(kind).into());
        let left = Duration::from_secs(1);
        let (cluster, expected) = (text("red"), text("blue"));
        for lasting in [
            Cause::OtherCluster { cluster, expected },
            Cause::OtherSize { size: 5 },
            Cause::MixedClusters {
                cluster: None,
                may_pass: false,
            },
            Cause::Agent,
            Cause::NoNextFence { fence: FENCE_MAX },
            Cause::SameNode(text("redis://a:1")),
            Cause::LoginRefused(text("WRONGPASS invalid username-password pair")),
            Cause::LoginRefused(text("DENIED Redis is running in protected mode")),
            Cause::Refused(text("NOPERM this user has no permissions to run 'set'")),
            Cause::Refused(text(
                "ERR etcd keeps one name a lock: take locks one after the other",
            )),
            Cause::Refused(text(
                "ERR these names are in different hash slots of Redis Cluster",
            )),
            Cause::Refused(text("EVAL, without which ...: ERR unknown command 'EVAL'")),
            Cause::Refused(text("ERR DB index is out of range")),
            Cause::Refused(text("MOVED 1234 10.0.0.1:6379")),
            Cause::Unidentified(text("INFO names no run_id")),
            Cause::Unidentified(text("INFO is refused: NOPERM this user")),
            broken(ErrorKind::InvalidData),
        ] {
            assert!(lasting.is_permanent(), "{lasting}");
        }
        for passing in [
            Cause::LoginRefused(text("ERR max number of clients reached")),
            Cause::Refused(text("LOADING Redis is loading the dataset in memory")),
            Cause::Refused(text("MISCONF Errors writing to the AOF file")),
            Cause::Refused(text("OOM command not allowed")),
            Cause::Refused(text(
                "READONLY You can't write against a read only replica.",
            )),
            Cause::Refused(text("WRONGTYPE Operation against a key")),
            Cause::Unidentified(text("INFO is refused: BUSY Redis is busy")),
            Cause::Unreachable(ConnectionError::from("cannot resolve its name")),
            broken(ErrorKind::ConnectionRefused),
            broken(ErrorKind::NotFound),
            broken(ErrorKind::PermissionDenied),
            Cause::Delayed {
                left,
                text: text(""),
            },
            Cause::Replaced { left },
            Cause::MixedClusters {
                cluster: Some(text("red")),
                may_pass: true,
            },
            Cause::Silent,
            Cause::WentBack { left },
            Cause::NoNextFence { fence: 7 },
            Cause::NotConnected,
        ] {
            assert!(!passing.is_permanent(), "{passing}");
        }
    }
}
