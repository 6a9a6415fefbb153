//! What redis-server 7.0.15 says of texts, what is rewritten, and that nothing hostile takes long.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::*;

fn text_of(source: &str) -> String {
    String::from_utf8(translated(source.as_bytes()).unwrap().into_owned()).unwrap()
}

fn refusal_of(source: &[u8]) -> (u32, String) {
    let refusal = translated(source).unwrap_err();
    // Line ends become spaces in every error reply.
    let message = String::from_utf8_lossy(&refusal.message).replace('\n', " ");
    (refusal.line, message)
}

/// Planted: a script that needs no rewriting is copied; `arg` of the script itself is one.
#[test]
fn usual_scripts_are_left_as_they_are() {
    for source in [
        "",
        "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end",
        "local t = {a = 1, [2] = 'x'; f(), ...} for k, v in pairs(t) do if k then break end end",
        "local function f(...) return select('#', ...), 0.5e3, \"\\n\\065\" end return f(arg) -- arg",
        "function t.a.b:c(d, ...) repeat local x = -#t ^ 2 .. 'y' until not x end return [==[\n]]]=]]==];",
        "local continue, type = 1, 2 continue = type while true do local x = (f)'a'{b}:c [[d]] break end",
    ] {
        assert!(
            matches!(translated(source.as_bytes()), Ok(Cow::Borrowed(_))),
            "{source}"
        );
    }
}

/// Few operators need no mark. Of many each fourth has one: a step where a long text may have come about, else what becomes
/// a step when there is one; and behind what an operand does itself.
#[test]
fn many_operators_in_a_row_get_marks() {
    for (source, text) in [
        ("return a+b-c*d", "return a+b-c*d"),
        (
            "return -1<2, a<1, a==b, a~=c, not a, #a",
            "return -1<2, a<1, a==b, a~=c, not a, #a",
        ),
        (
            "return a+b-c-d-e",
            "return a+b-c-d-(__quorlock_step and(e))",
        ),
        (
            "f() return a+b-c-d-e",
            "f() return a+b-c-d-(__quorlock_step(1,(e)))",
        ),
        (
            "return a..b, c+d+e+f",
            "return a..b, c+d+e+(__quorlock_step(1,(f)))",
        ),
        (
            "return a+(b+(c+(d+(e+f))))",
            "return a+(__quorlock_step(1,((b+(c+(d+(e+f)))))))",
        ),
        (
            "local x = redis.call('a') x=a<b x=a<c redis.call(x) x=a+b+c+d",
            "local x = redis.call('a') x=a<b x=a<c redis.call(x) x=a+b+c+d",
        ),
        (
            "f() x=a+b+c for i=1,n do x=x+1 end",
            "f() x=a+b+c  __quorlock_step(1) for i=1,n do x=x+1 end",
        ),
        ("f() for i=1,2 do x=x+1 end", "f() for i=1,2 do x=x+1 end"),
        (
            "x=__quorlock_step+b+c+d+0xA",
            "x=__quorlock_step+b+c+d+(__quorlock_step0 and(1e1))",
        ),
    ] {
        assert_eq!(text_of(source), text, "{source}");
    }
}

/// Each mark has that name. Planted: it becomes longer until the text does not hold it.
#[test]
fn the_name_of_the_marks_is_short_whatever_the_text_holds() {
    let taken = format!("--__quorlock_step{}\n", "_".repeat(60_000));
    let numbers: String = (0..3_000)
        .map(|n| format!("--__quorlock_step{n}\n"))
        .collect();
    for (before, name) in [
        (taken, "__quorlock_step0"),
        (numbers, "__quorlock_step3000"),
        (
            "--__quorlock_step99999999999\n".to_owned(),
            "__quorlock_step0",
        ),
    ] {
        let text = text_of(&format!("{before}return a+b-c-d-e"));
        let marked = format!("return a+b-c-d-({name} and(e))");
        assert!(text.ends_with(&marked), "{}", &text[before.len()..]);
    }
}

#[test]
fn a_vararg_function_gets_arg_on_the_line_where_it_begins() {
    for (source, text) in [
        (
            "local function f(a, ...)\nreturn arg.n end",
            "local function f(a, ...) local arg=(\"\")[\"(arg)\"](...); \nreturn arg.n end",
        ),
        (
            "local function f(...) return arg, ... end",
            "local function f(...) local arg; return arg, ... end",
        ),
        (
            "local f = function(...) return function(...) return ... end, arg end",
            "local f = function(...) local arg=(\"\")[\"(arg)\"](...);  return function(...) return ... end, arg end",
        ),
        (
            "function f(a) return arg end",
            "function f(a) return arg end",
        ),
    ] {
        assert_eq!(
            text_of(source).replace(";  ", "; "),
            text.replace(";  ", "; ")
        );
    }
}

#[test]
fn literals_are_written_so_that_luau_reads_the_same() {
    for (source, text) in [
        ("return '\\x41\\u{41}\\z  b'", "return \"x41u{41}z  b\""),
        ("return '\\x\\\nb'", "return \"x\\\nb\""),
        ("return 'a\\\rb'", "return \"a\\\nb\""),
        ("return 'a\0\"\\\\'", "return \"a\\000\\\"\\\\\""),
        (
            "return [[\r\na\rb\n\rc\r\nd]]",
            "return \n\"a\\\nb\\\nc\\\nd\"",
        ),
        ("--[[a\0\rb]] return 0x1P4", " \n return 1.6e1"),
        ("return--[[\0]]1", "return 1"),
        ("--a\0b\rreturn 1", "--a b\nreturn 1"),
    ] {
        assert_eq!(text_of(source), text, "{source}");
    }
}

#[test]
fn what_lua_5_1_does_not_compile_is_refused_in_its_words() {
    for (source, line, message) in REFUSED {
        assert_eq!(
            refusal_of(source.as_bytes()),
            (*line, (*message).to_owned()),
            "{source}"
        );
    }
}

#[rustfmt::skip]
const REFUSED: &[(&str, u32, &str)] = &[
    ("while true do continue end", 1, "'=' expected near 'end'"),
    ("local a=1 a += 1", 1, "'=' expected near '+'"),
    ("return `x`", 1, "unexpected symbol near '`'"),
    ("return 7//2", 1, "unexpected symbol near '/'"),
    ("return 0b1", 1, "malformed number near '0b1'"),
    ("return 1_000", 1, "malformed number near '1_000'"),
    ("local x = if true then 1 else 2", 1, "unexpected symbol near 'if'"),
    ("local x: number = 1", 1, "unexpected symbol near ':'"),
    ("@native local function f() end", 1, "unexpected symbol near '@'"),
    ("type x = number", 1, "'=' expected near 'x'"),
    ("return 1 != 2", 1, "'<eof>' expected near '!'"),
    ("local x <const> = 1", 1, "unexpected symbol near '<'"),
    ("export type x = 1", 1, "'=' expected near 'type'"),
    ("return f<<number>>()", 1, "unexpected symbol near '<'"),
    ("::a::", 1, "unexpected symbol near ':'"),
    ("goto a", 1, "'=' expected near 'a'"),
    ("return a::number", 1, "'<name>' expected near ':'"),
    ("x", 1, "'=' expected near '<eof>'"),
    ("(x)=1", 1, "syntax error near '='"),
    ("(f())", 1, "syntax error near '<eof>'"),
    ("f()=1", 1, "unexpected symbol near '='"),
    ("return return", 1, "unexpected symbol near 'return'"),
    ("break", 1, "no loop to break near '<eof>'"),
    ("while true do break print(1) end", 1, "'end' expected near 'print'"),
    ("local function f() return ... end", 1, "cannot use '...' outside a vararg function near '...'"),
    ("f\n(1)", 2, "ambiguous syntax (function call x new statement) near '('"),
    ("f(\n1", 2, "')' expected (to close '(' at line 1) near '<eof>'"),
    ("if x then\n\n", 3, "'end' expected (to close 'if' at line 1) near '<eof>'"),
    ("if x then", 1, "'end' expected near '<eof>'"),
    ("a='abc\ndef'", 1, "unfinished string near ''abc'"),
    ("a='abc", 1, "unfinished string near '<eof>'"),
    ("a=[[abc", 1, "unfinished long string near '<eof>'"),
    ("--[[ abc", 1, "unfinished long comment near '<eof>'"),
    ("a=[=x", 1, "invalid long string delimiter near '[='"),
    ("a='b\\300'", 1, "escape sequence too large near ''b'"),
    ("a=\"x\\\"y\" \"z\\n\"", 1, "unexpected symbol near '\"z \"'"),
    ("x = }", 1, "unexpected symbol near '}'"),
    ("x=\u{1}", 1, "unexpected symbol near 'char(1)'"),
    ("x=\0", 1, "unexpected symbol"),
    ("a='b\0c' 'd\0e'", 1, "unexpected symbol near ''d'"),
    ("for 1", 1, "'<name>' expected near '1'"),
    ("for i", 1, "'=' or 'in' expected near '<eof>'"),
    ("for i=1 do", 1, "',' expected near 'do'"),
    ("for i in x", 1, "'do' expected near '<eof>'"),
    ("local 1", 1, "'<name>' expected near '1'"),
    ("local function 1", 1, "'<name>' expected near '1'"),
    ("function 1", 1, "'<name>' expected near '1'"),
    ("function a.1", 1, "'(' expected near '.1'"),
    ("function a:b.c() end", 1, "'(' expected near '.'"),
    ("function f(1)", 1, "<name> or '...' expected near '1'"),
    ("function f(a,) end", 1, "<name> or '...' expected near ')'"),
    ("function f(..., a) end", 1, "')' expected near ','"),
    ("x={1,2", 1, "'}' expected near '<eof>'"),
    ("x={\n1", 2, "'}' expected (to close '{' at line 1) near '<eof>'"),
    ("x={a=1 b}", 1, "'}' expected near 'b'"),
    ("x={[1]}", 1, "'=' expected near '}'"),
    ("x:y", 1, "function arguments expected near '<eof>'"),
    ("x:1()", 1, "'<name>' expected near '1'"),
    ("x.'a'", 1, "'<name>' expected near ''a''"),
    ("x[1", 1, "']' expected near '<eof>'"),
    ("return 1 2", 1, "'<eof>' expected near '2'"),
    ("return 3..2", 1, "malformed number near '3..2'"),
    ("return 0x", 1, "malformed number near '0x'"),
    ("return 0x.8", 1, "malformed number near '0x'"),
    ("return 1e+", 1, "malformed number near '1e+'"),
    ("return 1.2.3", 1, "malformed number near '1.2.3'"),
    ("a b", 1, "'=' expected near 'b'"),
    ("a,b=", 1, "unexpected symbol near '<eof>'"),
    ("a,f()=1,2", 1, "syntax error near '='"),
    ("repeat", 1, "'until' expected near '<eof>'"),
    ("repeat until", 1, "unexpected symbol near '<eof>'"),
    ("x = #", 1, "unexpected symbol near '<eof>'"),
    ("a 'x' b", 1, "'=' expected near '<eof>'"),
    ("a\rb", 2, "'=' expected near 'b'"),
    ("\n\rx", 2, "'=' expected near '<eof>'"),
    ("function f() end end", 1, "'<eof>' expected near 'end'"),
    ("else", 1, "'<eof>' expected near 'else'"),
    ("return;;", 1, "'<eof>' expected near ';'"),
    ("local a;;", 1, "unexpected symbol near ';'"),
    ("do break end", 1, "no loop to break near 'end'"),
    ("local x = function() break end", 1, "no loop to break near 'end'"),
    ("x = ..", 1, "unexpected symbol near '..'"),
    ("x = ...\nlocal function f() x = ... end", 2, "cannot use '...' outside a vararg function near '...'"),
    ("x='a\\\nb\n", 2, "unfinished string near ''a b'"),
    ("x = {f = 1, g h}", 1, "'}' expected near 'h'"),
    ("elseif", 1, "'<eof>' expected near 'elseif'"),
    ("a.b:c = 1", 1, "function arguments expected near '='"),
    ("for a.b in c do end", 1, "'=' or 'in' expected near '.'"),
    ("local a.b", 1, "unexpected symbol near '.'"),
    ("x = function f() end", 1, "'(' expected near 'f'"),
    ("return 'a' 'b'", 1, "'<eof>' expected near ''b''"),
];

#[test]
fn what_is_nested_is_bounded_as_in_lua() {
    let levels = "chunk has too many syntax levels";
    let variables = "main function has more than 199 variables in assignment";
    let parentheses = |count: usize| format!("return {}1{}", "(".repeat(count), ")".repeat(count));
    let blocks = |count: usize| "do ".repeat(count) + &"end ".repeat(count);
    let joined = |count: usize| format!("return {}", vec!["a"; count].join(".."));
    let assigned = |count: usize| format!("{}=1", vec!["a"; count].join(","));
    for (source, is_refused, message) in [
        (parentheses(198), parentheses(199), levels),
        (blocks(199), blocks(200), levels),
        (joined(199), joined(200), levels),
        (assigned(200), assigned(201), variables),
    ] {
        assert!(translated(source.as_bytes()).is_ok(), "{source}");
        assert_eq!(refusal_of(is_refused.as_bytes()), (1, message.to_owned()));
    }
}

/// Each piece of a text cut at every byte, and many of each piece: an answer comes for 16 KiB of any two of them, within a
/// tenth of a millisecond each where this was written.
#[test]
fn no_text_takes_long_or_more_than_the_stack() {
    let pieces = [
        "[",
        "[=",
        "[[",
        "]=",
        "--[",
        "--[==[",
        "'",
        "\"\\",
        "'\\x",
        "\\",
        "(",
        "{",
        "{{",
        "a.",
        "a=",
        "f(",
        "f{",
        "not ",
        "- ",
        "-",
        "a..",
        "a^",
        "function(...)arg=",
        "function f(...)",
        "if a then ",
        "elseif a then ",
        "else ",
        "end ",
        "repeat ",
        "do ",
        "for i=1,",
        "while a do ",
        "local a ",
        "a,",
        "0x",
        "1.",
        "1e",
        ".",
        "..",
        "arg ",
        "\r",
        "\n",
        "\0",
        "`",
        "return ",
        "break ",
        ";",
        "\u{fc}",
        "a'",
        "a[",
        "a:b",
        "f'x\0'",
        "0x1p9",
    ];
    for first in pieces {
        for second in pieces {
            let source =
                format!("{first}{second}").repeat((16 << 10) / (first.len() + second.len()));
            if let Ok(text) = translated(source.as_bytes()) {
                assert!(text.len() <= source.len() * 4, "{first:?} {second:?}");
            }
        }
    }
    let source: String = pieces.concat();
    for end in 0..source.len() {
        let _ = translated(&source.as_bytes()[..end]);
    }
}
