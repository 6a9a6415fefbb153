//! Values, replies and errors: every line is a script and what redis-server 7.0.15 answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Node, run};

/// Runs each script on a fresh node that holds the string `v` at `s` and compares its reply.
/// `SHA` stands for the place that Redis puts behind an error.
pub(super) fn check(cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        let mut node = Node::default();
        node.run("SET s v");
        let reply = run(&mut node, body);
        let reply = match reply.split_once(" script: ") {
            Some((text, place)) => {
                let (sha, line) = place.split_once(", on @user_script:").unwrap();
                assert_eq!(sha.len(), 40, "{reply}");
                format!("{text} SHA{line}")
            }
            None => reply,
        };
        assert_eq!(&reply, expected, "{body}");
    }
}

#[test]
fn results_become_replies() {
    check(RESULTS);
}

const RESULTS: &[(&str, &str)] = &[
    ("return", "nil"),
    ("return nil", "nil"),
    ("return false", "nil"),
    ("return true", "1"),
    ("return 1", "1"),
    (
        "return {1.9,-1.9,'3.5',true,false}",
        "[1, -1, \"3.5\", 1, nil]",
    ),
    ("return {1,2,nil,4}", "[1, 2]"),
    ("return {}", "[]"),
    ("return {1,{2,{3}}}", "[1, [2, [3]]]"),
    ("return {-1, {false, 'x'}}", "[-1, [nil, \"x\"]]"),
    ("return {ok='FINE'}", "FINE"),
    ("return {err='my error'}", "-my error"),
    ("return {1, {err='E x'}, {ok='Y'}}", "[1, -E x, Y]"),
    ("return {double=3.5}", "Double(3.5)"),
    ("return {map={a=1}}", "[\"a\", 1]"),
    ("return {set={a=true}}", "[\"a\"]"),
    ("return 1e20", "-9223372036854775808"),
    ("return 0/0", "-9223372036854775808"),
    ("return string.rep", "nil"),
    ("return 'x', 'y'", "\"x\""),
    ("return redis.status_reply('FINE')", "FINE"),
    ("return redis.error_reply('ERROR')", "-ERR ERROR"),
    ("return redis.error_reply('-MY ERROR')", "-MY ERROR"),
    ("return redis.error_reply('MY ERROR')", "-MY ERROR"),
    (
        "return redis.error_reply()",
        "-ERR wrong number or type of arguments",
    ),
    (
        "return redis.error_reply({})",
        "-ERR wrong number or type of arguments",
    ),
    (
        "redis.setresp(3) return {true, false, {double=1}}",
        "[Boolean(true), Boolean(false), Double(1.0)]",
    ),
];

#[test]
fn replies_become_results() {
    check(REPLIES);
}

#[rustfmt::skip]
const REPLIES: &[(&str, &str)] = &[
    ("return redis.call('get','nothing') == false", "1"),
    ("return type(redis.call('set','a','b'))", "\"table\""),
    ("return redis.call('set','a','b').ok", "\"OK\""),
    ("return redis.call('set','a','b')", "OK"),
    ("return redis.call('type','s').ok", "\"string\""),
    ("return redis.call('exists','s') + 1", "2"),
    ("redis.call('hset','h','a',1,'b',2) return redis.call('hgetall','h')", "[\"a\", \"1\", \"b\", \"2\"]"),
    ("redis.setresp(3) redis.call('hset','h','a',1) return redis.call('hgetall','h').map.a", "\"1\""),
    ("redis.setresp(3) return redis.call('get','nothing') == nil", "Boolean(true)"),
    ("return redis.pcall('incr','s').err", "\"ERR value is not an integer or out of range\""),
    ("return redis.pcall('incr','s')", "-ERR value is not an integer or out of range"),
    ("return redis.pcall('nosuch')", "-ERR Unknown Redis command called from script"),
    ("return redis.call('ping')", "PONG"),
    ("local t = redis.call('time') return {t[1], #t}", "[\"1700000000\", 2]"),
];

#[test]
fn errors_have_the_words_of_redis() {
    check(ERRORS);
}

#[rustfmt::skip]
const ERRORS: &[(&str, &str)] = &[
    ("return nope", "-ERR user_script:1: Script attempted to access nonexistent global variable \\'nope\\' SHA1."),
    ("x=1", "-ERR user_script:1: Attempt to modify a readonly table SHA1."),
    ("local a=1\nredis.x=1", "-ERR user_script:2: Attempt to modify a readonly table SHA2."),
    ("error('boom')", "-ERR user_script:1: boom SHA1."),
    ("error({err='My code msg'})", "-My code msg SHA1."),
    ("error(redis.error_reply('no code'))", "-no code SHA1."),
    ("error()", "-ERR nil SHA1."),
    ("error(12)", "-ERR user_script:1: 12 SHA1."),
    ("error('x', 0)", "-ERR x SHA1."),
    ("error('x', 2)", "-ERR x SHA1."),
    ("assert(false, 'msg')", "-ERR user_script:1: msg SHA1."),
    ("assert(false)", "-ERR user_script:1: assertion failed! SHA1."),
    ("return redis.call('incr','s')", "-ERR value is not an integer or out of range SHA1."),
    ("return redis.call('nosuch')", "-ERR Unknown Redis command called from script SHA1."),
    ("return redis.call('get')", "-ERR Wrong number of args calling Redis command from script SHA1."),
    ("return redis.call('get','a','b')", "-ERR Wrong number of args calling Redis command from script SHA1."),
    ("return redis.call()", "-ERR Please specify at least one argument for this redis lib call SHA1."),
    ("return redis.call('get', {})", "-ERR Lua redis lib command arguments must be strings or integers SHA1."),
    ("return redis.call('get', true)", "-ERR Lua redis lib command arguments must be strings or integers SHA1."),
    ("return redis.call('set', 'k', 'v', nil)", "-ERR Lua redis lib command arguments must be strings or integers SHA1."),
    ("return redis.call('subscribe','a')", "-ERR This Redis command is not allowed from script SHA1."),
    ("return redis.call('eval','return 1',0)", "-ERR This Redis command is not allowed from script SHA1."),
    ("return redis.call('script','flush')", "-ERR This Redis command is not allowed from script SHA1."),
    ("return redis.call('auth','x')", "-ERR This Redis command is not allowed from script SHA1."),
    ("return redis.call('Function', 'LIST')", "-ERR This Redis command is not allowed from script SHA1."),
    ("return redis.call('readonly')", "-ERR Unknown Redis command called from script SHA1."),
    ("return redis.call('xadd', 'k', '*')", "-ERR Unknown Redis command called from script SHA1."),
    ("return redis.call('select', 99)", "-ERR DB index is out of range SHA1."),
    ("return redis.call('set','a','b','px','0')", "-ERR invalid expire time in \\'set\\' command SHA1."),
    ("local f = function() return redis.call('nosuch') end\nf()", "-ERR Unknown Redis command called from script SHA1."),
    ("redis.setresp(4)", "-ERR RESP version must be 2 or 3. SHA1."),
    ("redis.sha1hex()", "-ERR wrong number of arguments SHA1."),
    ("redis.log('a')", "-ERR redis.log() requires two arguments or more. SHA1."),
    ("redis.log(9,'a')", "-ERR Invalid debug level. SHA1."),
    (
        "local ok, e = pcall(redis.call,'incr','s') return {type(e), e}",
        "[\"string\", \"ERR value is not an integer or out of range\"]",
    ),
    ("local ok, e = pcall(error,'x') return {type(e), e}", "[\"string\", \"x\"]"),
    ("local ok, e = pcall(function() error('x') end) return {ok == false, e}", "[1, \"user_script:1: x\"]"),
    ("local ok, e = pcall(error,{code=5}) return e.code", "5"),
    ("local ok, e = xpcall(function() error('x') end, function(e) return 'H ' .. e end) return e", "\"H user_script:1: x\""),
    (
        "#!lua flags=no-writes\nreturn redis.call('set','a','b')",
        "-ERR Write commands are not allowed from read-only scripts. SHA2.",
    ),
];

#[test]
fn numbers_follow_the_rules_for_arguments() {
    let cases = [
        ("1", "1"),
        ("-1", "-1"),
        ("1e15", "1000000000000000"),
        ("2^53", "9007199254740992"),
        ("1e17", "100000000000000000"),
        ("0.1", "0.1"),
        ("10/4", "2.5"),
        ("'007'", "007"),
        ("1/0", "inf"),
    ];
    for (number, text) in cases {
        let body = format!("redis.call('set','n',{number}) return redis.call('get','n')");
        assert_eq!(
            run(&mut Node::default(), &body),
            format!("\"{text}\""),
            "{number}"
        );
    }
}

#[test]
fn texts_count_as_numbers_where_lua_5_1_says_so() {
    check(TEXTS);
}

const TEXTS: &[(&str, &str)] = &[
    (
        "local c = '3' local n = 0 for i=c,1,-1 do n = n + i end return n",
        "6",
    ),
    ("return math.max(5, '7')", "7"),
    ("return math.min('5', 7)", "5"),
    ("return math.floor('7.9')", "7"),
    ("return '10' + 5", "15"),
    ("return '10' * '2'", "20"),
    ("return 1 .. ''", "\"1\""),
    ("return table.getn({1,2,3})", "3"),
    ("return math.mod(7, 4)", "3"),
    ("return #{unpack({1,2,3})}", "3"),
    ("return tostring(1)", "\"1\""),
    ("return {string.gsub('abc', 'b', 'x')}", "[\"axc\", 1]"),
    (
        "local s = 'a,b' local t = {} for w in s:gmatch('[^,]+') do t[#t+1] = w end return t",
        "[\"a\", \"b\"]",
    ),
    ("return ('lock:1'):sub(6)", "\"1\""),
    ("local t = {3,1,2} table.sort(t) return t", "[1, 2, 3]"),
    (
        "return {pcall(function() return '1' < 2 end)}",
        "[nil, \"user_script:1: attempt to compare string < number\"]",
    ),
];

#[test]
fn random_numbers_are_those_of_redis_after_a_seed_and_differ_between_runs_without_one() {
    let mut node = Node::default();
    let seeded = "math.randomseed(7) return {math.random(1000000), math.random(1000000)}";
    assert_eq!(run(&mut node, seeded), "[266445, 682036]");
    let body = "return {math.random(1000000), math.random(1000000)}";
    let alike = run(&mut node, body);
    assert_eq!(run(&mut node, body), alike, "an engine without a source");
    let mut seed = 0;
    node.engine.set_script_seeds(Box::new(move || {
        seed += 1 << 40;
        Some(seed)
    }));
    let runs: HashSet<String> = (0..50).map(|_| run(&mut node, body)).collect();
    assert_eq!(runs.len(), 50);
    assert_eq!(run(&mut node, seeded), "[266445, 682036]");
    assert!(run(&mut node, "return math.random(0)").starts_with("-ERR"));
}

#[test]
fn a_script_takes_one_seed_and_only_if_it_needs_one() {
    let mut node = Node::default();
    let taken = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&taken);
    let count = move || Some(counter.fetch_add(1, Ordering::Relaxed));
    node.engine.set_script_seeds(Box::new(count));
    run(&mut node, "return 1");
    run(&mut node, "math.randomseed(3) return math.random()");
    assert_eq!(taken.load(Ordering::Relaxed), 0);
    run(
        &mut node,
        "for i = 1, 9 do math.random(i) end return math.random()",
    );
    assert_eq!(taken.load(Ordering::Relaxed), 1);
}

#[test]
fn a_script_that_can_have_no_seed_is_told_so_and_never_gets_a_number_all_others_get() {
    let mut node = Node::default();
    node.engine.set_script_seeds(Box::new(|| None));
    let reply = run(&mut node, "return math.random(5)");
    assert!(
        reply.starts_with("-ERR the system gives no random numbers"),
        "{reply}"
    );
    assert_eq!(
        run(&mut node, "math.randomseed(7) return math.random(1000000)"),
        "266445"
    );
}

#[test]
fn random_keys_and_members_differ_between_runs_of_scripts_native_ones_too() {
    let mut node = Node::default();
    for number in 0..200 {
        node.run(&format!("SET k{number} v"));
        node.run(&format!("SADD members {number}"));
    }
    for body in [
        "return redis.call('randomkey')",
        "for i = 1, 1 do return redis.call('randomkey') end",
        "return redis.call('srandmember', 'members')",
        "return redis.call('srandmember', 'members', 3)",
    ] {
        let runs: HashSet<String> = (0..60).map(|_| run(&mut node, body)).collect();
        assert!(runs.len() > 30, "{body}: {runs:?}");
    }
}
