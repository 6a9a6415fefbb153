//! Scripts, as a text and as a lock library's conditions and calls, on two engines: one runs what it can without the
//! interpreter, the other one leaves all to it.
//!
//! Both give the same replies, effects and keys, and the log of one makes the same keys again. A script that reaches a limit
//! leaves nothing, and none takes more memory or log than it may.

#![no_main]

use std::cell::RefCell;
use std::fmt::Write;

use libfuzzer_sys::fuzz_target;
use quorlock_engine::scripts_for_tests::{KEYS, LITERALS, shown};
use quorlock_engine::{
    Caller, Command, Effects, Engine, EngineOptions, Flags, LogPosition, Moment, NodeTime,
    Protocol, Reply, ScriptLimits, all_specs,
};
use quorlock_fuzz::Choices;

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices::new(input);
    let flags = choices.byte();
    let text = match flags & 1 {
        0 => choices.rest().to_vec(),
        _ => {
            let mut text =
                "local one = ARGV[1]; local two = redis.call('get', KEYS[2])\n".to_owned();
            Writer::new(&mut choices).block(&mut text, 2);
            text.into_bytes()
        }
    };
    PAIR.with_borrow_mut(|kept| {
        let mut pair = kept.take().unwrap_or_else(Pair::new);
        let protocol = match flags & 2 {
            0 => Protocol::Resp2,
            _ => Protocol::Resp3,
        };
        let may_go_on = pair.check(&text, protocol, flags & 4 != 0);
        *kept = (may_go_on && pair.position < RUNS_MAX).then_some(pair);
    });
});

thread_local! {
    /// Making interpreters takes longer than most scripts.
    static PAIR: RefCell<Option<Pair>> = const { RefCell::new(None) };
}

/// Two engines that execute the same, and one that reads the log of the first.
struct Pair {
    engines: [Engine; 2],
    reader: Engine,
    effects: [Effects; 2],
    caller: Caller,
    position: u64,
    /// The interpreters' memory at first.
    memory: usize,
}

impl Pair {
    fn new() -> Self {
        let engine = |runs_scripts_natively| {
            Engine::new(EngineOptions {
                script_limits: LIMITS,
                runs_scripts_natively,
                ..EngineOptions::default()
            })
        };
        let engines = [engine(true), engine(false)];
        Self {
            memory: engines[1].script_memory(),
            engines,
            reader: engine(true),
            effects: Default::default(),
            caller: Caller::default(),
            position: 0,
        }
    }

    /// Runs a script on keys of each type; false where the engines may have parted, and may.
    fn check(&mut self, text: &[u8], protocol: Protocol, is_read_only: bool) -> bool {
        self.caller.protocol = Protocol::Resp2;
        for line in BEFORE {
            self.run(line);
        }
        self.caller.protocol = protocol;
        let name: &[u8] = if is_read_only { b"EVAL_RO" } else { b"EVAL" };
        let mut words = vec![name, text, b"4"];
        words.extend(KEYS.map(str::as_bytes));
        words.extend([&b"token"[..], b"5000", b"a"]);
        let outcomes = self.execute(&words);
        for engine in &self.engines {
            let taken = engine.script_memory().saturating_sub(self.memory);
            assert!(taken <= MEMORY_BYTES_MAX, "scripts take {taken} bytes");
        }
        let has_ended = |outcome: &Outcome| outcome.reply.contains("Script ended: ");
        if outcomes.iter().any(has_ended) {
            for outcome in outcomes.iter().filter(|outcome| has_ended(outcome)) {
                assert_eq!(outcome.journal_bytes, 0, "it has ended and left something");
            }
            // The interpreter takes more steps and more memory for the same.
            return false;
        }
        if shows_addresses(text) {
            return false;
        }
        assert_eq!(outcomes[0], outcomes[1], "{}", text.escape_ascii());
        for line in AFTER {
            self.run(line);
        }
        let [of_first, of_reader] = [&self.engines[0], &self.reader].map(|engine| {
            let mut stored: Vec<_> = engine.stored().collect();
            stored.sort_unstable();
            stored
        });
        assert_eq!(of_reader, of_first, "the log of {}", text.escape_ascii());
        true
    }

    fn run(&mut self, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let [one, other] = self.execute(&words);
        assert_eq!(one, other, "{line}");
    }

    fn execute(&mut self, words: &[&[u8]]) -> [Outcome; 2] {
        self.position += 1;
        let position = LogPosition::from_raw(self.position);
        let command = Command::parse(words).expect("it is a command of the engine");
        let outcomes = [0, 1].map(|which| {
            let (engine, effects) = (&mut self.engines[which], &mut self.effects[which]);
            effects.begin(position);
            let reply = engine.execute(NOW, &self.caller, &command, effects);
            Outcome::of(&reply, effects, engine)
        });
        let journal = &self.effects[0].journal;
        if !journal.is_empty() {
            let read = self.reader.apply(position, journal);
            read.expect("what was logged can be read");
        }
        outcomes
    }
}

/// What came of a command.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    reply: String,
    effects: String,
    journal_bytes: usize,
}

impl Outcome {
    fn of(reply: &Reply, effects: &Effects, engine: &Engine) -> Self {
        assert!(
            effects.journal.len() <= LIMITS.journal_bytes,
            "it logs too much"
        );
        Self {
            reply: on_the_wire(reply),
            effects: shown(effects, engine),
            journal_bytes: effects.journal.len(),
        }
    }
}

/// Replies that are the same bytes to a client are the same.
fn on_the_wire(reply: &Reply) -> String {
    match reply {
        Reply::Ok => format!("{:?}", Reply::status("OK")),
        Reply::Shared(bytes) => format!("{:?}", Reply::Bulk(bytes.to_vec())),
        Reply::Error(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        other => format!("{other:?}"),
    }
}

/// Whether a script can see where in memory something is, or how long it has run.
fn shows_addresses(text: &[u8]) -> bool {
    let shows = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    shows(b"tostring") || shows(b"format") || shows(b"%") || shows(b"clock") || shows(b"print")
}

/// Writes a script of conditions and calls, as the lock libraries have them.
struct Writer<'a, 'b> {
    choices: &'a mut Choices<'b>,
    names: Vec<&'static str>,
}

impl<'a, 'b> Writer<'a, 'b> {
    fn new(choices: &'a mut Choices<'b>) -> Self {
        let simple = all_specs().filter(|spec| spec.flags.contains(Flags::SIMPLE));
        Self {
            choices,
            names: simple.map(|spec| spec.name).collect(),
        }
    }

    /// Statements, and perhaps a return. Where the input has ended there are none.
    fn block(&mut self, out: &mut String, depth: u32) {
        for _ in 0..self.choices.below(4) {
            self.statement(out, depth);
            out.push(self.choices.one_of(&[' ', '\n', ';']));
        }
        if self.choices.below(3) == 1 {
            out.push_str("return ");
            self.expression(out, 3);
            out.push('\n');
        }
    }

    fn statement(&mut self, out: &mut String, depth: u32) {
        match self.choices.below(if depth == 0 { 4 } else { 8 }) {
            0 | 1 => self.call(out, 2),
            2 | 3 => {
                out.push_str(self.choices.one_of(&[
                    "local one = ",
                    "local two = ",
                    "one = ",
                    "two = ",
                ]));
                self.expression(out, 3);
            }
            4 => {
                out.push_str(self.choices.one_of(&[
                    "for one, two in ipairs(KEYS) do ",
                    "for _, two in ipairs( KEYS )\ndo\n",
                ]));
                self.block(out, depth - 1);
                out.push_str(" end");
            }
            kind => {
                out.push_str("if ");
                self.expression(out, 3);
                out.push_str(" then ");
                self.block(out, depth - 1);
                if kind == 6 {
                    out.push_str(" elseif ");
                    self.expression(out, 2);
                    out.push_str(" then ");
                    self.block(out, depth - 1);
                }
                if kind > 5 {
                    out.push_str(" else ");
                    self.block(out, depth - 1);
                }
                out.push_str(" end");
            }
        }
    }

    fn call(&mut self, out: &mut String, depth: u32) {
        let name = self.choices.below(self.names.len());
        let table = self.choices.one_of(&["redis", "redis", "server"]);
        write!(out, "{table}.call('{}'", self.names[name]).expect("memory takes it");
        if self.choices.below(4) != 3 {
            write!(out, ", KEYS[{}]", 1 + self.choices.below(4)).expect("memory takes it");
        }
        for _ in 0..self.choices.below(4) {
            out.push_str(", ");
            self.expression(out, depth);
        }
        out.push(')');
    }

    fn expression(&mut self, out: &mut String, depth: u32) {
        let kinds = if depth == 0 { 2 } else { 6 };
        match self.choices.below(kinds) {
            0 | 1 => out.push_str(self.choices.one_of(LITERALS)),
            2 => self.call(out, depth - 1),
            3 => {
                out.push_str("not ");
                self.expression(out, depth - 1);
            }
            _ => {
                out.push('(');
                self.expression(out, depth - 1);
                out.push_str(self.choices.one_of(&[" == ", " ~= ", " and ", " or "]));
                self.expression(out, depth - 1);
                out.push(')');
            }
        }
    }
}

const BEFORE: [&str; 6] = [
    "FLUSHALL",
    "SET text token PX 30000",
    "SET number 17 PX 20000",
    "HSET hash a 1 token 2",
    "RPUSH list a token a",
    "SADD set a token",
];
const AFTER: [&str; 8] = [
    "GET text",
    "PTTL text",
    "TYPE number",
    "PTTL number",
    "HGETALL hash",
    "LRANGE list 0 -1",
    "DBSIZE",
    "EXISTS text number hash list set a",
];
const NOW: Moment = Moment {
    node: NodeTime::from_nanos(5_000_000_000),
    wall_us: 1_700_000_000_123_456,
};
const LIMITS: ScriptLimits = ScriptLimits {
    time: std::time::Duration::from_secs(60),
    memory_bytes: 4 << 20,
    steps: 50_000,
    journal_bytes: 2000,
    body_bytes: 64 << 10,
    loaded_bytes: 1 << 20,
};
/// What a script may take, what the interpreter needs for the text, and garbage of the one before.
const MEMORY_BYTES_MAX: usize = 16 << 20;
/// A pair of engines is used for a few hundred inputs, so that what an input leaves behind is found and bounded.
const RUNS_MAX: u64 = 8000;
