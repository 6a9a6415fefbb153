//! Scripts of random conditions and calls, and of libraries with random faults, run natively and by the interpreter.

use std::time::Duration;

use proptest::prelude::*;

use crate::caller::Protocol;
use crate::command::{Flags, all_specs};
use crate::script::limits::ScriptLimits;
use crate::script::native::parse;
use crate::script::native::tests::{Both, OF_LIBRARIES};
use crate::scripts_for_tests::{KEYS, LITERALS};

fn name() -> impl Strategy<Value = String> {
    let spelt = |(name, is_upper): (&str, bool)| match is_upper {
        true => name.to_uppercase(),
        false => name.to_owned(),
    };
    let simple = all_specs().filter(|spec| spec.flags.contains(Flags::SIMPLE));
    let names: Vec<&str> = simple.map(|spec| spec.name).collect();
    (proptest::sample::select(names), any::<bool>()).prop_map(spelt)
}

fn literal() -> impl Strategy<Value = String> {
    proptest::sample::select(LITERALS).prop_map(str::to_owned)
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
    let assigned =
        |name: &'static str| expression().prop_map(move |value| format!("{name} = {value}"));
    let simple = prop_oneof![
        2 => call,
        2 => local("one"),
        2 => local("two"),
        1 => assigned("one"),
        1 => assigned("two"),
    ]
    .boxed();
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
            // Within one of them another one is none, and the text no question.
            let over_keys =
                (block(0), any::<bool>()).prop_map(|(block, is_named)| match is_named {
                    true => format!("for one, two in ipairs(KEYS) do {block} end"),
                    false => format!("for _, two in ipairs( KEYS )\ndo\n{block}\nend"),
                });
            prop_oneof![2 => simple, 3 => condition, 1 => over_keys].boxed()
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

/// Pieces that texts are made of which are read wrongly, or should not be read.
const PIECES: &[&str] = &[
    "\r",
    "-- c\r",
    "-- c\n",
    "\r\n",
    "\n",
    " ",
    "\x0c",
    "\0",
    "-",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    " and ",
    " or ",
    " not ",
    "==",
    "~=",
    "=",
    "nil",
    "true",
    "local x =",
    "local type = ",
    "local continue = ",
    "local token = ",
    "return ",
    "if ",
    " then ",
    " else ",
    " elseif ",
    " end ",
    "-0",
    "0",
    "-1",
    "1",
    "9007199254740993",
    "007",
    "1e3",
    ":",
    "number",
    "..",
    ".",
    "'get'",
    "'del'",
    "'mget'",
    "'get' and ",
    "KEYS",
    "KEYS[1]",
    "KEYS[2]",
    "ARGV[1]",
    "redis",
    "redis.call",
    "server.call('incr', KEYS[2])",
    "redis.call('get', KEYS[1])",
    "token",
    "{",
    "}",
    "#",
    "--[[x]]",
    "--!strict\n",
    "`x`",
    " do ",
    "\"a\"",
];

/// A script of a library with some of its words taken out, doubled, or replaced by a piece.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (
        any::<prop::sample::Index>(),
        0..4,
        proptest::sample::select(PIECES),
    );
    let edits = proptest::collection::vec(edit, 1..4);
    (proptest::sample::select(OF_LIBRARIES), edits).prop_map(|(text, edits)| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let mut words: Vec<String> = Vec::new();
        for (place, symbol) in text.char_indices() {
            let goes_on =
                place > 0 && is_part(text.as_bytes()[place - 1]) && is_part(text.as_bytes()[place]);
            match words.last_mut() {
                Some(last) if goes_on => last.push(symbol),
                _ => words.push(symbol.to_string()),
            }
        }
        for (place, kind, piece) in edits {
            let place = place.index(words.len());
            match kind {
                0 => drop(words.remove(place)),
                1 => words.insert(place, words[place].clone()),
                2 => piece.clone_into(&mut words[place]),
                _ => words.insert(place, piece.to_owned()),
            }
        }
        words.concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever the interpreter accepts, and whoever reads it. Planted: a comment goes on to the end of its line.
    #[test]
    fn a_text_that_is_nearly_a_lock_script_means_what_it_means_to_the_interpreter(
        texts in proptest::collection::vec((mutated(), 0..4_usize), 40),
    ) {
        let mut both = Both::new(ScriptLimits::default());
        for (body, before) in texts {
            both.run("DEL k");
            both.run("SET n -9223372036854775808");
            if let Some(line) = ["SET k t PX 9000", "SET k 5000", "RPUSH k t"].get(before) {
                both.run(line);
            }
            both.eval(&body, &["k", "n"], &["t", "5000"]);
        }
    }

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
