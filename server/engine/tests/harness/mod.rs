//! An engine with its log in memory: what the integration tests talk to.
//!
//! Time stands still unless a test moves it. Every group that a command journals is kept, so that
//! a second engine can be rebuilt from the log at any moment.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::time::Duration;

use quorlock_engine::{
    Caller, Command, Effects, Engine, EngineOptions, LogPosition, Moment, NodeTime, Reply,
    all_specs,
};

/// One node's engine and its log.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) effects: Effects,
    pub(crate) now: Moment,
    pub(crate) caller: Caller,
    /// The payloads of the log; the first one has position 1.
    pub(crate) log: Vec<Vec<u8>>,
    /// How much of a group the log has room for.
    pub(crate) room_bytes: Option<usize>,
}

impl Default for Node {
    fn default() -> Node {
        Node::with(EngineOptions::default())
    }
}

impl Node {
    pub(crate) fn with(options: EngineOptions) -> Node {
        assert!(all_specs().count() > 0);
        let now = Moment {
            node: NodeTime::from_nanos(5_000_000_000),
            wall_us: 1_700_000_000_123_456,
        };
        Node {
            engine: Engine::new(options),
            effects: Effects::default(),
            now,
            caller: Caller::default(),
            log: Vec::new(),
            room_bytes: None,
        }
    }

    /// Runs a command given as words; quotes and escapes as in `words`.
    pub(crate) fn run(&mut self, line: &str) -> String {
        render(&self.reply(line))
    }

    pub(crate) fn reply(&mut self, line: &str) -> Reply {
        let words = words(line);
        let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.execute(&arguments)
    }

    pub(crate) fn execute(&mut self, arguments: &[&[u8]]) -> Reply {
        let position = LogPosition::from_raw(self.log.len() as u64 + 1);
        self.effects.begin(position);
        self.effects.room.bytes = self.room_bytes;
        let command = match Command::parse(arguments) {
            Ok(command) => command,
            Err(error) => return Reply::Error(error),
        };
        let reply = self
            .engine
            .execute(self.now, &self.caller, &command, &mut self.effects);
        assert!(
            self.effects.depends.any <= position,
            "a dependency on what is not logged"
        );
        assert!(self.effects.depends.synced <= position);
        if self.effects.journal.is_empty() {
            assert!(
                self.effects.depends.any < position,
                "a dependency on what is not logged"
            );
            assert!(self.effects.depends.synced < position);
            assert!(
                !self.effects.uncovered,
                "nothing was logged that could be synced"
            );
        } else {
            self.log.push(self.effects.journal.clone());
        }
        reply
    }

    pub(crate) fn advance(&mut self, duration: Duration) {
        self.now.node = self.now.node.saturating_add(duration);
        self.now.wall_us += u64::try_from(duration.as_micros()).expect("a test's time is short");
    }

    /// Another engine, made from the log.
    pub(crate) fn replayed(&self) -> Engine {
        let mut engine = Engine::new(EngineOptions {
            hash_seed: 7,
            ..EngineOptions::default()
        });
        for (payload, position) in self.log.iter().zip(1..) {
            engine
                .apply(LogPosition::from_raw(position), payload)
                .expect("what was journalled can be replayed");
        }
        engine
    }

    /// Everything that lives now, as text, in the order of databases and keys.
    pub(crate) fn state(&mut self) -> Vec<String> {
        state_of(&mut self.engine, self.now.node)
    }
}

/// The live keys of an engine as text. Read through a snapshot, so that reading changes no key.
pub(crate) fn state_of(engine: &mut Engine, now: NodeTime) -> Vec<String> {
    let mut copy = Engine::new(EngineOptions::default());
    let mut cursor = Some(Default::default());
    while let Some(start) = cursor {
        let mut part = Vec::new();
        cursor = engine.snapshot(start, 1 << 12, &mut part);
        copy.apply(LogPosition::from_raw(1), &part)
            .expect("a snapshot can be replayed");
    }
    let now = Moment {
        node: now,
        wall_us: 0,
    };
    let mut lines = Vec::new();
    for database in 0..16 {
        let caller = Caller {
            database,
            ..Caller::default()
        };
        let mut ask = |arguments: &[&[u8]]| {
            let mut effects = Effects::default();
            effects.begin(LogPosition::from_raw(2));
            let command = Command::parse(arguments).expect("a valid command");
            copy.execute(now, &caller, &command, &mut effects)
        };
        let Reply::Array(keys) = ask(&[b"keys", b"*"]) else {
            panic!("KEYS answers an array")
        };
        for key in keys {
            let Reply::Bulk(key) = key else {
                panic!("keys are bulks")
            };
            let value = match render(&ask(&[b"type", &key])).as_str() {
                "string" => render(&ask(&[b"get", &key])),
                "hash" => sorted(ask(&[b"hgetall", &key])),
                "list" => render(&ask(&[b"lrange", &key, b"0", b"-1"])),
                "set" => sorted(ask(&[b"smembers", &key])),
                "quorlock-shared-lock" => render(&ask(&[b"lock.info", &key])),
                _ => render(&ask(&[b"zrange", &key, b"0", b"-1", b"WITHSCORES"])),
            };
            let left = render(&ask(&[b"pttl", &key]));
            lines.push(format!(
                "{database} {} = {value} {left}",
                key.escape_ascii()
            ));
        }
    }
    lines.sort();
    lines
}

/// A hash or a set as text, in the order of its fields or members.
fn sorted(reply: Reply) -> String {
    match reply {
        Reply::Map(mut pairs) => {
            pairs.sort_by_key(|(field, _)| render(field));
            render(&Reply::Map(pairs))
        }
        Reply::Set(mut members) => {
            members.sort_by_key(render);
            format!("set {}", render(&Reply::Set(members)))
        }
        other => panic!("{other:?} is no collection"),
    }
}

/// Splits a line into words. A word in double quotes may hold spaces and `\xNN`, `\n`, `\r`.
pub(crate) fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut is_quoted = false;
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            b' ' if !is_quoted => words.extend(word.take()),
            b'\\' if is_quoted => {
                let escaped = match bytes.next().expect("a character behind the backslash") {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b'x' => {
                        let mut digit = || {
                            let byte = bytes.next().expect("two digits behind x");
                            u8::try_from(char::from(byte).to_digit(16).expect("a hex digit"))
                                .expect("a hex digit is small")
                        };
                        digit() * 16 + digit()
                    }
                    other => other,
                };
                word.get_or_insert_default().push(escaped);
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// A reply as one line of text.
pub(crate) fn render(reply: &Reply) -> String {
    let list = |replies: &[Reply]| replies.iter().map(render).collect::<Vec<_>>().join(", ");
    match reply {
        Reply::Ok => "OK".into(),
        Reply::Status(text) => text.escape_ascii().to_string(),
        Reply::Nil | Reply::NilArray => "nil".into(),
        Reply::Integer(number) => number.to_string(),
        Reply::Bulk(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Reply::Shared(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Reply::Array(replies) | Reply::Set(replies) | Reply::Push(replies) => {
            format!("[{}]", list(replies))
        }
        Reply::Map(pairs) => {
            let flat: Vec<Reply> = pairs
                .iter()
                .flat_map(|(key, value)| [key.clone(), value.clone()])
                .collect();
            format!("[{}]", list(&flat))
        }
        Reply::Error(error) => format!("-{}", error.as_bytes().escape_ascii()),
        other => format!("{other:?}"),
    }
}
