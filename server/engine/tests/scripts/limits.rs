//! Scripts that mean harm, or go wrong: every one ends in bounded time and memory, leaves nothing
//! behind, and the next script knows nothing of it.

#![allow(
    clippy::disallowed_methods,
    reason = "that a script ends soon is what is tested"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::{Node, run, state_of};
use quorlock_engine::{EngineOptions, RawTime, ScriptLimits};

/// A node whose scripts are measured by a clock that moves one millisecond with each reading.
fn node() -> Node {
    limited(ScriptLimits::default())
}

pub(super) fn limited(script_limits: ScriptLimits) -> Node {
    let mut node = Node::with(EngineOptions {
        script_limits,
        ..EngineOptions::default()
    });
    let mut now = RawTime::ZERO;
    node.engine.set_script_clock(Box::new(move || {
        now = now.plus_nanos(1_000_000);
        now
    }));
    node
}

/// The script must reach the limit; everything it did must be gone, and scripts go on working.
fn check_ended(mut node: Node, body: &str, limit: &str) {
    node.run("SET lock token PX 30000");
    node.run("HSET h f 1");
    let before = (node.state(), node.log.len());
    let writing = format!(
        "redis.call('del','lock') redis.call('set','new','1') redis.call('hset','h','f',2) {body}"
    );
    let started = Instant::now();
    let reply = run(&mut node, &writing);
    assert!(
        reply.starts_with(&format!("-ERR Script ended: {limit}")),
        "{body}: {reply}"
    );
    assert!(reply.contains("all its effects were undone"), "{reply}");
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{body}: {:?}",
        started.elapsed()
    );
    assert_eq!(
        (node.state(), node.log.len()),
        before,
        "{body}: undone, and nothing logged"
    );
    assert_eq!(
        run(&mut node, "return redis.call('get','lock')"),
        "\"token\"",
        "{body}"
    );
    assert!(
        node.engine.script_memory() < 4 << 20,
        "{body}: {}",
        node.engine.script_memory()
    );
    assert_eq!(node.run("SET after 1 PX 1000"), "OK");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
}

#[test]
fn endless_scripts_are_ended_by_time() {
    let limit = "time limit of 500 ms reached";
    for body in [
        "while true do end",
        "repeat until false",
        "for i=1,1e18 do end",
        "while true do redis.call('get','lock') end",
        "local function f() return f() end while true do pcall(f) end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "pcall(function() while true do end end) return 'survived'",
        "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
        "local t = setmetatable({}, {__index = function(t, k) return t[k] end}) while true do pcall(function() return t.x end) end",
        "while true do redis.pcall('nosuch') end",
        "while true do pcall(error, {}) end",
        "while true do local ok = pcall(redis.call, 'nosuch') end",
    ] {
        check_ended(node(), body, limit);
    }
}

/// Planted: the limit is not looked at once more when a script has come to its end.
#[test]
fn a_script_that_is_slow_behind_its_last_step_is_ended_too() {
    let mut node = Node::default();
    let mut now = RawTime::ZERO;
    node.engine.set_script_clock(Box::new(move || {
        now = now.plus_nanos(600_000_000);
        now
    }));
    // The clock is read at the eighth step, and there is no sixteenth.
    check_ended(
        node,
        "for i=1,4 do end return 1",
        "time limit of 500 ms reached",
    );
}

#[test]
fn many_arguments_are_passed_on_or_refused() {
    let mut node = Node::default();
    let body = |count: usize| {
        format!(
            "local t = {{}} for i=1,{count} do t[i] = 'k' .. i end return redis.call('del', unpack(t))"
        )
    };
    for count in [1, 100, 5000] {
        assert_eq!(run(&mut node, &body(count)), "0");
    }
    for count in [7990, 8000, 20_000, 200_000] {
        let reply = run(&mut node, &body(count));
        assert!(
            reply == "0" || reply.starts_with("-ERR"),
            "{count}: {reply}"
        );
    }
    assert_eq!(run(&mut node, "return redis.call('del', 'k1')"), "0");
}

/// A fault of the node itself must stop the node, not become an error that a script can catch.
#[test]
fn a_panic_below_a_script_cannot_be_caught_by_it() {
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function(e) return e end) end",
        "while true do xpcall(function() while true do end end, function(e) while true do end end) end",
    ] {
        let mut node = limited(ScriptLimits {
            steps: 100_000,
            ..ScriptLimits::default()
        });
        node.engine
            .set_script_clock(Box::new(|| std::panic::resume_unwind(Box::new("a fault"))));
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut node, body)));
        assert!(outcome.is_err(), "{body}: {outcome:?}");
    }
}

#[test]
fn the_number_of_steps_is_limited_too() {
    let limits = ScriptLimits {
        steps: 10_000,
        ..ScriptLimits::default()
    };
    let mut node = Node::with(EngineOptions {
        script_limits: limits,
        ..EngineOptions::default()
    });
    assert_eq!(run(&mut node, "for i=1,5000 do end return 1"), "1");
    check_ended(node, "while true do end", "limit of 10000 steps reached");
}

#[test]
fn greedy_scripts_are_ended_by_memory() {
    let limit = "memory limit of 67108864 bytes reached";
    for body in [
        "return #string.rep('x', 1e9)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i=1,1e9 do t[i] = {} end",
        "local t = {} for i=1,1e9 do t[i] = tostring(i) end",
        "local t = {} for i=1,100 do t[i] = ('x'):rep(1e6) .. i end return 1",
        "local t = {} while true do pcall(function() for i=1,1e9 do t[#t+1] = {i} end end) end",
        "pcall(string.rep, 'x', 1e9) return 'survived'",
        "xpcall(string.rep, function() return 1 end, 'x', 1e9) return 'survived'",
        "local t = {} for i=1,100 do t[i] = ('x'):rep(1e6) end return table.concat(t)",
        "return ('x'):rep(1e7):gsub('x', ('y'):rep(100))",
    ] {
        let mut node = limited(ScriptLimits::default());
        node.engine.set_script_clock(Box::new(|| RawTime::ZERO));
        check_ended(node, body, limit);
    }
}

#[test]
fn a_memory_limit_that_was_reached_leaves_the_next_script_all_its_memory() {
    let mut node = node();
    for _ in 0..5 {
        let reply = run(&mut node, "local t = {} for i=1,1e9 do t[i] = {} end");
        assert!(reply.starts_with("-ERR Script ended: "), "{reply}");
        assert_eq!(run(&mut node, "return #string.rep('x', 4e7)"), "40000000");
    }
}

#[test]
fn writing_too_much_ends_a_script() {
    let body = "local v = ('x'):rep(1e5) for i=1,1e6 do redis.call('set','k'..i,v) end";
    let mut node = node();
    node.engine.set_script_clock(Box::new(|| RawTime::ZERO));
    check_ended(node, body, "limit of 4194304 bytes written reached");
}

#[test]
fn deep_recursion_is_an_error_of_the_script() {
    for body in [
        "local function f() return 1 + f() end return f()",
        "local function f(...) return f(1, ...) end return f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k .. 'x'] end return t.a",
        "local function f() pcall(f) end f() return 1",
        "return unpack({}, 1, 1e8)",
        "local t = {} for i=1,1e5 do t = {t} end return 1",
        "return (('('):rep(5e5)):find(('('):rep(5e5))",
        "local s = 'return ' .. ('('):rep(1e5) return s",
    ] {
        let started = Instant::now();
        let mut node = node();
        run(&mut node, body);
        assert!(started.elapsed() < Duration::from_secs(10), "{body}");
        assert_eq!(run(&mut node, "return 1"), "1");
    }
    let long = || {
        limited(ScriptLimits {
            body_bytes: 1 << 20,
            ..ScriptLimits::default()
        })
    };
    let deep = format!("return {}1{}", "(".repeat(50_000), ")".repeat(50_000));
    assert!(run(&mut long(), &deep).starts_with("-ERR Error compiling script"));
    let nested = format!("{}{}", "do ".repeat(30_000), "end ".repeat(30_000));
    assert!(run(&mut long(), &nested).starts_with("-ERR Error compiling script"));
}

#[test]
fn no_single_step_takes_long() {
    for body in [
        "return ('a'):rep(3e5):find(('a*'):rep(20) .. 'b')",
        "return ('a'):rep(1e7):find('[' .. ('b'):rep(1e6) .. ']*')",
        "return ('a'):rep(2e7):find(('a'):rep(1e7) .. 'b', 1, true)",
        "return ('a'):rep(2e7):find(('a'):rep(1e7) .. 'b')",
        "return ('a'):rep(1e7):gsub('.-b', '')",
        "return ('a'):rep(1e6):match('.-.-.-.-b')",
        "for w in ('a'):rep(1e7):gmatch('a-b') do end",
        "local a, b = ('x'):rep(1e7) .. 'a', ('x'):rep(1e7) .. 'b' local t = {} for i=1,1e5 do t[i] = i % 2 == 0 and a or b end table.sort(t) return 1",
        "return ('x'):rep(1e6):rep(60):upper():lower():reverse():len()",
        "while true do ('x'):rep(1e7) end",
    ] {
        let mut node = Node::default();
        let start = Instant::now();
        node.engine.set_script_clock(Box::new(move || {
            RawTime::from_nanos(start.elapsed().as_nanos().try_into().unwrap())
        }));
        run(&mut node, body);
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{body}: {:?}",
            start.elapsed()
        );
        assert_eq!(run(&mut node, "return 1"), "1");
    }
}

#[test]
fn nothing_reaches_out_of_the_script() {
    for name in [
        "loadstring",
        "load",
        "loadfile",
        "dofile",
        "getfenv",
        "setfenv",
        "newproxy",
        "print",
        "collectgarbage",
        "gcinfo",
        "coroutine",
        "require",
        "module",
        "package",
        "debug",
        "os",
        "io",
        "utf8",
        "buffer",
        "vector",
        "bit32",
        "typeof",
        "integer",
    ] {
        let reply = run(&mut node(), &format!("return {name}"));
        let text = format!("nonexistent global variable \\'{name}\\'");
        assert!(reply.contains(&text), "{name}: {reply}");
        let reply = run(&mut node(), &format!("return rawget(_G, '{name}') == nil"));
        assert_eq!(reply, "1", "{name}");
    }
    for name in [
        "string.pack",
        "table.unpack",
        "table.create",
        "table.move",
        "table.freeze",
    ] {
        assert_eq!(
            run(&mut node(), &format!("return {name} == nil")),
            "1",
            "{name}"
        );
    }
}

#[test]
fn nothing_shared_can_be_changed() {
    for body in [
        "x = 1",
        "_G.x = 1",
        "_G._G = 1",
        "rawset(_G, 'x', 1)",
        "redis.call = nil",
        "rawset(redis, 'call', 1)",
        "server.call = nil",
        "string.rep = nil",
        "table.insert(table, 1)",
        "math.pi = 3",
        "getmetatable('').__index = {}",
        "rawset(getmetatable(''), '__index', {})",
        "getmetatable('').__add = function() end",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "setmetatable(string, {})",
        "getmetatable(string).__index = {}",
        "getmetatable(string).__index['(arg)'] = type",
        "getmetatable(_G).__index = function() return 1 end",
        "redis.call('set','a','b').ok = 'changed'",
        "setmetatable(redis.call('set','a','b'), {})",
    ] {
        let mut node = node();
        let reply = run(&mut node, body);
        assert!(
            reply.contains("Attempt to modify a readonly table"),
            "{body}: {reply}"
        );
        assert_eq!(run(&mut node, "return ('x'):rep(2)"), "\"xx\"", "{body}");
        let reply = run(&mut node, "return x");
        assert!(
            reply.contains("nonexistent global variable"),
            "{body}: {reply}"
        );
        assert_eq!(
            run(&mut node, "return redis.call('set','a','b')"),
            "OK",
            "{body}"
        );
    }
}

#[test]
fn metatables_of_a_scripts_own_tables_cannot_fool_the_node() {
    let mut node = node();
    let body = "local t = setmetatable({}, {__index = function() return 'x' end}) return t";
    assert_eq!(
        run(&mut node, body),
        "[]",
        "results are read without metatables"
    );
    let body = "return setmetatable({err='E x'}, {__tostring = function() error('no') end})";
    assert_eq!(run(&mut node, body), "-E x");
    let body = "error(setmetatable({}, {__tostring = function() while true do end end}))";
    assert!(run(&mut node, body).starts_with("-ERR the script raised a table"));
}

#[test]
fn errors_are_cut_and_their_lines_are_left_to_the_protocol() {
    let mut node = node();
    let reply = run(&mut node, "error(('x'):rep(1e6))");
    assert!(reply.len() < 5000, "{}", reply.len());
    let reply = run(&mut node, "error({err = 'A b\\r\\n+OK\\r\\n'})");
    assert!(reply.starts_with("-A b\\r\\n+OK\\r\\n script: "), "{reply}");
}

#[test]
fn state_does_not_leak_into_the_next_script() {
    let mut node = node();
    run(
        &mut node,
        "redis.setresp(3) redis.call('select', 5) math.randomseed(99) error('x')",
    );
    let body = "return {redis.call('get','nothing') == false, math.random(1000000)}";
    assert_eq!(run(&mut node, body), run(&mut self::node(), body));
    assert_eq!(run(&mut node, "return redis.call('set','a','1')"), "OK");
    assert_eq!(
        node.run("GET a"),
        "\"1\"",
        "written to the caller's database"
    );
}

#[test]
fn a_known_script_keeps_nothing_of_what_it_had() {
    let mut node = node();
    for number in 0..8 {
        let body = format!(
            "local t = {{('x'):rep(2e7)}} local f = function() return t end return #f()[1] + {number}"
        );
        assert_eq!(run(&mut node, &body), (20_000_000 + number).to_string());
    }
    assert!(
        node.engine.script_memory() < 25 << 20,
        "{}",
        node.engine.script_memory()
    );
}

#[test]
fn a_text_cannot_close_the_function_around_it() {
    let reply = run(&mut node(), "return 1 end, function() return 2");
    assert!(reply.starts_with("-ERR Error compiling script"), "{reply}");
    assert_eq!(
        run(&mut node(), "return 1 -- the last line may be a comment"),
        "1"
    );
    assert_eq!(run(&mut node(), "return select('#', ...)"), "0");
}

#[test]
fn garbage_of_many_scripts_does_not_pile_up() {
    let mut node = node();
    for number in 0..300 {
        let body = format!("local t = {{}} for i=1,2000 do t[i] = {{i}} end return {number}");
        assert_eq!(run(&mut node, &body), number.to_string());
    }
    assert!(
        node.engine.script_memory() < 16 << 20,
        "{}",
        node.engine.script_memory()
    );
}

#[test]
fn require_ttl_judges_what_a_script_leaves_behind() {
    let options = EngineOptions {
        require_ttl: true,
        ..EngineOptions::default()
    };
    let mut node = Node::with(options);
    let body = "redis.call('set','a','1') redis.call('pexpire','a',1000) return 1";
    assert_eq!(
        run(&mut node, body),
        "1",
        "only the state at the end counts"
    );
    for body in [
        "return redis.call('set','b','1')",
        "return redis.call('persist','a')",
        "return redis.call('pexpire','a',100000000)",
        "redis.call('set','b','1') error('late')",
    ] {
        let reply = run(&mut node, body);
        assert!(
            reply.starts_with("-ERR this node requires a TTL"),
            "{body}: {reply}"
        );
    }
    assert_eq!(node.run("PTTL a"), "1000");
    assert_eq!(node.run("EXISTS b"), "0");
}
