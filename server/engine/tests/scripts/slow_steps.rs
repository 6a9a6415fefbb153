//! Scripts whose single steps are slow: each operator, method and function over long texts and lists, thousands of times in
//! a row, in each form that a text can have. Whatever a script is made of, it ends soon behind its time limit.
//!
//! Time is what this thread has used of a processor, so that other tests change nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};

use super::{Node, run};
use quorlock_engine::{EngineOptions, RawTime, ScriptLimits};

fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).expect("a time that was used");
    Duration::from_secs(seconds) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

fn node() -> Node {
    let mut node = Node::with(EngineOptions {
        script_limits: ScriptLimits {
            time: LIMIT,
            memory_bytes: 24 << 20,
            body_bytes: 128 << 10,
            ..ScriptLimits::default()
        },
        ..EngineOptions::default()
    });
    let start = used();
    node.engine.set_script_clock(Box::new(move || {
        let nanos = (used() - start).as_nanos();
        RawTime::from_nanos(u64::try_from(nanos).expect("a short test"))
    }));
    node
}

/// Runs a script over long texts; fails where it runs on behind its limit. Says whether the limit ended it.
fn is_ended(body: &str) -> bool {
    let mut node = node();
    let script = format!("redis.call('set', 'new', 1) {PREPARATION} {body}");
    let began = used();
    let reply = run(&mut node, &script);
    let took = used() - began;
    let shown = &body[..body.len().min(300)];
    assert!(took < BOUND, "ended late: {took:?} by {shown}: {reply}");
    let is_ended = reply.starts_with("-ERR Script ended: ");
    let is_there = run(&mut node, "return redis.call('get', 'new')") == "\"1\"";
    assert_eq!(
        is_there,
        !is_ended && !reply.starts_with("-ERR Error compiling"),
        "{shown}: {reply}"
    );
    is_ended
}

/// What a text makes of one operation, thousands of times in a row.
fn text_of(form: usize, operation: &str) -> String {
    let times = (100_000 / (operation.len() + 4)).min(10_000);
    let statement = format!("x={operation}\n");
    let with_value = |before: &str, separator: &str, count: usize, after: &str| {
        format!("{before}{}{after}", vec![operation; count].join(separator))
    };
    match form {
        0 => statement.repeat(times),
        1 => with_value("x={", ",", times, "}"),
        2 => with_value("x=(", ")==(", 190.min(times), ")"),
        3 => with_value("x=select('#',", ",", 200, ")"),
        4 => format!("while true do {} break end", statement.repeat(times)),
        5 => format!("while not x do {statement} end\n").repeat(times / 3),
        6 => format!("if true then {statement} end\n").repeat(times / 3),
        7 => format!(
            "local function f() {} end f()",
            statement.repeat(times.min(1000))
        ),
        8 => format!(
            "local o=setmetatable({{}},{{__add=function() {} end}}) x=o+1",
            statement.repeat(times.min(1000))
        ),
        9 => format!("for i=1,1 do {statement} end\n").repeat(times / 3),
        10 => format!("x=string.rep(s,2)\n{}", statement.repeat(times)),
        _ => format!("for i=1,1e9 do {statement} end"),
    }
}

const FORMS: usize = 12;

#[test]
fn operators_in_a_row_end_with_the_time_limit() {
    let mut ended = 0;
    for operation in OPERATORS {
        for form in 0..FORMS {
            ended += usize::from(is_ended(&text_of(form, operation)));
        }
    }
    assert!(
        ended > OPERATORS.len() * FORMS / 2,
        "{ended}: nothing was slow"
    );
}

#[test]
fn functions_in_a_row_end_with_the_time_limit() {
    for operation in FUNCTIONS {
        for form in [0, 1, 11] {
            is_ended(&text_of(form, operation));
        }
    }
}

/// How often a script looks at the clock.
fn readings_of(script: &str) -> u64 {
    let mut node = Node::default();
    let readings = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&readings);
    node.engine.set_script_clock(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        RawTime::ZERO
    }));
    run(&mut node, script);
    readings.load(Ordering::Relaxed)
}

/// Planted: marks that are no steps when a script holds long texts; marks that are steps without one.
#[test]
fn operators_over_long_texts_are_steps_and_others_are_few() {
    for (text, least, most) in [
        ("local s = string.rep('1', 300000) local x ", 75, 800),
        ("local s = string.rep('1', 3000) local x ", 1, 5),
    ] {
        let readings = readings_of(&format!("{text}{}", "x=-s\n".repeat(300)));
        assert!((least..=most).contains(&readings), "{text}: {readings}");
    }
}

/// What a nested operator is part of is done once it is done.
#[test]
fn nested_operators_end_with_the_time_limit() {
    for (before, after) in [
        ("s+(", ")"),
        ("s*(", ")"),
        ("-(s- ", ")"),
        ("s^", ""),
        ("(", "-s)"),
        ("tonumber(s)+(", ")"),
    ] {
        let nested = format!("x={}s{}\n", before.repeat(60), after.repeat(60));
        assert!(is_ended(&nested.repeat(20)), "{before}");
    }
    let texts = "x=(s<t)==(s..'1'<t)\n".repeat(1000);
    assert!(is_ended(&texts));
}

/// A script that is slow in its last operator alone, and one that makes what is long in another one.
#[test]
fn the_last_operator_counts() {
    let slow = "+s+t+s+t".repeat(2);
    assert!(is_ended(&format!("return 0{}", slow.repeat(10))));
    assert!(is_ended(&format!("return tostring(0{})", slow.repeat(10))));
    assert!(!is_ended("return #s"));
}

/// No operator of a script is a call, but what it calls may be a function of a library that takes long. Planted: a function of
/// the interpreter, which takes no step.
#[test]
fn a_function_of_a_library_that_operators_call_is_a_step() {
    let written = "local l = {} for i = 1, 100000 do l[i] = i end \
                   setmetatable(l, {__add = table.concat}) local x ";
    let readings =
        |operators: usize| readings_of(&format!("{written}{}", "x=l+','\n".repeat(operators)));
    assert_eq!(readings(3) - readings(0), 6, "before and behind each");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Texts that are put together from all of it.
    #[test]
    fn any_text_ends_with_the_time_limit(
        parts in prop::collection::vec(
            (0..FORMS, prop::sample::select([OPERATORS, FUNCTIONS].concat()), 1..400_usize),
            1..6,
        ),
    ) {
        let texts = parts.iter().map(|&(form, operation, count)| {
            let text = text_of(form, operation);
            match text.len() > 20_000 {
                true => format!("x={operation}\n").repeat(count),
                false => format!("do {text} end "),
            }
        });
        is_ended(&texts.collect::<String>());
    }
}

/// `s` and `t` are long numbers that are alike but for their ends, `w` is one behind spaces, `m` is no number, `l` is a long
/// list of numbers, and `r` one that names `s` again and again.
const PREPARATION: &str = "local x
local s = string.rep('1', 4000000)
local t = s .. '2'
local w = string.rep(' ', 4000000) .. '7'
local m = string.rep('ab', 500000)
local l, r = {}, {}
for i = 1, 20000 do l[i] = i end
for i = 1, 2000 do r[i] = s end
";

const OPERATORS: &[&str] = &[
    "-s",
    "s+1",
    "1-s",
    "s*t",
    "w/1",
    "s%7",
    "2^w",
    "s<t",
    "t<=s",
    "s>t",
    "t>=s",
    "s..1",
    "-t+-s",
    "tonumber(s)",
    "s:sub(2)",
    "string.sub(s,2)",
];

const FUNCTIONS: &[&str] = &[
    "#s",
    "not s",
    "s==t",
    "m..m",
    "tostring(s)",
    "tonumber(s,2)",
    "tonumber(w)",
    "math.abs(s)",
    "math.floor(w)",
    "math.max(s,t)",
    "math.max(unpack(r))",
    "math.min(w,s,s,w)",
    "math.fmod(s,w)",
    "math.pow(s,t)",
    "math.ldexp(1,s)",
    "math.log(s)",
    "math.random(1,w)",
    "math.sqrt(s)",
    "string.char(w,w,w)",
    "pcall(string.char,unpack(r))",
    "pcall(math.max,unpack(r))",
    "string.format('%d%d%d',s,s,s)",
    "pcall(string.format,string.rep('%d',5000),unpack(r))",
    "string.format('%s',s)",
    "string.format('%q',m)",
    "string.rep('ab',3000000)",
    "string.rep(s,1)",
    "s:reverse()",
    "s:lower()",
    "m:upper()",
    "s:len()",
    "s:byte(1,-3999000)",
    "m:find('b',1,true)",
    "m:find(string.rep('ab',200)..'c',1,true)",
    "s:find('^1+$')",
    "m:match('(a)(b)')",
    "m:gsub('b','')",
    "m:gsub('a',function(c) return -w end)",
    "m:gsub('.','%0%0')",
    "(m:gmatch('ab'))()",
    "string.find('x',s)",
    "string.find('x',s,1,true)",
    "table.concat(l)",
    "table.concat(l,',')",
    "table.concat(l,s,1,2)",
    "table.concat({s,t})",
    "table.insert(l,1,0)",
    "table.remove(l,1)",
    "table.sort(l,function(a,b) return a>b end)",
    "table.sort({s,t,w,s,t,w})",
    "table.foreach(r,string.byte)",
    "table.foreachi(r,string.byte)",
    "table.sort(r,string.byte)",
    "table.maxn(l)",
    "#l",
    "unpack(l,1,5000)",
    "select('#',unpack(r))",
    "select(w,1,2,3,4,5,6,7)",
    "next(l)",
    "rawequal(s,t)",
    "rawget(l,s)",
    "type(s)",
    "pcall(error,s)",
    "pcall(error,s,w)",
    "cjson.encode(s)",
    "cjson.encode(l)",
    "pcall(cjson.decode,s)",
    "cjson.decode('['..table.concat(l,',')..']')",
    "cmsgpack.pack(s)",
    "cmsgpack.pack(l)",
    "cmsgpack.unpack(cmsgpack.pack(l))",
    "struct.pack('ddd',s,s,s)",
    "struct.pack('s',m)",
    "struct.unpack('c0',s)",
    "bit.band(s,t,s,t)",
    "bit.bor(unpack(r))",
    "bit.tohex(w)",
    "redis.sha1hex(s)",
    "redis.call('echo',s)",
    "redis.call('setrange','other',0,m)",
    "redis.pcall('get',s)",
    "redis.call('exists',unpack(r))",
    "setmetatable({},{__index=l})[s]",
    "({[s]=1})[t]",
];

const LIMIT: Duration = Duration::from_millis(100);

/// Some of the longest steps behind the limit. Without a step between them the texts would take minutes.
const BOUND: Duration = Duration::from_millis(600);
