//! Whether every field of a configuration is a value that its directive takes. A file and a command line cannot give another
//! one; a program that sets the fields can.

use super::Config;
use super::table::USED;

impl Config {
    /// # Errors
    /// The first field that is out of range, by its directive, and what is wrong with it.
    pub fn check_ranges(&self) -> Result<(), String> {
        let mut scratch = Self::default();
        for directive in USED.iter().filter(|it| !UNBOUNDED.contains(&it.name)) {
            let Some(value) = directive.show(self) else {
                continue;
            };
            let words: Vec<&str> = value.split_whitespace().collect();
            // A path may hold blanks, and a list is several values.
            if let Err(problem) = scratch.set(directive.name, &[&value])
                && scratch.set(directive.name, &words).is_err()
            {
                return Err(format!("{} {value}: {problem}", directive.name));
            }
        }
        Ok(())
    }
}

/// A password cannot be wrong, and its file would be read again.
const UNBOUNDED: [&str; 2] = ["requirepass", "requirepass-file"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_directives_can_say_is_in_range() {
        let mut config = Config::default();
        config.check_ranges().unwrap();
        for (name, values) in [
            ("bind", &["127.0.0.1", "-::1"][..]),
            (
                "client-output-buffer-limit",
                &["pubsub", "1mb", "1mb", "60"],
            ),
            ("maxmemory-clients", &["5%"]),
            ("save", &["60 1000"]),
            ("unixsocketperm", &["700"]),
            ("metrics-port", &["0"]),
            ("notify-keyspace-events", &["KEA"]),
            ("restart-delay-max", &["90s"]),
            ("cluster-size", &["5"]),
            ("node-name", &["a"]),
        ] {
            // Those that a node does not have are no matter here.
            let _ = config.set(name, values);
        }
        config.dir = PathBuf::from("/a path/with blanks");
        config.check_ranges().unwrap();
    }

    #[test]
    fn what_they_cannot_say_is_named() {
        let refused = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.check_ranges().unwrap_err()
        };
        for (refused, name) in [
            (refused(|it| it.maxclients = 0), "maxclients 0: "),
            (
                refused(|it| it.tcp_keepalive = Some(Duration::MAX)),
                "tcp-keepalive ",
            ),
            (refused(|it| it.timeout = Some(Duration::MAX)), "timeout "),
            (
                refused(|it| it.request_timeout = Some(Duration::MAX)),
                "request-timeout ",
            ),
            (
                refused(|it| it.restart_delay_max = Duration::MAX),
                "restart-delay-max ",
            ),
            (refused(|it| it.databases = 0), "databases 0: "),
            (refused(|it| it.workers = usize::MAX), "workers "),
        ] {
            assert!(refused.starts_with(name), "{refused}");
        }
    }
}
