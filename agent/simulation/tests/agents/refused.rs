//! What is no step of a lock.

use quorlock_engine::Reply;

use crate::{agents, code, text, token};

#[test]
fn what_is_no_step_of_a_lock_is_refused_and_changes_nothing() {
    let mut agents = agents();
    agents.send(0, &["SET", "held", "me", "NX", "PX", "60000"]);
    for words in [
        // Keys without an end.
        &["SET", "a", "me", "NX"][..],
        &["SETNX", "a", "me"],
        &["INCR", "a"],
        &["PERSIST", "held"],
        // Another token than the holder's.
        &["SET", "held", "you", "PX", "9000"],
        &["GETSET", "held", "you"],
        &["APPEND", "held", "x"],
        // Other types.
        &["HSET", "a", "f", "v"],
        &["LPUSH", "a", "x"],
        &["SADD", "a", "x"],
        // Other keys than the script names.
        &["EVAL", "return redis.call('get', 'other')", "1", "a"],
        &[
            "EVAL",
            "return redis.call('set', 'other', 'x', 'px', 9)",
            "1",
            "a",
        ],
        &["EVAL", "redis.call('flushall') return 1", "1", "held"],
        &[
            "EVAL",
            "redis.call('publish', 'c', 'm') return 1",
            "1",
            "held",
        ],
        &[
            "EVAL",
            "return redis.call('getdel', KEYS[1] .. ':w')",
            "1",
            "a",
        ],
        &[
            "EVAL",
            "return redis.call('del', KEYS[1] .. ':w')",
            "1",
            "held",
        ],
        &["EVAL", "return redis.call('dbsize')", "1", "a"],
        &["EVAL", "return #redis.call('keys', '*')", "1", "a"],
        // Longer than nodes keep a key.
        &["SET", "a", "me", "NX", "PX", "40000000000"],
    ] {
        let reply = agents.send(0, words);
        assert_eq!(code(&reply), "NOTALOCK", "{words:?}: {}", text(&reply));
    }
    assert_eq!(token(&agents, "held").as_deref(), Some("me"));
    assert_eq!(agents.stored("a"), None);
    assert_eq!(agents.stored("other"), None);
    // Nothing of a request that was refused is left behind for the next one.
    assert_eq!(agents.send(0, &["EXISTS", "a"]), Reply::Integer(0));
    assert_eq!(agents.send(0, &["EXISTS", "other"]), Reply::Integer(0));
}

#[test]
fn what_a_node_refuses_an_agent_refuses_in_the_same_words() {
    let mut agents = agents();
    let wrong = agents.send(0, &["SET", "a", "me", "NX", "PX", "0"]);
    assert_eq!(text(&wrong), "ERR invalid expire time in 'set' command");
    let loops = agents.send(
        0,
        &["EVAL", "return redis.call('nothing', KEYS[1])", "1", "a"],
    );
    assert_eq!(code(&loops), "ERR");
}

#[test]
fn a_message_within_a_transaction_or_a_script_is_refused_with_the_reason_and_a_way_out() {
    let mut agents = agents();
    agents.send(0, &["SET", "held", "me", "NX", "PX", "60000"]);
    let transaction: [&[&str]; 2] = [&["DEL", "held"], &["PUBLISH", "c", "m"]];
    let id = agents.begin(0, &transaction, true);
    let refused = text(&agents.reply(id));
    assert!(refused.starts_with("NOTALOCK "), "{refused}");
    assert!(refused.contains("between MULTI and EXEC"), "{refused}");
    assert!(
        refused.contains("Send PUBLISH by itself, behind EXEC"),
        "{refused}"
    );
    let script = "redis.call('del', KEYS[1]) redis.call('publish', 'c', 'm') return 1";
    let refused = text(&agents.send(0, &["EVAL", script, "1", "held"]));
    assert!(
        refused.starts_with("NOTALOCK the script publishes"),
        "{refused}"
    );
    assert!(
        refused.contains("send PUBLISH by itself behind the script"),
        "{refused}"
    );
    let refused = text(&agents.send(0, &["SPUBLISH", "c", "m"]));
    assert!(
        refused.contains("Use PUBLISH, which goes through all nodes"),
        "{refused}"
    );
    assert_eq!(token(&agents, "held").as_deref(), Some("me"));
}
