//! Locks that end with the connection that took them.

use std::time::Duration;

use quorlock_agent_simulation::Agents;
use quorlock_engine::Reply;

use crate::agents;

/// Client 7 of the first agent sends this.
fn send(agents: &mut Agents, words: &[&str]) -> Reply {
    let id = agents.begin_for(7, 0, words);
    agents.reply(id)
}

/// Another agent's caller takes the lock soon after the session has ended.
fn ends_with_session(agents: &mut Agents) {
    let take = ["SET", "a", "you", "NX", "PX", "1000"];
    assert_eq!(agents.send(1, &take), Reply::Nil);
    agents.leave(7, 0);
    agents.pass(Duration::from_millis(50));
    assert_eq!(agents.send(1, &take), Reply::Ok);
}

#[test]
fn all_readers_of_one_name_end_with_their_session() {
    let mut agents = agents();
    assert_eq!(send(&mut agents, &["LOCK.SESSION", "ON"]), Reply::Ok);
    let mut tokens = Vec::new();
    for reader in ["ann", "bob", "eve", "joe"] {
        let words = ["LOCK.ACQUIRE", "a", reader, "30000", "SHARED"];
        match send(&mut agents, &words) {
            Reply::Array(parts) => match &parts[..] {
                [_, _, Reply::Bulk(token), _] => {
                    tokens.push(String::from_utf8_lossy(token).into_owned());
                }
                _ => panic!("{parts:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
    // One is released and one is extended before.
    let release = ["LOCK.RELEASE", "a", &tokens[1]];
    assert_eq!(send(&mut agents, &release), Reply::Integer(1));
    let extend = ["LOCK.EXTEND", "a", &tokens[2], "40000"];
    assert_eq!(send(&mut agents, &extend), Reply::Integer(1));
    ends_with_session(&mut agents);
}

#[test]
fn a_lock_that_is_being_extended_when_its_session_ends_is_released() {
    let mut agents = agents();
    assert_eq!(send(&mut agents, &["LOCK.SESSION", "ON"]), Reply::Ok);
    let obtain = ["EVAL", OBTAIN, "1", "a", "me", "60000"];
    assert_eq!(send(&mut agents, &obtain), Reply::Integer(1));
    agents.asked.clear();
    agents.begin_for(7, 0, &obtain);
    while agents.asked.last() != Some(&"set end") {
        assert!(agents.advance(), "it is extended");
    }
    agents.leave(7, 0);
    agents.pass(Duration::from_millis(50));
    assert_eq!(agents.stored("a"), None);
    let take = ["SET", "a", "you", "NX", "PX", "1000"];
    assert_eq!(agents.send(1, &take), Reply::Ok);
}

/// Takes a lock, or extends it under a token of a new attempt.
const OBTAIN: &str = "
    local holder = redis.call('GET', KEYS[1])
    if holder == ARGV[1] then
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return 1
    elseif not holder then
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        return 1
    end
    return 0
";
