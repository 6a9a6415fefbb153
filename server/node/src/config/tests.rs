//! The configuration as its user meets it: tables, files, command lines, and what is refused.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::file::Reader;
use super::*;

/// A machine without files.
struct NoFiles;

impl Files for NoFiles {
    fn replace(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn open(&self, _: &Path) -> io::Result<Box<dyn Read>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn is_special(&self, _: &Path) -> bool {
        false
    }

    fn absolute(&self, _: &Path) -> Option<PathBuf> {
        None
    }

    fn is_public(&self, _: &Path) -> bool {
        false
    }
}

fn from_text(text: &[u8]) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    let mut reader = Reader::new(&NoFiles);
    reader.read_stream(&mut config, &mut &*text)?;
    reader.finish()?;
    Ok(config)
}

fn refusal(text: &str) -> String {
    from_text(text.as_bytes()).expect_err(text).to_string()
}

fn values(config: &Config) -> Vec<(&'static str, Option<String>)> {
    config
        .names()
        .map(|name| (name, config.value_of(name)))
        .collect()
}

#[test]
fn every_default_is_what_its_row_says() {
    for directive in table::USED.iter().filter(|directive| directive.has_value()) {
        let mut config = Config::default();
        let words = quorlock_engine::words::split_owned(directive.default.as_bytes()).unwrap();
        let words: Vec<String> = words
            .into_iter()
            .map(|word| String::from_utf8(word).unwrap())
            .collect();
        config.set(directive.name, &words).unwrap();
        assert_eq!(
            values(&config),
            values(&Config::default()),
            "{}",
            directive.name
        );
        assert_eq!(config.notices(), [], "{}", directive.name);
    }
}

#[test]
fn what_is_shown_can_be_set_again() {
    let config = from_text(
        b"bind * -::1\nport 7001\nrequirepass \"a b\"\ntcp-keepalive 60\nrestart-delay 1500ms\n\
          restart-delay-max 2m\nclock-drift-percent 0.5\nappendfsync ALWAYS\ncluster-id blue\n",
    )
    .unwrap();
    let mut again = Config::default();
    for (name, value) in values(&config) {
        let value = value.unwrap();
        let parts: Vec<&str> = if name.ends_with("bind") {
            value.split(' ').collect()
        } else {
            vec![&value]
        };
        again.set(name, &parts).unwrap();
    }
    assert_eq!(values(&again), values(&config));
    assert_eq!(config.value_of("Restart-Delay").as_deref(), Some("1500"));
    assert_eq!(
        config.value_of("restart-delay-max").as_deref(),
        Some("120000")
    );
    assert_eq!(config.clock_drift_millionths, 5_000);
    assert_eq!(config.appendfsync, AppendFsync::Always);
}

#[test]
fn names_are_unique_and_described() {
    let mut names: Vec<&str> = directives().map(|directive| directive.name).collect();
    assert!(names.len() > 100);
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    for directive in directives() {
        assert_eq!(directive.name, directive.name.to_lowercase());
        assert!(!directive.summary.is_empty() && !directive.allowed.is_empty());
    }
}

#[test]
fn the_example_explains_every_directive() {
    let text = include_str!("../../../../configs/node.conf");
    let config = from_text(text.as_bytes()).unwrap();
    assert_eq!(values(&config), values(&Config::default()));
    for directive in table::USED {
        let is_named = |line: &str| {
            line.trim_start_matches("# ").split_whitespace().next() == Some(directive.name)
        };
        let line = text.lines().position(is_named).expect(directive.name);
        let above = text.lines().nth(line - 1).unwrap();
        assert!(
            above.starts_with('#') && above.len() > 10,
            "{}: {above}",
            directive.name
        );
    }
}

#[test]
fn the_five_nodes_differ_in_port_and_directory_only() {
    let texts = [
        include_str!("../../../../configs/redlock/node-1.conf"),
        include_str!("../../../../configs/redlock/node-2.conf"),
        include_str!("../../../../configs/redlock/node-3.conf"),
        include_str!("../../../../configs/redlock/node-4.conf"),
        include_str!("../../../../configs/redlock/node-5.conf"),
    ];
    for (number, text) in (1_u16..).zip(texts) {
        let config = from_text(text.as_bytes()).unwrap();
        assert_eq!(config.port, 7000 + number);
        assert_eq!(config.dir, Path::new(&format!("./node-{number}")));
        assert_eq!(config.first_start, FirstStart::Wait);
        assert_eq!(config.appendfsync, AppendFsync::Everysec);
        let first_lines: String = text.lines().take(3).collect();
        assert!(first_lines.contains(&format!("quorlock node init ./node-{number}")));
        assert_eq!(
            text.replace(&number.to_string(), "1"),
            texts[0].replace(&number.to_string(), "1")
        );
    }
}

#[test]
fn what_tools_set_is_checked_as_redis_does_and_kept() {
    for directive in kept::KEPT {
        let mut config = Config::default();
        assert_eq!(
            config.value_of(directive.name).as_deref(),
            Some(directive.default)
        );
        config.set(directive.name, &[directive.default]).unwrap();
        assert_eq!(values(&config), values(&Config::default()));
        let notice = format!("{}: accepted, without effect: ", directive.name);
        assert!(config.notices()[0].to_string().starts_with(&notice));
    }
    let mut config = Config::default();
    for (name, value, names, shown) in [
        (
            "hash-max-ziplist-entries",
            "7",
            &["hash-max-listpack-entries", "Hash-Max-Ziplist-Entries"][..],
            "7",
        ),
        (
            "zset-max-listpack-value",
            "1kb",
            &["zset-max-listpack-value", "zset-max-ziplist-value"],
            "1024",
        ),
        (
            "list-max-ziplist-size",
            "-2147483648",
            &["list-max-listpack-size"],
            "-2147483648",
        ),
        ("busy-reply-threshold", "0", &["lua-time-limit"], "0"),
        ("activedefrag", "YES", &["activedefrag"], "yes"),
        ("hz", "0", &["hz"], "1"),
        ("hz", "2147483647", &["hz"], "500"),
        (
            "set-max-intset-entries",
            "9223372036854775807",
            &["set-max-intset-entries"],
            "9223372036854775807",
        ),
    ] {
        config.set(name, &[value]).unwrap();
        for name in names {
            assert_eq!(config.value_of(name).as_deref(), Some(shown), "{name}");
        }
    }
    let before = values(&config);
    for (name, value) in [
        ("hash-max-listpack-entries", "-1"),
        ("hash-max-listpack-value", "-1"),
        ("hash-max-listpack-value", "9223372036854775808"),
        ("list-max-listpack-size", "-2147483649"),
        ("list-compress-depth", "2147483648"),
        ("activedefrag", "1"),
        ("active-defrag-cycle-min", "100"),
        ("active-defrag-ignore-bytes", "0"),
        ("hz", "-1"),
        ("io-threads", "129"),
        ("slowlog-log-slower-than", "-2"),
        ("slowlog-max-len", ""),
        ("slowlog-max-len", "1 "),
    ] {
        config.set(name, &[value]).unwrap_err();
    }
    config.set("hz", &["1", "2"]).unwrap_err();
    assert_eq!(values(&config), before);
}

#[test]
fn refusals_have_redis_s_shape() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        refusal("port 7001\nappendfsync alwys\n"),
        format!(
            "*** FATAL CONFIG FILE ERROR (Quorlock {version}) ***\n\
             Reading the configuration file, at line 2\n\
             >>> 'appendfsync alwys'\n\
             argument(s) must be one of the following: everysec, always, no. Did you mean 'always'?"
        )
    );
    for (text, expected) in REFUSED {
        let error = refusal(text);
        assert!(
            error.starts_with("*** FATAL CONFIG FILE ERROR (Quorlock "),
            "{error}"
        );
        assert!(
            error.contains("\nReading the configuration file, at line 1\n>>> '"),
            "{error}"
        );
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// A line, and what its refusal says.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    ("appendfsnc no", "Bad directive or wrong number of arguments. Did you mean 'appendfsync'?"),
    ("foobar 1", ">>> 'foobar 1'\nBad directive or wrong number of arguments"),
    ("port", "wrong number of arguments"),
    ("port 1 2", "wrong number of arguments"),
    ("port \"1", "Unbalanced quotes in configuration line"),
    ("port x", "argument couldn't be parsed into an integer"),
    ("timeout 5s", "argument couldn't be parsed into an integer; write whole seconds, such as 60"),
    ("port 65536", "argument must be between 0 and 65535 inclusive"),
    ("port -1", "argument must be between 0 and 65535 inclusive"),
    ("databases 17", "argument must be between 1 and 16 inclusive"),
    ("trust-fsync maybe", "argument must be 'yes' or 'no'"),
    ("proto-max-bulk-len 5zb", "argument must be a memory value, such as 65536, 64kb or 16mb"),
    ("bind example.org", "must be an IP address"),
    ("restart-delay never", "auto, always, off, or a time in milliseconds"),
    ("restart-delay 0", "between 1 and 86400000 milliseconds"),
    ("restart-delay-max 25h", "between 1 and 86400000 milliseconds"),
    ("script-time-limit soon", "argument must be a time"),
    ("script-size-limit 1023", "between 1024 and 1048576"),
    ("script-size-limit 1025kb", "between 1024 and 1048576"),
    ("script-load-limit 65535", "between 65536 and 1073741824"),
    ("node-name 'a b'", "at most 64 letters, digits"),
    ("dir ''", "argument must be a path"),
    ("hz", "wrong number of arguments"),
    ("maxmemory-policy allkeys-lru", "evicting a key would take a lock from its holder"),
    ("replicaof 10.0.0.1 6379", "must be independent"),
    ("cluster-enabled yes", "a node runs with 'cluster-enabled no' only: Redis Cluster shards"),
    ("tls-protocols TLSv1.1", "it is broken (RFC 8996)"),
    ("tls-key-file-pass secret", "where it is not encrypted"),
    ("unixsocketperm 788", "an octal number"),
    ("unixsocketperm 1777", "an octal number"),
    ("loadmodule /x.so", "refused: a node loads no modules"),
    ("rename-command FLUSHALL ''", "the command would stay reachable"),
    (
        "user alice on +nosuch",
        "Error loading ACL rule '+nosuch' for the user named 'alice': Unknown command or category name in ACL",
    ),
    ("include *.conf", "include takes no patterns"),
];

#[test]
fn a_user_has_one_line() {
    let refusal = refusal("user alice on\nuser alice on");
    assert!(
        refusal.contains("at line 2")
            && refusal.contains("A user can only be defined once in config files")
    );
}

#[test]
fn passwords_appear_in_no_message() {
    for text in [
        "requirepass hunter2 hunter2",
        "user x <hunter2",
        "user x >hunter2 +nosuch",
        "\"requirepass\" hunter2 2",
    ] {
        assert!(!refusal(text).contains("hunter2"), "{text}");
    }
    let config = from_text(b"requirepass hunter2\nuser x >hunter2").unwrap();
    let shown = format!("{config:?}");
    // Neither the password nor its hash.
    assert!(!shown.contains("hunter2") && !shown.contains("245, 47, 189"));
    assert_eq!(config.requirepass.unwrap().as_str(), "hunter2");
}

#[test]
fn a_file_of_redis_starts_and_says_what_has_no_effect() {
    let config = from_text(
        b"# a comment\r\nport 6380\r\nsave \"\"\nsave 900 1\nsave 300 10\nrdbcompression yes\n\
          maxmemory-policy noeviction\nreplica-read-only yes\nreplicaof no one\nHZ 10\nhz 50\n\
          client-output-buffer-limit normal 0 0 0\n   loglevel   verbose  \n",
    )
    .unwrap();
    assert_eq!(config.port, 6380);
    assert_eq!(config.loglevel, LogLevel::Verbose);
    let names: Vec<&str> = config
        .notices()
        .iter()
        .map(|notice| notice.directive.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "save",
            "rdbcompression",
            "replica-read-only",
            "hz",
            "client-output-buffer-limit"
        ]
    );
    assert_eq!(
        config.notices()[0].to_string(),
        "save: accepted, without effect, a node runs with 'save \"\"': there are no RDB \
         snapshots, what is kept is in the log"
    );
    // What a node does, not what the file wished for.
    assert_eq!(config.value_of("save").as_deref(), Some(""));
    assert_eq!(config.value_of("slave-read-only"), None);
    assert_eq!(config.value_of("rdbcompression").as_deref(), Some("yes"));
    // But for what tools set and read back.
    assert_eq!(config.value_of("hz").as_deref(), Some("50"));
    assert_eq!(config.value_of("slaveof").as_deref(), Some(""));
    assert_eq!(config.value_of("loadmodule"), None);
    assert_eq!(config.value_of("nothing"), None);
}

#[test]
fn a_name_of_its_own_comes_before_all_that_begin_so() {
    let config =
        from_text(b"Cluster-Port 1\ncluster-node-timeout 5\naof-load-truncated no").unwrap();
    let notices: Vec<String> = config.notices().iter().map(Notice::to_string).collect();
    assert_eq!(
        notices,
        [
            "cluster-port: accepted, without effect: a node is no part of a Redis Cluster",
            "cluster-node-timeout: accepted, without effect: a node is no part of a Redis Cluster",
            "aof-load-truncated: accepted, without effect: a torn end is cut off and the delay covers it",
        ]
    );
    assert!(refusal("cluster-enabled yes").contains("Redlock needs independent nodes"));
    assert!(refusal("cluster 1").contains("Bad directive"));
    assert!(refusal("tls-key-file-pass").contains("tls-key-file-pass (hidden)"));
}

#[test]
fn unsafe_choices_are_said_aloud() {
    for text in [
        "restart-delay off",
        "restart-delay 5s",
        "no-ttl-durability as-mode",
    ] {
        let config = from_text(text.as_bytes()).unwrap();
        assert_eq!(config.notices().len(), 1, "{text}");
        let mut config = config;
        config.set("restart-delay", &["auto"]).unwrap();
        config.set("no-ttl-durability", &["sync"]).unwrap();
        assert_eq!(config.notices(), []);
    }
    let fixed = from_text(b"restart-delay 5s").unwrap();
    assert_eq!(
        fixed.restart_delay,
        RestartDelay::Fixed(Duration::from_secs(5))
    );
}

#[test]
fn a_later_line_takes_back_what_would_be_refused() {
    for text in [
        "cluster-enabled yes\ncluster-enabled no",
        "daemonize yes\ndaemonize no",
        "replicaof h 1\nport 7\nREPLICAOF no one",
    ] {
        assert_eq!(from_text(text.as_bytes()).unwrap().notices(), [], "{text}");
    }
    let error = refusal("port 1\ncluster-enabled yes\ntls-port 1\nport 2");
    assert!(
        error.contains("at line 2\n>>> 'cluster-enabled yes'"),
        "{error}"
    );
    let later = refusal("cluster-enabled no\ncluster-enabled yes");
    assert!(later.contains("at line 2"));
    // Mistakes are not taken back.
    assert!(refusal("cluster-enabled yes\nport x").contains("at line 2\n>>> 'port x'"));
}

#[test]
fn an_error_changes_nothing() {
    for (name, value) in [
        ("port", "x"),
        ("bind", "1.2.3"),
        ("restart-delay", "no"),
        ("dir", "\0"),
    ] {
        let mut config = Config::default();
        config.set(name, &[value]).unwrap_err();
        assert_eq!(values(&config), values(&Config::default()));
    }
}

proptest! {
    #[test]
    fn no_value_of_any_directive_panics(
        index in 0..250_usize,
        list in prop::collection::vec("[0-9a-z.:* -]{0,12}|\\PC{0,6}", 0..4),
    ) {
        let names: Vec<&str> = directives().map(|directive| directive.name).collect();
        let mut config = Config::default();
        if let Err(problem) = config.set(names[index % names.len()], &list) {
            prop_assert!(!problem.to_string().contains('\n'));
        }
    }

    #[test]
    fn no_text_panics(text in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Err(error) = from_text(&text) {
            prop_assert_eq!(error.to_string().lines().count(), 4);
        }
    }
}
