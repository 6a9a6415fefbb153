//! Whether a configuration is that of a first try or a test suite: what `first-start auto` goes by.
//!
//! An empty directory may be a new one or one that was emptied, and nothing in it tells which. What a
//! node is told does: who keeps locks that count says where the data is, how durable it is, which
//! cluster it belongs to. A directive that is added later counts as said, unless it is listed here.

use super::Config;
use super::table::USED;

impl Config {
    /// The first thing that a first try would not have said: a directive's name, or that there is a
    /// configuration file. A directive with its default value is as good as none.
    pub(crate) fn beyond_first_try(&self) -> Option<&'static str> {
        if self.file.is_some() {
            return Some("a configuration file");
        }
        let default = Self::default();
        let is_said = |name: &str| match name {
            "bind" => !self.bind.iter().all(|it| it.address.is_loopback()),
            _ if FIRST_TRY.contains(&name) => false,
            _ => self.value_of(name) != default.value_of(name),
        };
        let mut names = USED.iter().map(|directive| directive.name);
        names.find(|name| is_said(name))
    }
}

/// Where clients of this machine connect, how much of the machine the node takes, and what test suites switch:
/// `appendonly no` is how many of them start Redis, and says that nothing is to be kept.
const FIRST_TRY: &[&str] = &[
    "port",
    "unixsocket",
    "unixsocketperm",
    "protected-mode",
    "maxclients",
    "notify-keyspace-events",
    "appendonly",
    "databases",
    "loglevel",
    "workers",
    "first-start",
    "enable-debug-command",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;

    fn beyond(lines: &[(&str, &[&str])]) -> Option<&'static str> {
        let mut config = Config::default();
        for (name, values) in lines {
            config.set(name, values).unwrap();
        }
        config.beyond_first_try()
    }

    #[test]
    fn a_first_try_says_where_clients_of_this_machine_connect_and_little_else() {
        assert_eq!(beyond(&[]), None);
        let suite: &[(&str, &[&str])] = &[
            ("port", &["0"]),
            ("bind", &["127.0.0.1", "-127.0.0.2", "::1"]),
            ("unixsocket", &["node.sock"]),
            ("unixsocketperm", &["700"]),
            ("protected-mode", &["no"]),
            ("maxclients", &["100"]),
            ("notify-keyspace-events", &["KEA"]),
            ("appendonly", &["no"]),
            ("save", &[""]),
            ("databases", &["4"]),
            ("loglevel", &["debug"]),
            ("workers", &["2"]),
            ("first-start", &["serve"]),
            ("enable-debug-command", &["yes"]),
        ];
        assert_eq!(beyond(suite), None);
        for name in FIRST_TRY {
            assert!(suite.iter().any(|(other, _)| other == name), "{name}");
        }
    }

    #[test]
    fn whatever_else_is_said_is_said_of_a_node_that_is_meant_to_stay() {
        for (name, value, expected) in [
            ("dir", "/var/lib/quorlock", Some("dir")),
            ("dir", ".", None),
            ("dir", "./", Some("dir")),
            ("bind", "10.0.0.5", Some("bind")),
            ("bind", "-10.0.0.5", Some("bind")),
            ("bind", "*", Some("bind")),
            ("cluster-size", "5", Some("cluster-size")),
            ("cluster-size", "0", None),
            ("cluster-id", "blue", Some("cluster-id")),
            ("node-name", "one", Some("node-name")),
            ("requirepass", "secret", Some("requirepass")),
            ("appendfsync", "always", Some("appendfsync")),
            ("appendfsync", "everysec", None),
            ("appendonly", "yes", None),
            ("restart-delay-max", "10s", Some("restart-delay-max")),
            ("logfile", "node.log", Some("logfile")),
            ("supervised", "auto", Some("supervised")),
            ("metrics-port", "9121", Some("metrics-port")),
        ] {
            assert_eq!(beyond(&[(name, &[value])]), expected, "{name} {value}");
        }
        let config = Config {
            file: Some("node.conf".into()),
            ..Config::default()
        };
        assert_eq!(config.beyond_first_try(), Some("a configuration file"));
    }
}
