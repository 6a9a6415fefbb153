//! What lock libraries do in their scripts: the same calls, arguments and idioms, in our own
//! words. Tests with the libraries themselves are elsewhere; these are quick and run always.

use std::time::Duration;

use super::{Node, render, state_of};

fn eval(node: &mut Node, body: &str, keys: &[&str], rest: &[&str]) -> String {
    render(&super::eval(node, body, keys, rest))
}

/// The release of the Redlock page.
const COMPARE_AND_DELETE: &str = r#"
    if redis.call("get",KEYS[1]) == ARGV[1] then
        return redis.call("del",KEYS[1])
    else
        return 0
    end"#;

/// The extension that goes with it, with commands in capitals as redsync sends them.
const COMPARE_AND_PEXPIRE: &str = r#"
    if redis.call("GET", KEYS[1]) == ARGV[1] then
        return redis.call("PEXPIRE", KEYS[1], ARGV[2])
    elseif redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then
        return 1
    else
        return 0
    end"#;

/// A script with these keys and these arguments has this reply.
#[track_caller]
fn expect(node: &mut Node, script: &str, keys: &str, arguments: &str, reply: &str) {
    let keys: Vec<&str> = keys.split_whitespace().collect();
    let rest: Vec<&str> = arguments.split_whitespace().collect();
    assert_eq!(eval(node, script, &keys, &rest), reply, "{keys:?} {rest:?}");
}

#[test]
fn only_the_owner_deletes() {
    let mut node = Node::default();
    node.run("SET lock mine NX PX 30000");
    expect(&mut node, COMPARE_AND_DELETE, "lock", "other", "0");
    assert_eq!(node.run("GET lock"), "\"mine\"");
    expect(&mut node, COMPARE_AND_DELETE, "lock", "mine", "1");
    expect(&mut node, COMPARE_AND_DELETE, "lock", "mine", "0");
    node.run("SET lock mine NX PX 30000");
    node.advance(Duration::from_millis(30_000));
    // It has expired.
    expect(&mut node, COMPARE_AND_DELETE, "lock", "mine", "0");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
}

#[test]
fn only_the_owner_extends_and_a_free_lock_is_taken_again() {
    let mut node = Node::default();
    node.run("SET lock mine NX PX 1000");
    expect(&mut node, COMPARE_AND_PEXPIRE, "lock", "mine 8000", "1");
    assert_eq!(node.run("PTTL lock"), "8000");
    expect(&mut node, COMPARE_AND_PEXPIRE, "lock", "other 9000", "0");
    assert_eq!(node.run("PTTL lock"), "8000");
    node.advance(Duration::from_millis(8000));
    expect(&mut node, COMPARE_AND_PEXPIRE, "lock", "other 500", "1");
    assert_eq!(node.run("GET lock"), "\"other\"");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
}

/// Several names at once, as node-redlock takes them; unlocking goes through pcall.
#[test]
fn several_names_are_taken_extended_and_released_together() {
    let acquire = r#"
        -- nothing if one of them is taken
        for i, key in ipairs(KEYS) do
          if redis.call("exists", key) == 1 then return 0 end
        end
        for i, key in ipairs(KEYS) do
          redis.call("set", key, ARGV[1], "PX", ARGV[2])
        end
        return #KEYS
    "#;
    let extend = r#"
        for i, key in ipairs(KEYS) do
          if redis.call("get", key) ~= ARGV[1] then return 0 end
        end
        for i, key in ipairs(KEYS) do
          redis.call("set", key, ARGV[1], "PX", ARGV[2])
        end
        return #KEYS
    "#;
    let release = r#"
        local count = 0
        for i, key in ipairs(KEYS) do
          if redis.call("get", key) == ARGV[1] then
            redis.pcall("del", key)
            count = count + 1
          end
        end
        return count
    "#;
    let mut node = Node::default();
    let names = ["a", "b", "c"];
    assert_eq!(eval(&mut node, acquire, &names, &["mine", "5000"]), "3");
    assert_eq!(node.log.len(), 1, "all of them in one group");
    expect(&mut node, acquire, "c d", "other 5000", "0");
    assert_eq!(node.run("EXISTS d"), "0");
    assert_eq!(eval(&mut node, extend, &names, &["mine", "9000"]), "3");
    assert_eq!(node.run("PTTL c"), "9000");
    assert_eq!(eval(&mut node, extend, &names, &["other", "1"]), "0");
    expect(&mut node, release, "a x", "mine", "1");
    assert_eq!(eval(&mut node, release, &names, &["mine"]), "2");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
}

/// A reentrant lock in a hash, as Redisson has it: `nil` means taken, a number how long to wait.
const REENTRANT_LOCK: &str = "if (redis.call('exists', KEYS[1]) == 0) \
    or (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1); \
    redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
    return redis.call('pttl', KEYS[1]);";

/// Its release: the publishing command's name comes as an argument.
const REENTRANT_UNLOCK: &str = "local done = redis.call('get', KEYS[3]); \
    if done ~= false then return tonumber(done); end; \
    if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; \
    local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); \
    if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); \
    redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; \
    else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); \
    redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end;";

/// Its renewal, for many locks in one script.
const RENEWAL: &str = "local result = {} for i = 1, #KEYS, 1 do \
    if (redis.call('hexists', KEYS[i], ARGV[i + 1]) == 1) then \
    redis.call('pexpire', KEYS[i], ARGV[1]); table.insert(result, 1); \
    else table.insert(result, 0); end; end; return result;";

#[test]
fn a_reentrant_lock_counts_and_renews() {
    let mut node = Node::default();
    let (mine, other) = ("uuid:1", "uuid:2");
    assert_eq!(
        eval(&mut node, REENTRANT_LOCK, &["r"], &["30000", mine]),
        "nil"
    );
    assert_eq!(
        eval(&mut node, REENTRANT_LOCK, &["r"], &["30000", mine]),
        "nil"
    );
    node.advance(Duration::from_millis(1000));
    assert_eq!(
        eval(&mut node, REENTRANT_LOCK, &["r"], &["30000", other]),
        "29000"
    );
    assert_eq!(node.run("HGETALL r"), "[\"uuid:1\", \"2\"]");
    assert_eq!(
        eval(&mut node, RENEWAL, &["r", "s"], &["30000", mine, mine]),
        "[1, 0]"
    );
    assert_eq!(node.run("PTTL r"), "30000");

    let keys = ["r", "channel", "latch:1"];
    let unlock = |node: &mut Node, latch: &str, owner: &str| {
        let rest = ["0", "30000", owner, "PUBLISH", "3000"];
        eval(node, REENTRANT_UNLOCK, &[keys[0], keys[1], latch], &rest)
    };
    assert_eq!(unlock(&mut node, "latch:0", other), "nil");
    assert_eq!(unlock(&mut node, "latch:1", mine), "0");
    assert_eq!(
        unlock(&mut node, "latch:1", mine),
        "0",
        "a repeated request changes nothing"
    );
    assert_eq!(unlock(&mut node, "latch:2", mine), "1");
    assert_eq!(node.run("EXISTS r"), "0");
    assert_eq!(state_of(&mut node.replayed(), node.now.node), node.state());
}

/// redis-py adds an argument, which is a text, to what PTTL returned.
#[test]
fn time_is_added_to_what_is_left() {
    let extend = r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        local left = redis.call('pttl', KEYS[1])
        if not left then
            left = 0
        end
        if left < 0 then
            return 0
        end
        local new = ARGV[2]
        if ARGV[3] == "0" then
            new = ARGV[2] + left
        end
        redis.call('pexpire', KEYS[1], new)
        return 1
    "#;
    let mut node = Node::default();
    node.run("SET lock mine PX 1000");
    expect(&mut node, extend, "lock", "mine 500 0", "1");
    assert_eq!(node.run("PTTL lock"), "1500");
    expect(&mut node, extend, "lock", "mine 500 1", "1");
    assert_eq!(node.run("PTTL lock"), "500");
    node.run("PERSIST lock");
    // It has no TTL.
    expect(&mut node, extend, "lock", "mine 500 0", "0");
    expect(&mut node, extend, "gone", "mine 500 0", "0");
}

/// aioredlock answers through error_reply and status_reply.
#[test]
fn scripts_answer_with_statuses_and_errors() {
    let set = r#"
        local owner = redis.call('get', KEYS[1])
        if owner == ARGV[1] or owner == false and ARGV[3] == 'take' then
            return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
        end
        return redis.error_reply('ERROR')
    "#;
    let release = r#"
        if redis.call('get', KEYS[1]) == ARGV[1] then
            redis.call('del', KEYS[1])
            return redis.status_reply('OK')
        else
            return redis.error_reply('ERROR')
        end
    "#;
    let left = r#"
        if redis.call('get', KEYS[1]) == ARGV[1] then
            return redis.call('TTL', KEYS[1])
        else
            return redis.error_reply('ERROR')
        end
    "#;
    let mut node = Node::default();
    assert_eq!(
        eval(&mut node, set, &["l"], &["me", "10000", ""]),
        "-ERR ERROR"
    );
    expect(&mut node, set, "l", "me 10000 take", "OK");
    expect(&mut node, left, "l", "me", "10");
    expect(&mut node, left, "l", "you", "-ERR ERROR");
    expect(&mut node, release, "l", "you", "-ERR ERROR");
    expect(&mut node, release, "l", "me", "OK");
}

/// Functions over KEYS, as bsm/redislock uses them: the least time left of several keys.
#[test]
fn functions_of_a_script_see_its_keys() {
    let least = r#"
        local function held()
            for i, key in ipairs(KEYS) do
                local value = redis.call('get', key)
                if not value or string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then
                    return false
                end
            end
            return true
        end
        if not held() then return false end
        local least = nil
        for _, key in ipairs(KEYS) do
            local ttl = redis.call('pttl', key)
            if ttl > 0 and (not least or ttl < least) then least = ttl end
        end
        return least
    "#;
    let mut node = Node::default();
    node.run("SET a token-meta PX 5000");
    node.run("SET b token PX 3000");
    expect(&mut node, least, "a b", "token", "3000");
    // Not the keys of the call before.
    expect(&mut node, least, "a", "token", "5000");
    expect(&mut node, least, "a c", "token", "nil");
}

/// The lists of nothing and something that redlock-rb and Redisson's fenced lock return.
#[test]
fn lists_keep_their_nothings() {
    let mut node = Node::default();
    let both = "return { redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1]) }";
    expect(&mut node, both, "l", "", "[nil, -2]");
    node.run("SET l t PX 100");
    expect(&mut node, both, "l", "", "[\"t\", 100]");
    let fenced = "redis.call('incr', KEYS[2]) return {-1, tonumber(redis.call('get', KEYS[2]))}";
    expect(&mut node, fenced, "l fence", "", "[-1, 1]");
    expect(&mut node, fenced, "l fence", "", "[-1, 2]");
}

/// Redisson's read-write lock counts down from a text and makes the names of its keys.
#[test]
fn loops_count_down_from_a_text_and_keys_may_be_made_up() {
    let left = "local remain = -3; for _, owner in ipairs(redis.call('hkeys', KEYS[1])) do \
        local counter = redis.call('hget', KEYS[1], owner); \
        if type(tonumber(counter)) == 'number' then \
        for i = counter, 1, -1 do \
        remain = math.max(remain, redis.call('pttl', KEYS[2] .. ':' .. owner .. ':' .. i)); \
        end; end; end; return math.max(remain, ARGV[1]);";
    let mut node = Node::default();
    node.run("HSET rw mode read one 2");
    node.run("SET t:one:1 1 PX 700");
    node.run("SET t:one:2 1 PX 900");
    expect(&mut node, left, "rw t", "-2", "900");
    expect(&mut node, left, "rw t", "1500", "1500");
}

/// DistributedLock and symfony read the time; SELECT stays inside the script.
#[test]
fn scripts_read_the_wall_clock_and_choose_a_database() {
    let mut node = Node::default();
    let now = "redis.replicate_commands(); local t = redis.call('TIME'); \
        return redis.call('type', KEYS[1]).ok .. ' ' .. math.floor((t[1] * 1000) + (t[2] / 1000))";
    expect(&mut node, now, "none", "", "\"none 1700000000123\"");
    let other = "redis.pcall('SELECT', tonumber(ARGV[2])) \
        return redis.call('set', KEYS[1], ARGV[1], 'PX', 1000, 'NX')";
    expect(&mut node, other, "l", "t 2", "OK");
    expect(&mut node, other, "l", "t 2", "nil");
    assert_eq!(node.run("EXISTS l"), "0");
}
