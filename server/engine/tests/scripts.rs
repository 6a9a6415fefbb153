//! Scripts as their callers see them: results, errors, the cache, the rules for numbers.
//!
//! Where nothing else is said, the expected reply is what redis-server 7.0.15 answers.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use harness::{Node, render, state_of};
use quorlock_engine::Reply;

fn eval(node: &mut Node, body: &str, keys: &[&str], rest: &[&str]) -> Reply {
    let count = keys.len().to_string();
    let mut words: Vec<&[u8]> = vec![b"EVAL", body.as_bytes(), count.as_bytes()];
    words.extend(keys.iter().chain(rest).map(|word| word.as_bytes()));
    node.execute(&words)
}

fn run(node: &mut Node, body: &str) -> String {
    render(&eval(node, body, &[], &[]))
}

/// Runs each script on a fresh node that holds the string `v` at `s` and compares its reply.
/// `SHA` stands for the place that Redis puts behind an error.
fn check(cases: &[(&str, &str)]) {
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
    check(&[
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
    ]);
}

#[test]
fn replies_become_results() {
    check(&[
        ("return redis.call('get','nothing') == false", "1"),
        ("return type(redis.call('set','a','b'))", "\"table\""),
        ("return redis.call('set','a','b').ok", "\"OK\""),
        ("return redis.call('set','a','b')", "OK"),
        ("return redis.call('type','s').ok", "\"string\""),
        ("return redis.call('exists','s') + 1", "2"),
        (
            "redis.call('hset','h','a',1,'b',2) return redis.call('hgetall','h')",
            "[\"a\", \"1\", \"b\", \"2\"]",
        ),
        (
            "redis.setresp(3) redis.call('hset','h','a',1) return redis.call('hgetall','h').map.a",
            "\"1\"",
        ),
        (
            "redis.setresp(3) return redis.call('get','nothing') == nil",
            "Boolean(true)",
        ),
        (
            "return redis.pcall('incr','s').err",
            "\"ERR value is not an integer or out of range\"",
        ),
        (
            "return redis.pcall('incr','s')",
            "-ERR value is not an integer or out of range",
        ),
        (
            "return redis.pcall('nosuch')",
            "-ERR Unknown Redis command called from script",
        ),
        ("return redis.call('ping')", "PONG"),
        (
            "local t = redis.call('time') return {t[1], #t}",
            "[\"1700000000\", 2]",
        ),
    ]);
}

#[test]
fn errors_have_the_words_of_redis() {
    check(&[
        (
            "return nope",
            "-ERR user_script:1: Script attempted to access nonexistent global variable \\'nope\\' SHA1.",
        ),
        (
            "x=1",
            "-ERR user_script:1: Attempt to modify a readonly table SHA1.",
        ),
        (
            "local a=1\nredis.x=1",
            "-ERR user_script:2: Attempt to modify a readonly table SHA2.",
        ),
        ("error('boom')", "-ERR user_script:1: boom SHA1."),
        ("error({err='My code msg'})", "-My code msg SHA1."),
        ("error(redis.error_reply('no code'))", "-no code SHA1."),
        ("error()", "-ERR nil SHA1."),
        ("error(12)", "-ERR user_script:1: 12 SHA1."),
        ("error('x', 0)", "-ERR x SHA1."),
        ("error('x', 2)", "-ERR x SHA1."),
        ("assert(false, 'msg')", "-ERR user_script:1: msg SHA1."),
        (
            "assert(false)",
            "-ERR user_script:1: assertion failed! SHA1.",
        ),
        (
            "return redis.call('incr','s')",
            "-ERR value is not an integer or out of range SHA1.",
        ),
        (
            "return redis.call('nosuch')",
            "-ERR Unknown Redis command called from script SHA1.",
        ),
        (
            "return redis.call('get')",
            "-ERR Wrong number of args calling Redis command from script SHA1.",
        ),
        (
            "return redis.call('get','a','b')",
            "-ERR Wrong number of args calling Redis command from script SHA1.",
        ),
        (
            "return redis.call()",
            "-ERR Please specify at least one argument for this redis lib call SHA1.",
        ),
        (
            "return redis.call('get', {})",
            "-ERR Lua redis lib command arguments must be strings or integers SHA1.",
        ),
        (
            "return redis.call('get', true)",
            "-ERR Lua redis lib command arguments must be strings or integers SHA1.",
        ),
        (
            "return redis.call('set', 'k', 'v', nil)",
            "-ERR Lua redis lib command arguments must be strings or integers SHA1.",
        ),
        (
            "return redis.call('subscribe','a')",
            "-ERR This Redis command is not allowed from script SHA1.",
        ),
        (
            "return redis.call('eval','return 1',0)",
            "-ERR This Redis command is not allowed from script SHA1.",
        ),
        (
            "return redis.call('script','flush')",
            "-ERR This Redis command is not allowed from script SHA1.",
        ),
        (
            "return redis.call('auth','x')",
            "-ERR This Redis command is not allowed from script SHA1.",
        ),
        (
            "return redis.call('select', 99)",
            "-ERR DB index is out of range SHA1.",
        ),
        (
            "return redis.call('set','a','b','px','0')",
            "-ERR invalid expire time in \\'set\\' command SHA1.",
        ),
        (
            "local f = function() return redis.call('nosuch') end\nf()",
            "-ERR Unknown Redis command called from script SHA1.",
        ),
        (
            "redis.setresp(4)",
            "-ERR RESP version must be 2 or 3. SHA1.",
        ),
        ("redis.sha1hex()", "-ERR wrong number of arguments SHA1."),
        (
            "redis.log('a')",
            "-ERR redis.log() requires two arguments or more. SHA1.",
        ),
        ("redis.log(9,'a')", "-ERR Invalid debug level. SHA1."),
        (
            "local ok, e = pcall(redis.call,'incr','s') return {type(e), e}",
            "[\"string\", \"ERR value is not an integer or out of range\"]",
        ),
        (
            "local ok, e = pcall(error,'x') return {type(e), e}",
            "[\"string\", \"x\"]",
        ),
        (
            "local ok, e = pcall(function() error('x') end) return {ok == false, e}",
            "[1, \"user_script:1: x\"]",
        ),
        ("local ok, e = pcall(error,{code=5}) return e.code", "5"),
        (
            "local ok, e = xpcall(function() error('x') end, function(e) return 'H ' .. e end) return e",
            "\"H user_script:1: x\"",
        ),
        (
            "#!lua flags=no-writes\nreturn redis.call('set','a','b')",
            "-ERR Write commands are not allowed from read-only scripts. SHA2.",
        ),
    ]);
}

#[test]
fn a_text_that_is_no_lua_is_refused() {
    let mut node = Node::default();
    for body in [
        "retrn",
        "return return",
        "if",
        "\x1bLua",
        "return 'open",
        "goto x",
    ] {
        let reply = run(&mut node, body);
        let start = "-ERR Error compiling script (new function): user_script:1: ";
        assert!(reply.starts_with(start), "{body:?}: {reply}");
    }
    let reply = node.execute(&[b"SCRIPT", b"LOAD", b"retrn"]);
    assert!(
        render(&reply).starts_with("-ERR Error compiling script"),
        "{reply:?}"
    );
    let long = " ".repeat(256 * 1024 + 1);
    assert_eq!(
        run(&mut node, &long),
        "-ERR script is longer than 262144 bytes"
    );
    assert_eq!(run(&mut node, &long[1..]), "nil");
}

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
    check(&[
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
    ]);
}

#[test]
fn random_numbers_are_those_of_redis_and_start_anew_in_each_script() {
    let mut node = Node::default();
    let body = "return {math.random(1000000), math.random(1000000)}";
    assert_eq!(run(&mut node, body), "[170829, 749902]");
    assert_eq!(run(&mut node, body), "[170829, 749902]");
    let seeded = "math.randomseed(7) return {math.random(1000000), math.random(1000000)}";
    assert_eq!(run(&mut node, seeded), "[266445, 682036]");
    assert!(run(&mut node, "return math.random(0)").starts_with("-ERR"));
}

#[test]
fn a_cached_script_sees_new_keys_and_arguments() {
    let mut node = Node::default();
    let body = "return {KEYS[1] or 'no key', ARGV[1] or 'nothing', #KEYS, #ARGV}";
    let first = eval(&mut node, body, &["a"], &["1"]);
    assert_eq!(render(&first), "[\"a\", \"1\", 1, 1]");
    let second = eval(&mut node, body, &["b", "c"], &["2", "3"]);
    assert_eq!(render(&second), "[\"b\", \"2\", 2, 2]");
    let third = eval(&mut node, body, &[], &[]);
    assert_eq!(render(&third), "[\"no key\", \"nothing\", 0, 0]");
    let keys: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let many = eval(&mut node, "return {#KEYS, KEYS[2000], #ARGV}", &keys, &keys);
    assert_eq!(render(&many), "[2000, \"1999\", 2000]");
}

#[test]
fn keys_and_arguments_may_be_any_bytes() {
    let mut node = Node::default();
    let bytes: Vec<u8> = (0..=255).collect();
    let body = b"redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1]) == ARGV[1]";
    let reply = node.execute(&[b"EVAL", body, b"1", &bytes, &bytes]);
    assert_eq!(reply, Reply::Integer(1));
    assert_eq!(node.execute(&[b"GET", &bytes]), Reply::Bulk(bytes));
}

#[test]
fn the_number_of_keys_is_checked() {
    let mut node = Node::default();
    let cases = [
        (
            "EVAL \"return 1\" x",
            "-ERR value is not an integer or out of range",
        ),
        (
            "EVAL \"return 1\" -1",
            "-ERR Number of keys can\\'t be negative",
        ),
        (
            "EVAL \"return 1\" 3 a",
            "-ERR Number of keys can\\'t be greater than number of args",
        ),
        (
            "EVAL \"return 1\"",
            "-ERR wrong number of arguments for \\'eval\\' command",
        ),
        (
            "EVALSHA abc 0",
            "-NOSCRIPT No matching script. Please use EVAL.",
        ),
        (
            "EVAL \"return 1\" 99999999999999999999",
            "-ERR value is not an integer or out of range",
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(node.run(line), expected, "{line}");
    }
}

#[test]
fn scripts_are_known_by_their_sha1_until_flushed() {
    let mut node = Node::default();
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert_eq!(node.run(&format!("SCRIPT EXISTS {sha} {sha}")), "[0, 0]");
    assert_eq!(node.run("SCRIPT LOAD \"return 1\""), format!("\"{sha}\""));
    assert_eq!(node.run(&format!("EVALSHA {sha} 0")), "1");
    assert_eq!(node.run(&format!("EVALSHA {} 0", sha.to_uppercase())), "1");
    assert_eq!(node.run(&format!("SCRIPT EXISTS {sha} ffff")), "[1, 0]");
    assert_eq!(node.run("EVAL \"return 2\" 0"), "2");
    assert_eq!(
        node.run("EVALSHA 7f923f79fe76194c868d7e1d0820de36700eb649 0"),
        "2"
    );
    for mode in ["", " SYNC", " async"] {
        assert_eq!(node.run(&format!("SCRIPT FLUSH{mode}")), "OK");
    }
    assert_eq!(
        node.run(&format!("EVALSHA {sha} 0")),
        "-NOSCRIPT No matching script. Please use EVAL."
    );
    assert_eq!(node.run("EVAL \"return 1\" 0"), "1");
}

#[test]
fn the_subcommands_of_script_are_checked() {
    let mut node = Node::default();
    let cases = [
        (
            "SCRIPT",
            "-ERR wrong number of arguments for \\'script\\' command",
        ),
        (
            "SCRIPT foo",
            "-ERR unknown subcommand \\'foo\\'. Try SCRIPT HELP.",
        ),
        (
            "SCRIPT LOAD",
            "-ERR wrong number of arguments for \\'script|load\\' command",
        ),
        (
            "SCRIPT EXISTS",
            "-ERR wrong number of arguments for \\'script|exists\\' command",
        ),
        (
            "SCRIPT FLUSH x",
            "-ERR SCRIPT FLUSH only support SYNC|ASYNC option",
        ),
        ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now."),
    ];
    for (line, expected) in cases {
        assert_eq!(node.run(line), expected, "{line}");
    }
    assert!(node.run("SCRIPT HELP").starts_with("[SCRIPT <subcommand>"));
}

#[test]
fn old_texts_make_room_and_loaded_ones_stay() {
    let mut node = Node::default();
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    node.run("SCRIPT LOAD \"return 1\"");
    for number in 0..1200 {
        assert_eq!(
            run(&mut node, &format!("return {number}")),
            number.to_string()
        );
    }
    assert!(
        node.engine.script_count() <= 501,
        "{}",
        node.engine.script_count()
    );
    assert_eq!(node.run(&format!("EVALSHA {sha} 0")), "1");
    assert_eq!(
        run(&mut node, "return 3"),
        "3",
        "an old text is compiled again"
    );
}

#[test]
fn loading_without_end_is_refused_before_memory_runs_out() {
    let mut node = Node::default();
    let filling = " ".repeat(200 * 1024);
    let loaded = (0..1000)
        .take_while(|number| {
            let body = format!("return {number}{filling}");
            !node
                .execute(&[b"SCRIPT", b"LOAD", body.as_bytes()])
                .is_error()
        })
        .count();
    assert!((40..200).contains(&loaded), "{loaded}");
    assert_eq!(node.run("EVAL \"return 7\" 0"), "7", "EVAL goes on");
    assert_eq!(node.run("SCRIPT FLUSH"), "OK");
    assert_eq!(
        node.run("SCRIPT LOAD \"return 1\""),
        "\"e0e1f9fabfc9d4800c877a703b823ac0578ff8db\""
    );
}

#[test]
fn read_only_scripts_read_and_do_not_write() {
    let mut node = Node::default();
    node.run("SET a 1");
    assert_eq!(
        node.run("EVAL_RO \"return redis.call('get',KEYS[1])\" 1 a"),
        "\"1\""
    );
    let reply = node.run("EVAL_RO \"return redis.call('set','a','b')\" 0");
    assert!(reply.starts_with("-ERR Write commands are not allowed from read-only scripts."));
    let sha = node.run("SCRIPT LOAD \"return redis.call('del','a')\"");
    let reply = node.run(&format!("EVALSHA_RO {sha} 0"));
    assert!(reply.starts_with("-ERR Write commands are not allowed from read-only scripts."));
    assert_eq!(
        node.run(&format!("EVALSHA {sha} 0")),
        "1",
        "the next call may write again"
    );
}

#[test]
fn a_script_is_one_group_and_its_time_stands_still() {
    let mut node = Node::default();
    let body = "redis.call('set','a','1','px',100) redis.call('set','b','2','px',200) \
                redis.call('del','a') return redis.call('pttl','b')";
    assert_eq!(run(&mut node, body), "200");
    assert_eq!(node.log.len(), 1, "one command, one group");
    assert_eq!(state_of(&node.replayed(), node.now.node), node.state());
    assert_eq!(run(&mut node, "return redis.call('get','b')"), "\"2\"");
    assert_eq!(node.log.len(), 1, "reading logs nothing");
}

#[test]
fn a_script_that_raises_keeps_what_it_did() {
    let mut node = Node::default();
    let reply = run(&mut node, "redis.call('set','a','1') error('late')");
    assert!(
        reply.starts_with("-ERR user_script:1: late script: "),
        "{reply}"
    );
    assert_eq!(node.run("GET a"), "\"1\"");
    assert_eq!(state_of(&node.replayed(), node.now.node), node.state());
}

#[test]
fn a_script_has_its_own_database() {
    let mut node = Node::default();
    assert_eq!(
        run(
            &mut node,
            "redis.call('select', 3) return redis.call('set','a','1')"
        ),
        "OK"
    );
    assert_eq!(
        node.run("GET a"),
        "nil",
        "the caller's database is what it was"
    );
    assert_eq!(
        run(&mut node, "return redis.call('get','a')"),
        "nil",
        "and the next script's"
    );
    node.caller.database = 3;
    assert_eq!(node.run("GET a"), "\"1\"");
}

#[test]
fn what_scripts_log_can_be_read_and_is_bounded() {
    let mut node = Node::default();
    run(
        &mut node,
        "for i=1,1000 do redis.log(redis.LOG_WARNING, 'line', i) end",
    );
    let lines = node.engine.take_script_log();
    assert_eq!(lines.len(), 64);
    assert_eq!((lines[0].level, &*lines[0].text), (3, &b"line 1"[..]));
    assert_eq!(node.engine.take_script_log(), []);
}

#[test]
fn an_engine_can_be_moved_to_another_thread_with_its_scripts() {
    let mut node = Node::default();
    let body = "redis.call('incr', KEYS[1]) return redis.call('get', KEYS[1])";
    assert_eq!(render(&eval(&mut node, body, &["n"], &[])), "\"1\"");
    let mut node = std::thread::spawn(move || {
        assert_eq!(render(&eval(&mut node, body, &["n"], &[])), "\"2\"");
        node
    })
    .join()
    .unwrap();
    assert_eq!(render(&eval(&mut node, body, &["n"], &[])), "\"3\"");
}
