//! The libraries of scripts: hostile arguments are errors or the end of the script, nothing that is
//! set of them outlives it, and none of them can be changed.

#![allow(
    clippy::disallowed_methods,
    reason = "that a call ends soon is what is tested"
)]

use std::time::{Duration, Instant};

use super::limits::limited;
use super::{Node, run};
use quorlock_engine::ScriptLimits;

/// Enough time for the tests of other limits.
fn patient() -> Node {
    limited(ScriptLimits {
        time: Duration::from_secs(100_000),
        ..ScriptLimits::default()
    })
}

/// The script must reach a limit, and the next one must work.
fn check_ended(mut node: Node, body: &str, limit: &str) {
    let started = Instant::now();
    let reply = run(&mut node, body);
    let expected = format!("-ERR Script ended: {limit}");
    assert!(reply.starts_with(&expected), "{body}: {reply}");
    assert!(started.elapsed() < Duration::from_secs(20), "{body}");
    assert_eq!(run(&mut node, "return 1"), "1", "{body}");
    let memory = node.engine.script_memory();
    assert!(memory < 4 << 20, "{body}: {memory}");
}

#[test]
fn one_long_call_obeys_the_time_limit() {
    for body in [
        "cjson.encode_sparse_array(true, 0) return cjson.encode({[1e9] = 1})",
        "local t = {} for i=1,1000 do t[i] = 1 end return cjson.encode({t,t,t,t,t,t,t,t})",
        "return cjson.decode('[' .. ('1,'):rep(10000) .. '1]')",
        "return cjson.decode(('['):rep(900) .. ('1,'):rep(10000))",
        "local t = {} for i=1,1000 do t[i] = 1 end return cmsgpack.pack({t,t,t,t,t,t,t,t})",
        "local t = {1} for i=1,15 do t = {t,t} end return cmsgpack.pack(t)",
        r"return cmsgpack.unpack_one('\221\0\0\255\255' .. ('\1'):rep(65535))",
        "return struct.pack((' '):rep(10000))",
        "return struct.size(('x'):rep(10000))",
        "while true do bit.bor(1, 2) end",
        "while true do pcall(cjson.decode, '[') end",
    ] {
        check_ended(limited(ScriptLimits::default()), body, "time limit");
    }
}

#[test]
fn what_a_call_makes_counts_as_the_memory_of_its_script() {
    let limits = ScriptLimits {
        time: Duration::from_secs(100_000),
        memory_bytes: 8 << 20,
        ..ScriptLimits::default()
    };
    for body in [
        // Escaped it takes six times the memory.
        r"return cjson.encode(('\1'):rep(3e6))",
        "local s = ('x'):rep(1e6) return cjson.encode({s,s,s,s,s,s,s,s})",
        "local t = {} t[1] = ('x'):rep(1e6) for i=2,20 do t[i] = t[1] end return cmsgpack.pack(t)",
        "return cjson.decode('[' .. ('[],'):rep(400000) .. '1]')",
        r"return cmsgpack.unpack_one('\221\0\15\255\255' .. ('\128'):rep(1e6))",
        "local s = ('x'):rep(1e6) return struct.pack(('s'):rep(20), s,s,s,s,s,s,s,s,s,s,s,s,s,s,s,s,s,s,s,s)",
        "local t = {} for i=1,1e6 do t[i] = cjson.new() end",
    ] {
        check_ended(limited(limits), body, "memory limit");
    }
}

/// Deeper than any stack of the process: refused where Lua's own stack would end.
#[test]
fn what_is_nested_deeply_is_an_error() {
    let mut node = patient();
    for (body, error) in [
        (
            "local t = {} t[1] = t return cjson.encode(t)",
            "excessive nesting (1001)",
        ),
        (
            "local t = {} t.a = t return cjson.encode(t)",
            "excessive nesting (1001)",
        ),
        (
            "cjson.encode_max_depth(2e9) local t = {} t[1] = t return cjson.encode(t)",
            "excessive nesting (7998)",
        ),
        (
            "cjson.encode_max_depth(2e9) local t = {} t.a = t return cjson.encode(t)",
            "excessive nesting (4000)",
        ),
        (
            "return cjson.decode(('['):rep(1e6))",
            "too many nested data structures (1001) at character 1001",
        ),
        (
            "cjson.decode_max_depth(2e9) return cjson.decode(('{\"a\":'):rep(1e5))",
            "too many nested data structures (4000) at character 19996",
        ),
        (
            "return cmsgpack.unpack(('\\145'):rep(1e6))",
            "stack overflow (in function mp_decode_to_lua_array)",
        ),
        (
            "return cmsgpack.unpack(('\\129\\1'):rep(1e6))",
            "stack overflow (too many return values at once",
        ),
        (
            "return cmsgpack.unpack(('\\1'):rep(1e5))",
            "stack overflow (too many return values",
        ),
        (
            "return struct.unpack(('b'):rep(1e5), ('x'):rep(1e5))",
            "stack overflow (too many results)",
        ),
    ] {
        let reply = run(&mut node, body);
        assert!(reply.contains(error), "{body}: {reply}");
    }
    let nested = "local t = {} t[1] = t return #cmsgpack.pack(t)";
    assert_eq!(run(&mut node, nested), "17", "sixteen levels and a nil");
}

#[test]
fn lengths_that_the_data_does_not_have_cost_nothing() {
    let mut node = patient();
    for body in [
        "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
        "return cmsgpack.unpack('\\223\\255\\255\\255\\255\\1')",
        "return cmsgpack.unpack('\\219\\255\\255\\255\\255a')",
    ] {
        let reply = run(&mut node, body);
        assert!(reply.contains("Missing bytes in input."), "{body}: {reply}");
    }
    for body in [
        "return struct.unpack('c2147483647', 'a')",
        "return struct.unpack('b', 'a', -9e15)",
        "return struct.unpack('b', 'a', 9e15)",
        "return struct.unpack('dc0', struct.pack('d', 1e9))",
        "return struct.unpack('dc0', struct.pack('d', -1))",
    ] {
        let reply = run(&mut node, body);
        assert!(reply.contains("data string too short"), "{body}: {reply}");
    }
}

#[test]
fn nothing_that_is_set_outlives_the_script() {
    let mut node = patient();
    let set = "cjson.encode_max_depth(1) cjson.decode_max_depth(1) cjson.encode_number_precision(3) \
               cjson.encode_sparse_array(true, 1, 1) cjson.encode_keep_buffer(false) \
               cjson.encode_invalid_numbers('null') cjson.decode_invalid_numbers(false) \
               return {pcall(cjson.decode, '[[]]')}";
    assert!(run(&mut node, set).contains("too many nested"));
    let shown = "return {cjson.encode_max_depth(), cjson.decode_max_depth(), \
                 cjson.encode_number_precision(), tostring(cjson.encode_sparse_array()), \
                 tostring(cjson.encode_keep_buffer()), tostring(cjson.encode_invalid_numbers()), \
                 tostring(cjson.decode_invalid_numbers())}";
    let expected = r#"[1000, 1000, 14, "false", "true", "false", "true"]"#;
    assert_eq!(run(&mut node, shown), expected);
}

#[test]
fn the_libraries_are_read_only() {
    let mut node = patient();
    for library in ["bit", "cjson", "cmsgpack", "struct"] {
        for body in [
            format!("{library}.x = 1"),
            format!("rawset({library}, 'x', 1)"),
            format!("for name in pairs({library}) do {library}[name] = nil end"),
            format!("setmetatable({library}, {{}})"),
            format!("table.insert({library}, 1)"),
            format!("{library} = nil"),
        ] {
            let reply = run(&mut node, &body).to_lowercase();
            assert!(reply.contains("readonly table"), "{body}: {reply}");
        }
    }
    let own = "local json = cjson.new() json.x = 1 json.encode_max_depth(1) \
               return {json.x, json.encode_max_depth(), cjson.encode_max_depth()}";
    assert_eq!(run(&mut node, own), "[1, 1, 1000]");
}
