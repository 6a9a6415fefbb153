//! Redis's commands that a node does not have: why, and what to do instead.
//!
//! They are refused in Redis's words for a command that does not exist, so that clients which try and fall back
//! do so; the reason stands behind them.

use quorlock_engine::ErrorReply;

/// Commands that are absent for one reason.
pub(crate) struct Absent {
    /// Lower case.
    pub(crate) names: &'static [&'static str],
    /// A sentence or two for the person who reads the error.
    pub(crate) why: &'static str,
}

/// The refusal of a command that is in no table.
pub(crate) fn refusal(arguments: &[&[u8]]) -> ErrorReply {
    let unknown = ErrorReply::unknown_command(arguments);
    let name = arguments.first().copied().unwrap_or_default();
    match reason(name) {
        Some(why) => unknown.because(why),
        None => unknown,
    }
}

fn reason(name: &[u8]) -> Option<&'static str> {
    let is_this = |one: &&str| one.as_bytes().eq_ignore_ascii_case(name);
    let absent = ABSENT
        .iter()
        .find(|absent| absent.names.iter().any(is_this));
    absent.map(|absent| absent.why)
}

/// All of them.
pub(crate) const ABSENT: &[Absent] = &[
    Absent {
        names: &[
            "xack",
            "xadd",
            "xautoclaim",
            "xclaim",
            "xdel",
            "xgroup",
            "xinfo",
            "xlen",
            "xpending",
            "xrange",
            "xread",
            "xreadgroup",
            "xrevrange",
            "xsetid",
            "xtrim",
        ],
        why: "a lock server keeps no streams: no lock library uses them. Keep them in a Redis of their own",
    },
    Absent {
        names: &["pfadd", "pfcount", "pfmerge", "pfdebug", "pfselftest"],
        why: "a lock server keeps no HyperLogLogs: no lock library uses them. Keep them in a Redis of their own",
    },
    Absent {
        names: &[
            "geoadd",
            "geodist",
            "geohash",
            "geopos",
            "georadius",
            "georadius_ro",
            "georadiusbymember",
            "georadiusbymember_ro",
            "geosearch",
            "geosearchstore",
        ],
        why: "a lock server keeps no positions: no lock library uses them. Keep them in a Redis of their own",
    },
    Absent {
        names: &["fcall", "fcall_ro", "function"],
        why: "a node keeps no functions: a library that is loaded on some nodes only would make them decide \
              differently. Send the script with EVAL or EVALSHA",
    },
    Absent {
        names: &[
            "replicaof",
            "slaveof",
            "psync",
            "sync",
            "replconf",
            "failover",
        ],
        why: "the nodes of a Redlock cluster are independent: a replica that takes over could grant a lock that \
              is held. Run five nodes instead",
    },
    Absent {
        names: &["sentinel"],
        why: "there is nothing to fail over: the nodes of a Redlock cluster are independent. Give clients the \
              addresses of all nodes",
    },
    Absent {
        names: &["migrate", "restore-asking"],
        why: "a lock that is carried elsewhere could be held twice. Release it, and take it there",
    },
    Absent {
        names: &["monitor"],
        why: "it would show every lock's token to whoever looks, and slow down all others. INFO, CLIENT LIST and \
              the metrics endpoint tell what the node does",
    },
    Absent {
        names: &["slowlog", "latency"],
        why: "scripts and transactions end at script-time-limit, and no command is logged. INFO and the metrics \
              endpoint (metrics-port) tell what the node does",
    },
    Absent {
        names: &["acl"],
        why: "there is one user, 'default', who may do everything once AUTH has named requirepass. Give each group \
              of clients nodes of their own",
    },
    Absent {
        names: &["lolwut"],
        why: "there is nothing to draw",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::introspection;

    #[test]
    fn what_is_absent_is_in_no_table_and_named_once() {
        let mut names: Vec<&str> = ABSENT
            .iter()
            .flat_map(|absent| absent.names)
            .copied()
            .collect();
        for name in &names {
            assert!(
                quorlock_engine::spec_named(name.as_bytes()).is_none(),
                "{name} is there"
            );
            assert!(
                introspection::named(name.as_bytes()).is_none(),
                "{name} is there"
            );
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "each has one reason");
    }

    #[test]
    fn the_reason_stands_behind_the_words_that_clients_look_for() {
        let text = refusal(&[b"XAdd", b"key", b"*"]).to_string();
        let words =
            "ERR unknown command 'XAdd', with args beginning with: 'key' '*' (a lock server";
        assert!(text.starts_with(words), "{text}");
        let text = refusal(&[b"nosuch"]).to_string();
        assert_eq!(
            text,
            "ERR unknown command 'nosuch', with args beginning with: "
        );
    }
}
