//! Scripts run natively and by the interpreter: the oracle is the latter.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::time::Duration;

use crate::caller::Caller;
use crate::command::Command;
use crate::effects::Effects;
use crate::engine::{Engine, EngineOptions};
use crate::position::LogPosition;
use crate::reply::Reply;
use crate::script::HAS_INTERPRETER;
use crate::script::limits::ScriptLimits;
use crate::script::native::parse;
use crate::scripts_for_tests::shown;
use crate::time::{Moment, NodeTime, RawTime};

/// Two nodes that are told the same.
pub(super) struct Both {
    engines: [Engine; 2],
    effects: [Effects; 2],
    pub(super) now: Moment,
    pub(super) caller: Caller,
    position: u64,
    room_bytes: Option<usize>,
}

impl Both {
    pub(super) fn new(script_limits: ScriptLimits) -> Both {
        let engine = |runs_scripts_natively| {
            Engine::new(EngineOptions {
                script_limits,
                runs_scripts_natively,
                ..EngineOptions::default()
            })
        };
        Both {
            engines: [engine(true), engine(!HAS_INTERPRETER)],
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
    pub(super) fn execute(&mut self, arguments: &[&[u8]]) -> Reply {
        self.position += 1;
        let [(reply, native), (_, interpreted)] =
            [0, 1].map(|which| self.execute_on(which, arguments));
        let shown: Vec<_> = arguments
            .iter()
            .map(|one| String::from_utf8_lossy(one))
            .collect();
        assert_eq!(native, interpreted, "{shown:#?}");
        reply
    }

    /// On one of them: the reply, and all that comes of it as text.
    fn execute_on(&mut self, which: usize, arguments: &[&[u8]]) -> (Reply, String) {
        let command = Command::parse(arguments).unwrap();
        let (engine, effects) = (&mut self.engines[which], &mut self.effects[which]);
        effects.begin(LogPosition::from_raw(self.position));
        effects.room.bytes = self.room_bytes;
        let reply = on_the_wire(engine.execute(self.now, &self.caller, &command, effects));
        let text = format!("{reply:?} {}", shown(effects, engine));
        (reply, text)
    }

    pub(super) fn eval(&mut self, body: &str, keys: &[&str], rest: &[&str]) -> Reply {
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVAL", body.as_bytes(), count.as_bytes()];
        words.extend(keys.iter().chain(rest).map(|word| word.as_bytes()));
        self.execute(&words)
    }

    pub(super) fn run(&mut self, line: &str) -> Reply {
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

/// As redis-py, redsync, rslock, node-redis and Redisson send them.
pub(super) const OF_LIBRARIES: &[&str] = &[
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
    ACQUIRE_ALL,
    RELEASE_ALL,
];

/// As Quorlock's own client sends them about several keys.
const ACQUIRE_ALL: &str = "for _, k in ipairs(KEYS) do local v = redis.call('GET', k) \
if v and v ~= ARGV[1] then return v end end \
for _, k in ipairs(KEYS) do redis.call('SET', k, ARGV[1], 'PX', ARGV[2]) end return 1";
const RELEASE_ALL: &str = "local all = 1 for _, k in ipairs(KEYS) do \
if redis.call('GET', k) == ARGV[1] then redis.call('DEL', k) else all = 0 end end return all";

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
fn scripts_about_several_keys_run_natively() {
    let values = ["t", "u"];
    for body in [
        ACQUIRE_ALL,
        RELEASE_ALL,
        "local n = 0 for i, k in ipairs(KEYS) do if redis.call('get', k) then n = i end end return n",
        "local k = 'x' for i, k in ipairs(KEYS) do i = k k = 'y' redis.call('append', i, k) end return k",
        "for i, k in ipairs(KEYS) do redis.call('incrby', k, i) end",
        "for k, k in ipairs(KEYS) do redis.call('append', k, 'z') end",
        "for i, k in ipairs(KEYS) do if redis.call('get', k) == ARGV[1] then return i end end",
    ] {
        assert!(parse(body.as_bytes()).is_some(), "{body}");
        // Each of three keys is absent, has the token, or has another one.
        for state in 0..27_usize {
            let mut both = Both::new(ScriptLimits::default());
            for (key, digit) in [("a", 1), ("b", 3), ("c", 9)] {
                if let Some(value) = values.get(state / digit % 3) {
                    both.run(&format!("SET {key} {value} PX 9000"));
                }
            }
            both.eval(body, &["a", "b", "c"], &["t", "5000"]);
            for key in ["a", "b", "c"] {
                both.run(&format!("GET {key}"));
                both.run(&format!("PTTL {key}"));
            }
        }
    }
}

#[test]
fn what_needs_the_interpreter_is_left_to_it() {
    for body in [
        "for i = 1, 2 do redis.call('del', KEYS[i]) end",
        "for i, k in ipairs(ARGV) do redis.call('del', k) end",
        "for i, k in pairs(KEYS) do redis.call('del', k) end",
        "for i, k in ipairs(KEYS) do for j, l in ipairs(KEYS) do redis.call('del', l) end end",
        "for i, k in ipairs(KEYS) do break end",
        "for k in ipairs(KEYS) do redis.call('del', KEYS[1]) end",
        "for i, KEYS in ipairs(KEYS) do redis.call('del', KEYS) end",
        "local ipairs = 1 return ipairs",
        "for i, k in ipairs(KEYS) do redis.call('del', k) end return k",
        "unknown = 1 return 1",
        "KEYS = 1 return 1",
        "local a = 1 local b = 2 a, b = b, a return a",
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
        "local KEYS = ARGV[1] return KEYS[1]",
        "local redis = ARGV[1] return redis.call('get', KEYS[1])",
        "if true then local x = 1 end return x",
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
}

#[test]
fn short_and_shallow_scripts_run_natively_and_others_do_not() {
    let of_length = |bytes: usize| format!("return '{}'", "a".repeat(bytes - "return ''".len()));
    assert!(parse(of_length(2048).as_bytes()).is_some());
    assert!(parse(of_length(2049).as_bytes()).is_none());
    let of_depth = |depth: usize| {
        let (opening, closing) = ("if true then ".repeat(depth), " end".repeat(depth));
        format!("{opening}return 1{closing}")
    };
    // The outermost block and the number count as well.
    assert!(parse(of_depth(22).as_bytes()).is_some());
    assert!(parse(of_depth(23).as_bytes()).is_none());
    for body in [
        "return",
        "return;",
        "if true then return end",
        "return true",
    ] {
        assert!(parse(body.as_bytes()).is_some(), "{body}");
    }
}

/// Each was a difference once: where a comment ends, a name that is a part of an expression, the lowest whole number.
#[test]
fn what_looks_alike_and_is_not() {
    let mut both = Both::new(ScriptLimits::default());
    for body in [
        "-- c\rredis.call('set', KEYS[1], 'x')\nreturn 1",
        "redis.call('set', KEYS[1], 'x') return redis.call('get' and 'del', KEYS[1])",
        "return redis.call('get' == 'get', KEYS[1])",
        "return redis.call('get' and KEYS[1])",
    ] {
        both.eval(body, &["k"], &["t"]);
        both.run("GET k");
    }
    // Two of them are one table here.
    let twice = "return redis.call('set', KEYS[1], 1) == redis.call('set', KEYS[1], 2)";
    assert!(parse(twice.as_bytes()).is_some());
    assert_eq!(both.eval(twice, &["k"], &[]), Reply::Integer(1));
    both.run("SET n -9223372036854775808");
    let lowest = "return redis.call('set', KEYS[1], redis.call('incrby', KEYS[2], 0))";
    assert!(parse(lowest.as_bytes()).is_some());
    both.eval(lowest, &["k", "n"], &[]);
    both.run("GET k");
}

#[test]
fn limits_end_a_native_script_as_any_other() {
    let is_error = |reply: &Reply| matches!(reply, Reply::Error(_));
    let limits = ScriptLimits {
        journal_bytes: 100,
        ..ScriptLimits::default()
    };
    let mut both = Both::new(limits);
    let twice =
        "redis.call('set', KEYS[1], ARGV[1]) redis.call('append', KEYS[1], ARGV[1]) return 1";
    assert!(parse(twice.as_bytes()).is_some());
    assert!(is_error(&both.eval(twice, &["k"], &[&"a".repeat(60)])));
    assert_eq!(both.run("GET k"), Reply::Nil, "it is undone");
    both.room_bytes = Some(40);
    assert!(is_error(&both.eval(twice, &["k"], &[&"a".repeat(30)])));
    both.room_bytes = None;
    assert_eq!(both.run("GET k"), Reply::Nil, "it is undone");
}

/// The interpreter takes more steps for the same calls, so that it is not compared.
#[test]
fn a_native_script_takes_steps_and_time() {
    let ended = |limits, body: &str| {
        assert!(parse(body.as_bytes()).is_some());
        let mut both = Both::new(limits);
        let mut read: u64 = 0;
        let clock = move || {
            read += 1;
            RawTime::from_nanos(read * 1_000_000)
        };
        both.engines[0].set_script_clock(Box::new(clock));
        both.position += 1;
        let (reply, _) = both.execute_on(0, &[b"EVAL", body.as_bytes(), b"1", b"k"]);
        let Reply::Error(error) = reply else {
            return String::new();
        };
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    };
    let steps = ScriptLimits {
        steps: 2,
        ..ScriptLimits::default()
    };
    let many = "redis.call('get', KEYS[1]) ".repeat(17);
    assert!(ended(steps, &many).contains("limit of 2 steps"));
    assert_eq!(ended(ScriptLimits::default(), &many), "");
    let looping = "for i, k in ipairs(KEYS) do end ".repeat(17);
    assert!(ended(steps, &looping).contains("limit of 2 steps"));
    let time = ScriptLimits {
        time: Duration::from_millis(1),
        ..ScriptLimits::default()
    };
    // Commands with many arguments look at the clock.
    let long = format!("redis.call('del'{}) ", ", KEYS[1]".repeat(9)).repeat(2);
    assert!(ended(time, &long).contains("time limit of 1 ms"));
    assert_eq!(ended(ScriptLimits::default(), &long), "");
}

/// What the commands before it have written is not the script's.
#[test]
fn a_native_script_of_a_transaction_may_write_as_much_as_any_other() {
    let limits = ScriptLimits {
        journal_bytes: 100,
        ..ScriptLimits::default()
    };
    let mut both = Both::new(limits);
    let value = "v".repeat(60);
    let set: [&[u8]; 3] = [b"SET", b"k", value.as_bytes()];
    let body = b"return redis.call('set', KEYS[1], ARGV[1])";
    assert!(parse(body).is_some());
    let script: [&[u8]; 5] = [b"EVAL", body, b"1", b"l", value.as_bytes()];
    both.position += 1;
    for (engine, effects) in both.engines.iter_mut().zip(&mut both.effects) {
        effects.begin(LogPosition::from_raw(both.position));
        let running = engine.begin_transaction(both.now, effects);
        for words in [&set[..], &script] {
            let command = Command::parse(words).unwrap();
            let reply = engine.execute_next(both.now, &both.caller, &command, effects);
            assert_eq!(reply.map(on_the_wire), Some(Reply::status("OK")));
        }
        assert_eq!(engine.end_transaction(both.now, running, effects), Ok(()));
    }
}

/// What a script reads is no part of its reply.
#[test]
fn a_reply_of_a_native_script_has_the_room_of_any_other() {
    let mut both = Both::new(ScriptLimits::default());
    both.run(&format!("SET k {}", "v".repeat(900)));
    for engine in &mut both.engines {
        engine.set_reply_bytes_max(1000);
    }
    let body =
        "local one = redis.call('get', KEYS[1]) local two = redis.call('get', KEYS[1]) return one";
    assert!(parse(body.as_bytes()).is_some());
    assert!(matches!(both.eval(body, &["k"], &[]), Reply::Bulk(_)));
    for engine in &mut both.engines {
        engine.set_reply_bytes_max(10);
    }
    for body in [
        "return ARGV[1]",
        "return redis.call('set', KEYS[1], ARGV[1])",
        "return redis.call('get', KEYS[1])",
    ] {
        both.eval(body, &["k"], &["a longer text"]);
    }
}

/// A long value is shared with the keyspace, also while a script compares it or hands it on.
#[test]
fn a_long_value_is_as_good_as_a_short_one() {
    let long = "v".repeat(100_000);
    for body in [
        "if redis.call('get', KEYS[1]) == ARGV[1] then return 1 else return 0 end",
        "local value = redis.call('get', KEYS[1]) redis.call('set', KEYS[2], value) return value",
        "return redis.call('get', KEYS[1]) ~= ARGV[1]",
    ] {
        let mut both = Both::new(ScriptLimits::default());
        both.run(&format!("SET k {long}"));
        both.eval(body, &["k", "other"], &[&long]);
        both.eval(body, &["k", "other"], &[&long[1..]]);
        both.run("GET other");
    }
}
