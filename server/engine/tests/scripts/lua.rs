//! What the interpreter reads or does in another way than Lua 5.1 by itself: every line is a script and what redis-server
//! 7.0.15 answers.

use super::words::check;
use super::{Node, run};
use quorlock_engine::Reply;

#[test]
fn a_function_with_any_number_of_arguments_has_arg() {
    check(ARG);
}

#[rustfmt::skip]
const ARG: &[(&str, &str)] = &[
    ("local function f(...) return arg.n end return f(1, nil, nil)", "3"),
    (
        "local function f(first, ...) return {first, arg.n, arg[1], arg[2]} end return f('a', 'b', 'c')",
        "[\"a\", 2, \"b\", \"c\"]",
    ),
    ("local arg = 'outer' local function f(...) return arg[1] end return f('own')", "\"own\""),
    ("local function f(arg, ...) return type(arg) end return f(1)", "\"table\""),
    ("local function f(...) return (function() return arg.n end)() end return f(1, 2)", "2"),
    ("local t = {} function t:f(...) return arg.n end return t:f(5, 6)", "2"),
    ("local function f(...) local t = {...} return {#t, type(arg)} end return f(1)", "[1, \"nil\"]"),
    ("local arg = 'outer' local function f(...) local t = {...} return type(arg) end return f(1)", "\"nil\""),
    ("local function f(...) arg[1] = 'changed' return unpack(arg) end return {f(1, 2)}", "[\"changed\", 2]"),
    ("local function f(...) return redis.call(unpack(arg)) end return f('get', 's')", "\"v\""),
    ("local select, string = nil, nil local function f(...) return arg.n end return f(1, 2)", "2"),
    ("local function f(...)\nlocal n = arg.n\nerror('x') end f()", "-ERR user_script:3: x SHA3."),
    ("return arg", "-ERR user_script:1: Script attempted to access nonexistent global variable \\'arg\\' SHA1."),
    ("return select('#', ...)", "0"),
    (
        "local t = {} for name in pairs(string) do t[#t + 1] = name end table.sort(t) return t",
        "[\"byte\", \"char\", \"dump\", \"find\", \"format\", \"gfind\", \"gmatch\", \"gsub\", \"len\", \"lower\", \"match\", \"rep\", \"reverse\", \"sub\", \"upper\"]",
    ),
    ("return {('x').nosuch == nil, string.nosuch == nil}", "[1, 1]"),
];

#[test]
fn literals_and_names_are_those_of_lua_5_1() {
    check(LITERALS);
}

const LITERALS: &[(&str, &str)] = &[
    ("return '\\x41\\u{41}\\z  b\\q\\/'", "\"x41u{41}z  bq/\""),
    ("return '\\065\\10\\9'", "\"A\\n\\t\""),
    ("return 'a\0b'", "\"a\\x00b\""),
    ("return 'a\\\r\nb'", "\"a\\nb\""),
    ("return [[\r\na\rb\n\rc\r\nd]]", "\"a\\nb\\nc\\nd\""),
    ("--[[\r\n]] error('x')", "-ERR user_script:2: x SHA2."),
    ("\rerror('x')", "-ERR user_script:2: x SHA2."),
    ("--\0return 2\nreturn 1", "1"),
    (
        "return {0x10, 0xA, 0x1p4, 0xffffffff, 1e2, .5e1, 3.}",
        "[16, 10, 16, 4294967295, 100, 5, 3]",
    ),
    ("return 0x20000000000001 == 2^53", "1"),
    ("return 0xfffffffffffffffff == 2^68", "1"),
    (
        "local continue, export, type = 1, 2, 3 continue = type return continue",
        "3",
    ),
    (
        "local continue = function(x) return x end continue(1) return continue{2}[1]",
        "2",
    ),
];

#[test]
fn libraries_are_those_of_lua_5_1() {
    check(LIBRARIES);
}

#[rustfmt::skip]
const LIBRARIES: &[(&str, &str)] = &[
    ("return _VERSION", "\"Lua 5.1\""),
    ("return math.log(8, 2) == math.log(8)", "1"),
    ("return string.format('%.4f', math.log(8, 2))", "\"2.0794\""),
    ("return math.log('x')", "-ERR user_script:1: bad argument #1 to \\'log\\' (number expected, got string) SHA1."),
    ("return math.log()", "-ERR user_script:1: bad argument #1 to \\'log\\' (number expected, got no value) SHA1."),
    ("return {table.unpack == nil, #{pcall(function() return table.unpack({1}) end)}}", "[1, 2]"),
    (
        "return {pcall(typeof, 1)}",
        "-ERR user_script:1: Script attempted to access nonexistent global variable \\'typeof\\' SHA1.",
    ),
    ("return typeof(1)", "-ERR user_script:1: Script attempted to access nonexistent global variable \\'typeof\\' SHA1."),
    ("return rawlen({})", "-ERR user_script:1: Script attempted to access nonexistent global variable \\'rawlen\\' SHA1."),
    (
        "return bit32.band(1, 3)",
        "-ERR user_script:1: Script attempted to access nonexistent global variable \\'bit32\\' SHA1.",
    ),
    (
        "return vector.create(1, 2, 3)",
        "-ERR user_script:1: Script attempted to access nonexistent global variable \\'vector\\' SHA1.",
    ),
    (
        "return buffer.create(1)",
        "-ERR user_script:1: Script attempted to access nonexistent global variable \\'buffer\\' SHA1.",
    ),
    ("return {math.round == nil, math.sign == nil, math.clamp == nil}", "[1, 1, 1]"),
    ("table.setn({}, 1)", "-ERR user_script:1: \\'setn\\' is obsolete SHA1."),
    ("return {pcall(table.setn, {}, 1)}", "[nil, \"\\'setn\\' is obsolete\"]"),
    ("return string.dump(redis.call)", "-ERR user_script:1: unable to dump given function SHA1."),
    ("return string.dump()", "-ERR user_script:1: bad argument #1 to \\'dump\\' (function expected, got no value) SHA1."),
    ("return string.dump(1)", "-ERR user_script:1: bad argument #1 to \\'dump\\' (function expected, got number) SHA1."),
    ("return {unpack({}, 1, 1e8)}", "-ERR user_script:1: too many results to unpack SHA1."),
    ("return {unpack({}, 1, 2^31 - 1)}", "-ERR user_script:1: too many results to unpack SHA1."),
    ("return {unpack({}, -2^31, 2^31 - 1)}", "-ERR user_script:1: too many results to unpack SHA1."),
    ("return {unpack({}, 1, 2^31)}", "[]"),
    ("return {unpack({1, 2}, 2, 3)}", "[2]"),
    ("return #{unpack({1, 2, 3})}", "3"),
    ("math.random(0)", "-ERR user_script:1: bad argument #1 to \\'random\\' (interval is empty) SHA1."),
    ("math.random(5, 1)", "-ERR user_script:1: bad argument #2 to \\'random\\' (interval is empty) SHA1."),
    ("math.random(1, 2, 3)", "-ERR user_script:1: wrong number of arguments SHA1."),
    ("math.random('x')", "-ERR user_script:1: bad argument #1 to \\'random\\' (number expected, got string) SHA1."),
    ("math.random(nil)", "-ERR user_script:1: bad argument #1 to \\'random\\' (number expected, got nil) SHA1."),
    ("math.randomseed()", "-ERR user_script:1: bad argument #1 to \\'randomseed\\' (number expected, got no value) SHA1."),
    ("math.randomseed('x')", "-ERR user_script:1: bad argument #1 to \\'randomseed\\' (number expected, got string) SHA1."),
    ("return {pcall(math.random, 0)}", "[nil, \"bad argument #1 to \\'?\\' (interval is empty)\"]"),
    (
        "return {pcall(function() math.randomseed() end)}",
        "[nil, \"user_script:1: bad argument #1 to \\'randomseed\\' (number expected, got no value)\"]",
    ),
    ("math.randomseed('7') return math.random(1000000)", "266445"),
    ("math.randomseed(7) return math.random('1', 1000000)", "266445"),
    ("for i = 1,\n2 do\nerror('x') end", "-ERR user_script:3: x SHA3."),
];

/// The interpreter words them in its own way, and where a wrapper notices one it names the wrapper's line.
#[test]
fn faults_about_arguments_and_patterns_read_as_in_lua_5_1() {
    check(FAULTS);
}

const FAULTS: &[(&str, &str)] = &[
    (
        "return string.rep()",
        "-ERR user_script:1: bad argument #1 to \\'rep\\' (string expected, got no value) SHA1.",
    ),
    (
        "return string.format('%d')",
        "-ERR user_script:1: bad argument #2 to \\'format\\' (no value) SHA1.",
    ),
    (
        "return string.format('%d', 'x')",
        "-ERR user_script:1: bad argument #2 to \\'format\\' (number expected, got string) SHA1.",
    ),
    (
        "return unpack(nil)",
        "-ERR user_script:1: bad argument #1 to \\'unpack\\' (table expected, got nil) SHA1.",
    ),
    (
        "return tonumber('7', 99)",
        "-ERR user_script:1: bad argument #2 to \\'tonumber\\' (base out of range) SHA1.",
    ),
    (
        "return select(0)",
        "-ERR user_script:1: bad argument #1 to \\'select\\' (index out of range) SHA1.",
    ),
    (
        "return setmetatable({})",
        "-ERR user_script:1: bad argument #2 to \\'setmetatable\\' (nil or table expected) SHA1.",
    ),
    (
        "return string.gsub('a', 'a')",
        "-ERR user_script:1: bad argument #3 to \\'gsub\\' (string/function/table expected) SHA1.",
    ),
    (
        "return string.gsub('a')",
        "-ERR user_script:1: bad argument #2 to \\'gsub\\' (string expected, got no value) SHA1.",
    ),
    (
        "return string.find('a')",
        "-ERR user_script:1: bad argument #2 to \\'find\\' (string expected, got no value) SHA1.",
    ),
    (
        "return string.match()",
        "-ERR user_script:1: bad argument #1 to \\'match\\' (string expected, got no value) SHA1.",
    ),
    (
        "return string.gmatch('a')",
        "-ERR user_script:1: bad argument #2 to \\'gmatch\\' (string expected, got no value) SHA1.",
    ),
    (
        "return {pcall(function()\nreturn string.find('a', '[a') end)}",
        "[nil, \"user_script:2: malformed pattern (missing \\']\\')\"]",
    ),
    (
        "return {pcall(function() return string.gsub('a', 'a', '%2') end)}",
        "[nil, \"user_script:1: invalid capture index\"]",
    ),
    (
        "return {xpcall(function() return ('a'):match('%b') end, function(e) return 'h:' .. e end)}",
        "[nil, \"h:user_script:1: unbalanced pattern\"]",
    ),
    (
        "return {pcall(function() return string.gsub('a', 'a', function() return {} end) end)}",
        "[nil, \"user_script:1: invalid replacement value (a table)\"]",
    ),
    (
        "return {pcall(function() return string.gsub('a', 'a',\nfunction() error('own') end) end)}",
        "[nil, \"user_script:2: own\"]",
    ),
    ("return {pcall(error, 5, 0)}", "[nil, 5]"),
    (
        "return {pcall(function() error(5) end)}",
        "[nil, \"user_script:1: 5\"]",
    ),
    ("error(5, 0)", "-ERR 5 SHA1."),
    ("return select('#', pcall(error, {}))", "3"),
    (
        "return {pcall(function() assert(false, '\\200') end)}",
        "[nil, \"user_script:1: \\xc8\"]",
    ),
    (
        "return {pcall(function() cjson.x = 1 end)}",
        "[nil, \"user_script:1: Attempt to modify a readonly table\"]",
    ),
    (
        "return {pcall(error, 'invalid argument #1 to no', 0)}",
        "[nil, \"invalid argument #1 to no\"]",
    ),
];

#[test]
fn patterns_are_those_of_lua_5_1() {
    check(PATTERNS);
}

const PATTERNS: &[(&str, &str)] = &[
    ("return string.gsub('abc', 'b', '%-')", "\"a-c\""),
    ("return string.gsub('abc', 'b', '% x%%')", "\"a x%c\""),
    ("return string.gsub('abc', 'b', 'x%')", "\"ax\\x00c\""),
    ("return string.gsub('abc', 'b', '%%-%')", "\"a%-\\x00c\""),
    (
        "return string.gsub('hello', '(l)', '[%1%0%-%%1]')",
        "\"he[ll-%1][ll-%1]o\"",
    ),
    (
        "return string.gsub('abc', 'b', '%5')",
        "-ERR user_script:1: invalid capture index SHA1.",
    ),
    (
        "return {string.gsub('abc', '%w', '%0%0', 2)}",
        "[\"aabbc\", 2]",
    ),
    (
        "return {string.gsub('abc', '%w', {a = '%-'})}",
        "[\"%-bc\", 3]",
    ),
    ("return {string.gsub('abc', '%w*', 'x')}", "[\"xx\", 2]"),
    ("return string.gsub('abc', 'b', 7)", "\"a7c\""),
    ("return {string.find('a\\0b', '\\0b')}", "[2, 3]"),
    ("return {string.find('a\\0b', '.\\0b')}", "[1, 1]"),
    (
        "return {string.find('a\\0b', '.\\0', 1, true) == nil}",
        "[1]",
    ),
    ("return {string.match('ab', '(.)\\0b')}", "[\"a\"]"),
    (
        "return {string.gsub('abab', 'a\\0b', 'x')}",
        "[\"xbxb\", 2]",
    ),
    ("return {string.gsub('ab', '\\0', 'x')}", "[\"xaxbx\", 3]"),
    (
        "local n = 0 for c in string.gmatch('abc', '.\\0x') do n = n + 1 end return n",
        "3",
    ),
    ("return {('a\\0b'):find('%z')}", "[2, 2]"),
    ("return {string.find('abc', '', 10)}", "[4, 3]"),
    ("return {string.find(123, '', 10)}", "[4, 3]"),
    ("return {string.find('abc', '', 4)}", "[4, 3]"),
    ("return {string.find('abc', '', 5)}", "[4, 3]"),
    ("return {string.find('abc', '', 10, true)}", "[4, 3]"),
    ("return {string.find('abc', '', '10')}", "[4, 3]"),
    ("return {string.find('abc', 'c', 10)}", "[]"),
    ("return {string.find('abc', 'c', -1)}", "[3, 3]"),
    ("return {string.find('abc', '', -10)}", "[1, 0]"),
    ("return {string.match('abc', '()', 10)}", "[4]"),
    ("return {string.find('abc', '$', 9)}", "[4, 3]"),
    // Lua 5.1 has no such class.
    ("return {string.gsub('gag %', '%g', 'x')}", "[\"xax %\", 2]"),
    ("return {string.gsub('G g', '[%G%s]', 'x')}", "[\"xxg\", 2]"),
    ("return {string.find('a%g', '%%g')}", "[2, 3]"),
];

/// All texts are in the tests of the parser.
#[test]
fn what_redis_does_not_compile_is_refused_and_not_kept() {
    for (body, text) in [
        ("for i = 1, 2 do continue end", "'=' expected near 'end'"),
        ("local a = 1 a += 1", "'=' expected near '+'"),
        ("return `x`", "unexpected symbol near '`'"),
        ("return 7 // 2", "unexpected symbol near '/'"),
    ] {
        let expected = format!("ERR Error compiling script (new function): user_script:1: {text}");
        let mut node = Node::default();
        let load: [&[u8]; 3] = [b"SCRIPT", b"LOAD", body.as_bytes()];
        for reply in [super::eval(&mut node, body, &[], &[]), node.execute(&load)] {
            let Reply::Error(error) = reply else {
                panic!("{body}: {reply:?}");
            };
            assert_eq!(error.to_string(), expected);
        }
    }
}

/// The differences that the book lists.
#[test]
fn what_stays_different_is_known() {
    for (body, expected) in [
        // Redis: "done". Its Lua makes room for a tail call by the end of the caller.
        (
            "local function f(n) if n == 0 then return 'done' end return f(n - 1) end return f(100000)",
            "-ERR user_script:1: stack overflow",
        ),
        (
            "local function f(n) if n == 0 then return 'done' end return f(n - 1) end return f(19000)",
            "\"done\"",
        ),
        // Redis: "too many results to unpack".
        ("return #{unpack({1}, 1, 8000)}", "1"),
        // Redis: the bytes of a function.
        (
            "return string.dump(function() end)",
            "-ERR user_script:1: unable to dump given function",
        ),
        // Redis: "attempt to call a table value".
        ("for key, value in {5} do return value end", "5"),
        // Redis: 1, and 5 as a number.
        (
            "return #setmetatable({7}, {__len = function() return 9 end})",
            "9",
        ),
        (
            "return type(tostring(setmetatable({}, {__tostring = function() return 5 end})))",
            "\"string\"",
        ),
        // Redis: "attempt to index a boolean value", before anything is called.
        (
            "return {pcall(function() return (true):x(error('called', 0)) end)}",
            "[nil, \"called\"]",
        ),
        // Redis: "a".
        ("return string.format('%s', 'a\\0b')", "\"a\\x00b\""),
        // Redis: argument 1.
        (
            "return ('x'):rep({})",
            "-ERR user_script:1: bad argument #2 to \\'rep\\' (number expected, got table)",
        ),
        // Redis: "nil".
        ("return type(getmetatable(string))", "\"table\""),
    ] {
        let reply = run(&mut Node::default(), body);
        let reply = reply.split(" script: ").next().unwrap();
        assert_eq!(reply, expected, "{body}");
    }
}
