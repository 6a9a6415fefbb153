//! Scripts of random conditions and calls, run natively and by the interpreter: the oracle is the latter.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::time::Duration;

use proptest::prelude::*;

use crate::caller::{Caller, Protocol};
use crate::command::Command;
use crate::effects::Effects;
use crate::engine::{Engine, EngineOptions};
use crate::position::LogPosition;
use crate::reply::Reply;
use crate::script::limits::ScriptLimits;
use crate::script::native::parse;
use crate::script::native::parser::SIMPLE;
use crate::time::{Moment, NodeTime};

/// Two nodes that are told the same.
struct Both {
    engines: [Engine; 2],
    effects: [Effects; 2],
    now: Moment,
    caller: Caller,
    position: u64,
    room_bytes: Option<usize>,
}

impl Both {
    fn new(script_limits: ScriptLimits) -> Both {
        let engine = |runs_scripts_natively| {
            Engine::new(EngineOptions {
                script_limits,
                runs_scripts_natively,
                ..EngineOptions::default()
            })
        };
        Both {
            engines: [engine(true), engine(false)],
            effects: Default::default(),
            now: Moment {
                node: NodeTime::from_nanos(5_000_000_000),
                wall_us: 1_700_000_000_123_456,
            },
            caller: Caller::default(),
            position: 0,
            room_bytes: None,
        }
    }

    /// Runs a command on both, and compares all that comes of it.
    fn execute(&mut self, arguments: &[&[u8]]) -> Reply {
        self.position += 1;
        let position = LogPosition::from_raw(self.position);
        let command = Command::parse(arguments).unwrap();
        let mut outcomes = Vec::new();
        let mut last = Reply::Nil;
        for (engine, effects) in self.engines.iter_mut().zip(&mut self.effects) {
            effects.begin(position);
            effects.room_bytes = self.room_bytes;
            let reply = engine.execute(self.now, &self.caller, &command, effects);
            last = on_the_wire(reply);
            let statistics = &engine.keyspace.statistics;
            let shown = (&last, &effects.journal, effects.depends, effects.uncovered);
            let others = (
                effects.longest_deadline,
                effects.longest_covered,
                effects.was_too_large,
            );
            let counts = (&effects.script_counts, statistics.hits, statistics.misses);
            outcomes.push(format!(
                "{shown:?} {others:?} {counts:?} {:?}",
                effects.published
            ));
        }
        let shown = arguments.iter().map(|one| String::from_utf8_lossy(one));
        let shown: Vec<_> = shown.collect();
        assert_eq!(outcomes[0], outcomes[1], "{shown:#?}");
        last
    }

    fn eval(&mut self, body: &str, keys: &[&str], rest: &[&str]) -> Reply {
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVAL", body.as_bytes(), count.as_bytes()];
        words.extend(keys.iter().chain(rest).map(|word| word.as_bytes()));
        self.execute(&words)
    }

    fn run(&mut self, line: &str) -> Reply {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.execute(&words)
    }
}

/// Replies that are the same bytes to a client are the same.
fn on_the_wire(reply: Reply) -> Reply {
    match reply {
        Reply::Ok => Reply::status("OK"),
        Reply::Shared(bytes) => Reply::Bulk(bytes.to_vec()),
        other => other,
    }
}

const KEYS: [&str; 4] = ["text", "number", "hash", "list"];

fn name() -> impl Strategy<Value = String> {
    let spelt = |(name, is_upper): (&str, bool)| match is_upper {
        true => name.to_uppercase(),
        false => name.to_owned(),
    };
    (proptest::sample::select(SIMPLE), any::<bool>()).prop_map(spelt)
}

fn literal() -> impl Strategy<Value = String> {
    let literals = [
        "'a'",
        "\"token\"",
        "'1'",
        "'30000'",
        "'NX'",
        "'XX'",
        "'PX'",
        "'GET'",
        "''",
        "'it\"s'",
        "0",
        "1",
        "17",
        "-3",
        "60001",
        "nil",
        "true",
        "false",
        "ARGV[1]",
        "ARGV[2]",
        "ARGV[3]",
        "ARGV[9]",
        "KEYS[1]",
        "KEYS[ 2 ]",
        "KEYS[3]",
        "KEYS[4]",
        "KEYS[5]",
        "one",
        "two",
    ];
    proptest::sample::select(literals.to_vec()).prop_map(str::to_owned)
}

fn expression() -> impl Strategy<Value = String> {
    literal().prop_recursive(4, 24, 4, |inner| {
        let call = (name(), proptest::collection::vec(inner.clone(), 0..5), any::<bool>());
        let call = call.prop_map(|(name, arguments, is_new)| {
            let table = if is_new { "server" } else { "redis" };
            let arguments: String = arguments.iter().map(|one| format!(", {one}")).collect();
            format!("{table}.call('{name}'{arguments})")
        });
        let key_first = (name(), proptest::sample::select(vec![1, 2, 3, 4]), inner.clone(), any::<bool>());
        let key_first = key_first.prop_map(|(name, key, value, has_value)| match has_value {
            true => format!("redis.call('{name}', KEYS[{key}], {value})"),
            false => format!("redis.call(\"{name}\",KEYS[{key}])"),
        });
        let joined = |operator: &'static str| {
            let both = (inner.clone(), inner.clone());
            both.prop_map(move |(left, right)| format!("({left} {operator} {right})"))
        };
        prop_oneof![
            3 => call,
            5 => key_first,
            2 => joined("=="),
            1 => joined("~="),
            1 => joined("and"),
            1 => joined("or"),
            1 => inner.clone().prop_map(|of| format!("not {of}")),
            1 => (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("{a} == {b} and {c} ~= nil")),
        ]
    })
}

/// Statements, and perhaps a return.
fn block(depth: u32) -> BoxedStrategy<String> {
    let call = expression().prop_filter_map("a statement", |text| {
        text.starts_with("redis").then_some(text)
    });
    let local =
        |name: &'static str| expression().prop_map(move |value| format!("local {name} = {value}"));
    let simple = prop_oneof![call, local("one"), local("two")].boxed();
    let statement = match depth {
        0 => simple,
        _ => {
            let parts = (
                expression(),
                block(depth - 1),
                expression(),
                block(depth - 1),
                block(depth - 1),
            );
            let condition = (parts, 0..3).prop_map(
                |((first, then, second, or, otherwise), shape)| match shape {
                    0 => format!("if {first} then {then} end"),
                    1 => format!("if ({first})\nthen\n{then}\nelse {otherwise} end"),
                    _ => format!(
                        "if {first} then {then} elseif {second} then {or} else {otherwise} end"
                    ),
                },
            );
            prop_oneof![2 => simple, 3 => condition].boxed()
        }
    };
    let returned = proptest::option::of(expression());
    (
        proptest::collection::vec(statement, 0..3),
        returned,
        any::<bool>(),
    )
        .prop_map(|(statements, returned, has_lines)| {
            let mut text = statements.join(if has_lines { "\n-- next\n" } else { " " });
            if let Some(value) = returned {
                text.push_str(&format!("\nreturn {value}"));
            }
            text
        })
        .boxed()
}

/// Locals are there in any case.
fn script() -> impl Strategy<Value = String> {
    block(2).prop_map(|block| {
        format!("local one = ARGV[1]; local two = redis.call('get', KEYS[2])\n{block}")
    })
}

/// As redis-py, redsync, rslock, node-redis and Redisson send them.
const OF_LIBRARIES: &[&str] = &[
    "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end",
    r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    "#,
    r#"
	local val = redis.call("GET", KEYS[1])
	if val == ARGV[1] then
		return redis.call("DEL", KEYS[1])
	elseif val == false then
		return -1
	else
		return 0
	end
    "#,
    r#"if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2])
       elseif redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then return 1 else return 0 end"#,
    "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
     redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
     return redis.call('pttl', KEYS[1]);",
];

#[test]
fn scripts_of_libraries_run_natively() {
    for body in OF_LIBRARIES {
        assert!(parse(body.as_bytes()).is_some(), "{body}");
        let mut both = Both::new(ScriptLimits::default());
        // Absent, present with the token, with another one, and of another type.
        for line in ["PING x", "SET k t PX 9", "SET k u", "RPUSH k t"] {
            if !line.starts_with("PING") {
                both.run("DEL k");
                both.run(line);
            }
            for rest in [&["t", "5000"][..], &["5000", "t"], &["t"], &[]] {
                both.eval(body, &["k"], rest);
                both.run("PTTL k");
            }
            both.eval(body, &[], &["t"]);
        }
    }
}

#[test]
fn what_needs_the_interpreter_is_left_to_it() {
    for body in [
        "for i = 1, 2 do redis.call('del', KEYS[i]) end",
        "return {1, 2}",
        "return redis.pcall('get', KEYS[1])",
        "return redis.call('mget', KEYS[1])",
        "return redis.call(ARGV[1], KEYS[1])",
        "return redis.call('get',\nKEYS[1])",
        "return redis.call('get', KEYS[1]) .. 'a'",
        "return redis.call('incr', KEYS[1]) + 1",
        "return #KEYS",
        "return tonumber(ARGV[1])",
        "local redis = 1 return redis",
        "local KEYS = ARGV return KEYS[1]",
        "return unknown",
        "return KEYS[0]",
        "return KEYS[1][1]",
        "redis.call('get', KEYS[1])\n(redis.call('get', KEYS[1]))",
        "local a = redis.call\n('get', KEYS[1])",
        "return redis.call 'get'",
        "#!lua flags=no-writes\nreturn 1",
        "return \"\\97\"",
    ] {
        assert!(parse(body.as_bytes()).is_none(), "{body}");
    }
    let deep = format!("return {}1{}", "(".repeat(100), ")".repeat(100));
    assert!(parse(deep.as_bytes()).is_none());
    let long = format!("return '{}'", "a".repeat(2048));
    assert!(parse(long.as_bytes()).is_none());
}

#[test]
fn limits_end_a_native_script_as_any_other() {
    let limits = ScriptLimits {
        journal_bytes: 100,
        ..ScriptLimits::default()
    };
    let mut both = Both::new(limits);
    let twice =
        "redis.call('set', KEYS[1], ARGV[1]) redis.call('append', KEYS[1], ARGV[1]) return 1";
    assert!(parse(twice.as_bytes()).is_some());
    let reply = both.eval(twice, &["k"], &[&"a".repeat(60)]);
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    assert_eq!(both.run("GET k"), Reply::Nil, "it is undone");
    both.room_bytes = Some(40);
    let reply = both.eval(twice, &["k"], &[&"a".repeat(30)]);
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    both.room_bytes = None;
    assert_eq!(both.run("GET k"), Reply::Nil, "it is undone");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Planted: an error in its first line, `~=` of texts and numbers, a call that is not counted, a refused one that is, a
    /// journal without a bound.
    #[test]
    fn a_script_does_natively_what_it_does_in_the_interpreter(
        scripts in proptest::collection::vec((script(), any::<bool>(), any::<bool>()), 1..5),
        is_resp3 in any::<bool>(),
        steps_apart in 0..3_u64,
    ) {
        let mut both = Both::new(ScriptLimits { journal_bytes: 400, ..ScriptLimits::default() });
        both.run("SET text token PX 30000");
        both.run("SET number 17 PX 20000");
        both.run("HSET hash a 1 token 2");
        both.run("RPUSH list a token a");
        if is_resp3 {
            both.caller.protocol = Protocol::Resp3;
        }
        for (body, is_read_only, is_queued) in scripts {
            // Too long, or too many words, and it is no question.
            prop_assume!(parse(body.as_bytes()).is_some());
            let name: &[u8] = if is_read_only && is_queued { b"EVAL_RO" } else { b"EVAL" };
            let mut words: Vec<&[u8]> = vec![name, body.as_bytes(), b"4"];
            words.extend(KEYS.map(str::as_bytes));
            words.extend([&b"token"[..], b"5000", b"a"]);
            both.execute(&words);
            both.now.node = both.now.node.saturating_add(Duration::from_millis(steps_apart * 7_000));
            for key in KEYS {
                both.run(&format!("PTTL {key}"));
                both.run(&format!("TYPE {key}"));
            }
        }
        for line in ["GET text", "GET number", "HGETALL hash", "LRANGE list 0 -1", "DBSIZE"] {
            both.run(line);
        }
    }
}
