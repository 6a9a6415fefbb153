//! Why directives that a node uses cannot be changed while it runs: what CONFIG SET says where it refuses one.
//!
//! Every directive that is used is live or has a row here. Those that have no effect say so in their own rows.

/// The reason for a directive that is used and not live; None for any other.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    let mut rows = REASONS.iter();
    rows.find(|(names, _)| names.contains(&name))
        .map(|(_, why)| *why)
}

const REASONS: &[(&[&str], &str)] = &[
    (
        &[
            "bind",
            "port",
            "tls-port",
            "unixsocket",
            "unixsocketperm",
            "tcp-backlog",
            "metrics-tls",
        ],
        "a node listens from its start on where clients expect it; change the configuration and restart the node",
    ),
    (
        &["requirepass-file"],
        "the file is read at start; CONFIG SET requirepass takes a password at once",
    ),
    (
        &["aclfile"],
        "where users are kept is decided at start; ACL LOAD reads the same file again",
    ),
    (
        &["dir"],
        "the log and the identity of a running node lie there; stop the node before you move them",
    ),
    (
        &["appendonly"],
        "whether locks are logged is decided at start, because what a node without a log forgets has to be waited for; \
         change the configuration and restart the node",
    ),
    (
        &["log-direct-io", "workers", "databases"],
        "what a start makes for it stays as it is; change the configuration and restart the node",
    ),
    (
        &["metrics-lock-patterns"],
        "a lock is counted under its pattern from its grant to its end; change the configuration and restart the node",
    ),
    (
        &[
            "logfile",
            "log-format",
            "syslog-enabled",
            "syslog-ident",
            "syslog-facility",
            "pidfile",
            "supervised",
            "supervised-ready",
        ],
        "it is about the process from its start on; a log file that was moved away is made anew",
    ),
    (
        &["first-start", "restart-delay", "trust-fsync"],
        "it decides at a start, and this one is over; change the configuration for the next one",
    ),
    (
        &["clock-drift-percent"],
        "what is on record was computed with it; change the configuration and restart the node",
    ),
    (
        &["enable-debug-command"],
        "a client that may send CONFIG SET could let all others wait; change the configuration and restart the node",
    ),
    (
        &["cluster-id", "node-name"],
        "clients take the node for the one that it said it was; change the configuration and restart the node",
    ),
];

#[cfg(test)]
mod tests {
    use super::super::{directives, table, tls};
    use super::*;

    #[test]
    fn what_is_used_is_live_or_has_a_reason_and_never_both() {
        for directive in table::USED.iter().chain(tls::USED) {
            if directive.has_value() {
                let name = directive.name;
                assert_ne!(directive.is_live(), reason(name).is_some(), "{name}");
            }
        }
        for name in REASONS.iter().flat_map(|(names, _)| *names) {
            assert!(directives().any(|it| it.name == *name), "{name}");
        }
    }
}
